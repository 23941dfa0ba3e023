"""Effects that stay in the world: when a rollback passes them, and how they answer equal calls of the new branch."""

import asyncio

import pytest

import perdure
from perdure.errors import RollbackRefused
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Succeeded
from tests.worlds import DEAD, Death, Play, Stop, World, counted


def sender(calls, **options):
    """Return a tool whose effect stays in the world."""
    return counted(calls, **{"effect": "irreversible", "name": "send", **options})


def act_on(world, what):
    """Let `what(runtime)` be done in a runtime of its own."""

    async def act():
        async with world.runtime() as runtime:
            return await what(runtime)

    return asyncio.run(act())


def goes_back(world, body, behind=(), **way):
    """Play a program that sends 1 and `behind`, goes back once, and does `body(task)` on the new branch."""
    send = sender(world.sent)

    async def program(task):
        await task.checkpoint("c")
        if not task._session.fold.ledger.rollbacks:
            for place, item in enumerate((1, *behind)):
                await task.using(key=f"first {place}").act(send, item)
            await task.rollback("c", **way)
        return await body(task, send)

    return Play(program, state={"got": []})


@pytest.fixture
def world():
    """A world that keeps what was sent."""
    made = World()
    made.sent = []
    return made


async def nothing(_task, _send):
    """Do nothing on the new branch."""


def test_a_rollback_past_an_effect_that_stays_is_refused(world):
    """It names the effect and both ways out, and writes nothing."""
    with pytest.raises(RollbackRefused, match=r"send \(action id\d+\).*--to c --carry.*--force") as raised:
        world.live(goes_back(world, nothing))
    assert 1 == len(raised.value.effects)
    assert "RollbackBegan" not in world.kinds()


def test_carried_the_new_branch_is_told_by_a_fact_in_the_append_that_ends_the_rollback(world):
    """The fact names call and action, is in `task.facts`, and is there even where the next append is never made."""

    async def told(task, _send):
        return task.facts

    (fact,) = world.live(goes_back(world, told, carry=True))
    assert "send(item=1) has happened" in fact
    kinds = world.kinds()
    assert kinds.index("RolledBackEntry") + 1 == kinds.index("FactStated")


@pytest.mark.parametrize("number", range(1, 12))
def test_killed_at_any_append_the_fact_is_stated_once(world, number):
    """The rollback is finished by the next opener, who knows from its beginning what is to be carried."""
    play = goes_back(world, nothing, carry=True)
    if DEAD == world.live(play, death=Death("after_append", number)):
        try:
            world.live(play)
        except perdure.NeedsHuman:  # it may never be sent again, and a person has looked
            (action,) = world.fold().ledger.open
            outcome = Succeeded(1) if world.sent else Failed(ErrorRecord(type="No", message="it did not"))
            act_on(world, lambda runtime: runtime.settle("job", action, outcome))
            world.live(play)
    assert (1, 1) == (world.kinds().count("FactStated"), len(world.sent))


def test_forced_no_fact_is_stated_and_the_effect_answers_an_equal_call(world):
    """The call on the new branch is not made; its patch and the reuse are one entry."""

    async def again(task, send):
        return await task.act(send, 1, then=lambda state, result: state["got"].append(result))

    assert 1 == world.live(goes_back(world, again, force=True))
    assert ([1], {"got": [1]}) == (world.sent, world.state())
    kinds = world.kinds()
    assert (0, 1, 0) == tuple(map(kinds.count, ("FactStated", "ActionReused", "StateEdited")))


def test_each_effect_answers_once_oldest_first(world):
    """Two equal ones, two equal calls, two answers; one with another argument is made."""

    async def again(task, send):
        got = [await task.using(key=str(n)).act(send, 1) for n in range(2)]
        return got, await task.using(key="other").act(send, 5)

    assert ([1, 1], 5) == world.live(goes_back(world, again, behind=(1,), force=True))
    assert [1, 1, 5] == world.sent
    reused = [x.payload.settled for x in world.journal() if type(x.payload).__name__ == "ActionReused"]
    assert sorted(reused) == reused
    assert 2 == len(set(reused))


