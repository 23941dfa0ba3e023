"""The verbs about the store and the machine: verify and doctor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from perdure.cli import exits
from perdure.cli.options import StoreOptions, is_absent, opened, taking, wait_for
from perdure.cli.terminal import complain, say, say_json, say_table, status
from perdure.config import SETTINGS, Config
from perdure.errors import TaskUnknown, UsageError

if TYPE_CHECKING:
    from perdure.views.health import Check
    from perdure.views.verifying import Verdict


_WORDS: Final = {"holds": "holds", "broken": "BROKEN", "not_checked": "with --full", "by_tests": "shown by tests"}


class VerifyOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `verify`."""

    name: Annotated[str, typer.Argument(metavar="TASK", help="Without one: every task of the store.")] = ""
    everything: Annotated[bool, typer.Option("--all", help="Every task of the store.")] = False
    full: Annotated[bool, typer.Option("--full", help="Blobs, the fold and snapshots too; takes longer.")] = False


class DoctorOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `doctor`."""

    show_config: Annotated[bool, typer.Option("--config", help="Show each setting and where it came from.")] = False


@taking(VerifyOptions)
def verify(options: VerifyOptions) -> None:
    """Check that a task's history is whole. Chain and digests, order and effects; with --full everything."""
    if options.name and options.everything:
        raise UsageError("name a task, or say --all")
    wait_for(_verify(options))


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

    if options.name and is_absent(options.place):
        raise TaskUnknown(options.name)
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
        say_json({key: {"value": chosen.value, "origin": chosen.origin} for key, chosen in config.chosen.items()})
        return
    rows = [
        (setting.key, str(config.chosen[setting.key].value), config.chosen[setting.key].origin, setting.meaning)
        for setting in SETTINGS
    ]
    say_table(("SETTING", "VALUE", "FROM", "MEANING"), rows)
