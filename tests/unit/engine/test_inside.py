"""What a running tool says of its own call: what it cost is in the append that settles it, what it emits is heard."""

import asyncio
import re
import threading
from pathlib import Path

import pytest

import perdure
from perdure.engine import inside
from perdure.model import entry as e
from perdure.model.budget import NO_COST
from perdure.model.money import text_of
from tests.worlds import DEAD, Death, Play, Stop, World, until

CENT = perdure.Cost(100, 10, "0.01 USD")


def costs(world):
    """What each settled action cost, oldest first, as (tokens in, tokens out, money)."""
    found = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.ActionSettled)]
    return [(one.tokens_in, one.tokens_out, one.money) for one in found]


def paid(body, **options):
    """A paid tool that does `body()`."""

    async def fn() -> object:
        return body()

    return perdure.tool(effect="pure", paid=True, name="think", **options)(fn)


def calling(tool, **settings):
    """A program that calls `tool` once and catches what it raises."""

    async def program(task):
        return str(await task.using(**settings).act_outcome(tool))

    return Play(program)


def test_charges_of_one_call_are_added():
    """A tool may charge as often as it likes; what it cost in all stands in its outcome."""
    world = World()
    world.live(calling(paid(lambda: [perdure.charge(CENT), perdure.charge(perdure.Cost(1, 1, "2 EUR"))] and "x")))
    assert [(101, 11, "2 EUR + 0.01 USD")] == costs(world)
    assert (101, 11) == (world.fold().ledger.tokens_in, world.fold().ledger.tokens_out)


def test_a_call_that_fails_after_it_charged_has_cost_that():
    """The money is gone, whatever became of the answer."""

    def body():
        perdure.charge(CENT)
        raise ValueError("no JSON")

    world = World()
    world.live(calling(paid(body), reserve=perdure.Cost(money="1 USD")))
    assert [(100, 10, "0.01 USD")] == costs(world)


def test_a_charge_comes_from_a_thread_as_well():
    """Plain tools run in threads; those of their own may charge too, as long as they take the context with them."""

    @perdure.tool(effect="pure", paid=True, name="think")
    def think() -> str:
        import contextvars

        others = [
            threading.Thread(target=contextvars.copy_context().run, args=(perdure.charge, CENT)) for _ in range(8)
        ]
        for other in others:
            other.start()
        for other in others:
            other.join()
        return "done"

    world = World()
    world.live(calling(think))
    assert [(800, 80, "0.08 USD")] == costs(world)


def test_a_tool_that_is_not_declared_paid_may_charge():
    """A tool that sometimes costs something says so; nothing is reserved for it."""
    world = World()

    async def fn() -> str:
        perdure.charge(CENT)
        return "x"

    world.live(calling(perdure.tool(effect="pure", name="read")(fn)))
    assert [(100, 10, "0.01 USD")] == costs(world)


@pytest.mark.parametrize(
    ("error", "cost"),
    [
        (None, "0.5 USD"),
        (ValueError("no JSON"), "0.5 USD"),
        (TimeoutError("read"), "0.5 USD"),
        (ConnectionResetError("in the middle"), "0.5 USD"),
        (ConnectionRefusedError("nobody there"), ""),
    ],
)
def test_a_call_that_says_nothing_has_cost_what_was_reserved(error, cost):
    """Only what certainly was not done is free: nobody was reached."""

    def body():
        if error is not None:
            raise error
        return "x"

    world = World()
    world.live(calling(paid(body), reserve=perdure.Cost(money="0.5 USD")))
    assert [(0, 0, cost)] == costs(world)


@pytest.mark.parametrize(("status", "cost"), [(429, ""), (401, ""), (400, ""), (503, ""), (529, ""), (500, "0.5 USD")])
def test_a_request_that_was_refused_costs_nothing(status, cost):
    """A 429 is no answer; behind a 500 the work may be done and billed."""

    class RefusedError(Exception):
        status_code = status

    def body():
        raise RefusedError("not now")

    world = World()
    world.live(calling(paid(body), reserve=perdure.Cost(money="0.5 USD")))
    assert [(0, 0, cost)] == costs(world)


def test_a_tool_says_that_it_cost_nothing():
    """An answer out of a cache takes nothing of what was reserved."""
    world = World()
    world.live(calling(paid(lambda: perdure.charge(perdure.Cost())), reserve=perdure.Cost(money="0.5 USD")))
    assert [(0, 0, "")] == costs(world)


def test_what_is_reserved_stands_in_the_intent():
    """It is on record before the call goes out."""
    world = World()
    reserve = perdure.Cost(10, 20, "0.5 USD")
    world.live(calling(paid(lambda: "x"), reserve=reserve))
    assert [reserve] == [one.payload.reserve for one in world.journal() if isinstance(one.payload, e.ActionIntended)]


