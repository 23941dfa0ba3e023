"""The page for people who come from AutoGPT does what it says, against a scripted service."""

import shutil
from pathlib import Path

import pytest

from tests.agent.modelserver import Answer, ModelServer
from tests.docs import pages
from tests.docs.test_examples import fits, run, typed_lines

PAGE = pages.ROOT / "docs" / "how-to" / "come-from-autogpt.md"
STATE = pages.ROOT / "tests" / "fixtures" / "autogpt" / "state-0.6.json"
ADDRESS = "http://127.0.0.1:8080/v1"


def writing(asked):
    """Stand for a model that writes the index and says so, and for the judge that believes it."""
    if "response_format" in asked.body:
        return Answer(text='{"passed": true, "reason": "index.md is there"}')
    called = [call["function"]["name"] for m in asked.messages for call in m.get("tool_calls") or ()]
    if called and called[-1] == "execute_shell":
        return Answer(calls=(("finish", {"result": "index.md is written"}),))
    return Answer(text="I write it.", calls=(("execute_shell", {"command_line": "echo '- a.txt' >> index.md"}),))


@pytest.fixture
def project(tmp_path):
    """A project of AutoGPT's with the files of the page, an agent under way, and the service behind them."""
    with ModelServer(writing) as server:
        for block in pages.blocks_of(PAGE):
            if block.name:
                (tmp_path / block.name).write_text(block.text.replace(ADDRESS, server.base_url), "utf-8")
        agent = tmp_path / "data" / "agents" / "TidyGPT-7c1f03aa"
        (agent / "workspace").mkdir(parents=True)
        shutil.copy(STATE, agent / "state.json")
        yield tmp_path, server
        assert [] == server.problems()


def test_the_lines_of_the_page_print_what_it_shows(project):
    """Typed one after the other; each prints what stands below it, stderr first."""
    folder, server = project
    for block in (block for block in pages.blocks_of(PAGE) if block.language == "console"):
        for line, shown in typed_lines(block):
            done = run(["bash", "-c", line], folder)
            assert (0, True) == (done.returncode, fits(shown, done.stderr + done.stdout)), done.stderr + done.stdout
    assert {1} == set(server.served().values())
    bodies = [request["body"]["messages"][0]["content"] for request in server.requests()]
    assert "Never delete a letter" in bodies[0]
    workspace = folder / "data" / "agents" / "TidyGPT-7c1f03aa" / "workspace"
    assert "- a.txt\n" == (workspace / "index.md").read_text("utf-8")


def test_no_key_of_the_page_is_recorded(project):
    """In no file of the store."""
    folder, _ = project
    line, _ = typed_lines(next(block for block in pages.blocks_of(PAGE) if block.language == "console"))[0]
    assert 0 == run(["bash", "-c", line], folder).returncode
    found = [path for path in Path(folder, ".perdure").rglob("*") if path.is_file()]
    assert found
    assert [] == [path for path in found if b"sk-for-this-service-only" in path.read_bytes()]
