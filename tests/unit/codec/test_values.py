"""The value codec: golden bytes of each tag, and single cases that random values hardly ever meet."""

import decimal
import io
import json
import struct
import sys
import threading
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from perdure.codec import values
from perdure.codec.known import Secret
from perdure.errors import CodecError, UnknownTag, Unstorable
from perdure.limits import LEAF_BYTES_MAX, NESTING_MAX
from tests.property.drawing import face

NAIVE = datetime(2024, 10, 27, 2, 30, fold=1)  # noqa: DTZ001 - a naive one is a value too
BERLIN = ZoneInfo("Europe/Berlin")
INDIA = timezone(timedelta(hours=5, minutes=30, seconds=1, microseconds=2))

GOLDEN: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "true"),
    (0, "0"),
    (2**53, "9007199254740992"),
    (2**53 + 1, '{"~":["int","20000000000001"]}'),
    (-(2**53) - 1, '{"~":["int","-20000000000001"]}'),
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (1e16, "1e16"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e308"),
    (0.1 + 0.2, "0.30000000000000004"),
    (float("nan"), '{"~":["float","nan"]}'),
    (float("inf"), '{"~":["float","inf"]}'),
    (float("-inf"), '{"~":["float","-inf"]}'),
    ("", '""'),
    ("a\n\x00\\u0000\u2028✓😀", '"a\\n\\u0000\\\\u0000\u2028✓😀"'),
    ("\ud83d", '{"~":["text","7aC9"]}'),
    (b"", '{"~":["bytes",""]}'),
    (b"\x00\xff", '{"~":["bytes","AP8="]}'),
    ([1, "a", []], '[1,"a",[]]'),
    ((), '{"~":["tuple"]}'),
    ((1, (2,)), '{"~":["tuple",1,{"~":["tuple",2]}]}'),
    ({"b": 1, "a": {"~": 2, "c": 3}}, '{"b":1,"a":{"~":2,"c":3}}'),
    ({"~": ["bytes", ""]}, '{"~":["map","~",["bytes",""]]}'),
    ({}, "{}"),
    ({1: "a", "1": "b", True + 1: "c"}, '{"~":["map",1,"a","1","b",2,"c"]}'),
    ({"\ud800": 1, "b": 2}, '{"~":["map",{"~":["text","7aCA"]},1,"b",2]}'),
    ({(1, 2): "t"}, '{"~":["map",{"~":["tuple",1,2]},"t"]}'),
    (set(), '{"~":["set"]}'),
    ({"b", "a", 2, 10}, '{"~":["set","a","b",10,2]}'),
    (frozenset({(1,)}), '{"~":["frozenset",{"~":["tuple",1]}]}'),
    (NAIVE, '{"~":["datetime","2024-10-27T02:30:00",1,null]}'),
    (
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
        '{"~":["datetime","2024-10-27T02:30:00",1,"Europe/Berlin"]}',
    ),
    (
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        '{"~":["datetime","9999-12-31T23:59:59.999999+00:00",0,null]}',
    ),
    (datetime(1, 1, 1, tzinfo=INDIA), '{"~":["datetime","0001-01-01T00:00:00+05:30:01.000002",0,null]}'),
    (
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
        '{"~":["datetime","2024-01-01T00:00:00+01:00",0,null,"CET"]}',
    ),
    (date(2024, 2, 29), '{"~":["date","2024-02-29"]}'),
    (time(2, 30, 0, 1, fold=1), '{"~":["time","02:30:00.000001",1,null]}'),
    (time(2, 30, tzinfo=BERLIN), '{"~":["time","02:30:00",0,"Europe/Berlin"]}'),
    (timedelta(-1, 2, 3), '{"~":["timedelta",-1,2,3]}'),
    (Decimal("1.10"), '{"~":["decimal","1.10"]}'),
    (Decimal("-0E+5"), '{"~":["decimal","-0E+5"]}'),
    (Decimal("sNaN"), '{"~":["decimal","sNaN"]}'),
    (UUID(int=1), '{"~":["uuid","00000000-0000-0000-0000-000000000001"]}'),
    (Secret("mail"), '{"~":["secret","mail"]}'),
]


