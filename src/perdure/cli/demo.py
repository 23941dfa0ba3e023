"""`perdure demo`: the same job twice, once undisturbed and once killed again and again; the results must be equal.

The job is the first real one: the offline digest, of the help topics that come with Python. Each run is a process of
its own (`python -m perdure.cli.demo STORE NAME FOLDER`), killed by SIGKILL at a named crash point. It tells what it
does in lines of JSON; this process watches, looks into the store after each kill, and shows what came of it.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from perdure.cli import exits
from perdure.cli.terminal import clean
from perdure.clock import SystemClock
from perdure.errors import UsageError

# Where each process of the second run is killed, spread over the job: point, and how often that process has come by it.
KILLS: Final = ("after_effect:40", "after_outcome:60", "after_checkpoint:1", "after_effect:3")
_MEANING: Final[Mapping[str, str]] = {
    "before_intent": "it was about to be called",
    "after_intent": "it was being called",
    "after_effect": "it had run, its outcome was not yet written",
    "after_outcome": "its outcome had just been written",
    "after_checkpoint": "the checkpoint after it had just been written",
}
_LINES_SHOWN: Final = 15


class Call(NamedTuple):
    """One action, as a person tells it from others."""

    tool: str
    key: str

    def __str__(self) -> str:
        return f"{self.tool} ({self.key})"


class Run(NamedTuple):
    """What one process did."""

    calls: list[Call]  # in the order in which they were begun
    is_killed: bool
    on_record: int  # outcomes that the journal holds after it


def demo(arguments: Sequence[str] = ()) -> int:
    """Show it and return the exit code: 0 when both digests are equal, 1 when they are not. Raises UsageError."""
    folder = _folder_of(arguments)
    show = _Showing()
    show.title("perdure demo: the same job twice, once undisturbed and once killed again and again")
    count = _write_topics(folder / "topics")
    show.line(f"The job: read {count} documents (the help topics that come with Python) and write a digest of them.")
    show.line("No model and no network; what works on it is the offline agent.")
    calls = _show_undisturbed(folder, show)
    _show_killed(folder, show, calls)
    is_equal = _show_compared(folder, show)
    _show_digest(folder, show)
    return exits.DONE if is_equal else exits.FAILED


def work(store: str, name: str, folder: str) -> None:
    """Be one process of the demo: start the job or go on with it, and tell each action on stdout."""
    from perdure import operations
    from perdure.agent import load_agent
    from perdure.engine.opening import open_runtime

    def tell(task: str, event: str, fields: Mapping[str, Any]) -> None:
        del task  # there is only one
        if event == "action_started":
            print(json.dumps([fields["tool"], fields["key"]]), flush=True)

    async def go_on() -> None:
        goal = f"Digest the documents under {json.dumps(str(Path(folder) / 'topics'))}"
        order = operations.Order(name=name, goal=goal, workspace=str(Path(folder) / name))
        async with open_runtime(store, hooks=(tell,)) as runtime:
            await operations.start_goal(runtime, order, load_agent("offline"), {})

    asyncio.run(go_on())


# --- what is shown ------------------------------------------------------------------------------------------------
class _Showing:
    """Lines on stdout, with a little colour on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)

    def title(self, text: str) -> None:
        """Begin a part."""
        self._print(text, "bold")

    def line(self, text: str = "", style: str = "") -> None:
        """Show one line."""
        self._print(f"   {text}" if text else "", style)

    def _print(self, text: str, style: str) -> None:
        self._console.print(clean(text), style=style, soft_wrap=True)
        sys.stdout.flush()


def _show_undisturbed(folder: Path, show: _Showing) -> set[Call]:
    show.line()
    show.title("1  Undisturbed")
    clock = SystemClock()
    began = clock.monotonic()
    run = _run(folder, "undisturbed", "")
    show.line(f"one process, {len(run.calls)} actions, {clock.monotonic() - began:.1f} s")
    return set(run.calls)


def _show_killed(folder: Path, show: _Showing, expected: set[Call]) -> None:
    show.line()
    show.title("2  Killed: its process ends by SIGKILL, as by `kill -9`, and a new one goes on")
    done: set[Call] = set()
    again: list[Call] = []
    on_record = 0
    for number, spec in enumerate((*KILLS, ""), 1):
        run = _run(folder, "killed", spec)
        repeated = [call for call in run.calls if call in done]
        show.line(f"process {number}  {_told(on_record, repeated, len(run.calls) - len(repeated))}")
        if run.is_killed:
            point = spec.partition(":")[0]
            show.line(f"           killed at {point}, in {run.calls[-1]}: {_MEANING[point]}", "red")
        done.update(run.calls)
        again += repeated
        on_record = run.on_record
    show.line("           finished", "green")
    show.line()
    show.line(
        f"{len(KILLS)} kills; {on_record} outcomes on record; run twice: {len(again)}, which a kill met under way."
    )
    show.line(f"Its journal: {_verify(folder)}.")
    if done != expected:
        show.line(f"{len(done ^ expected)} actions differ from those of the undisturbed run", "bold red")


