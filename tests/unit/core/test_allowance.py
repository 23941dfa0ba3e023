"""Budgets and costs as people and tools write them: read exactly, written back, refused where they make no sense."""

import pytest

from perdure.core.allowance import budget_text, check_budget, check_cost, parse_budget, read_budget, time_text
from perdure.errors import CostInvalid
from perdure.model.budget import NO_BUDGET, NO_COST, Budget, Cost
from perdure.model.money import amounts_of, recorded_amounts, text_of

FULL = Budget(money="5 USD", tokens=200_000, actions=500, wall_s=7200.0, soft=0.75)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("5 USD", Budget(money="5 USD")),
        ("money=0.50 eur", Budget(money="0.5 EUR")),
        ("5 USD, tokens=200000, actions=500, wall=2h, soft=75%", FULL),
        ("0.10USD", Budget(money="0.1 USD")),
        ("0.10usd, tokens=7", Budget(money="0.1 USD", tokens=7)),
        ("5  credits", Budget(money="5 CREDITS")),
        ("wall=90s", Budget(wall_s=90.0)),
        ("wall=1.5m,soft=0.5", Budget(wall_s=90.0, soft=0.5)),
        ("wall=1d", Budget(wall_s=86_400.0)),
    ],
)
def test_a_budget_is_read(text, budget):
    """Each part sets one limit; money needs no name."""
    assert budget == parse_budget(text)


def test_what_is_written_reads_back():
    """The text of a budget, as it is shown and suggested, is one that can be typed."""
    assert FULL == parse_budget(budget_text(FULL))
    assert "5 USD, tokens=200000, actions=500, wall=2h, soft=75%" == budget_text(FULL)
    assert "" == budget_text(NO_BUDGET)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("+2.50 USD", Budget(money="7.5 USD", tokens=100)),
        ("+2.50USD", Budget(money="7.5 USD", tokens=100)),
        ("10 USD", Budget(money="10 USD", tokens=100)),
        ("tokens=+50", Budget(money="5 USD", tokens=150)),
        ("money=none", Budget(tokens=100)),
        ("tokens=none, actions=3", Budget(money="5 USD", actions=3)),
        ("8 EUR", Budget(money="8 EUR", tokens=100)),
    ],
)
def test_a_change_leaves_the_other_limits(text, budget):
    """A plus adds to the limit there is, `none` takes it away."""
    assert budget == parse_budget(text, Budget(money="5 USD", tokens=100))


@pytest.mark.parametrize(
    "text",
    [
        "", "5", "five USD", "-5 USD", "1e400 USD", "NaN USD", "x=1", "5 USD, 3 USD", "+5 USD", "tokens=0.5",
        "tokens=-1", "tokens=0", "0 USD", "wall=5", "wall=2w", "soft=none", "soft=0", "soft=200%", "soft=+1",
        "5 USD + 3 EUR", "actions=", "money", "5 USD,",
    ],
)  # fmt: skip
def test_what_is_no_budget_is_refused(text):
    """With the text itself and how one is written; a limit of nothing is a slip, and refused as well."""
    with pytest.raises(CostInvalid, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("$0.10", "write '0.1 USD'"),
        ("tokens=9999999999999999", "too large"),
        ("+$5", "write '+5 USD'"),
        ("0.10 $", "write '0.1 USD'"),
        ("5€", "write '5 EUR'"),
        ("2k USD", "write '2000 USD'"),
        ("5", "write '5 USD' or tokens=5"),
        ("500 tokens", "write tokens=500"),
        ("+10k tokens", "write tokens=+10000"),
        ("1.5M tokens", "write tokens=1500000"),
        ("20 actions", "write actions=20"),
        ("tokens=10k", "write tokens=10000"),
        ("tokens=+10k tokens", "write tokens=+10000"),
        ("actions=5 USD", "such as actions=500"),
        ("30 min", "write wall=30m"),
        ("10min", "write wall=10m"),
        ("wall=2 hours", "write wall=2h"),
        ("wall=90", "such as 90s, 30m, 2h or 1d"),
        ("80%", "write soft=80%"),
        ("soft=most", "such as 80%"),
        ("", "a shell takes $5 for a variable"),
    ],
)
def test_what_is_written_elsewhere_is_refused_with_the_form_to_write(text, instead):
    """What a person seems to mean is not guessed at: a number of tokens is no money of that name."""
    with pytest.raises(CostInvalid) as refused:
        parse_budget(text, Budget(money="1 USD", tokens=1, actions=1, wall_s=1.0))
    why, _, forms = str(refused.value).partition("; a budget is written so: ")
    assert instead in why
    assert forms.startswith("5 USD, tokens=200000")


