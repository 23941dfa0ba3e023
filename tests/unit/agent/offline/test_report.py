"""The report: what is printed cannot break the page, and nothing is quoted twice."""

from perdure.agent.offline.grouping import compare
from perdure.agent.offline.listing import Listing
from perdure.agent.offline.profile import profile_of
from perdure.agent.offline.report import render
from tests.unit.agent.offline.planted import BEES, LONERS


def page_of(texts, failures):
    """The page about `texts`, with `failures`."""
    profiles = {name: profile_of(name, text, "utf-8") for name, text in texts.items()}
    listing = Listing(folder="/absolute", names=sorted([*texts, *failures]), left_aside=[])
    return render(listing, profiles, failures, compare(profiles))


def test_a_reason_stays_in_its_cell():
    """Line ends and pipes in a reason are escaped, and a long one is cut."""
    failures = {"a.txt": {"type": "reading.UnreadableDocument", "message": "one | two\n# three" + "x" * 500}}
    row = page_of({}, failures).splitlines()[-1]
    assert row.startswith("| `a.txt` | one \\x7c two\\x0a# three")
    assert 3 == row.count("|")
    assert len(row) < 200


def test_other_errors_give_their_type_only():
    """The message of an unexpected error may hold anything, an absolute path too, and is not printed."""
    page = page_of({}, {"a.txt": {"type": "builtins.OSError", "message": "no space on /absolute/path"}})
    assert "| `a.txt` | failed: OSError |" in page
    assert "/absolute" not in page


def test_a_sentence_of_two_files_is_quoted_once():
    """What a copy says has been said: the second file gives another sentence, or none."""
    sentence = "The tenant returns the flat swept clean on the day the contract ends."
    page = page_of({"a.txt": sentence, "b.txt": sentence, **BEES, **LONERS}, {})
    assert 1 == page.count(f"“{sentence}”")
