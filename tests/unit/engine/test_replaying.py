"""Replay: the program runs again on its record, is told what it was told, and calls no tool."""

import asyncio
import random
import uuid

import pytest

import perdure
from perdure.core.recovery import Rules
from perdure.core.retrying import Patience
from perdure.engine.replay import following
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.engine.replay.rejudging import rejudge
from perdure.ports import Message
from tests.worlds import DEAD, IMPATIENT, Death, Play, Stop, World, counted


def recorded(world, name="job", until=None):
    """Return the record of a task."""

    async def load():
        store = world.store()
        return await load_record(store, (await store.find(name)).task, until)

    return asyncio.run(load())


def replay(world, fn, mode="strict", until=None, **options):
    """Replay the task on record with the program `fn`."""
    return play(recorded(world, until=until), Play(fn, **options), mode)


def shown(replayed):
    """Return (seq, what was expected, what came) of a divergence, without the arguments' quotes."""
    found = replayed.divergence
    return found and (found.seq, found.expected.replace('"', ""), found.came.replace('"', ""))


def fields(replayed):
    """Return {field: (expected, came)} of a divergence."""
    return {one.field: (one.expected, one.came) for one in replayed.divergence.differences}


def cut_remark(text):
    """Return kind and tool of what was let pass."""
    words = text.partition("not on record: ")[2].split()
    return " ".join(words[:2]) if words[0] == "action_intended" else words[0]


def failing(error, name="broken", effect="pure"):
    """Return a tool that raises `error`."""

    async def fn(item: int = 0) -> object:
        raise error

    return perdure.tool(effect=effect, name=name)(fn)


# --- equal ----------------------------------------------------------------------------------------------------------
def test_a_program_with_every_kind_of_step_is_replayed_equal_and_no_tool_is_called():
    """Acts, edits, loops, marks, checks, notes, facts, plans, steps and draws are compared; a milestone is not."""
    world, calls = World(), []
    read, send = counted(calls), counted(calls, effect="irreversible", name="send")

    async def program(task):
        await task.adopt(["one", "two"])
        await task.begin_step("one")
        async for item in task.each("items", [5, 6]):
            await task.act(read, item, then=lambda state, got: state.setdefault("read", []).append(got))
        await task.check("read", len(task.state["read"]) == 2)
        await task.note("half way", at=task.now())
        await task.fact("six is read")
        got = await task.using(key="k").asked_by("read", "").act(send, 7)
        async with task.edit(count={"ids": 1}) as state:
            state["id"] = task.new_id()
        await task.checkpoint("end", then=lambda state: state.update(ended=True))
        await task.check("ended", task.state["ended"], then=lambda state: state.update(checked=True))
        await task.note("that is all", then=lambda state: state.update(said=True))
        with pytest.raises(perdure.CheckFailed):
            await task.check("too much", False, then=lambda state: state.update(asked=True))
        return {"got": got, "by chance": task.random()}

    world.live(Play(program))
    before, entries = list(calls), len(world.journal())
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence
    assert (entries - 2, 3) == (replayed.entries, replayed.actions)
    assert before == calls == [5, 6, 7]


def test_the_record_stays_as_it_was():
    """A replay writes nothing: not an entry more, no digest other (case 49)."""
    world = World()
    read = counted([])

    async def program(task):
        for item in range(3):
            await task.using(key=str(item)).act(read, item)

    world.live(Play(program))
    before = [entry.digest for entry in world.journal()]
    for mode in ("strict", "tolerant"):
        assert replay(world, program, mode).is_equal
    assert before == [entry.digest for entry in world.journal()]


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
@pytest.mark.parametrize("number", range(1, 14))
def test_a_task_that_was_killed_and_resumed_is_replayed_equal(mode, number):
    """The record is followed life by life, wherever the first one ended, unfinished or finished."""
    world, calls = World(), []
    read, more = counted(calls), counted(calls, name="more")

    async def program(task):
        async for item in task.each("items", [1, 2]):
            await task.act(read, item, then=lambda state, got: state.setdefault("read", []).append(got))
        first = await task.act(more, 3)
        async with task.edit() as state:
            state["more"] = first + task.random()
        await task.checkpoint("end")
        return task.state.plain()

    assert DEAD == world.live(Play(program), death=Death("any", number))
    before = list(calls)
    assert replay(world, program, mode).is_equal
    assert before == calls
    world.live(Play(program))
    before = list(calls)
    replayed = replay(world, program, mode)
    assert replayed.is_equal, replayed.divergence
    assert (before, ()) == (calls, replayed.remarks)


