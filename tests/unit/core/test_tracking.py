"""Views, edits, patches and touched paths: the surface that users meet, and single cases."""

import copy
import enum
from collections.abc import Callable
from typing import Any

import pytest

from perdure.codec import values
from perdure.core.container import STATE_NESTING_MAX
from perdure.core.touched import Touched
from perdure.core.tracking import Edit, ListView, MapView, SetView, StateTree, apply
from perdure.errors import CodecError, EditClash, ReadOnlyState, StaleView, Unstorable
from perdure.model.patch import Op, ops_from_value, ops_to_value
from tests.property.drawing import face


def _edited(root: dict[Any, Any], body: Callable[[Any], object]) -> list[Any]:
    """The patch that `body` records, as a value; live and folded state are compared."""
    folded = values.copy(root)
    tree = StateTree(root)
    edit = tree.begin()
    body(edit.view)
    ops = edit.finish()
    apply(folded, ops)
    assert values.canonical(folded) == values.canonical(root)
    return ops_to_value(ops)


PATCHES: list[tuple[Any, Callable[[Any], object], list[Any]]] = [
    ({}, lambda s: s.update(a=1), [["put", ["a"], 1]]),
    ({"a": 1}, lambda s: s.pop("a"), [["remove", ["a"]]]),
    ({"a": 1, "b": {2}}, lambda s: s.clear(), [["clear", []]]),
    ({"l": [1, 2]}, lambda s: s["l"].append(3), [["splice", ["l"], 2, 0, [3]]]),
    ({"l": [1, 2]}, lambda s: s["l"].extend("ab"), [["splice", ["l"], 2, 0, ["a", "b"]]]),
    ({"l": [1, 2]}, lambda s: s["l"].insert(-1, 3), [["splice", ["l"], 1, 0, [3]]]),
    ({"l": [1, 2]}, lambda s: s["l"].pop(0), [["splice", ["l"], 0, 1, []]]),
    ({"l": [1, 2, 3]}, lambda s: s["l"].clear(), [["splice", ["l"], 0, 3, []]]),
    ({"l": [1, 2]}, lambda s: s["l"].__setitem__(-1, 3), [["put", ["l", 1], 3]]),
    ({"l": [1, [2]]}, lambda s: s["l"][1].append(3), [["splice", ["l", 1], 1, 0, [3]]]),
    ({"l": [3, 1, 2]}, lambda s: s["l"].sort(), [["reorder", ["l"], [1, 2, 0]]]),
    ({"l": [3, 1, 2]}, lambda s: s["l"].reverse(), [["reorder", ["l"], [2, 1, 0]]]),
    ({"l": [0, 1, 2, 3]}, lambda s: s["l"].__delitem__(slice(0, None, 2)), [["reorder", ["l"], [1, 3]]]),
    ({"l": [1, 2, 3]}, lambda s: s["l"].__setitem__(slice(None), [1, 9, 3]), [["splice", ["l"], 1, 1, [9]]]),
    ({"l": [1, 1, 1]}, lambda s: s["l"].__setitem__(slice(None), [1, 1]), [["splice", ["l"], 2, 1, []]]),
    ({"s": {1}}, lambda s: s["s"].update("a", [1]), [["add", ["s"], frozenset({"a"})]]),
    ({"s": {1, "a"}}, lambda s: s["s"].discard(True), [["discard", ["s"], frozenset({1})]]),
    ({"s": {1}}, lambda s: s["s"].clear(), [["clear", ["s"]]]),
    ({(1, 2): {}}, lambda s: s[1, 2].update(x=b""), [["put", [(1, 2), "x"], b""]]),
    ({"a": 1}, lambda s: s.update(a=True), [["put", ["a"], True]]),
    ({"a": 0.0}, lambda s: s.update(a=-0.0), [["put", ["a"], -0.0]]),
    # What changes nothing is not recorded:
    ({"a": 1, "b": {"x": 1, "y": 2}}, lambda s: s.update(a=1, b={"y": 2, "x": 1}), []),
    ({"a": float("nan")}, lambda s: s.update(a=float("nan")), []),
    ({"l": [1, [2]]}, lambda s: s["l"].__setitem__(slice(None), [1, [2]]), []),
    ({"l": [1, 2]}, lambda s: s["l"].sort(), []),
    ({"s": {1}}, lambda s: s["s"].add(True), []),
    ({"a": {}, "l": []}, lambda s: (s["a"].clear(), s["l"].clear(), s["l"].extend([])), []),
    # What is written into something that this edit inserted is part of its insertion:
    ({}, lambda s: s.setdefault("l", []).append(s.setdefault("m", {}).setdefault("k", 1)),
     [["put", ["l"], [1]], ["put", ["m"], {"k": 1}]]),
    ({"l": []}, lambda s: (s["l"].append({}), s["l"][0].update(a=[]), s["l"][0]["a"].append(1)),
     [["splice", ["l"], 0, 0, [{"a": [1]}]]]),
]  # fmt: skip


