"""What a stranger has tried in order to break recovery: endless loops, counts that do not count, answers in the way."""

import asyncio
from collections import Counter

import pytest

import perdure
from perdure import Strategy
from perdure.core.briefing import brief
from perdure.core.recovery import Rules
from perdure.engine.replay.playing import play
from perdure.errors import KeyReused
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.ledger import Ledger
from tests.unit.engine.test_replaying_recovery import recorded
from tests.worlds import DEAD, IMPATIENT, Death, Play, World, counted, dying


class Hurried(World):
    """A world in which waiting costs nothing."""

    def live(self, play, name="job", *, death=None, **options):
        """Run `play` in one life; return its result, or DEAD."""
        death = death or Death()

        async def life():
            async with self.runtime(death, **options) as runtime:
                return await runtime.run(play, name)

        with dying(death):
            try:
                return self.clock.run(life())
            except BaseException:
                if death.is_dead:
                    return DEAD
                raise


def rows(world):
    """Return the rows of the table that have fired, in order."""
    return [one.payload.row for one in world.journal() if isinstance(one.payload, e.DecisionTaken)]


# --- no end ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rolls_back", [False, True])
def test_a_passing_fault_at_the_start_does_not_lift_the_maximum_of_calls(monkeypatch, rolls_back):
    """A new check each time takes each failure away, a rollback counts none: only the number of calls ends it."""
    monkeypatch.setattr("perdure.engine.driving.PROGRAM_CALLS_MAX", 7)
    world, calls = Hurried(), []

    async def program(task):
        calls.append(task.attempt)
        if len(calls) > 20:
            raise perdure.UsageError("no end")
        if len(calls) == 1:
            raise ConnectionResetError("away for a moment")
        if rolls_back:
            await task.rollback("start")
        await task.check(f"attempt {task.attempt}", True)
        raise ValueError("and still wrong")

    with pytest.raises(perdure.NeedsHuman, match="7 times without an end"):
        world.live(Play(program))
    assert 9 == len(calls)


# --- counts ---------------------------------------------------------------------------------------------------------
def test_a_doubtful_call_that_has_come_through_begins_the_row_of_retries_anew():
    """Each of eight sends fails once in passing: that is no outage, however many there are."""
    world, calls = Hurried(), []

    @perdure.tool(effect="idempotent", name="review_send")
    async def send(item: int, key: perdure.EffectKey) -> int:
        calls.append(key)
        if len(calls) % 2:
            raise ConnectionResetError("away for a moment")
        return item

    async def program(task):
        for item in range(8):
            await task.act(send, item)
            await task.checkpoint(f"sent {item}")
        return "all"

    assert "all" == world.live(Play(program))
    assert ["passing"] * 8 == rows(world)
    assert (16, 8) == (len(calls), len(set(calls)))


# --- the goal is reached --------------------------------------------------------------------------------------------
def test_what_reached_shows_of_the_state_is_the_result():
    """A part of the state is a view; what is recorded is what it shows."""
    world = World()

    async def program(task):
        async with task.edit() as state:
            state["found"] = [1, 2]
        raise ValueError("one more, and there is none")

    assert [1, 2] == world.live(Play(program, reached=lambda state: state.get("found")))
    assert ["already_done"] == rows(world)


def test_what_reached_returns_and_nobody_can_store_means_no():
    """The failure is treated as if nobody had been asked; the hooks are told."""
    world, told = World(), []

    async def program(task):
        raise ValueError("wrong")

    with pytest.raises(perdure.NeedsHuman):
        world.live(
            Play(program, failures_max=1, reached=lambda state: object()),
            hooks=(lambda task, event, fields: told.append(event),),
        )
    assert (["limit_reached"], 1) == (rows(world), told.count("reached_failed"))


# --- a strategy that is changed in place ----------------------------------------------------------------------------
def test_what_another_strategy_asks_otherwise_under_the_same_key_is_asked():
    """Where the task stands the keys stand too: a free call is made anew, and one that asks the same is not."""
    world, calls = Hurried(), []

    @perdure.tool(effect="pure", name="review_write")
    async def write(text: str) -> str:
        calls.append(text)
        return text

    async def program(task):
        goal = await task.using(key="goal").act(write, "the goal")
        draft = await task.using(key="draft").act(write, task.strategy.prompt)
        await task.check("the draft is good", draft == "slowly")
        return goal, draft

    strategies = (Strategy("direct", prompt="quickly"), Strategy("careful", prompt="slowly"))
    rules = Rules(rolls_back=False)
    for number in range(1, 40):
        world, calls = Hurried(), calls.__class__()
        died = world.live(Play(program, strategies=strategies), rules=rules, death=Death("any", number))
        assert ("the goal", "slowly") == world.live(Play(program, strategies=strategies), rules=rules)
        assert ["reask", "reask", "change_in_place"] == rows(world)
        if died != DEAD:
            assert ["the goal", "quickly", "slowly"] == calls
            return
    pytest.fail("no life ran through")


