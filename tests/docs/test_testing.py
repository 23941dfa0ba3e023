"""The pages about `perdure.testing` do what they say."""

import re

import perdure.testing
from tests.docs import pages
from tests.docs.test_examples import fits, run, typed_lines

HOW_TO = pages.ROOT / "docs" / "how-to" / "test-your-program.md"
REFERENCE = pages.ROOT / "docs" / "reference" / "testing.md"


def test_the_tests_of_the_page_pass(tmp_path):
    """The page's test file is saved, its line is typed, and pytest says what the page shows."""
    program, console = pages.blocks_of(HOW_TO)
    (tmp_path / program.name).write_text(program.text, "utf-8")
    ((line, shown),) = typed_lines(console)
    done = run(["bash", "-c", line], tmp_path, PYTEST_PLUGINS="perdure.testing.plugin")
    assert 0 == done.returncode, done.stdout
    assert fits(shown, done.stdout)


def test_every_public_name_is_explained():
    """The table of the reference has each name of `perdure.testing`."""
    text = REFERENCE.read_text("utf-8")
    assert [] == [name for name in perdure.testing.__all__ if not re.search(rf"`{name}\b", text)]