@pytest.mark.parametrize(("root", "body", "patch"), PATCHES)
def test_golden_patches(root: Any, body: Callable[[Any], object], patch: list[Any]) -> None:
    """Each way to change a container records one small operation, whose shape is fixed for ever."""
    assert face(patch) == face(_edited(root, body))
    assert patch == ops_to_value(ops_from_value(patch))


def test_augmented_assignment_records_only_what_is_new() -> None:
    """`state["x"] += …` and its kin record what they add, not the container that they assign again."""

    def body(state: Any) -> None:
        state["l"] += [2]
        state["m"] |= {"b": 2}
        state["s"] |= {2}
        state["s"] -= {1}
        state["n"]["l"] *= 2

    root = {"l": [1], "m": {"a": 1}, "s": {1}, "n": {"l": [0]}}
    expected = [
        ["splice", ["l"], 1, 0, [2]],
        ["put", ["m", "b"], 2],
        ["add", ["s"], frozenset({2})],
        ["discard", ["s"], frozenset({1})],
        ["splice", ["n", "l"], 1, 0, [0]],
    ]
    assert expected == _edited(root, body)


def test_augmented_assignment_costs_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """`state["x"] += …` copies what it adds, and not the container that it assigns again."""
    copied: list[type] = []

    def spy(value: Any, *rest: Any, **options: Any) -> Any:
        copied.append(type(value))
        return values_copy(value, *rest, **options)

    values_copy = values.copy
    monkeypatch.setattr(values, "copy", spy)
    edit = StateTree({"l": [1], "m": {"l": [[1]]}}).begin()
    edit.view["l"] += [2]
    edit.view["m"]["l"][0] += [2]
    assert [int, int] == copied


def _reading(root: dict[Any, Any]) -> MapView:
    return StateTree(root).view()


def test_views_read_like_plain_containers() -> None:
    """Length, truth, membership, equality, order, repr and slices of a view are those of what it shows."""
    root = {"l": [1, {"x": 2}], "s": {1}, "m": {}, "t": (1, [2])}
    state = _reading(root)
    assert root == state
    assert state == root
    assert state != {}
    assert repr(root) == repr(state) == str(state)
    assert (4, ["l", "s", "m", "t"], ["t", "m", "s", "l"]) == (len(state), list(state), list(reversed(state)))
    assert [True, True, False] == [bool(state["l"]), bool(state["s"]), bool(state["m"])]
    assert {"x": 2} in state["l"]
    assert 1 in state["s"]
    assert (1, 1) == (state["l"].index({"x": 2}), state["l"].count(1))
    assert root["l"][::-1] == state["l"][::-1]
    assert [{"x": 2}, 1] == list(reversed(state["l"]))
    assert {1, 2} == state["s"] | {2} == {2} | state["s"] == state["s"].union([2])
    assert state["s"] <= {1, 2}
    assert set is type(state["s"] & {1})
    assert [1, {"x": 2}, 3] == state["l"] + [3]
    assert [3, 1, {"x": 2}] == [3] + state["l"]
    assert {"a": 1, "m": {}} == {"a": 1} | _reading({"m": {}})
    assert [("m", {})] == list(_reading({"m": {}}).items())
    assert None is state.get("no")
    assert isinstance(state["l"][1], MapView)
    assert isinstance(state.get("l"), ListView)
    assert isinstance(state["s"], SetView)
    match state:
        case {"l": [1, {"x": found}]}:
            assert 2 == found


