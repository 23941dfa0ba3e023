"""Undos: effects behind a checkpoint are taken back, each once, whatever ends the process; one that fails waits."""

import asyncio
import gc

import pytest

import perdure
from perdure.errors import ActionUnknown, BranchLeft, RollbackUnderWay, ToolInvalid, ToolNotFound
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Succeeded
from perdure.ports import Message
from tests.worlds import DEAD, Death, Play, Stop, World, counted


class Outside:
    """A hotel: what is booked in it, and what it was asked for."""

    def __init__(self, *, cancel_fails=0, error=None, **options):
        self.booked, self.asked, self.keys = [], [], []
        self.left_to_fail = cancel_fails

        @perdure.tool(effect="idempotent", name="unbook", **options)
        async def unbook(room: str, key: perdure.EffectKey, result: object = None) -> None:
            self.asked.append((room, result))
            self.keys.append(key)
            await self.meanwhile()
            if self.left_to_fail:
                self.left_to_fail -= 1
                raise error or ValueError("no such room")
            if room in self.booked:
                self.booked.remove(room)

        @perdure.tool(effect="compensable", name="book", undo=unbook)
        async def book(room: str) -> str:
            self.booked.append(room)
            return f"receipt {room}"

        self.book, self.unbook = book, unbook

    async def meanwhile(self):
        """What happens while a room is unbooked: nothing, if a test does not say otherwise."""


def trip(outside, rooms=("a", "b"), **way):
    """Return a program that books rooms behind a checkpoint and goes back to it once."""

    async def program(task):
        await task.checkpoint("home")
        if task._session.fold.ledger.rollbacks:
            return "stayed at home"
        for room in rooms:
            await task.using(key=room).act(outside.book, room)
        return await task.rollback("home", **way)

    return Play(program)


def booked_world(rooms=("a", "b"), **options):
    """Return a world in which the rooms are booked, and nothing is taken back yet; the hotel."""
    world, outside = World(), Outside(**options)

    async def begin(task):
        await task.checkpoint("home")
        for room in rooms:
            await task.using(key=room).act(outside.book, room)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(begin))
    return world, outside


def act_on(world, what):
    """Let `what(runtime)` be done in a runtime of its own."""

    async def act():
        async with world.runtime() as runtime:
            return await what(runtime)

    return asyncio.run(act())


def test_effects_are_taken_back_newest_first_by_their_undo():
    """It is called with the argument of the same name, with what the call has returned, and with a key of its own."""
    world, outside = World(), Outside()
    assert "stayed at home" == world.live(trip(outside))
    assert [("b", "receipt b"), ("a", "receipt a")] == outside.asked
    assert [] == outside.booked
    assert 2 == len(set(outside.keys))
    assert {} == world.fold().ledger.standing


def test_each_undo_is_an_action_with_intent_and_outcome():
    """They stand between the beginning and the end of the rollback, under keys that say what they take back."""
    world, outside = World(), Outside()
    world.live(trip(outside, rooms=("a",)))
    kinds = world.kinds()
    inside = kinds[kinds.index("RollbackBegan") + 1 : kinds.index("RolledBackEntry")]
    assert ["ActionIntended", "ActionSettled"] == inside
    booked, undone = [x.payload for x in world.journal() if isinstance(x.payload, e.ActionIntended)]
    assert f"undo {booked.action}" == undone.key


@pytest.mark.parametrize("number", range(1, 14))
@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_a_rollback_killed_at_two_appends_is_finished_and_nothing_is_undone_twice(where, number):
    """The next opener goes on with the same rollback: a room is asked for again under its first key, or not at all."""
    world, outside = booked_world()
    world.live(trip(outside), death=Death(where, number))
    world.live(trip(outside), death=Death(where, 2))
    assert "stayed at home" == world.live(trip(outside))
    assert [] == outside.booked
    assert 2 == len(set(outside.keys))
    kinds = world.kinds()
    assert (1, 1) == (kinds.count("RollbackBegan"), kinds.count("RolledBackEntry"))


