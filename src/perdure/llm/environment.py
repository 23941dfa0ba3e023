"""What the environment has for a model to be asked with."""

from __future__ import annotations

from collections.abc import Mapping


def advice(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what to say where no model is chosen."""
    found = sorted(name for name in environ if name.endswith("_API_KEY"))
    return (f"no model is chosen ({', '.join(found) or 'no keys'} found); this is --model offline",)
