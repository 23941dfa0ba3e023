"""The rules of milestones: what fulfils each, and what only looks as if it did."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.milestones import Seen, has_substance, is_draft, milestones_after
from perdure.limits import DRAFT_BYTES_MAX, DRAFTS_AT_ONCE_MAX, ERROR_PAGE_LETTERS_MAX
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.effect import PRESETS
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import Ledger, OpenAction

SUCCESS = e.ActionSettled(action="a", intent=2, outcome="succeeded")
FOUND = Seen(is_source=True, result="Rain falls mainly on the plain.")
WROTE = Seen(drafts=("draft.md",))


def names(payload, document=None, ledger=None, seen=None):
    """The names of what is due behind `payload`."""
    due = milestones_after(payload, document or Document(), ledger or Ledger(), seen or Seen())
    return [mark.name for mark in due]


def open_action(preset):
    """A ledger with one action under way."""
    action = OpenAction(
        action="b", tool="t", effect=PRESETS[preset], digest=b"", intent=1, epoch=1, branch=0, intended_at=0
    )
    return Ledger(open={"b": action})


# --- the rules ------------------------------------------------------------------------------------------------------
def test_each_rule_names_what_judged_it():
    """Name, verdict, verifier and what it is about: all that a listing shows."""
    step = Document(plan=("find", "write"), step="write", checks={"write": 3})
    found = [
        *milestones_after(e.PlanAdopted(steps=("find",)), Document(), Ledger()),
        *milestones_after(SUCCESS, step, Ledger(), FOUND),
        *milestones_after(SUCCESS, Document(), Ledger(), Seen(is_source=True, is_judged=True)),
        *milestones_after(e.CheckJudged(name="find", passed=True), step, Ledger()),
        *milestones_after(SUCCESS, step, Ledger(), WROTE),
        *milestones_after(SUCCESS, Document(), Ledger(), WROTE),
    ]
    assert [
        ("plan", "", "rule plan", ""),
        ("knowledge", "passed", "rule knowledge", "write"),
        ("knowledge", "passed", "valid", ""),
        ("step:find", "passed", "check find", ""),
        ("draft", "passed", "check write", "draft.md"),
        ("draft", "", "rule draft", "draft.md"),
    ] == [(mark.name, mark.verdict, mark.verifier, mark.about) for mark in found]
    assert {"milestone"} == {mark.reason for mark in found}


@pytest.mark.parametrize(
    ("payload", "seen"),
    [
        (e.PlanAdopted(steps=()), Seen()),
        (SUCCESS, Seen(result="Rain falls mainly on the plain.")),
        (SUCCESS, Seen(is_source=True, result=[])),
        (SUCCESS, Seen(is_source=True, result={"query": "rain", "hits": []})),
        (SUCCESS, Seen(is_source=True, result="404 Not Found")),
        (e.ActionSettled(action="a", intent=2, outcome="succeeded", invalid=True), FOUND),
        (e.ActionSettled(action="a", intent=2, outcome="failed"), FOUND),
        (e.ActionSettled(action="a", intent=2, outcome="in_doubt"), FOUND),
        (
            e.ActionSettled(
                action="a", intent=2, outcome="succeeded", error=ErrorRecord(type="Unstorable", message="a socket")
            ),
            FOUND,
        ),
        (e.CheckJudged(name="find", passed=False), Seen()),
        (e.CheckJudged(name="is long enough", passed=True), Seen()),
        (e.FilesCaptured(changes=(), action="a"), WROTE),
        (e.StepBegan(name="find"), Seen()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_only_looks_like_progress_makes_none(payload, seen):
    """An empty search, an error page, a capture before its outcome, a failed or unrelated check, a plan of nothing."""
    assert [] == names(payload, Document(plan=("find",)), seen=seen)


def test_a_milestone_is_made_once_for_what_it_is_about():
    """The second source of a step, a passed step and a draft that is written again make none; the next step does."""
    known = {"knowledge\nfind": 3, "step:find\n": 4, "draft\ndraft.md": 5}
    document = Document(plan=("find",), step="find", milestones=known)
    assert [] == names(SUCCESS, document, seen=FOUND)
    assert [] == names(e.CheckJudged(name="find", passed=True), document)
    assert ["draft"] == names(SUCCESS, document, seen=Seen(drafts=("draft.md", "other.md", "other.md")))
    assert ["knowledge"] == names(SUCCESS, Document(step="write", milestones=known), seen=FOUND)


def test_a_draft_waits_while_a_check_of_its_step_is_failing():
    """A text that a check has refused is no place to go back to; the check that then passes marks it."""
    failing = Document(failing={"has sources": 7})
    assert [] == names(SUCCESS, failing, seen=WROTE)
    assert ["draft"] == names(e.CheckJudged(name="has sources", passed=True), Document(), seen=WROTE)


def test_one_moment_marks_a_few_drafts_only():
    """Who unpacks an archive of a thousand texts has not written a thousand drafts."""
    many = Seen(drafts=tuple(f"{number}.md" for number in range(1_000)))
    assert DRAFTS_AT_ONCE_MAX == len(names(SUCCESS, seen=many))


def test_a_failed_call_may_have_written_a_draft():
    """The file is there all the same; while it is in doubt whether the call is over, nothing is marked."""
    failed = e.ActionSettled(action="a", intent=2, outcome="failed")
    both = Seen(is_source=True, result=FOUND.result, drafts=("draft.md",))
    assert ["draft"] == names(failed, seen=both)
    assert ["knowledge", "draft"] == names(SUCCESS, seen=both)
    assert [] == names(failed, ledger=open_action("workspace"), seen=both)


@pytest.mark.parametrize("preset", ["idempotent", "verifiable", "irreversible", "workspace", "compensable"])
def test_nothing_is_marked_while_an_effect_is_open(preset):
    """What a rollback would make of it could not be told; a read that is under way is in nobody's way."""
    assert [] == names(e.PlanAdopted(steps=("find",)), ledger=open_action(preset))
    assert [] == names(SUCCESS, ledger=open_action(preset), seen=FOUND)
    assert ["knowledge"] == names(SUCCESS, ledger=open_action("pure"), seen=FOUND)


