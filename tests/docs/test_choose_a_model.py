"""The page about models says what the code says, and its lines print what it shows."""

import re

import pytest

from perdure.llm.naming import PROVIDERS, install_command
from tests.docs import pages
from tests.docs.test_examples import follow

PAGE = pages.ROOT / "docs" / "how-to" / "choose-a-model.md"
BLOCKS = pages.blocks_of(PAGE)


def test_its_table_has_every_provider_with_its_keys_and_the_line_that_installs_it():
    """In the order of the table in the code."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| `(pip .+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    expected = [
        (each.name, " or ".join(f"`{key}`" for key in each.keys) or "none", install_command(each.name))
        for each in PROVIDERS
    ]
    assert expected == rows


def test_what_is_found_is_said(tmp_path, monkeypatch):
    """The first lines are typed, in an environment without other keys."""
    for variable in (key for provider in PROVIDERS for key in provider.keys):
        monkeypatch.delenv(variable, raising=False)
    assert [] == follow(BLOCKS[0], tmp_path)


@pytest.mark.local
def test_the_model_on_this_machine_writes_as_shown(tmp_path):
    """The lines of the other block, behind the first."""
    assert [] == [wrong for block in BLOCKS for wrong in follow(block, tmp_path)]
