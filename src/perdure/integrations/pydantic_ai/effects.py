"""What the tools of an agent do to the world, as a user says it, and tools of perdure made of that.

Decides nothing and calls nothing. Called by `durable`, and by `calls.py` for each call.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, cast, get_args

from perdure.errors import ToolUndeclared, UsageError
from perdure.model.effect import PRESETS, Effect, EffectKey
from perdure.tools import Tool, tool
from perdure.tools.declare import Preset

EffectSpec: TypeAlias = str | Effect | Mapping[str, Any]
"""A preset, "program", an `Effect`, or keywords of `perdure.tool` with one of these as `effect`."""

PROGRAM: Final = "program"  # no action of its own: run in each life, what it calls through the task is on record
NAMES: Final = ("idempotent", *(name for name in get_args(Preset) if name != "compensable"), PROGRAM)
OPTIONS: Final = frozenset({
    "effect", "retry", "probe", "settle_s", "timeout_s", "paid", "poll", "provider", "secrets", "source",
})  # fmt: skip

Body: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]

_key: ContextVar[str] = ContextVar("perdure_pydantic_ai_key", default="")


def effect_key() -> str:
    """Return the key of the running call of an idempotent tool: the same each time that it is sent.

    Raises UsageError outside of one.
    """
    key = _key.get()
    if not key:
        raise UsageError('effect_key() is for tools that are declared "idempotent", while they run')
    return key


class Effects:
    """The declarations of one block, by name of the tool."""

    def __init__(self, given: Mapping[str, EffectSpec]) -> None:
        self._options = {name: _options_of(name, one) for name, one in given.items()}
        for name in self._options:
            if not self.is_program(name):
                self.tool_of(name, _nothing)  # what contradicts itself is refused here

    def refuse_undeclared(self, name: str) -> None:
        """Raise ToolUndeclared for a tool without an effect."""
        if name not in self._options:
            raise ToolUndeclared(name, f'effects={{{name!r}: "pure"}}')

    def is_program(self, name: str) -> bool:
        """Whether the tool is part of the program. Raises ToolUndeclared."""
        self.refuse_undeclared(name)
        return self._options[name].get("effect") == PROGRAM

    def is_free(self, name: str) -> bool:
        """Whether calling it again does no harm. Raises ToolUndeclared."""
        return not self.is_program(name) and self.tool_of(name, _nothing).effect.is_free

    def tool_of(self, name: str, body: Body) -> Tool[..., Any]:
        """Return `body` as a declared tool that takes `arguments`. Raises ToolUndeclared."""
        self.refuse_undeclared(name)
        options = self._options[name]
        if not _is_keyed(options):

            async def plainly(arguments: Any) -> Any:  # noqa: ANN401, ARG001 - for the record
                return await body()

            return cast("Tool[..., Any]", tool(name=name, **options)(plainly))

        async def keyed(arguments: Any, key: EffectKey) -> Any:  # noqa: ANN401, ARG001 - as above
            token = _key.set(key)
            try:
                return await body()
            finally:
                _key.reset(token)

        return cast("Tool[..., Any]", tool(name=name, **options)(keyed))


def _options_of(name: str, given: EffectSpec) -> dict[str, Any]:
    """Return the keywords for `perdure.tool`. Raises UsageError."""
    options: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"effect": given}
    unknown = sorted(options.keys() - OPTIONS)
    if unknown:
        raise UsageError(f"effects[{name!r}] has {unknown[0]!r}, which is none of {', '.join(sorted(OPTIONS))}")
    effect = options.get("effect")
    if isinstance(effect, str) and effect not in NAMES:
        raise UsageError(f"effects[{name!r}] = {effect!r} is not one of {', '.join(NAMES)}, nor a `perdure.Effect`")
    if isinstance(effect, Effect) and effect.undo == "function":
        raise UsageError(f"effects[{name!r}]: a rollback could not find what takes it back; call it in the program")
    if effect == PROGRAM and len(options) > 1:
        raise UsageError(f"effects[{name!r}]: what is part of the program is no action, and has no other options")
    if callable(probe := options.get("probe")):
        options["probe"] = _by_names(probe)
    return options


def _is_keyed(options: Mapping[str, Any]) -> bool:
    effect = options.get("effect")
    preset = PRESETS[effect] if isinstance(effect, str) else effect
    return (options.get("retry") or getattr(preset, "retry", "")) == "keyed"


def _by_names(probe: Callable[..., Any]) -> Callable[..., Any]:
    """Return a probe that is asked as the tool is called: with the arguments by name, not all of them in one."""

    @functools.wraps(probe)
    def ask(arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - its answer, or what is to be awaited for it
        return probe(**arguments)

    return ask


async def _nothing() -> dict[str, Any]:
    return {}
