"""Typed state: what views show and take where a program has a `state_type`, and what is refused."""

import dataclasses
import enum
from typing import Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

import perdure
from perdure.core.tracking import StateTree
from perdure.engine.state_types import fit, view_of
from perdure.errors import ReadOnlyState, StateInvalid
from tests.worlds import Stop, World


class Mood(enum.Enum):
    """An enumeration."""

    GOOD = "good"
    BAD = "bad"


@dataclasses.dataclass
class Page:
    """An element."""

    path: str  # a field may be called what a method of views is called
    size: int = 0
    tags: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Progress:
    """A dataclass as a state."""

    pages: list[Page] = dataclasses.field(default_factory=list)
    by_name: dict[str, Page] = dataclasses.field(default_factory=dict)
    last: Page | None = None
    mood: Mood = Mood.GOOD
    items: int = 0
    free: Any = None


class Counter(msgspec.Struct, rename="camel"):
    """A Struct as a state, whose fields are stored under other names."""

    seen_pages: int = 0
    inner: Page | None = None


class Model(pydantic.BaseModel):
    """A pydantic model as a state."""

    n: int = 0
    names: list[str] = []


class Keys(TypedDict):
    """A TypedDict as a state."""

    n: int
    name: NotRequired[str]


def tree_of(kind, **state):
    """A live state shown by `kind`."""
    tree = StateTree(fit(state, kind))
    tree.shown = view_of(kind, dict)
    return tree


def test_fields_are_attributes_at_any_depth():
    """Of the state, of elements of lists, of values of dicts, of what may be None; enumerations come as members."""
    view = tree_of(Progress, pages=[{"path": "a"}], by_name={"b": {"path": "b", "size": 2}}, last={"path": "c"}).view()
    assert ("a", 0, 2, "c", Mood.GOOD, 0, None) == (
        view.pages[0].path,
        view.pages[0].size,
        view.by_name["b"].size,
        view.last.path,
        view.mood,
        view.items,
        view.free,
    )
    assert ["a"] == [page.path for page in view.pages]
    assert view.pages[0] == Page("a")
    assert "Page(path='a', size=0, tags=set())" == repr(view.pages[0])


def test_writes_become_plain_at_once():
    """Objects, attributes, elements: what stands in the state is dicts and lists, with the defaults filled in."""
    tree = tree_of(Progress)
    edit = tree.begin()
    view = edit.view
    view.pages.append(Page("a", tags={"x"}))
    view.pages.append({"path": "b"})
    view.pages[1].size += 3
    view.by_name["c"] = Page("c")
    view.last = view.pages[0]
    view.mood = Mood.BAD
    view["items"] = 4
    page_a, page_b = {"path": "a", "size": 0, "tags": {"x"}}, {"path": "b", "size": 3, "tags": set()}
    assert tree.root == {
        "pages": [page_a, page_b],
        "by_name": {"c": {"path": "c", "size": 0, "tags": set()}},
        "last": page_a,
        "mood": "bad",
        "items": 4,
        "free": None,
    }
    edit.undo()
    assert fit({}, Progress) == tree.root


