"""Budgets: what does not fit is refused before it is sent, and nothing that is spent is ever given back."""

import asyncio

import pytest

import perdure
import perdure.sync
from perdure.agent.loop import follow
from perdure.core.snapshots import decode_fold, encode_fold
from perdure.engine.asking import put_word
from perdure.model import entry as e
from perdure.model.budget import NO_BUDGET, Budget, Cost
from perdure.model.ledger import Ledger
from perdure.model.money import text_of
from perdure.model.move import Act, Finish, Together
from perdure.ports import Message
from perdure.testing.clock import FakeClock
from perdure.testing.policies import ScriptedPolicy
from tests.unit.engine.test_replaying import replay, shown
from tests.worlds import DEAD, Death, Play, Stop, World, counted, until

DIME = Cost(money="0.1 USD")


def thinking(calls, cost=DIME, **options):
    """A paid tool that counts its calls and charges `cost`."""

    async def think(item: int = 0) -> int:
        calls.append(item)
        if cost is not None:
            perdure.charge(cost)
        return item

    return perdure.tool(effect="pure", paid=True, name="think", **options)(think)


def asking(tool, times, reserve=DIME):
    """A program that calls `tool` so many times, each found again by its place."""

    async def program(task):
        async for item in task.each("thoughts", range(times)):
            await task.using(reserve=reserve, key=f"thought {item}").act(tool, item)
        return "done"

    return Play(program)


def spent(world):
    """What the task has spent, in money."""
    return text_of(world.fold().ledger.money)


def run(world, play, **options):
    """Start or go on with the task."""
    return world.do(lambda runtime: runtime.run(play, "job", **options))


def resume(world, play, **options):
    """Go on with the task by hand."""
    return world.do(lambda runtime: runtime.resume("job", play, **options))


# --- the limit ------------------------------------------------------------------------------------------------------
def test_a_call_that_does_not_fit_is_not_sent():
    """The task needs a person, is told why, and how it goes on; raised, it goes on where it was."""
    world, calls = World(), []
    play = asking(thinking(calls), 5)
    with pytest.raises(perdure.NeedsHuman) as stopped:
        run(world, play, budget="0.35 USD")
    assert [0, 1, 2] == calls
    assert "0.3 of 0.35 USD spent, and it may cost 0.1 USD" in str(stopped.value)
    assert "perdure resume job --budget '0.7 USD'" == stopped.value.next_command
    asked = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.QuestionAsked)]
    assert [("limit", "0.7 USD")] == [(one.reason, one.budget) for one in asked]
    assert "done" == resume(world, play, budget="0.7 USD")
    assert [0, 1, 2, 3, 4] == calls
    assert "0.5 USD" == spent(world)


def test_a_call_at_the_first_moment_of_a_clock_costs_what_was_reserved():
    """It went out, whatever that clock shows; one that says nothing of its cost costs all of it."""
    world = World()
    world.clock = FakeClock()
    assert "done" == run(world, asking(thinking([], None), 1))
    assert ("0.1 USD", 0.0) == (spent(world), world.clock.monotonic())


def test_a_limit_that_is_not_raised_stops_at_the_same_call():
    """To go on without more money costs nothing, and comes to the same."""
    world, calls = World(), []
    play = asking(thinking(calls), 5)
    for go in (lambda: run(world, play, budget="0.35 USD"), *[lambda: resume(world, play)] * 3):
        with pytest.raises(perdure.NeedsHuman):
            go()
    assert [0, 1, 2] == calls
    assert 3 == world.fold().ledger.calls


def test_unattended_it_fails_and_says_how_to_go_on():
    """Nobody can be asked: the same package, and the line that opens it again."""
    world, calls = World(), []
    play = asking(thinking(calls), 5)
    with pytest.raises(perdure.TaskFailed) as failed:
        world.do(lambda runtime: runtime.run(play, "job", budget="0.35 USD"), unattended=True)
    assert "perdure resume job --again --budget '0.7 USD'" == failed.value.next_command
    assert ("failed", "0.7 USD") == (world.fold().ledger.status, world.fold().ledger.budget_asked)
    assert "done" == resume(world, play, again=True, budget="+1 USD")
    assert [0, 1, 2, 3, 4] == calls


