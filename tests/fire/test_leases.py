"""Leases under fire: holders that are stopped, hung, forked, in other namespaces; in real processes and seconds."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import perdure
from perdure.model import entry as e
from tests.fire.acting import tick_on
from tests.fire.children import ROOT, Child, doubled, go_on, look, read_world

TTL_S = 1.0


def _can_unshare() -> bool:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not _can_unshare(), reason="pid namespaces are NOT tested here: root only")
IN_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def _epochs(found):
    """Return the epoch of each entry and the place of the second claim."""
    return [entry.header.epoch for entry in found.journal]


# --- stopped --------------------------------------------------------------------------------------------------------
def test_a_stopped_holder_is_followed_after_its_time_to_live_and_fenced(tmp_path):
    """While its lease stands others are told at once that it is busy; then its beats stand still, and it is followed.

    Continued, it writes nothing and sends nothing: its next word is refused.
    """
    place, world = tmp_path / "a.db", tmp_path / "world"
    with Child(place, world, program="tick", count=10_000, ttl_s=TTL_S) as holder:
        holder.hear(lambda heard: len(heard.acks) >= 5)
        holder.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        with Child(place, world, program="tick", count=10_000, ttl_s=TTL_S) as early:
            early.finish()
        told_after = time.monotonic() - stopped
        time.sleep(max(0.0, stopped + TTL_S - time.monotonic()))
        with Child(place, world, program="tick", count=10_000, ttl_s=TTL_S) as follower:
            follower.hear(lambda heard: len(heard.acks) >= 5)
            followed_after = time.monotonic() - stopped
            holder.process.send_signal(signal.SIGCONT)
            holder.finish()
            follower.hear(lambda heard: len(heard.acks) >= 15)
    found = look(place)
    print(f"stops: 1, told busy after {told_after:.2f} s, followed after {followed_after:.2f} s")
    assert ["TaskBusy"] == early.refusals
    assert ["TaskBusy"] == holder.refusals
    assert "epoch 2" in holder.lines[-1]
    assert TTL_S <= followed_after <= 8 * TTL_S
    epochs = _epochs(found)
    assert sorted(epochs) == epochs, "an entry of the stopped holder stands behind the claim of its follower"
    assert [] == found.findings
    assert set(holder.acks).isdisjoint(set(follower.acks))
    assert set(holder.acks) | set(follower.acks) <= set(range(found.state["ticks"]))


def test_a_moving_holder_is_never_robbed(tmp_path):
    """Challengers that come again and again, over several times to live, are all told at once that it is busy."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    waits = []
    with Child(place, world, program="tick", count=10_000, ttl_s=TTL_S) as holder:
        holder.hear(lambda heard: len(heard.acks) >= 2)

        async def challenge():
            async with perdure.open(place, lease_ttl_s=TTL_S, log_dir="") as runtime:
                end = time.monotonic() + 3.5 * TTL_S
                while time.monotonic() < end:
                    began = time.monotonic()
                    with pytest.raises(perdure.TaskBusy, match=f"process {holder.process.pid}"):
                        async with asyncio.timeout(10):
                            await runtime.run(tick_on, "job", args={"count": 10_000})
                    waits.append(time.monotonic() - began)
                    await asyncio.sleep(0.1)

        asyncio.run(challenge())
        before = len(holder.acks)
        holder.hear(lambda heard: len(heard.acks) > before)
    print(f"challenges: {len(waits)}, the longest took {max(waits):.3f} s")
    assert len(waits) > 10
    assert max(waits) < TTL_S
    assert sorted(waits)[len(waits) // 2] < TTL_S / 10, "they had to watch him"
    assert {1} == set(_epochs(look(place)))


def test_a_loop_that_hangs_for_longer_than_its_lease_keeps_it(tmp_path):
    """A plain function on the loop for three times to live: the store's thread beats on, nobody else gets the task."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    refused = []
    with Child(place, world, program="hang", count=3, ttl_s=TTL_S) as holder:
        holder.hear(lambda heard: 0 in heard.acks)
        while 1 not in holder.acks:
            with Child(place, world, program="hang", count=3, ttl_s=TTL_S) as challenger:
                challenger.finish()
            holder.overhear()
            if 1 not in holder.acks:
                assert ["TaskBusy"] == challenger.refusals, challenger.lines
                refused += challenger.refusals
        holder.finish()
    print(f"challenges while it hung: {len(refused)}")
    assert "result went on" == holder.lines[-1]
    assert len(refused) >= 3
    assert {1} == set(_epochs(look(place)))


def test_a_call_that_may_not_be_made_twice_keeps_the_lease_until_it_must_be_over(tmp_path):
    """A holder stopped inside such a call is not followed before the call's time-out and the margin are over."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    with Child(place, world, program="ring", count=1, ttl_s=TTL_S) as holder:
        holder.hear(lambda heard: "ringing 1" in heard.lines)
        holder.process.send_signal(signal.SIGSTOP)
        time.sleep(3 * TTL_S)
        with Child(place, world, program="ring", count=1, ttl_s=TTL_S) as early:
            early.finish()

        async def lease():
            async with perdure.open(place, log_dir="") as runtime:
                found = await runtime.store.lease((await runtime.store.find("job")).task)
                return found.until / 1_000_000 - time.time()

        left_s = asyncio.run(lease())
    print(f"stops: 1, the lease stood for {left_s:.1f} s more")
    assert ["TaskBusy"] == early.refusals
    assert 6 + 5 - 3 * TTL_S - 4 < left_s < 6 + 5 - 3 * TTL_S
    assert [["1"]] == read_world(world, "rung")


@pytest.mark.parametrize("busy_s", [1.0, pytest.param(10.0, marks=pytest.mark.slow)])
def test_one_stopped_inside_a_transaction_is_named(busy_s, tmp_path):
    """Others are refused with StoreBusy and its pid, within 12 s; continued, both go on."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    with Child(place, world, name="other", program="tick", count=20, stop_inside=True) as stopped:
        stopped.hear(lambda heard: "stopping inside" in heard.lines)
        while _state_of(stopped.process.pid) != "T":
            time.sleep(0.01)
        began = time.monotonic()
        with Child(place, world, count=5, busy_s=busy_s) as other:
            other.hear(lambda heard: heard.refusals)
            waited = time.monotonic() - began
            other.finish()
        ended = time.monotonic() - began
        stopped.process.send_signal(signal.SIGCONT)
        stopped.finish()
    print(f"stops: 1, refused after {waited:.2f} s: {other.lines}")
    assert ["StoreBusy"] == other.refusals
    assert str(stopped.process.pid) in other.lines[-1]
    assert busy_s <= waited <= ended <= 13
    assert waited <= 12
    assert "result 20" == stopped.lines[-1]
    assert list(range(5)) == go_on(place, world, count=5).state["sent"]
    assert [] == doubled(world)


def _state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


# --- namespaces -----------------------------------------------------------------------------------------------------
@needs_namespaces
def test_a_holder_in_another_pid_namespace_is_told_from_a_dead_one(tmp_path):
    """Holder and challenger are both process 1 of their namespaces: the living one is not robbed, the dead followed."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    with Child(place, world, under=IN_NAMESPACE, program="tick", count=10_000) as holder:
        holder.hear(lambda heard: len(heard.acks) >= 3)
        with Child(place, world, under=IN_NAMESPACE, program="tick", count=10_000) as challenger:
            challenger.finish()
        before = len(holder.acks)
        holder.hear(lambda heard: len(heard.acks) > before)
        holder.process.kill()
        holder.finish()
    killed = time.monotonic()
    with Child(place, world, under=IN_NAMESPACE, program="tick", count=10_000) as follower:
        follower.hear(lambda heard: len(heard.acks) >= 3)
        followed_after = time.monotonic() - killed
    found = look(place)
    claims = (entry.payload for entry in found.journal if isinstance(entry.payload, e.TaskStarted | e.LeaseClaimed))
    holders = {claim.holder for claim in claims}
    print(f"kills: 1, followed after {followed_after:.2f} s")
    assert ["TaskBusy"] == challenger.refusals
    assert "process 1 " in challenger.lines[-1]
    assert {1} == {holder.pid for holder in holders}
    assert 2 == len({holder.pid_namespace for holder in holders})
    assert followed_after < 10
    assert [] == found.findings


# --- forks ----------------------------------------------------------------------------------------------------------
def test_a_forked_child_is_refused_by_runtime_and_task(tmp_path):
    """Whatever a child of a running program tries with its parent's runtime or task raises ForkedRuntime.

    The parent goes on as if nothing had been.
    """
    done = _fork("ask", tmp_path / "a.db")
    found = look(tmp_path / "a.db")
    assert (0, "", ["ForkedRuntime True True"] * 5) == (done.returncode, done.stderr, done.stdout.splitlines())
    assert "succeeded" == found.status
    assert 2 == found.kinds.count("ActionSettled")


def test_a_child_that_outlives_its_parent_does_not_keep_its_leases(tmp_path):
    """A killed holder is followed at once, although a forked child of it lives on."""
    family = _start("die", tmp_path / "a.db")
    try:
        assert -signal.SIGKILL == family.wait(30)
        done = _fork("follow", tmp_path / "a.db")
    finally:
        os.killpg(family.pid, signal.SIGKILL)
        family.communicate()
    assert (0, "") == (done.returncode, done.stderr)
    assert "succeeded" == look(tmp_path / "a.db").status


def _start(mode, place):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fire.forking", mode, str(place)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _fork(mode, place):
    """Run `forking.py` to its end."""
    with _start(mode, place) as family:
        out, err = family.communicate(timeout=30)
        return subprocess.CompletedProcess(family.args, family.returncode, out, err)
