"""A person takes a task over, changes it by hand, hands it back: who is fenced off, what is refused, what is found."""

import asyncio
import contextlib
from dataclasses import dataclass

import pytest

import perdure
from perdure.core import rollback
from perdure.engine import beat
from perdure.engine.loading import load_fold
from perdure.errors import NotTakenOver, RollbackUnderWay, StateInvalid, StatePathInvalid, TaskBusy, Unstorable
from perdure.model import entry as e
from perdure.testing import Death
from perdure.views.verifying import verify
from tests.worlds import DEAD, Play, World, counted, thought_dead, until


def take(world, by="ann", **options):
    """Take the task over."""
    return world.do(lambda runtime: runtime.take_over("job", by=by), **options)


def back(world, **options):
    """Hand it back; return what was changed."""
    return world.do(lambda runtime: runtime.hand_back("job", **options))


def edit(world, assign=(), remove=(), **options):
    """Change the state by hand."""
    return world.do(lambda runtime: runtime.edit_state("job", assign, remove, **options))


def findings(world):
    """What `verify` has to say."""

    async def look():
        store = world.store()
        return (await verify(store, (await store.find("job")).task, full=True)).findings

    return list(asyncio.run(look()))


def waiting(state=None, failures_max=3):
    """A task that waits for a person, who may take it over."""
    world = World()

    async def program(task):
        return await task.ask("go on?")

    play = Play(program, state=state or {"n": 1, "queue": ["a", "b"], "deep": {"x": [1, 2]}}, failures_max=failures_max)
    with pytest.raises(perdure.NeedsHuman):
        world.live(play)
    return world, play


# --- fencing --------------------------------------------------------------------------------------------------------
async def _robbed(world, program, *, same_runtime=False):
    """Run `program`, take it over in the middle of its action; return what the run came to, once it is let go."""
    entered, go = asyncio.Event(), asyncio.Event()
    async with world.runtime() as first, world.runtime() as second:
        run = asyncio.create_task(first.run(Play(lambda task: program(task, entered, go)), "job"))
        await entered.wait()
        await (first if same_runtime else second).take_over("job", by="ann")
        seq = (await load_fold(second.store, (await second.store.find("job")).task)).seq
        go.set()
        (came,) = await asyncio.gather(run, return_exceptions=True)
        return came, seq


def slow(calls, effect="irreversible", **options):
    """A tool that says when it has begun, and waits to be let go before it does its work."""

    async def fn(entered, go):
        entered.set()
        await go.wait()
        calls.append("done")
        return "done"

    tool = perdure.tool(effect=effect, name="slow", **options)

    def program_of(handed):
        async def call():
            return await fn(*handed)

        return tool(call)

    return program_of


@pytest.mark.parametrize("same_runtime", [False, True])
def test_the_old_process_is_fenced_off_in_the_middle_of_an_action(same_runtime):
    """Its run ends with TaskBusy naming who has the task, and not an entry of it comes behind the takeover."""
    world, calls = World(), []
    tool = slow(calls)

    async def program(task, entered, go):
        await task.act(tool((entered, go)))
        calls.append("went on")

    came, seq = asyncio.run(_robbed(world, program, same_runtime=same_runtime))
    assert isinstance(came, TaskBusy)
    assert ("ann", "perdure hand-back job") == (came.taken_by, came.next_command)
    assert ["done"] == calls
    journal = world.journal()
    assert seq == len(journal)
    assert [1, 2] == sorted({entry.header.epoch for entry in journal})
    ledger = world.fold().ledger
    assert ("needs_human", "takeover: by ann") == (ledger.status, ledger.reason)
    assert ["slow"] == [action.tool for action in ledger.open.values()]
    assert [] == findings(world)


def test_a_program_that_swallows_the_refusal_can_do_nothing_more():
    """Whatever it tries is refused, and so is its end."""
    world, calls = World(), []
    tool = slow(calls, effect="pure")

    async def program(task, entered, go):
        for _ in range(3):
            with contextlib.suppress(Exception):
                await task.act(tool((entered, go)))
            with contextlib.suppress(Exception):
                await task.checkpoint("mine")
        return "all is well"

    came, seq = asyncio.run(_robbed(world, program))
    assert isinstance(came, TaskBusy)
    assert seq == len(world.journal())
    assert ["done"] == calls


