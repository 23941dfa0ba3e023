"""A conversation of thousands of turns: no turn writes more than the first ones did, and opening stays short."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure.agent import Agent, AgentSettings
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import ScriptedModel
from tests.agent.scenes import APPROVED, form_of, says

HUNDRED = 100
GROWTH_MAX = 1.1
RESUME_S_MAX = 0.2
WIDE = 10_000_000  # tokens: a window that is never full


@perdure.tool(effect="pure", name="lg_read", quick=True)
def read(number: int) -> str:
    """Read a page."""
    return f"page {number} " + f"{number:06d} words of its own " * 20


class Reader:
    """A model that reads a page in each turn, and falls silent after so many: then `is_enough`."""

    def __init__(self, turns: int) -> None:
        self.is_enough = asyncio.Event()
        self.model = ScriptedModel(self._speak, context_tokens=WIDE)
        self._left = turns

    async def _speak(self, request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        if self._left == 0:
            self.is_enough.set()
            await asyncio.Event().wait()
        self._left -= 1
        text = f"Turn {self._left}: I read on, since what was read is not yet all. " * 4
        return says(text, ("lg_read", {"number": self._left}))


def live(folder: Path, turns: int, window: int) -> float:
    """Let the agent work for so many turns, then stop it; return how long the opening took, in seconds."""
    settings = AgentSettings(
        model="scripted:long", prompt_strategy="one_shot", continuous=True, tools=("lg_read",), context_max=window
    )
    reader = Reader(turns)
    agent = Agent(settings=settings, open_model=lambda _: reader.model, tools=(read,))
    opened: list[float] = []

    def note(_task: str, event: str, _fields: object) -> None:
        if event == "program_called":
            opened.append(time.perf_counter())

    async def work() -> None:
        async with perdure.open(folder / "perdure.db", log_dir="", hooks=[note]) as runtime:
            began = time.perf_counter()
            work = asyncio.create_task(runtime.run(agent, "t", goal="read all of it", args=agent.arguments()))
            await reader.is_enough.wait()
            work.cancel()
            await asyncio.wait([work])
            opened[:] = [opened[0] - began]

    asyncio.run(work())
    return opened[0]


def bytes_by_turn(folder: Path) -> list[int]:
    """Return how many bytes each turn has written: frames of its appends, and the blobs that these name first."""
    with sqlite3.connect(folder / "perdure.db") as base:
        rows = base.execute("SELECT length(frames) + 120, instr(frames, CAST('think' AS BLOB)) FROM append").fetchall()
        blobs = base.execute("SELECT sum(length(bytes)) FROM blob_part").fetchone()[0] or 0
    return list(_turns(rows, blobs))


def _turns(rows: list[tuple[int, int]], blobs: int) -> Iterator[int]:
    written = 0
    for size, thinks in rows:
        if thinks and written:
            yield written
            written = 0
        written += size
    yield written + blobs


def measure(folder: Path, turns: int, window: int) -> tuple[float, float]:
    """Return (bytes a turn of the last hundred by those of the first hundred, seconds to open it again)."""
    live(folder, turns, window)
    by_turn = bytes_by_turn(folder)[2:-2]
    assert len(by_turn) > turns * 0.95
    first, last = sum(by_turn[:HUNDRED]), sum(by_turn[-HUNDRED:])
    with sqlite3.connect(folder / "perdure.db") as base:
        snapshots = base.execute("SELECT count(*) FROM snapshot").fetchone()[0]
    opened = min(live(folder, 0, window) for _ in range(3))
    kind = "condensed" if window < WIDE else "never condensed"
    print(f"{turns} turns, {kind}: {first / HUNDRED:.0f} B a turn at first, {last / HUNDRED:.0f} at last "
          f"({last / first:.3f}), {snapshots} snapshots, opened in {opened * 1000:.0f} ms")  # fmt: skip
    return last / first, opened


@pytest.mark.parametrize("window", [20_000, WIDE])
def test_a_turn_writes_no_more_at_the_end_than_at_the_beginning(window: int, tmp_path: Path) -> None:
    """Four hundred turns, with a window that is soon full and with one that never is."""
    growth, opened = measure(tmp_path, 400, window)
    assert growth <= GROWTH_MAX
    assert opened <= RESUME_S_MAX


@pytest.mark.slow
@pytest.mark.parametrize("window", [20_000, WIDE])
def test_two_thousand_turns(window: int, tmp_path: Path) -> None:
    """The whole measure."""
    growth, opened = measure(tmp_path, 2_000, window)
    assert growth <= GROWTH_MAX
    assert opened <= RESUME_S_MAX
