"""The verbs about the store and the machine: verify, delete, store backup, store status, doctor."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import to_builtins

from perdure.cli import exits
from perdure.cli.options import StoreOptions, TaskOptions, is_absent, opened, refuse_absent, taking, wait_for
from perdure.cli.terminal import clean, complain, say, say_json, say_table, status
from perdure.config import SETTINGS, Config
from perdure.errors import StoreUnreadable, UsageError

if TYPE_CHECKING:
    from perdure.views.health import Check
    from perdure.views.verifying import Verdict


_WORDS: Final = {"holds": "holds", "broken": "BROKEN", "not_checked": "with --full", "by_tests": "shown by tests"}


class VerifyOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `verify`."""

    name: Annotated[str, typer.Argument(metavar="TASK", help="Without one: every task of the store.")] = ""
    everything: Annotated[bool, typer.Option("--all", help="Every task of the store.")] = False
    full: Annotated[bool, typer.Option("--full", help="Blobs, the fold and snapshots too; takes longer.")] = False


class DeleteOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `delete`."""

    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False


class BackupOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `store backup`."""

    file: Annotated[str, typer.Argument(metavar="FILE", help="The copy; it must not exist.")]


class DoctorOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `doctor`."""

    show_config: Annotated[bool, typer.Option("--config", help="Show each setting and where it came from.")] = False


@taking(VerifyOptions)
def verify(options: VerifyOptions) -> None:
    """Check that a task's history is whole. Chain and digests, order and effects; with --full everything."""
    if options.name and options.everything:
        raise UsageError("name a task, or say --all")
    wait_for(_verify(options))


@taking(DeleteOptions)
def delete(options: DeleteOptions) -> None:
    """Remove a task for good. Journal, snapshots, log files; not its workspace."""
    wait_for(_delete(options))


@taking(BackupOptions)
def backup(options: BackupOptions) -> None:
    """Copy the store into a file, beside those who work. The copy is opened and verified."""
    wait_for(_backup(options))


@taking(StoreOptions)
def store_status(options: StoreOptions) -> None:
    """Show how big the store is, and what is in it."""
    wait_for(_store_status(options))