def test_failures_are_handed_in_as_recorded_and_their_retries_follow():
    """Type, message and class of a failure are the recorded ones; waits between attempts take no time."""
    world, calls, seen = World(), [], []
    world.clock.step_us = 500_000

    @perdure.tool(effect="pure")
    async def flaky(n: int) -> int:
        calls.append(n)
        if len(calls) < 3:
            raise ConnectionError("the line is dead")
        return n

    async def program(task):
        try:
            return await task.act(flaky, 1)
        except perdure.ActionFailed as failure:
            seen.append((failure.error.type, failure.error.message, failure.error.failure_class, failure.error.trace))
            raise

    world.live(Play(program))
    first = list(seen)
    seen.clear()
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence
    assert (first, 3) == (seen, len(calls))


def test_a_rolled_back_branch_is_replayed_with_its_own_answers():
    """What was answered before the rollback and after it are told apart (case 48)."""
    world, numbers, seen = World(), iter(range(9)), []

    @perdure.tool(effect="pure")
    async def ask() -> int:
        return next(numbers)

    async def program(task):
        await task.checkpoint("before")
        answer = await task.using(key="answer").act(ask)
        seen.append(answer)
        if answer == 0:
            await task.rollback("before", reason="not good")
        return answer

    assert 1 == world.live(Play(program))
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence
    assert [0, 1, 0, 1] == seen


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_calls_side_by_side_are_answered_in_the_recorded_order(mode):
    """The state that reducers leave depends on who ended first; the replay imposes that order."""
    world = World()
    release = {}

    @perdure.tool(effect="pure")
    async def work(n: int) -> int:
        release[n] = asyncio.Event()
        if len(release) == 4:
            for one in (2, 0, 3, 1):
                release[one].set()
                await asyncio.sleep(0)
        await release[n].wait()
        return n

    async def program(task):
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                keyed = task.using(key=str(n))
                group.create_task(keyed.act(work, n, then=lambda state, got: state.setdefault("order", []).append(got)))
        return list(task.state["order"])

    order = world.live(Play(program))
    assert [0, 1, 2, 3] != order
    replayed = replay(world, program, mode)
    assert replayed.is_equal, replayed.divergence


def test_siblings_that_a_failure_has_cancelled_are_cancelled_again():
    """Outcomes that say cancelled come from the program's own cancellation, each at its recorded place."""
    world = World()

    @perdure.tool(effect="pure")
    async def work(n: int) -> int:
        if n == 2:
            await asyncio.sleep(0.001)
            raise ValueError("two")
        await asyncio.sleep(60)
        return n

    async def program(task):
        try:
            async with asyncio.TaskGroup() as group:
                for n in range(4):
                    group.create_task(task.using(key=str(n)).act(work, n))
        except ExceptionGroup as failed:
            return [str(error) for error in failed.exceptions]
        return None

    world.live(Play(program))
    cancelled = [e.payload.error.failure_class for e in world.journal() if getattr(e.payload, "error", None)]
    assert 3 == cancelled.count("cancelled")
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence


def test_cancelled_calls_end_in_the_recorded_order():
    """In which order a set of tasks is cancelled is nobody's doing."""
    world, order = World(), [0, 1, 2, 3]

    @perdure.tool(effect="pure")
    async def work(n: int) -> int:
        await asyncio.sleep(60)
        return n

    async def program(task):
        running = [asyncio.create_task(task.using(key=str(n)).act(work, n)) for n in range(4)]
        await asyncio.sleep(0.001)
        for n in order:
            running[n].cancel()
        await asyncio.wait(running)

    world.live(Play(program))
    order.reverse()
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence
    assert 4 == replayed.actions


@pytest.mark.parametrize("what", ["pause", "cancel"])
def test_a_stop_that_somebody_asked_for_comes_where_it_came(what):
    """The message is on record; what follows from it is played, and the calls behind it are not made."""
    world, calls = World(), []

    async def told():
        async with world.runtime() as runtime:

            @perdure.tool(effect="irreversible")
            async def slow(n: int) -> int:
                calls.append(n)
                await runtime.store.post((await runtime.store.find("job")).task, Message(id="m", what=what))
                await runtime._mailbox.look(runtime._sessions)
                return n

            program.tool = slow
            await runtime.run(Play(program), "job")

    async def program(task):
        for n in range(3):
            await task.using(key=str(n)).act(program.tool, n)

    with pytest.raises(perdure.TaskStopped):
        asyncio.run(told())
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence
    assert (1, [0]) == (replayed.actions, calls)