@pytest.mark.parametrize("point", ["during_undo", "during_rollback", "before_intent", "after_intent", "after_effect"])
@pytest.mark.parametrize("number", range(1, 7))
def test_at_each_crash_point_of_an_undo_it_is_found_again_by_its_own_rule(point, number):
    """A keyed undo is sent again under its key, which the service drops."""
    world, outside = booked_world()
    world.live(trip(outside), death=Death(point, number))
    assert "stayed at home" == world.live(trip(outside))
    assert [] == outside.booked
    assert 2 == len(set(outside.keys))
    assert 2 <= len(outside.keys) <= 3


def test_a_passing_fault_of_an_undo_is_tried_again_under_the_same_key():
    """Refused once with a lost connection: then it is done, and nobody was asked."""
    world, outside = booked_world(rooms=("a",), cancel_fails=1, error=ConnectionResetError("lost"))
    assert "stayed at home" == world.live(trip(outside, rooms=("a",)))
    assert 2 == len(outside.keys)
    assert 1 == len(set(outside.keys))


def failed_world():
    """Return a world whose rollback waits for a person since one undo fails, the hotel, and the error."""
    world, outside = booked_world(cancel_fails=1)
    with pytest.raises(perdure.NeedsHuman) as raised:
        world.live(trip(outside))
    assert (1, True) == (len(outside.asked), world.fold().ledger.rollback is not None)
    return world, outside, raised.value


def test_an_undo_that_fails_waits_for_a_person_inside_the_rollback():
    """The question names the undo, what it was to take back, and the three lines to type."""
    world, _, asked = failed_world()
    undo = world.fold().ledger.question_action
    assert "perdure resume job" == asked.next_command
    for text in ("'unbook'", "'book'", "no such room", f"settle job {undo} --happened", f"settle job {undo} --keep"):
        assert text in asked.question
    assert "RolledBackEntry" not in world.kinds()


def test_resumed_the_failed_undo_is_tried_again_under_the_same_key():
    """What was undone before is not undone again, and the rollback comes to its end."""
    world, outside, _ = failed_world()
    play = trip(outside)
    assert "stayed at home" == act_on(world, lambda runtime: runtime.resume("job", play))
    assert [] == outside.booked
    assert ["b", "b", "a"] == [room for room, _ in outside.asked]
    assert outside.keys[0] == outside.keys[1] != outside.keys[2]


def test_settled_as_happened_it_counts_as_taken_back():
    """The undo is not made again, and the effect answers no call."""
    world, outside, _ = failed_world()
    undo = world.fold().ledger.question_action
    act_on(world, lambda runtime: runtime.settle("job", undo, Succeeded(None)))
    assert "stayed at home" == world.live(trip(outside))
    assert ["b"] == outside.booked
    assert {} == world.fold().ledger.standing


def test_that_it_did_not_happen_is_no_word_about_an_undo_that_has_failed():
    """Everybody knows that; the rollback still waits."""
    world, _, _ = failed_world()
    undo = world.fold().ledger.question_action
    with pytest.raises(ActionUnknown):
        act_on(world, lambda runtime: runtime.settle("job", undo, Failed(ErrorRecord(type="No", message="no"))))
    assert [] == world.fold().ledger.rollback.undone


def test_kept_it_stays_in_the_world_and_answers_an_equal_call():
    """`--keep`: the ledger says so, and the next equal call on the new branch is not made."""
    world, outside, _ = failed_world()
    undo = world.fold().ledger.question_action
    act_on(world, lambda runtime: runtime.settle("job", undo, None))

    async def again(task):
        return await task.using(key="again").act(outside.book, "b")

    assert "receipt b" == world.live(Play(again))
    assert (["b"], ["b", "a"]) == (outside.booked, [room for room, _ in outside.asked])
    assert any("did not take it back" in fact for fact in world.fold().ledger.facts)


