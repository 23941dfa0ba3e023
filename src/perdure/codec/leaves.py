"""Big and repeated leaves of values: blobs and references, on top of the value codec which knows neither.

A `str` or `bytes` leaf over 4 KiB is stored once under its digest ("blob"); a value whose bytes pass 1 MiB is put aside
in the same way, whole. A leaf of a patch that stands in the outcome of the same entry is written as the path to it
("ref"). An argument that is a view of the state is written as path and seq ("state", "run"). All of them are tags of
the value codec: `{"~": ["blob", …]}`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import NoneType
from typing import Any, Final, cast

import msgspec

from perdure.codec import values
from perdure.codec.known import process
from perdure.codec.redact import redact
from perdure.codec.scalars import INT_PLAIN
from perdure.errors import CodecError, LimitExceeded
from perdure.limits import (
    BLOB_FROM_BYTES,
    ENTRY_BYTES_MAX,
    LEAF_BYTES_MAX,
    REFERENCE_FROM_BYTES,
    TOOL_OUTPUT_BYTES_MAX,
)
from perdure.model.patch import Op, ops_to_value

_BLOB: Final = re.compile(rb'\{"~":\["blob","(?:str|text|bytes|value)","([0-9a-f]{64})"')
_WHOLE: Final = re.compile(rb'\{"~":\["blob","value","([0-9a-f]{64})"')
_IMMUTABLE: Final = frozenset((NoneType, bool, int, float, str, bytes))
_encode_json: Final = msgspec.json.Encoder().encode


class LeafWriter:
    """Replaces leaves while one entry's values are encoded, and collects the blobs that its append must carry."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self._known: dict[str | bytes, list[Any]] = {}

    @property
    def has_references(self) -> bool:
        """Whether a leaf may be written as a reference."""
        return bool(self._known)

    def refer_to(self, result: object) -> None:
        """From now on write leaves that stand in `result` as references to it."""
        _index(result, [], self._known)

    def __call__(self, leaf: str | bytes) -> object | None:
        """Return what to write instead of `leaf`, None to write it as it is."""
        path = self._known.get(leaf)
        if path is not None:
            return {"~": ["ref", *path]}
        if len(leaf) <= BLOB_FROM_BYTES // 4:  # a character has at most four bytes
            return None
        kind, raw = _leaf_bytes(leaf)
        if len(raw) <= BLOB_FROM_BYTES:
            return None
        if len(raw) > LEAF_BYTES_MAX:
            raise LimitExceeded("one str or bytes value in bytes", len(raw), LEAF_BYTES_MAX)
        return self._put_aside(kind, raw)

    def finish(self, raw: bytes) -> bytes:
        """Return the bytes of a value as they go into an entry: themselves, or the name of the blob that holds them."""
        if len(raw) <= ENTRY_BYTES_MAX:
            return raw
        if len(raw) > TOOL_OUTPUT_BYTES_MAX:
            raise LimitExceeded("one value in bytes", len(raw), TOOL_OUTPUT_BYTES_MAX)
        return _encode_json(self._put_aside("value", raw))

    def _put_aside(self, kind: str, raw: bytes) -> object:
        digest = hashlib.sha256(raw).digest()
        self.blobs[digest] = raw
        return {"~": ["blob", kind, digest.hex(), len(raw)]}


def encode(
    value: object, leaf: LeafWriter, special: Callable[[object, tuple[object, ...]], object] | None = None
) -> bytes:
    """Return the bytes of `value` after redaction, its big leaves given to `leaf`."""
    learned, blobs = process.learned, len(leaf.blobs)
    raw = _encode(redact(value), leaf, special)
    return raw if process.learned == learned else _encode_again(value, leaf, special, blobs)


def encode_whole(value: object) -> bytes:
    """Return the bytes of `value` in one piece, for a snapshot; its big leaves are named, as in the journal.

    What was folded was redacted on its way in, and a snapshot says what the journal says.
    """
    return values.encode(value, leaf=LeafWriter(), leaf_min=REFERENCE_FROM_BYTES)


