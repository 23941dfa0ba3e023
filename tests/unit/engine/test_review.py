"""Scenarios in which programs of a careful reviewer lost, doubled or forgot effects: each ends as it should now.

They play on the store in memory; a life is ended at an append or crash point and the next one goes on.
"""

import asyncio

import pytest

import perdure
from perdure.errors import ActionsInFlight, KeyMissing
from perdure.model.failure import ErrorRecord
from tests.worlds import DEAD, Death, Play, World, counted


def test_a_failing_sibling_does_not_double_an_effect_in_flight():
    """The program is called anew only when what its last call left running has ended."""
    world, paid, tries = World(), [], []

    @perdure.tool(effect="irreversible")
    async def pay(amount: int) -> int:
        paid.append(amount)
        await asyncio.sleep(0.02)
        return amount

    @perdure.tool(effect="pure")
    async def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("wrong")
        return 1

    async def program(task):
        async def one():
            if not task.state["paid"]:
                await task.act(pay, 10, then=lambda state, amount: state["paid"].append(amount))

        await asyncio.gather(one(), task.act(flaky))
        return task.state["paid"].plain()

    assert [10] == world.live(Play(program, state={"paid": []}))
    assert [10] == paid


def test_what_a_program_left_running_ends_before_it_succeeds():
    """No action is settled, and no state changed, behind TaskSucceeded."""
    world = World()
    read = counted([])

    async def program(task):
        asyncio.get_running_loop().create_task(task.act(read, 1))
        await asyncio.sleep(0)
        return "ok"

    assert "ok" == world.live(Play(program))
    assert "TaskSucceeded" == world.kinds()[-1]


@pytest.mark.parametrize("after", range(1, 14))
def test_what_follows_a_loop_left_by_break_is_not_in_its_body(after):
    """A resumed program that does not enter the loop again finds the effect behind it."""
    world, sent = World(), []
    send = counted(sent, "irreversible", name="send")
    read = counted([])

    async def program(task):
        if task.state["found"] is None:
            async for item in task.each("find", [1, 2, 3]):
                if await task.act(read, item) == 2:
                    async with task.edit() as state:
                        state["found"] = item
                    break
        await task.act(send, task.state["found"])
        await task.checkpoint("sent")
        await task.act(read, 9)
        return "ok"

    play = Play(program, state={"found": None})
    end = world.live(play, death=Death("after_append", after))
    try:
        end = world.live(play) if end == DEAD else end
    except perdure.NeedsHuman:
        end = "asked"  # killed while it was in flight
    assert (end in {"ok", "asked"}, len(sent) <= 1) == (True, True)


def test_a_model_that_words_its_mail_otherwise_sends_no_second_one():
    """What free tools gave before an effect lives as long as the checkpoint that holds it, also over a failure."""
    world, sent, asked = World(), [], []

    @perdure.tool(effect="pure")
    async def ask() -> str:
        asked.append(1)
        return f"text {len(asked)}"

    send = counted(sent, "irreversible", name="send")
    tries = []

    @perdure.tool(effect="pure")
    async def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("wrong")
        return 1

    async def program(task):
        text = await task.act(ask)
        await task.act(send, text)
        await task.checkpoint("sent")
        await task.act(flaky)
        return text

    assert "text 1" == world.live(Play(program))
    assert ["text 1"] == sent


def test_other_words_after_a_change_of_the_state_are_refused():
    """Where it can no longer be told, the second mail is refused and not sent."""
    world, sent, asked = World(), [], []

    @perdure.tool(effect="pure")
    async def ask() -> str:
        asked.append(1)
        return f"text {len(asked)}"

    send = counted(sent, "irreversible", name="send")

    async def program(task):
        text = await task.act(ask)
        await task.act(send, text)
        await task.checkpoint("sent")
        async with task.edit() as state:
            state["phase"] = 2
        if task.attempt == 1:
            raise RuntimeError("a bug")
        return text

    with pytest.raises(KeyMissing):
        world.live(Play(program))
    assert ["text 1"] == sent


def test_a_fallback_that_was_taken_is_not_joined_by_the_first_choice():
    """A failed effect is handed to a resumed program as it was: trying it again would pay twice."""
    world, paid, down = World(), [], [True]

    @perdure.tool(effect="irreversible")
    async def primary(amount: int) -> str:
        if down:
            raise ValueError("declined")
        paid.append("primary")
        return "primary"

    backup = counted(paid, "irreversible", name="backup", result="backup")
    read = counted([])

    async def program(task):
        try:
            await task.using(key="first").act(primary, 10)
        except perdure.ActionFailed:
            await task.using(key="second").act(backup, 10)
        await task.act(read, 1)
        return "ok"

    assert DEAD == world.live(Play(program), death=Death("after_effect", 2))
    down.clear()
    assert "ok" == world.live(Play(program))
    assert 1 == len(paid)


