"""The verbs about the store and the machine: verify and doctor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import exits
from perdure.cli.options import StoreOptions, is_absent, opened, taking, wait_for
from perdure.cli.terminal import complain, say, say_json, say_table, status
from perdure.config import SETTINGS, Config
from perdure.errors import TaskUnknown

if TYPE_CHECKING:
    from perdure.views.health import Check
    from perdure.views.verifying import Verdict


class VerifyOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `verify`."""

    name: Annotated[str, typer.Argument(metavar="TASK", help="Without one: every task of the store.")] = ""


class DoctorOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `doctor`."""

    show_config: Annotated[bool, typer.Option("--config", help="Show each setting and where it came from.")] = False


@taking(VerifyOptions)
def verify(options: VerifyOptions) -> None:
    """Check that a task's history is whole. Chain, digests, snapshots, blobs."""
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
        verdicts = [await look(store, name, lambda read: status.show(f"  {read} entries")) for name in names]
    status.clear()
    if options.as_json:
        say_json([_fields_of(verdict) for verdict in verdicts])
    else:
        for verdict in verdicts:
            _say_verdict(verdict)
        if not verdicts:
            say(f"no tasks in {options.place}")
    if not all(verdict.is_whole for verdict in verdicts):
        raise typer.Exit(exits.DAMAGED)


def _say_verdict(verdict: Verdict) -> None:
    seen = f"{verdict.entries} entries, {verdict.blobs} blobs, {verdict.snapshots} snapshots"
    if verdict.is_whole:
        say(f"task {verdict.name} ({verdict.task}) is whole: {seen}")
        return
    say(f"task {verdict.name} ({verdict.task}) is damaged in {len(verdict.findings)} place(s): {seen}")
    for finding in verdict.findings:
        say(f"  entry {finding.seq}, {finding.what}: {finding.text}")
    complain("perdure: nothing was changed; keep the store as it is, and restore it from a copy if you have one")


def _fields_of(verdict: Verdict) -> dict[str, object]:
    return {
        "task": verdict.task,
        "name": verdict.name,
        "whole": verdict.is_whole,
        "entries": verdict.entries,
        "blobs": verdict.blobs,
        "snapshots": verdict.snapshots,
        "findings": [{"seq": one.seq, "what": one.what, "text": one.text} for one in verdict.findings],
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
