"""Milestones in the journal: written with what caused them, once, and in nobody's way on a resume or a rollback."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure.codec import leaves
from perdure.core.fold import Fold
from perdure.core.milestones import Seen, milestones_after
from perdure.engine import marking
from perdure.engine.loading import entries, load_fold, take_in
from perdure.engine.replay.feeding import ReplayTask
from perdure.engine.session import Session
from perdure.errors import ActionsInFlight, TaskBusy, TaskFinished
from perdure.model import entry as e
from tests.unit.engine.test_files import Place, write
from tests.unit.engine.test_replaying import replay
from tests.unit.engine.test_timeouts import Gate
from tests.worlds import DEAD, Death, Play, Stop, World, counted, until

PAGE = "Rain falls mainly on the plain."
TEXT, STUB = "word " * 120, "word " * 20


def marks(world):
    """The checkpoints of the present branch, as (name, verifier)."""
    return [(mark.name, mark.verifier) for mark in world.fold().document.checkpoints]


def names(world):
    """The names of all that was ever marked, branches that were left included."""
    return [entry.payload.name for entry in world.journal() if isinstance(entry.payload, e.CheckpointMarked)]


def search(calls, **options):
    """A tool that brings information: the page, or what it is told to bring."""
    return counted(calls, result=PAGE, name="search", source=True, **options)


def appends(world, play):
    """Run `play`; return how many appends it took."""
    death = Death("before_append", 1_000)
    world.live(play, death=death)
    return 1_000 - death.left


@pytest.fixture
def place(tmp_path):
    """A store on disk, and a workspace."""
    return Place(tmp_path)


# --- when -----------------------------------------------------------------------------------------------------------
def test_each_rule_marks_once_and_at_its_moment():
    """Plan, knowledge per step, a step that is done: each right behind its cause."""
    world, calls = World(), []

    async def program(task):
        await task.adopt(["find", "write"])
        await task.adopt(["find", "write"])
        await task.begin_step("find")
        for item in range(3):
            await task.using(key=str(item)).act(search(calls), item)
        await task.check("find", True)
        await task.check("find", True)
        await task.begin_step("write")
        await task.using(key="more").act(search(calls), 3)

    world.live(Play(program))
    assert ["plan", "knowledge", "step:find", "knowledge"] == names(world)
    kinds = world.kinds()
    causes = [kinds[at - 1] for at, kind in enumerate(kinds) if kind == "CheckpointMarked"]
    assert ["PlanAdopted", "ActionSettled", "CheckJudged", "ActionSettled"] == causes


def test_an_empty_search_an_error_page_and_a_failed_check_make_none():
    """Neither does the first success of a tool that is no source, nor a result that `valid=` refuses."""
    world = World()

    async def program(task):
        await task.adopt(["find"])
        for number, result in enumerate([[], "404 Not Found", {"hits": []}]):
            empty = counted([], result=result, name="search", source=True)
            await task.using(key=f"empty {number}").act(empty)
        await task.using(key="plain").act(counted([], result=PAGE))
        with pytest.raises(perdure.ActionFailed):
            await task.act(search([], valid=lambda _: False))
        with pytest.raises(perdure.CheckFailed):
            await task.check("find", False)

    world.live(Play(program))
    assert ["plan"] == names(world)


def test_a_milestone_costs_no_append_of_its_own():
    """With and without: the same number of appends, since it rides with its cause."""

    def program(*, is_source):
        async def run(task):
            await task.adopt(["find"])
            await task.using(key="k").act(counted([], result=PAGE, name="search", source=is_source))
            await task.check("find" if is_source else "other", True)

        return Play(run)

    marking_world, plain = World(), World()
    assert appends(plain, program(is_source=False)) == appends(marking_world, program(is_source=True))
    assert ["plan", "knowledge", "step:find"] == names(marking_world)


def test_hooks_are_told_of_a_milestone_when_it_is_durable():
    """Behind its cause, once, and with its entry; both are told when their append is durable."""
    world, in_order = World(), []

    async def program(task):
        await task.adopt(["find"])
        await task.using(key="s").act(search([]), 1)
        await task.check("find", True)

    world.live(Play(program), hooks=(lambda _task, event, fields: in_order.append((event, fields)),))
    seqs = [entry.header.seq for entry in world.journal() if isinstance(entry.payload, e.CheckpointMarked)]
    events = [(event, fields.get("name")) for event, fields in in_order]
    assert seqs == [fields["seq"] for event, fields in in_order if event == "checkpoint_marked"]
    assert events.index(("plan_adopted", None)) < events.index(("checkpoint_marked", "plan"))
    assert events.index(("action_settled", None)) < events.index(("checkpoint_marked", "knowledge"))


def test_nothing_is_marked_while_an_effect_is_open_but_the_next_success_is():
    """The search beside a letter in flight is no place to go back to; the one after it is.

    Neither is what a tool asks for meanwhile, or a function names.
    """
    world = World()

    async def program(task):
        posted, begun = asyncio.Event(), asyncio.Event()

        @perdure.tool(effect="irreversible")
        async def post() -> None:
            begun.set()
            await posted.wait()

        sending = asyncio.create_task(task.using(key="letter").act(post))
        await begun.wait()
        task._session.milestones = (perdure.milestone(lambda _: "named"),)
        await task.using(key="1").act(search([]), 1)
        await task.using(key="c").act(convert, 1)
        task._session.milestones = ()
        beside = list(task._session.fold.document.checkpoints)
        posted.set()
        await sending
        await task.using(key="2").act(search([]), 2)
        return [mark.name for mark in beside]

    assert [] == world.live(Play(program))
    assert ["knowledge"] == names(world)


def test_an_outcome_that_came_late_marks_nothing():
    """Its call is over, and perhaps its branch."""
    world, gate = World(), Gate()
    tool = perdure.tool(effect="irreversible", name="wait", timeout_s=1.0, source=True)(gate.tool.fn)

    async def program(task):
        acting = asyncio.create_task(task.using(key="k").act_outcome(tool, 1))
        await gate.out_of_time(world)
        await acting
        gate.open()
        await until(lambda: not task._session.fold.ledger.open)
        await task.using(key="s").act(search([]), 1)

    world.live(Play(program))
    assert ["knowledge"] == names(world)
    settled = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.ActionSettled)]
    assert ["late", ""] == [one.by for one in settled[1:]]
    assert "ActionSettled" == world.kinds()[-3]


# --- kills ----------------------------------------------------------------------------------------------------------
async def _three_kinds(task):
    await task.adopt(["find", "write"])
    await task.begin_step("find")
    found = await task.using(key="a").act(search([]), 1)
    await task.check("find", bool(found))
    await task.begin_step("write")
    async with task.edit() as state:
        state["draft"] = found
    await task.using(key="b").act(search([]), 2)
    await task.checkpoint("end")


@pytest.mark.parametrize("when", ["before_append", "after_append"])
@pytest.mark.parametrize("number", range(1, 14))
def test_a_kill_before_or_behind_any_append_leaves_each_milestone_once(when, number):
    """A resumed program comes by the same moments, and marks what is missing only."""
    world = World()
    world.live(Play(_three_kinds), death=Death(when, number))
    world.live(Play(_three_kinds))
    assert ["plan", "knowledge", "step:find", "knowledge", "end"] == names(world)


def test_the_kills_above_reach_every_append():
    """The program has no more appends than there are numbers, and the first of them kills."""
    world = World()
    assert 13 >= appends(world, Play(_three_kinds)) > 8
    assert DEAD == World().live(Play(_three_kinds), death=Death("before_append", 8))


# --- going back -----------------------------------------------------------------------------------------------------
def test_after_a_rollback_to_knowledge_what_was_loose_there_is_found_again():
    """A milestone drops nothing: the search without a key is answered from the record, and nothing is marked twice."""
    world, calls = World(), []

    async def program(task):
        await task.act(counted(calls, name="first"), 1)
        page = await task.act(search(calls), 2)
        await task.act(counted(calls, name="after"), 3)
        if task._session.fold.ledger.rollbacks == 0:
            async with task.edit() as state:
                state["bad"] = True
            await task.rollback("knowledge")
        return page

    assert PAGE == world.live(Play(program))
    assert [1, 2, 3, 3] == calls
    assert ({}, ["knowledge"]) == (world.state(), names(world))


def test_an_effect_is_not_anchored_by_a_milestone():
    """It was the program's to hold on to: the next effect is refused as before, and a resume finds the first one."""
    world, calls = World(), []
    order = counted(calls, effect="idempotent", name="order", retry="never", undo="impossible")

    async def program(task):
        await task.act(order, 1)
        await task.check("find", True)
        if task.attempt == 1:
            raise Stop
        await task.checkpoint("ordered")

    async def begun(task):
        await task.adopt(["find"])
        await program(task)

    with pytest.raises(Stop):
        world.live(Play(begun))
    world.live(Play(begun))
    assert ([1], ["plan", "step:find", "ordered"]) == (calls, names(world))