def test_a_program_cannot_pass_over_it():
    """Whoever catches everything is refused at each further call as well."""
    world, calls, refused = World(), [], []
    tool = thinking(calls)

    async def program(task):
        for item in range(5):
            try:
                await task.using(reserve=DIME).act(tool, item)
            except BaseException as error:  # noqa: BLE001 - the point of the test
                refused.append(type(error).__name__)
        return "done"

    run(world, Play(program), budget="0.2 USD")
    assert ([0, 1], ["StopRequested"] * 3) == (calls, refused)


@pytest.mark.parametrize(
    ("budget", "calls_made", "raised"),
    [
        ("tokens=30", 3, "tokens=60"),
        ("actions=4", 4, "actions=8"),
        ("tokens=35", 3, "tokens=70"),
        ("actions=2, tokens=5000", 2, "actions=4"),
    ],
)
def test_each_limit_is_kept(budget, calls_made, raised):
    """Tokens in and out together; actions are calls that go out, paid or not."""
    world, calls = World(), []
    cost = Cost(4, 6)
    with pytest.raises(perdure.NeedsHuman):
        run(world, asking(thinking(calls, cost), 9, cost), budget=budget)
    assert calls_made == len(calls)
    assert raised == world.fold().ledger.budget_asked


def test_a_call_for_which_nothing_is_reserved_goes_out_while_something_is_left():
    """It stops when it is used up, and a call that costs nothing then stops too."""
    world, calls, reads = World(), [], []
    tool, read = thinking(calls, Cost(money="0.3 USD")), counted(reads)

    async def program(task):
        for item in range(9):
            await task.act(tool, item)
            await task.act(read, item)

    with pytest.raises(perdure.NeedsHuman):
        run(world, Play(program), budget=Budget(money="0.5 USD"))
    assert ([0, 1], [0]) == (calls, reads)


def test_an_answer_on_record_costs_nothing():
    """What is found again is handed out, whatever the budget says."""
    world, calls = World(), []
    play = asking(thinking(calls), 2)
    assert DEAD == world.do(lambda runtime: runtime.run(play, "job", budget="0.2 USD"), Death("after_outcome", 2))
    assert "done" == resume(world, play)
    assert [0, 1] == calls


def test_the_budget_is_on_record_with_who_set_it():
    """At the start by its program, later by a person; the same again writes nothing."""
    world = World()

    async def program(task):
        raise Stop

    for go in (
        lambda: run(world, Play(program), budget="5 USD"),
        lambda: resume(world, Play(program), budget="5 USD"),
        lambda: resume(world, Play(program), budget="+5 USD, tokens=1000"),
        lambda: resume(world, Play(program), budget=NO_BUDGET),
    ):
        with pytest.raises(Stop):
            go()
    told = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.BudgetSet)]
    assert [
        (Budget(money="5 USD"), ""),
        (Budget(money="10 USD", tokens=1000), "person"),
        (NO_BUDGET, "person"),
    ] == [(one.budget, one.by) for one in told]
    assert world.fold().ledger.budget is None
    assert "BudgetSet" == world.kinds()[1]


def test_a_task_that_is_there_keeps_its_budget():
    """A script that is started again does not take back what a person has allowed."""
    world, calls = World(), []
    play = asking(thinking(calls), 5)
    with pytest.raises(perdure.NeedsHuman):
        run(world, play, budget="0.2 USD")
    assert DEAD == world.do(lambda runtime: runtime.resume("job", play, budget="5 USD"), Death("after_intent"))
    assert "done" == run(world, play, budget="0.2 USD")
    assert Budget(money="5 USD") == world.fold().ledger.budget