def _told(on_record: int, repeated: Sequence[Call], new: int) -> str:
    """Say what a process found, and what it did."""
    if not on_record:
        return f"begins: {new} actions"
    again = f"run again: {', '.join(map(str, repeated))}" if repeated else "none run again"
    return f"goes on: {on_record} outcomes reused from the journal, {again}, {new} new"


def _show_compared(folder: Path, show: _Showing) -> bool:
    show.line()
    show.title("3  Compared")
    digests = {name: (folder / name / "digest.md").read_bytes() for name in ("undisturbed", "killed")}
    for name, content in digests.items():
        show.line(f"{name:11}  sha256 {hashlib.sha256(content).hexdigest()}")
    is_equal = digests["undisturbed"] == digests["killed"]
    if is_equal:
        show.line(f"equal, byte for byte ({len(digests['killed'])} bytes)", "bold green")
    else:
        show.line("NOT EQUAL", "bold red")
    return is_equal


def _show_digest(folder: Path, show: _Showing) -> None:
    place = folder / "killed" / "digest.md"
    show.line()
    show.title(f"The digest begins so; all of it: {place}")
    for line in place.read_text("utf-8").splitlines()[:_LINES_SHOWN]:
        show.line(line, "dim")
    show.line()
    show.title("Look closer")
    show.line(f"perdure log killed --store {shlex.quote(str(folder / 'perdure.db'))}")
    show.line(f"rm -r {shlex.quote(str(folder))}    (when you have seen enough)")


# --- what is done -------------------------------------------------------------------------------------------------
def _folder_of(arguments: Sequence[str]) -> Path:
    parser = argparse.ArgumentParser("perdure demo", description="See an agent killed, and nothing done twice.")
    parser.add_argument("--keep", metavar="DIR", help="an empty or new folder, instead of a temporary one")
    keep: str | None = parser.parse_args(list(arguments)).keep
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    folder = Path(keep).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} is no empty folder; give another with --keep")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write_topics(folder: Path) -> int:
    """Write each of Python's own help topics to a file; return how many there are."""
    from pydoc_data.topics import topics

    folder.mkdir()
    for name, text in topics.items():
        (folder / f"{name}.txt").write_text(text, "utf-8")
    return len(topics)


def _run(folder: Path, name: str, spec: str) -> Run:
    """Let a process work on the job until it ends or dies at `spec`. Raises RuntimeError where it did neither."""
    command = [sys.executable, "-m", "perdure.cli.demo", str(folder / "perdure.db"), name, str(folder)]
    ended = subprocess.run(command, env=_environment(spec), stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own command
    is_killed = ended.returncode == -signal.SIGKILL
    if is_killed != bool(spec) or ended.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the process that was to end by {spec or 'itself'} ended with {ended.returncode}")
    calls = [Call(*json.loads(line)) for line in ended.stdout.splitlines()]
    return Run(calls, is_killed, asyncio.run(_count_outcomes(folder, name)))


def _environment(spec: str) -> dict[str, str]:
    """Return the environment of a process: crash points are armed only where it says that this is a test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    package = str(Path(__file__).parents[2])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [package, kept.get("PYTHONPATH", "")]))
    return kept | ({"PERDURE_TESTING": "1", "PERDURE_CRASH": spec} if spec else {})


async def _count_outcomes(folder: Path, name: str) -> int:
    from perdure.cli.options import opened
    from perdure.views.showing import show

    async with opened(str(folder / "perdure.db")) as store:
        return (await show(store, name)).actions


def _verify(folder: Path) -> str:
    from perdure.cli.options import opened
    from perdure.views.verifying import verify

    async def look() -> str:
        async with opened(str(folder / "perdure.db")) as store:
            verdict = await verify(store, "killed")
        findings = f"{len(verdict.findings)} FINDINGS" if verdict.findings else "whole"
        return f"{verdict.entries} entries, each digest and link checked: {findings}"

    return asyncio.run(look())


if __name__ == "__main__":
    work(*sys.argv[1:])