def test_a_checkpoint_of_the_program_may_be_called_like_a_milestone():
    """It is marked all the same, once, also by a resumed program: milestones are not counted as the program's own."""
    world = World()

    async def program(task):
        await task.adopt(["find"])
        await task.checkpoint("plan")
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [("plan", "rule plan"), ("plan", "")] == marks(world)


# --- steps ----------------------------------------------------------------------------------------------------------
def test_a_resumed_program_begins_no_step_anew():
    """Steps behind it are passed by; the one that is under way stays, and actions name it."""
    world = World()

    async def program(task):
        for step in ("find", "write", "check", "send"):
            await task.begin_step(step)
            await task.begin_step(step)
            await task.using(key=step).act(counted([]))
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert 4 == world.kinds().count("StepBegan")
    assert "send" == world.fold().document.step
    intents = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.ActionIntended)]
    assert ["find", "write", "check", "send"] == [intent.step for intent in intents]


# --- drafts ---------------------------------------------------------------------------------------------------------
def drafts(place):
    """The drafts that are marked, by path."""

    async def read():
        async with perdure.open(place.store) as runtime:
            fold = await load_fold(runtime.store, (await runtime.store.find("t")).task)
        return {mark.about: (mark.verifier, mark.verdict) for mark in fold.document.checkpoints if mark.name == "draft"}

    return asyncio.run(read())


