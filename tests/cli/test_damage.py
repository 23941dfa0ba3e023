"""A store of which a bit has turned: every verb says so in its own words, exit 6, or does not meet it."""

import contextlib
import random
import sqlite3

import pytest

from perdure.cli import exits

VERBS = (
    ("list", "--all"),
    ("show", "a"),
    ("state", "a"),
    ("checkpoints", "a"),
    ("log", "a"),
    ("verify", "--full"),
    ("resume", "b", "--quiet"),
    ("run", "--program", "programs.py:count", "--name", "c", "--set", "n=1", "--quiet"),
    ("doctor",),
)
CODES = {exits.DONE, exits.FAILED, exits.USAGE, exits.NEEDS_A_PERSON, exits.DAMAGED}


@pytest.fixture
def stored(perdure, here):
    """The bytes of a small store: a task that is done, and one that needs a person."""
    place = here / "x.db"
    perdure("run", "--program", "programs.py:count", "--name", "a", "--store", place)
    perdure("run", "--program", "programs.py:failing", "--name", "b", "--store", place)
    with contextlib.closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return place.read_bytes()


def turn(here, stored, place, bit):
    """Write the store with one bit turned, and nothing beside it."""
    for end in ("-wal", "-shm"):
        (here / f"x.db{end}").unlink(missing_ok=True)
    turned = bytearray(stored)
    turned[place] ^= bit
    (here / "x.db").write_bytes(turned)


@pytest.mark.parametrize("flips", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_a_turned_bit_is_never_an_error_that_nobody_expected(perdure, here, stored, flips):
    """Wherever it is: each verb ends with a code of the table, and what it raises is an error of ours."""
    chance = random.Random(flips)
    written = [place for place, byte in enumerate(stored) if byte]
    codes = set()
    for _ in range(flips):
        turn(here, stored, chance.choice(written), 1 << chance.randrange(8))
        codes |= {perdure(*verb, "--store", here / "x.db")[0] for verb in VERBS}
    assert codes <= CODES
    assert exits.DAMAGED in codes


def test_a_schema_that_cannot_be_read_is_damage(perdure, here, stored):
    """The text of the tables itself: exit 6 from every verb but doctor, which names it a stop."""
    turn(here, stored, stored.index(b"CREATE TABLE"), 1)
    for verb in VERBS[:-1]:
        code, out, err = perdure(*verb, "--store", here / "x.db")
        assert (6, "") == (code, out)
        assert err.startswith("perdure: ")
    code, out, _ = perdure("doctor", "--store", here / "x.db")
    assert 1 == code
    assert "stop  store:" in out
