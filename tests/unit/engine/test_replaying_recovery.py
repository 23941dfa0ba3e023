"""Replay of what recovery has decided: rollbacks, other strategies, circles, advice, parking; and deciding it again."""

import asyncio

import pytest

import perdure
from perdure import Strategy
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.engine.replay.rejudging import rejudge
from perdure.model import entry as e
from tests.worlds import DEAD, Death, Play, World, counted

DIRECT, CAREFUL = Strategy("direct", source="web"), Strategy("careful", prompt="slowly", source="books")
HELP = Strategy("help", change="ask")


def recorded(world):
    """Return the record of the task."""

    async def load():
        store = world.store()
        return await load_record(store, (await store.find("job")).task)

    return asyncio.run(load())


def rows(world):
    """Return the rows of the table that have fired, in order."""
    return [one.payload.row for one in world.journal() if isinstance(one.payload, e.DecisionTaken)]


def check_equal(world, program, calls):
    """The task is replayed equal in both modes, without a call, and today's recovery decides what it has decided."""
    record, before = recorded(world), list(calls)
    for mode in ("strict", "tolerant"):
        replayed = play(record, program, mode)
        assert (None, ()) == (replayed.divergence, replayed.remarks), mode
        assert len(record.entries) == replayed.until
    assert before == calls
    assert () == rejudge(record).changed
    return record


class Case:
    """One program, and what its task is to come to."""

    def __init__(self, calls):
        self.calls = calls
        self.read = counted(calls, name="again_read", source=True)

        @perdure.tool(effect="idempotent", name="again_send")
        async def send(item: int, key: perdure.EffectKey) -> int:
            calls.append(item)
            return item

        @perdure.tool(effect="idempotent", name="again_unpin")
        async def unpin(item: int, key: perdure.EffectKey) -> None:
            calls.append(-item)

        @perdure.tool(effect="compensable", retry="keyed", name="again_pin", undo=unpin)
        async def pin(item: int, key: perdure.EffectKey) -> int:
            calls.append(item)
            return item

        @perdure.tool(effect="pure", name="again_broken")
        async def broken(item: int) -> None:
            raise LookupError(f"no {item}")

        self.send, self.pin, self.broken = send, pin, broken

    def rolls_back(self):
        """A tool that fails twice in the same way: back to a checkpoint, what was pinned is taken off."""

        async def program(task):
            await task.checkpoint("begun")
            await task.using(key="pin").act(self.pin, 7)
            if task.strategy.name == "direct":
                await task.act(self.broken, 1)
            return task.strategy.name, task.lessons, task.random()

        return Play(program, strategies=(DIRECT, CAREFUL)), ["same_again", "roll_back"]

    def changes_in_place(self):
        """Behind an effect that cannot be taken back there is nothing to go back to but that moment."""

        async def program(task):
            await task.using(key="send").act(self.send, 1)
            if task.strategy.name == "direct":
                await task.act(self.broken, 1)
            return task.strategy.name

        return Play(program, strategies=(DIRECT, CAREFUL)), ["same_again", "roll_back"]

    def is_asked_again(self):
        """Bad answers, a refusal and a context that is too long: advice, and then it is right."""
        kinds = {"": "context", "condense": "refusal", "rephrase": "output", "reask": ""}

        async def program(task):
            kind = kinds[task.advice.kind]
            if kind:
                error = ValueError(f"a failure of {kind}")
                error.failure_class = kind
                raise error
            return task.advice.text, task.brief()

        return Play(program, failures_max=9), ["condense", "rephrase", "reask"]

    def is_wrong(self):
        """What the source says is false: back to before it was asked."""

        async def program(task):
            await task.checkpoint("begun")
            for item in range(2):
                await task.act(self.read, item, then=lambda state, got: state["got"].append(got))
                await task.checkpoint(f"read {item}")
            await task.check("true", task.strategy.source == "books", failure_class="suspicious")
            return task.strategy.source

        return Play(program, state={"got": []}, strategies=(DIRECT, CAREFUL)), ["roll_back"]

    def is_done_already(self):
        """A late failure, when the goal is reached."""

        async def program(task):
            await task.using(key="send").act(self.send, 3, then=lambda state, got: state.update(sent=got))
            raise RuntimeError("too late")

        return Play(program, reached=lambda state: state.get("sent")), ["already_done"]

    def goes_in_circles(self):
        """The same call again and again: told so, then another strategy."""

        async def program(task):
            await task.checkpoint("begun")
            for turn in range(30):
                if task.strategy.name == "careful" and turn == 2:
                    break
                await task.act(self.read, 5)
            return task.strategy.name

        return Play(program, strategies=(DIRECT, CAREFUL)), ["nudge", "roll_back"]


