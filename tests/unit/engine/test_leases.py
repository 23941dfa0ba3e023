"""Leases: one writer at a time, the living one is never robbed, the dead one is followed at once."""

import asyncio
import errno
import os
import subprocess
import sys

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.codec import entries
from perdure.engine import beat, leases
from perdure.engine.leases import Presence, is_alive
from perdure.errors import Damaged, Fenced, StoreFull, StoreUnreadable, UnknownKind
from perdure.ids_source import SystemIds
from perdure.limits import LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.ports import StoredAppend
from perdure.stores.memory import MemoryStore
from tests.worlds import DEAD, Death, Play, Stop, World, counted, thought_dead, until


class Folder:
    """As much of a store as a presence needs: one that has a folder."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.place = str(folder / "perdure.db")


def test_no_room_for_the_sign_of_life_is_a_full_store_and_leaves_nothing(tmp_path, monkeypatch):
    """The file of the holder finds no room: StoreFull, and no file that would have to be told from a dead one."""

    def refuse(path, *how):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(leases.os, "open", refuse)
        with pytest.raises(StoreFull):
            Presence(Folder(tmp_path), SystemIds())
    assert [] == list((tmp_path / "holders").iterdir())


def test_a_place_where_no_sign_of_life_can_be_shown_is_named(tmp_path):
    """A file where the folder of holders should be: StoreUnreadable, not an error of the operating system."""
    (tmp_path / "holders").write_text("in the way", "utf-8")
    with pytest.raises(StoreUnreadable, match="holders"):
        Presence(Folder(tmp_path), SystemIds())


async def _wait_for_ever(task):
    await asyncio.get_running_loop().create_future()


# --- two runtimes ---------------------------------------------------------------------------------------------------
def test_a_second_runtime_is_told_who_holds_the_task():
    """TaskBusy names the process; nothing of the task is changed."""
    world = World()

    async def both():
        async with world.runtime() as first, world.runtime() as second:
            running = asyncio.create_task(first.run(Play(_wait_for_ever), "job"))
            await until(lambda: world.memory.tasks and next(iter(world.memory.tasks.values())).appends)
            with pytest.raises(perdure.TaskBusy, match=f"process {os.getpid()}"):
                await second.run(Play(_wait_for_ever), "job")
            with pytest.raises(perdure.TaskBusy, match="this process"):
                await first.run(Play(_wait_for_ever), "job")
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(both())
    assert 1 == world.fold().epoch


def test_a_fenced_writer_stops_and_nothing_of_it_is_visible():
    """A runtime that was thought dead and was followed ends with TaskBusy at its next word (case: arcee-ai/nac 146)."""
    world, calls = World(), []
    read = counted(calls)

    async def both():
        followed = asyncio.Event()

        async def old(task):
            await task.act(read, 1)
            await followed.wait()
            await task.act(read, 2, then=lambda state, got: state.update(old=True))

        async def new(task):
            return "done"

        async with world.runtime() as first, world.runtime() as second:
            running = asyncio.create_task(first.run(Play(old), "job"))
            await until(lambda: calls)
            with thought_dead(first):
                assert "done" == await second.run(Play(new), "job")
            followed.set()
            with pytest.raises(perdure.TaskBusy, match="epoch 2"):
                await running

    asyncio.run(both())
    assert {} == world.state()
    assert {1, 2} == {entry.header.epoch for entry in world.journal()}
    assert "TaskSucceeded" == world.kinds()[-1]


def test_a_renewal_that_is_refused_stops_the_writer():
    """Who lost the lease hears of it by the next beat, without writing anything."""
    world = World()

    async def lost():
        async with world.runtime() as first:
            running = asyncio.create_task(first.run(Play(_wait_for_ever), "job"))
            await until(lambda: any(session.lap for session in first._sessions.values()))
            (session,) = first._sessions.values()
            await session.commit()
            await world.store().claim(session.task, first._presence.holder, over=1)
            await beat.renew(first._sessions)
            assert isinstance(session.sequencer.dead, Fenced)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(lost())
    assert ["TaskStarted", "ProgramCalled"] == world.kinds()


def test_a_runtime_closed_in_the_middle_gives_its_tasks_back():
    """Leaving the runtime's block while a task runs is no crash: the next claim finds the lease free."""
    world = World()

    async def closed():
        async with world.runtime() as first:
            running = asyncio.create_task(first.run(Play(_wait_for_ever), "job"))
            await until(lambda: first._sessions)
            running.cancel()
            await asyncio.wait([running])
        return (await world.store().lease((await world.store().find("job")).task)).holder

    assert asyncio.run(closed()) is None


