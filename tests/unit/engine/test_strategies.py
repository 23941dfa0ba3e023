"""Strategies as a program meets them: what is changed, what is left out, what survives, and when a person is asked."""

import asyncio
from collections import Counter

import msgspec
import pytest

import perdure
from perdure import Strategy
from perdure.core import rollback
from perdure.engine.rollback import Ahead
from perdure.model import entry as e
from perdure.model.decision import RollBack
from perdure.ports import Message
from perdure.views.verifying import verify
from tests.unit.engine.test_timeouts import Gate
from tests.worlds import DEAD, Death, Play, World, counted

WEB, BOOKS = Strategy("web", source="web"), Strategy("books", source="books")


def act_on(world, what):
    """Let `what(runtime)` be done in a runtime of its own."""

    async def act():
        async with world.runtime() as runtime:
            return await what(runtime)

    return asyncio.run(act())


def rows(world):
    """Return the rows of the table that have fired, in order."""
    return [one.payload.row for one in world.journal() if isinstance(one.payload, e.DecisionTaken)]


# --- tools that are left out ----------------------------------------------------------------------------------------
SEARCH = Strategy("search", tools=("left_search", "left_read"))
READ = Strategy("read", tools=("left_read",))


def left_out_tools(calls):
    """Return the three tools of these tests; `left_free` is named in no strategy."""
    return [counted(calls, name=name, result=name) for name in ("left_search", "left_read", "left_free")]


def test_a_tool_of_another_strategy_is_refused_and_the_program_may_deal_with_it():
    """Nothing is called or written; what no strategy names is free to all."""
    world, calls = World(), []
    search, read, free = left_out_tools(calls)

    async def program(task):
        with pytest.raises(perdure.ToolLeftOut, match="'read' leaves 'left_search' out; its tools, in order, are: "):
            await task.act(search, 1)
        return await task.act(read, 2), await task.act(free, 3)

    assert ("left_read", "left_free") == world.live(Play(program, strategies=(READ, SEARCH)))
    assert ([2, 3], 2) == (calls, world.kinds().count("ActionIntended"))
    assert [] == rows(world)


def test_a_left_out_tool_that_leaves_the_program_is_a_bad_answer():
    """The program is told which tools it has; the strategy that has the tool comes when that does not help."""
    world, calls, advice = World(), [], []
    search, _, _ = left_out_tools(calls)

    async def program(task):
        advice.append(task.advice.text)
        return await task.act(search, 1)

    assert "left_search" == world.live(Play(program, strategies=(READ, SEARCH)))
    (failure, *_) = [one.payload for one in world.journal() if isinstance(one.payload, e.FailureObserved)]
    assert ("output", True, "left_search") == (failure.failure.failure_class, failure.counted, failure.failure.tool)
    assert ["reask", "reask", "roll_back"] == rows(world)
    assert ["", True, True, ""] == [text and "leaves 'left_search' out" in text for text in advice]


# --- what follows a task --------------------------------------------------------------------------------------------
def changing(seen, fails):
    """Return a program that fails under `direct`, and until `fails` is empty stops under the next strategy."""

    async def program(task):
        seen.append(task.strategy.name)
        if task.strategy.name == "direct":
            raise LookupError("nothing")
        await task.checkpoint("on the way")
        if fails:
            raise fails.pop()
        return task.strategy.name

    return Play(program, strategies=(Strategy("direct"), Strategy("careful", prompt="slowly")), failures_max=1)


def test_a_resumed_task_goes_on_with_the_strategy_that_it_had():
    """Whoever opens it, and after a kill anywhere in the change."""
    for number in range(1, 30):
        world, seen = World(), []
        died = world.live(changing(seen, []), death=Death("any", number))
        assert "careful" == world.live(changing(seen, []))
        assert 1 == len(world.fold().ledger.lessons) == world.kinds().count("StrategyChosen"), number
        if died != DEAD:
            return
    pytest.fail("no life ran through")


def test_going_back_by_hand_takes_the_strategy_of_that_moment():
    """A strategy follows the branch, as the state does; the lessons stay."""
    world, seen = World(), []
    with pytest.raises(perdure.UsageError):
        world.live(changing(seen, [perdure.UsageError("stop")]))
    act_on(world, lambda runtime: runtime.rollback("job", "on the way"))
    assert "careful" == world.fold().ledger.strategies[world.fold().document.strategy].name
    act_on(world, lambda runtime: runtime.rollback("job", "start"))
    fold = world.fold()
    assert ("direct", 1) == (fold.ledger.strategies[fold.document.strategy].name, len(fold.ledger.lessons))


def test_a_fork_begins_with_the_strategy_of_its_moment(tmp_path):
    """And with the lessons up to there."""
    world, seen = World(), []
    world.live(changing(seen, []))
    act_on(world, lambda runtime: runtime.fork("job", at="on the way", into=str(tmp_path / "fork"), name="fork"))
    act_on(world, lambda runtime: runtime.fork("job", at=2, into=str(tmp_path / "early"), name="early"))
    for name, strategy, lessons in (("fork", "careful", 1), ("early", "direct", 0)):
        fold = world.fold(name)
        assert strategy == fold.ledger.strategies[fold.document.strategy].name
        assert lessons == len(fold.ledger.lessons)
    assert "careful" == world.live(changing(seen, []), name="fork")


