"""The page about the agent does what it says: typed line by line, and with its first process killed."""

import signal

import pytest

from tests.agent.modelserver import ModelServer
from tests.docs import pages
from tests.docs.keeping import keeper
from tests.docs.test_examples import fits, run, typed_lines

PAGE = pages.ROOT / "docs" / "how-to" / "run-an-agent.md"
LINES = [typed for block in pages.blocks_of(PAGE) if block.language == "console" for typed in typed_lines(block)]
RUN = next(line for line, _ in LINES if line.startswith("perdure run"))


@pytest.fixture
def service(monkeypatch):
    """A service whose model is played, and the variables by which it is found."""
    with ModelServer(keeper) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server
        assert [] == server.problems()


def type_lines(folder, lines):
    """Type lines as at a terminal, stdout and stderr together; return what went otherwise than the page says."""
    wrong = []
    for line, shown in lines:
        expected = 3 if line.endswith("# exits with 3") else 0
        done = run(["bash", "-c", f"exec 2>&1\n{line}"], folder)
        if done.returncode != expected or not fits(shown, done.stdout):
            wrong.append((line, done.returncode, done.stdout))
    return wrong


def test_its_lines_print_what_it_shows_and_no_request_is_sent_twice(service, tmp_path):
    """From the goal to the replay; after the rollback the model is asked about other words."""
    assert [] == type_lines(tmp_path, LINES)
    assert {1} == set(service.served().values())


@pytest.mark.parametrize(
    ("point", "twice"), [("after_effect:2", 1), ("after_intent:3", 0), ("after_outcome:4", 0), ("after_effect:6", 1)]
)
def test_killed_it_is_resumed_and_the_rest_of_the_page_holds(service, tmp_path, point, twice):
    """The line that the page gives goes on to the same question; only a request that was in flight is sent twice."""
    begin = LINES.index(next(typed for typed in LINES if typed[0] == RUN))
    assert [] == type_lines(tmp_path, LINES[:begin])
    killed = run(["bash", "-c", f"exec {RUN}"], tmp_path, PERDURE_CRASH=point, PERDURE_TESTING="1")
    assert -signal.SIGKILL == killed.returncode
    resumed = run(["bash", "-c", "perdure resume lamps"], tmp_path)
    assert (3, True) == (resumed.returncode, LINES[begin][1].splitlines()[-1] in resumed.stderr), resumed.stderr
    assert [] == type_lines(tmp_path, LINES[begin + 1 :])
    assert twice == sum(service.served().values()) - len(service.served())
