"""The page for those who come from a home-made state manager does what it says, killed at every line too."""

import difflib
from collections import Counter

import pytest

from tests.docs import lives, pages
from tests.docs.test_examples import follow

PAGE = pages.ROOT / "docs" / "how-to" / "from-a-home-made-state-manager.md"
CHANGES_MAX = 15
LETTERS = {"to lamp": 1, "to sofa": 1, "to vase": 1}
PRINTED = "3 tickets answered\n"
BREAKING_ONCE = """

mail_unbroken = mail


def mail(to, text, key=""):
    if to == "vase" and not read("broken.txt"):
        write("broken.txt", "once")
        raise ConnectionError("the mail service is gone")
    return mail_unbroken(to, text, key)
"""


def programs(name):
    """Return the texts of the page that are saved under a name, in order."""
    return [block.text for block in pages.blocks_of(PAGE) if block.name == name]


def changed_lines(before, after):
    """Return how many lines were replaced, added or taken out; a replaced line counts once."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in matcher.get_opcodes() if kind != "equal")


def settle_in(folder, version, services=""):
    """Save one version of the agent (0: before, 1: after) and its tickets in a folder made for it."""
    folder.mkdir()
    (folder / "tickets").mkdir()
    for thing in ("lamp", "sofa", "vase"):
        (folder / "tickets" / f"{thing}.txt").write_text(f"where is my {thing}\n")
    (folder / "agent.py").write_text(programs("agent.py")[version], "utf-8")
    (folder / "services.py").write_text(programs("services.py")[0] + services, "utf-8")
    if version == 0:
        (folder / "state_manager.py").write_text(programs("state_manager.py")[0], "utf-8")
    return folder


def book(folder, name):
    """Return how often each line stands in a book of the services, keys left out."""
    path = folder / name
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(line.split(" ", 1)[1] if name == "letters.txt" else line for line in lines)


def killed_at_moments(nursery, tmp_path, version, files, every):
    """Yield (folder, second run) after a kill at each `every`-th moment of a run, and a start by the same command."""
    moments = nursery.live(settle_in(tmp_path / "undisturbed", version), "agent.py", files=files).moments
    assert moments > 50
    for number in range(1, moments + 1, every):
        folder = settle_in(tmp_path / str(number), version)
        assert nursery.live(folder, "agent.py", files=files, kill_at=number).killed
        yield folder, nursery.live(folder, "agent.py")


@pytest.fixture(scope="module")
def nursery():
    """Run programs with perdure imported."""
    with lives.nursery("perdure.sync", "perdure.engine.opening", "perdure.stores.sqlite") as started:
        yield started


def test_the_page_is_what_happens(tmp_path):
    """Its programs are saved, its lines are typed, and they print what the page shows."""
    blocks = pages.blocks_of(PAGE)
    assert ["python", "python", "python", "console", "python", "console"] == [block.language for block in blocks]
    assert [] == [wrong for block in blocks for wrong in follow(block, tmp_path)]


def test_few_lines_change():
    """From the agent of sixty lines to ours at most fifteen lines are changed, added or taken out."""
    before, after = programs("agent.py")
    assert 50 <= len(before.splitlines()) <= 70
    assert changed_lines(before, after) <= CHANGES_MAX
    assert f"changes {changed_lines(before, after)} lines" in PAGE.read_text("utf-8")


def test_killed_before_it_doubles_letters(nursery, tmp_path):
    """The home-made agent, killed at moments of agent and manager: some kills double a letter."""
    files = ("agent.py", "state_manager.py")
    ends = [
        (run.code, book(folder, "letters.txt"))
        for folder, run in killed_at_moments(nursery, tmp_path, 0, files, every=3)
    ]
    assert any(code == 0 and letters != LETTERS and set(letters) == set(LETTERS) for code, letters in ends)


def test_killed_before_inside_a_save_it_cannot_start_again(nursery, tmp_path):
    """An empty file, as a kill between the truncation and the write leaves it, stops the home-made agent for good."""
    folder = settle_in(tmp_path / "agent", 0)
    (folder / "state").mkdir()
    (folder / "state" / "state.json").touch()
    ended = nursery.live(folder, "agent.py")
    assert (1, {}) == (ended.code, book(folder, "letters.txt"))
    assert "JSONDecodeError" in ended.complained


def test_killed_before_inside_a_save_it_begins_at_the_first_ticket(nursery, tmp_path):
    """Where there is a checkpoint, the empty file sends the home-made agent back to it, and a letter goes out again."""
    folder = settle_in(tmp_path / "agent", 0)
    (folder / "state").mkdir()
    (folder / "state" / "checkpoint.json").write_text('{"sent": {}}')
    (folder / "state" / "state.json").touch()
    (folder / "letters.txt").write_text("- to lamp\n")
    assert 0 == nursery.live(folder, "agent.py").code
    assert {**LETTERS, "to lamp": 2} == book(folder, "letters.txt")


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_after_it_sends_each_letter_once(every, nursery, tmp_path):
    """Ours, killed at any moment: the undisturbed result, each letter once, at most one model call made again."""
    for folder, run in killed_at_moments(nursery, tmp_path, 1, ("agent.py",), every):
        assert (0, PRINTED, LETTERS) == (run.code, run.printed, book(folder, "letters.txt")), (folder.name, run)
        asked = book(folder, "model.txt")
        assert (3, True) == (len(asked), asked.total() <= 4), folder.name


def test_an_error_before_doubles_letters(nursery, tmp_path):
    """The home-made agent rolls back after an error, forgets two letters, and sends them again."""
    folder = settle_in(tmp_path / "agent", 0, BREAKING_ONCE)
    assert 0 == nursery.live(folder, "agent.py").code
    assert {"to lamp": 2, "to sofa": 2, "to vase": 1} == book(folder, "letters.txt")


def test_an_error_after_doubles_nothing(nursery, tmp_path):
    """Ours is called again after the error, knows what was sent, and neither sends nor asks anything twice."""
    folder = settle_in(tmp_path / "agent", 1, BREAKING_ONCE)
    run = nursery.live(folder, "agent.py")
    assert (0, PRINTED, LETTERS) == (run.code, run.printed, book(folder, "letters.txt")), run
    assert [1, 1, 1] == list(book(folder, "model.txt").values())
