"""`perdure.sync`: the same API without `await`, for plain functions and threads.

    with perdure.sync.open() as runtime:
        print(runtime.run(report, "report-42", args={"urls": urls}))

A portal leads into an event loop that runs in a thread of its own; what is called here is done there and waited for, so
no logic is copied. A plain program, and the body of an `edit`, run in the thread that called `run`; reducers (`then=`)
and coroutine tools run in the portal's. Written by users; `perdure resume` and the asynchronous runtime run plain
programs as well, in a thread that they get for it.
"""
# ruff: noqa: ANN401 - acts pass on a tool's own parameters and results, programs return what they like

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Generator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from perdure.engine import programs
from perdure.engine import task as handles
from perdure.engine.opening import open_runtime
from perdure.engine.portal import Portal, new_portal
from perdure.engine.programs import Program, ProgramOptions
from perdure.errors import UsageError
from perdure.sync.bodies import run_body
from perdure.sync.runtime import Runtime
from perdure.sync.task import Task, Using

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["DeclareProgram", "Runtime", "Task", "Using", "open", "program"]


@contextlib.contextmanager
def open(store: str | os.PathLike[str] | None = None, **options: Any) -> Generator[Runtime]:  # noqa: A001 - the public name
    """Open a store and a runtime on it, as `perdure.open`: `with perdure.sync.open() as runtime:`.

    Leaving the block waits for calls of other threads; where it is left by an exception, their tasks are paused first.
    """
    with new_portal() as door, door.hold(open_runtime, store, **options) as inner:
        portal = door.do(Portal.here)  # another into the same loop, with calls of its own
        runtime = Runtime(portal, inner)
        try:
            yield runtime
        except BaseException:
            runtime.request_stop("pause")
            raise
        finally:
            portal.wait_for_calls()


class DeclareProgram(Protocol):
    """What `program(...)` returns: makes a program of a plain function."""

    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> Program[P, R]:
        """Make the program."""
        ...


@overload
def program(fn: Callable[Concatenate[Any, P], R], /) -> Program[P, R]: ...
@overload
def program(**options: Unpack[ProgramOptions]) -> DeclareProgram: ...
def program(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a plain function as a program: `@perdure.sync.program`, with the options of `perdure.program`.

    The function gets a `perdure.sync.Task`. It is found again by its import path as any program. Raises as
    `perdure.program`; UsageError for a coroutine function.
    """

    def declare(fn: Callable[..., Any], /) -> Program[..., Any]:
        if inspect.iscoroutinefunction(fn):
            raise UsageError(f"{fn.__name__!r} is a coroutine function; declare it by `@perdure.program`")

        @functools.wraps(fn)
        async def bridge(task: handles.Task, /, **arguments: Any) -> Any:
            return await run_body(fn, task, arguments)

        return programs.program(**options)(bridge)

    return declare if fn is None else declare(fn)