@pytest.mark.parametrize("unhashable", ["m", "l", "s"])
def test_views_are_unhashable(unhashable: str) -> None:
    """A view is no key, as its container is none."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(_reading({"m": {}, "l": [], "s": set()})[unhashable])


def test_reading_copies_nothing() -> None:
    """Reading, also by iteration, shows the containers of the tree themselves."""
    inner = {"x": 1}
    state = _reading({"l": [inner]})
    shown = [state["l"][0], *state["l"], *next(iter(state.values())), state["l"][:1][0]]
    assert all(view._node is inner for view in shown)


def test_copies_are_plain_and_deep() -> None:
    """`plain`, `copy`, the copy module, `pop` and operators give plain containers that share nothing with the state."""
    root = {"m": {"l": [1], "t": ([2],)}}
    edit = StateTree(root).begin()
    view = edit.view["m"]
    for plain in (view.plain(), view.copy(), copy.copy(view), copy.deepcopy(view), view | {}, {} | view):
        assert {"l": [1], "t": ([2],)} == plain
        assert [dict, list, tuple] == [type(plain), type(plain["l"]), type(plain["t"])]
        plain["l"].append(9)
        plain["t"][0].append(9)
    assert {"m": {"l": [1], "t": ([2],)}} == root
    popped = edit.view.pop("m")
    popped["l"].append(9)
    edit.undo()
    assert {"m": {"l": [1], "t": ([2],)}} == root


def test_tuples_are_leaves() -> None:
    """A tuple is read as a copy where it holds something mutable, so that nobody changes the state unseen."""
    root = {"t": ([1],), "plain": (1, ("a",))}
    edit = StateTree(root).begin()
    edit.view["t"][0].append(2)
    assert {"t": ([1],), "plain": (1, ("a",))} == root
    assert edit.view["plain"] is root["plain"]
    assert () == edit.finish()


def test_inserted_values_are_copied() -> None:
    """What is inserted stays the caller's: neither later changes of it nor views in it reach into the state."""
    root: dict[str, Any] = {"a": [1]}
    edit = StateTree(root).begin()
    mine = [[0], edit.view["a"]]
    edit.view["b"] = mine
    edit.view["c"] = {"deep": (edit.view["a"],)}
    edit.view["d"] = edit.view["a"]
    mine[0].append(9)
    edit.view["a"].append(2)
    assert {"a": [1, 2], "b": [[0], [1]], "c": {"deep": ([1],)}, "d": [1]} == root
    assert list is type(root["b"][1])


def test_changed_during_iteration() -> None:
    """A dict or set that changes size while it is iterated raises, as the builtins do."""
    edit = StateTree({"s": {1}, "m": {"a": 1}}).begin()
    with pytest.raises(RuntimeError, match="changed size"):
        [edit.view["m"].pop(key) for key in edit.view["m"]]
    with pytest.raises(RuntimeError, match="changed size"):
        [edit.view["s"].add(member + 1) for member in edit.view["s"]]