@pytest.mark.parametrize("budget", ["a lot", "5", Budget(tokens=-1), 5])
def test_a_budget_that_is_none_starts_nothing(budget):
    """It is refused before the task is made, and before one is opened."""
    world = World()
    with pytest.raises(perdure.CostInvalid):
        run(world, asking(thinking([]), 1), budget=budget)
    with pytest.raises(perdure.StoreError):
        world.fold()
    run(world, asking(thinking([]), 1))
    with pytest.raises(perdure.CostInvalid):
        resume(world, asking(thinking([]), 1), budget=budget)


def test_no_word_helps_at_a_limit():
    """What a budget needs is an amount: who answers is told the line."""
    from perdure import operations

    world = World()
    with pytest.raises(perdure.NeedsHuman):
        run(world, asking(thinking([]), 5), budget="0.2 USD")
    with pytest.raises(perdure.UsageError, match=r"--budget '0\.4 USD'"):
        world.do(lambda runtime: operations.answer(runtime, "job", "go on", "m1"))


# --- nothing is given back ------------------------------------------------------------------------------------------
def test_a_call_that_is_killed_stays_spent():
    """Three kills in the middle of a call: three reservations are spent, and the call that succeeds on top."""
    world, calls = World(), []
    play = asking(thinking(calls), 1, Cost(10, 20, "0.5 USD"))
    for _ in range(3):
        assert DEAD == world.do(lambda runtime: runtime.run(play, "job"), Death("after_effect"))
    assert ("1 USD", 20, 40) == (spent(world), world.fold().ledger.tokens_in, world.fold().ledger.tokens_out)
    assert "done" == resume(world, play)
    assert 4 == len(calls)
    assert ("1.6 USD", 30, 60) == (spent(world), world.fold().ledger.tokens_in, world.fold().ledger.tokens_out)


def test_what_a_killed_call_has_reserved_counts_against_the_budget():
    """The fourth try does not fit any more, and is not made."""
    world, calls = World(), []
    play = asking(thinking(calls), 1, Cost(money="0.5 USD"))
    for _ in range(3):
        assert DEAD == world.do(lambda runtime: runtime.run(play, "job", budget="1.5 USD"), Death("after_effect"))
    with pytest.raises(perdure.NeedsHuman):
        resume(world, play)
    assert 3 == len(calls)


@pytest.mark.parametrize("effect", ["pure", "verifiable", "irreversible"])
def test_a_killed_call_that_is_settled_otherwise_has_cost_what_was_reserved(effect):
    """By its probe, or by a person: what it charged died with the process."""
    world = World()

    async def think(item: int = 0) -> int:
        perdure.charge(DIME)
        return item

    async def happened(item: int = 0) -> bool:
        return True

    probe = {"probe": happened} if effect == "verifiable" else {}
    tool = perdure.tool(effect=effect, paid=True, name="think", **probe)(think)
    play = asking(tool, 1, Cost(money="0.5 USD"))
    assert DEAD == world.do(lambda runtime: runtime.run(play, "job"), Death("after_effect"))
    if effect == "irreversible":
        with pytest.raises(perdure.NeedsHuman):
            resume(world, play)
        (action,) = world.fold().ledger.open
        world.do(lambda runtime: runtime.settle("job", action, perdure.Succeeded(0)))
    assert "done" == resume(world, play)
    assert ("0.6 USD" if effect == "pure" else "0.5 USD") == spent(world)


