"""The disk itself fails: each system call of the real SQLite store is made to fail in turn, and disks fill up."""

import re
import shutil
import subprocess

import pytest

from tests.fire import disks
from tests.fire.children import Child, doubled, go_on, look, settle_if_asked

COUNT = 4
CALLS_MAX = 400
WHY_NOT_FULL = disks.why_not()


def _can_trace() -> bool:
    tried = ["strace", "-o", "/dev/null", "true"]
    return bool(shutil.which("strace")) and subprocess.run(tried, capture_output=True, check=False).returncode == 0


needs_strace = pytest.mark.skipif(not _can_trace(), reason="failing system calls are NOT tested here: no strace")
# What is made to fail: the call, how, whether the database is there already, and in which steps the normal run goes
# through the calls (`make fire` takes every one). Calls are counted in each thread by itself.
SWEEPS = (
    ("fdatasync", "EIO", True, 3),
    ("pwrite64", "EIO", True, 9),
    ("pwrite64", "ENOSPC", True, 15),
    ("pwrite64", "EIO", False, 21),
)


def strace(folder, call, error, first, last):
    """Return the command under which calls on the store's files fail, and the file that says how many did."""
    names = ("a.db", "a.db-wal", "a.db.new", "a.db.new-wal")
    paths = [word for name in names for word in ("-P", str(folder / name))]
    trace = folder / "trace"
    fault = f"inject={call}:error={error}:when={first}..{last}"
    return ["strace", "-f", "-qq", "--seccomp-bpf", *paths, "-e", f"trace={call}", "-e", fault, "-o", str(trace)], trace


def faulty_run(folder, call, error, number, *, is_made):
    """Run once with the `number`-th call failing; return the child and how many calls failed."""
    folder.mkdir(parents=True)
    if is_made:
        look(folder / "a.db")
    last = number + 2 if error == "ENOSPC" else number
    under, trace = strace(folder, call, error, number, last)
    rounds = 30 if error == "ENOSPC" else 2
    with Child(folder / "a.db", folder / "world", under=under, count=COUNT, rounds=rounds) as child:
        child.finish()
    return child, len(re.findall(r"\(INJECTED\)", trace.read_text("utf-8")))


@needs_strace
@pytest.mark.parametrize(("call", "error", "is_made", "step"), [
    *SWEEPS,
    *(pytest.param(*sweep[:3], 1, marks=pytest.mark.slow) for sweep in SWEEPS),
    pytest.param("fdatasync", "EIO", False, 1, marks=pytest.mark.slow),
    pytest.param("pwrite64", "ENOSPC", False, 1, marks=pytest.mark.slow),
])  # fmt: skip
def test_any_system_call_may_fail(call, error, is_made, step, tmp_path):
    """Whichever sync or write fails: what was acknowledged is there when the store is opened again, nothing is doubled.

    After an error of input or output the same process never gets another answer than StoreBroken; a full device lets it
    go on when there is room.
    """
    faults, ends = 0, []
    for number in range(1, CALLS_MAX, step):
        folder = tmp_path / f"{number:03}"
        child, injected = faulty_run(folder, call, error, number, is_made=is_made)
        if not injected:
            assert [f"result {COUNT}"] == child.lines[-1:], child.process.stderr.read()
            break
        faults += injected
        ends.append("success" if child.lines[-1].startswith("result") else child.refusals[-1])
        place = f"{call} {number}: {child.lines}"
        assert set(child.refusals) <= _allowed(error, child), place
        if error == "EIO" and child.acks and child.refusals:
            assert ["StoreBroken", "StoreBroken"] == child.refusals, place
        assert set(child.acks) <= set(look(folder / "a.db").state["sent"]), place
        settle_if_asked(folder / "a.db", folder / "world")
        end = go_on(folder / "a.db", folder / "world", count=COUNT)
        assert (list(range(COUNT)), [], "succeeded") == (end.state["sent"], end.findings, end.status), place
        assert [] == doubled(folder / "world"), place
        shutil.rmtree(folder)
    print(f"failed calls: {faults} ({call}, {error}), runs ended with: {sorted(set(ends))}")
    assert faults > 0
    assert not is_made or set(ends) != {"StoreFull"}, "no fault has met an act"
    assert number < CALLS_MAX - step


def _allowed(error, child):
    if error == "ENOSPC":
        return {"StoreFull", "TaskPaused", "NeedsHuman"}
    return {"StoreBroken"} if child.acks else {"StoreBroken", "StoreUnreadable"}


@pytest.mark.skipif(bool(WHY_NOT_FULL), reason=f"full disks are NOT tested here: {WHY_NOT_FULL}")
def test_a_full_disk_pauses_the_task_until_there_is_room(tmp_path):
    """No call is lost or doubled when the disk fills up in mid-run; room made, the same process goes on by itself."""
    world = tmp_path / "world"
    with disks.small_disk(tmp_path / "disk", 8) as folder:
        place, ballast = folder / "a.db", folder / "ballast"
        with open(ballast, "wb") as file:
            file.write(bytes(5 << 20))
        with Child(place, world, program="fill", count=40, rounds=200, between_s=0.1) as child:
            child.hear(lambda heard: len(heard.refusals) >= 3)
            full_at = len(child.acks)
            ballast.unlink()
            child.finish()
        assert "result 40" == child.lines[-1]
        end = look(place)
    print(f"full disks: 1, refused {len(child.refusals)} times after {full_at} acts")
    assert 0 < full_at < 40
    assert set(child.refusals) <= {"TaskPaused", "StoreFull"}
    assert (list(range(40)), [], "succeeded") == (end.state["sent"], end.findings, end.status)
    assert [] == doubled(world)