def test_nobody_to_ask_the_task_fails_inside_the_rollback():
    """With unattended rules the reason is the question."""
    world, outside = booked_world(cancel_fails=1)
    with pytest.raises(perdure.TaskFailed, match="no such room"):
        world.live(trip(outside), unattended=True)


def test_a_program_that_catches_everything_does_not_end_in_the_middle_of_a_rollback():
    """What it returns is not listened to."""
    world, _ = booked_world(cancel_fails=1)

    async def program(task):
        try:
            await task.rollback("home")
        except BaseException:  # noqa: BLE001 - what user code does
            return "caught"

    with pytest.raises(RollbackUnderWay):
        world.live(Play(program))
    assert "TaskSucceeded" not in world.kinds()


def test_an_effect_in_doubt_is_taken_back_as_if_it_had_happened():
    """Killed inside `book`: the undo is called, without a result, and nobody has to settle anything."""
    world, outside = booked_world(rooms=())

    async def book(task):
        await task.checkpoint("home")
        await task.using(key="a").act(outside.book, "a")

    assert DEAD == world.live(Play(book), death=Death("after_effect"))
    act_on(world, lambda runtime: runtime.rollback("job", "home", program=trip(outside)))
    assert [("a", None)] == outside.asked
    assert ([], {}) == (outside.booked, world.fold().ledger.open)


def test_a_rollback_is_given_up_until_its_first_undo_is_sent():
    """The task goes on where it was; once an undo was sent it is refused, naming it."""
    world, outside = booked_world()
    world.live(trip(outside), death=Death("during_undo"))
    act_on(world, lambda runtime: runtime.abandon_rollback("job"))
    assert (["a", "b"], None, 0) == (outside.booked, world.fold().ledger.rollback, world.fold().branch)
    world.live(trip(outside), death=Death("during_undo", 2))
    with pytest.raises(RollbackUnderWay, match="'unbook' was sent"):
        act_on(world, lambda runtime: runtime.abandon_rollback("job"))
    assert "stayed at home" == world.live(trip(outside))


def test_there_is_nothing_to_give_up_where_none_is_under_way():
    """It is refused, and nothing is written."""
    world, _ = booked_world()
    with pytest.raises(perdure.UsageError, match="in no rollback"):
        act_on(world, lambda runtime: runtime.abandon_rollback("job"))


def test_a_tool_that_cannot_be_told_is_refused_before_anything_is_done():
    """The process that rolls back from outside does not know it: nothing began, and the remedy is named."""
    world = World()

    def gone():
        undo = counted([], name="undo")
        return counted([], effect="compensable", name="gone", undo=undo)

    async def program(task):
        await task.checkpoint("home")
        await task.using(key="a").act(gone(), 1)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    gc.collect()
    with pytest.raises(ToolNotFound, match="--app"):
        act_on(world, lambda runtime: runtime.rollback("job", "home"))
    assert "RollbackBegan" not in world.kinds()


def test_an_undo_whose_parameters_nothing_gives_is_refused_at_the_declaration():
    """Each must be called as an argument of the tool, `result`, or have a default."""
    unbook = perdure.tool(effect="pure", name="unbook")(lambda room, reason: None)
    with pytest.raises(ToolInvalid, match="'reason', which is none of room, result"):
        perdure.tool(effect="compensable", name="book", undo=unbook)(lambda room: None)


def test_an_argument_called_result_beside_an_undo_that_takes_it_is_refused():
    """It would not be clear which of the two is meant."""
    undo = perdure.tool(effect="pure", name="undo")(lambda result: None)
    with pytest.raises(ToolInvalid, match="also an argument"):
        perdure.tool(effect="compensable", name="do", undo=undo)(lambda result: None)


