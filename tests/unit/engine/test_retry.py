"""The column `retry`, at every place where a process can die: what may be sent again, and under which key."""

import urllib.error
from email.message import Message

import pytest

import perdure
from perdure.model.entry import ActionSettled
from perdure.model.outcome import Failed, InDoubt, Succeeded
from tests.worlds import DEAD, Death, Play, Stop, World, counted

PLACES = ["before_intent", "after_intent", "after_effect", "after_outcome"]


class Service:
    """Something outside that honours keys and can be asked."""

    def __init__(self):
        self.calls = []  # (argument, key) of each call
        self.done = set()  # keys, or arguments, of what really happened

    def keyed(self, **options):
        """Return a tool that sends under a key."""

        async def send(item: int, key: perdure.EffectKey) -> str:
            self.calls.append((item, key))
            self.done.add(key)
            return f"sent {item}"

        return perdure.tool(effect="idempotent", **options)(send)

    def verifiable(self, answer=None, **options):
        """Return a tool whose effect can be looked up, or one whose probe always says `answer`."""

        async def write(item: int) -> str:
            self.calls.append((item, ""))
            self.done.add(item)
            return f"written {item}"

        async def probe(item: int) -> bool | None:
            return item in self.done if answer is None else answer()

        return perdure.tool(effect="verifiable", probe=probe, **options)(write)


# --- keyed ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_keyed_effect_happens_once_wherever_the_process_dies(place, with_key):
    """Sent again under the same key, or not at all (crewAI 5802: a retry layer that pays twice)."""
    world, service = World(), Service()
    send = service.keyed()

    async def program(task):
        return await task.using(key="k" if with_key else "").act(send, 1)

    assert DEAD == world.live(Play(program), death=Death(place))
    assert "sent 1" == world.live(Play(program))
    assert 1 == len(service.done)
    assert (2 if place == "after_effect" else 1) == len(service.calls)


def test_a_keyed_effect_keeps_its_key_over_attempts_kills_and_failures():
    """One key for a lost connection, a definite failure, a kill and the call that succeeds at last."""
    world, keys, ends = World(), [], [ConnectionError("reset"), ValueError("refused")]

    @perdure.tool(effect="idempotent")
    async def send(item: int, key: perdure.EffectKey) -> str:
        keys.append(key)
        if ends:
            raise ends.pop(0)
        return "sent"

    async def program(task):
        while isinstance(outcome := await task.act_outcome(send, 1), Failed):
            pass
        return outcome.result

    assert DEAD == world.live(Play(program), death=Death("after_effect"))
    assert "sent" == world.live(Play(program))
    assert 4 == len(keys)
    assert 1 == len(set(keys))


def test_the_key_of_a_failed_call_is_not_given_to_another():
    """The first body of another loop, with another argument, gets a key of its own."""
    seen = []

    @perdure.tool(effect="idempotent")
    async def send(item: str, key: perdure.EffectKey) -> str:
        seen.append((item, key))
        if item == "a":
            raise ValueError("refused")
        return "sent"

    async def program(task):
        for loop, items in (("first", ["a"]), ("second", ["b"])):
            async for item in task.each(loop, items):
                await task.act_outcome(send, item)

    World().live(Play(program))
    assert ["a", "b"] == [item for item, _ in seen]
    assert 2 == len({key for _, key in seen})


# --- never ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("place", PLACES)
def test_a_never_effect_is_never_sent_twice(place):
    """Killed between intent and outcome it is in doubt, and a person is asked; elsewhere the run goes on."""
    world, sent = World(), []
    send = counted(sent, effect="irreversible", name="send")

    async def program(task):
        return await task.act(send, 7)

    assert DEAD == world.live(Play(program), death=Death(place))
    if place in {"before_intent", "after_outcome"}:
        assert 7 == world.live(Play(program))
        assert [7] == sent
        return
    with pytest.raises(perdure.NeedsHuman, match="settle"):
        world.live(Play(program))
    assert ([7] if place == "after_effect" else []) == sent
    assert "needs_human" == world.fold().ledger.status


@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError("timed out")])
def test_a_never_effect_in_doubt_is_not_sent_again_by_the_same_run(error):
    """A program that catches OutcomeUnknown and calls again gets OutcomeUnknown again, and no second call is made."""
    sent = []

    @perdure.tool(effect="irreversible")
    async def send() -> None:
        sent.append(1)
        raise error

    async def program(task):
        for _ in range(2):
            assert isinstance(await task.act_outcome(send), InDoubt)
        return "went on"

    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    assert [1] == sent


def test_a_never_effect_that_failed_for_sure_may_be_called_again():
    """An exception that is no matter of the network means that nothing happened."""
    sent = []

    @perdure.tool(effect="irreversible")
    async def send() -> str:
        sent.append(1)
        if len(sent) == 1:
            raise ValueError("refused")
        return "sent"

    async def program(task):
        assert isinstance(await task.act_outcome(send), Failed)
        return await task.act(send)

    assert "sent" == World().live(Play(program))


def test_success_is_refused_while_an_effect_is_in_doubt():
    """A program that returns over an effect in doubt needs a person; unattended, the task has failed."""
    for unattended, ending in ((False, perdure.NeedsHuman), (True, perdure.TaskFailed)):

        @perdure.tool(effect="irreversible")
        async def send() -> None:
            raise ConnectionError("reset")

        async def program(task, send=send):
            await task.act_outcome(send)
            return "done"

        world = World()
        with pytest.raises(ending):
            world.live(Play(program), unattended=unattended)
        assert "TaskSucceeded" not in world.kinds()


