"""Sentences: quotations that are true to the letter and to the line."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.offline.prose import prose_lines
from perdure.agent.offline.sentences import lines_quoted, pick_sentences
from perdure.agent.offline.terms import words_of


def pick(text, kind="text", most=5):
    """The sentences picked from `text`."""
    source = text.split("\n")
    return pick_sentences(source, prose_lines(text, kind), Counter(words_of(text)), most)


def places(text, kind="text"):
    """Sentence → its lines."""
    return {each["text"]: (each["first"], each["last"]) for each in pick(text, kind)}


def test_a_sentence_over_two_lines_is_cited_by_both():
    """The lines of a sentence are stripped and joined by one blank, and both are named."""
    text = "Heading\n=======\n\n  The old queen leaves the hive with half\n  of the bees in May. Scouts find a tree."
    found = places(text)
    assert (4, 5) == found["The old queen leaves the hive with half of the bees in May."]


def test_abbreviations_end_no_sentence():
    """A point after an abbreviation or an initial goes on."""
    text = "Bees (e.g. honey bees) and Dr. J. Smith's wasps build combs of wax. Another sentence follows that one here."
    assert "Bees (e.g. honey bees) and Dr. J. Smith's wasps build combs of wax." in places(text)


def test_items_headings_and_code_are_not_run_together():
    """An item of a list begins anew, a heading in capitals is no sentence, a rule parts."""
    items = ["The queen bee lays two thousand eggs a day.", "The drones leave the hive in late summer."]
    text = f"SYNOPSIS OF HIVES\n- {items[0]}\n- {items[1]}\n--------\n"
    assert set(items) == places(text).keys()


def test_what_would_change_the_page_is_not_quoted():
    """A sentence with a tag, an entity, a picture or a link in it cannot be printed as it is."""
    text = "".join(
        f"The bees carry pollen {sign} to the hive every morning.\n\n" for sign in ("<b>", "&lt;", "![x]", "[a](b)")
    )
    assert {} == places(text)


def test_html_is_quoted_where_no_tag_is_in_the_way():
    """A sentence inside a paragraph is verbatim; one with emphasis inside is not, and is left out."""
    text = "<p>The crust of rye bread is dark and thick.</p>\n<p>The crumb of <b>rye</b> bread is moist and dense.</p>"
    assert {"The crust of rye bread is dark and thick.": (1, 1)} == places(text, "html")


def test_sentences_of_other_scripts():
    """Chinese ends its sentences without blanks, and is quoted too."""
    assert "蜜蜂在花园里采集花蜜然后飞回蜂巢。" in places("蜜蜂在花园里采集花蜜然后飞回蜂巢。养蜂人收获蜂蜜。")


def test_the_same_is_not_said_twice():
    """A sentence that repeats most of the words of a better one is left out."""
    text = "The queen bee lays her eggs in the brood comb.\n\nThe queen bee lays her eggs in the brood comb daily."
    assert 1 == len(pick(text))


WORDS = st.sampled_from(
    ["The", "queen", "bees", "honey.", "Hive", "e.g.", "wax", "comb!", "<b>", "</b>", "&amp;", "-", '"""']
)
GAPS = st.sampled_from([" ", "  ", "\n", "\n\n", "\n   ", "\t", "\u00a0", "\f"])


@given(st.lists(st.tuples(WORDS, GAPS), max_size=80), st.sampled_from(["text", "markdown", "rst", "html", "python"]))
def test_each_quotation_stands_where_it_is_said_to(parts, kind):
    """For any text of any kind: the lines cited, stripped and joined by a blank, contain the quotation."""
    text = "".join(word + gap for word, gap in parts)
    for each in pick(text, kind):
        assert each["text"] in lines_quoted(text.split("\n"), each["first"], each["last"])
        assert each["text"].isprintable()