def test_an_undo_gets_what_a_view_of_the_state_showed_at_the_time():
    """The state has changed since; the undo is called with the rooms that were booked."""
    world, undone = World(), []

    @perdure.tool(effect="pure", name="unbook_all")
    async def unbook_all(rooms: list[str], nights: int) -> None:
        undone.append((rooms, nights))

    @perdure.tool(effect="compensable", name="book_all", undo=unbook_all)
    async def book_all(rooms: list[str], nights: int = 2) -> None:
        pass

    async def program(task):
        await task.checkpoint("c")
        if task.attempt == 1:
            await task.using(key="all").act(book_all, [task.state["rooms"], *task.state["more"]])
            async with task.edit() as state:
                state["rooms"] = []
                state["more"].clear()
            await task.rollback("c")

    world.live(Play(program, state={"rooms": ["a", "b"], "more": [["c"], ["d"]]}))
    assert [([["a", "b"], ["c"], ["d"]], 2)] == undone


def test_an_equal_call_that_the_program_made_itself_is_no_undo():
    """It has called the undo with the same argument, held by a checkpoint: the rollback calls it all the same."""
    world, calls = World(), []
    undo = counted(calls, effect="irreversible", name="undo")
    undo = perdure.tool(effect="verifiable", name="undo", probe=lambda item: False)(undo.fn)
    do = counted([], effect="compensable", name="do", undo=undo)

    async def program(task):
        if not task._session.fold.ledger.rollbacks:
            await task.act(undo, 1)
            await task.checkpoint("held")
            await task.using(key="do").act(do, 1)
            await task.rollback("held")

    world.live(Play(program))
    assert [1, 1] == calls


def freely(calls, undone):
    """Return a tool whose undo is free: it may be called any number of times."""
    undo = counted(undone, effect="pure", name="close")
    return counted(calls, effect="compensable", name="open", undo=undo)


def test_an_undo_that_is_free_takes_back_like_any_other():
    """The equal call of the new branch is made: nothing of the old one is in the world any more."""
    world, calls, undone = World(), [], []
    do = freely(calls, undone)

    async def program(task):
        await task.checkpoint("c")
        await task.using(key="k").act(do, 1)
        if not task._session.fold.ledger.rollbacks:
            await task.rollback("c")

    world.live(Play(program))
    assert ([1, 1], [1], {}) == (calls, undone, world.fold().ledger.standing)


def test_a_free_undo_is_on_record_before_it_is_sent():
    """Killed right behind it, the rollback only goes forward."""
    world, calls, undone = World(), [], []
    do = freely(calls, undone)

    async def program(task):
        await task.checkpoint("c")
        await task.using(key="k").act(do, 1)
        await task.rollback("c")

    assert DEAD == world.live(Play(program), death=Death("after_effect", 2))
    assert [1] == undone
    with pytest.raises(RollbackUnderWay, match="'close' was sent"):
        act_on(world, lambda runtime: runtime.abandon_rollback("job"))


def test_an_undo_in_doubt_waits_for_a_person_too():
    """Killed in it, and its probe cannot tell: the rollback does not end before somebody has said what became of it."""
    world, undone = World(), []
    undo = counted(undone, effect="verifiable", name="close", probe=lambda item: None)
    do = counted([], effect="compensable", name="open", undo=undo)

    async def program(task):
        await task.checkpoint("c")
        if not task._session.fold.ledger.rollbacks:
            await task.using(key="k").act(do, 1)
            await task.rollback("c")
        return "over"

    assert DEAD == world.live(Play(program), death=Death("after_effect", 2))
    with pytest.raises(perdure.NeedsHuman, match=r"'close'.* is in doubt"):
        world.live(Play(program))
    assert "RolledBackEntry" not in world.kinds()
    undoing = world.fold().ledger.question_action
    act_on(world, lambda runtime: runtime.settle("job", undoing, Succeeded(None)))
    assert "over" == world.live(Play(program))
    assert ([1], {}) == (undone, world.fold().ledger.standing)


