"""`perdure rollback` and the world outside: what it says before, what it refuses, and what it takes back."""

import json

import pytest

PROGRAM = """
import pathlib

import perdure

BOOKED = pathlib.Path("booked.txt")


@perdure.tool(effect="idempotent")
def unbook(room: str, key: perdure.EffectKey) -> None:
    if pathlib.Path("closed").exists():
        raise ValueError("the hotel is closed")
    BOOKED.write_text(BOOKED.read_text().replace(room + "\\n", ""))


@perdure.tool(effect="compensable", undo=unbook)
def book(room: str) -> str:
    BOOKED.write_text((BOOKED.read_text() if BOOKED.exists() else "") + room + "\\n")
    return room


@perdure.tool(effect="irreversible")
def shout(text: str) -> None:
    pathlib.Path("shouted.txt").write_text(text)


@perdure.program(state={"n": 0})
async def trip(task, loud: bool):
    await task.checkpoint("home")
    await task.using(key="book").act(book, "room 7", then=lambda state, room: state.update(n=1))
    if loud:
        await task.using(key="shout").act(shout, "hello")
    await task.fail("far enough") if task.facts else await task.ask("go on?")
"""


@pytest.fixture
def away(perdure, here):
    """Start the trip, loud or not; it waits for a person, with a room booked."""

    def start(*, loud):
        (here / "trip.py").write_text(PROGRAM)
        line = ("run", "--program", "trip.py:trip", "--name", "t", "--set", f"loud={json.dumps(loud)}")
        assert 3 == perdure(*line)[0]
        assert "room 7\n" == (here / "booked.txt").read_text()
        return here

    return start


def test_a_dry_run_says_what_would_change_and_does_nothing(perdure, away):
    """State, effects and their fate, as text and as JSON; the journal has no entry more."""
    here = away(loud=True)
    before = perdure("log", "t", "--json")[1]
    code, out, _ = perdure("rollback", "t", "--to", "home", "--dry-run")
    assert 0 == code
    for line in ("state['n']: 1 becomes 0", "shout (action", ": stays", "book (action", ": taken back", "--carry"):
        assert line in out
    told = json.loads(perdure("rollback", "t", "--to", "home", "--dry-run", "--json")[1])
    assert [("shout", "stays"), ("book", "taken back")] == [(one["tool"], one["fate"]) for one in told["effects"]]
    assert (1, [{"path": "state['n']", "now": 1, "then": 0}]) == (told["stays"], told["state"])
    assert (before, "room 7\n") == (perdure("log", "t", "--json")[1], (here / "booked.txt").read_text())


def test_effects_are_taken_back_by_the_tools_of_the_recorded_program(perdure, away):
    """Another process imports them."""
    here = away(loud=False)
    assert 0 == perdure("rollback", "t", "--to", "home")[0]
    assert "" == (here / "booked.txt").read_text()
    assert {"n": 0} == json.loads(perdure("state", "t")[1])
    assert 0 == perdure("verify", "t")[0]


def test_what_cannot_be_taken_back_stops_it_until_it_is_said_what_becomes_of_it(perdure, away):
    """Exit 2 and both lines to type; carried, the fact is on record."""
    away(loud=True)
    code, _, err = perdure("rollback", "t", "--to", "home")
    assert 2 == code
    assert "perdure rollback t --to home --carry" in err
    assert 2 == perdure("rollback", "t", "--to", "home", "--carry", "--force")[0]
    assert 0 == perdure("rollback", "t", "--to", "home", "--carry")[0]
    facts = [line for line in perdure("log", "t", "--json")[1].splitlines() if '"fact_stated"' in line]
    assert 1 == len(facts)
    assert "shout(text='hello') has happened" in facts[0]


def test_to_the_moment_behind_the_effect_nothing_has_to_be_said(perdure, away):
    """`effect`, and the number of a checkpoint's entry, are checkpoints like any other."""
    away(loud=True)
    assert 0 == perdure("rollback", "t", "--to", "effect")[0]
    code, _, err = perdure("rollback", "t", "--to", "1")
    assert (2, True) == (code, "--force" in err)
    assert 2 == perdure("rollback", "t", "--to", "2")[0]


def test_an_undo_that_fails_waits_and_is_settled_or_tried_again(perdure, away):
    """Exit 3 with the lines; `show` lists it; put right, `resume` takes it back and goes on."""
    here = away(loud=False)
    (here / "closed").touch()
    code, _, err = perdure("rollback", "t", "--to", "home")
    assert 3 == code
    assert "the hotel is closed" in err
    (pending,) = json.loads(perdure("show", "t", "--json")[1])["pending"]
    assert ("unbook", "failed") == (pending["tool"], pending["standing"])
    assert 2 == perdure("rollback", "t", "--abandon")[0]
    (here / "closed").unlink()
    assert 3 == perdure("resume", "t")[0]  # it asks again whether to go on
    assert "room 7\n" == (here / "booked.txt").read_text()  # taken back, and booked again on the new branch
    assert 1 == json.loads(perdure("show", "t", "--json")[1])["branch"]


def test_settled_as_happened_the_rollback_ends_without_it(perdure, away):
    """The line from the message, typed."""
    here = away(loud=False)
    (here / "closed").touch()
    assert 3 == perdure("rollback", "t", "--to", "home")[0]
    (pending,) = json.loads(perdure("show", "t", "--json")[1])["pending"]
    assert 0 == perdure("settle", "t", pending["action"], "--happened")[0]
    assert 3 == perdure("resume", "t")[0]
    assert 1 == json.loads(perdure("show", "t", "--json")[1])["branch"]


def test_one_of_to_and_abandon_must_be_said(perdure, away):
    """Neither, or both, is wrong use; with nothing to give up it is refused."""
    away(loud=False)
    assert [2, 2, 2] == [
        perdure("rollback", "t", *words)[0] for words in ((), ("--to", "home", "--abandon"), ("--abandon",))
    ]
