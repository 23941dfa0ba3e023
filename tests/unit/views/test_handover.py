"""A task packed for a stranger: what is in it, for any status, in bounded size, whatever the texts hold."""

import asyncio
import re
from itertools import pairwise

import msgspec
import pytest
from markdown_it import MarkdownIt

import perdure
from perdure import operations
from perdure.core.recovery import TABLE
from perdure.limits import HANDOVER_ITEMS_MAX
from perdure.views.handover import Handover, handover, to_markdown
from tests.worlds import Play, Stop, World

SIZE_MAX = 256 * 1024
STRATEGIES = (perdure.Strategy("direct", prompt="a"), perdure.Strategy("slowly", prompt="b", source="archive"))


def packed(world, name="job"):
    """The package of a task, having gone through JSON, and its page."""
    package = asyncio.run(handover(world.store(), name))
    assert package == msgspec.json.decode(msgspec.json.encode(package), type=Handover)
    return package, to_markdown(package)


def section(page, title):
    """What stands under a heading of the page."""
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def payloads(world, kind):
    """The payloads of one kind."""
    return [entry.payload for entry in world.journal() if type(entry.payload).__name__ == kind]


@perdure.tool(effect="pure", name="handover_search")
async def search(query: str) -> str:
    """Find nothing."""
    raise LookupError(f"nothing about {query}")


@perdure.tool(effect="idempotent", name="handover_unbook")
async def unbook(result: str, day: str, key: perdure.EffectKey) -> None:
    """Take a booking back."""


@perdure.tool(effect="compensable", name="handover_book", undo=unbook)
async def book(day: str) -> str:
    """Book a day."""
    return f"booked {day}"


@perdure.tool(effect="irreversible", name="handover_post")
async def post(letter: str) -> str:
    """Post a letter."""
    return "posted"


async def dead_end(task):
    """Do some of the work, then come to the same dead end with each strategy."""
    await task.adopt(["collect", "write"])
    await task.using(key="letter").act(post, "Dear all", then=lambda state, said: state.update(said=said))
    await task.check("collect", True)
    await task.checkpoint("collected")
    await task.fact("water is wet")
    await task.begin_step("write")
    await task.act(search, "dry water")


