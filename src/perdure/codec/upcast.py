"""Reads payloads of earlier versions: a chain of small functions from version n to n + 1, applied to the decoded JSON.

An entry on disk is never rewritten; whoever reads it gets today's shape. The table is empty as long as every kind has
one version; `tests/unit/codec/test_upcast.py` shows the mechanism with a made-up second version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

UPCASTERS: Final[Mapping[tuple[int, int], Upcaster]] = {}  # (kind, version) -> function to version + 1


def upcast(
    kind: int, version: int, target: int, fields: dict[str, Any], table: Mapping[tuple[int, int], Upcaster] = UPCASTERS
) -> dict[str, Any]:
    """Return `fields` of a payload in the shape of version `target`.

    Raises LookupError where a step is missing: that is a fault of this release, not of the stored entry.
    """
    for step in range(version, target):
        fields = table[kind, step](fields)
    return fields