def record(value: object, leaf: LeafWriter) -> tuple[bytes, object]:
    """Return the bytes of `value` and the value that a reader of them will get, which shares no container with it."""
    value = redact(value)
    raw = encode(value, leaf)
    return raw, value if type(value) in _IMMUTABLE else decode(raw, leaf.blobs)


def encode_patch(operations: Iterable[Op], leaf: LeafWriter) -> bytes:
    """Return `encode(ops_to_value(operations), leaf)`, without walking through the shell of each operation.

    The views have redacted what they wrote: to do it again could only make the patch say something else than the state.
    """
    wires: list[Any] = []
    for kind, path, *parts in cast("list[list[Any]]", ops_to_value(operations)):
        wires.append([kind, [_to_wire(step, leaf) for step in path], *[_to_wire(part, leaf) for part in parts]])
    return leaf.finish(_encode_json(wires))


def decode(raw: bytes, blobs: Mapping[bytes, bytes], root: object = None, state: object = None) -> object:
    """Return the value in `raw`; "blob" tags are taken from `blobs` (KeyError if missing), "ref" tags from `root`.

    "state" and "run" tags (arguments that were views) are taken from `state`, the state as of the entry that they name;
    without it they come back as text that says what they were, for people.
    """

    def resolve(tag: str, parts: list[Any]) -> object:
        match tag:
            case "blob" if parts[0] == "value":
                return decode(blobs[bytes.fromhex(parts[1])], blobs, root, state)
            case "blob":
                return _leaf_of(parts[0], blobs[bytes.fromhex(parts[1])])
            case "ref":
                return _follow(root, [values.from_wire(part) for part in parts])
            case "list":
                return [item for part in parts for item in elements(part)]
            case "state" if state is not None:
                return _follow(state, cast("list[Any]", values.from_wire(parts[0])))
            case "run" if state is not None:
                path, first, end = cast("list[Any]", values.from_wire(parts[0])), parts[1], parts[2]
                return cast("list[Any]", _follow(state, path))[first:end]
            case "state" | "run":
                return f"<{tag} {parts}>"
            case _:
                raise CodecError(f"unknown value tag {tag!r}")

    def elements(part: Any) -> list[Any]:  # noqa: ANN401 - plain JSON
        """Return the elements of a list that one of its parts stands for: those of a run, else itself."""
        is_run = (
            state is not None and isinstance(part, dict) and cast("dict[str, Any]", part).get("~", [""])[0] == "run"
        )
        found = values.from_wire(part, resolve)
        return cast("list[Any]", found) if is_run else [found]

    return values.decode(raw, resolve=resolve)


def states_named(raw: bytes, blobs: Mapping[bytes, bytes]) -> list[int]:
    """Return the seqs of the entries as of which "state" and "run" tags in `raw` name parts of the state."""
    found: list[int] = []
    whole = (bytes.fromhex(name.decode()) for name in _WHOLE.findall(raw))
    for part in (raw, *(blobs[digest] for digest in whole if digest in blobs)):
        if b'["state"' in part or b'["run"' in part:
            found += _states_in(msgspec.json.decode(part))
    return found


def _states_in(wire: Any) -> list[int]:  # noqa: ANN401 - plain JSON
    if isinstance(wire, list):
        items = cast("list[Any]", wire)  # type: ignore[redundant-cast]  # pyright needs it
        return [seq for item in items for seq in _states_in(item)]
    if not isinstance(wire, dict):
        return []
    fields = cast("dict[str, Any]", wire)
    body = fields.get("~")
    if isinstance(body, list) and body and body[0] in {"state", "run"}:
        seq = cast("list[Any]", body)[-1]  # type: ignore[redundant-cast]  # pyright needs it
        return [seq] if isinstance(seq, int) else []
    return [seq for item in fields.values() for seq in _states_in(item)]


def blob_digests(raw: bytes) -> list[bytes]:
    """Return the digests of the blobs that the encoded value names.

    Quotes inside strings are escaped, so text that looks like a tag is none.
    """
    return [bytes.fromhex(found.decode()) for found in _BLOB.findall(raw)] if b'"blob"' in raw else []


