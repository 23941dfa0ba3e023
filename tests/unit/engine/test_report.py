"""The resume report: what an opener should know, and what stops him."""

import asyncio

import pytest

import perdure
from perdure.engine.report import report
from tests.worlds import DEAD, Death, Play, World, counted


def _verdicts(world, play=None):
    return {row.name: row.verdict for row in report(world.fold(), play)}


def _killed_in(effect, point="after_effect", **options):
    world = World()
    tool = counted([], effect=effect, name="work", **options)

    async def program(task):
        await task.act(tool, 1)

    assert DEAD == world.live(Play(program), death=Death(point))
    return world, Play(program)


@pytest.mark.parametrize(
    ("effect", "options", "verdict", "text"),
    [
        ("workspace", {}, "ok", "sent again"),
        ("verifiable", {"probe": lambda: None}, "ok", "probe"),
        ("irreversible", {}, "stop", "perdure settle job"),
    ],
)
def test_the_last_action_says_what_will_be_done_with_it(effect, options, verdict, text):
    """Run again, asked for, or a person is needed: the row says it, and what to type."""
    world, _ = _killed_in(effect, **options)
    row = next(row for row in report(world.fold(), None) if row.name == "last action")
    assert verdict == row.verdict
    assert text in row.text


def test_a_stop_writes_nothing_of_the_program_and_can_be_passed_over():
    """NeedsHuman before the program is called; with accept= it is, and meets the doubt itself."""
    world, play = _killed_in("irreversible")
    with pytest.raises(perdure.NeedsHuman):
        world.live(play)
    assert 1 == world.kinds().count("ProgramCalled")

    async def accept():
        async with world.runtime() as runtime:
            await runtime.resume("job", play, accept=["last action"])

    with pytest.raises(perdure.NeedsHuman):
        asyncio.run(accept())
    assert 2 <= world.kinds().count("ProgramCalled")


def test_a_changed_source_and_a_missing_workspace_are_warnings():
    """They are said, and stop nothing."""
    world = World()

    async def program(task):
        raise perdure.UsageError("stop")

    play = Play(program)
    play.source_digest = "aa"
    play.driver = lambda arguments: perdure.engine.programs.Driver(kind="program", source_digest="aa")

    async def start():
        async with world.runtime() as runtime:
            await runtime.run(play, "job", workspace="/nowhere/at/all")

    with pytest.raises(perdure.UsageError):
        asyncio.run(start())
    assert "ok" == _verdicts(world, play)["source"]
    play.source_digest = "bb"
    verdicts = _verdicts(world, play)
    assert ("warn", "warn", "ok") == (verdicts["source"], verdicts["workspace"], verdicts["journal"])


def test_a_dry_report_needs_no_lease_and_writes_nothing():
    """`Runtime.report` looks at a task that another holds."""
    world, play = _killed_in("irreversible")
    before = world.kinds()

    async def look():
        async with world.runtime() as runtime:
            return await runtime.report("job", play)

    assert "stop" in [row.verdict for row in asyncio.run(look())]
    assert before == world.kinds()
