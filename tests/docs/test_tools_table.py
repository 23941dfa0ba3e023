"""The table of all tools of the agent is that of the code: names, aliases, parameters, effect class."""

from perdure.model.effect import PRESETS
from perdure.tools.builtin.catalogue import catalogue
from perdure.tools.offering import offered_parameters
from tests.docs import pages

PAGE = pages.ROOT / "docs" / "reference" / "tools.md"
WORDS = {effect: word for word, effect in PRESETS.items()}


def table():
    """Return the rows, as the page has them."""
    tools = {tool.name: tool for tool in catalogue().values()}
    for name, tool in sorted(tools.items()):
        parameters = ", ".join(f"`{one}`" for one in offered_parameters(tool)) or "none"
        aliases = ", ".join(f"`{one}`" for one in tool.aliases)
        yield f"| `{name}` | {aliases} | {parameters} | {WORDS[tool.effect]} |"


def test_every_tool_has_its_row():
    """In the order of their names, and no other."""
    rows = list(table())
    assert len(rows) > 15
    assert "\n".join(rows) in PAGE.read_text("utf-8")
