"""The plan of a task as it is shown: which judgement of a step counts, and the checks of an agent in words."""

import pytest

import perdure
from perdure.agent.checks import checks_of, text_of
from perdure.views.planning import plan_of
from tests.worlds import Play, World


async def plodding(task):
    """Reach the first of two steps, and fail in the second."""
    await task.adopt(["one", "two"])
    await task.begin_step("one")
    await task.checkpoint("begun")
    await task.check("one", True, reason="it is plain")
    await task.begin_step("two")
    with pytest.raises(perdure.CheckFailed):
        await task.check("two", False, reason="nothing is there")
    await task.ask("what now?")


def test_the_newest_judgement_that_counts_is_shown_with_its_reason():
    """One that has passed, and one of the present step that has not; what a rollback has left counts no more."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(plodding))

    def look():
        return world.do(lambda runtime: plan_of(runtime.store, "job"))

    one, two = look()
    assert ("passed", "it is plain", True) == (one.verdict, one.why, one.done)
    assert ("failed", "nothing is there", True) == (two.verdict, two.why, two.current)
    world.do(lambda runtime: runtime.rollback("job", "begun"))
    one, two = look()
    assert ("", 0, True) == (one.verdict, one.entry, one.current)
    assert ("", 0, False) == (two.verdict, two.entry, two.current)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ({"kind": "file_exists", "path": "a.md"}, "there is 'a.md' in the workspace"),
        ({"kind": "text_contains", "path": "a.md", "text": "b"}, "'b' stands in 'a.md'"),
        ({"kind": "json_valid", "path": "a.json"}, "'a.json' is JSON"),
        ({"kind": "json_valid", "path": "a.json", "keys": ["x", "y"]}, "'a.json' is JSON with x, y"),
        ({"kind": "command_succeeds", "command": "make"}, "this command ends with 0: make"),
        ({"criterion": "it reads well"}, "a model judges: it reads well"),
        ({}, "a model judges the step"),
    ],
)
def test_a_check_is_put_in_words(check, words):
    """Each kind, with all that it hangs on."""
    assert words == text_of(check)


def test_a_memory_of_another_shape_has_no_checks():
    """People may change it: that is no reason for a plan not to be shown."""
    assert {} == checks_of({})
    assert {} == checks_of({"ahead": 1})
    steps = [3, {"title": "b"}, {"title": "a", "check": {}}]
    assert {"a": "a model judges the step"} == checks_of({"ahead": {"steps": steps}})