# --- probe ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("place", PLACES)
def test_a_probed_effect_happens_once_wherever_the_process_dies(place):
    """The world is asked; only what did not happen is sent again."""
    world, service = World(), Service()
    write = service.verifiable(timeout_s=1.0)

    async def program(task):
        await task.act(write, 3)

    assert DEAD == world.live(Play(program), death=Death(place))
    world.clock.advance(2.0)
    world.live(Play(program))
    assert [(3, "")] == service.calls


def test_a_probe_that_finds_a_result_hands_it_out():
    """What a probe returns besides yes and no is the result."""
    world, calls = World(), []

    async def probe(item: int) -> str:
        return f"found {item}"

    @perdure.tool(effect="verifiable", probe=probe)
    async def write(item: int) -> str:
        calls.append(item)
        return f"written {item}"

    async def program(task):
        return await task.act(write, 3)

    assert DEAD == world.live(Play(program), death=Death("after_intent"))
    assert "found 3" == world.live(Play(program))
    assert ["probe"] == [one.payload.by for one in world.journal() if isinstance(one.payload, ActionSettled)]


def test_a_probe_that_says_only_yes_settles_a_typed_tool():
    """Where only the fact is known, the result is None, in this run and the next."""
    world, lives = World(), []

    @perdure.tool(effect="verifiable", probe=lambda: True)
    async def write() -> perdure.Strategy:
        return perdure.Strategy("s")

    async def program(task):
        lives.append(await task.using(key="k").act_outcome(write))
        if len(lives) == 1:
            raise Stop

    assert DEAD == world.live(Play(program), death=Death("after_intent"))
    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [Succeeded(None), Succeeded(None)] == lives


def test_a_probes_no_counts_only_when_the_first_call_can_no_longer_arrive():
    """Before time-out and settle time are over, the world is asked a second time, after waiting for them."""
    world, asked, calls = World(), [], []

    def probe() -> bool:
        asked.append(1)
        return len(asked) > 1

    @perdure.tool(effect="verifiable", probe=probe, timeout_s=0.01, settle_s=0.01)
    async def write() -> None:
        calls.append(1)

    async def program(task):
        await task.act(write)

    assert DEAD == world.live(Play(program), death=Death("after_intent"))
    world.live(Play(program))
    assert ([1, 1], []) == (asked, calls)


@pytest.mark.parametrize("answer", [None, "raises"])
def test_a_probe_that_cannot_tell_leaves_the_effect_in_doubt(answer, monkeypatch):
    """None, or a probe that fails three times: OutcomeUnknown, and nothing is sent."""
    monkeypatch.setattr("perdure.engine.dispatch.RETRY_BASE_S", 0.0)
    world, calls, asked = World(), [], []

    def probe() -> bool | None:
        asked.append(1)
        if answer == "raises":
            raise ConnectionError("down")
        return None

    @perdure.tool(effect="verifiable", probe=probe)
    async def write() -> None:
        calls.append(1)

    async def program(task):
        with pytest.raises(perdure.OutcomeUnknown):
            await task.act(write)
        raise Stop

    assert DEAD == world.live(Play(program), death=Death("after_intent"))
    with pytest.raises(Stop):
        world.live(Play(program))
    assert (3 if answer else 1, 0) == (len(asked), len(calls))


# --- free, restore --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("effect", ["pure", "workspace"])
@pytest.mark.parametrize("place", PLACES)
def test_free_and_restored_effects_are_run_again(place, effect):
    """An interrupted call is simply made again; a finished one is not."""
    world, calls = World(), []
    tool = counted(calls, effect=effect)

    async def program(task):
        return await task.using(key="k").act(tool, 1)

    assert DEAD == world.live(Play(program), death=Death(place))
    assert 1 == world.live(Play(program))
    assert (2 if place == "after_effect" else 1) == len(calls)


def test_three_calls_in_flight_at_once_are_each_resumed_by_their_rule():
    """After a kill beside open calls the finished results are kept and the others made (strands-agents 859)."""
    for number in range(1, 15):
        world, calls = World(), []
        read = counted(calls)

        async def program(task, read=read):
            return await task.map("m", read, [1, 2, 3])

        died = world.live(Play(program), death=Death("any", number))
        assert [1, 2, 3] == world.live(Play(program))
        assert len(calls) <= 6
        intents = [name for name in world.kinds() if name == "ActionIntended"]
        outcomes = [name for name in world.kinds() if name == "ActionSettled"]
        assert len(intents) >= len(outcomes) == 3
        if died != DEAD:
            return
    pytest.fail("no life ran through")


@pytest.mark.parametrize(
    ("status", "kind"), [(500, InDoubt), (502, InDoubt), (504, InDoubt), (503, Failed), (429, Failed), (404, Failed)]
)
def test_a_server_that_has_lost_its_way_leaves_an_effect_in_doubt(status, kind):
    """What stands before it may have passed the call on; a server that refuses has not done it."""
    world, outcomes = World(), []

    @perdure.tool(effect="irreversible")
    async def mail() -> None:
        raise urllib.error.HTTPError("https://service.example", status, "no", Message(), None)

    async def program(task):
        outcomes.append(await task.act_outcome(mail))
        await task.ask("and now?")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    assert [kind] == [type(one) for one in outcomes]
    assert (kind is InDoubt) == any(action.in_doubt for action in world.fold().ledger.open.values())
