"""How policies read what stands in an agent's memory. Pure."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:  # noqa: ANN401 - a view of the state, or plain already
    """Return a plain copy of a view, anything else as it is."""
    return value.plain() if hasattr(value, "plain") else value