def test_a_rollback_gives_nothing_back():
    """What was spent on the branch that was left is spent, settled or killed, and the budget's limit stays."""
    world = World()
    tool = thinking([])

    async def program(task):
        await task.checkpoint("here")
        if task.attempt == 1:
            await task.using(reserve=DIME).act(tool, 1)
            await task.using(reserve=Cost(money="0.2 USD")).act(tool, 2)
        if task.attempt == 2:
            await task.rollback("here")
        return text_of(task.budget.spent.money)

    assert DEAD == world.do(lambda runtime: runtime.run(Play(program), "job", budget="5 USD"), Death("after_effect", 2))
    assert "0.3 USD" == resume(world, Play(program))
    assert ({}, Budget(money="5 USD")) == (world.fold().ledger.open, world.fold().ledger.budget)


def test_what_nobody_asks_for_again_stays_spent():
    """A free call that was killed, and that its program no longer makes, is forgotten; its cost is not."""
    world, calls = World(), []
    tool = thinking(calls)

    async def program(task):
        if task.attempt == 1:
            await task.using(reserve=DIME).act(tool)
        async with task.edit() as state:
            state["done"] = True

    assert DEAD == world.live(Play(program), death=Death("after_effect"))
    world.live(Play(program))
    assert {} == world.fold().ledger.open
    assert "0.1 USD" == spent(world)


def test_a_fork_has_spent_what_its_parent_had(tmp_path):
    """It goes on with what was left at that moment."""
    world, calls = World(), []
    play = asking(thinking(calls), 2)
    assert DEAD == world.do(lambda runtime: runtime.run(play, "job", budget="0.15 USD"), Death("after_effect", 1))
    head = world.fold().seq

    async def fork(runtime):
        await runtime.fork("job", head, into=str(tmp_path / "fork"), name="other")

    world.do(fork)
    assert "0.1 USD" == text_of(world.fold("other").ledger.money)
    assert Budget(money="0.15 USD") == world.fold("other").ledger.budget
    assert "" == spent(world)  # of the parent it is still reserved


# --- side by side ---------------------------------------------------------------------------------------------------
def test_calls_side_by_side_never_pass_the_limit_together():
    """What is under way holds what it has reserved; one that may still fit waits until it is known what that cost."""
    world, running, most = World(), [], []

    @perdure.tool(effect="pure", paid=True)
    async def think(item: int) -> int:
        running.append(item)
        most.append(len(running))
        for _ in range(5):
            await asyncio.sleep(0)
        running.remove(item)
        perdure.charge(Cost(money="0.01 USD"))
        return item

    async def program(task):
        paid = task.using(reserve=Cost(money="0.4 USD"))
        return await asyncio.gather(*(paid.act(think, item) for item in range(6)))

    assert [0, 1, 2, 3, 4, 5] == run(world, Play(program), budget="1 USD")
    assert 2 == max(most)
    assert "0.06 USD" == spent(world)


def test_calls_under_way_come_to_their_ends_when_one_does_not_fit():
    """One that cannot fit, whatever the others cost, stops the task; those are recorded with their costs."""
    world, done = World(), []

    @perdure.tool(effect="idempotent", paid=True)
    async def think(item: int, key: perdure.EffectKey) -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        done.append(item)
        perdure.charge(DIME)
        return item

    async def program(task):
        small = task.using(key="small", reserve=DIME).act(think, 1)
        large = task.using(key="large", reserve=Cost(money="3 USD")).act(think, 2)
        await asyncio.gather(small, large)

    with pytest.raises(perdure.NeedsHuman):
        run(world, Play(program), budget="1 USD")
    assert [1] == done
    assert "0.1 USD" == spent(world)
    assert shown(replay(world, program)) is None


# --- currencies -----------------------------------------------------------------------------------------------------
def test_what_is_reserved_in_another_currency_is_refused_before_it_is_sent():
    """Nothing is converted, and nothing is guessed."""
    world, calls = World(), []
    with pytest.raises(perdure.CurrencyMismatch, match="in EUR"):
        run(world, asking(thinking(calls), 1, Cost(money="1 EUR")), budget="5 USD")
    assert [] == calls