def test_when_they_are_used_up_a_person_is_asked_whether_to_make_another(world):
    """`yes` makes it, once; the question names the call."""

    async def again(task, send):
        return [await task.using(key=str(n)).act(send, 1) for n in range(2)]

    play = goes_back(world, again, force=True)
    with pytest.raises(perdure.NeedsHuman, match="'send' was made with the same arguments"):
        world.live(play)
    assert [1] == world.sent
    answer(world, "yes")
    assert [1, 1] == world.live(play)
    assert [1, 1] == world.sent


def test_a_no_answers_the_call_with_the_recorded_result(world):
    """Nothing is sent, and the answer counts for that one call only: the next equal one asks again."""

    async def again(task, send):
        return [await task.using(key=str(n)).act(send, 1) for n in range(3)]

    play = goes_back(world, again, force=True)
    for said in ("no", "no"):
        with pytest.raises(perdure.NeedsHuman):
            world.live(play)
        answer(world, said)
    assert [1, 1, 1] == world.live(play)
    assert [1] == world.sent


def answer(world, text):
    """Let a person answer the question of the task."""
    from perdure.ports import Message

    act_on(world, lambda runtime: runtime.say("job", Message(id=f"m{world.ids.short_id()}", what="answer", text=text)))


def test_a_resumed_program_finds_what_was_reused_and_reuses_nothing_else(world):
    """By its key, and without one by its anchor: it is this branch's outcome from then on."""

    async def again(task, send):
        got = await task.using(key="a").act(send, 1)
        got += await task.act(send, 2)
        await task.checkpoint("anchored")
        if task.attempt < 4:
            raise ValueError("called anew")
        return got

    assert 3 == world.live(goes_back(world, again, behind=(2,), force=True))
    assert ([1, 2], 2) == (world.sent, world.kinds().count("ActionReused"))


def test_going_back_past_a_reuse_the_effect_answers_again(world):
    """It stands for the third branch as it did for the second."""
    send = sender(world.sent)

    async def program(task):
        await task.checkpoint("c")
        got = await task.using(key="k").act(send, 1)
        if task._session.fold.ledger.rollbacks < 2:
            await task.rollback("c", carry=True)
        return got

    assert 1 == world.live(Play(program))
    assert ([1], 2) == (world.sent, world.kinds().count("ActionReused"))


def test_the_effect_of_an_alias_answers_too(world):
    """A tool that got a new name: the old effect is one of it."""

    async def again(task, _send):
        renamed = sender(world.sent, name="post", aliases=("send",))
        return await task.using(key="k").act(renamed, 1)

    assert 1 == world.live(goes_back(world, again, force=True))
    assert [1] == world.sent


def test_a_reducer_that_raises_leaves_the_reuse_unapplied_and_runs_again_alone(world):
    """As with an outcome of its own: the effect is taken, only its patch is still to be made."""

    async def again(task, send):
        def reduce(state, result):
            if task.attempt == 2:
                raise ValueError("not yet")
            state["got"].append(result)

        await task.using(key="k").act(send, 1, then=reduce)
        return task.state["got"].plain()

    assert [1] == world.live(goes_back(world, again, force=True))
    assert ([1], 1) == (world.sent, world.kinds().count("ActionReused"))


def test_what_leaves_nothing_to_take_back_is_made_again(world):
    """keyed/nothing: no rollback stops at it, and no effect stands for it."""
    put = counted(world.sent, effect=None, retry="probe", undo="nothing", probe=lambda item: False, name="put")

    async def program(task):
        await task.checkpoint("c")
        await task.using(key="k").act(put, 1)
        if not task._session.fold.ledger.rollbacks:
            await task.rollback("c")

    world.live(Play(program))
    assert [1, 1] == world.sent


def in_doubt(world, tool, body):
    """Kill `tool` in flight behind a checkpoint, go back by force, and return the program with `body` to go on with."""

    async def first(task):
        await task.checkpoint("c")
        await task.using(key="k").act(tool, 1)

    assert DEAD == world.live(Play(first), death=Death("after_effect"))
    with pytest.raises(RollbackRefused):
        act_on(world, lambda runtime: runtime.rollback("job", "c"))
    act_on(world, lambda runtime: runtime.rollback("job", "c", force=True))

    async def program(task):
        await task.checkpoint("c")
        async with task.edit() as state:
            state["x"] = 1
        return await body(task)

    return Play(program)