@pytest.mark.parametrize("text", ["500 tokens", "$5", "2 hours", "10k tokens", "3EURO"])
def test_the_form_to_write_can_be_written(text):
    """It is read as it is told."""
    with pytest.raises(CostInvalid) as refused:
        parse_budget(text)
    told = str(refused.value).partition("write ")[2].partition(";")[0].strip("'")
    assert NO_BUDGET != parse_budget(told)


def test_only_the_same_currency_is_added():
    """Nothing is converted."""
    with pytest.raises(CostInvalid, match="the budget so far is 5 USD"):
        parse_budget("+5 EUR", Budget(money="5 USD"))


def test_a_first_look_takes_what_may_turn_out_right():
    """Whether there is a limit to add to is not known yet."""
    assert Budget(money="5 EUR") == parse_budget("+5 EUR", None)
    with pytest.raises(CostInvalid):
        parse_budget("+5 E", None)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(money="5 USD + 3 EUR"), Budget(money="0 USD"), Budget(money="5"), Budget(tokens=-1),
        Budget(actions=-1), Budget(wall_s=-1.0), Budget(wall_s=float("nan")), Budget(wall_s=float("inf")),
        Budget(soft=0.0), Budget(soft=1.5), Budget(tokens="many"), "5", 5, None,
    ],
)  # fmt: skip
def test_values_that_are_no_budget_are_refused(budget):
    """Also those that only Python can write."""
    with pytest.raises(CostInvalid):
        read_budget(budget)


def test_a_budget_of_whole_seconds_is_one():
    """A number of seconds need not be a float."""
    assert Budget(wall_s=60) == check_budget(Budget(wall_s=60))


@pytest.mark.parametrize(
    "cost",
    [Cost(-1), Cost(0, -1), Cost(True), Cost(1.5), Cost(money="5"), Cost(money="-1 USD"), Cost(money=5), "1 USD", None],
)
def test_what_is_no_cost_is_refused(cost):
    """Negative amounts, floats and money without a currency are mistakes of a tool."""
    with pytest.raises(CostInvalid):
        check_cost(cost)


def test_costs_are_added_exactly():
    """A hundred times a tenth is ten; currencies stay apart."""
    total = NO_COST
    for _ in range(100):
        total += Cost(1, 2, "0.10 USD")
    total += Cost(money="3 EUR")
    assert Cost(100, 200, "3 EUR + 10 USD") == total
    assert Cost(0, 150, "3 EUR + 9.5 USD") == total.without(Cost(200, 50, "0.5 USD"))
    assert NO_COST == total.without(total)


@pytest.mark.parametrize(
    ("text", "plain"),
    [("4.2E-5 USD", "0.000042 USD"), ("1E+2 USD", "100 USD"), ("0E-7 USD", ""), ("2.000 USD + 1 EUR", "1 EUR + 2 USD")],
)
def test_money_is_written_plainly(text, plain):
    """As `str` of a Decimal may give it, and without exponents on the way back."""
    assert plain == text_of(amounts_of(text))


def test_money_of_a_journal_that_cannot_be_read_is_nothing():
    """The fold refuses no entry for it; `verify` reports it."""
    assert {} == recorded_amounts("a lot")


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59.5, "59.5s"), (120, "2m"), (5400, "90m"), (5401, "5401s")])
def test_time_is_written_in_whole_units(seconds, text):
    """In the largest of which it is a whole number."""
    assert text == time_text(seconds)