def test_what_is_charged_in_another_currency_is_noted_and_fails_the_call():
    """The money is gone; the tool's mistake is said at once, and the call is not sent again."""
    world, calls = World(), []
    tool = thinking(calls, Cost(money="1 EUR"))

    async def program(task):
        return await task.act_outcome(tool)

    outcome = run(world, Play(program), budget="5 USD")
    assert "CurrencyMismatch" in str(outcome)
    assert "1 EUR" == spent(world)


def test_without_a_budget_currencies_stand_side_by_side():
    """Each is summed for itself, and a budget in one of several is refused."""
    world = World()
    play = asking(thinking([], Cost(money="1 EUR + 2 USD")), 2, Cost())
    run(world, play)
    assert "2 EUR + 4 USD" == spent(world)
    stopping = World()

    async def program(task):
        await task.act(thinking([], Cost(money="1 EUR")))
        raise Stop

    with pytest.raises(Stop):
        run(stopping, Play(program))
    with pytest.raises(perdure.CurrencyMismatch):
        resume(stopping, Play(program), budget="5 USD")
    assert stopping.fold().ledger.budget is None


# --- what a program sees --------------------------------------------------------------------------------------------
def test_a_program_sees_how_it_stands():
    """Spent, reserved by what is under way, left; low from the soft share on."""
    world, seen = World(), []
    tool = thinking([])

    async def program(task):
        for item in range(4):
            await task.using(reserve=DIME).act(tool, item)
            budget = task.budget
            seen.append((str(budget.spent.money["USD"]), str(budget.left.money), budget.is_low))

    run(world, Play(program), budget="0.5 USD, soft=60%")
    assert [("0.1", "0.4", False), ("0.2", "0.3", False), ("0.3", "0.2", True), ("0.4", "0.1", True)] == seen


def test_a_call_under_way_shows_as_reserved():
    """It is neither spent nor left."""
    world, seen = World(), []

    @perdure.tool(effect="pure", paid=True)
    async def think() -> None:
        seen.append(tasks[0].budget)

    tasks = []

    async def program(task):
        tasks.append(task)
        await task.using(reserve=Cost(1, 2, "0.1 USD")).act(think)

    run(world, Play(program), budget="0.5 USD, tokens=10")
    (budget,) = seen
    assert ("", "0.1 USD", "0.4") == (
        text_of(budget.spent.money), text_of(budget.reserved.money), str(budget.left.money),
    )  # fmt: skip
    assert (3, 7, 1) == (budget.reserved.tokens, budget.left.tokens, budget.spent.actions)


def test_without_a_budget_everything_is_counted_all_the_same():
    """A budget that is set later counts from the start."""
    world = World()

    async def program(task):
        await task.act(thinking([]))
        budget = task.budget
        return [text_of(budget.spent.money), budget.left.money, budget.left.wall_s, budget.is_low]

    assert ["0.1 USD", None, None, False] == run(world, Play(program))


# --- time -----------------------------------------------------------------------------------------------------------
def test_only_the_time_in_which_it_works_counts():
    """Not while it waits for a person, is paused, or lies dead; a restart takes nothing back."""
    world, calls = World(), []

    @perdure.tool(effect="pure")
    async def work(item: int) -> int:
        calls.append(item)
        world.clock.advance(100)
        return item

    async def program(task):
        for item in range(9):
            await task.using(key=f"work {item}").act(work, item)
            if item == 1:
                await task.ask("go on?")

    play = Play(program)
    with pytest.raises(perdure.NeedsHuman):
        run(world, play, budget="wall=10m")
    assert 200 == pytest.approx(worked(world), abs=0.1)
    world.clock.advance(10_000)  # it waits for a person

    from perdure import operations

    world.do(lambda runtime: operations.answer(runtime, "job", "yes", "m1"))
    world.clock.advance(10_000)  # nobody works on it
    assert DEAD == world.do(lambda runtime: runtime.resume("job", play), Death("after_outcome", 2))
    world.clock.advance(10_000)  # it lies dead
    assert 400 == pytest.approx(worked(world), abs=0.1)
    with pytest.raises(perdure.NeedsHuman, match="of 10m are worked"):
        resume(world, play)
    assert [0, 1, 2, 3, 4, 5] == calls
    assert "wall=20m" == world.fold().ledger.budget_asked


