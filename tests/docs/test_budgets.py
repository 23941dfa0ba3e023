"""The page about budgets does what it says."""

from tests.docs import pages
from tests.docs.test_examples import follow

PAGE = pages.ROOT / "docs" / "how-to" / "budgets.md"


def test_the_page_is_what_happens(tmp_path):
    """Its program is saved, its lines are typed, and they print what the page shows."""
    blocks = pages.blocks_of(PAGE)
    assert ["python", "console"] == [block.language for block in blocks]
    assert [] == [wrong for block in blocks for wrong in follow(block, tmp_path)]
