"""Which strategy comes next, and which one calls somebody else: what comes before what, one thing at a time."""

import pytest

from perdure.core.strategies import elsewhere, ended_so, has_ended_so, next_strategy, rounds_of
from perdure.model.document import Document
from perdure.model.ledger import Ledger, Tried
from perdure.model.strategy import Strategy

DIRECT, OUTLINE, TOOLS = (
    Strategy("direct", prompt="a"),
    Strategy("outline", prompt="b"),
    Strategy("tools", tools=("x",)),
)
HELP, MODEL = Strategy("help", change="ask"), Strategy("model", prompt="a", model="m")
WEB, BOOKS, PAPERS = (Strategy(name, source=name) for name in ("web", "books", "papers"))


@pytest.mark.parametrize(
    ("strategies", "tried", "name"),
    [
        # a person is asked behind all that were tried less often, however badly they did before
        ((DIRECT, HELP, OUTLINE), {"outline": Tried(failures=9)}, "outline"),
        ((DIRECT, HELP, OUTLINE), {"outline": Tried(rounds=1)}, "help"),
        # another one than the present one, however well that did
        ((DIRECT, OUTLINE), {"direct": Tried(rounds=1, progress=5), "outline": Tried(rounds=1, failures=5)}, "outline"),
        # fewer rounds before a better record
        ((DIRECT, OUTLINE, TOOLS), {"outline": Tried(rounds=1, progress=9)}, "tools"),
        # progress that took fewer actions before the same progress that took more
        (
            (DIRECT, OUTLINE, TOOLS),
            {"outline": Tried(progress=3, actions=90), "tools": Tried(progress=3, actions=9)},
            "tools",
        ),
        (
            (DIRECT, OUTLINE, TOOLS),
            {"outline": Tried(progress=3, actions=9), "tools": Tried(progress=3, actions=90)},
            "outline",
        ),
        # of several changes the most promising one counts; one that changes nothing comes last
        ((DIRECT, MODEL, Strategy("both", prompt="b", temperature=1.0)), {}, "both"),
        ((DIRECT, Strategy("twin", prompt="a"), TOOLS), {}, "tools"),
    ],
)
def test_what_comes_before_what(strategies, tried, name):
    """Rounds, then who is no person, then who is another one, then who has done well at little cost."""
    assert name == next_strategy(Ledger(strategies=strategies, tried=tried), 0, "output").name


@pytest.mark.parametrize(
    ("strategies", "more", "name"),
    [
        ((WEB, BOOKS), {}, "books"),
        ((DIRECT, MODEL), {}, "model"),
        ((DIRECT, OUTLINE, TOOLS), {}, None),  # the same one is called, and is as far away
        ((WEB, Strategy("help", source="books", change="ask")), {}, None),
        ((WEB, BOOKS), {"tried": {"books": Tried(rounds=2)}}, None),
        ((WEB, BOOKS), {"quarantined": ["books"]}, None),
        ((WEB, BOOKS, PAPERS), {"tried": {"books": Tried(rounds=1, progress=9)}}, "papers"),
        ((WEB, BOOKS, PAPERS), {"tried": {"books": Tried(failures=9)}}, "papers"),
    ],
)
def test_who_else_is_called_when_one_is_away(strategies, more, name):
    """One with another model or source that may have a round still: fewer rounds first, then a better record."""
    found = elsewhere(Ledger(strategies=strategies, **more), 0, "network")
    assert name == (found and found.name)


@pytest.mark.parametrize(
    ("record", "signature", "so"),
    [
        (Tried(rounds=2, ended="s"), "s", True),
        (Tried(rounds=1, ended="s"), "s", False),  # it was left with that end, and has not come back since
        (Tried(rounds=2, ended="s"), "t", False),
        (Tried(rounds=2), "", False),
    ],
)
def test_a_second_round_is_told_by_its_end(record, signature, so):
    """The same failure with which an earlier one has ended."""
    given = Ledger(strategies=(DIRECT, OUTLINE), tried={"direct": record}, signature=signature)
    assert so == has_ended_so(Document(), given)


def test_one_strategy_alone_says_nothing_of_where_the_mistake_lies():
    """With two of them the other one's end counts, and each further round of all."""
    ended = {"direct": Tried(rounds=2, ended="s"), "outline": Tried(rounds=2, ended="s")}
    assert 0 == ended_so(Ledger(strategies=(DIRECT,), tried=ended, signature="s"))
    assert 3 == ended_so(Ledger(strategies=(DIRECT, OUTLINE), tried=ended, signature="s"))
    assert 0 == ended_so(Ledger(strategies=(DIRECT, OUTLINE, TOOLS), tried={"direct": ended["direct"]}, signature="s"))


def test_the_present_one_is_in_a_round_that_nobody_has_chosen():
    """The first strategy is followed from the start on; another one has none before it is taken."""
    given = Ledger(strategies=(DIRECT, OUTLINE))
    assert (1, 0) == (rounds_of(given, DIRECT, DIRECT), rounds_of(given, OUTLINE, DIRECT))