@pytest.mark.parametrize(("value", "text"), GOLDEN)
def test_golden_bytes(value: Any, text: str) -> None:
    """The bytes of each kind of value are fixed for ever, and read back to the same value."""
    assert text.encode() == values.encode(value)
    assert face(value) == face(values.decode(text.encode()))


def test_golden_digest() -> None:
    """A digest is fixed for ever: recorded ones must be found again by later versions."""
    value = {"b": [1, 1.5, None], "a": {2: {"x", "y"}, "k": "✓"}, "\ud800": (True,)}
    text = '{"~":["map","a",{"~":["map","k","✓",2,{"~":["set","x","y"]}]},"b",[1,1.5,null],'
    text += '{"~":["text","7aCA"]},{"~":["tuple",true]}]}'
    assert text.encode() == values.canonical(value)
    assert "fbb64844a348e9d9a9e998e484f02a25af69d5d4473201cfbfeccc8d05c93cd6" == values.digest(value).hex()


def test_canonical_sorts() -> None:
    """Canonical bytes sort str keys by code point and all other keys by their own bytes."""
    assert b'{"B":{"x":1,"y":2},"a":0}' == values.canonical({"a": 0, "B": {"y": 2, "x": 1}})
    assert b'{"~":["map","1",0,1,0,{"~":["tuple",1]},0]}' == values.canonical({(1,): 0, 1: 0, "1": 0})


def test_huge_int() -> None:
    """An int beyond the interpreter's limit of digits is a value, a key and a member like any other."""
    huge = 10**5000
    assert sys.get_int_max_str_digits() < 5000
    assert {huge: [huge, {-huge}]} == values.decode(values.encode({huge: [huge, {-huge}]}))


def test_decimal_of_another_context() -> None:
    """The bytes of a Decimal do not depend on the thread's decimal context."""
    with decimal.localcontext() as context:
        context.capitals, context.prec = 0, 3
        assert b'{"~":["decimal","1.23456E+20"]}' == values.encode(Decimal("123456E15"))
        assert Decimal("123456E15") == values.decode(b'{"~":["decimal","1.23456E+20"]}')


def _nested(levels: int, kind: Any) -> Any:
    value: Any = kind([])
    for _ in range(levels - 1):
        value = {1: value} if kind is dict else kind([value])
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict, frozenset])
def test_deepest_nesting(kind: Any) -> None:
    """NESTING_MAX levels of any container are stored; one more is refused."""
    deepest = _nested(NESTING_MAX, kind)
    raw = values.encode(deepest)
    assert raw == values.encode(values.decode(raw)) == values.canonical(values.copy(deepest))
    for refuse in (values.encode, values.copy, values.canonical):
        with pytest.raises(Unstorable, match="nested deeper"):
            refuse(_nested(NESTING_MAX + 1, kind))


def test_endless_nesting() -> None:
    """What holds itself, and what is nested beyond the call stack, is refused and does not end the interpreter."""
    loop: dict[str, Any] = {"a": []}
    loop["a"].append(loop)
    for value in (loop, _nested(10_000, list), _nested(10_000, tuple)):
        with pytest.raises(Unstorable, match="nested deeper"):
            values.encode(value)
        with pytest.raises(Unstorable, match="nested deeper"):
            values.copy(value)
    for raw in (b"[" * 10_000 + b"]" * 10_000, b'{"~":["tuple",' * 900 + b"1" + b"]}" * 900):
        with pytest.raises(CodecError):
            values.decode(raw)


def test_wide_maps_are_written_once() -> None:
    """A late key that is no str does not make each level of a nested dict be written again."""
    asked: list[str] = []
    value: Any = {"leaf": "x" * 100}
    for _ in range(50):
        value = {"inner": value, 1: 0}
    values.to_wire(value, leaf=asked.append)
    assert 1 == len(asked)


