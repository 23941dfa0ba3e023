"""Texts of the workspace count by their place in it; all else counts as it is, and nothing collides with them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.codec import values
from perdure.core import relative

HERE, THERE = "/a/ws", '/b c/\u00e9"ws'
_WS = "{ws}"  # at the beginning of a text: the workspace, wherever it is

texts = st.sampled_from(
    [
        _WS, f"{_WS}/", f"{_WS}/x", f"{_WS}/x/y", f"{_WS}2", f"{_WS}2/x", f"{_WS}/\0", f"{_WS}/\udc80",
        f"x{_WS}/x", f'"{_WS}/x', "", "/", "/x", "x", "\0", "\0/", "\0/x",
        "\0\0", "\0\0/x", "\0\udc80", "\udc80", "\\u0000", '"\0',
    ]
) | st.text(max_size=3)  # fmt: skip
leaves = texts | st.none() | st.integers(0, 2) | st.sampled_from([b"/a/ws/x", 1.5])
keys = texts | st.integers(0, 1) | st.tuples(texts) | st.frozensets(texts, max_size=1)
plain = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.tuples(inner)
        | st.dictionaries(keys, inner, max_size=2)
        | st.sets(keys, max_size=2)
        | st.frozensets(keys, max_size=2)
    ),
    max_leaves=4,
)


def standing(value, base):
    """Return `value` with workspace `base` for each "{ws}" at the beginning of a text."""
    return _each_text(value, lambda text: base + text.removeprefix(_WS) if text.startswith(_WS) else text)


def meant(value, base):
    """Return in so many words what `value` says: the slow and sure way."""

    def word(text):
        if text == base:
            return ("the workspace",)
        return ("below it", text[len(base) + 1 :]) if text.startswith(f"{base}/") else ("a text", text)

    return _each_text(value, word)


def _each_text(value, change):
    if type(value) is str:
        return change(value)
    if type(value) is dict:
        return {_each_text(key, change): _each_text(item, change) for key, item in value.items()}
    if type(value) in {list, tuple, set, frozenset}:
        return type(value)(_each_text(item, change) for item in value)
    return value


def counted(value, base):
    """Return the bytes that stand for `value` in a digest, as `engine/arguments.py` makes them."""
    canonical = values.canonical(value)
    return values.canonical(relative.placed(value, base)) if relative.is_concerned(canonical, base) else canonical


@given(plain)
@example({f"{_WS}/x": 1, "m": 2})  # sorts elsewhere
def test_a_value_counts_the_same_wherever_the_workspace_is(value):
    """Equal under both, unless the texts say different things: one that only begins like the workspace does."""
    here, there = standing(value, HERE), standing(value, THERE)
    is_same = values.canonical(meant(here, HERE)) == values.canonical(meant(there, THERE))
    assert is_same == (counted(here, HERE) == counted(there, THERE))


@given(plain, plain)
@example(f"{_WS}/x", "\0/x")
@example(_WS, "\0")
@example("\0\0/x", "\0/x")
@example(f"{_WS}/\udc80", "\0/\udc80")
@example([f"{_WS}/x"], ["/a/ws/x"])
def test_two_values_count_the_same_only_where_they_mean_the_same(one, other):
    """Whatever begins like the mark of the workspace gets one more: no text can pass for a place in it."""
    left, right = standing(one, HERE), standing(other, THERE)
    is_same = values.canonical(meant(left, HERE)) == values.canonical(meant(right, THERE))
    assert is_same == (counted(left, HERE) == counted(right, THERE))


@given(plain)
def test_what_is_not_concerned_stays_as_it_is(value):
    """The quick look at the canonical bytes never passes over a text that would be changed."""
    here = standing(value, HERE)
    canonical = values.canonical(here)
    if not relative.is_concerned(canonical, HERE):
        assert canonical == values.canonical(relative.placed(here, HERE))


@pytest.mark.parametrize("text", ["/a/ws2", "/a/ws2/x", "/a/w", "/a", "x/a/ws", "/A/ws/x", "/a/./ws/x", "/a/ws2\0"])
def test_what_lies_elsewhere_is_a_text_like_any_other(text):
    """The same letters, a folder above, another spelling."""
    assert text == relative.placed(text, HERE)


def test_what_is_no_plain_value_is_handed_through():
    """A view of the state keeps its own rule."""
    view = object()
    assert [view, "\0/x"] == relative.placed([view, "/a/ws/x"], HERE)