def test_an_equal_call_meets_the_doubt_of_the_old_branch(world):
    """A `never` tool in doubt is not sent again; settled, it answers the call."""
    send = sender(world.sent)

    async def again(task):
        return await task.using(key="other key").act(send, 1)

    play = in_doubt(world, send, again)
    with pytest.raises(perdure.NeedsHuman, match="did 'send'"):
        world.live(play)
    assert [1] == world.sent
    (action,) = world.fold().ledger.open
    act_on(world, lambda runtime: runtime.settle("job", action, Succeeded("it arrived")))
    assert "it arrived" == world.live(play)
    assert ([1], 1) == (world.sent, world.kinds().count("ActionReused"))


def test_the_doubt_of_an_old_branch_holds_up_nothing_but_equal_calls_and_the_end(world):
    """An edit, a checkpoint and another call go on; the task does not succeed before somebody has looked."""
    send = sender(world.sent)

    async def again(task):
        await task.using(key="k").act(send, 2)
        await task.checkpoint("on")

    play = in_doubt(world, send, again)
    with pytest.raises(perdure.NeedsHuman, match="did 'send'"):
        world.live(play)
    assert [1, 2] == world.sent
    (action,) = world.fold().ledger.open
    act_on(world, lambda runtime: runtime.settle("job", action, None))
    world.live(play)


def test_a_keyed_call_in_doubt_is_sent_again_under_its_first_key(world):
    """On the new branch too: the service drops it."""

    @perdure.tool(effect="idempotent", name="send")
    async def send(item: int, key: perdure.EffectKey) -> int:
        world.sent.append(key)
        return item

    async def again(task):
        return await task.using(key="other key").act(send, 1)

    assert 1 == world.live(in_doubt(world, send, again))
    assert (2, 1) == (len(world.sent), len(set(world.sent)))


def test_a_probe_says_that_it_happened_and_the_call_is_answered_by_it(world):
    """The patch of `then=` is the new branch's, and a resumed program finds it."""
    send = sender(world.sent, effect="verifiable", probe=lambda item: "found")

    async def again(task):
        got = await task.using(key="k").act(
            send, 1, then=lambda state, result: state.setdefault("got", []).append(result)
        )
        if task.attempt < 4:
            raise ValueError("called anew")
        return got, task.state["got"].plain()

    assert ("found", ["found"]) == world.live(in_doubt(world, send, again))
    assert [1] == world.sent


def test_an_argument_that_is_a_view_counts_by_its_content(world):
    """The same list, shown by a view at another time, or written out: it is the same call."""
    send = sender(world.sent)

    async def program(task):
        if not task._session.fold.ledger.rollbacks:
            async with task.edit() as state:
                state["items"].append(1)
            await task.using(key="k").act(send, task.state["items"])
            await task.rollback("start", force=True)
        async with task.edit() as state:
            state["other"] = 2
        return await task.using(key="k").act(send, [1])

    assert [1] == world.live(Play(program, state={"items": []}))
    assert [[1]] == world.sent


def test_an_effect_that_nothing_takes_back_is_itself_a_checkpoint(world):
    """`effect` goes back to right behind it: nothing has to be carried, and the call is answered."""
    send = sender(world.sent)

    async def program(task):
        got = await task.using(key="k").act(send, 1)
        if task.attempt == 1:
            async with task.edit() as state:
                state["bad"] = True
            await task.rollback("effect")
        return got, task.state.plain()

    assert (1, {}) == world.live(Play(program))
    assert [1] == world.sent


def test_a_stop_is_no_reason_to_forget_what_stands(world):
    """Snapshots and journals hold it: after a resume the equal call is answered."""

    async def again(task, send):
        if task.attempt == 2:
            raise Stop
        return await task.using(key="k").act(send, 1)

    play = goes_back(world, again, force=True)
    with pytest.raises(Stop):
        world.live(play)
    assert 1 == world.live(play)
    assert [1] == world.sent


def test_to_tell_of_the_effects_and_not_to_tell_exclude_each_other(world):
    """Refused before anything is done."""
    with pytest.raises(perdure.UsageError, match="carry and force exclude each other"):
        world.live(goes_back(world, nothing, carry=True, force=True))
    assert "RollbackBegan" not in world.kinds()


