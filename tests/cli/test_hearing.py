"""What running tools hear is shown while it comes, in whole lines, and called abandoned where it became no answer."""

import pytest

import perdure
from perdure.cli.hearing import Hearing
from perdure.cli.progress import Progress
from perdure.testing import Death
from tests.worlds import DEAD, Play, World


def lines_of(*events):
    """All lines that these events give."""
    hearing = Hearing()
    return [line for event, fields in events for line in hearing.lines_of(event, fields)]


def heard(text, action="a"):
    """The event of a piece."""
    return "text_streamed", {"action": action, "text": text, "tool": "ask"}


def settled(outcome="succeeded", action="a"):
    """The event of a call's end."""
    return "action_settled", {"action": action, "tool": "ask", "outcome": outcome}


def test_pieces_become_lines_each_call_for_itself():
    """A line is shown when it is whole, the rest when the call has ended; empty lines are left out."""
    events = [heard("One li"), heard("other\n", "b"), heard("ne.\n\nTwo"), settled(action="b"), settled()]
    assert ["| other", "| One line.", "| Two"] == lines_of(*events)


def test_a_long_line_is_broken_at_blanks():
    """No line is longer than a terminal is wide, and no word is broken that need not be."""
    lines = lines_of(heard("word " * 50), heard("x" * 250), settled())
    assert max(map(len, lines)) <= 102
    assert "word " * 50 + "x" * 250 == " ".join(line[2:] for line in lines).replace("x x", "xx").replace("x x", "xx")


def test_what_became_no_answer_is_called_abandoned():
    """Of a call that failed; a call that was heard of nothing, or succeeded, has nothing to abandon."""
    told = "what was shown of ask is abandoned: it is no answer"
    assert ["| half a", told] == lines_of(heard("half a"), settled("failed"))
    assert [] == lines_of(settled("failed"))
    assert ["| all"] == lines_of(heard("all"), settled())


def test_a_call_that_is_made_again_says_so():
    """Whoever resumes knows that what the other process has shown counts for nothing."""
    started = {"action": "a", "tool": "ask"}
    assert [] == lines_of(("action_started", {**started, "attempt": 1}))
    [line] = lines_of(("action_started", {**started, "attempt": 2}))
    assert "ask is called again; what was shown of it before, if anything, is abandoned" == line


def test_the_events_of_a_killed_call_are_told_as_such():
    """Through the engine: heard, killed, called again under attempt 2, heard anew, settled."""
    told = []
    death = Death("after_effect", 1)
    world = World()

    @perdure.tool(effect="pure", paid=True)
    async def ask() -> str:
        perdure.emit("text_streamed", text="so it ")
        perdure.emit("text_streamed", text="begins\n")
        return "so it begins"

    async def program(task):
        return await task.act(ask)

    def hook(task, event, fields):
        told.extend(hearing.lines_of(event, fields))

    hearing = Hearing()
    assert DEAD == world.live(Play(program), death=death, hooks=[hook])
    hearing = Hearing()
    assert "so it begins" == world.live(Play(program), hooks=[hook])
    assert [
        "| so it begins",
        "ask is called again; what was shown of it before, if anything, is abandoned",
        "| so it begins",
    ] == told


@pytest.mark.parametrize(
    ("outcome", "line"), [("failed", "ask was cut short"), ("in_doubt", "ask was cut short, and may have happened")]
)
def test_a_call_that_was_stopped_is_no_failure(outcome, line, capsys):
    """Whoever presses Ctrl-C twice is not shown what Python raises for it."""
    event = {"action": "a", "tool": "ask", "outcome": outcome, "error": "asyncio.exceptions.CancelledError: "}
    Progress(lambda _: None)("task", "action_settled", event)
    assert f"  {line}\n" == capsys.readouterr().err