def test_a_rollback_waits_for_no_open_edit():
    """It is refused while one is open: what that edit writes would belong to no branch."""
    world = World()
    refused = []

    async def program(task):
        await task.checkpoint("c")
        opened, done = asyncio.Event(), asyncio.Event()

        async def editor():
            async with task.edit() as state:
                state["x"] = 1
                opened.set()
                await done.wait()

        async def roller():
            await opened.wait()
            try:
                await task.rollback("c")
            except ActionsInFlight as error:
                refused.append(error.actions)
            done.set()

        await asyncio.gather(editor(), roller())
        return task.state.plain()

    assert {"x": 1} == world.live(Play(program))
    assert [("an open edit",)] == refused
    assert {"x": 1} == world.state()


def test_a_result_over_a_mebibyte_is_put_aside_whole():
    """Lists of many small values, of any size up to the limit, are stored and come back; the effect runs once."""
    world, calls = World(), []
    big = [f"line {number} " + "x" * 50 for number in range(150_000)]

    @perdure.tool(effect="idempotent")
    async def fetch(key: perdure.EffectKey) -> list[str]:
        calls.append(key)
        return big

    read = counted([])

    async def program(task):
        lines = await task.using(key="all").act(fetch, then=lambda state, got: state.update(lines=got))
        await task.act(read, 1)
        return len(lines)

    assert DEAD == world.live(Play(program), death=Death("after_effect", 2))
    assert len(big) == world.live(Play(program))
    assert 1 == len(calls)
    assert big == world.state()["lines"]


def test_two_calls_in_flight_never_share_the_key_of_a_failed_one():
    """The service would take the second for the first, and one payment would be lost."""
    world, keys, down = World(), [], [True]

    @perdure.tool(effect="idempotent")
    async def pay(amount: int, key: perdure.EffectKey) -> int:
        keys.append(key)
        if down:
            down.clear()
            raise ValueError("declined")
        await asyncio.sleep(0.01)
        return amount

    def keep(state, amount):
        state["paid"].append(amount)

    async def program(task):
        try:
            await task.act(pay, 10, then=keep)
        except perdure.ActionFailed:
            await asyncio.gather(task.act(pay, 10, then=keep), task.act(pay, 10, then=keep))
        return task.state["paid"].plain()

    assert [10, 10] == world.live(Play(program, state={"paid": []}))
    assert 2 == len(set(keys[1:]))


def test_a_verdict_that_is_still_to_be_awaited_is_refused():
    """Anything that can be awaited is true: a check must not pass by that."""
    world = World()

    async def verdict():
        return False

    async def program(task):
        await task.check("x", verdict)

    with pytest.raises(perdure.UsageError, match="await"):
        world.live(Play(program))


def test_a_plain_tool_at_the_end_of_an_iterator_fails_at_once():
    """StopIteration cannot be carried by a future: it comes as a RuntimeError and not as a time-out."""
    world = World()

    @perdure.tool(effect="pure", timeout_s=5.0)
    def find(wanted: int) -> int:
        return next(number for number in [1, 2] if number == wanted)

    async def program(task):
        outcome = await task.act_outcome(find, 3)
        return outcome.error.message

    assert "StopIteration" in world.live(Play(program))


def test_what_a_person_says_did_not_happen_is_made_again():
    """It is no failure of the tool: the resumed program dispatches the call."""
    world, rung = World(), []
    ring = counted(rung, "irreversible", name="ring")

    async def program(task):
        await task.using(key="bell").act(ring, 1)
        return "ok"

    assert DEAD == world.live(Play(program), death=Death("after_intent", 1))
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))

    (action,) = world.fold().ledger.open

    async def settle():
        async with world.runtime() as runtime:
            error = perdure.Failed(ErrorRecord(type="DidNotHappen", message="looked"))
            await runtime.settle("job", action, error)

    asyncio.run(settle())
    assert "ok" == world.live(Play(program))
    assert [1] == rung


def test_a_resumed_program_comes_by_its_plans_again():
    """The plan does not flip back to the first one, and what was decided since stays."""
    world, sent = World(), []
    send = counted(sent, "irreversible", name="send")
    read = counted([])

    async def program(task):
        for plan in ("a", "a", "b", "b", "c"):  # the same again is none
            await task.adopt([plan])
        await task.checkpoint("planned")
        await task.using(key="mail").act(send, 1)
        await task.act(read, 1)
        return "ok"

    assert DEAD == world.live(Play(program), death=Death("after_effect", 2))
    assert "ok" == world.live(Play(program))
    assert (("c",), 3, 1) == (world.fold().document.plan, world.kinds().count("PlanAdopted"), len(sent))