def test_oversized_leaves() -> None:
    """A str, bytes or int over LEAF_BYTES_MAX is refused by its path; one of exactly that size is stored."""
    for fits in ("a" * LEAF_BYTES_MAX, "é" * (LEAF_BYTES_MAX // 2), b"a" * LEAF_BYTES_MAX):
        assert values.same([fits], values.copy([fits]))
    too_large = ["a" * (LEAF_BYTES_MAX + 1), "é" * (LEAF_BYTES_MAX // 2 + 1), b"a" * (LEAF_BYTES_MAX + 1)]
    for value in [*too_large, 1 << (LEAF_BYTES_MAX * 8)]:
        for refuse in (values.to_wire, values.copy):
            with pytest.raises(Unstorable, match="over 16777216 bytes") as caught:
                refuse({"a": [value]})
            assert ("a", 0) == caught.value.path


@pytest.mark.parametrize("nan", [float("nan"), Decimal("NaN"), (1, float("nan")), frozenset({float("nan")})])
def test_nan_is_no_key(nan: Any) -> None:
    """NaN equals nothing, so as a key or member, at any depth of one, it is refused."""
    for value in ({nan: 1}, {nan}, {"a": 1, nan: 2}):
        for refuse in (values.encode, values.copy):
            with pytest.raises(Unstorable, match="could never be found"):
                refuse(value)
    with pytest.raises(Unstorable):
        values.check_key(nan, ("a",))


class _OddZone(tzinfo):
    def utcoffset(self, _moment: datetime | None) -> timedelta:
        return timedelta(0)


class _Unprintable:
    __slots__ = ("unset",)

    def __repr__(self) -> str:
        return self.unset


def test_refusal_names_type_and_reason() -> None:
    """The refusal says which type stands where, also for objects that cannot even be printed."""
    with pytest.raises(Unstorable) as caught:
        values.copy({"a": [0, {"b": _Unprintable()}]})
    assert ("a", 1, "b") == caught.value.path
    assert "_Unprintable" in str(caught.value)
    with pytest.raises(Unstorable, match="as a key or member"):
        values.encode({"a": {_Unprintable(): 1}})
    for zone in (_OddZone(), ZoneInfo.from_file(_zone_file())):
        with pytest.raises(Unstorable, match="time zone"):
            values.copy([datetime(2024, 1, 1, tzinfo=zone)])


def _zone_file() -> io.BytesIO:
    """The smallest file of a time zone: one type, no transitions."""
    return io.BytesIO(b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0")


def test_leaf_replaces_long_texts() -> None:
    """`leaf` is asked about long str and bytes only, never about keys and members, and `resolve` brings them back."""
    long, short, raw = "x" * 64, "x" * 63, b"y" * 64
    value = {"a": [long, short, ("é" * 64, raw)], long: {long}}
    kept: list[Any] = []

    def leaf(item: Any) -> Any:
        if item == "é" * 64:
            return None
        kept.append(item)
        return {"~": ["ref", len(kept) - 1]}

    encoded = values.encode(value, leaf)
    assert [long, raw] == kept
    assert value == values.decode(encoded, lambda tag, parts: {"ref": kept}[tag][parts[0]])
    with pytest.raises(UnknownTag, match="'ref'"):
        values.decode(encoded)


def test_special_stands_for_foreign_objects() -> None:
    """`special` is asked about foreign objects, with their path; what it declines is refused."""
    asked: list[Any] = []

    def special(item: Any, path: values.Path) -> Any:
        asked.append(path)
        return "seen" if type(item) is object else NotImplemented

    assert {"a": ["seen"]} == values.to_wire({"a": [object()]}, special=special)
    assert b'["seen"]' == values.encode([object()], special=special)
    assert {"a": ["seen"]} == values.copy({"a": [object()]}, special=special)
    with pytest.raises(Unstorable):
        values.copy([1j], special=special)
    assert [("a", 0), (0,), ("a", 0), (0,)] == asked


MALFORMED = [
    b"", b"nul", b"NaN", b"1 2", b'"\xff"', b'"\\ud800"', b"\xef\xbb\xbf1", b"1e999", b"18446744073709551616",
    b"9007199254740993", b"1" * 5000, b'{"a":1,"a":2}', b'{"a":{"b":1,"b":1}}', b'{"~":1}', b'{"~":[]}',
    b'{"~":[1]}', b'{"~":["tuple"],"~":["tuple"]}', b'{"~":["map",1]}', b'{"~":["map",1,2,true,3]}',
    b'{"~":["map",[1],2]}', b'{"~":["set",1,1.0]}', b'{"~":["frozenset",{}]}', b'{"~":["bytes","AP9="]}',
    b'{"~":["bytes","AP 8="]}', b'{"~":["bytes",1]}', b'{"~":["bytes","","" ]}', b'{"~":["text","YQ=="]}',
    b'{"~":["int","1"]}', b'{"~":["int","0x20000000000001"]}', b'{"~":["int","020000000000001"]}',
    b'{"~":["float","NaN"]}', b'{"~":["datetime","2024-01-01",0,null]}', b'{"~":["date","20240101"]}',
    b'{"~":["datetime","2024-01-01T00:00:00",2,null]}', b'{"~":["datetime","2024-01-01T00:00:00",true,null]}',
    b'{"~":["datetime","2024-01-01T00:00:00",0,"No/Where"]}', b'{"~":["datetime","2024-01-01T00:00:00",0,"/etc"]}',
    b'{"~":["datetime","2024-01-01T00:00:00+00:00",0,"UTC"]}', b'{"~":["time","12:00:00",0,null,"x"]}',
    b'{"~":["timedelta",0,86400,0]}', b'{"~":["timedelta",0.0,0,0]}', b'{"~":["timedelta",10000000000,0,0]}',
    b'{"~":["decimal","1e5"]}', b'{"~":["decimal",5]}', b'{"~":["uuid","1"]}', b'{"~":["secret",1]}',
    b'{"~":["secret",{"~":["text","YQ=="]}]}', b'{"~":["novel"]}', b'{"~":["tuple",{"~":["novel"]}]}',
]  # fmt: skip


@pytest.mark.parametrize("raw", MALFORMED)
def test_malformed_bytes(raw: bytes) -> None:
    """What the codec does not write is refused as CodecError, never read as something else."""
    with pytest.raises(CodecError):
        values.decode(raw)


def test_white_space_is_allowed() -> None:
    """JSON written by others, with white space and escapes of its own, is read."""
    value = {"a": [1, 2.50, "é"], "b": {"c": {}}}
    assert value == values.decode(json.dumps(value, indent=2).encode())


def test_raw_is_read_like_bytes() -> None:
    """The bytes of an entry's field are read without a copy by the caller."""
    assert {"a": 1} == values.decode(msgspec.Raw(b'{"a":1}'))


def test_changed_while_written() -> None:
    """A dict that changes while it is written gives a typed error, not a mixture."""
    value = {"a": "x" * 100, "b": "y" * 100}
    with pytest.raises(Unstorable, match="changed size"):
        values.to_wire(value, leaf=lambda _item: value.pop("b", None))


def test_little_stack_left() -> None:
    """A value that is met with no room left on the call stack gives a typed error."""
    caught: list[Exception] = []

    def sink() -> None:
        try:
            sink()
        except RecursionError:
            try:
                values.copy(_deep)
            except Unstorable as error:
                caught.append(error)
            raise

    _deep = _nested(NESTING_MAX, list)

    def run() -> None:
        with pytest.raises(RecursionError):
            sink()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert any("recursion" in str(error) for error in caught)