@pytest.mark.parametrize(
    ("write", "path"),
    [
        (lambda s: setattr(s, "items", "many"), ("items",)),
        (lambda s: s.pages.append({"size": 1}), ("pages", 0)),
        (lambda s: s.pages.extend([Page("a"), 5]), ("pages", 1)),
        (lambda s: s.by_name.update(x={"path": "p", "colour": "red"}), ("by_name", "x", "colour")),
        (lambda s: s.update(mistyped=1), ("mistyped",)),
        (lambda s: s.pop("items"), ("items",)),
        (lambda s: s.clear(), ("pages",)),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(write, path):
    """With the place and the type; nothing of it stands in the state."""
    tree = tree_of(Progress)
    edit = tree.begin()
    with pytest.raises(StateInvalid) as caught:
        write(edit.view)
    assert path == caught.value.path
    assert () == edit.finish()


def test_a_field_that_does_not_exist_is_an_attribute_error():
    """Read or written; views that only read stay what they are."""
    tree = tree_of(Progress)
    with pytest.raises(AttributeError, match="itemz"):
        _ = tree.view().itemz
    with pytest.raises(AttributeError, match="Progress has no field 'itemz'"):
        tree.begin().view.itemz = 1
    with pytest.raises(ReadOnlyState):
        tree.view().items = 1
    assert list(vars(Progress())) == dir(tree.view()) or sorted(vars(Progress())) == dir(tree.view())


def test_a_struct_is_stored_under_its_encoded_names():
    """Attributes go by the names of the fields, keys by those of the stored form."""
    tree = tree_of(Counter, seenPages=3)
    edit = tree.begin()
    edit.view.seen_pages += 1
    edit.view.inner = Page("x")
    assert {"seenPages": 4, "inner": {"path": "x", "size": 0, "tags": set()}} == tree.root
    assert "x" == tree.view().inner.path


def test_a_pydantic_model_is_shown_like_the_others():
    """Its fields are attributes, its validation holds."""
    tree = tree_of(Model)
    edit = tree.begin()
    edit.view.names.append("a")
    edit.view.n = 2
    with pytest.raises(StateInvalid):
        edit.view.n = "many"
    assert {"n": 2, "names": ["a"]} == tree.root


def test_a_typed_dict_is_the_dict_that_it_is():
    """Keys only, no attributes; what is not required may be removed."""
    tree = tree_of(Keys, n=1, name="x")
    edit = tree.begin()
    del edit.view["name"]
    with pytest.raises(StateInvalid):
        del edit.view["n"]
    with pytest.raises(StateInvalid):
        edit.view["n"] = "1"
    assert {"n": 1} == tree.root
    assert not hasattr(tree.view(), "n")


@pytest.mark.parametrize(
    ("state", "path"),
    [({}, ()), ({"n": "x"}, ()), ({"n": 1, "other": 2}, ("other",))],
)
def test_a_first_state_that_does_not_fit_is_refused_at_the_declaration(state, path):
    """Missing, of another type, or unknown."""
    with pytest.raises(StateInvalid) as caught:

        @perdure.program(state=state, state_type=Keys)
        async def wrong(task):
            return task

    assert path == caught.value.path


@pytest.mark.parametrize("kind", [int, dict, list[int], "Progress", Mood])
def test_what_cannot_be_a_state_is_refused_at_the_declaration(kind):
    """Only types with fields can."""
    with pytest.raises(perdure.UsageError, match="is no dataclass"):
        perdure.program(state_type=kind)(nobody)


async def nobody(task):
    """A function that could be a program."""
    return task


@perdure.tool(effect="pure", quick=True)
def read(n: int) -> Page:
    """Return a page."""
    return Page(f"page {n}", n)


def _keep(state: Progress, page: Page) -> None:
    state.pages.append(page)
    state.items += page.size


@perdure.tool(effect="pure", quick=True)
def paths(pages: list[dict[str, Any]]) -> list[str]:
    """Return the paths of what it is given."""
    return [page["path"] for page in pages]


stops = []


@perdure.program(state_type=Progress, state=Progress(items=10))
async def collect(task, n: int = 2):
    """Collect pages into a typed state."""
    async for number in task.each("pages", range(n)):
        await task.act(read, number, then=_keep)
    if stops:
        raise Stop(stops.pop())
    state: Progress = task.state
    async with task.edit() as writable:
        writable.last = state.pages[0]
    got = await task.act(paths, state.pages)
    return {"got": got, "items": state.items, "last": state.last.path}


def test_a_typed_program_goes_on_with_a_typed_state():
    """Reducers, edits and arguments see the views, before and after an interruption, and after a snapshot-free fold."""
    world = World()
    stops[:] = ["here"]
    with pytest.raises(Stop):
        world.live(collect)
    assert {"got": ["page 0", "page 1"], "items": 11, "last": "page 0"} == world.live(collect)
    assert 0 == world.kinds().count("StateMigrated")
