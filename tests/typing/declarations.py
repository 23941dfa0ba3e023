"""Uses of `@tool` and `@program` as a type checker sees them. Checked by test_declarations.py, never run.

Each wrong use carries an ignore: mypy reports an ignore that hides nothing.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ParamSpec, TypeVar, assert_type

from perdure.engine.programs import Program, program
from perdure.model.effect import Effect, EffectKey
from perdure.tools import Tool, tool

P = ParamSpec("P")
R = TypeVar("R")


async def act(tool: Tool[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Stand for `task.act`."""
    result: R = await tool.call(tool.bind(args, kwargs))
    return result


@tool(effect="pure", valid=bool)
async def fetch(url: str, depth: int = 1) -> str:
    """A coroutine function."""
    return url * depth


@tool(effect="irreversible", timeout_s=3, secrets=("token",))
def send(text: str) -> int:
    """A plain function."""
    return len(text)


@tool(effect="idempotent")
async def publish(text: str, key: EffectKey) -> bytes:
    """A keyed one."""
    return f"{text}{key}".encode()


@tool(retry="keyed", undo="nothing")
def put(text: str, key: EffectKey) -> float:
    """Keyed, both answers written out."""
    return len(text + key)


@tool(effect=Effect(retry="never", undo="impossible"), undo=publish, name="other")
def fire(text: str) -> None:
    """Taken back by another tool."""


@program(state={"n": 0}, failures_max=2)
async def report(task: object, urls: list[str], limit: int = 3) -> str:
    """A program with options."""
    return f"{task}{urls}{limit}"


@program
async def bare(task: object) -> int:
    """A program without."""
    return 3


async def right() -> None:
    """What fits."""
    assert_type(await act(fetch, "u", depth=2), str)
    assert_type(await act(send, "u"), int)
    assert_type(await act(publish, "text"), bytes)
    assert_type(await act(put, "text"), float)
    await act(fire, "u")
    assert_type(await assert_type(fetch("u"), Coroutine[Any, Any, str]), str)
    assert_type(send("u"), int)
    assert_type(await report(None, ["u"], limit=3), str)
    assert_type(bare, Program[[], int])


async def wrong() -> None:
    """What does not."""
    await act(fetch, 3)  # type: ignore[arg-type]
    await act(fetch, "u", dept=1)  # type: ignore[call-arg]
    await act(send)  # type: ignore[call-arg]
    send(3)  # type: ignore[arg-type]
    await report(None, "u")  # type: ignore[arg-type]
    tool(effect="harmless")  # type: ignore[call-overload]
    tool(effect="pure", payed=True)  # type: ignore[call-overload]
    program(failures_max="3")  # type: ignore[call-overload]
    send.effect = fetch.effect  # type: ignore[misc]