WRITES: list[Callable[[Any], object]] = [
    lambda s: s.update(a=1), lambda s: s.pop("l"), lambda s: s.clear(), lambda s: s.setdefault("new", 1),
    lambda s: s.__delitem__("l"), lambda s: s["l"].append(1), lambda s: s["l"].sort(), lambda s: s["l"].clear(),
    lambda s: s["l"].__setitem__(0, 1), lambda s: s["l"].__iadd__([]), lambda s: s["s"].add(1),
    lambda s: s["s"].discard(7), lambda s: s["s"].clear(), lambda s: s["s"].__iand__({1}), lambda s: s["m"].clear(),
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_read_only_views_refuse_writes(write: Callable[[Any], object]) -> None:
    """Every write raises in a view that only reads, in one whose edit ended, and in a part of either."""
    tree = StateTree({"l": [1], "s": {1}, "m": {}})
    finished, undone = tree.begin(), None
    finished.finish()
    undone = tree.begin()
    undone.undo()
    for view in (tree.view(), finished.view, undone.view):
        with pytest.raises(ReadOnlyState):
            write(view)
    assert {"l": [1], "s": {1}, "m": {}} == tree.root


def test_one_edit_at_a_time() -> None:
    """A second edit is refused while one is open, and a finished edit cannot be finished again."""
    tree = StateTree({})
    edit = tree.begin()
    with pytest.raises(EditClash):
        tree.begin()
    edit.finish()
    with pytest.raises(ReadOnlyState):
        edit.finish()
    assert isinstance(tree.begin(), Edit)


def test_undo_after_finish() -> None:
    """A finished edit can be taken back until the next one is begun, and not half of that one with it."""
    tree = StateTree({"a": 1, "b": 2})
    first = tree.begin()
    del first.view["a"]
    assert [["remove", ["a"]]] == ops_to_value(first.finish())
    first.undo()
    assert ["a", "b"] == list(tree.root)
    second = tree.begin()
    second.view["a"] = 3
    second.finish()
    tree.begin().view["a"] = 4
    with pytest.raises(ReadOnlyState):
        second.undo()
    assert {"a": 4, "b": 2} == tree.root


def test_stale_views() -> None:
    """A view follows its container through a list that shifts; once that has left the state, it is stale."""
    edit = StateTree({"l": [{"n": 0}, {"n": 1}], "m": {"x": {}}}).begin()
    second, inner = edit.view["l"][1], edit.view["m"]["x"]
    edit.view["l"].insert(0, "new")
    edit.view["l"].reverse()
    assert ("l", 0) == second.path
    second["n"] = 5
    assert [{"n": 5}, {"n": 0}, "new"] == edit.view["l"]
    del edit.view["l"][0]
    edit.view["m"] = {"x": {"new": 1}}
    for view, path in ((second, ("l", 0)), (inner, ("m", "x"))):
        with pytest.raises(StaleView) as caught:
            view["n"] = 6
        assert path[0] == caught.value.path[0]
        with pytest.raises(StaleView):
            view.path  # noqa: B018 - the property raises
    assert {"n": 5} == second


class _Colour(enum.IntEnum):
    RED = 1


def test_paths_hold_stored_keys() -> None:
    """A path names keys as they are stored, whichever equal key led there, so that it can always be stored."""
    root: dict[Any, Any] = {1: {"x": 1}, (1, 2): {}}
    edit = StateTree(root).begin()
    edit.view[_Colour.RED]["x"] = 2
    edit.view[(_Colour.RED, 2)]["y"] = 2
    del edit.view[_Colour.RED]
    ops = edit.finish()
    assert b'[["put",[1,"x"],2],["put",[{"~":["tuple",1,2]},"y"],2],["remove",[1]]]' == values.encode(ops_to_value(ops))
    with pytest.raises(Unstorable):
        StateTree({}).begin().view[_Colour.RED] = 1


def test_undo_restores_the_order_of_keys() -> None:
    """Undo puts keys back where they were: first, in the middle, last, and after a clear."""
    root = {"a": 1, 2: 2, "c": {"x": 1, "y": 2}, "d": 4}
    edit = StateTree(root).begin()
    expected = repr(root)
    edit.view.pop("a")
    edit.view["a"] = 7
    edit.view.pop(2.0)
    edit.view["c"].pop("x")
    edit.view["c"].clear()
    edit.view.popitem()
    edit.view["e"] = 5
    edit.view.clear()
    edit.undo()
    assert expected == repr(root)


def test_partial_update_is_recorded_as_it_happened() -> None:
    """An `update` that fails half-way has done its first half, as with a dict, and the patch says so."""

    def body(state: Any) -> None:
        with pytest.raises(Unstorable) as caught:
            state.update(a=1, b=[{"x": object()}], c=3)
        assert ("b", 0, "x") == caught.value.path
        with pytest.raises(Unstorable):
            state.setdefault("l", []).extend([1, object()])

    assert [["put", ["a"], 1], ["put", ["l"], []]] == _edited({}, body)


def test_deepest_state_can_be_stored() -> None:
    """Whatever nesting a view accepts, the patch and the state can be encoded; more is refused with its path."""
    tree = StateTree({})
    edit = tree.begin()
    view = edit.view
    for _ in range(STATE_NESTING_MAX - 2):
        view["k"] = {"list": []}
        view = view["k"]
    with pytest.raises(Unstorable, match="nested deeper") as caught:
        view["k"] = {"list": []}
    assert STATE_NESTING_MAX == len(caught.value.path)
    ops = edit.finish()
    assert values.decode(values.encode(ops_to_value(ops))) == ops_to_value(ops)
    assert tree.root == values.decode(values.encode(tree.root))


MISFITS: list[list[Any]] = [
    ["put", [], 1], ["put", ["l", 3], 1], ["put", ["l", -1], 1], ["put", ["l", True], 1], ["put", ["no", "x"], 1],
    ["put", ["n", "x"], 1], ["put", [["l"]], 1], ["put", ["s", 1], 1], ["remove", []], ["remove", ["no"]],
    ["remove", ["l", 0]], ["splice", ["l"], 2, 0, []], ["splice", ["l"], 0, 2, []], ["splice", ["l"], -1, 0, [1]],
    ["splice", ["l"], 1, -1, [1]], ["splice", ["m"], 0, 0, []], ["reorder", ["l"], [0, 0]], ["reorder", ["l"], [1]],
    ["reorder", ["l"], 0], ["reorder", ["m"], []], ["add", ["s"], frozenset({1})], ["add", ["s"], [2]],
    ["add", ["l"], frozenset()], ["discard", ["s"], frozenset({2})], ["clear", ["l"]], ["clear", ["n"]],
]  # fmt: skip


@pytest.mark.parametrize("op", MISFITS)
def test_patch_of_another_state(op: list[Any]) -> None:
    """An operation that does not fit the state is refused, never bent until it does."""
    with pytest.raises(CodecError, match="does not fit"):
        apply({"l": [1], "m": {}, "s": {1}, "n": 1}, ops_from_value([op]))


@pytest.mark.parametrize("patch", [
    None, {}, (), [1], [[]], [["put"]], [["put", ["a"]]], [["put", "a", 1]], [["put", ["a"], 1, 2]],
    [["move", ["a"], 1]], [["remove", ["a"], 1]], [["splice", ["a"], 0, 0]],
    [["splice", ["a"], 0, True, []]], [["splice", ["a"], 0, 0, ()]],
    [[["put"], ["a"], 1]],
])  # fmt: skip
def test_malformed_patches(patch: Any) -> None:
    """A value that is no patch is refused as CodecError."""
    with pytest.raises(CodecError):
        ops_from_value(patch)


def test_apply_shares_nothing() -> None:
    """What is applied to two states stays two states."""
    ops = (Op(kind="put", path=("l",), value=[[1]]), Op(kind="splice", path=("l",), value=(1, 0, [[2]])))
    first, second = dict[str, Any](), dict[str, Any]()
    apply(first, ops)
    apply(second, ops)
    first["l"][0].append(9)
    first["l"][1].append(9)
    assert {"l": [[1], [2]]} == second


def test_touched_paths() -> None:
    """`last` follows a path up and down: what stands above counts, what stands beside does not."""
    touched = Touched()
    touched.mark([Op(kind="put", path=("a", "x"))], 5)
    touched.mark([Op(kind="put", path=("b",))], 6)
    assert [5, 5, 5, 0, 6, 6] == [
        touched.last(path) for path in (("a",), ("a", "x"), ("a", "x", "deep"), ("a", "y"), ("b",), ())
    ]
    touched.mark([Op(kind="splice", path=("a", "x"), value=(0, 0, [1]))], 7)
    assert [7, 7, 6] == [touched.last(path) for path in (("a", "x", 3), (), ("b", "c"))]
    touched.mark([Op(kind="clear", path=())], 8)
    assert [8, 8] == [touched.last(path) for path in (("a", "y"), ("never",))]
    assert [8, 8, []] == touched.to_value()


@pytest.mark.parametrize("value", [
    None, [], [1, 2], [1, 2, 3], [1, 2, [["a"]]], [1, True, []], [0, 0, [["a", [0, 0, [["a", [0, 0, [["a", [0, 0,
    [["a", [0, 0, []]]]]]]]]]]]]], [0, 0, [[["a"], [0, 0, []]]]],
])  # fmt: skip
def test_malformed_touched(value: Any) -> None:
    """A value that is no record of touched paths is refused as CodecError."""
    with pytest.raises(CodecError):
        Touched.from_value(value)