# --- false information ----------------------------------------------------------------------------------------------
def asking(seen, names=("one", "two")):
    """Return a program that looks something up at its strategy's source; what `web` says does not hold."""
    look = counted([], name="suspect_look", source=True)

    async def program(task):
        seen.append(task.strategy.source)
        await task.checkpoint("before")
        for number, name in enumerate(names):
            await task.act(look, number, then=lambda state, got, name=name: state.update({name: got}))
            await task.checkpoint(name)
        is_true = task.strategy.source != "web"
        await task.check("it adds up", is_true, failure_class="suspicious")
        return task.strategy.name

    return program


def test_a_source_that_is_wrong_is_left_past_its_first_use():
    """At once, back to before it was first asked, and to another source; what was read there is gone."""
    world, seen = World(), []
    third = Strategy("web again", source="web", prompt="again")
    assert "books" == world.live(Play(asking(seen), strategies=(WEB, third, BOOKS)))
    assert (["web", "books"], ["roll_back"]) == (seen, rows(world))
    (back,) = [one.payload for one in world.journal() if isinstance(one.payload, e.RolledBackEntry)]
    assert ("before", ["web"]) == (back.checkpoint, world.fold().ledger.quarantined)


def test_a_source_that_was_wrong_is_taken_no_more(tmp_path):
    """Over a restart, a rollback and a fork; when nothing else is left, a person is asked and told of it."""
    world, seen = World(), []

    async def program(task):
        seen.append(task.strategy.source)
        await task.check("it adds up", False, failure_class="suspicious" if task.strategy == WEB else "output")

    play = Play(program, strategies=(WEB, BOOKS), failures_max=1)
    with pytest.raises(perdure.NeedsHuman, match=r"its source was found false \(web\)"):
        world.live(play)
    assert (["web", "books", "books"], "exhausted") == (seen, rows(world)[-1])
    act_on(world, lambda runtime: runtime.fork("job", into=str(tmp_path / "fork"), name="fork"))
    assert ["web"] == world.fold("fork").ledger.quarantined
    act_on(world, lambda runtime: runtime.rollback("job", "start"))
    assert ["web"] == world.fold().ledger.quarantined


# --- help -----------------------------------------------------------------------------------------------------------
HELP = Strategy("help", change="ask")


def test_a_strategy_that_asks_for_help_asks_a_person():
    """After the others, with what has failed; the person's word is told, and the others have their rounds again."""
    world, told = World(), []

    async def program(task):
        told.append((task.strategy.name, task.messages))
        if not task.messages:
            raise LookupError("no such page")
        return task.strategy.name

    play = Play(program, strategies=(Strategy("direct"), Strategy("careful", prompt="x"), HELP), failures_max=1)
    with pytest.raises(perdure.NeedsHuman, match="help is needed; the last failure: LookupError: no such page"):
        world.live(play)
    assert (["direct", "careful"], "ask_for_help") == ([name for name, _ in told], rows(world)[-1])
    act_on(world, lambda runtime: runtime.say("job", Message(id="m", what="answer", text="it has moved")))
    assert "careful" == world.live(play)
    assert ("careful", ["it has moved"]) == told[-1]


def test_nobody_is_called_for_help_because_a_server_is_away():
    """Help is no other server: the outage is waited out."""
    world = World()
    world.clock.step_us = 300_000_000
    failed = []

    async def program(task):
        if len(failed) < 6:
            failed.append(task.strategy.name)
            raise ConnectionRefusedError("away")
        return task.strategy.name

    assert "direct" == world.live(Play(program, strategies=(Strategy("direct", source="a"), HELP)))
    assert {"passing", "outage"} == set(rows(world))


# --- what was decided is obeyed once --------------------------------------------------------------------------------
def test_whoever_made_room_goes_on():
    """A pause that was decided on is no decision any more once it was made."""
    world, full = World(), [OSError(28, "No space left on device")]

    async def program(task):
        if full:
            raise full.pop()
        return "done"

    with pytest.raises(perdure.TaskPaused):
        world.live(Play(program))
    assert "done" == world.live(Play(program))


class UsedUp(Exception):
    """A quota that is back after a time."""

    failure_class = "quota"
    retry_after_s = 7_200


def test_a_parked_task_goes_on_when_its_time_has_come_and_not_before():
    """Also where no person types it; parked again before, it is until the same moment."""
    world, used = World(), [UsedUp("until noon")]

    async def program(task):
        if used:
            raise used.pop()
        return "done"

    until = []
    for _ in range(2):
        with pytest.raises(perdure.TaskParked) as parked:
            world.live(Play(program))
        until.append(parked.value.until)
    world.clock.advance(7_201)
    assert "done" == world.live(Play(program))
    assert until[0] == until[1]


class ComeBack(Exception):
    """A server that says when to come back."""

    failure_class = "throttled"
    retry_after_s = 100


