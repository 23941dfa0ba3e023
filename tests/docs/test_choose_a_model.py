"""The page about models says what the code says, and its lines print what it shows."""

import dataclasses
import json
import re

import pytest

from perdure.llm.naming import PROVIDERS, install_command
from tests.agent.modelserver import Answer, Asked, ModelServer
from tests.docs import pages
from tests.docs.test_examples import follow

PAGE = pages.ROOT / "docs" / "how-to" / "choose-a-model.md"
FOUND, SERVICE, LOCAL = pages.blocks_of(PAGE)


def reader(asked: Asked) -> Answer:
    """A model that plans one step, says how many pages there are, and believes it."""
    if asked.system.startswith("You judge"):
        return Answer(text='{"passed": true, "reason": "it was said"}')
    if not asked.tools:
        return Answer(text=json.dumps({"steps": [{"title": "count the pages"}]}))
    return Answer(text="There are three pages.")


def test_its_table_has_every_provider_with_its_keys_and_the_line_that_installs_it():
    """In the order of the table in the code."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| `(pip .+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    expected = [
        (each.name, " or ".join(f"`{key}`" for key in each.keys) or "none", install_command(each.name))
        for each in PROVIDERS
    ]
    assert expected == rows


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    """An environment without keys and addresses."""
    for variable in (
        *(key for provider in PROVIDERS for key in provider.keys),
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE_URL",
    ):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.local  # of which one line tells
def test_what_is_found_is_said(tmp_path):
    """The first lines are typed."""
    assert [] == follow(FOUND, tmp_path)


def test_a_service_on_this_machine_is_asked(tmp_path):
    """The command is typed as it stands, but for the address; the service sees valid histories and the model's name."""
    with ModelServer(reader) as server:
        typed = dataclasses.replace(SERVICE, text=SERVICE.text.replace("http://127.0.0.1:8000/v1", server.base_url))
        assert typed != SERVICE
        assert [] == follow(typed, tmp_path)
        assert [] == server.problems()
        assert {"qwen3-8b"} == {request["model"] for request in server.requests()}


@pytest.mark.local
def test_the_model_on_this_machine_writes_as_shown(tmp_path):
    """The lines of the last block, behind the first."""
    assert [] == [wrong for block in (FOUND, LOCAL) for wrong in follow(block, tmp_path)]