@pytest.mark.parametrize("by", ["message", "signal"])
@pytest.mark.parametrize("what", ["pause", "cancel"])
def test_a_stop_in_a_loop_comes_before_the_loop_moves_on(what, by):
    """As it did: the place moves with the next body, which is that of the run that goes on."""
    world, calls, stops = World(), [], [1]

    async def told():
        async with world.runtime() as runtime:
            program.runtime = runtime
            await runtime.run(Play(program), "job")

    @perdure.tool(effect="irreversible")
    async def slow(n: int) -> int:
        calls.append(n)
        runtime = program.runtime
        if n in stops and by == "signal":
            runtime.request_stop(what)
        elif n in stops:
            await runtime.store.post((await runtime.store.find("job")).task, Message(id="m", what=what))
            await runtime._mailbox.look(runtime._sessions)
        return n

    async def program(task):
        async for n in task.each("items", range(4)):
            await task.act(slow, n, then=lambda state, got: state.setdefault("got", []).append(got))

    with pytest.raises(perdure.TaskStopped):
        asyncio.run(told())
    replayed = replay(world, program)
    assert (None, 2) == (replayed.divergence, replayed.actions)
    if what == "pause":
        stops.clear()
        asyncio.run(told())
        replayed = replay(world, program)
        assert (None, 4) == (replayed.divergence, replayed.actions)
    assert list(range(len(calls))) == calls


def test_a_probe_and_a_persons_word_are_replayed():
    """What settled an interrupted effect is on record: nobody is asked again."""
    world, asked = World(), []

    async def was_sent(n):
        asked.append(n)
        return "sent"

    @perdure.tool(effect="verifiable", probe=was_sent)
    async def send(n: int) -> str:
        return "sent"

    @perdure.tool(effect="irreversible")
    async def ring(n: int) -> str:
        return "rang"

    async def program(task):
        await task.using(key="send").act(send, 1)
        return await task.using(key="ring").act(ring, 2)

    assert DEAD == world.live(Play(program), death=Death("after_effect", 1))
    assert DEAD == world.live(Play(program), death=Death("after_effect", 1))
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))

    (action,) = world.fold().ledger.open

    async def settle():
        async with world.runtime() as runtime:
            await runtime.settle("job", action, perdure.Succeeded("it rang"))

    asyncio.run(settle())
    assert "it rang" == world.live(Play(program))
    before = list(asked)
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence
    assert before == asked == [1]


@pytest.mark.parametrize("unattended", [False, True])
def test_questions_and_answers_are_replayed(unattended):
    """Asked once, answered once, found by the next life; where nobody could be asked, the task fails again."""
    world, read = World(), counted([])

    async def program(task):
        word = await task.ask("which one?")
        return await task.using(key=word).act(read, 1)

    with pytest.raises(perdure.TaskStopped):
        world.live(Play(program), unattended=unattended)
    assert replay(world, program).is_equal
    if unattended:
        return

    async def answer():
        async with world.runtime() as runtime:
            await runtime.say("job", Message(id="m", what="answer", text="this"))

    asyncio.run(answer())
    assert 1 == world.live(Play(program))
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence
    assert 1 == replayed.actions


def test_an_hour_of_sleep_is_no_time():
    """Sleeping in the program costs nothing in a replay."""
    world, naps = World(), [0]
    read = counted([])

    async def program(task):
        for n in range(3):
            await asyncio.sleep(naps[0])
            await task.using(key=str(n)).act(read, n)

    world.live(Play(program))
    naps[0] = 3600
    assert replay(world, program).is_equal


def test_work_in_the_programs_own_threads_is_waited_for():
    """A thread's result is needed for the next step, so time does not jump over it."""
    world, read = World(), counted([])

    async def program(task):
        async with asyncio.timeout(60):
            n = await asyncio.to_thread(sum, range(1_000_000))
            return await task.act(read, n)

    world.live(Play(program))
    assert replay(world, program).is_equal