@pytest.mark.parametrize("what", ["an answer", "a decided wait"])
def test_a_process_that_waits_for_something_hears_of_it(what):
    """It does not wait for an hour for what will reach nobody: at the next beat of its lease its run ends."""
    world = World()

    @perdure.tool(effect="pure", name="out_of_order")
    async def out_of_order() -> None:
        raise ConnectionError("the line is dead")

    async def program(task):
        if what == "an answer":
            await task.ask("go on?", wait_s=3600.0)
        await task.act(out_of_order)

    async def main():
        async with world.runtime() as first, world.runtime() as second:
            run = asyncio.create_task(first.run(Play(program), "job"))
            await until(lambda: any(session.fold.seq for session in first._sessions.values()))
            (session,) = first._sessions.values()
            await until(lambda: session.fold.ledger.question_keys or session.fold.ledger.decided)
            await session.commit()
            await second.take_over("job", by="ann")
            await beat.renew(first._sessions)
            with pytest.raises(TaskBusy, match="taken over by ann"):
                await asyncio.wait_for(run, 5.0)

    asyncio.run(main())
    assert "takeover: by ann" == world.fold().ledger.reason


def test_whoever_is_dead_is_followed_as_ever():
    """A takeover after a crash names no holder whose call could be under way."""
    world = World()

    async def program(task):
        await task.act(counted([], "irreversible"))

    assert DEAD == world.live(Play(program), death=Death("after_effect"))
    take(world)
    (taken,) = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.TaskTakenOver)]
    assert e.TaskTakenOver(by="ann") == taken


# --- while a person has it ------------------------------------------------------------------------------------------
def test_nobody_goes_on_with_it_until_it_is_handed_back():
    """Run, resume, a script's block and a pause are refused with the line to type; nothing is written."""
    world, play = waiting()
    take(world)
    before = len(world.journal())

    async def inline(runtime):
        async with runtime.task("job"):
            pass

    for work in (
        lambda runtime: runtime.run(play, "job"),
        lambda runtime: runtime.resume("job", play),
        inline,
    ):
        with pytest.raises(perdure.NeedsHuman, match="takeover: by ann; next: perdure hand-back job"):
            world.do(work)
    assert before == len(world.journal())
    with pytest.raises(perdure.NeedsHuman, match="perdure hand-back job"):
        world.do(lambda runtime: runtime.stop_task("job", "pause"))
    assert ("stop", "person") == next(
        (row.verdict, row.name)
        for row in world.do(lambda runtime: runtime.report("job", play))
        if row.verdict == "stop"
    )
    back(world)
    ledger = world.fold().ledger
    assert ("paused", "handed back by ann") == (ledger.status, ledger.reason)


def test_what_people_say_meanwhile_leaves_it_taken():
    """An answer and a word are taken in, and it is still theirs; a cancel ends it."""
    world, _ = waiting()
    take(world)
    world.do(lambda runtime: runtime.say("job", perdure_message("tell", "be quick")))
    world.do(lambda runtime: runtime.say("job", perdure_message("answer", "yes")))
    fold = world.fold()
    assert ("needs_human", ["be quick"], {"go on?": "yes"}) == (
        fold.ledger.status, fold.ledger.messages, fold.document.answers,
    )  # fmt: skip
    world.do(lambda runtime: runtime.stop_task("job", "cancel"))
    ledger = world.fold().ledger
    assert ("cancelled", None) == (ledger.status, ledger.takeover)


def perdure_message(what, text):
    """A message."""
    from perdure.ports import Message

    return Message(id=f"{what} {text}", what=what, text=text)


def test_a_settlement_meanwhile_leaves_it_taken():
    """Saying what became of an action frees the action, not the task."""
    world, calls = World(), []

    async def program(task):
        return await task.using(key="k").act(counted(calls, "irreversible"), 7)

    assert DEAD == world.live(Play(program), death=Death("after_effect"))
    take(world)
    action = next(iter(world.fold().ledger.open))
    world.do(lambda runtime: runtime.settle("job", action, perdure.Succeeded(7)))
    assert "needs_human" == world.fold().ledger.status
    assert (f"actions: {action} succeeded",) == back(world)
    assert 7 == world.do(lambda runtime: runtime.resume("job", Play(program)))
    assert [7] == calls


def test_changes_by_hand_need_a_takeover():
    """Of any other task nothing is changed, and the error says what to type."""
    world, _ = waiting()
    before = world.fold()
    for work in (
        lambda runtime: runtime.edit_state("job", [("n", 2)]),
        lambda runtime: runtime.adopt_plan("job", ["one"]),
        lambda runtime: runtime.hand_back("job"),
    ):
        with pytest.raises(NotTakenOver, match="perdure take-over job"):
            world.do(work)
    after = world.fold()
    assert (before.tree.root, before.document.plan) == (after.tree.root, after.document.plan)
    take(world)
    back(world)
    with pytest.raises(NotTakenOver):
        edit(world, [("n", 2)])


