"""Several processes, threads and kills on one file: nothing acknowledged is lost, doubled or out of order."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

from perdure.clock import SystemClock
from perdure.stores.sqlite.store import open_sqlite
from perdure.testing.conformance.place import begun, digest_of, journal_of, task_id
from tests.unit.stores.sqlite.appender import frames_of

strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: system calls not counted")


def start(path, number, appends, *more, under=(), commits=""):
    """Start the appender."""
    command = [*under, sys.executable, "-m", "tests.unit.stores.sqlite.appender", path, number, appends, *more]
    return subprocess.Popen(
        [str(word) for word in command],
        env={"PYTHONPATH": f"src{os.pathsep}.", "PATH": os.environ["PATH"], "COMMITS": commits},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def journals(path, numbers):
    """Return the frames of each task's journal, the first append left out."""

    async def main():
        store = await open_sqlite(path, SystemClock())
        found = [[append.frames for append in await journal_of(store, task_id(n), 1)] for n in numbers]
        await store.close()
        return found

    return asyncio.run(main())


def test_four_processes_at_once(tmp_path):
    """Four processes that start on nothing, each with its own task, all end with whole journals (langgraph 8136)."""
    path = tmp_path / "new" / "a.db"
    children = [start(path, number, 120) for number in range(1, 5)]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert ("", list(range(1, 120))) == (err, [int(line) for line in out.split("\n") if line])
    expected = [frames_of(turn) for turn in range(1, 120)]
    assert [expected] * 4 == journals(path, range(1, 5))
    assert {"a.db", "a.db-shm", "a.db-wal", "a.db.lock"} >= set(os.listdir(tmp_path / "new"))


def test_eight_threads_each_with_its_own_loop(tmp_path):
    """Eight threads, each with its own loop, handle and task, disturb each other in nothing."""
    path = tmp_path / "a.db"
    failures = []

    async def work(number):
        store = await open_sqlite(path, SystemClock())
        chain = await begun(store, number)
        for turn in range(1, 40):
            await store.append(chain.task, chain.next(frames_of(turn)))
        await store.close()

    def run(number):
        try:
            asyncio.run(work(number))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [] == failures
    assert [[frames_of(turn) for turn in range(1, 40)]] * 8 == journals(path, range(1, 9))


@pytest.mark.parametrize("blob_bytes", [0, 600_000])
def test_what_was_acknowledged_survives_kill_9(blob_bytes, tmp_path):
    """A process killed again and again in the middle of appending loses nothing it had acknowledged."""
    path = tmp_path / "a.db"
    acknowledged = 0
    for kill_after in (1, 7, 8, 40, 3):
        child = start(path, 1, 10_000, blob_bytes)
        lines = []
        while len(lines) < kill_after:
            lines.append(child.stdout.readline())
        child.kill()
        lines += re.findall(r"\d+\n", child.stdout.read())  # communicate() would lose what is buffered already
        child.communicate(timeout=60)
        assert acknowledged + 1 <= int(lines[0]) <= acknowledged + 2  # one more may have been written, unsaid
        acknowledged = int(lines[-1])
        (frames,) = journals(path, [1])
        assert len(frames) in {acknowledged, acknowledged + 1}
        assert [frames_of(turn) for turn in range(1, len(frames) + 1)] == frames
    if blob_bytes:
        asyncio.run(check_blobs(path, acknowledged, blob_bytes))


async def check_blobs(path, count, blob_bytes):
    """Each blob that an acknowledged append names is there, also after a sweep."""
    store = await open_sqlite(path, SystemClock())
    await store.sweep()
    raws = [b"%d " % turn * (blob_bytes // 4) for turn in range(1, count + 1)]
    for raw in raws:
        assert {digest_of(raw): raw} == await store.blobs([digest_of(raw)])
    await store.close()


def test_what_is_queued_is_written_at_a_normal_exit(tmp_path):
    """A program that ends without closing its store, right after its last result, loses nothing (qwen-code 9573)."""
    program = (
        "import asyncio, sys\nfrom perdure.clock import SystemClock\n"
        "from perdure.stores.sqlite.store import open_sqlite\n"
        "from perdure.testing.conformance.place import begun\n"
        "async def main():\n"
        "    store = await open_sqlite(sys.argv[1], SystemClock())\n"
        "    chain = await begun(store)\n"
        "    for n in range(500):\n"
        "        store.append(chain.task, chain.next(b'%d' % n))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.db")]
    done = subprocess.run(command, env={"PYTHONPATH": "src"}, capture_output=True, text=True, timeout=60, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert [[b"%d" % n for n in range(500)]] == journals(tmp_path / "a.db", [1])


@strace
def test_an_append_is_one_sync(tmp_path):
    """A lonely append costs one fdatasync, and the log is never synced without need."""
    trace = tmp_path / "trace"
    under = ("strace", "-f", "-qq", "-c", "-U", "calls,name", "-e", "trace=fsync,fdatasync", "-o", trace)
    with start(tmp_path / "a.db", 1, 501, under=under) as child:
        _, err = child.communicate(timeout=100)
    assert "" == err
    calls = sum(int(count) for count in re.findall(r"^\s*(\d+) f", trace.read_text("utf-8"), re.MULTILINE))
    assert 500 <= calls <= 500 * 1.05 + 15


@strace
@pytest.mark.parametrize("commits", ["inline", "queued"])
@pytest.mark.parametrize("when", [25, 40])
def test_after_a_failed_sync_nothing_is_believed(when, commits, tmp_path):
    """An EIO of one fdatasync breaks the store for good: no later append is acknowledged; all before it are there."""
    under = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject=fdatasync:error=EIO:when={when}")
    with start(tmp_path / "a.db", 1, 60, under=under, commits=commits) as child:
        out, err = child.communicate(timeout=100)
    assert "" == err
    lines = out.splitlines()
    refused = [line for line in lines if "StoreBroken" in line]
    acknowledged = [line for line in lines if "StoreBroken" not in line]
    assert refused
    assert lines == acknowledged + refused
    (frames,) = journals(tmp_path / "a.db", [1])
    assert len(acknowledged) <= len(frames) <= len(acknowledged) + 1


@strace
@pytest.mark.parametrize("commits", ["inline", "queued"])
@pytest.mark.parametrize("cause", ["ENOSPC", "EDQUOT"])
def test_no_room_is_said_and_passes(cause, commits, tmp_path):
    """A full device or a used-up quota refuses appends with StoreFull, and the same process goes on afterwards."""
    path = tmp_path / "a.db"
    paths = [word for name in (f"{path}-wal", f"{path}.room") for word in ("-P", name)]
    faults = (f"inject=pwrite64:error={cause}:when=60..90", f"inject=write:error={cause}")
    under = ("strace", "-f", "-qq", "-o", "/dev/null", *paths, "-e", faults[0], "-e", faults[1])
    with start(path, 1, 60, under=under, commits=commits) as child:
        out, _ = child.communicate(timeout=100)
    lines = out.splitlines()
    assert any("StoreFull" in line for line in lines)
    assert not any("StoreBroken" in line for line in lines)
    assert "StoreFull" not in lines[-1]
    acknowledged = [line for line in lines if " " not in line]
    assert len(acknowledged) == len(journals(tmp_path / "a.db", [1])[0])
