"""All tools that come with the agent: their names, and that each can be offered to a model."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure.errors import ToolInvalid
from perdure.tools import tool
from perdure.tools.builtin import catalogue as module
from perdure.tools.builtin.catalogue import catalogue
from perdure.tools.offering import FILLED_IN, offer

AUTOGPT = {
    "read_file", "write_to_file", "append_to_file", "list_folder", "copy_file", "move_file", "delete_file",
    "search_in_files", "get_file_info", "execute_shell", "execute_python_code", "execute_python_file", "web_search",
    "read_webpage", "fetch_webpage",
}  # fmt: skip
ALIASES = {
    "write_file": "write_to_file", "create_file": "write_to_file", "append_file": "append_to_file",
    "list_files": "list_folder", "rename_file": "move_file", "remove_file": "delete_file",
    "grep_files": "search_in_files", "file_info": "get_file_info", "file_stats": "get_file_info",
}  # fmt: skip


def test_the_commands_of_autogpt_are_there_under_its_names():
    """Each is found by its name and by the other names that AutoGPT gives it."""
    found = catalogue()
    assert AUTOGPT <= {tool.name for tool in found.values()}
    assert ALIASES == {alias: found[alias].name for alias in ALIASES}


@pytest.mark.parametrize("name", sorted({tool.name for tool in catalogue().values()}))
def test_each_tool_tells_a_model_what_it_does_and_takes(name):
    """It has a description, each parameter too; nothing that the agent fills in is offered."""
    made = offer(catalogue()[name])
    assert made["description"].endswith(".")
    assert made["schema"]["properties"].keys().isdisjoint(FILLED_IN)
    assert [] == [name for name, each in made["schema"]["properties"].items() if not each.get("description")]


def test_two_tools_of_one_name_are_refused(monkeypatch):
    """A module whose tool has the name or alias of another's is told by both places."""
    other = type(sys)("tests.other")
    other.mine = tool(effect="pure", name="mine", aliases=("file_info",))(lambda: 1)
    monkeypatch.setitem(sys.modules, "tests.other", other)
    monkeypatch.setattr(module, "MODULES", (*module.MODULES, "tests.other"))
    with pytest.raises(ToolInvalid, match=r"perdure\.tools\.builtin\.files and .* both have it"):
        catalogue()


def test_the_catalogue_is_read_without_heavy_libraries():
    """Whoever only looks a tool up waits for no client, parser or schema."""
    heavy = {"pydantic", "httpx2", "ddgs", "trafilatura", "lxml", "mcp", "charset_normalizer"}
    program = f"import sys, perdure.tools.builtin.catalogue as c; c.catalogue(); print({heavy} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "set()\n" == ran.stdout