def test_what_a_person_has_kept_as_a_fact_is_carried_by_no_second_one(world):
    """It is in the world, no call may claim it, and the ledger says so already."""
    send = sender(world.sent)

    async def first(task):
        await task.checkpoint("c")
        await task.using(key="k").act(send, 1)

    assert DEAD == world.live(Play(first), death=Death("after_effect"))
    (action,) = world.fold().ledger.open
    act_on(world, lambda runtime: runtime.settle("job", action, None))
    act_on(world, lambda runtime: runtime.rollback("job", "c", carry=True))
    assert 0 == world.kinds().count("FactStated")
    assert (1, True) == (len(world.fold().ledger.facts), world.fold().ledger.standing[action].used)


def test_going_back_to_between_the_effect_and_its_reuse_it_answers_once_more(world):
    """Its intent stands before the checkpoint: what the ledger knows of it goes on, without the answer given since."""
    send = sender(world.sent)

    async def program(task):
        await task.checkpoint("c")
        if not task._session.fold.ledger.rollbacks:
            await task.using(key="first").act(send, 1)
            await task.rollback("c", force=True)
        await task.checkpoint("d")
        got = await task.using(key="k").act(send, 1)
        if task._session.fold.ledger.rollbacks == 1:
            async with task.edit() as state:
                state["x"] = 1
            await task.rollback("d", carry=True)
        return got, task.facts

    got, (fact,) = world.live(Play(program))
    assert (1, [1], 2) == (got, world.sent, world.kinds().count("ActionReused"))
    assert "send(item=1) has happened" in fact


def test_carried_in_doubt_the_fact_says_that_it_may_have_happened(world):
    """Nobody knows, and nobody is told otherwise."""
    send = sender(world.sent)

    async def first(task):
        await task.checkpoint("c")
        await task.using(key="k").act(send, 1)

    assert DEAD == world.live(Play(first), death=Death("after_effect"))
    act_on(world, lambda runtime: runtime.rollback("job", "c", carry=True))
    (fact,) = world.fold().ledger.facts
    assert "send(item=1) may have happened" in fact


def test_a_yes_counts_for_one_call(world):
    """The next equal one asks again."""

    async def again(task, send):
        return [await task.using(key=str(n)).act(send, 1) for n in range(3)]

    play = goes_back(world, again, force=True)
    for sent in ([1], [1, 1]):
        with pytest.raises(perdure.NeedsHuman):
            world.live(play)
        assert sent == world.sent
        answer(world, "yes")
    assert [1, 1, 1] == world.live(play)
    assert [1, 1, 1] == world.sent


def settle_doubt(world, play, outcome):
    """Let the task come by its doubt, and a person settle that."""
    with pytest.raises(perdure.NeedsHuman, match="did 'send'"):
        world.live(play)
    (action,) = world.fold().ledger.open
    act_on(world, lambda runtime: runtime.settle("job", action, outcome))


def test_what_did_not_happen_on_the_old_branch_is_made_on_the_new_one(world):
    """A person has said so: nothing of it is in the world."""
    send = sender(world.sent)

    async def again(task):
        return await task.using(key="other key").act(send, 1)

    play = in_doubt(world, send, again)
    settle_doubt(world, play, Failed(ErrorRecord(type="No", message="it did not arrive")))
    assert 1 == world.live(play)
    assert ([1, 1], {}) == (world.sent, world.fold().ledger.standing)


def test_what_a_person_has_released_answers_nothing_and_is_not_made_again_unasked(world):
    """Nobody knows what it returned: a `no` leaves the equal call without an answer."""
    send = sender(world.sent)

    async def again(task):
        return await task.using(key="other key").act_outcome(send, 1)

    play = in_doubt(world, send, again)
    settle_doubt(world, play, None)
    with pytest.raises(perdure.NeedsHuman, match="made with the same arguments"):
        world.live(play)
    answer(world, "no")

    async def told(task):
        return (await again(task)).error.type

    assert "NotMade" == world.live(Play(told))
    assert ([1], 0) == (world.sent, world.kinds().count("ActionReused"))
