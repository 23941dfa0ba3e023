"""The page about a task that needs somebody does what it says."""

from tests.docs import pages
from tests.docs.test_examples import follow

PAGE = pages.ROOT / "docs" / "how-to" / "a-task-that-needs-you.md"


def test_the_page_is_what_happens(tmp_path):
    """Its files are saved, its lines are typed, and they print what the page shows."""
    blocks = pages.blocks_of(PAGE)
    assert ["python", "python", "toml", "console"] == [block.language for block in blocks]
    (tmp_path / ".perdure").mkdir()
    (tmp_path / ".perdure" / "config.toml").write_text(blocks[2].text, "utf-8")
    assert [] == [wrong for block in blocks for wrong in follow(block, tmp_path)]
