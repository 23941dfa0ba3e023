"""Reads `queries.sql` and the migrations. Called by the other modules of this package, once, at import."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

_NAME: Final = re.compile(r"^-- (\w+): .+$", re.MULTILINE)
_MIGRATION: Final = re.compile(r"(\d{4})_\w+\.sql")


def load_queries() -> dict[str, str]:
    """Return {name: statement} of `queries.sql`."""
    _, *pieces = _NAME.split(read_sql("queries.sql"))
    return {name: sql.strip() for name, sql in zip(pieces[::2], pieces[1::2], strict=True)}


def load_migrations() -> list[str]:
    """Return the migrations in order: the n-th leads from schema n - 1 to schema n."""
    names = (entry.name for entry in (resources.files("perdure.stores.sqlite") / "migrations").iterdir())
    numbered = sorted(name for name in names if _MIGRATION.fullmatch(name))
    return [read_sql(f"migrations/{name}") for name in numbered]


def read_sql(name: str) -> str:
    """Return the text of an SQL file of this package."""
    return (resources.files("perdure.stores.sqlite") / name).read_text("utf-8")


SQL: Final = load_queries()
