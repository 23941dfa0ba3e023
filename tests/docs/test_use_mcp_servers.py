"""The page about MCP servers does what it says."""

import pytest

from perdure.tools.mcp.config import read_servers
from tests.docs import pages
from tests.docs.test_examples import follow

PAGE = pages.ROOT / "docs" / "how-to" / "use-mcp-servers.md"


def test_the_page_is_what_happens(tmp_path):
    """Its files are saved, its lines are typed: killed and run again, the letter is sent once."""
    blocks = pages.blocks_of(PAGE)
    assert ["json", "python", "python", "console"] == [block.language for block in blocks]
    for block in blocks[:1]:
        (tmp_path / block.name).write_text(block.text, "utf-8")
    assert [] == [wrong for block in blocks for wrong in follow(block, tmp_path)]


@pytest.mark.parametrize("variables", [{}, {"DESK_COLOUR": "red"}])
def test_the_file_of_the_page_is_read(tmp_path, variables):
    """Its variable has a value for where there is none."""
    block = pages.blocks_of(PAGE)[0]
    (tmp_path / block.name).write_text(block.text, "utf-8")
    (server,) = read_servers(str(tmp_path / block.name), variables)
    assert ("desk", {"send": "irreversible"}, 60.0) == (server.name, server.effects, server.timeout_s)