@pytest.mark.parametrize("how", ["a bug", "a check"])
def test_a_fallback_outlives_another_failure(how):
    """What was dealt with stays dealt with, whatever fails later."""
    world, paid, bad = World(), [], [True]

    @perdure.tool(effect="irreversible")
    async def primary(amount: int) -> str:
        if not paid:
            raise ValueError("declined")
        paid.append("primary")
        return "primary"

    backup = counted(paid, "irreversible", name="backup", result="backup")

    async def program(task):
        try:
            await task.using(key="first").act(primary, 10)
        except perdure.ActionFailed:
            await task.using(key="second").act(backup, 10)
        if bad:
            bad.clear()
            if how == "a check":
                await task.check("good", verdict=False)
            raise RuntimeError("a bug")
        return "ok"

    assert "ok" == world.live(Play(program))
    assert 1 == len(paid)


def test_other_words_in_a_body_are_refused_too():
    """A body that words its letter otherwise on the second pass sends no second one."""
    world, sent = World(), []
    send = counted(sent, "irreversible", name="send")

    async def program(task):
        async for who in task.each("who", ["ann", "bob"]):
            await task.act(send, f"{who} {task.now()}")
        return "ok"

    assert DEAD == world.live(Play(program), death=Death("after_outcome", 1))
    with pytest.raises(KeyMissing):
        world.live(Play(program))
    assert 1 == len(sent)


def test_branches_of_a_body_may_take_their_turns_otherwise():
    """A call waits for those beside it to ask for what is on record, and is not refused for coming first."""
    world, sent = World(), []
    send = counted(sent, "irreversible", name="send")
    read = counted([])

    async def program(task):
        async for _item in task.each("items", [1]):

            async def one(letter, steps):
                for step in range(steps):
                    await task.act(read, f"{letter} {step}")
                await task.act(send, letter)

            await asyncio.gather(one("slow", 3 if task.attempt == 1 else 0), one("fast", 1))
        return "ok"

    assert DEAD == world.live(Play(program), death=Death("after_outcome", 4))
    assert "ok" == world.live(Play(program))
    assert ["fast", "slow"] == sorted(sent)


def test_keep_takes_an_anchored_effect_out_of_the_way():
    """The line that KeyMissing prints works, and the program may then make the other call."""
    world, sent = World(), []
    send = counted(sent, "irreversible", name="send")
    words = iter(["a", "b", "b"])

    async def program(task):
        await task.act(send, next(words))
        await task.checkpoint("sent")
        if task.attempt == 1:
            raise RuntimeError("a bug")
        return "ok"

    with pytest.raises(KeyMissing) as caught:
        world.live(Play(program))
    action = caught.value.keep.split()[3]

    async def keep():
        async with world.runtime() as runtime:
            await runtime.settle("job", action, None)

    asyncio.run(keep())
    assert "ok" == world.live(Play(program))
    assert ["a", "b"] == sent


def test_an_edit_does_not_pass_what_is_found_by_its_key_later():
    """A worker's edit is not refused because another worker has not come to its keyed call yet."""
    world, calls, turns = World(), [], []

    @perdure.tool(effect="idempotent")
    async def pay(who: str, key: perdure.EffectKey) -> str:
        calls.append((who, key))
        await asyncio.sleep(0.01)
        return "paid"

    async def program(task):
        turns.append(1)

        async def worker(who):
            if len(turns) == 2 and who == "b":
                await asyncio.sleep(0.05)
            got = await task.using(key=who).act(pay, who)
            async with task.edit() as state:
                state[who] = got

        await asyncio.gather(worker("a"), worker("b"))
        return "ok"

    assert DEAD == world.live(Play(program), death=Death("after_effect", 1))
    assert "ok" == world.live(Play(program))
    assert 2 == len({key for _, key in calls})


def test_an_edit_of_a_call_that_is_over_does_not_hold_up_the_next():
    """It is cancelled and leaves nothing; the program called anew gets its turn."""
    world, tries = World(), []

    async def program(task):
        tries.append(1)
        opened = asyncio.Event()

        async def editor():
            async with task.edit() as state:
                state["x"] = len(tries)
                opened.set()
                if len(tries) == 1:
                    await asyncio.Event().wait()

        async def failing():
            await opened.wait()
            if len(tries) == 1:
                raise ValueError("wrong")

        await asyncio.gather(editor(), failing())
        return task.state.plain()

    assert {"x": 2} == world.live(Play(program))


def test_a_loop_in_an_async_generator_is_refused():
    """When it is left from outside, nobody would know where its body ends."""
    world = World()

    async def rows(task):
        async for item in task.each("items", [1, 2]):
            yield item

    async def program(task):
        async for _row in rows(task):
            break

    with pytest.raises(perdure.UsageError, match="async generator"):
        world.live(Play(program))