def worked(world):
    """How long was worked on the task, by its journal."""
    from perdure.core.spending import worked_s

    fold = world.fold()
    return worked_s(fold.ledger, fold.at)


def test_a_clock_that_is_set_back_takes_no_time_away():
    """What was worked stays worked."""
    from perdure.core.spending import begin_work, end_work, worked_s

    ledger = Ledger()
    begin_work(ledger, 10_000_000)
    begin_work(ledger, 11_000_000)
    end_work(ledger, 5_000_000)
    end_work(ledger, 90_000_000)
    assert 0.0 == worked_s(ledger, 100_000_000)


# --- what else goes by it -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_unattended", [False, True])
@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_a_task_that_stopped_at_its_budget_is_replayed_equal(mode, is_unattended):
    """With what was reserved, charged, refused and raised, over a kill."""
    world = World()
    play = asking(thinking([]), 5)
    stops = perdure.TaskFailed if is_unattended else perdure.NeedsHuman
    assert DEAD == world.do(lambda runtime: runtime.run(play, "job", budget="0.35 USD"), Death("after_effect", 2))
    with pytest.raises(stops):
        world.do(lambda runtime: runtime.resume("job", play), unattended=is_unattended)
    found = replay(world, play.fn, mode)
    assert (None, ()) == (shown(found), found.remarks)
    if not is_unattended:
        assert "done" == resume(world, play, budget="+5 USD")
        found = replay(world, play.fn, mode)
        assert (None, ()) == (shown(found), found.remarks)


def test_a_task_that_ran_out_of_time_is_replayed_equal():
    """Time is read off the record, and not off the clock of the replay."""
    world = World()

    @perdure.tool(effect="pure")
    async def work(item: int) -> int:
        world.clock.advance(100)
        return item

    async def program(task):
        for item in range(9):
            await task.using(key=f"{item}").act(work, item)
        return "done"

    with pytest.raises(perdure.NeedsHuman):
        run(world, Play(program), budget="wall=250s")
    assert shown(replay(world, program)) is None
    assert "done" == resume(world, Play(program), budget="wall=1h")
    assert shown(replay(world, program)) is None


def test_a_word_at_a_time_is_not_needed_to_set_a_budget():
    """A visit sets it; where the task has stopped for it, it waits for nobody any more."""
    world, calls = World(), []
    play = asking(thinking(calls), 3)
    with pytest.raises(perdure.NeedsHuman):
        run(world, play, budget="0.2 USD")
    world.do(lambda runtime: runtime.set_budget("job", "+1 USD", by="ann"))
    assert ("running", "", Budget(money="1.2 USD")) == (
        world.fold().ledger.status, world.fold().ledger.budget_asked, world.fold().ledger.budget,
    )  # fmt: skip
    assert "ann" == [one.payload.by for one in world.journal() if isinstance(one.payload, e.BudgetSet)][-1]
    assert "done" == run(world, play)


def sync_run(runtime, tool):
    """Start an inline task that is stopped at its second call."""
    with runtime.task("job", budget="0.15 USD") as task:
        for item in range(2):
            task.using(key=f"{item}", reserve=DIME).act(tool, item)
            assert "0.05" == str(task.budget.left.money)


def test_hooks_are_told_once_that_little_is_left():
    """With the words for people; each process says it once."""
    world, heard = World(), []

    def hook(_task, event, fields):
        if event == "budget_low":
            heard.append(fields["text"])

    play = asking(thinking([]), 5)
    with pytest.raises(perdure.NeedsHuman):
        world.do(lambda runtime: runtime.run(play, "job", budget="0.45 USD, soft=60%"), hooks=(hook,))
    assert ["0.3 of 0.45 USD spent"] == heard