# --- crash loops ----------------------------------------------------------------------------------------------------
def test_the_fifth_start_in_a_row_without_progress_needs_a_person():
    """It names the action that was open; a resume by hand begins to count at zero."""
    world = World()

    async def program(task):
        await task.act(counted([], effect="workspace", name="fatal"), 1)
        return "done"

    for _ in range(5):
        assert DEAD == world.live(Play(program), death=Death("after_intent"))
    with pytest.raises(perdure.NeedsHuman, match="fatal"):
        world.live(Play(program))

    async def by_hand():
        async with world.runtime() as runtime:
            return await runtime.resume("job", Play(program))

    assert "done" == asyncio.run(by_hand())


def test_a_start_that_settles_something_begins_the_count_anew():
    """Five crashes with progress between them are no crash loop."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        for item in range(8):
            await task.using(key=str(item)).act(read, item)
        return "done"

    for life in range(7):
        assert DEAD == world.live(Play(program), death=Death("after_outcome", 1)), life
    assert "done" == world.live(Play(program))


# --- who lives ------------------------------------------------------------------------------------------------------
def test_a_presence_is_alive_until_it_ends(tmp_path):
    """The sign of life is an OS lock; with its end the file goes."""
    store = Folder(tmp_path)
    presence = Presence(store, SystemIds())
    leases._here.discard(presence.holder.token)  # look at the lock, not at this process's own list
    assert is_alive(presence.holder, store) is True
    presence.end()
    assert is_alive(presence.holder, store) is False
    assert [] == list((tmp_path / "holders").iterdir())


def test_a_killed_process_is_dead_at_once_whatever_lives_under_its_number(tmp_path):
    """The lock decides, not the process number (openclaw 60258: a stale lock that names a living stranger)."""
    code = (
        "import sys, os, signal; from perdure.engine.leases import Presence; from perdure.ids_source import SystemIds\n"
        "class S: folder = sys.argv[1]\n"
        "print(Presence(S(), SystemIds()).holder.token, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    source = os.path.dirname(os.path.dirname(perdure.__file__))
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )
    own = Presence(Folder(tmp_path), SystemIds())
    holder = Holder(
        boot=own.holder.boot, pid_namespace=0, pid=os.getpid(), started=own.holder.started, token=child.stdout.strip()
    )
    assert -9 == child.returncode
    assert is_alive(holder, Folder(tmp_path)) is False
    own.end()


def test_a_holder_of_another_boot_without_a_sign_is_unknown(tmp_path):
    """Perhaps another machine: it is watched, not robbed."""
    holder = Holder(boot="another", pid_namespace=0, pid=1, started=0, token="0" * 32)
    assert is_alive(holder, Folder(tmp_path)) is None


@pytest.mark.parametrize("beats", [False, True])
def test_an_unknown_holder_is_watched_for_a_whole_time_to_live(beats, monkeypatch):
    """One that beats is alive; one that stands still for the whole time counts as dead."""
    world = World()

    async def program(task):
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))

    async def watch():
        async with world.runtime() as runtime:
            store, task = runtime.store, (await runtime.store.find("job")).task
            other = Holder(boot="another", pid_namespace=0, pid=1, started=0, token="0" * 32)
            held = await store.claim(task, other, over=1)

            async def pass_time(seconds):
                world.clock.advance(seconds)
                if beats:
                    await store.renew(task, held.epoch)

            monkeypatch.setattr(leases, "is_alive", lambda holder, store: None)
            monkeypatch.setattr(leases.asyncio, "sleep", pass_time)
            begun = world.clock.monotonic()
            try:
                return await leases.claim(store, task, runtime._presence, world.clock)
            finally:
                assert beats or world.clock.monotonic() - begun >= LEASE_TTL_S

    if beats:
        with pytest.raises(perdure.TaskBusy):
            asyncio.run(watch())
    else:
        lease, crashed = asyncio.run(watch())
        assert (3, True) == (lease.epoch, crashed)


# --- opening --------------------------------------------------------------------------------------------------------
def _spoil(appends, how):
    """Damage a journal in its middle."""
    victim = appends[3]
    match how:
        case "a changed byte":
            frames = bytearray(victim.frames)
            frames[-3] ^= 1
        case "a cut entry":
            frames = victim.frames[:-5]
        case _:
            frames = b""
    spoilt = StoredAppend(victim.first_seq, victim.last_seq, bytes(frames), victim.last_digest)
    middle = {"swapped": [appends[4], victim], "missing": [appends[4]], "doubled": [victim, victim, appends[4]]}
    appends[3:5] = middle.get(how, [spoilt, appends[4]])


@pytest.mark.parametrize("how", ["a changed byte", "a cut entry", "an empty append", "swapped", "missing", "doubled"])
def test_a_damaged_journal_names_its_entry_and_is_not_held(how):
    """Opening raises Damaged with task and seq, changes nothing, and leaves the lease free (claude-code 50347)."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        for item in range(5):
            await task.act(read, item)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    (stored,) = world.memory.tasks.values()
    places = range(stored.appends[3].first_seq, stored.appends[5].last_seq + 1)
    _spoil(stored.appends, how)
    for _ in range(2):
        with pytest.raises(Damaged) as caught:
            world.live(Play(program))
        assert caught.value.seq in places
        assert stored.summary.task == caught.value.task
    assert stored.lease.holder is None
    assert ["running"] == [task.status for task in asyncio.run(world.store().tasks())]


