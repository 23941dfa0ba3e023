"""The pages about other people's agents do what they say: few lines change, both versions run, the second survives."""

import difflib
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tests.agent.modelserver import Answer, ModelServer
from tests.docs import pages

PYDANTIC = pages.ROOT / "docs" / "how-to" / "make-a-pydantic-ai-agent-durable.md"
LANGGRAPH = pages.ROOT / "docs" / "how-to" / "inside-a-langgraph-node.md"
QUESTION = "Where is order 7?"


def helps(asked):
    """Return what the model says to a customer."""
    match asked.turn:
        case 0:
            return Answer(calls=(("look_up", {"order": "7"}), ("look_up", {"order": "8"})))
        case 1:
            return Answer(calls=(("refund", {"order": "7"}), ("refund", {"order": "8"})))
        case _:
            return Answer(text="Both are paid back.")


def versions(page, name):
    """Return the texts of a page that are saved under a name: before and after."""
    return [block.text for block in pages.blocks_of(page) if block.name == name]


@pytest.mark.parametrize(("page", "name", "changes_max"), [(PYDANTIC, "support.py", 10), (LANGGRAPH, "graph.py", 15)])
def test_few_lines_change(page, name, changes_max):
    """As many as the page says, and no more than are promised; blank lines are not counted."""
    before, after = ([line for line in text.splitlines() if line.strip()] for text in versions(page, name))
    pieces = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changed = sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in pieces if kind != "equal")
    assert changed <= changes_max
    assert re.search(rf"changes {changed} lines", page.read_text("utf-8")), changed


def live(folder, *arguments, **environ):
    """Run a script in a folder; return (exit code, what it printed)."""
    environment = pages.environment(folder, NO_PROXY="127.0.0.1", **environ)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def book(folder, name):
    """Return how often each line stands in a book, without its key."""
    path = folder / name
    return Counter(line.rpartition(" ")[2] for line in path.read_text().splitlines()) if path.exists() else Counter()


@pytest.fixture
def shop(tmp_path):
    """Save the shop and one version of the agent; returns how."""

    def save(version):
        folder = tmp_path / str(version)
        folder.mkdir(exist_ok=True)
        (folder / "shop.py").write_text(versions(PYDANTIC, "shop.py")[0], "utf-8")
        (folder / "support.py").write_text(versions(PYDANTIC, "support.py")[version], "utf-8")
        return folder

    return save


@pytest.mark.parametrize("version", [0, 1], ids=["before", "after"])
def test_undisturbed_both_agents_do_the_same(version, shop):
    """The same answer, the same requests, each order paid back once."""
    with ModelServer(helps) as server:
        code, out, err = live(
            folder := shop(version), "support.py", QUESTION, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-none"
        )
        assert (code, out) == (0, "Both are paid back.\n"), err
        assert (len(server.requests()), server.problems()) == (3, [])
    assert Counter({"7": 1, "8": 1}) == book(folder, "refunds.txt")


def test_killed_the_agent_goes_on_and_pays_nothing_twice(shop):
    """SIGKILL at some of its points: the second start gives the answer, each request was sent once, each refund too."""
    kills = 0
    for number in (3, 9, 13, 16, 20):
        with ModelServer(helps) as server:
            folder = shop(1)
            found = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-none"}
            crash = {"PERDURE_TESTING": "1", "PERDURE_CRASH": f"any:{number}"}
            code, _, _ = live(folder, "support.py", QUESTION, **found, **crash)
            kills += code == -signal.SIGKILL
            code, out, err = live(folder, "support.py", QUESTION, **found)
            assert (code, out) == (0, "Both are paid back.\n"), err
            sent = Counter(row["key"] for row in server.requests())
            assert (len(sent), sent.total() <= 4) == (3, True)
        assert Counter({"7": 1, "8": 1}) == book(folder, "refunds.txt")
        for name in (*folder.glob(".perdure/*.db*"), folder / "refunds.txt"):
            os.unlink(name)
    print(f"killed {kills} times")
    assert kills == 5


def test_killed_the_agent_can_be_resumed_by_the_command(shop):
    """The command imports the script, whose start stands behind its guard; a replay makes the same calls."""
    with ModelServer(helps) as server:
        folder = shop(1)
        found = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-none"}
        code, _, _ = live(folder, "support.py", QUESTION, **found, PERDURE_TESTING="1", PERDURE_CRASH="any:9")
        assert code == -signal.SIGKILL
        code, out, err = live(folder, "-m", "perdure", "resume", "support", "--quiet", **found)
        assert (code, out.splitlines()[-1]) == (0, "Both are paid back."), err
        code, out, err = live(folder, "-m", "perdure", "replay", "support", **found)
        assert code == 0, out + err
        assert 3 == len(server.requests())
    assert Counter({"7": 1, "8": 1}) == book(folder, "refunds.txt")


def node(tmp_path, version):
    """Save one version of the graph."""
    folder = tmp_path / str(version)
    folder.mkdir()
    (folder / "graph.py").write_text(versions(LANGGRAPH, "graph.py")[version], "utf-8")
    return folder


@pytest.mark.parametrize("version", [0, 1], ids=["before", "after"])
def test_undisturbed_both_graphs_do_the_same(version, tmp_path):
    """Three letters, each once."""
    folder = node(tmp_path, version)
    code, out, err = live(folder, "graph.py")
    assert (code, out) == (0, "3 letters\n"), err
    letters = (folder / "sent.txt").read_text().splitlines()
    assert ["north", "east", "south"] == [letter.split()[0] for letter in letters]


@pytest.mark.parametrize("by_command", [False, True])
def test_killed_in_the_node_the_graph_goes_on_in_it(by_command, tmp_path):
    """Killed behind the second letter: the second start, or the command, asks and sends only what is left."""
    folder = node(tmp_path, 1)
    code, _, _ = live(folder, "graph.py", PERDURE_TESTING="1", PERDURE_CRASH="after_outcome:4")
    assert code == -signal.SIGKILL
    if by_command:
        code, _, err = live(folder, "-m", "perdure", "resume", "correspondence", "--quiet")
        assert code == 0, err
    code, out, err = live(folder, "graph.py")
    assert (code, out) == (0, "3 letters\n"), err
    assert ["north", "east", "south"] == (folder / "asked.txt").read_text().split()
    assert 3 == len((folder / "sent.txt").read_text().splitlines())