def test_the_time_of_a_person_is_not_the_tasks():
    """Neither while it waits for an answer in the process, nor while a person has it."""
    world = World()

    async def program(task):
        world.clock.advance(10)
        asked = asyncio.ensure_future(task.ask("which?", wait_s=9_000.0))
        await until(lambda: task.status == "needs_human")
        world.clock.advance(5_000)
        put_word(task._session, Message(id="m", what="answer", text="this"))
        await asked
        world.clock.advance(20)
        raise Stop

    with pytest.raises(Stop):
        run(world, Play(program), budget="wall=1h")
    world.do(lambda runtime: runtime.take_over("job"))
    world.clock.advance(5_000)
    world.do(lambda runtime: runtime.hand_back("job"))
    world.clock.advance(5_000)
    assert 10 <= worked(world) < 31


def test_without_await_it_is_the_same(tmp_path):
    """`perdure.sync` reserves, charges, shows and raises."""

    @perdure.tool(effect="pure", paid=True)
    def think(item: int) -> int:
        perdure.charge(DIME)
        return item

    with perdure.sync.open(tmp_path / "store.db") as runtime:
        with pytest.raises(perdure.NeedsHuman):
            sync_run(runtime, think)
        runtime.set_budget("job", "1 USD")
        with runtime.task("job") as task:
            assert [0, 1] == [task.using(key=f"{item}", reserve=DIME).act(think, item) for item in range(2)]
            assert "0.2 USD" == text_of(task.budget.spent.money)


def test_the_agent_reserves_what_its_policy_says_and_is_told_when_little_is_left():
    """`Act.reserve` is on record, and the view says from when on it is low."""
    world, lows = World(), []
    tool = thinking([])
    moves = [Act(tool=tool, arguments={"item": n}, key=f"think {n}", into=(f"{n}",), reserve=DIME) for n in range(3)]

    class Watched(ScriptedPolicy):
        def next(self, view):
            lows.append(view.is_budget_low)
            return super().next(view)

    async def program(task):
        return await follow(task, Watched([*moves, Finish(result="done")]))

    assert "done" == run(world, Play(program), budget="0.4 USD, soft=50%")
    assert [False, False, True, True] == lows
    assert [DIME] * 3 == [one.payload.reserve for one in world.journal() if isinstance(one.payload, e.ActionIntended)]


def test_calls_of_an_agent_at_once_come_to_their_ends_before_it_stops():
    """One that does not fit stops the task; the others are paid for, so their answers are kept."""
    world, calls = World(), []
    tool = thinking(calls)
    acts = tuple(
        Act(tool=tool, arguments={"item": n}, key=f"think {n}", into=(f"{n}",), reserve=reserve)
        for n, reserve in enumerate((DIME, Cost(money="3 USD"), DIME))
    )

    async def program(task):
        return await follow(task, ScriptedPolicy([Together(acts=acts), Finish(result="done")]))

    with pytest.raises(perdure.NeedsHuman):
        run(world, Play(program), budget="1 USD")
    assert [0] == calls[:1]
    assert set(calls) == {int(name) for name in world.state()}
    assert shown(replay(world, program)) is None
    assert "done" == resume(world, Play(program), budget="9 USD")
    assert [0, 1, 2] == sorted(calls)


def test_a_snapshot_holds_what_is_spent():
    """A task that is opened from one has the same accounts."""
    world = World()
    run(world, asking(thinking([]), 3), budget="5 USD, tokens=70, wall=2h")
    fold = world.fold()
    again = decode_fold(encode_fold(fold), {})
    assert (fold.ledger.money, fold.ledger.budget, fold.ledger.calls, fold.ledger.worked_us) == (
        again.ledger.money, again.ledger.budget, again.ledger.calls, again.ledger.worked_us,
    )  # fmt: skip