@taking(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Check this machine and the store. Each line says what to do about it."""
    config = options.config()
    if options.show_config:
        _say_config(config, as_json=options.as_json)
        return
    wait_for(_doctor(options, config))


async def _verify(options: VerifyOptions) -> None:
    from perdure.views.verifying import verify as look

    if options.name:
        refuse_absent(options.place, options.name)
    async with opened(options.place) as store:
        names = [options.name] if options.name else [summary.task for summary in await store.tasks()]
        verdicts = [await look(store, name, full=options.full, progress=_show_progress) for name in names]
    status.clear()
    if options.as_json:
        say_json([_fields_of(verdict) for verdict in verdicts])
    else:
        for verdict in verdicts:
            _say_verdict(verdict, with_rows=bool(options.name) or not verdict.is_whole)
        if not verdicts:
            say(f"no tasks in {options.place}")
    if not all(verdict.is_whole for verdict in verdicts):
        raise typer.Exit(exits.DAMAGED)


def _show_progress(read: int, total: int) -> None:
    status.show(f"  {read:,} of {total:,} entries")


def _say_verdict(verdict: Verdict, *, with_rows: bool) -> None:
    seen = f"{verdict.entries} entries"
    if verdict.is_full:
        seen += f", {verdict.blobs} blobs, {verdict.snapshots} snapshots"
    standing = "is whole" if verdict.is_whole else f"is damaged in {len(verdict.findings)} place(s)"
    say(f"task {verdict.name} ({verdict.task}) {standing}: {seen}")
    if with_rows:
        for row in verdict.invariants:
            say(f"  {_WORDS[row.verdict]:<14} {row.invariant or '':>2}  {row.text}")
    for finding in verdict.findings:
        say(f"  entry {finding.seq}, {finding.what}: {finding.text}")
    if not verdict.is_whole:
        complain("perdure: nothing was changed; keep the store as it is, and restore it from a copy if you have one")


def _fields_of(verdict: Verdict) -> dict[str, object]:
    return {
        "task": verdict.task,
        "name": verdict.name,
        "whole": verdict.is_whole,
        "entries": verdict.entries,
        "blobs": verdict.blobs,
        "snapshots": verdict.snapshots,
        "full": verdict.is_full,
        "findings": [{"seq": one.seq, "what": one.what, "text": one.text} for one in verdict.findings],
        "invariants": [
            {"invariant": row.invariant, "verdict": row.verdict, "text": row.text} for row in verdict.invariants
        ],
    }


async def _delete(options: DeleteOptions) -> None:
    from perdure import operations
    from perdure.clock import SystemClock
    from perdure.engine.scribe import find_log_files
    from perdure.ids_source import SystemIds

    refuse_absent(options.place, options.name)
    async with opened(options.place) as store:
        summary = await operations.find_exactly(store, options.name)
        entries, _ = await store.head(summary.task)
        what = f"task {summary.name} ({summary.task}, {summary.status}, {entries} entries)"
        if not options.yes:
            _ask_to_remove(what)
        blobs = await operations.delete(store, find_log_files(), SystemClock(), SystemIds(), summary.task)
    if options.as_json:
        say_json({"task": summary.task, "name": summary.name, "entries": entries, "blobs": blobs})
    else:
        say(f"removed {what} and {blobs} blobs")


def _ask_to_remove(what: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"this would remove {what} for good; say --yes")
    if not typer.confirm(clean(f"remove {what} for good?"), err=True):
        complain("nothing was removed")
        raise typer.Exit(exits.FAILED)


async def _backup(options: BackupOptions) -> None:
    from perdure import operations
    from perdure.clock import SystemClock
    from perdure.stores.opening import open_to_look
    from perdure.views.verifying import verify as look

    if is_absent(options.place):
        raise StoreUnreadable(options.place, "there is none")
    async with opened(options.place) as store:
        await operations.back_up(store, options.file, _show_copied)
    copy = await open_to_look(os.path.abspath(options.file), SystemClock())  # noqa: ASYNC240 - touches no disk
    try:
        names = [summary.task for summary in await copy.tasks()]
        verdicts = [await look(copy, name, full=False, progress=_show_progress) for name in names]
    finally:
        await copy.close()
    status.clear()
    size = os.path.getsize(options.file)  # noqa: ASYNC240 - nothing else runs
    damaged = [verdict for verdict in verdicts if not verdict.is_whole]
    if options.as_json:
        say_json({"file": options.file, "size_bytes": size, "tasks": len(verdicts), "damaged": len(damaged)})
    else:
        say(f"copied {len(verdicts)} tasks into {options.file} ({size:,} bytes)")
    for verdict in damaged:
        complain(f"perdure: task {verdict.name} ({verdict.task}) is damaged; see `perdure verify {verdict.task}`")
    if damaged:
        raise typer.Exit(exits.DAMAGED)


def _show_copied(pages: int, total: int) -> None:
    status.show(f"  {pages:,} of {total:,} pages")


async def _store_status(options: StoreOptions) -> None:
    from collections import Counter

    from perdure import operations
    from perdure.views.listing import list_tasks

    if is_absent(options.place):
        raise StoreUnreadable(options.place, "there is none")
    async with opened(options.place) as store:
        rows = await list_tasks(store, finished=True)
        entries = sum([(await store.head(row.summary.task))[0] for row in rows])
        size = await operations.store_status(store)
    standings = Counter(row.standing for row in rows)
    if options.as_json:
        tasks = {"total": len(rows), **standings}
        say_json({"place": options.place, "tasks": tasks, "entries": entries, **to_builtins(size)})
        return
    by_standing = ", ".join(f"{number} {standing}" for standing, number in sorted(standings.items()))
    say(f"{options.place} (schema {size.schema})")
    say(f"  {'tasks':<10} {len(rows)}" + (f": {by_standing}" if rows else ""))
    say(f"  {'entries':<10} {entries:,}")
    say(f"  {'size':<10} {size.size_bytes:,} bytes, {size.free_bytes:,} of them free, {size.log_bytes:,} in the log")
    say(f"  {'blobs':<10} {size.blobs:,}, {size.blob_bytes:,} bytes before packing")
    say(f"  {'snapshots':<10} {size.snapshots:,}, {size.snapshot_bytes:,} bytes")


async def _doctor(options: DoctorOptions, config: Config) -> None:
    from perdure.views.health import examine

    checks = await examine(config, os.environ)
    if options.as_json:
        say_json(checks)
    else:
        for check in checks:
            _say_check(check)
    if any(check.verdict == "stop" for check in checks):
        raise typer.Exit(exits.FAILED)


def _say_check(check: Check) -> None:
    say(f"{check.verdict:<4}  {check.name}: {check.text}")
    if check.remedy:
        say(f"      -> {check.remedy}")


def _say_config(config: Config, *, as_json: bool) -> None:
    if as_json:
        say_json({key: {"value": config.shown(key), "origin": one.origin} for key, one in config.chosen.items()})
        return
    rows = [
        (setting.key, _setting_text(config.shown(setting.key)), config.chosen[setting.key].origin, setting.meaning)
        for setting in SETTINGS
    ]
    say_table(("SETTING", "VALUE", "FROM", "MEANING"), rows)


def _setting_text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - texts