async def gather_blobs(
    raws: Iterable[bytes], fetch: Callable[[list[bytes]], Awaitable[Mapping[bytes, bytes]]]
) -> dict[bytes, bytes]:
    """Return the blobs that the encoded values name, and those that values put aside whole name in turn."""
    found: dict[bytes, bytes] = {}
    waiting = list(raws)
    while waiting:
        named = dict.fromkeys(digest for raw in waiting for digest in blob_digests(raw))
        missing = [digest for digest in named if digest not in found]
        if missing:
            found.update(await fetch(missing))
        whole = [bytes.fromhex(name.decode()) for raw in waiting for name in _WHOLE.findall(raw)]
        waiting = [found[digest] for digest in whole if digest in found]
    return found


async def name_blobs(
    raws: Iterable[bytes], fetch: Callable[[list[bytes]], Awaitable[Mapping[bytes, bytes]]]
) -> list[bytes]:
    """Return the digests of the blobs that `gather_blobs` would give; reads only values that were put aside whole."""
    named: dict[bytes, None] = {}
    waiting = list(raws)
    while waiting:
        named.update(dict.fromkeys(digest for raw in waiting for digest in blob_digests(raw)))
        whole = [bytes.fromhex(name.decode()) for raw in waiting for name in _WHOLE.findall(raw)]
        waiting = list((await fetch(whole)).values()) if whole else []
    return list(named)


def _encode(
    value: object, leaf: LeafWriter, special: Callable[[object, tuple[object, ...]], object] | None = None
) -> bytes:
    is_short_text = type(value) is str and len(value) <= BLOB_FROM_BYTES and value.isascii()
    if is_short_text and not leaf.has_references:
        return _encode_json(value)  # what the walk would come to
    return leaf.finish(values.encode(value, leaf=leaf, leaf_min=REFERENCE_FROM_BYTES, special=special))


def _encode_again(
    value: object, leaf: LeafWriter, special: Callable[[object, tuple[object, ...]], object] | None, blobs: int
) -> bytes:
    """Encode anew: in mid-value something said that it is secret, and its text may stand elsewhere in it."""
    for digest in list(leaf.blobs)[blobs:]:
        del leaf.blobs[digest]
    return _encode(redact(value), leaf, special)


def _to_wire(value: object, leaf: LeafWriter) -> object:
    if type(value) is int and 0 <= value <= INT_PLAIN:  # an index or a number of elements
        return value
    if type(value) is str and len(value) < REFERENCE_FROM_BYTES and value.isascii():
        return value
    return values.to_wire(value, leaf=leaf, leaf_min=REFERENCE_FROM_BYTES)


def _leaf_bytes(leaf: str | bytes) -> tuple[str, bytes]:
    if isinstance(leaf, bytes):
        return "bytes", leaf
    try:
        return "str", leaf.encode()
    except UnicodeEncodeError:
        return "text", leaf.encode("utf-8", "surrogatepass")


def _leaf_of(kind: str, raw: bytes) -> str | bytes:
    match kind:
        case "bytes":
            return raw
        case "str":
            return raw.decode()
        case _:
            return raw.decode("utf-8", "surrogatepass")


def _index(value: Any, path: list[Any], known: dict[str | bytes, list[Any]]) -> None:  # noqa: ANN401 - any value
    if type(value) is str or type(value) is bytes:
        if len(value) >= REFERENCE_FROM_BYTES:
            known.setdefault(value, path)
    elif type(value) is list or type(value) is tuple:
        for number, item in enumerate(cast("list[Any]", value)):
            _index(item, [*path, number], known)
    elif type(value) is dict:
        for key, item in cast("dict[Any, Any]", value).items():  # type: ignore[redundant-cast]  # pyright needs it
            _index(item, [*path, values.to_wire(key)], known)


def _follow(root: Any, path: list[Any]) -> object:  # noqa: ANN401 - any value
    for step in path:
        try:
            root = root[step]
        except (KeyError, IndexError, TypeError) as error:
            raise CodecError(f"a reference names {path!r}, which is not in the outcome") from error
    return cast("object", root)
