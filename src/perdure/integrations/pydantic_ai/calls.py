"""Tools of a durable agent: each call is one action of the task, and so is each output function.

What a tool says to the agent by raising (try again, failed, deferred, to be approved) is a result like any other, put
on record and raised again. Made by `lasting.py`, around all tools of a run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, RunContext, ToolFailed, ToolReturn
from pydantic_ai.messages import ToolReturnContent
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset
from pydantic_core import PydanticSerializationError, to_jsonable_python

from perdure.engine.outcomes import is_uncertain
from perdure.errors import ToolInvalid
from perdure.integrations.pydantic_ai.effects import Effects
from perdure.integrations.pydantic_ai.runs import Attempt, Run, type_text
from perdure.tools.recording import record_error

CONTENT: Final = TypeAdapter[Any](ToolReturnContent)
RETURN: Final = TypeAdapter[Any](ToolReturn)

Call = Callable[[], Awaitable[Any]]


@dataclass
class DurableToolset(WrapperToolset[Any]):
    """Calls tools through the task."""

    run: Run
    effects: Effects

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools; one that only a running toolset knows is refused here, before the model is asked."""
        found = await super().get_tools(ctx)
        for name in found:
            self.effects.refuse_undeclared(name)
        return found

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:  # noqa: ANN401 - whatever the tool gives
        """Return the result on record, or call."""

        async def call() -> Any:  # noqa: ANN401 - as above
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        if self.effects.is_program(name):
            return await call()
        identity = ctx.tool_call_id or name
        if ctx.tool_call_approved:  # the call before it, under the same id, may have said that it must be
            identity = f"{identity} approved"
        return await answered(self.run, self.effects, (name, identity), tool_args, call)


async def answered(run: Run, effects: Effects, called: tuple[str, str], arguments: Any, call: Call) -> Any:  # noqa: ANN401
    """Return what the call `called` (name, id) gives, from the record or now. Raises what it has told the agent."""
    name, identity = called
    attempt = Attempt(run)
    is_free = effects.is_free(name)

    async def body() -> dict[str, Any]:
        return await attempt.of(_told(name, call, is_free=is_free))

    acting = run.task.using(key=run.call_key(identity))
    plain = to_jsonable_python(arguments, bytes_mode="base64", inf_nan_mode="strings", fallback=type_text)
    return _given_back(await attempt.answer_of(acting.act(effects.tool_of(name, body), plain)))


async def _told(name: str, call: Call, *, is_free: bool) -> dict[str, Any]:
    """Return what a call says, as JSON: `says` tells how, so that what a probe or a person says can be told from it."""
    try:
        result = await call()
    except (ModelRetry, ToolFailed) as refused:
        if not is_free and (doubt := _doubt_in(refused)):
            raise doubt from None
        return {"says": "retry" if isinstance(refused, ModelRetry) else "failed", "message": refused.message}
    except ApprovalRequired as asked:
        return {"says": "approve", "metadata": _plain(asked.metadata)}
    except CallDeferred as deferred:
        return {"says": "deferred", "metadata": _plain(deferred.metadata), "kind": deferred.kind}
    adapter, says = (RETURN, "return") if isinstance(result, ToolReturn) else (CONTENT, "value")
    try:
        return {"says": says, "value": adapter.dump_python(result, mode="json")}
    except PydanticSerializationError as error:
        if is_free:
            raise ToolInvalid(name, f"what it returns must be JSON: {error}") from error
    plain = adapter.dump_python(result, mode="json", fallback=type_text)  # it has happened: that is to stay known
    return {"says": says, "value": plain}


def _given_back(told: Any) -> Any:  # noqa: ANN401 - whatever the tool gave
    """Return or raise what `_told` has put on record; of a call that somebody else has settled, what they say."""
    match told:
        case {"says": "retry", "message": str(message)}:
            raise ModelRetry(message)
        case {"says": "failed", "message": str(message)}:
            raise ToolFailed(message)
        case {"says": "approve", "metadata": metadata}:
            raise ApprovalRequired(metadata=metadata)
        case {"says": "deferred", "metadata": metadata, "kind": kind}:
            raise CallDeferred(metadata=metadata, kind=kind)
        case {"says": "return", "value": value}:
            return RETURN.validate_json(msgspec.json.encode(value))
        case {"says": "value", "value": value}:
            return CONTENT.validate_json(msgspec.json.encode(value))
        case _:
            return told


def _doubt_in(refused: Exception) -> BaseException | None:
    """Return what leaves open whether it has happened, where a tool has made a word to the model of it.

    That is a connection that broke, for one. Told so, the model would call again.
    """
    cause = refused.__cause__ or refused.__context__
    return cause if cause is not None and is_uncertain(record_error(cause)) else None


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    return to_jsonable_python(value, fallback=type_text)
