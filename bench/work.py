"""The one action that all lines of the benchmark measure, and the bare insert that it is compared with.

An action is 600 characters of argument and 1,536 of result, both base64 of random bytes (which nothing compresses
away), the result appended to the state by `then=`. Called by `speed.py` and `size.py`; measures nothing itself.
"""

from __future__ import annotations

import base64
import os
import sqlite3
from pathlib import Path

import perdure

ARGUMENT_CHARS = 600
RESULT_CHARS = 1_536
ACTION_BYTES = ARGUMENT_CHARS + RESULT_CHARS
SAMPLES = 512


def draw(chars: int) -> str:
    """Return `chars` characters of base64 of random bytes."""
    return base64.b64encode(os.urandom(chars)).decode()[:chars]


RESULTS = [draw(RESULT_CHARS) for _ in range(SAMPLES)]
_ARGUMENTS = [draw(ARGUMENT_CHARS) for _ in range(SAMPLES)]


def argument(number: int) -> str:
    """Return the argument of action `number`; no two are equal."""
    return f"{number:08d}{_ARGUMENTS[number % SAMPLES][8:]}"


def result_of(text: str) -> str:
    """Return what the tools answer."""
    return RESULTS[int(text[:8]) % SAMPLES]


@perdure.tool(effect="pure")
async def pure(text: str) -> str:
    """A coroutine without effects: intent and outcome are one commit."""
    return result_of(text)


@perdure.tool(effect="pure", quick=True)
def quick(text: str) -> str:
    """A plain function under a millisecond, called on the loop."""
    return result_of(text)


@perdure.tool(effect="pure")
def plain(text: str) -> str:
    """A plain function, called in a worker thread."""
    return result_of(text)


@perdure.tool(effect="idempotent")
async def effectful(text: str, key: perdure.EffectKey) -> str:  # noqa: ARG001 - a service would be given it
    """An effect with a key: two commits, one before the call."""
    return result_of(text)


TOOLS = {"pure": pure, "quick": quick, "plain": plain, "effectful": effectful}


def first_state() -> dict[str, list[str]]:
    """Return the state with which each task begins."""
    return {"results": []}


def keep(state, result: str) -> None:
    """Append the result to the state; the `then=` of every action."""
    state["results"].append(result)


class Left(Exception):
    """Leaves a task as a kill would leave it: unfinished, and to be opened again."""


class Bare:
    """A table with one column of bytes, each insert committed durably (WAL, synchronous=FULL)."""

    def __init__(self, folder: str) -> None:
        self._connection = sqlite3.connect(Path(folder, "bare.db"), isolation_level=None)
        (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise OSError(f"SQLite keeps {folder} in {mode!r} mode, not WAL: nothing can be compared here")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def insert(self, number: int) -> None:
        """Insert the bytes of action `number`, durably."""
        body = (_ARGUMENTS[number % SAMPLES] + RESULTS[number % SAMPLES]).encode()
        self._connection.execute("INSERT INTO bare (body) VALUES (?)", (body,))

    def close(self) -> None:
        """Free the file."""
        self._connection.close()