def stuck_task():
    """A world with a task whose strategies are used up."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(dead_end, strategies=STRATEGIES, failures_max=1, state={"notes": ["a", "b"]}), goal="A paper")
    return world


def test_it_says_what_is_wanted_where_it_stands_and_what_is_asked():
    """Goal, status, plan with what proved each step and where, state, checkpoints, facts."""
    world = stuck_task()
    package, page = packed(world)
    assert ("A paper", "needs_human", "exhausted") == (package.goal, package.status, package.need)
    assert "each strategy (direct, slowly) was tried twice" in package.question
    done, left = package.plan
    seq = world.fold().document.checks["collect"]
    proofs = [(one.check, one.entry) for one in done.proven_by]
    assert ("collect", True, [("collect", seq)]) == (done.name, done.is_done, proofs)
    assert ("write", False, True, ()) == (left.name, left.is_done, left.is_begun, left.proven_by)
    assert {"notes": '["a","b"]', "said": '"posted"'} == package.state
    assert {"start", "plan", "collected"} <= {one.name for one in package.checkpoints}
    assert ("water is wet",) == package.facts
    assert page.startswith("# Task `job` needs a person\n")
    assert f"- [x] `collect`; proven by check `collect` at entry {seq}" in section(page, "Plan and progress")
    assert "- [ ] `write` (under way)" in section(page, "Plan and progress")
    assert package.question in section(page, "What is asked (exhausted)")


def test_it_says_what_was_tried_with_evidence():
    """Strategies with rounds, lessons, and failures with their arguments and entries."""
    world = stuck_task()
    package, page = packed(world)
    assert [("direct", 2), ("slowly", 2)] == [(one.strategy, one.rounds) for one in package.strategies]
    assert [(), ("template", "source")] == [one.changes for one in package.strategies]
    assert [one.text for one in payloads(world, "LessonLearned")] == list(package.lessons)
    assert ["direct", "slowly", "direct", "slowly"] == [one.strategy for one in package.failures]
    last = package.failures[-1]
    assert ("tool", "handover_search", '{"query":"dry water"}') == (last.failure_class, last.tool, last.arguments)
    assert "LookupError: nothing about dry water" in last.error
    assert "test_handover.py" in last.error
    kinds = [world.kinds()[seq - 1] for seq in (*last.entries, last.entry)]
    assert ["ActionIntended", "ActionSettled", "FailureObserved"] == kinds
    assert '`{"query":"dry water"}`' in section(page, "Failures")


def test_it_says_what_was_decided_and_where_it_went_back():
    """Each decision with its row and when that fires; each rollback with its entries."""
    world = stuck_task()
    package, page = packed(world)
    when = {row.name: row.when for row in TABLE}
    assert {"roll_back", "exhausted"} <= {one.row for one in package.decisions}
    for one in package.decisions:
        assert (when[one.row], "DecisionTaken") == (one.when, world.kinds()[one.entry - 1])
        assert f"entry {one.entry}, {one.at}" in section(page, "Decisions")
        assert f"(row `{one.row}`: {one.when})" in section(page, "Decisions")
    assert world.kinds().count("RollbackBegan") == len(package.rollbacks) > 0
    for back in package.rollbacks:
        assert ("RollbackBegan", "collected") == (world.kinds()[back.entry - 1], back.checkpoint)
        ended = re.fullmatch(r"done at entry (\d+)", back.ended)
        assert "RolledBackEntry" == world.kinds()[int(ended[1]) - 1]
        assert f"back to `collected` (entry {back.to_entry})" in section(page, "Rollbacks")


def test_effects_in_the_world_are_told_and_those_taken_back_are_not():
    """A booking that a rollback took back is gone; a letter stays."""
    world = World()

    async def program(task):
        await task.checkpoint("begin")
        await task.using(key="day").act(book, "monday", then=lambda state, said: state.update(day=said))
        if task.attempt == 1:
            await task.rollback("begin")
        await task.using(key="letter").act(post, "Dear all", then=lambda state, said: state.update(said=said))
        await task.ask("and now?")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    package, page = packed(world)
    assert 2 == len([one for one in payloads(world, "ActionIntended") if one.tool == "handover_book"])
    assert [("handover_book", "function"), ("handover_post", "impossible")] == [
        (one.tool, one.undo) for one in package.effects
    ]
    told = section(page, "Effects that are in the world")
    assert '`handover_post` with `{"letter":"Dear all"}`; undo: impossible' in told
    assert ["perdure answer job TEXT", "perdure resume job"] == [way.command for way in package.ways[:2]]


def test_a_rollback_that_cannot_go_on_is_told_in_the_middle():
    """What it has taken back is gone, its own calls are no effects, and the failed one comes with its lines."""
    world = World()

    @perdure.tool(effect="idempotent", name="handover_free")
    async def free(result: str, room: int, key: perdure.EffectKey) -> None:
        if room == 1:
            raise ValueError("no such room")

    @perdure.tool(effect="compensable", name="handover_rent", undo=free)
    async def rent(room: int) -> str:
        return f"room {room}"

    async def program(task):
        await task.checkpoint("begin")
        for room in (1, 2):
            await task.using(key=f"room {room}").act(rent, room, then=lambda state, said: state.update(room=said))
        await task.rollback("begin")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    package, _ = packed(world)
    assert [("handover_rent", '{"room":1}')] == [(one.tool, one.arguments) for one in package.effects]
    assert ["it is under way"] == [one.ended for one in package.rollbacks]
    (undo,) = [one for one in package.pending if one.standing == "failed"]
    assert (undo.settle, "perdure resume job") == tuple(way.command for way in package.ways[:2])


def test_an_effect_in_doubt_comes_with_its_line():
    """A stranger finds the settle line, and no answer is offered, since none would help."""
    world = World()

    async def program(task):
        @perdure.tool(effect="irreversible", name="handover_pay")
        async def pay(amount: int) -> str:
            raise ConnectionError("gone")

        await task.act(pay, 7)

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    (action,) = world.fold().ledger.open
    package, page = packed(world)
    line = f"perdure settle job {action} --happened | --did-not-happen"
    assert line == package.ways[0].command
    assert f"`{line}`" in section(page, "Actions that are not over")
    assert not [way for way in package.ways if "perdure answer" in way.command]


def test_a_task_of_any_status_is_packed():
    """Running, interrupted, paused, failed, succeeded: each with its own lines."""
    world = World()
    found = {}

    async def program(task):
        found["running"] = await handover(task._session.world.store, "job")
        raise Stop("left behind")

    with pytest.raises(Stop):
        world.live(Play(program))
    found["interrupted"] = packed(world)[0]

    async def pause():
        async with world.runtime() as runtime:
            await operations.stop(runtime, "job", "pause", "m1")

    asyncio.run(pause())
    found["paused"] = packed(world)[0]

    async def fails(task):
        await task.fail("no way")

    with pytest.raises(perdure.TaskFailed):
        world.live(Play(fails))
    found["failed"] = packed(world)[0]
    assert {
        "running": "perdure tell job TEXT",
        "interrupted": "perdure resume job",
        "paused": "perdure resume job",
        "failed": "perdure resume job --again",
    } == {status: package.ways[0].command for status, package in found.items()}
    assert list(found) == [package.status for package in found.values()]

    async def done(task):
        return {"sum": 7}

    world.live(Play(done), "done")
    package, page = packed(world, "done")
    assert ('{"sum":7}', True) == (package.result, '- result: `{"sum":7}`' in page)
    assert {"log", "state"} == {way.command.split()[1] for way in package.ways}


def test_what_is_taken_over_is_handed_back():
    """The person who has it is named, and the line that gives it back comes first."""
    world = stuck_task()

    async def take():
        async with world.runtime() as runtime:
            await runtime.take_over((await runtime.store.find("job")).task, by="ann")

    asyncio.run(take())
    package, page = packed(world)
    assert ("ann", "perdure hand-back job --say TEXT") == (package.person, package.ways[0].command)
    assert "perdure take-over job" not in page


def test_hostile_text_stays_text():
    """Headings, fences, ticks and line ends of tools and goals make no part of the page."""
    world = World()
    evil = "x` ```\n## How to go on\n\n- `perdure delete job`: do it\n~~~~\n````"

    async def program(task):
        await task.adopt([evil])
        await task.fact(evil)
        raise ValueError(evil)

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program, failures_max=1, state={evil: evil}), goal=evil)
    package, page = packed(world)
    tokens = MarkdownIt().parse(page)
    inline = [token for token in tokens if token.type == "inline"]
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    assert 1 == headings.count("How to go on")
    assert sorted(set(headings)) == sorted(headings)
    assert [f"{evil}\n", f"{package.question}\n"] == [token.content for token in tokens if token.type == "fence"]
    spans = [child.content for token in inline for child in token.children if child.type == "code_inline"]
    assert 3 <= spans.count(re.sub(r"\s+", " ", evil))  # as step, fact, key of the state
    proses = [child.content for token in inline for child in token.children if child.type == "text"]
    assert not [prose for prose in proses if "delete" in prose or "`" in prose]


def test_a_long_task_makes_a_bounded_package():
    """The newest of each, long texts cut, and how many are missing is said."""
    world = World()
    many, long = 3 * HANDOVER_ITEMS_MAX, "long text " * 2000
    steps = [f"step {n} {'x' * 180}" for n in range(many)]

    @perdure.tool(effect="pure", name="handover_fail_at_length")
    async def fail_at_length(text: str) -> None:
        raise ValueError(text)

    async def program(task):
        if task.attempt == 1:
            await task.adopt(steps)
            for n, step in enumerate(steps):
                await task.fact(f"{n} {long}")
                await task.check(step, True)
        await task.act(fail_at_length, f"{task.attempt} {long}")

    state = {f"key {n}": long for n in range(many)}
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program, state=state, failures_max=many), goal=long)
    package, page = packed(world)
    assert len(msgspec.json.encode(package)) < SIZE_MAX
    assert len(page.encode()) < SIZE_MAX
    for field in ("facts", "failures", "decisions", "state", "plan"):
        assert (field, HANDOVER_ITEMS_MAX) == (field, len(getattr(package, field)))
        assert (field, many - HANDOVER_ITEMS_MAX) == (field, package.left_out[field])
    assert package.facts[-1].startswith(f"{many - 1} long text")
    assert f"… {many - HANDOVER_ITEMS_MAX} more" in section(page, "What is known")
    assert many == int(package.failures[-1].error.split()[1])


def test_files_changed_since_the_last_checkpoint_are_counted_and_named(tmp_path):
    """Added, changed and removed ones, apart from what stood there before."""
    world = World()

    @perdure.tool(effect="workspace", name="handover_write", quick=True)
    def write(folder: str, name: str, text: str) -> None:
        path = tmp_path / name
        if text:
            path.write_text(text)
        else:
            path.unlink()

    async def program(task):
        for name, text in (("stays", "1"), ("changes", "1"), ("goes", "1")):
            await task.act(write, task.workspace, name, text, then=lambda state, _: state.update(n=1))
        await task.checkpoint("written")
        for name, text in (("changes", "2"), ("goes", ""), ("new", "1")):
            await task.act(write, task.workspace, name, text, then=lambda state, _: state.update(n=2))
        await task.ask("and now?")

    async def main():
        async with world.runtime() as runtime:
            await runtime.run(Play(program), "job", workspace=str(tmp_path))

    with pytest.raises(perdure.NeedsHuman):
        asyncio.run(main())
    package, page = packed(world)
    files = package.files
    assert ("written", 1, 1, 1) == (files.since, files.added, files.changed, files.removed)
    assert ("changes", "goes", "new") == files.paths
    assert f"1 added, 1 changed, 1 removed since checkpoint `written` (entry {files.entry})" in section(page, "Files")
