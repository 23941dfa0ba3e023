"""The verb `log`: a task's journal as lines, from the store or from its files, as they are or as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from perdure.cli.options import StoreOptions, opened, taking, wait_for
from perdure.cli.terminal import complain, say, say_bytes
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.logs.lines import Line
    from perdure.logs.reading import Record, Torn
    from perdure.logs.scroll import LogFiles
    from perdure.views.history import Selection

_FORMATS: Final = ("ndjson", "text")
_FOLLOW_EVERY_S: Final = 0.2


class LogOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `log`."""

    name: Annotated[str, typer.Argument(metavar="TASK", help="Name or id of a task, or the beginning of either.")] = ""
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until the task ends.")] = False
    after: Annotated[int, typer.Option(metavar="SEQ", min=0, help="Only what comes behind this entry.")] = 0
    since: Annotated[
        str, typer.Option(metavar="SEQ|TIME", help="Only from this entry, moment, or so long ago (2h) on.")
    ] = ""
    kinds: Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only such; may be repeated.")] = (
        None
    )
    form: Annotated[str, typer.Option("--format", metavar="ndjson|text", help="JSON, or text for people.")] = "ndjson"
    from_files: Annotated[bool, typer.Option("--from-files", help="Read the log files, not the store.")] = False
    log_dir: Annotated[str, typer.Option("--log-dir", metavar="DIR", help="Where the log files are.")] = ""
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the log files anew from the store.")] = False
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a line.")] = False


@taking(LogOptions)
def log(options: LogOptions) -> None:
    """Print a task's journal as lines of JSON. One settled action is one line that stands alone."""
    if options.form not in _FORMATS:
        raise UsageError(f"--format {options.form!r} is none of {', '.join(_FORMATS)}")
    if options.schema:
        from perdure.logs.schema import read_schema

        say_bytes(read_schema())
        return
    if not options.name:
        raise UsageError("say which task: perdure log TASK (`perdure list --all` shows them)")
    wait_for(_rebuild(options) if options.rebuild else _log(options))


async def _log(options: LogOptions) -> None:
    from perdure.clock import SystemClock
    from perdure.views.history import select

    kinds = options.kinds or ()
    selection = select(after=options.after, since=options.since, kinds=kinds, now=SystemClock().now())
    if options.from_files:
        await _from_files(options, selection)
    else:
        await _from_store(options, selection)


async def _from_store(options: LogOptions, selection: Selection) -> None:
    from perdure.logs.lines import line_bytes
    from perdure.logs.text import to_text
    from perdure.views.history import follow_lines, log_lines

    async with opened(options.place) as store:
        task = (await store.find(options.name)).task
        lines: AsyncIterator[Line] = (
            follow_lines(store, task, selection, _pause) if options.follow else log_lines(store, task, selection)
        )
        async for line in lines:
            if options.form == "text":
                say(to_text(line))
            else:
                say_bytes(line_bytes(line))


async def _from_files(options: LogOptions, selection: Selection) -> None:
    from perdure.logs.reading import Torn, find_set
    from perdure.views.history import file_lines, follow_files

    folder = find_set(_files(options).path, options.name)
    if options.follow:
        async for record in follow_files(folder, selection, _pause):
            _say_record(record, options.form)
        return
    for found in file_lines(folder, selection):
        if isinstance(found, Torn):
            complain(f"perdure: {_torn(found)}")
        else:
            _say_record(found, options.form)


async def _rebuild(options: LogOptions) -> None:
    from perdure.clock import SystemClock
    from perdure.operations import rebuild_log

    files = _files(options)
    async with opened(options.place) as store:
        folder = await rebuild_log(store, files, SystemClock(), options.name)
    say(f"the log of task {options.name} was made anew in {folder}")


async def _pause() -> None:
    import asyncio

    await asyncio.sleep(_FOLLOW_EVERY_S)


def _files(options: LogOptions) -> LogFiles:
    from perdure.engine.scribe import find_log_files

    files = find_log_files(options.log_dir or None)
    if files is None:
        raise UsageError("no log files are kept: name their folder with --log-dir, or set `log_dir` (docs: config.md)")
    return files


def _say_record(record: Record, form: str) -> None:
    if form == "text":
        from perdure.logs.text import to_text

        say(to_text(msgspec.json.decode(record.raw)))
    else:
        say_bytes(record.raw)


def _torn(torn: Torn) -> str:
    return f"the last line of {torn.path!r} is cut ({torn.size} bytes, left out); the store has all of it"
