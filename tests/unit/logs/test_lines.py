"""Lines hold to their schema, whatever entry they tell of, and are joined wherever reading begins."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from perdure.logs.lines import Joiner
from perdure.logs.text import to_text
from perdure.logs.walking import walk
from perdure.model import entry as e
from perdure.model.budget import Budget, Cost
from perdure.model.effect import Standing
from perdure.model.entry import Driver
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.files import FileChange, Node, Uncovered
from perdure.model.kinds import KINDS
from perdure.model.strategy import Strategy
from tests.unit.logs.material import HOLDER, SCHEMA, STARTED, Journal, complaints, intent, raw, settled

ERROR = ErrorRecord(type="ValueError", message="no\nway", failure_class="tool", causes=("KeyError: 'a'",))
EVERY_KIND = (
    e.LeaseClaimed(holder=HOLDER, by_hand=True),
    e.TaskForked(started=STARTED, parent="cd" * 16, at=7, parent_digest=b"d"),
    e.TaskResumed(report=("ok chain: whole",)),
    e.ProgramCalled(attempt=1),
    e.TaskPausedEntry(by="person"),
    e.TaskParkedEntry(until=1_700_000_000_000_000),
    e.QuestionAsked(question="which?", reason="limit"),
    e.QuestionAnswered(answer=raw("this"), by="person"),
    e.MessageReceived(message="m", what="tell", text="hi"),
    intent("a", "idempotent", key="k", loop="l", effect_key="e", parent="p", step="s", strategy="x"),
    settled("a", 10, error=ERROR, outcome="failed", result=raw(None), tokens_in=1, money="1 EUR", by="probe"),
    intent("b", "irreversible", paid=True, reserve=Cost(1, 2, "3 USD")),
    settled("b", 12, outcome="in_doubt", result=e.NOTHING),
    settled("b", 12, invalid=True, unapplied="the reducer raised", started_at=1_700_000_000_000_000, duration_us=1500),
    settled("unknown", 0),
    e.ActionReleased(action="b"),
    e.ActionReused(action="b", tool="t", settled=12, digest=b"d", key="k", patch=raw([])),
    e.StateEdited(patch=raw([])),
    e.FilesCaptured(
        changes=(FileChange("a/b", Node("file", 0o644, 3, b"d")), FileChange("c", None)),
        digest=b"d",
        action="b",
        uncovered=(Uncovered("s", "socket"),),
    ),
    e.PlanAdopted(steps=("one",)),
    e.PositionMoved(loop="l", done=1, item=b"d"),
    e.CheckpointMarked(name="c"),
    e.StepBegan(name="one"),
    e.CheckJudged(name="c", passed=False, reason="short"),
    e.ValuesDrawn(values=raw([1])),
    e.StateMigrated(from_version=1, to_version=2, state=raw({})),
    e.NoteWritten(text="n", fields=raw({"a": b"\0"})),
    e.FactStated(text="f"),
    e.FailureObserved(failure=Failure(error=ERROR, failure_class="tool"), counted=True),
    e.DecisionTaken(decision=raw({}), row="r"),
    e.StrategyChosen(strategy=Strategy("s", change="ask")),
    e.StuckNoticed(rule="same", entries=(1, 2), period=1, text="t"),
    e.HealthChanged(of="tool t", is_bad=True, calls=6, succeeded=2, valid=1),
    e.WaitBegan(provider="p", until=1_700_000_000_000_000, reason="r"),
    e.BudgetSet(budget=Budget(money="5 USD", tokens=1000), by="person"),
    e.TaskTakenOver(),
    e.TaskHandedBack(changes=("the plan",), word="w"),
    e.LessonLearned(text="l"),
    e.RollbackBegan(
        to_seq=1,
        checkpoint="start",
        moves=("files",),
        standing=(Standing(action="b", tool="t", digest=b"d", settled=12, undo="impossible"),),
    ),
    e.WorkspaceRestored(restored=1, kept=("a",)),
    e.RollbackAbandoned(reason="r"),
    e.RolledBackEntry(to_seq=1, checkpoint="start"),
    e.SnapshotTaken(at_seq=1, digest=b"d"),
    e.TaskFailedEntry(reason="r"),
    e.TaskCancelledEntry(),
    intent("open"),
    e.TaskSucceeded(result=raw({"text": "\u2028"})),
)


def all_lines(journal):
    """The lines of a journal, those of open actions included."""

    async def read():
        joiner = Joiner(journal.store, journal.task)
        made = [await joiner.take(step) async for step in walk(journal.store, journal.task)]
        return [line for line in made if line is not None] + await joiner.still_open()

    return asyncio.run(read())


def test_every_kind_of_entry_holds_to_the_schema():
    """No field is of another type than the schema says, and none is not named by it; unknown kinds included."""
    journal = Journal("ab" * 16, *EVERY_KIND).write(e.NoteWritten(text="later"), kind=999)
    lines = all_lines(journal)
    assert {kind for _, _, kind in KINDS} == {type(one) for one in (STARTED, *EVERY_KIND)}
    assert [] == [(line["seq"], said) for line in lines if (said := complaints(line))]
    assert "unknown_999" in {line["kind"] for line in lines}


@pytest.mark.parametrize(
    "change",
    [{"v": 2}, {"at": "yesterday"}, {"fields": None}, {"seq": 0}, {"digest": "x"}, {"level": "bad"}, {"colour": 1}],
)
def test_the_schema_refuses_what_is_no_line(change):
    """The check that the other test makes can fail."""
    line = all_lines(Journal("ab" * 16))[0]
    assert [] == complaints(line)
    assert complaints({name: value for name, value in (line | change).items() if value is not None})


def test_schema_and_page_name_the_same_fields():
    """Each field of the schema has its row in log.md."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "log.md").read_text("utf-8")
    explained = set(re.findall(r"`([a-z_]+)`", page))
    assert set() == set(SCHEMA["properties"]) - explained
    assert set() == set(SCHEMA["properties"]["error"]["properties"]) - set(re.findall(r"[a-z_]+", page))


