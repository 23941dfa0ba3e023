"""Views against plain containers: any edit, whichever way it ends."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.codec import values
from perdure.core.touched import DEPTH_MAX, NODES_MAX, Touched
from perdure.core.tracking import MapView, SetView, StateTree, apply
from perdure.errors import CodecError, StaleView, Unstorable
from perdure.model.patch import Op, ops_from_value, ops_to_value
from tests.property.drawing import KEYS, LEAVES, VALUES, face

NAMES = st.sampled_from(["a", "b", "c", 1, True, 1.0, 0, ("t", 1), None, "~"])
MEMBERS = NAMES | KEYS
ONE_FORM = st.sets(st.sampled_from(["a", "b", None]))  # where `{1} & {True}` is either, ours keeps what is there
ROOTS = st.dictionaries(NAMES, VALUES, max_size=5)
BRANCHES = st.recursive(
    st.integers(0, 3) | st.just("x") | st.sets(NAMES, max_size=3) | LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=15,
)
INSERTED = BRANCHES | VALUES
INDEXES = st.integers(-7, 7)
BOUNDS = st.none() | INDEXES
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.sampled_from([None, 1, 2, -1, -2]))

# A step is (draw, do): what it needs at random, and what it does to a container, be it plain or a view.
Step = tuple[st.SearchStrategy[Any], Callable[[Any, Any], Any]]


def _iadd(target: Any, items: Any) -> None:
    target += items


def _imul(target: Any, times: int) -> None:
    target *= times


def _ior(target: Any, other: Any) -> None:
    target |= other


def _iand(target: Any, other: Any) -> None:
    target &= other


def _isub(target: Any, other: Any) -> None:
    target -= other


def _ixor(target: Any, other: Any) -> None:
    target ^= other


def _sort(target: Any, backwards: bool) -> None:
    target.sort(key=lambda item: len(str(item)), reverse=backwards)


def _insert(target: Any, item: Any) -> None:
    if isinstance(target, MapView):
        target["new"] = item
    else:
        target.insert(0, item)


def _again(target: Any, index: int) -> None:
    target.append(target[index])  # of a plain list: the same object twice, which the model copies


ON_DICTS: dict[str, Step] = {
    "set": (st.tuples(NAMES, INSERTED), lambda t, a: t.__setitem__(*a)),
    "del": (NAMES, lambda t, a: t.__delitem__(a)),
    "pop": (NAMES, lambda t, a: t.pop(a)),
    "pop or": (NAMES, lambda t, a: t.pop(a, 5)),
    "popitem": (st.none(), lambda t, _: t.popitem()),
    "setdefault": (st.tuples(NAMES, INSERTED), lambda t, a: t.setdefault(*a)),
    "update": (st.dictionaries(NAMES, INSERTED, max_size=3), lambda t, a: t.update(a)),
    "ior": (st.dictionaries(NAMES, LEAVES, max_size=3), _ior),
    "clear": (st.none(), lambda t, _: t.clear()),
}
ON_LISTS: dict[str, Step] = {
    "set": (st.tuples(INDEXES, INSERTED), lambda t, a: t.__setitem__(*a)),
    "set slice": (st.tuples(SLICES, st.lists(INSERTED, max_size=4)), lambda t, a: t.__setitem__(*a)),
    "del": (INDEXES | SLICES, lambda t, a: t.__delitem__(a)),
    "append": (INSERTED, lambda t, a: t.append(a)),
    "extend": (st.lists(INSERTED, max_size=3), lambda t, a: t.extend(a)),
    "iadd": (st.lists(INSERTED, max_size=3), _iadd),
    "imul": (st.integers(-1, 2), _imul),
    "insert": (st.tuples(INDEXES, INSERTED), lambda t, a: t.insert(*a)),
    "pop": (INDEXES, lambda t, a: t.pop(a)),
    "remove": (st.integers(0, 3) | LEAVES, lambda t, a: t.remove(a)),
    "reverse": (st.none(), lambda t, _: t.reverse()),
    "sort": (st.booleans(), _sort),
    "clear": (st.none(), lambda t, _: t.clear()),
    "again": (INDEXES, _again),
    "filter": (st.integers(0, 3), lambda t, a: t.__setitem__(slice(None), [item for item in t if item != a])),
}
ON_SETS: dict[str, Step] = {
    "add": (MEMBERS, lambda t, a: t.add(a)),
    "discard": (MEMBERS, lambda t, a: t.discard(a)),
    "remove": (MEMBERS, lambda t, a: t.remove(a)),
    "update": (st.sets(MEMBERS, max_size=3), lambda t, a: t.update(a, [1])),
    "and": (ONE_FORM, _iand),
    "or": (st.sets(MEMBERS, max_size=3), _ior),
    "sub": (st.sets(MEMBERS, max_size=3), _isub),
    "xor": (st.sets(MEMBERS, max_size=3), _ixor),
    "intersection": (ONE_FORM, lambda t, a: t.intersection_update(a)),
    "clear": (st.none(), lambda t, _: t.clear()),
}
STEPS: dict[type, dict[str, Step]] = {dict: ON_DICTS, list: ON_LISTS, set: ON_SETS}


def _containers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Each container that a view can show, with its path."""
    if type(value) not in STEPS:
        return []
    entries = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    return [(path, value)] + [found for key, item in entries for found in _containers(item, (*path, key))]


