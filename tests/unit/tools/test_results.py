"""Results become plain values, and come back as what the annotation says."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, TypedDict
from uuid import UUID

import msgspec
import pytest

from perdure.codec import values
from perdure.codec.known import Secret
from perdure.errors import CodecError
from perdure.tools.results import dump, needs_rebuild, rebuild, refusal


class Color(Enum):
    """Text values."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    """Whole numbers."""

    LOW = 1


class Odd(Enum):
    """Values that msgspec does not take."""

    HALF = 1.5


@dataclass
class Page:
    """Holds itself, an enum and a time."""

    url: str
    color: Color = Color.RED
    links: list["Page"] = field(default_factory=list)
    at: datetime | None = None


@dataclass(frozen=True)
class Point:
    """Can be hashed."""

    x: int


class Row(msgspec.Struct, rename="camel", tag="row"):
    """Renamed, tagged, with a field that may be unset."""

    row_id: int
    raw: bytes = b""
    note: str | msgspec.UnsetType = msgspec.UNSET


class Pair(msgspec.Struct, array_like=True):
    """Stored as a list."""

    left: int
    right: Decimal


class Loose(TypedDict):
    """Plain fields only."""

    name: str


class Typed(TypedDict):
    """Holds an object."""

    page: Page


Url = NewType("Url", str)
PageList = NewType("PageList", list[Page])
AT = datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
PLAIN = {
    "text": ["a", ("b", b"c"), {1, 2}, frozenset({"d"})],
    3: [None, True, 2**80, 1.5, AT, timedelta(1), Decimal("1.10"), UUID(int=1), Secret("key")],
}


def stored(value):
    """The trip through the value codec."""
    return values.decode(values.encode(value))


@pytest.mark.parametrize("value", [None, 1, "text", [], {}, PLAIN, [PLAIN], (PLAIN,), {"deep": [[PLAIN]]}])
def test_plain_values_are_not_touched(value):
    """The very same object comes out: nothing was copied."""
    assert value is dump(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Color.RED, "red"),
        (Level.LOW, 1),
        ([Color.RED, "x"], ["red", "x"]),
        ((1, Color.RED), (1, "red")),
        ({Color.RED}, {"red"}),
        (frozenset({Level.LOW}), frozenset({1})),
        ({Color.RED: Point(1)}, {"red": {"x": 1}}),
        (Page("u", links=[Page("v")]), {"url": "u", "color": "red", "links": [
            {"url": "v", "color": "red", "links": [], "at": None}], "at": None}),
        (Row(1, b"\x00"), {"type": "row", "rowId": 1, "raw": b"\x00"}),
        (Pair(1, Decimal("1.10")), [1, Decimal("1.10")]),
    ],
)  # fmt: skip
def test_objects_become_plain_values(value, plain):
    """Equal in value and in type, at any depth, and always storable."""
    assert values.same(plain, dump(value))
    assert plain == stored(dump(value))


def test_what_nobody_knows_is_left_for_the_codec_to_refuse():
    """No silent replacement: a path, an odd container, a set of what becomes dicts."""
    for value in (Path("x"), {Point(1)}, type("Sub", (dict,), {})(a=Color.RED)):
        assert [value] == dump([value])
        with pytest.raises(values.Unstorable):
            values.encode(dump(value))


def test_what_holds_itself_ends():
    """The walk stops at the nesting limit, the codec then refuses."""
    endless = [Color.RED]
    endless.append(endless)
    with pytest.raises(values.Unstorable):
        values.encode(dump(endless))


@pytest.mark.parametrize(
    ("value", "result_type"),
    [
        (Color.RED, Color),
        (Level.LOW, Level),
        (Page("u", Color.BLUE, [Page("v")], AT), Page),
        ([Page("u"), Page("v")], list[Page]),
        ({"a": (Page("u"), Point(1))}, dict[str, tuple[Page, Point]]),
        (Point(1), Point | None),
        (None, Point | None),
        (Row(1, b"\x00\xff", "n"), Row),
        (Row(1), Row),
        (Pair(1, Decimal("1.10")), Pair),
        ({Color.RED, Color.BLUE}, set[Color]),
        ({Color.RED: 1}, dict[Color, int]),
        ({"page": Page("u")}, Typed),
        ([Page("u")], PageList),
        (Point(1), Annotated[Point, ["cannot be hashed"]]),
    ],
)
def test_a_stored_result_comes_back_as_annotated(value, result_type):
    """Equal value and equal type after the trip through the store."""
    again = rebuild(stored(dump(value)), result_type)
    assert value == again
    assert type(value) is type(again)
    assert needs_rebuild(result_type)
    assert "" == refusal(result_type)


@pytest.mark.parametrize(
    "result_type",
    [None, Any, object, str, int, list[str], dict[str, Any], str | None, Literal["a"], Url, Loose, list[Loose],
     tuple[int, ...], set[bytes], datetime, Annotated[str, "note"], type(None), list],
)  # fmt: skip
def test_plain_annotations_cost_nothing(result_type):
    """The value is handed on as it is; a typed dict keeps keys that its annotation does not name."""
    value = {"name": "n", "more": [1]}
    assert not needs_rebuild(result_type)
    assert value is rebuild(value, result_type)


@pytest.mark.parametrize(
    ("value", "result_type"), [({"x": "one"}, Point), ("green", Color), ([1], list[Page]), ({}, Point)]
)
def test_a_value_that_does_not_fit_is_refused(value, result_type):
    """The type and the cause are named; nothing is made up."""
    with pytest.raises(CodecError, match="does not fit"):
        rebuild(value, result_type)


@pytest.mark.parametrize("result_type", [Odd, Point | Page, list[Odd]])
def test_a_type_that_cannot_be_rebuilt_is_known_beforehand(result_type):
    """So that a tool is refused before its first call."""
    assert refusal(result_type)


def test_flags_come_back_in_every_combination():
    """A combination has no member of its own, and is the same afterwards."""

    class Rights(Flag):
        READ = 1
        WRITE = 2

    for rights in (Rights.READ, Rights.READ | Rights.WRITE, Rights(0)):
        assert rights is rebuild(dump(rights), Rights)


def test_a_stored_name_of_a_class_builds_nothing():
    """What is stored is only ever read as what the program's own annotation says."""
    planted = {"__class__": "os.system", "$type": "Page", "type": "Page", "x": 1}
    assert planted is rebuild(planted, dict[str, Any])
    assert Point(1) == rebuild(planted, Point)