def test_an_edit_is_made_whole_or_not_at_all():
    """One bad place among good ones, or a value that cannot be stored: nothing is changed; without them all is."""
    world, _ = waiting()
    take(world)
    before = world.fold().tree.root
    for assign, remove, error in (
        ([("n", 2), ("queue[9]", 1)], (), StatePathInvalid),
        ([("n", 2)], ("nowhere",), StatePathInvalid),
        ([("n", 2), ("x", object())], (), Unstorable),
        ([("n", 2), ("a..b", 1)], (), StatePathInvalid),
    ):
        with pytest.raises(error):
            edit(world, assign, remove)
        assert before == world.fold().tree.root
    assert edit(world, [("n", 2), ("queue[+]", "c"), ("deep.x[0]", 9)], ["queue[0]", "deep.x[1]"])
    assert {"n": 2, "queue": ["b", "c"], "deep": {"x": [9]}} == world.state()
    assert not edit(world, [("n", 2)])
    assert ["ann"] == [entry.payload.by for entry in world.journal() if isinstance(entry.payload, e.StateEdited)]


@dataclass
class Order:
    """A state with a type."""

    price: int
    name: str = ""


@perdure.program(state=Order(price=1), state_type=Order, name="taken_typed")
async def typed(task):
    """Ask, then say what the price is."""
    await task.ask("go on?")
    return task.state.price