def _at(root: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        root = root[step]
    return root


def _outcome(do: Callable[[Any, Any], Any], target: Any, argument: Any) -> Any:
    try:
        result = do(target, argument)
    except (LookupError, ValueError, ArithmeticError) as error:
        return type(error)
    return face(result.plain() if hasattr(result, "plain") else result)


def _edit_both(data: st.DataObject, model: Any, view: Any, steps_max: int = 8) -> Any:
    """Do the same random steps on the plain `model` and on the `view`; return the model, without shared parts."""
    for _ in range(data.draw(st.integers(0, steps_max))):
        path, target = data.draw(st.sampled_from(_containers(model)))
        draw, do = STEPS[type(target)][data.draw(st.sampled_from(sorted(STEPS[type(target)])))]
        argument = data.draw(draw)
        seen = _at(view, path)
        assert path == seen.path
        assert _outcome(do, target, copy.deepcopy(argument)) == _outcome(do, seen, argument)
        model = values.copy(model)
    return model


@given(st.data(), ROOTS | st.dictionaries(NAMES, BRANCHES, max_size=5))
def test_views_are_like_plain_containers(data: st.DataObject, root: dict[Any, Any]) -> None:
    """Random edits through views do to the state, and answer, what they do to plain dicts, lists and sets.

    And what they record, after a trip through the codec, leads the fold to the same state.
    """
    tree, folded, model = StateTree(values.copy(root)), values.copy(root), values.copy(root)
    for _ in range(data.draw(st.integers(1, 3))):
        edit = tree.begin()
        model = _edit_both(data, model, edit.view)
        ops = ops_from_value(values.decode(values.encode(ops_to_value(edit.finish()))))
        apply(folded, ops)

        assert face(model) == face(tree.root)
        assert face(model) == face(folded)
        if values.canonical(model) != values.canonical(root):
            assert model == tree.view()


@given(st.data(), ROOTS | st.dictionaries(NAMES, BRANCHES, max_size=5))
def test_undo_leaves_nothing(data: st.DataObject, root: dict[Any, Any]) -> None:
    """An edit that is undone leaves the state as it was, the order of keys included, and views of it valid."""
    tree = StateTree(values.copy(root))
    before = [(path, _at(tree.view(), path)) for path, _ in _containers(tree.root)]
    edit = tree.begin()
    _edit_both(data, values.copy(root), edit.view)
    edit.undo()

    assert face(root) == face(tree.root)
    assert before == [(view.path, _at(tree.root, view.path)) for _, view in before]


@given(st.data(), ROOTS)
def test_ops_keep_their_values(data: st.DataObject, root: dict[Any, Any]) -> None:
    """The operations of a finished edit share nothing with the live state: later edits do not change them."""
    tree = StateTree(root)
    first = tree.begin()
    _edit_both(data, values.copy(root), first.view)
    ops = first.finish()
    expected = values.encode(ops_to_value(ops))
    second = tree.begin()
    _edit_both(data, values.copy(tree.root), second.view)
    assert expected == values.encode(ops_to_value(ops))


@given(st.data(), st.dictionaries(NAMES, BRANCHES, max_size=5))
def test_held_views_know_their_place(data: st.DataObject, root: dict[Any, Any]) -> None:
    """A view that is held while others write writes to its own container, wherever that stands now, or is stale."""
    tree, folded = StateTree(values.copy(root)), values.copy(root)
    edit = tree.begin()
    held = [_at(edit.view, path) for path, _ in _containers(tree.root)]
    _edit_both(data, values.copy(root), edit.view, steps_max=4)
    for view in held:
        try:
            path = view.path
        except StaleView:
            continue
        if isinstance(view, SetView):
            view.add("held")
        elif isinstance(view, MapView):
            view["held"] = 1
        else:
            view.append("held")
        assert "held" in _at(tree.root, path)
    apply(folded, edit.finish())
    assert face(folded) == face(tree.root)


@given(st.data(), ROOTS, st.sampled_from([object(), 1j, bytearray(), float("nan")]))
def test_refused_values_are_not_in_the_state(data: st.DataObject, root: dict[Any, Any], foreign: Any) -> None:
    """A value that cannot be stored, or a key that cannot be one, is refused by its path and changes nothing."""
    tree = StateTree(values.copy(root))
    edit = tree.begin()
    path, target = data.draw(st.sampled_from(_containers(tree.root)))
    view = _at(edit.view, path)
    value: Any = {foreign: 1} if isinstance(foreign, float) else [0, foreign]
    write = view.add if type(target) is set else partial(_insert, view)
    with pytest.raises((Unstorable, TypeError)) as caught:
        write(foreign if type(target) is set else value)
    if isinstance(caught.value, Unstorable):
        assert path == caught.value.path[: len(path)]
    assert () == edit.finish()
    assert face(root) == face(tree.root)


@given(st.lists(st.tuples(st.lists(NAMES | st.integers(0, 60), max_size=5), st.integers(0, 2)), max_size=60))
def test_touched_is_never_too_early(marks: list[tuple[list[Any], int]]) -> None:
    """`last` is at least the seq of the last patch at, under or above a path; and equal after a trip to a value."""
    touched, done = Touched(), list[tuple[tuple[Any, ...], int]]()
    for seq, (path, more) in enumerate(marks, 1):
        ops = [Op(kind="put", path=tuple(path)), *(Op(kind="put", path=(*path, extra)) for extra in range(more))]
        touched.mark(ops, seq)
        done += [(op.path, seq) for op in ops]
    again = Touched.from_value(values.decode(values.encode(touched.to_value())))
    for path, _ in done:
        expected = max(seq for other, seq in done if all(map(_same_step, path, other)))
        assert expected <= touched.last(path)
        assert touched.last(path) == again.last(path)
        if len(path) < DEPTH_MAX:
            assert expected == touched.last(path)


def _same_step(one: Any, other: Any) -> bool:
    return bool(one == other)


@given(st.lists(st.integers(0, 40), min_size=3, max_size=3).map(tuple), st.integers(NODES_MAX, NODES_MAX + 100))
def test_touched_is_bounded(odd: tuple[int, ...], size: int) -> None:
    """However many paths are touched, few are remembered; those forgotten count as touched later, never earlier."""
    touched = Touched()
    touched.mark([Op(kind="put", path=odd)], 1)
    for seq in range(2, size + 2):
        touched.mark([Op(kind="put", path=("many", seq))], seq)
    assert len(values.encode(touched.to_value())) < 40 * NODES_MAX
    assert 1 < touched.last(odd) <= size + 1
    assert size + 1 == touched.last(("many", size + 1))


@given(st.lists(VALUES | st.tuples(st.sampled_from(["put", "splice", "reorder", "add", "clear"]), VALUES).map(list)))
def test_foreign_patches_are_refused(items: list[Any]) -> None:
    """Any value that is no patch, and a patch of another state, is refused as CodecError."""
    try:
        apply({"a": [1, {}, set()]}, ops_from_value(items))
    except CodecError:
        return
    assert all(item[0] in ("put", "remove", "clear") for item in items)