def test_a_text_is_a_draft_once_it_is_long_enough(place):
    """A stub makes none, nor does a second version, nor what somebody else has written; another file does."""

    async def program(task, _runtime):
        for key, (path, text) in enumerate([("a.md", STUB), ("a.md", TEXT), ("a.md", TEXT * 2), ("b.md", TEXT)]):
            place.put("theirs.md", TEXT * (key + 1))
            await task.using(key=str(key)).act(write, place.folder, path, text)
        return [mark.about for mark in task._session.fold.document.checkpoints]

    assert ["a.md", "b.md"] == asyncio.run(place.live(program))
    assert {"a.md": ("rule draft", ""), "b.md": ("rule draft", "")} == drafts(place)


def test_a_draft_is_marked_behind_the_outcome_of_its_call_in_the_same_append(place):
    """The capture comes before the outcome, the milestone behind it, and no kill between them."""

    async def program(task, runtime):
        await task.using(key="a").act(write, place.folder, "a.md", TEXT)
        kinds = {entry.header.seq: type(entry.payload).__name__ async for entry in entries(runtime.store, task.id)}
        appends = [(append.first_seq, append.last_seq) async for append in runtime.store.read(task.id, 0)]
        return [[kinds[seq] for seq in range(first, last + 1)] for first, last in appends]

    appends = asyncio.run(place.live(program))
    assert ["FilesCaptured", "ActionSettled", "CheckpointMarked"] in appends


def test_a_draft_that_a_check_refused_is_marked_when_the_check_passes(place):
    """Also by a process that has not seen it written: its bytes are read from the store."""

    async def refused(task, _runtime):
        with pytest.raises(perdure.CheckFailed):
            await task.check("has sources", False)
        await task.using(key="a").act(write, place.folder, "a.md", TEXT)
        await task.using(key="stub").act(write, place.folder, "stub.md", STUB)
        raise Stop

    async def passes(task, _runtime):
        await task.check("has sources", True)
        return task._session.fold.document.unproven

    with pytest.raises(Stop):
        asyncio.run(place.live(refused))
    assert {} == drafts(place)
    assert {} == asyncio.run(place.live(passes))
    assert {"a.md": ("rule draft", "")} == drafts(place)


def test_what_a_check_of_the_step_before_refused_holds_nothing_up(place):
    """A new step begins with no check failing; its own check, once passed, is what its drafts are judged by."""

    async def program(task, _runtime):
        await task.begin_step("find")
        with pytest.raises(perdure.CheckFailed):
            await task.check("find", False)
        await task.begin_step("write")
        await task.using(key="a").act(write, place.folder, "a.md", TEXT)
        await task.check("write", True)
        await task.using(key="b").act(write, place.folder, "b.md", TEXT)

    asyncio.run(place.live(program))
    assert {"a.md": ("rule draft", ""), "b.md": ("check write", "passed")} == drafts(place)