@pytest.mark.parametrize("until", [1, 2, 4, 6])
def test_until_looks_at_the_record_up_to_that_entry_only(until):
    """What is behind it is not asked for, whatever the program would do there."""
    world, read, last = World(), counted([]), [3]

    async def program(task):
        for n in (1, 2, last[0]):
            await task.using(key=str(n)).act(read, n)

    world.live(Play(program))
    last[0] = 9
    replayed = replay(world, program, until=until)
    assert (True, until, until - 1) == (replayed.is_equal, replayed.until, replayed.entries)
    assert not replay(world, program).is_equal


# --- different ------------------------------------------------------------------------------------------------------
def test_the_first_difference_is_named_with_both_values_and_no_tool_is_called(tmp_path):
    """Entry, field, expected, came; the tool that would have written a file has not (case 57)."""
    world, number, file = World(), [1], tmp_path / "written"

    @perdure.tool(effect="irreversible")
    async def write(n: int) -> None:
        file.write_text(str(n))

    async def program(task):
        await task.using(key="a").act(write, number[0])

    world.live(Play(program))
    file.unlink()
    number[0] = 2
    replayed = replay(world, program)
    assert (3, "action_intended write key 'a' {n:1}", "action_intended write key 'a' {n:2}") == shown(replayed)
    assert {"arguments": ('{"n":1}', '{"n":2}')} == fields(replayed)
    assert not file.exists()


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("checkpoint_marked", lambda task: task.checkpoint("a"), lambda task: task.checkpoint("b")),
        ("note_written", lambda task: task.note("a"), lambda task: task.note("b")),
        ("check_judged", lambda task: task.check("a", True), lambda task: task.check("b", True)),
        ("fact_stated", lambda task: task.fact("a"), lambda task: task.fact("b")),
        ("plan_adopted", lambda task: task.adopt(["a"]), lambda task: task.adopt(["b"])),
        ("plan_adopted", lambda task: task.adopt(["a"]), lambda task: task.note("b")),
    ],
)
def test_every_step_is_compared(kind, old, new):
    """Another name, text or kind of step is a difference at its entry."""
    world, step = World(), [old]

    async def program(task):
        await step[0](task)

    world.live(Play(program))
    assert replay(world, program).is_equal
    step[0] = new
    replayed = replay(world, program)
    assert 3 == replayed.divergence.seq
    assert replayed.divergence.expected.startswith(kind)


@pytest.mark.parametrize("what", ["reducer", "edit", "result", "too short", "too long"])
def test_what_the_program_makes_of_answers_is_compared(what):
    """Patches of reducers and edits, the result, and whether there is more or less than on record."""
    world, read, now = World(), counted([]), [""]

    async def program(task):
        add = 1 if now[0] == "reducer" else 0
        await task.using(key="a").act(read, 1, then=lambda state, got: state.update(got=got + add))
        if now[0] == "too short":
            return None
        async with task.edit() as state:
            state["more"] = 2 if now[0] == "edit" else 1
        if now[0] == "too long":
            await task.note("more")
        return 4 if now[0] == "result" else 3

    world.live(Play(program))
    assert replay(world, program).is_equal
    now[0] = what
    replayed = replay(world, program)
    expected = {"reducer": 4, "edit": 5, "result": 6, "too short": 5, "too long": 6}
    assert expected[what] == replayed.divergence.seq