CASES = [name for name in vars(Case) if not name.startswith("_")]


@pytest.mark.parametrize("name", CASES)
def test_what_recovery_has_done_is_replayed(name):
    """Undisturbed: strict and tolerant, no tool is called, and the decisions are those of today."""
    world, calls = World(), []
    program, fired = getattr(Case(calls), name)()
    world.live(program)
    assert fired == rows(world)
    check_equal(world, program, calls)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("where", ["after_append", "before_append"])
def test_what_recovery_has_done_is_replayed_wherever_it_was_killed(name, where):
    """Another process decides what was observed and does what was decided: the record of all their lives is equal."""
    for number in range(1, 60):
        world, calls = World(), []
        program, fired = getattr(Case(calls), name)()
        died = world.live(program, death=Death(where, number))
        if died != DEAD:
            return
        if world.memory.tasks and any(stored.appends for stored in world.memory.tasks.values()):
            check_equal(world, program, calls)
        world.live(program)
        assert fired == list(dict.fromkeys(rows(world))), number  # killed at its end, `already_done` is seen once more
        check_equal(world, program, calls)
    pytest.fail("no life ran through")


class UsedUp(Exception):
    """A quota that is back after two hours."""

    failure_class = "quota"
    retry_after_s = 7_200


def test_a_parked_task_is_replayed():
    """Until it is parked, and when it has gone on."""
    world, calls, used = World(), [], [UsedUp("today")]
    read = counted(calls, name="again_read")

    @perdure.tool(effect="pure", name="again_used_up")
    async def ask() -> str:
        calls.append("ask")
        if used:
            raise used.pop()
        return "here"

    async def program(task):
        await task.act(read, 1, then=lambda state, got: state.update(got=got))
        return await task.act(ask)

    with pytest.raises(perdure.TaskParked):
        world.live(Play(program))
    check_equal(world, Play(program), calls)
    world.clock.advance(7_300)
    assert "here" == world.live(Play(program))
    check_equal(world, Play(program), calls)
    assert ["quota"] == rows(world)


@pytest.mark.parametrize("unattended", [False, True])
def test_a_task_that_has_used_up_its_strategies_is_replayed(unattended):
    """Up to the question, or the failure in its place; and on, when a person has let it."""
    world, calls, is_mended = World(), [], []
    read = counted(calls, name="again_read")

    @perdure.tool(effect="pure", name="again_mended")
    async def look() -> str:
        if not is_mended:
            raise LookupError("nothing there")
        return "found"

    async def program(task):
        await task.checkpoint("begun")
        await task.act(read, 1, then=lambda state, got: state.update(got=got))
        return await task.act(look)

    played = Play(program, strategies=(DIRECT, CAREFUL) if unattended else (DIRECT, CAREFUL, HELP), failures_max=1)
    with pytest.raises(perdure.TaskFailed if unattended else perdure.NeedsHuman):
        world.live(played, unattended=unattended)
    assert {"exhausted" if unattended else "ask_for_help"} <= set(rows(world))
    check_equal(world, played, calls)
    is_mended.append(1)

    async def resume():
        async with world.runtime() as runtime:
            return await runtime.resume("job", played, again=True)

    assert "found" == asyncio.run(resume())
    check_equal(world, played, calls)


def test_another_decision_today_is_found_in_the_record():
    """A program that does something else under its second strategy is found to do so, at its first entry there."""
    world, calls = World(), []
    program, _ = Case(calls).rolls_back()
    world.live(program)
    without = Play(program.fn, strategies=(DIRECT, CAREFUL))

    async def forgetful(task):
        if task.lessons:
            return "something else"
        return await program.fn(task)

    without.fn = forgetful
    replayed = play(recorded(world), without, "strict")
    assert not replayed.is_equal