# --- a user's own ---------------------------------------------------------------------------------------------------
def test_a_function_beside_the_program_marks_what_it_names():
    """It sees state, tool and result; what it names is marked once per branch."""
    world, seen = World(), []

    @perdure.milestone
    def half(view):
        seen.append((view.tool, view.result, len(view.state["got"])))
        return "half" if len(view.state["got"]) >= 2 else None

    async def program(task):
        task._session.milestones = (half,)
        for item in range(4):
            if len(task.state["got"]) == item:
                await task.act(counted([]), item, then=lambda state, got: state["got"].append(got))

    world.live(Play(program, state={"got": []}))
    assert [("read", number, number + 1) for number in range(4)] == seen
    assert [("half", "milestone half")] == marks(world)


def test_what_a_function_raises_is_noted_and_ends_only_its_own_part():
    """The task goes on, the journal says why the function is not asked any more, and a replay is equal."""
    world, asked = World(), []

    @perdure.milestone
    def broken(_view):
        asked.append(1)
        raise KeyError("page")

    @perdure.milestone
    def unnamed(_view):
        return " "

    async def program(task):
        task._session.milestones = (broken, unnamed)
        for item in range(3):
            await task.using(key=str(item)).act(counted([]), item)

    world.live(Play(program))
    notes = [entry.payload for entry in world.journal() if isinstance(entry.payload, e.NoteWritten)]
    assert ["milestone 'broken' is not asked any more: KeyError: 'page'"] == [notes[0].text]
    assert ([1], 2, []) == (asked, len(notes), names(world))
    assert all(marking.is_of_milestone(note) for note in notes)
    assert not marking.is_of_milestone(e.NoteWritten(text="milestone"))


def test_an_open_edit_shows_a_function_nothing_that_may_never_be():
    """While an edit is open no function is asked."""
    world, asked = World(), []

    async def program(task):
        task._session.milestones = (perdure.milestone(lambda view: asked.append(view.state.plain())),)
        opened, leave = asyncio.Event(), asyncio.Event()

        async def edit():
            async with task.edit() as state:
                state["draft"] = "not yet"
                opened.set()
                await leave.wait()

        editing = asyncio.create_task(edit())
        await opened.wait()
        await task.using(key="1").act(counted([]))
        leave.set()
        await editing
        await task.using(key="2").act(counted([]))

    world.live(Play(program))
    assert [{"draft": "not yet"}] == asked


@pytest.mark.parametrize("wrong", [5, len, counted([])])
def test_a_milestone_is_a_plain_function(wrong):
    """Anything else is refused with the line to write."""
    with pytest.raises(perdure.UsageError, match=r"write `@perdure\.milestone`"):
        perdure.milestone(wrong)


@perdure.milestone
def reached(view):
    """Stands beside the program below."""
    return "reached" if view.result == 7 else None


async def _by_module(task):
    await task.using(key="k").act(counted([]), 7)


def test_functions_are_found_in_the_module_of_the_program():
    """As migrations are: nobody registers them."""
    world = World()
    world.live(Play(_by_module))
    assert [("reached", "milestone reached")] == marks(world)


# --- from a tool ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_plain", [True, False])
def test_a_tool_asks_for_a_checkpoint_with_its_outcome(is_plain):
    """From a thread and from a coroutine; a call that fails marks none."""
    world = World()

    def plain(item: int) -> int:
        perdure.request_checkpoint(f"exported {item}")
        if item == 2:
            raise ValueError(item)
        return item

    async def coroutine(item: int) -> int:
        return plain(item)

    tool = perdure.tool(effect="pure", name="export")(plain if is_plain else coroutine)

    async def program(task):
        for item in (1, 2):
            await task.using(key=str(item)).act_outcome(tool, item)

    world.live(Play(program))
    assert [("exported 1", "tool export")] == marks(world)


def test_asking_for_a_checkpoint_is_for_tools():
    """A program has `task.checkpoint`, and is told so."""

    async def program(_task):
        perdure.request_checkpoint("here")

    with pytest.raises(perdure.UsageError, match=r"task\.checkpoint"):
        World().live(Play(program))


# --- live and folded ------------------------------------------------------------------------------------------------
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("adopt"), st.lists(st.sampled_from("abc"), max_size=2)),
        st.tuples(st.just("step"), st.sampled_from("abc")),
        st.tuples(st.just("check"), st.sampled_from("abcd")),
        st.tuples(st.just("search"), st.sampled_from(["", "404 Not Found", PAGE])),
        st.tuples(st.just("edit"), st.integers()),
    ),
    max_size=12,
)