# ---------------------------------------------------------------- pydantic, where the program uses it


def test_pydantic_is_never_imported_by_us():
    """A program without it does not pay for it."""
    import subprocess
    import sys

    code = "import sys, perdure.tools; sys.exit('pydantic' in sys.modules)"
    assert (
        0
        == subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": ":".join(sys.path)}).returncode
    )


@pytest.fixture
def models():
    """Models of pydantic: nested, with aliases, inside a dataclass."""
    pydantic = pytest.importorskip("pydantic")

    class Item(pydantic.BaseModel):
        item_id: int = pydantic.Field(alias="itemId")
        color: Color = Color.RED
        tags: frozenset[str] = frozenset()

    class Order(pydantic.BaseModel):
        items: list[Item]
        raw: bytes = b""
        total: Decimal = Decimal("1.10")

        @pydantic.computed_field
        def count(self) -> int:
            return len(self.items)

    @dataclass
    class Envelope:
        order: Order
        note: str = ""

    Envelope.__annotations__["order"] = Order
    return Item, Order, Envelope


def test_models_come_back_as_models(models):
    """Alone, in containers, and inside a dataclass, with bytes, sets and decimals as they were."""
    item_type, order_type, envelope_type = models
    order = order_type(items=[item_type(itemId=1, color=Color.BLUE, tags=frozenset({"a"}))], raw=b"\x00\xff")
    cases = [(order, order_type), ([order], list[order_type]), (None, order_type | None)]
    cases += [(envelope_type(order, "n"), envelope_type), ({"k": (order, 1)}, dict[str, tuple[order_type, int]])]
    for value, result_type in cases:
        again = rebuild(stored(dump(value)), result_type)
        assert value == again
        assert type(value) is type(again)


def test_a_model_that_does_not_fit_is_refused(models):
    """As with every other type."""
    with pytest.raises(CodecError, match=r"does not fit .*Order"):
        rebuild({"items": [{}]}, models[1])