@pytest.mark.parametrize("draw", [lambda: random.getrandbits(64), lambda: uuid.uuid4().hex], ids=["random", "uuid"])
def test_chance_that_is_not_the_tasks_is_found_at_its_first_step(draw):
    """The same program with the task's own chance is equal (case 57)."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        await task.using(key="a").act(read, 0)
        await task.using(key="b").act(read, draw())

    async def tidy(task):
        await task.using(key="a").act(read, 0)
        await task.using(key="b").act(read, task.now())
        return [task.random(), task.new_id()]

    world.live(Play(program))
    before = list(calls)
    assert 5 == replay(world, program).divergence.seq
    assert before == calls
    world = World()
    world.live(Play(tidy))
    assert replay(world, tidy).is_equal


def test_a_program_that_waits_for_what_a_tool_would_do_is_said_to_wait():
    """No tool is called, so nobody does it; the replay ends and says so, also where the program polls for ever."""
    world, done = World(), []

    async def program(task):
        await task.using(key="a").act(counted(done), 1)
        while not done:  # noqa: ASYNC110 - what a user might write
            await asyncio.sleep(1)
        await task.note("done")

    world.live(Play(program))
    done.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "JUMPS_MAX", 1000)
        replayed = replay(world, program)
    assert (5, "note_written {text:done}") == shown(replayed)[:2]
    assert "waits for something" in replayed.divergence.came


def test_an_error_of_the_program_is_a_difference_where_it_is_none_on_record():
    """What it raised is what came."""
    world, read, wrong = World(), counted([]), []

    async def program(task):
        await task.using(key="a").act(read, 1)
        if wrong:
            raise ValueError("wrong")
        return 1

    world.live(Play(program))
    wrong.append(1)
    replayed = replay(world, program)
    assert 5 == replayed.divergence.seq
    assert "wrong" in replayed.divergence.came


def test_wrong_use_leaves_the_program_and_is_a_difference_too():
    """An error that goes to the caller of `run` ends the replay with what was still expected."""
    world, read, wrong = World(), counted([]), []

    async def program(task):
        if wrong:
            raise Stop
        await task.using(key="a").act(read, 1)

    world.live(Play(program))
    wrong.append(1)
    assert (3, "Stop") == (replay(world, program).divergence.seq, replay(world, program).divergence.came.split(":")[0])


def test_a_task_that_a_script_drives_has_no_program_to_run_again():
    """UsageError, and nothing was run."""
    world = World()

    async def script():
        async with world.runtime() as runtime, runtime.task("job") as task:
            await task.note("a")

    asyncio.run(script())
    with pytest.raises(perdure.UsageError, match="script"):
        replay(world, None)


# --- draws ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_more_draw_is_named_and_when_tolerated_shifts_no_other(place):
    """Strict names the call that was not there; tolerant gives it a value of its own, whichever it is (case 57)."""
    world, read, more = World(), counted([]), []

    async def program(task):
        if more and place == "first":
            task.random()
        first = task.random()
        if more and place == "middle":
            task.random()
        name = task.new_id()
        if more and place == "last":
            task.random()
        await task.using(key="a").act(read, int(first * 1e9))
        second = task.random()
        await task.using(key="b").act(read, int(second * 1e9))
        return name

    world.live(Play(program))
    assert replay(world, program).is_equal
    more.append(1)
    strict, tolerant = replay(world, program), replay(world, program, "tolerant")
    assert "task." in strict.divergence.came
    assert strict.divergence.seq in {3, 4}
    assert tolerant.is_equal, tolerant.divergence
    assert 1 == len(tolerant.remarks)
    assert "task.random()" in tolerant.remarks[0]


def test_draws_that_are_no_longer_made_are_a_difference():
    """A value on record that nobody asks for is named in a strict replay, and no matter in a tolerant one."""
    world, less = World(), []

    async def program(task):
        if not less:
            task.random()
        await task.note("a")

    world.live(Play(program))
    less.append(1)
    assert "values_drawn" == replay(world, program).divergence.expected.split()[0]
    assert replay(world, program, "tolerant").is_equal


def test_reducers_and_edits_draw_what_they_drew():
    """What is drawn between an outcome and its entry stands before both."""
    world, read = World(), counted([])

    async def program(task):
        async for n in task.each("items", range(3)):
            await task.act(read, n, then=lambda state, _: state.update(at=task.random()))
            async with task.edit() as state:
                state["id"] = task.new_id()

    world.live(Play(program))
    for mode in ("strict", "tolerant"):
        replayed = replay(world, program, mode)
        assert replayed.is_equal, replayed.divergence


def test_branches_side_by_side_draw_what_they_drew():
    """Draws of coroutines that take turns come in the recorded order."""
    world, read = World(), counted([])

    async def branch(task, n):
        for step in range(3):
            await task.using(key=f"{n} {step}").act(read, int(task.random() * 1e6))

    async def program(task):
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(branch(task, n))

    world.live(Play(program))
    replayed = replay(world, program)
    assert replayed.is_equal, replayed.divergence


# --- tolerant -------------------------------------------------------------------------------------------------------
def test_another_order_of_keyed_calls_is_let_pass_by_a_tolerant_replay_only():
    """A program that walks through a set goes another way under another hash seed."""
    world, read, order = World(), counted([]), [1, 2, 3]

    async def program(task):
        for n in order:
            await task.using(key=str(n)).act(read, n, then=lambda state, got: state.update({str(got): got}))
        return sorted(task.state)

    world.live(Play(program))
    order.reverse()
    assert (3, "action_intended read key '1' {item:1}") == shown(replay(world, program))[:2]
    tolerant = replay(world, program, "tolerant")
    assert tolerant.is_equal, tolerant.divergence


def test_calls_too_many_are_let_pass_where_they_have_no_effect_and_an_answer():
    """An equal call on record answers it; without one it is a difference, as an effect always is."""
    world, calls, extra = World(), [], []
    read, look = counted(calls), counted(calls, name="look")
    send = counted(calls, effect="irreversible", name="send")

    async def program(task):
        await task.act(read, 1)
        async with task.edit() as state:
            state["a"] = 1
        for tool, n in extra:
            await task.using(key=f"extra {n}").act(tool, n)
        await task.using(key="s").act(send, 5)

    world.live(Play(program))
    before = list(calls)
    extra[:] = [(read, 1)]
    tolerant = replay(world, program, "tolerant")
    assert tolerant.is_equal, tolerant.divergence
    assert ["action_intended read", "action_settled"] == [cut_remark(text) for text in tolerant.remarks]
    extra[:] = [(look, 1)]
    assert "look" in replay(world, program, "tolerant").divergence.came
    extra[:] = [(send, 5)]
    assert "send" in replay(world, program, "tolerant").divergence.came
    assert before == calls


@pytest.mark.parametrize("what", ["call", "state", "result", "argument", "note", "checkpoint"])
def test_a_tolerant_replay_asks_for_calls_final_state_and_result(what):
    """Notes and checkpoints may go; a call, the state and the result may not."""
    world, read, now = World(), counted([]), [""]

    async def program(task):
        if now[0] != "call":
            await task.using(key="a").act(read, 2 if now[0] == "argument" else 1)
        if now[0] != "note":
            await task.note("a")
        async with task.edit() as state:
            state["a"] = 2 if now[0] == "state" else 1
        if now[0] != "checkpoint":
            await task.checkpoint("c")
        return 2 if now[0] == "result" else 1

    world.live(Play(program))
    now[0] = what
    assert (what in {"note", "checkpoint"}) == replay(world, program, "tolerant").is_equal
    assert not replay(world, program).is_equal


# --- recovery, asked again ------------------------------------------------------------------------------------------
def test_todays_recovery_is_asked_about_recorded_failures():
    """Nothing changes under the same rules; under others each decision that would be another is listed."""
    world = World()
    broken = failing(ConnectionError("no line"))

    async def program(task):
        await task.act(broken, 1)

    def pass_time(_task, event, _fields):
        world.clock.advance(10 if event == "decision" else 0)

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program), hooks=[pass_time], rules=IMPATIENT)
    record = recorded(world)
    same = rejudge(record, IMPATIENT)
    assert (4, ()) == (same.decisions, same.changed)
    changed = rejudge(record, Rules(patience=Patience(retries_max=1, outage_s=0))).changed
    assert ["passing_too_long"] * 2 == [one.today.rpartition("(")[2].rstrip(")") for one in changed]
    assert changed[0].recorded.endswith(" s (passing)")
    assert "ConnectionError: no line" == changed[0].failure
    longer = rejudge(record, Rules(patience=Patience(base_s=50.0, outage_s=0))).changed
    assert len(longer) == 3
    assert all(one.today.startswith("retry after ") for one in longer)


def test_asking_recovery_again_goes_by_rollbacks_and_finished_programs():
    """Document and ledger are those of each entry, over branches and lives."""
    world, numbers = World(), iter(range(9))

    @perdure.tool(effect="pure")
    async def ask() -> int:
        return next(numbers)

    async def program(task):
        await task.checkpoint("before")
        number = await task.using(key="answer").act(ask)
        if number == 0:
            await task.rollback("before")
        if number == 1:
            async with task.edit() as state:
                state["tried"] = True
            await task.rollback("start")
        raise ValueError("in the end")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    judged = rejudge(recorded(world))
    assert judged.decisions > 0
    assert () == judged.changed


def test_a_replay_names_its_task():
    """What a replay returns says which task it was of, and how far it looked."""
    world = World()

    async def program(task):
        return task.name

    world.live(Play(program))
    replayed = replay(world, program)
    assert (world.journal()[0].header.task, "job", 3) == (replayed.task, replayed.name, replayed.until)