def test_a_long_name_is_cut_so_that_it_can_be_a_checkpoints():
    """A check's name may be as long as a checkpoint's, and `step:` comes before it."""
    check = "x" * 200
    (name,) = names(e.CheckJudged(name=check, passed=True), Document(plan=(check,)))
    assert name.startswith("step:xxx")
    assert 200 >= len(name.encode())


# --- substance ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "result",
    [
        None,
        False,
        "",
        " \n\t",
        b"",
        [],
        (),
        {},
        ["", None],
        [[], {}],
        {"results": []},
        {"query": "rain", "total": 0, "items": []},
        {"data": {"text": ""}},
        {"error": "rate limited", "text": "please wait"},
        {"url": "https://example.org/", "text": ""},
        {"status": 503, "body": "the service is being repaired"},
        "HTTP/1.1 404 Not Found",
        "Error 500: internal server error",
        "Forbidden",
        "Access denied. You do not have permission to see this page.",
        "Just a moment... checking your browser",
        "<html><head><title>404 Not Found</title></head><body><center>nginx</center></body></html>",
        "<html><head><style>body { color: red }</style></head><body>  </body></html>",
        b"<title>502 Bad Gateway</title><h1>502 Bad Gateway</h1>",
    ],
    ids=repr,
)
def test_what_is_empty_or_an_error_page_has_no_substance(result):
    """Nothing found, nothing said, or a server's word that there is nothing to be had."""
    assert not has_substance(result)


@pytest.mark.parametrize(
    "result",
    [
        "Rain falls mainly on the plain.",
        b"\x89PNG\r\n",
        0,
        True,
        ["", "a page"],
        {"results": [{"title": "a page"}]},
        {"title": "a page", "tags": []},
        {"status": "ok", "text": "a page"},
        "Gone with the wind is a film of 1939.",
        "Error handling in three languages, compared.",
        "404 Not Found. " + "How servers came to say so. " * (ERROR_PAGE_LETTERS_MAX // 20),
        "<html><head><title>Rain</title></head><body>It falls mainly on the plain.</body></html>",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_says_something_has_substance(result):
    """Pages about errors, words that begin like one, and answers with an empty part included."""
    assert has_substance(result)


def test_a_draft_is_a_text_of_at_least_120_words():
    """Not one word less, not a binary file, not one too large to be looked at."""
    assert is_draft("wörd ".encode() * 120)
    assert not is_draft(b"word " * 119)
    assert not is_draft(b"word " * 120 + b"\0")
    assert not is_draft(b"w\xf6rd " * 120)
    assert not is_draft(b"word " * (DRAFT_BYTES_MAX // 5 + 1))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["items", "status"]), inner),
        max_leaves=10,
    )
)
def test_any_result_is_judged_and_always_the_same(result):
    """Whatever a tool returns: the rule has an answer, and the same one for an equal result."""
    assert has_substance(result) is has_substance([result])
