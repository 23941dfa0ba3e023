"""What a verb is given, as one value: each class of options becomes the parameters of a command. And its store."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import msgspec
import typer

from perdure.config import Config, load_config
from perdure.errors import TaskUnknown

if TYPE_CHECKING:
    from perdure.ports import Store

Given = TypeVar("Given", bound="StoreOptions")

Name = Annotated[str, typer.Argument(metavar="TASK", help="Name or id of a task, or the beginning of either.")]


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every verb takes that looks at a store."""

    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/reference/cli.md).")] = False
    store: Annotated[
        str | None, typer.Option("--store", metavar="PLACE", help="Path or URL of the store.", show_default=False)
    ] = None

    def config(self, **flags: str | bool | None) -> Config:
        """Return all settings; a flag that is None or False was not given."""
        given = {"store": self.store, **flags}
        return load_config({key: value for key, value in given.items() if value})

    @property
    def place(self) -> str:
        """Path or URL of the store."""
        return self.config().text("store")


class WorkOptions(StoreOptions, frozen=True, kw_only=True):
    """What run and resume share."""

    unattended: Annotated[bool, typer.Option("--unattended", help="What needs a person fails instead.")] = False
    wait: Annotated[bool, typer.Option("--wait", help="Wait here, however long it takes, instead of parking.")] = False
    now: Annotated[bool, typer.Option("--now", help="Do not wait the rest of a wait that has begun.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of single actions.")] = False


class TaskOptions(StoreOptions, frozen=True, kw_only=True):
    """What every verb takes that is about one task."""

    name: Name


def taking(options: type[Given]) -> Callable[[Callable[[Given], None]], Callable[..., None]]:
    """Make a verb of a function of one value: its command gets a parameter for each field of `options`."""
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.required else field.default,
            annotation=hints[field.name],
        )
        for field in msgspec.structs.fields(options)
    ]

    def declare(fn: Callable[[Given], None]) -> Callable[..., None]:
        def verb(**given: Any) -> None:  # noqa: ANN401 - what typer has parsed
            fn(options(**given))

        verb.__name__, verb.__doc__, verb.__annotations__ = fn.__name__, fn.__doc__, hints
        vars(verb)["__signature__"] = inspect.Signature(parameters)
        return verb

    return declare


@contextlib.asynccontextmanager
async def opened(place: str) -> AsyncGenerator[Store]:
    """Open the store for looking; where there is none, an empty one that leaves nothing behind."""
    from perdure.clock import SystemClock
    from perdure.stores.opening import open_store

    store = await open_store("memory://" if is_absent(place) else place, SystemClock())
    try:
        with looked_for_in(place):
            yield store
    finally:
        await store.close()


@contextlib.contextmanager
def looked_for_in(place: str) -> Generator[None]:
    """Have it said in which store a task was not found: it is easily another one than was meant."""
    try:
        yield
    except TaskUnknown as unknown:
        raise TaskUnknown(unknown.name, place, is_absent=is_absent(place)) from None


def refuse_absent(place: str, name: str) -> None:
    """Raise TaskUnknown where there is no store: a command on a task that cannot be there makes none."""
    if is_absent(place):
        raise TaskUnknown(name, place, is_absent=True)


def is_absent(place: str) -> bool:
    """Whether `place` is a file that does not exist."""
    path = place.removeprefix("sqlite:///")
    return "://" not in path and not os.path.lexists(path)


def wait_for(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end."""
    import asyncio

    asyncio.run(work)