async def _marked_by_folding(world):
    """Say which milestones the rules make of the journal alone: each cause judged behind its own entry."""
    store, due, recorded = world.store(), [], []
    task = (await store.find("job")).task
    fold, earlier, sources = Fold(task), {}, set()
    async for entry in entries(store, task):
        await take_in(store, fold, entry, earlier)
        payload = entry.payload
        if isinstance(payload, e.ActionIntended) and payload.tool == "search":
            sources.add(payload.action)
        if isinstance(payload, e.CheckpointMarked):
            recorded.append((entry.header.seq, payload))
            continue
        is_source = isinstance(payload, e.ActionSettled) and payload.action in sources
        result = leaves.decode(bytes(payload.result), {}) if is_source else None
        found = milestones_after(payload, fold.document, fold.ledger, Seen(is_source=is_source, result=result))
        due += [(entry.header.seq + place, mark) for place, mark in enumerate(found, 1)]
    return due, recorded


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_the_journal_alone_tells_which_milestones_there_are(steps):
    """What was marked while the task ran is what the rules make of its entries when they are read."""
    world = World()

    async def program(task):
        for place, (what, value) in enumerate(steps):
            match what:
                case "adopt":
                    await task.adopt(value)
                case "step":
                    await task.begin_step(value)
                case "check":
                    await task.check(value, True)
                case "search":
                    tool = counted([], result=value, name="search", source=True)
                    await task.using(key=str(place)).act(tool)
                case _:
                    async with task.edit() as state:
                        state["x"] = value

    world.live(Play(program))
    due, recorded = asyncio.run(_marked_by_folding(world))
    assert due == recorded


# --- by hand --------------------------------------------------------------------------------------------------------
def mark(world, name, task="job"):
    """Mark a checkpoint from outside."""

    async def do():
        async with world.runtime() as runtime:
            return await runtime.checkpoint(task, name)

    return asyncio.run(do())


def test_a_person_marks_a_task_that_nobody_holds():
    """It says so, and what is loose stays the program's: a resume finds it as before."""
    world, calls = World(), []

    async def program(task):
        await task.act(counted(calls), 1)
        if task.attempt == 1:
            raise Stop
        await task.checkpoint("before lunch")

    with pytest.raises(Stop):
        world.live(Play(program))
    seq = mark(world, "before lunch")
    world.live(Play(program))
    assert [1] == calls
    found = world.fold().document.checkpoints
    assert [("person", seq), ("program", found[1].seq)] == [(one.reason, one.seq) for one in found]


def test_a_person_marks_neither_a_held_nor_a_finished_nor_an_open_one():
    """TaskBusy, TaskFinished, ActionsInFlight; nothing is written but the claim."""
    world = World()
    send = counted([], effect="irreversible", name="send")

    async def held(task):
        async with world.runtime() as other:
            with pytest.raises(TaskBusy):
                await other.checkpoint("job", "now")

    async def killed(task):
        await task.using(key="k").act(send, 1)

    world.live(Play(held))
    with pytest.raises(TaskFinished):
        mark(world, "now")
    assert DEAD == world.live(Play(killed), "open", death=Death("after_intent"))
    with pytest.raises(ActionsInFlight):
        mark(world, "now", "open")
    assert [] == names(world)


# --- replay ---------------------------------------------------------------------------------------------------------
@perdure.tool(effect="pure", quick=True)
def convert(rows: int) -> int:
    """Asks for a checkpoint."""
    perdure.request_checkpoint("converted")
    return rows


async def _all_kinds(task):
    """Milestones of every kind, and a function that raises."""
    if not isinstance(task, ReplayTask):
        task._session.milestones = (perdure.milestone(lambda view: {3: "three"}[view.result]),)
    await task.adopt(["find"])
    await task.begin_step("find")
    await task.using(key="c").act(convert, 3)
    await task.using(key="s").act(search([]), 1)
    await task.check("find", True)
    await task.note("done")


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
@pytest.mark.parametrize("was_marked", [True, False])
def test_a_replay_takes_milestones_as_they_are_on_record(monkeypatch, mode, was_marked):
    """Also where the record was made under other rules: nothing is judged again, and all is equal."""
    world = World()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "marks_milestones", was_marked)
        world.live(Play(_all_kinds))
    expected = ["plan", "converted", "three", "knowledge", "step:find"] if was_marked else []
    assert expected == names(world)
    replayed = replay(world, _all_kinds, mode)
    assert replayed.is_equal, replayed.divergence
    assert () == replayed.remarks


def test_a_replayed_program_can_go_back_to_a_milestone():
    """The mark is known when the rollback is made again."""
    world = World()

    async def program(task):
        await task.using(key="s").act(search([]), 1)
        if task.attempt == 1:
            async with task.edit() as state:
                state["bad"] = True
            await task.rollback("knowledge")

    world.live(Play(program))
    assert replay(world, program).is_equal
