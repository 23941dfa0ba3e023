"""Stored values as plain JSON that people and other languages can read. The contract is docs/reference/log.md.

The value codec marks what JSON lacks with `~`; here each such value becomes an object with one key that names its type:
`{"$bytes": "aGk="}`. A dict that could be taken for one of those becomes `{"$map": [[key, value], …]}`. Tuples become
arrays: this form is for reading, it is never read back by perdure. Called by `lines`, by views and by the CLI.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import msgspec

from perdure.codec import leaves
from perdure.ports import Store

Plain = Any  # None, bool, int, float, str, list, dict with str keys
Blobs = Mapping[bytes, bytes]

_MARK: Final = "~"
_HEX_DIGITS_MAX: Final = 3_300  # Python writes at most 4,300 decimal digits
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = object()  # no such place
# Valid in JSON, but some readers take them for line ends and some terminals for commands.
_AWKWARD: Final = re.compile("[\x7f-\x9f\u2028\u2029]")


async def fetch_blobs(store: Store, raws: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the blobs that the encoded values name, without those that are gone."""

    async def fetch(wanted: list[bytes]) -> dict[bytes, bytes]:
        try:
            return dict(await store.blobs(wanted))
        except KeyError:
            found: dict[bytes, bytes] = {}
            for digest in wanted:
                found |= await _one_blob(store, digest)
            return found

    return await leaves.gather_blobs(raws, fetch)


def to_plain(raw: bytes, blobs: Blobs, root: Plain = None) -> Plain:
    """Return the encoded value as plain JSON; `root` is the plain result that references point into."""
    return _Reader(blobs, root).read(msgspec.json.decode(raw))


def to_line(value: Plain) -> bytes:
    """Return one line of strict JSON in UTF-8, ended by LF, without any other character that ends a line."""
    encoded = msgspec.json.encode(value)
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded + b"\n"
    text = encoded.decode()
    return (_AWKWARD.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n").encode()


def moment(at_us: int) -> str:
    """Return microseconds since 1970 as text: UTC, ISO 8601, always with six digits behind the point."""
    seconds, micros = divmod(at_us, 1_000_000)
    return f"{_second(seconds)}.{micros:06d}Z"


@functools.lru_cache(maxsize=16)  # moments of neighbouring lines lie close together
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


async def _one_blob(store: Store, digest: bytes) -> dict[bytes, bytes]:
    try:
        return dict(await store.blobs([digest]))
    except KeyError:
        return {}


class _Reader:
    """Reads wires of the value codec; unknown tags are shown as they are."""

    def __init__(self, blobs: Blobs, root: Plain) -> None:
        self._blobs = blobs
        self._root = root

    def read(self, wire: Plain) -> Plain:
        if isinstance(wire, list):
            return self._all(cast("list[object]", wire))
        if not isinstance(wire, dict):
            return wire
        fields = cast("dict[str, object]", wire)
        body = fields.get(_MARK) if len(fields) == 1 else None
        if isinstance(body, list) and body:
            tag, *parts = cast("list[object]", body)
            return self._tagged(str(tag), parts)
        pairs = {key: self.read(item) for key, item in fields.items()}
        is_ambiguous = len(pairs) == 1 and next(iter(pairs)).startswith("$")
        return {"$map": [[key, item] for key, item in pairs.items()]} if is_ambiguous else pairs

    def _all(self, wires: list[object]) -> list[Plain]:
        return [self.read(wire) for wire in wires]

    def _tagged(self, tag: str, parts: list[object]) -> Plain:
        match tag, parts:
            case "tuple", _:
                return [self.read(part) for part in parts]
            case (("set" | "frozenset"), _):
                return {f"${tag}": self._all(parts)}
            case "map", _:
                flat = self._all(parts)
                return {"$map": [list(pair) for pair in zip(flat[::2], flat[1::2], strict=False)]}
            case "text", [str() as encoded]:
                return _text(base64.b64decode(encoded))
            case "int", [str() as digits]:
                return {"$int": str(int(digits, 16)) if len(digits) <= _HEX_DIGITS_MAX else _hexadecimal(digits)}
            case (("datetime" | "time"), [str() as moment, int(), zone, *_]):
                return {f"${tag}": f"{moment}[{zone}]" if zone else moment}
            case "timedelta", [int() as days, int() as seconds, int() as micros]:
                return {"$timedelta": (days * 86_400 + seconds) + micros / 1_000_000}
            case "state", [path, int() as seq]:
                return {"$state": {"path": self.read(path), "seq": seq}}
            case "run", [path, int() as first, int() as end, int() as seq]:
                return {"$run": {"path": self.read(path), "from": first, "to": end, "seq": seq}}
            case "blob", [str() as kind, str() as digest, *_]:
                return self._blob(kind, digest)
            case "ref", path:
                return self._reference(path)
            case _, [single]:
                return {f"${tag}": self.read(single)}
            case _:
                return {f"${tag}": self._all(parts)}

    def _blob(self, kind: str, digest: str) -> Plain:
        raw = self._blobs.get(bytes.fromhex(digest))
        if raw is None:
            return {"$missing_blob": digest}
        if kind == "value":
            return self.read(msgspec.json.decode(raw))
        if kind == "bytes":
            return {"$bytes": base64.b64encode(raw).decode()}
        return raw.decode() if kind == "str" else _text(raw)

    def _reference(self, path: list[object]) -> Plain:
        found = self._root
        for step in map(self.read, path):
            found = _step_into(found, step)
        return {"$ref": self._all(path)} if found is _NOTHING else found


def _step_into(value: Plain, step: Plain) -> Plain:
    if isinstance(value, dict):
        return cast("dict[object, object]", value).get(step, _NOTHING) if isinstance(step, str) else _NOTHING
    if isinstance(value, list) and isinstance(step, int):
        items = cast("list[object]", value)
        return items[step] if 0 <= step < len(items) else _NOTHING
    return _NOTHING


def _text(raw: bytes) -> Plain:
    """Return text with halves of surrogate pairs: those as escapes, each backslash doubled, so nothing is ambiguous."""
    text = raw.decode("utf-8", "surrogatepass").replace("\\", "\\\\")
    return {"$text": text.encode("utf-8", "backslashreplace").decode()}


def _hexadecimal(digits: str) -> str:
    return f"-0x{digits[1:]}" if digits.startswith("-") else f"0x{digits}"
