"""One way to put something else in a module's or class's place, and to put it back. Called by the simulation only."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def patched(owner: Any, name: str, value: object) -> Generator[None]:
    """Let `owner.name` be `value` while the block runs."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