def test_a_typed_state_takes_only_what_its_type_allows():
    """With its program; without it the structure alone is looked at."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(typed)
    take(world)
    for assign, remove in (([("price", "dear")], ()), ([("colour", 1)], ()), ((), ["price"])):
        with pytest.raises(StateInvalid):
            edit(world, assign, remove, program=typed)
    assert {"price": 1, "name": ""} == world.state()
    assert edit(world, [("price", 5)], program=typed)
    assert edit(world, [("price", "dear")])
    assert {"price": "dear", "name": ""} == world.state()


def test_a_plan_by_hand_stays_when_the_program_comes_by_its_own():
    """A resumed program that adopts its plan again does not bring it back."""
    world = World()

    async def program(task):
        await task.adopt(["one", "two"])
        await task.ask("go on?")
        return task.brief()

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    take(world)
    for steps in ([], [""], ["a\nb"]):
        with pytest.raises(perdure.UsageError):
            world.do(lambda runtime, steps=steps: runtime.adopt_plan("job", steps))
    assert world.do(lambda runtime: runtime.adopt_plan("job", ["two", "three"]))
    assert not world.do(lambda runtime: runtime.adopt_plan("job", ["two", "three"]))
    world.do(lambda runtime: runtime.say("job", perdure_message("answer", "yes")))
    assert ("plan: two > three",) == back(world)
    brief = world.do(lambda runtime: runtime.resume("job", Play(program)))
    assert "- two\n- three" in brief
    assert "- one" not in brief


# --- handing back ---------------------------------------------------------------------------------------------------
def test_the_program_sees_what_was_changed_before_it_acts():
    """Its next prompt holds the edit itself, what was changed, and what the person says."""
    world, prompts = World(), []
    model = counted(prompts, "pure", result="thought", name="model")

    async def program(task):
        await task.act(model, f"{task.state['limit']} {task.brief()}")
        if not task.advice:
            await task.ask("go on?")
        return task.advice.kind

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program, state={"limit": 10}))
    take(world)
    edit(world, [("limit", 99)])
    assert ("state: limit = 99",) == back(world, say="mind the cost")
    assert "observe" == world.do(lambda runtime: runtime.resume("job", Play(program)))
    first, second = prompts
    assert "99" not in first
    assert second.startswith("99 ")
    assert "A person had the task and has changed: state: limit = 99. They say: mind the cost" in second
    assert [] == findings(world)


def test_what_was_read_before_is_read_again():
    """A reading that the program has not used yet is forgotten with the hand-back, though nothing was edited."""
    world, looks = World(), []

    async def program(task):
        await task.act(counted(looks, name="look"), 1)
        return await task.ask("go on?")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    world.do(lambda runtime: runtime.say("job", perdure_message("answer", "yes")))
    take(world)
    assert () == back(world)
    assert "yes" == world.do(lambda runtime: runtime.resume("job", Play(program)))
    assert [1, 1] == looks


def test_no_effect_is_made_again_because_a_person_has_changed_something():
    """One that nothing holds yet, one that a checkpoint holds, and one with a key are all found."""
    world, looks, sent = World(), [], []
    look, send = counted(looks, name="look"), counted(sent, "irreversible", name="send")

    async def program(task):
        await task.using(key="first").act(send, 1)
        await task.act(send, 2)
        await task.checkpoint("sent")
        await task.act(look, 1)
        await task.act(send, 3)
        await task.ask("go on?")
        async with task.edit() as state:
            state["end"] = True

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    world.do(lambda runtime: runtime.say("job", perdure_message("answer", "yes")))
    take(world)
    edit(world, [("hint", "x")])
    world.do(lambda runtime: runtime.adopt_plan("job", ["one"]))
    back(world)
    world.do(lambda runtime: runtime.resume("job", Play(program)))
    assert [1, 2, 3] == sent
    assert [1] == looks, "what an effect may be made of has to be found as well"
    assert [] == findings(world)


@pytest.mark.parametrize("assign", [(), [("n", 2)]])
def test_a_rollback_that_recovery_decides_does_not_pass_the_hand_back(assign):
    """Older checkpoints are no longer admissible, whatever was changed; by hand one goes back to them all the same."""
    world = World()

    async def program(task):
        await task.checkpoint("old")
        await task.ask("go on?")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program, state={"n": 1}))
    fold = world.fold()
    assert ["old", "start"] == [mark.name for mark in rollback.admissible(fold.document, fold.ledger)]
    take(world)
    edit(world, assign)
    back(world)
    fold = world.fold()
    assert [] == rollback.admissible(fold.document, fold.ledger)
    world.do(lambda runtime: runtime.rollback("job", "old"))
    assert {"n": 1} == world.state()
    assert [] == findings(world)


def test_a_rollback_by_hand_in_the_middle_takes_the_edits_with_it_and_is_told():
    """The task stays taken, and only what is still so is told."""
    world, _ = waiting()
    take(world)
    world.do(lambda runtime: runtime.checkpoint("job", "mine"))
    edit(world, [("n", 2)])
    world.do(lambda runtime: runtime.rollback("job", "mine"))
    assert "needs_human" == world.fold().ledger.status
    edit(world, [("queue", [])])
    assert ("rollback: to 'mine'", "state: queue (list)") == back(world)


def test_in_the_middle_of_a_rollback_nothing_is_changed_by_hand():
    """It can be taken over and handed back; what finishes the rollback is the next resume."""
    world = World()

    async def program(task):
        await task.checkpoint("old")
        async with task.edit() as state:
            state["n"] += 1
        await task.rollback("old")

    assert DEAD == world.live(Play(program, state={"n": 1}), death=Death("during_rollback"))
    take(world)
    for work in (
        lambda runtime: runtime.edit_state("job", [("n", 5)]),
        lambda runtime: runtime.adopt_plan("job", ["x"]),
    ):
        with pytest.raises(RollbackUnderWay, match="hand-back"):
            world.do(work)
    back(world)
    world.do(lambda runtime: runtime.abandon_rollback("job"))
    assert [] == findings(world)


# --- an effect that is under way elsewhere ----------------------------------------------------------------------------
@pytest.mark.parametrize("effect", ["verifiable", "irreversible", "idempotent"])
def test_nobody_asks_what_became_of_a_call_that_may_still_run(effect):
    """While the robbed holder lives and the call's time-out has not passed, resume, settle and rollback are refused.

    A keyed call may be sent again: its service drops one of the two.
    """
    world, calls = World(), []

    async def fn():
        calls.append("came")
        if len(calls) == 1:
            await asyncio.sleep(3600)
        return "came"

    probe = {"probe": lambda: bool(calls)} if effect == "verifiable" else {}
    if effect == "idempotent":

        async def keyed(key: perdure.EffectKey):
            return await fn()

        tool = perdure.tool(effect=effect, name="under_way", timeout_s=100.0)(keyed)
    else:
        tool = perdure.tool(effect=effect, name="under_way", timeout_s=100.0, **probe)(fn)

    async def program(task):
        return await task.using(key="k").act(tool)

    async def main():
        async with world.runtime() as first, world.runtime() as second:
            run = asyncio.create_task(first.run(Play(program), "job"))
            await until(lambda: calls)
            await second.take_over("job")
            await second.hand_back("job")
            action = next(iter((await load_fold(second.store, (await second.store.find("job")).task)).ledger.open))
            refused = []
            for work in (
                lambda: second.settle("job", action, perdure.Succeeded("came")),
                lambda: second.rollback("job", "start", force=True),
                lambda: second.resume("job", Play(program)),
            ):
                try:
                    await work()
                except TaskBusy as busy:
                    refused.append("under_way" in str(busy))
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            if effect == "idempotent":
                return refused, None
            with pytest.raises(TaskBusy):
                await second.resume("job", Play(program))
            with thought_dead(first), contextlib.suppress(perdure.NeedsHuman):  # its process has ended
                await second.resume("job", Play(program))
            return refused, len(calls)

    refused, made = asyncio.run(main())
    assert ([True] * 2 if effect == "idempotent" else [True] * 3) == refused
    assert made in {None, 1}


def test_a_call_is_over_when_its_time_out_has_passed():
    """Also where the process from which the task was taken lives on and does other things."""
    world, calls = World(), []
    tool = slow(calls, timeout_s=100.0)

    async def main():
        entered, go = asyncio.Event(), asyncio.Event()

        async def program(task):
            return await task.using(key="k").act(tool((entered, go)))

        async with world.runtime() as first, world.runtime() as second:
            run = asyncio.create_task(first.run(Play(program), "job"))
            await entered.wait()
            await second.take_over("job")
            go.set()
            await asyncio.gather(run, return_exceptions=True)
            await second.hand_back("job")
            with pytest.raises(TaskBusy):
                await second.resume("job", Play(program))
            world.clock.advance(106.0)
            with pytest.raises(perdure.NeedsHuman, match="is not known"):
                await second.resume("job", Play(program))

    asyncio.run(main())
    assert ["done"] == calls


# --- killed anywhere ------------------------------------------------------------------------------------------------
PLACES = [
    (where, number)
    for where in ("during_takeover", "during_recovery", "before_append", "after_append")
    for number in (1, 2, 3, 4)
]


@pytest.mark.parametrize(("where", "number"), PLACES)
@pytest.mark.parametrize("step", ["take_over", "edit_state", "hand_back"])
def test_a_step_that_is_killed_anywhere_is_taken_again(step, where, number):
    """Killed at each of its points and appends, it has happened or not; done again, all is as undisturbed."""
    world, play = waiting()
    steps = {
        "take_over": lambda runtime: runtime.take_over("job", by="ann"),
        "edit_state": lambda runtime: runtime.edit_state("job", [("n", 2)]),
        "hand_back": lambda runtime: runtime.hand_back("job", say="well?"),
    }
    for name, work in steps.items():
        if name == step:
            world.do(work, Death(where, number))
        if name == "hand_back" and world.fold().ledger.takeover is None:
            continue  # it had happened
        world.do(work)
    assert {"n": 2} == {"n": world.state()["n"]}
    kinds = world.kinds()
    assert (1, 1, 1) == tuple(map(kinds.count, ("TaskTakenOver", "StateEdited", "TaskHandedBack")))
    (handed,) = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.TaskHandedBack)]
    assert (("state: n = 2",), "well?", "ann") == (handed.changes, handed.word, handed.by)
    with pytest.raises(perdure.NeedsHuman, match="question: go on"):
        world.do(lambda runtime: runtime.resume("job", play))
    assert [] == findings(world)


# --- more than one person ---------------------------------------------------------------------------------------------
def test_another_person_may_take_it_from_the_first():
    """Since when is theirs; what the first has changed is told all the same."""
    world, _ = waiting()
    take(world, "ann")
    edit(world, [("n", 2)])
    take(world, "ann")
    take(world, "bea")
    assert ["ann", "bea"] == [
        entry.payload.by for entry in world.journal() if isinstance(entry.payload, e.TaskTakenOver)
    ]
    assert ("state: n = 2",) == back(world)
    assert "handed back by bea" == world.fold().ledger.reason


def test_what_has_ended_is_nobodys():
    """A finished task cannot be taken over."""
    world = World()

    async def program(task):
        return 1

    world.live(Play(program))
    with pytest.raises(perdure.TaskFinished):
        take(world)


def test_many_changes_are_told_in_short():
    """Ten places are named, the rest is counted; long values are cut."""
    world, _ = waiting()
    take(world)
    edit(world, [(f"k{number:02}", "x" * 200) for number in range(14)])
    (line,) = back(world)
    assert "k09" in line
    assert "k10" not in line
    assert line.endswith(" and 4 more")
    assert len(line) < 1200
