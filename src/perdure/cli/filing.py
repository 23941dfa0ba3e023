"""The verb `file`: what a file of a task's workspace was, at any entry of its journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.options import TaskOptions, opened, taking, wait_for
from perdure.cli.terminal import say, say_bytes, say_json, say_table
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.ports import Store
    from perdure.views.files import Standing


class FileOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `file`."""

    path: Annotated[str, typer.Argument(metavar="[PATH]", help="Path in the workspace.", show_default=False)] = ""
    at: Annotated[str, typer.Option(metavar="WHEN", help="At an entry's number or a checkpoint's name.")] = ""
    listed: Annotated[bool, typer.Option("--list", help="List what stands in the workspace, or in folder PATH.")] = (
        False
    )
    to: Annotated[str, typer.Option(metavar="FILE", help="Write the bytes into a new file instead.")] = ""


@taking(FileOptions)
def file(options: FileOptions) -> None:
    """Print a file of a task's workspace as it was. The disk is not looked at."""
    wait_for(_file(options))


async def _file(options: FileOptions) -> None:
    async with opened(options.place) as store:
        task = (await store.find(options.name)).task
        if options.listed:
            await _list(store, task, options)
        elif not options.path:
            raise UsageError("which file? `perdure file TASK PATH` prints one, `perdure file TASK --list` names them")
        elif options.as_json and not options.to:
            await _describe(store, task, options)
        else:
            await _print(store, task, options)


async def _list(store: Store, task: str, options: FileOptions) -> None:
    from perdure.views.files import list_files

    found = await list_files(store, task, options.at, options.path)
    if options.as_json:
        say_json(found)
    elif found:
        say_table(("MODE", "SIZE", "PATH"), [_cells(one) for one in found])
    else:
        say(f"no action of task {options.name!r} has written files up to there")


async def _describe(store: Store, task: str, options: FileOptions) -> None:
    from perdure.views.files import look_at_file

    say_json(await look_at_file(store, task, options.path, options.at))


async def _print(store: Store, task: str, options: FileOptions) -> None:
    from perdure.views.files import read_file

    content = await read_file(store, task, options.path, options.at)
    if not options.to:
        say_bytes(content)
        return
    _write(options.to, content)
    if options.as_json:
        say_json({"path": options.path, "to": options.to, "size": len(content)})
    else:
        say(f"{options.path} is in {options.to} ({len(content)} bytes)")


def _write(place: str, content: bytes) -> None:
    """Write a file that is not there yet. Raises UsageError."""
    try:
        with Path(place).open("xb") as target:
            target.write(content)
    except OSError as error:
        raise UsageError(f"{place!r} was not written: {error.strerror}; name a new file") from error


def _cells(one: Standing) -> tuple[str, ...]:
    sign = {"folder": "/", "link": f" -> {one.target}"}.get(one.kind, "")
    return (one.mode or "link", str(one.size) if one.kind == "file" else "", one.path + sign)