def test_an_effect_keeps_its_key_whatever_strategy_asks():
    """It is in the world: to make it again otherwise is not for a strategy to decide."""
    world, calls = Hurried(), []

    @perdure.tool(effect="idempotent", name="review_publish")
    async def publish(text: str, key: perdure.EffectKey) -> str:
        calls.append(key)
        return text

    async def program(task):
        await task.using(key="publish").act(publish, task.strategy.prompt)
        raise ValueError("wrong")

    strategies = (Strategy("direct", prompt="quickly"), Strategy("careful", prompt="slowly"))
    with pytest.raises(KeyReused):
        world.live(Play(program, strategies=strategies, failures_max=1), rules=Rules(rolls_back=False))
    assert 1 == len(calls)


def test_nobody_else_is_called_for_an_effect_that_may_have_happened():
    """The first service may have taken the money and not have said so: the second would take it again."""
    world, calls = Hurried(), []

    @perdure.tool(effect="idempotent", name="review_charge")
    async def charge(service: str, key: perdure.EffectKey) -> str:
        calls.append((service, key))
        raise ConnectionResetError("away")

    async def program(task):
        return await task.act(charge, task.strategy.source)

    strategies = (Strategy("first", source="one"), Strategy("second", source="two"))
    with pytest.raises(perdure.NeedsHuman, match="4 times in a row"):
        world.live(Play(program, strategies=strategies), rules=IMPATIENT)
    assert (["passing"] * 3 + ["passing_too_long"], 1, 4) == (rows(world), len(set(calls)), len(calls))


@pytest.mark.parametrize("rolls_back", [True, False])
def test_no_strategy_does_otherwise_what_may_have_happened(rolls_back):
    """At a dead end with an effect in doubt a person says first whether it has happened."""
    world, calls = Hurried(), []

    @perdure.tool(effect="idempotent", name="review_pay_here")
    async def pay_here(item: int, key: perdure.EffectKey) -> str:
        calls.append("here")
        raise TimeoutError("no word")

    @perdure.tool(effect="idempotent", name="review_pay_there")
    async def pay_there(item: int, key: perdure.EffectKey) -> str:
        calls.append("there")
        return "there"

    async def program(task):
        if "paid" not in task.state:
            pay = pay_here if task.strategy.name == "here" else pay_there
            await task.act(pay, 1, then=lambda state, got: state.update(paid=got))
        return task.state["paid"]

    play = Play(program, strategies=(Strategy("here", source="one"), Strategy("there", source="two")))
    with pytest.raises(perdure.NeedsHuman, match=r"'review_pay_here' .* happen"):
        world.live(play, rules=Rules(rolls_back=rolls_back))
    assert (["here"] * 4, "effects_open") == (calls, rows(world)[-1])


# --- beside an effect in flight -------------------------------------------------------------------------------------
def test_a_program_is_not_left_for_a_circle_while_an_effect_is_in_flight():
    """Its task group would cancel the effect, and a person would have to say whether it has happened."""
    world, done, reads = Hurried(), [], []
    read = counted(reads, name="review_again", result=1)

    @perdure.tool(effect="irreversible", name="review_pay")
    async def pay(item: int) -> int:
        await asyncio.sleep(5)
        done.append(item)
        return item

    async def go_round(task):
        for _ in range(1 if task.advice else 8):
            await task.act(read, 1)
            await asyncio.sleep(0.1)

    async def program(task):
        async with asyncio.TaskGroup() as group:
            if "paid" not in task.state:
                group.create_task(task.act(pay, 1, then=lambda state, _: state.update(paid=True)))
            group.create_task(go_round(task))
        return task.attempt

    running = Play(program, strategies=(Strategy("direct"), Strategy("careful", prompt="slowly")))
    assert 2 == world.live(running)
    assert (["nudge"], [1], [1, 1, 1, 1]) == (rows(world), done, reads)
    replayed = play(recorded(world), running, "strict")
    assert (None, (), 4) == (replayed.divergence, replayed.remarks, len(reads))


