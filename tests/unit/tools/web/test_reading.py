"""Bytes to text, and a page to what it says."""

from __future__ import annotations

import codecs

import pytest

from perdure.tools.web.reading import GAP, Link, choose, decode, read_html

GERMAN = "Grüße aus Köln, schön war's – für 5 €"


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("utf-8", ""),
        ("utf-8", "iso-8859-1"),  # told wrong, as many servers do by default
        ("utf-8", "no-such-charset"),
        ("utf-8", "rot13"),  # a codec of Python's, and none of text
        ("windows-1252", "windows-1252"),
        ("windows-1252", "iso-8859-1"),  # what browsers read where that is told
        ("windows-1252", "utf-8"),
        ("windows-1252", ""),
        ("utf-16-le", "utf-16-le"),
    ],
)
def test_text_is_read_in_the_encoding_in_which_it_makes_sense(encoding, told):
    """Told right, told wrong, not told: the same text."""
    assert GERMAN == decode(GERMAN.encode(encoding), told, is_cut=False)


def test_what_passes_for_utf_8_and_means_something_else_is_read_as_told():
    """Encodings of seven bits are all ASCII on the wire."""
    assert "日本語" == decode("日本語".encode("iso2022_jp"), "iso-2022-jp", is_cut=False)


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_a_mark_at_the_beginning_says_more_than_the_header(mark):
    """And is no part of the text."""
    encoding = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}[mark]
    assert GERMAN == decode(mark + GERMAN.encode(encoding), "windows-1252", is_cut=False)


def test_a_page_may_say_its_encoding_itself():
    """In `meta`, or in the first line of XML."""
    page = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>Привет'
    assert page == decode(page.encode("windows-1251"), "", is_cut=False)
    feed = '<?xml version="1.0" encoding="windows-1251"?><a>Привет</a>'
    assert feed == decode(feed.encode("windows-1251"), "", is_cut=False)


def test_an_encoding_that_nobody_tells_is_guessed_from_enough_text():
    """A few bytes would fit anything: they are read as windows-1252."""
    text = "日本語のテキストです。今日は天気がいいから散歩しましょう。" * 10
    assert text == decode(text.encode("shift_jis"), "", is_cut=False)
    assert "café" == decode("café".encode("latin-1"), "", is_cut=False)


def test_a_page_that_was_cut_inside_of_a_letter_is_still_utf_8():
    """Its last letter is left out; one that should be whole is not UTF-8."""
    body = "Köln, schön".encode()[:-2]
    assert "Köln, sch" == decode(body, "", is_cut=True)
    assert "Köln, sch" != decode(body, "", is_cut=False)


def test_of_a_page_its_main_text_its_title_and_its_links_are_kept():
    """Not its scripts; links are whole addresses, each once, of the web only."""
    page = """<html><head><title> The
      cat</title><base href="/base/"><script>var x = 1</script></head><body><article><h1>The cat</h1>
      <p>The cat sat on the mat, for a long time, and looked at the birds in the garden of the house.</p>
      <p>See <a href="birds#top">the birds</a>, <a href="birds">again</a>, <a href="mailto:a@b.example">a mail</a>,
      <a href="https://other.example/x">elsewhere</a>, <a href="http://[broken">nowhere</a>, <a href="y"></a>.</p>
      </article></body></html>"""
    found = read_html(page, "http://site.example/dir/page")
    assert "The cat" == found.title
    assert "The cat sat on the mat" in found.text
    assert "var x" not in found.text
    birds = Link(text="the birds", url="http://site.example/base/birds")
    assert [birds, Link(text="elsewhere", url="https://other.example/x")] == found.links


@pytest.mark.parametrize(
    ("page", "text"), [("", ""), ("  \n", ""), ("<p>hi &amp; bye</p>", "hi & bye"), ("no page", "no page")]
)
def test_what_is_hardly_a_page_is_read_as_what_there_is(page, text):
    """Nothing is made up, and nothing raises."""
    assert text == read_html(page, "http://site.example/").text


def test_of_a_long_page_the_passages_that_speak_of_it_are_chosen():
    """In their order, within the bound, with a sign where others were left out."""
    passages = [f"passage {at} about nothing" for at in range(100)]
    passages[70], passages[20] = "The Dogs bark at night", "dogs and cats"
    text = "\n".join(passages)
    assert text == choose(text, ["dogs"], len(text))
    assert "\n".join([GAP, passages[20], GAP, passages[70], GAP]) == choose(text, ["What about DOGS?"], 100)
    assert "\n".join([GAP, passages[20], GAP]) == choose(text, ["dogs", "cats"], 30)


def test_where_nothing_speaks_of_it_the_beginning_is_chosen():
    """As much as fits, and of one passage without an end its beginning."""
    text = "\n".join(f"passage {at}" for at in range(100))
    assert f"passage 0\npassage 1\n{GAP}" == choose(text, ["dogs"], 25)
    assert "x" * 10 == choose("x" * 50, [], 10)