@pytest.mark.parametrize("what", ["pause", "cancel"])
def test_a_stop_is_obeyed_between_two_undos(what):
    """The one in flight ends; the next is not sent, and a resume by hand goes on with the same rollback."""
    world, outside = booked_world()

    async def told(runtime):
        async def tell():
            if len(outside.asked) == 1:
                task = (await runtime.store.find("job")).task
                await runtime.store.post(task, Message(id="m", what=what))
                await runtime._mailbox.look(runtime._sessions)

        outside.meanwhile = tell
        await runtime.run(trip(outside), "job")

    with pytest.raises(perdure.TaskStopped):
        act_on(world, told)
    assert (["b"], True) == ([room for room, _ in outside.asked], world.fold().ledger.rollback is not None)
    if what == "pause":
        play = trip(outside)
        assert "stayed at home" == act_on(world, lambda runtime: runtime.resume("job", play))
        assert ["b", "a"] == [room for room, _ in outside.asked]


def test_nothing_of_the_program_is_sent_beside_an_undo():
    """A coroutine that it has left running belongs to a call that is over, from the first undo on."""
    world, sent, refused = World(), [], []
    send = counted(sent, effect="irreversible", name="send")
    started, refusal = asyncio.Event(), asyncio.Event()

    @perdure.tool(effect="idempotent", name="close")
    async def close(item: int, key: perdure.EffectKey) -> None:
        started.set()
        await refusal.wait()

    do = counted([], effect="compensable", name="open", undo=close)

    async def program(task):
        async def beside():
            await started.wait()
            try:
                await task.using(key="beside").act(send, 2)
            except BranchLeft as error:
                refused.append(error)
            refusal.set()

        await task.checkpoint("c")
        if not task._session.fold.ledger.rollbacks:
            await task.using(key="k").act(do, 1)
            left = asyncio.create_task(beside())
            await task.rollback("c")
            await left

    world.live(Play(program))
    assert ([], 1) == (sent, len(refused))


def test_an_effect_that_nothing_holds_is_no_obstacle_to_its_own_undo():
    """Made without a key or a patch, right before the rollback: the undo is none of the program's calls."""
    world, outside = World(), Outside()

    async def program(task):
        await task.checkpoint("home")
        if not task._session.fold.ledger.rollbacks:
            await task.act(outside.book, "a")
            await task.rollback("home")

    world.live(Play(program))
    assert (["a"], []) == ([room for room, _ in outside.asked], outside.booked)


def test_of_two_tools_of_a_name_the_one_that_was_called_here_takes_back():
    """They stand at two places of this module, so the registry alone could not tell."""
    world, outside = World(), Outside()

    @perdure.tool(effect="compensable", name="book", undo=counted([], name="other"))
    async def book(item: str) -> None:
        """Another one of the same name."""

    assert "stayed at home" == world.live(trip(outside))
    assert ([], "book") == (outside.booked, book.name)


def test_what_an_earlier_rollback_has_taken_back_is_not_taken_back_again():
    """Going back twice to the same checkpoint: only what the second branch has done lies behind it."""
    world, outside = World(), Outside()

    async def program(task):
        await task.checkpoint("home")
        number = task._session.fold.ledger.rollbacks
        if number < 3:
            if number < 2:
                await task.using(key="k").act(outside.book, f"room {number}")
            await task.rollback("home")

    world.live(Play(program))
    assert ["room 0", "room 1"] == [room for room, _ in outside.asked]
    assert ([], 3) == (outside.booked, world.kinds().count("RolledBackEntry"))


def test_what_a_person_has_kept_while_it_was_in_doubt_is_taken_back_all_the_same():
    """It counts as having happened: its undo is called with the arguments on record, and knows of no result."""
    world, outside = World(), Outside()

    async def lost(room):
        outside.booked.append(room)
        raise ConnectionResetError("the line broke")

    book = perdure.tool(effect="compensable", name="book_lost", undo=outside.unbook)(lost)

    async def begin(task):
        await task.checkpoint("home")
        await task.using(key="a").act(book, "a")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(begin))
    (doubtful,) = world.fold().ledger.open
    act_on(world, lambda runtime: runtime.settle("job", doubtful, None))
    act_on(world, lambda runtime: runtime.rollback("job", "home"))
    assert ([("a", None)], []) == (outside.asked, outside.booked)