# --- what is no row -------------------------------------------------------------------------------------------------
class Unheard(Exception):
    """Of an error that no row of the classifier knows."""

    status_code = 999


@pytest.mark.parametrize(("kind", "row"), [(Unheard, "passing"), (ValueError, "same_again")])
def test_the_same_error_after_the_call_has_succeeded_is_no_second_in_a_row(kind, row):
    """A call that fails twice in a hundred is neither a wrong request nor a dead end."""
    world, calls = Hurried(), []

    @perdure.tool(effect="pure", poll=True, name=f"review_poll_{kind.__name__}")
    async def poll() -> int:
        calls.append(1)
        if len(calls) in {2, 30}:
            raise kind("odd")
        return len(calls)

    async def program(task):
        while len(task.state["seen"]) < 50:
            await task.act(poll, then=lambda state, got: state["seen"].append(got))
        return "seen"

    strategies = (Strategy("direct"), Strategy("careful", prompt="slowly"))
    assert "seen" == world.live(Play(program, state={"seen": []}, strategies=strategies))
    assert ([row, row], 52) == (rows(world), len(calls))


def test_the_success_of_another_call_with_equal_arguments_ends_no_row():
    """What comes before the call that is away succeeds each time: it says nothing about that call."""
    world, calls = Hurried(), []
    first = counted([], name="review_first", result="here", poll=True)

    @perdure.tool(effect="pure", name="review_away")
    async def away(item: int = 0) -> int:
        calls.append(item)
        raise ConnectionResetError("away")

    async def program(task):
        await task.act(first)
        return await task.act(away)

    with pytest.raises(perdure.NeedsHuman, match="4 times in a row"):
        world.live(Play(program), rules=IMPATIENT)
    assert 4 == len(calls)


def test_what_succeeds_before_the_call_that_is_away_makes_no_outage_shorter():
    """The clock is read into the state at each call of the program; the service is away for ten minutes."""
    world, calls = Hurried(), []

    @perdure.tool(effect="pure", poll=True, name="review_clock")
    async def look() -> int:
        return len(calls)

    @perdure.tool(effect="pure", name="review_service")
    async def service(item: int) -> int:
        calls.append(world.clock.at_us)
        if world.clock.at_us - calls[0] < 600_000_000:
            raise ConnectionResetError("away")
        return item

    async def program(task):
        await task.act(look, then=lambda state, got: state.update(at=got))
        return await task.act(service, 7)

    assert 7 == world.live(Play(program))
    assert (["passing"] * 3, {"outage"}) == (rows(world)[:3], set(rows(world)[3:]))
    assert len(calls) < 20


def test_calls_that_were_stopped_beside_the_one_that_failed_are_not_taken_for_it():
    """A task group stops what runs beside a failure; the row of retries is that of the failure, and ends with it."""
    world, calls = Hurried(), Counter()

    @perdure.tool(effect="pure", name="review_beside")
    async def read(item: int) -> int:
        calls[item] += 1
        if not item % 3 and calls[item] == 1:
            raise ConnectionResetError("away for a moment")
        await asyncio.sleep(1)
        return item

    async def program(task):
        for first in range(0, 18, 3):
            async with asyncio.TaskGroup() as group:
                for item in range(first, first + 3):
                    group.create_task(task.act(read, item))
        return "all"

    assert "all" == world.live(Play(program))
    assert ["passing"] * 6 == rows(world)
    assert 0 == world.fold().ledger.retries


# --- what people and prompts are told -------------------------------------------------------------------------------
def test_a_prompt_holds_the_newest_lessons_each_once():
    """The journal and `task.lessons` keep all of them."""
    ledger = Ledger(lessons=[*(f"tried way {number}" for number in range(30)), "tried way 15"])
    told = [line for line in brief(Document(), ledger).splitlines() if line.startswith("- ")]
    assert [f"- tried way {number}" for number in (*range(10, 15), *range(16, 30), 15)] == told


def test_a_person_is_told_that_sources_were_found_false_rather_than_tried_twice():
    """Both strategies ask the same source, and one false answer of it is the end of both."""
    world = World()

    async def program(task):
        await task.check("two sources agree", False, failure_class="suspicious")

    strategies = (Strategy("short", source="web"), Strategy("long", prompt="slowly", source="web"))
    with pytest.raises(perdure.NeedsHuman, match=r"twice without progress, or its source was found false \(web\)"):
        world.live(Play(program, strategies=strategies))
