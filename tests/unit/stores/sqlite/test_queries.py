"""The SQL files agree with each other, with SQLite and with the code."""

import contextlib
import re
import sqlite3
from pathlib import Path

import pytest

from perdure.stores.sqlite.queries import SQL, load_migrations, read_sql

PACKAGE = Path("src/perdure/stores/sqlite")
CODE = "\n".join(path.read_text("utf-8") for path in PACKAGE.glob("*.py"))


def schema_of(*scripts):
    """What a database holds after the scripts: each object's SQL without comments and blanks."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for script in scripts:
            connection.executescript(script)
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(kind, name): re.sub(r"--.*|\s+", " ", sql or "").split() for kind, name, sql in rows}


def test_the_schema_is_the_sum_of_the_migrations():
    """schema.sql, which people read, is what all migrations make."""
    assert schema_of(read_sql("schema.sql")) == schema_of(*load_migrations())


@pytest.mark.parametrize("name", SQL)
def test_each_query_is_valid_and_used(name):
    """Each statement is one that SQLite prepares against the schema, and some module asks for it by name."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(read_sql("schema.sql"))
        parameters = (0,) * SQL[name].replace("?1", "?", 1).replace("?1", "").count("?")
        connection.execute(f"EXPLAIN {SQL[name]}", parameters)
    assert f'"{name}"' in CODE


@pytest.mark.parametrize(
    "name", ["task_number", "newest", "page", "lease", "used_blob", "blob_parts", "waiting_messages", "newest_of_name"]
)
def test_queries_of_every_day_scan_nothing(name):
    """What is asked often is found by an index, so that its cost does not grow with the store."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(read_sql("schema.sql"))
        plan = connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", (0,) * SQL[name].count("?")).fetchall()
    assert [] == [row[3] for row in plan if row[3].startswith("SCAN")]