def test_what_is_reserved_for_a_call_that_costs_nothing_is_refused():
    """A reservation is for tools that are declared paid; nothing was done."""
    world = World()

    async def fn() -> str:
        return "x"

    tool = perdure.tool(effect="pure", name="read")(fn)
    with pytest.raises(perdure.UsageError, match="paid=True"):
        world.live(calling(tool, reserve=CENT))
    with pytest.raises(perdure.CostInvalid):
        world.live(calling(tool, reserve="0.5 USD"))


def test_a_thread_that_outlives_its_call_charges_the_rest():
    """What was reserved is spent when the time ran out; what the thread comes to in the end adds only what is more."""
    world, started, go = World(), threading.Event(), threading.Event()

    @perdure.tool(effect="irreversible", paid=True, timeout_s=1.0, name="think")
    def think() -> str:
        started.set()
        assert go.wait(10)
        perdure.charge(perdure.Cost(money="0.7 USD"))
        return "late"

    async def program(task):
        call = asyncio.ensure_future(task.using(reserve=perdure.Cost(money="0.5 USD")).act_outcome(think))
        await until(started.is_set)
        world.clock.advance(2.0)
        assert isinstance(await call, perdure.InDoubt)
        go.set()
        await until(lambda: not task._session.late)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    assert [(0, 0, "0.5 USD"), (0, 0, "0.2 USD")] == costs(world)
    assert "0.7 USD" == text_of(world.fold().ledger.money)


def test_outside_of_a_tool_there_is_nothing_to_charge():
    """A program that wants to is told where it belongs."""

    async def program(task):
        perdure.charge(CENT)

    with pytest.raises(perdure.UsageError, match="charge is for tools"):
        World().live(Play(program))
    with pytest.raises(perdure.UsageError, match="emit is for tools"):
        perdure.emit("piece", text="x")
    with pytest.raises(perdure.UsageError, match="request_checkpoint is for tools"):
        perdure.request_checkpoint("here")


def test_a_charge_that_makes_no_sense_is_refused():
    """It is the tool's mistake, and the call's failure."""
    world = World()
    assert "CostInvalid" in world.live(calling(paid(lambda: perdure.charge(perdure.Cost(money="a lot")))))


@pytest.mark.parametrize("is_plain", [False, True])
def test_what_is_emitted_is_heard_on_the_loop(is_plain):
    """With the action and the tool it comes of, in order, and before the outcome; also from a thread."""
    heard = []

    def hook(_task, event, fields):
        if event in {"piece", "action_settled"}:
            heard.append((event, fields.get("text"), fields["tool"], threading.current_thread() is here[0]))

    here = []

    def say():
        for text in "ab":
            perdure.emit("piece", text=text)
        return "ab"

    async def say_async():
        here.append(threading.current_thread())
        return say()

    tool = perdure.tool(effect="pure", name="think")(say if is_plain else say_async)

    async def program(task):
        here[:] = [threading.current_thread()]
        await task.act(tool)

    world = World()
    world.live(Play(program), hooks=(hook,))
    assert [("piece", "a", "think", True), ("piece", "b", "think", True), ("action_settled", None, "think", True)] == (
        heard
    )
    assert ["ActionIntended", "ActionSettled"] == [kind for kind in world.kinds() if kind.startswith("Action")]


def test_no_tool_speaks_with_the_librarys_voice():
    """A tool that says "stopped" would call people; the names are those that the engine tells."""
    engine = Path(inside.__file__).parent
    text = "".join(file.read_text("utf-8") for file in engine.rglob("*.py"))
    told = re.findall(r"""(?:\.tell\(|untold\.append\(\()\s*"([a-z_]+)\"""", text)
    assert set(told) == inside.EVENTS
    assert "UsageError" in World().live(calling(paid(lambda: perdure.emit("stopped"))))


def test_what_a_killed_call_has_emitted_is_gone():
    """It is heard, and nothing of it is on record: what was streamed before a kill was no answer."""
    world, heard = World(), []

    def body():
        perdure.emit("piece", text="half an ans")
        return "x"

    play = calling(paid(body))
    assert DEAD == world.live(
        play, death=Death("after_effect"), hooks=(lambda _task, event, fields: heard.append(fields.get("text")),)
    )
    assert "half an ans" in heard
    assert not any(b"half" in repr(entry.payload).encode() for entry in world.journal())


def test_nothing_reserved_is_the_same_as_nothing_said():
    """No field more stands in a journal for it."""
    assert perdure.Cost() == NO_COST
