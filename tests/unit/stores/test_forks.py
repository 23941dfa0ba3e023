"""A store belongs to the process that opened it."""

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, os, sys
from perdure.clock import SystemClock
from perdure.errors import ForkedRuntime
from perdure.stores.opening import open_store
from perdure.testing.conformance.place import begun, journal_of

async def in_child(store, chain):
    calls = [store.append(chain.task, chain.peek()), store.head(chain.task), store.renew(chain.task, 1),
             journal_of(store, chain.task), store.tasks()]
    for call in calls:
        try:
            await call
        except ForkedRuntime as refusal:
            assert refusal.opened_by == os.getppid() and refusal.used_by == os.getpid()
        else:
            os._exit(7)

async def main():
    store = await open_store(sys.argv[1], SystemClock())
    chain = await begun(store)
    child = os.fork()
    if child == 0:
        await in_child(store, chain)
        os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3, status
    for _ in range(20):
        await store.append(chain.task, chain.next())
    assert len(await journal_of(store, chain.task)) == 21
    await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_forked_child_is_refused_and_harms_nothing(kind, tmp_path):
    """In a forked child each call raises ForkedRuntime naming both processes; the parent goes on writing."""
    place = "memory://" if kind == "memory" else str(tmp_path / "a.db")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, place],
        env={"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
