"""An error of a provider that no row of the classifier knows: tried once more, then a wrong request, then a person."""

import itertools

import pytest

import perdure
from perdure import Strategy
from perdure.model import entry as e
from tests.worlds import Play, World


class APIError(Exception):
    """As a client raises an event of a stream: a body, no status."""

    def __init__(self, body):
        super().__init__(body["message"])
        self.body = body


APIError.__module__ = "openai"  # told by its class, as the real one is


def model(name, errors):
    """Return a tool that calls a provider, raises the next of `errors`, and answers when there are none left."""

    async def ask(prompt: str) -> str:
        error = next(errors, None)
        if error is not None:
            raise error
        return f"answer to {prompt}"

    return perdure.tool(effect="pure", name=name, provider="acme")(ask)


def odd(numbers):
    """Yield errors that nobody knows, each with an id of its own, as services send them."""
    for number in numbers:
        yield APIError({"type": "brand_new", "message": f"something odd (req_0Xy{number}Kv9mkMvXdaiWP47)"})


def lived(world, play):
    """Run one life in virtual time: what is waited for passes at once."""

    async def life():
        async with world.runtime() as runtime:
            return await runtime.run(play, "job")

    return world.clock.run(life())


def told(world):
    """Return what was recorded of the failures: class, whether it counts, whether it was known."""
    failures = [one.payload for one in world.journal() if isinstance(one.payload, e.FailureObserved)]
    return [(one.failure.failure_class, one.counted, one.failure.error.is_unknown) for one in failures]


def rows(world):
    """Return the rows of recovery's table that have fired."""
    return [one.payload.row for one in world.journal() if isinstance(one.payload, e.DecisionTaken)]


def test_an_unknown_error_that_passes_costs_one_more_call():
    """It is taken for a lack of capacity: waited for, called anew, and nothing counts against the strategy."""
    world, ask = World(), model("odd_once", odd([1]))

    async def program(task):
        return await task.act(ask, "a")

    assert "answer to a" == lived(world, Play(program, strategies=(Strategy("direct"), Strategy("other"))))
    assert [("capacity", False, True)] == told(world)
    assert "passing" == rows(world)[0]
    assert () == tuple(world.fold().ledger.lessons)


def test_an_unknown_error_that_comes_again_changes_the_strategy():
    """The second is a wrong request, whatever id its message has: the same bytes are not sent a third time."""
    world, ask = World(), model("odd_twice", odd([1, 2]))
    seen = []

    async def program(task):
        seen.append(task.strategy.name)
        return await task.act(ask, f"as {task.strategy.name}")

    assert "answer to as other" == lived(world, Play(program, strategies=(Strategy("direct"), Strategy("other"))))
    assert [("capacity", False, True), ("request", True, True)] == told(world)
    assert ["direct", "direct", "other"] == seen
    assert 1 == len(world.fold().ledger.lessons)


def test_an_unknown_error_that_stays_goes_to_a_person():
    """Without strategies the second call is the last one: the task waits for somebody, with what was tried."""
    world = World()
    sent = itertools.count()
    ask = model("odd_ever", odd(sent))

    async def program(task):
        return await task.act(ask, "a")

    with pytest.raises(perdure.NeedsHuman):
        lived(world, Play(program))
    assert (2, "limit_reached") == (next(sent), rows(world)[-1])
    assert [("capacity", False, True), ("request", True, True)] == told(world)


@pytest.mark.parametrize(("status", "sent", "row"), [(460, 1, "limit_reached"), (400, 1, "limit_reached")])
def test_what_a_status_calls_wrong_is_sent_once(status, sent, row):
    """An unknown body behind a 4xx is no unknown error: the status says that the same bytes will not do."""
    world = World()
    numbers = itertools.count()

    def refused():
        for error in odd(numbers):
            error.status_code = status
            yield error

    ask = model(f"odd_{status}", refused())

    async def program(task):
        return await task.act(ask, "a")

    with pytest.raises(perdure.NeedsHuman):
        lived(world, Play(program))
    assert (sent, row) == (next(numbers), rows(world)[-1])
    assert [("request", True, False)] == told(world)


def test_an_unknown_error_behind_a_503_is_an_outage():
    """A server that is down passes, whatever it writes: it is called again until it is back, and nothing counts."""
    world = World()

    def away():
        for error in odd(range(4)):
            error.status_code = 503
            yield error

    ask = model("odd_503", away())

    async def program(task):
        return await task.act(ask, "a")

    assert "answer to a" == lived(world, Play(program))
    assert [("capacity", False, False)] * 4 == told(world)
