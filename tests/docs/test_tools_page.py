"""The page about the agent's tools says what they are."""

import inspect
import re

import pytest

from perdure import limits
from perdure.tools.builtin import web
from perdure.tools.offering import FILLED_IN
from tests.docs import pages

TEXT = (pages.ROOT / "docs" / "reference" / "tools.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\w+)\((.*?)\)` \| .* \| (\w+) \|$", TEXT, re.MULTILINE)


def test_the_tools_of_the_web_have_their_rows():
    """All of them, and no others."""
    tools = {value.name for value in vars(web).values() if isinstance(value, type(web.web_search))}
    assert tools == {name for name, _, _ in ROWS}


@pytest.mark.parametrize(("name", "parameters", "effect"), ROWS)
def test_a_row_names_parameters_and_effect_as_they_are(name, parameters, effect):
    """Those that the agent fills in are no business of the reader."""
    tool = getattr(web, name)
    assert ("pure", "free/nothing") == (effect, str(tool.effect))
    offered = [name for name in inspect.signature(tool.fn).parameters if name not in FILLED_IN]
    assert offered == [part.partition("=")[0] for part in parameters.split(", ")]


def test_the_bounds_on_the_page_are_those_of_the_code():
    """Numbers of `limits.py`."""
    for said in (
        f"{limits.PAGE_S:g} s; {limits.PAGE_CONNECT_S:g} s to connect, {limits.PAGE_READ_S:g} s between",
        f"| redirects | {limits.PAGE_REDIRECTS_MAX} |",
        f"{limits.PAGE_BYTES_MAX // limits.MIB} MiB; of more",
        f"up to {limits.PAGE_LINKS_MAX} links",
        f"over\n{limits.PAGE_PASSAGES_LETTERS:,} letters",
        f"up to {limits.SEARCH_RESULTS_MAX} of",
    ):
        assert said in TEXT