def test_an_outcome_finds_its_intent_though_reading_began_behind_it():
    """What a copy that goes on in mid-journal makes of an outcome is what one from the beginning makes of it."""
    journal = Journal("ab" * 16, e.CheckpointMarked(name="c"), intent("a", key="k"), e.NoteWritten(text="n"))
    journal.write(settled("a", 3))

    async def late():
        joiner = Joiner(journal.store, journal.task, "c")
        return [await joiner.take(step) async for step in walk(journal.store, journal.task, 4)]

    assert all_lines(journal)[-1:] == asyncio.run(late())


def test_text_is_one_line_of_valid_text_however_long_the_value_is():
    """Cut values are marked with their length, no character is cut in two, and line ends stay inside."""
    for fill in range(12):
        text = "x" * fill + "ab🙂é́👨‍👩‍👧漢\n" * 40
        journal = Journal("ab" * 16, intent("a", arguments=raw({"t": text})), settled("a", 2, result=raw(text)))
        shown = to_text(all_lines(journal)[-1])
        assert "�" not in shown
        assert shown.isprintable() or "\u200d" in shown
        assert f"[cut, {len(json.dumps(text, ensure_ascii=False).encode())} bytes]" in shown
        assert 1 == len(shown.splitlines())


def test_text_says_what_happened_of_every_kind():
    """Each line becomes one line of text that names the kind or the tool."""
    for line in all_lines(Journal("ab" * 16, *EVERY_KIND)):
        shown = to_text(line)
        assert (line.get("action") or line["kind"]) in shown
        assert 1 == len(shown.splitlines())


def test_a_driver_is_told_in_full():
    """Nested structs become nested objects."""
    line = all_lines(Journal("ab" * 16))[0]
    assert "inline" == line["fields"]["driver"]["kind"]
    assert Driver(kind="inline") == STARTED.driver
