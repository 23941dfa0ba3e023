"""Policy: plans, acts at least once per document and step, and goes on from any memory."""

import copy

import pytest

from perdure.agent.offline import listing
from perdure.agent.offline.policy import PLAN, OfflinePolicy
from perdure.errors import GoalUnknown
from perdure.model.move import Act, AdoptPlan, Ask, Checkpoint, Finish, PolicyView
from tests.unit.agent.offline.driving import act, drive, write_files
from tests.unit.agent.offline.planted import BEES


@pytest.fixture
def goal(tmp_path):
    """A goal over four documents, one of them unreadable."""
    write_files(tmp_path / "docs", BEES)
    (tmp_path / "docs" / "binary.txt").write_bytes(b"\0\0\0\1" * 9)
    return f"Digest the documents under '{tmp_path / 'docs'}'"


def test_each_document_and_each_step_is_an_action(goal, tmp_path):
    """The plan comes first, each document is read and extracted from, each phase ends with a checkpoint."""
    memory, moves = drive(goal, tmp_path / "out")
    acts = [move.tool.name for move in moves if isinstance(move, Act)]
    assert isinstance(moves[0], AdoptPlan)
    assert list(PLAN) == memory["plan"]
    expected = ["list_documents", "read_document", *["read_document", "extract_profile"] * 4]
    assert [*expected, "compare_documents", "compose_digest", "write_report"] == acts
    marks = [move.name for move in moves if isinstance(move, Checkpoint)]
    assert ["documents listed", "documents read", "documents compared", "digest written"] == marks
    result = {"report": "digest.md", "documents": 4, "groups": 1, "single": 0, "unreadable": 1}
    assert result == moves[-1].result


def test_keys_are_unique_and_short(goal, tmp_path):
    """No two actions share a key, however long the names: a name of a kilobyte is cut and told apart."""
    long = "x" * 200
    write_files(tmp_path / "docs", {f"{long}/{long}/{long}/{end}.txt": "x" for end in "ab"})
    _, moves = drive(goal, tmp_path / "out")
    keys = [move.key for move in moves if isinstance(move, Act)]
    assert len(keys) == len(set(keys))
    assert all(len(key.encode()) <= 200 for key in keys)


def test_texts_do_not_stay_in_memory(goal, tmp_path):
    """At any time at most one text is in memory: its profile takes its place."""
    _, moves = drive(goal, tmp_path / "out")
    memory = {}
    for _ in moves:
        drive(goal, tmp_path / "out", memory, moves_max=1)
        assert sum("text" in entry for entry in memory.get("documents", {}).values()) <= 1


def test_stopped_after_any_move_it_goes_on(goal, tmp_path):
    """From the memory after each move the rest is made, nothing twice, with the same page and result."""
    _, moves = drive(goal, tmp_path / "whole")
    page = (tmp_path / "whole" / "digest.md").read_bytes()
    for made in range(len(moves)):
        memory, before = drive(goal, tmp_path / f"out{made}", moves_max=made)
        _, after = drive(goal, tmp_path / f"out{made}", copy.deepcopy(memory))
        assert len(moves) == len(before) + len(after)
        assert moves[-1] == after[-1]
        assert page == (tmp_path / f"out{made}" / "digest.md").read_bytes()


def test_deciding_changes_nothing(goal, tmp_path):
    """Asked twice with the same view, the policy says the same, and memory is as before."""
    memory, _ = drive(goal, tmp_path / "out", moves_max=5)
    before = copy.deepcopy(memory)
    view = PolicyView(goal=goal, workspace=str(tmp_path / "out"), memory=memory)
    assert OfflinePolicy().next(view) == OfflinePolicy().next(view)
    assert before == memory


def test_documents_over_the_maximum_are_said_in_the_result(goal, tmp_path, monkeypatch):
    """Who reads only the result learns that not all was read, and how many were left aside."""
    monkeypatch.setattr(listing, "DOCUMENTS_MAX", 3)
    _, moves = drive(goal, tmp_path / "out")
    assert 2 == moves[-1].result["left_aside"]


def test_a_file_that_is_no_digest_is_not_overwritten(goal, tmp_path):
    """It becomes a question, the file keeps its bytes; moved away, the task goes on. An own digest is replaced."""
    page = tmp_path / "out" / "digest.md"
    write_files(page.parent, {"digest.md": "# My own notes\n"})
    memory, moves = drive(goal, page.parent)
    assert isinstance(moves[-1], Ask)
    assert "move it away" in moves[-1].question
    assert "# My own notes\n" == page.read_text("utf-8")
    page.rename(page.with_name("notes.md"))
    drive(goal, page.parent, memory)
    first = page.read_bytes()
    _, moves = drive(goal, page.parent)
    assert (True, first) == (isinstance(moves[-1], Finish), page.read_bytes())


def test_a_missing_folder_is_a_question_and_can_be_put_right(tmp_path):
    """A wrong folder asks a person; after a resume the list is made anew, under a new key."""
    goal = f"Digest the documents under {tmp_path / 'docs'}"
    memory, moves = drive(goal, tmp_path / "out")
    assert isinstance(moves[-1], Ask)
    assert "list_documents failed" in moves[-1].question
    write_files(tmp_path / "docs", BEES)
    view = PolicyView(goal=goal, workspace=str(tmp_path / "out"), memory=memory, attempt=2)
    again = OfflinePolicy().next(view)
    assert "listing, attempt 2" == again.key
    act(memory, again)
    assert isinstance(drive(goal, tmp_path / "out", memory)[1][-1], Finish)


def test_another_goal_is_refused(tmp_path):
    """A goal of another kind raises, with the forms that are known."""
    with pytest.raises(GoalUnknown, match="Digest the documents under DIR"):
        drive("Write a poem", tmp_path)