def test_an_entry_of_an_unknown_kind_refuses_the_resume_by_name(monkeypatch):
    """The task stays listed, nothing is run and nothing written (OpenHands 4080)."""
    world, calls = World(), []

    async def program(task):
        calls.append(1)
        await task.note("a kind of a later release")
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    before = world.kinds()
    decoders = {number: decoder for number, decoder in entries._decoders.items() if number != 36}
    monkeypatch.setattr(entries, "_decoders", decoders)
    with pytest.raises(UnknownKind) as caught:
        world.live(Play(program))
    monkeypatch.undo()
    assert (36, 3, [1]) == (caught.value.kind, caught.value.seq, calls)
    assert before == world.kinds()


def test_the_frozen_clock_starts_a_task_once():
    """Ownership decides, not time: with the clock standing still each of fifty bodies runs once (dbos-java 491)."""
    world, bodies = World(), []
    world.clock.step_us = 0

    async def program(task, number):
        bodies.append(number)

    for number in range(50):
        world.live(Play(program), f"job {number}", args={"number": number})
    assert list(range(50)) == bodies


def test_the_system_clock_and_a_memory_store_do_too():
    """`perdure.open` with a store of one's own leaves it open."""

    async def program(task):
        return task.status

    async def opened():
        from perdure.stores.memory import MemoryWorld

        store = MemoryStore(MemoryWorld(), SystemClock())
        async with perdure.open(store) as runtime:
            assert "running" == await runtime.run(Play(program), "job")
        return (await store.find("job")).status

    assert "succeeded" == asyncio.run(opened())