def test_a_wait_begins_with_its_failure_whoever_decides_on_it():
    """Killed before anything was decided, and opened a minute later: the rest is waited."""
    for number in range(1, 20):
        world, told = World(), [ComeBack("in 100 s")]

        async def program(task, told=told):
            if told:
                raise told.pop()
            return "done"

        world.live(Play(program), death=Death("after_append", number))
        if world.kinds()[-1] == "FailureObserved":
            break
    failed_at = world.journal()[-1].header.at
    world.clock.advance(60)
    world.clock.step_us = 20_000_000
    assert "done" == world.live(Play(program))
    (retry,) = [msgspec.json.decode(bytes(one.payload.decision)) for one in world.journal() if has_decided(one)]
    assert 100_000_000 <= retry["at"] - failed_at <= 101_000_000
    assert (["as_told"], 2) == (rows(world), world.kinds().count("ProgramCalled"))


def has_decided(entry):
    """Whether an entry is a decision."""
    return isinstance(entry.payload, e.DecisionTaken)


def test_going_back_by_hand_takes_the_place_of_a_rollback_that_was_decided():
    """Killed between decision and rollback, then rolled back by a person: it is not made once more."""
    for number in range(1, 30):
        world, seen = World(), []
        world.live(changing(seen, []), death=Death("after_append", number))
        if world.kinds()[-1] == "DecisionTaken":
            break
    assert isinstance(world.fold().ledger.decided, RollBack)
    act_on(world, lambda runtime: runtime.rollback("job", "start"))
    assert world.fold().ledger.decided is None
    assert "careful" == world.live(changing(seen, []))
    assert (["direct", "direct", "careful"], ["roll_back", "roll_back"]) == (seen, rows(world))


def test_a_thread_that_is_still_at_work_keeps_the_task_where_it_is():
    """Its effect may still come: the strategy is changed without going back, and the call meets the thread again."""
    world, gate = World(), Gate(perdure.Effect(retry="keyed", undo="nothing"), name="strategy_wait")

    async def program(task):
        await task.checkpoint("before")
        if task.strategy.name == "careful":
            gate.open()
            return await task.using(key="k").act(gate.tool, 1)
        helper = asyncio.create_task(gate.out_of_time(world))
        await task.using(key="k").act_outcome(gate.tool, 1)
        await helper
        raise LookupError("nothing")

    play = Play(program, strategies=(Strategy("direct"), Strategy("careful", prompt="x")), failures_max=1)
    assert "late 1" == world.live(play)
    assert ([1], ["roll_back"], 1) == (gate.calls, rows(world), world.kinds().count("StrategyChosen"))
    assert "RollbackBegan" not in world.kinds()


def test_what_a_strategy_had_before_it_went_back_is_its_own():
    """Progress begins the rounds anew: the strategy that is followed then is in its first, wherever it goes back to."""
    world, seen = World(), []

    async def program(task):
        name = task.strategy.name
        seen.append(name)
        await task.checkpoint("early")
        if name == "b":
            await task.check("half way", True)
        raise LookupError(f"nothing by {name}")

    names = tuple(Strategy(name, prompt=name) for name in "abc")
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program, strategies=names, failures_max=1))
    assert list("ab") == seen[:2]
    assert dict.fromkeys("abc", 2) == Counter(seen[1:]), seen


# --- what no machine goes past --------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["effect", "change"])
def test_a_rollback_that_passes_what_it_must_not_would_be_found(what, monkeypatch):
    """With the barrier taken away (a planted bug), `verify` names what was passed; with it, nothing is passed."""
    found = {}
    for is_planted in (False, True):
        world, seen = World(), []
        with monkeypatch.context() as planted:
            if is_planted:
                planted.setattr(rollback, "admissible", lambda document, _ledger: rollback.checkpoints(document)[-1:])
                planted.setattr(Ahead, "impossible", ())
            ring = counted(seen, effect="irreversible", name="strategy_ring")

            async def program(task, ring=ring):
                if what == "effect":
                    await task.using(key="ring").act(ring, 1)
                elif not task.state["said"]:
                    raise perdure.UsageError("somebody is to say something")
                if task.strategy.name == "direct":
                    raise LookupError("nothing")
                return task.strategy.name

            play = Play(
                program,
                state={"said": ""},
                strategies=(Strategy("direct"), Strategy("careful", prompt="x")),
                failures_max=1,
            )
            if what == "change":
                with pytest.raises(perdure.UsageError):
                    world.live(play)
                change_by_hand(world)
            try:
                world.live(play)
            except perdure.PerdureError:  # where what was said is gone, it is asked for again
                assert is_planted
        store = world.store()
        verdict = asyncio.run(verify(store, "job"))
        found[is_planted] = [one.what for one in verdict.findings]
    assert [] == found[False]
    assert ["passed"] == found[True]


def change_by_hand(world):
    """Take the task over, say something in its state, hand it back."""

    async def change(runtime):
        await runtime.take_over("job", by="ann")
        await runtime.edit_state("job", [("said", "yes")])
        await runtime.hand_back("job")

    act_on(world, change)
