"""Places in a state as people type them: read, spelt, written to; what is not there is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import statepath
from perdure.core.tracking import StateTree
from perdure.errors import StatePathInvalid

KEYS = st.text(max_size=8) | st.integers(-3, 9) | st.booleans() | st.none()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("orders[0].price", ("orders", 0, "price")),
        ('prices["a.b"][1]', ("prices", "a.b", 1)),
        ('["x=[y]"].z', ("x=[y]", "z")),
        ("a b.ü", ("a b", "ü")),
        ("years[2024]", ("years", 2024)),
        ("flags[true]", ("flags", True)),
        ("queue[+]", ("queue", statepath.END)),
    ],
)
def test_a_place_is_read_and_spelt(text, path):
    """Both ways come to the same."""
    assert path == statepath.parse(text)
    assert path == statepath.parse(statepath.spell(path))


@given(st.lists(KEYS, min_size=1, max_size=5))
def test_whatever_is_spelt_is_read_again(keys):
    """Any keys that JSON knows, of equal type too."""
    path = statepath.parse(statepath.spell(tuple(keys)))
    assert [(type(key), key) for key in keys] == [(type(key), key) for key in path]


WRONG = ("", ".", "a.", ".a", "a..b", "a[", "a[x]", "a]", "a[[1]]", 'a["b]', "a=b", "a[0]b", "a[{}]")


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_place_is_refused(text):
    """The error names the text."""
    with pytest.raises(StatePathInvalid) as caught:
        statepath.parse(text)
    assert text == caught.value.path


def test_an_assignment_ends_its_place_at_the_first_free_equals_sign():
    """One inside of brackets belongs to the key, one behind to the value."""
    assert (("a", "b=c"), '"d=e"') == statepath.parse_assignment('a["b=c"]="d=e"')
    for text in ("a", "a.b", "=1", "a[0]b=1"):
        with pytest.raises(StatePathInvalid):
            statepath.parse_assignment(text)


def _edited(root, change):
    tree = StateTree(root)
    edit = tree.begin()
    change(edit.view)
    return edit.finish(), tree.root


def test_values_are_put_and_removed():
    """Into dicts, over and behind elements of lists."""

    def change(view):
        statepath.put(view, ("a", "new"), {"x": 1})
        statepath.put(view, ("l", 1, "p"), 5)
        statepath.put(view, ("l", statepath.END), 9)
        statepath.remove(view, ("l", 0))
        statepath.remove(view, ("gone",))

    operations, root = _edited({"a": {}, "l": [1, {"p": 2}], "gone": 0}, change)
    assert {"a": {"new": {"x": 1}}, "l": [{"p": 5}, 9]} == root
    assert operations


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (("b", "c"), "nothing stands at b"),
        (("l", 2), "2 element"),
        (("l", -1), "2 element"),
        (("l", "x"), "2 element"),
        (("l", True), "2 element"),
        (("n", "x"), "no places inside"),
        (("a", statepath.END), "behind its last element"),
    ],
)
def test_places_that_are_not_there_are_refused(path, why):
    """The error says where the way ends."""
    with pytest.raises(StatePathInvalid, match=why):
        _edited({"a": {}, "l": [1, 2], "n": 5}, lambda view: statepath.put(view, path, 1))


def test_what_is_not_there_cannot_be_removed():
    """Neither a key nor an index, nor what is behind the last."""
    for path in (("x",), ("l", 7), ("l", statepath.END)):
        with pytest.raises(StatePathInvalid):
            _edited({"l": [1]}, lambda view, path=path: statepath.remove(view, path))
