"""Prose: what is read of each kind of text, on the line where it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.offline.listing import KINDS
from perdure.agent.offline.prose import BREAK, prose_lines


def prose(text, kind):
    """The prose as stripped lines, blocks parted by a stroke."""
    return [line.replace(BREAK, "|").strip("| ") for line in prose_lines(text, kind)]


def test_html_shows_what_a_browser_shows():
    """Tags, comments, scripts and styles are gone, entities are letters, and each word stays on its line."""
    text = "<p class='a\nb'>One <b>bo</b>ld</p><p>T&amp;wo</p>\n<!-- no\nno --><script>a < b\n</script>\nthree < four"
    assert ["", "One bold||T&wo", "", "", "", "three < four"] == prose(text, "html")


def test_unclosed_html_ends_with_the_file():
    """A comment or script that is never closed hides the rest, as in a browser."""
    assert ["one", ""] == prose("one<!-- two\nthree", "html")
    assert ["one", ""] == prose("one<script>two\nthree", "html")


def test_markdown_without_code_and_front_matter():
    """Fenced code, comments and the block of keys before the text are no prose."""
    text = "---\ntitle: x\n---\n# Head\n\n```py\ncode\n# ~~~\n```\nText <!-- hidden\n--> more."
    assert ["", "", "", "# Head", "", "", "", "", "", "Text", "more."] == prose(text, "markdown")


def test_rst_without_literal_blocks():
    """What stands indented after `::` or a code directive is code; a note is prose."""
    text = "See::\n\n  code\n\nText.\n\n.. code-block:: py\n\n   code\n\n.. note:: Mind\n   this."
    expected = ["See::", "", "", "", "Text.", "", "", "", "", "", "Mind", "this."]
    assert expected == prose(text, "rst")


def test_python_shows_its_docstrings():
    """Docstrings are prose; code, comments and other strings, even those that end like a docstring, are not."""
    text = 'X = """\nno\n"""\n# no """\ndef f():\n    r\'\'\'Yes, \\"this\n    too.\n    \'\'\'\n    return "no"\n'
    assert ["", "", "", "", "", 'Yes, \\"this', "too.", "", "", ""] == prose(text, "python")


def test_urls_and_prompts_are_no_words():
    """Addresses and lines of a terminal session say nothing about the topic."""
    assert ["See   now.", ""] == prose("See https://example.org/a?b=c now.\n>>> import os", "text")


@given(st.sampled_from(sorted(set(KINDS.values()))), st.text(st.sampled_from("ab \n<>!-/\"'`#:.\\&;=r")))
def test_lines_stay_where_they_are(kind, text):
    """Whatever the text, there is one line of prose for each line of it: a citation cannot be off."""
    assert text.count("\n") + 1 == len(prose_lines(text, kind))


@pytest.mark.parametrize(
    "unit", ["<", "<!--", "<script>", "</script", "'''", '"', "\\", "`", "a::\n b\n", "&amp;", " "]
)
@pytest.mark.parametrize("kind", sorted(set(KINDS.values())))
def test_hostile_text_takes_linear_time(kind, unit):
    """A hundred thousand openings that never close are read at once; in quadratic time this would take minutes."""
    assert prose_lines(unit * 100_000, kind)
