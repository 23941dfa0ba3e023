"""The JSON Schema of a line, as the package carries it: `schema.json`. Called by `perdure log` and by tests."""

from __future__ import annotations

from importlib.resources import files


def read_schema() -> bytes:
    """Return the schema (JSON Schema, draft 2020-12) as it is in the package."""
    return files("perdure.logs").joinpath("schema.json").read_bytes()
