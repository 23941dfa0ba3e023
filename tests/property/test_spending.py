"""What is spent, whatever happens: the ledger says the same as the entries, and never less than was billed.

Programs of paid calls are killed at any point, fail, roll back and are gone on with; the accounts are kept a second
time, from the entries alone (`views/accounts.py`), and by the provider who bills. What was broken to see this fail, and
did: a reservation that a rollback drops, and one that a second attempt takes over.
"""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.core.spending import state_of
from perdure.model import entry as e
from perdure.model.budget import Cost
from perdure.views.accounts import Accounts
from perdure.views.judging import Judge
from tests.worlds import DEAD, Death, Play, World

POINTS = ("before_intent", "after_intent", "after_effect", "after_outcome", "before_append", "after_append")
RESERVE = Cost(100, 50, "0.10 USD")
ENDS = ("charges", "says nothing", "fails when billed", "is refused", "charges twice")
BILLS = {
    "charges": "0.07", "says nothing": "0.10", "fails when billed": "0.03", "is refused": "0", "charges twice": "0.09",
}  # fmt: skip

steps = st.lists(
    st.tuples(st.sampled_from(ENDS), st.sampled_from(["pure", "idempotent"]), st.booleans()), min_size=1, max_size=5
)
kills = st.lists(st.tuples(st.sampled_from(POINTS), st.integers(1, 6)), max_size=5)


class Refused(Exception):
    """Nothing was done."""

    status_code = 429


class Provider:
    """Bills outside of the process, before it answers."""

    def __init__(self):
        self.billed = Decimal()

    def answer(self, end: str) -> str:
        """Bill one request, and let the tool say of it what it says."""
        self.billed += Decimal(BILLS[end])
        match end:
            case "charges":
                perdure.charge(Cost(80, 10, "0.07 USD"))
            case "fails when billed":
                perdure.charge(Cost(70, 0, "0.03 USD"))
                raise ValueError("no JSON")
            case "is refused":
                raise Refused
            case "charges twice":
                perdure.charge(Cost(80, 10, "0.07 USD"))
                perdure.charge(Cost(1, 1, "0.02 USD"))
            case _:
                pass
        return end

    def tools(self):
        """One that is sent again freely, one under its key."""

        async def think(end: str, number: int) -> str:
            return self.answer(end)

        async def order(end: str, number: int, key: perdure.EffectKey) -> str:
            return self.answer(end)

        return {
            "pure": perdure.tool(effect="pure", paid=True)(think),
            "idempotent": perdure.tool(retry="keyed", undo="nothing", paid=True)(order),
        }


def program_of(provider, planned):
    """A program that makes the planned calls; called anew, it goes back once before those that say so."""
    tools = provider.tools()

    async def program(task):
        await task.checkpoint("start here")
        for number, (end, effect, goes_back) in enumerate(planned):
            if goes_back and task.attempt > 1 and f"back {number}" not in task.facts:  # its call may have been killed
                await task.fact(f"back {number}")
                await task.rollback("start here")
            key = f"{number} {end}"
            await task.using(key=key, reserve=RESERVE).act_outcome(tools[effect], end, number)
        return "done"

    return Play(program)


def is_there(world):
    """Whether the task's start is on record: it may be killed before that."""
    try:
        return world.fold().seq > 0
    except perdure.StoreError:
        return False


def check(world, provider):
    """Hold the three ways of counting against each other; return what is used."""
    fold, accounts, wrong = world.fold(), Accounts(), []
    judge = Judge(lambda _seq, _what, text: wrong.append(text))
    for entry in world.journal():
        assert "" == accounts.take(entry.payload, entry.header.epoch)
        judge.take(entry)
    state = state_of(fold.ledger, fold.at)
    money = sum((one.money.get("USD", Decimal()) for one in (state.spent, state.reserved)), Decimal())
    used = Cost(
        state.spent.tokens_in + state.reserved.tokens_in,
        state.spent.tokens_out + state.reserved.tokens_out,
        (Cost() + Cost(money=f"{money} USD")).money,
    )
    assert (accounts.used + Cost(), accounts.calls) == (used, state.spent.actions)
    assert provider.billed <= money
    assert [] == wrong
    return money


@given(planned=steps, deaths=kills)
def test_what_is_spent_is_what_the_entries_say_and_never_less_than_was_billed(planned, deaths):
    """After each life, and it never falls; a life without a kill comes to the end."""
    world, provider = World(), Provider()
    play = program_of(provider, planned)
    used = Decimal()
    for point, number in [*deaths, ("never", 1)]:
        ended = world.live(play, death=Death(point, number))
        if not is_there(world):
            continue
        before, used = used, check(world, provider)
        assert before <= used
        if point == "never":
            assert "done" == ended


@given(planned=steps, deaths=kills, limit=st.integers(1, 8))
def test_a_budget_is_never_passed(planned, deaths, limit):
    """As long as calls reserve what they may cost; a task that stops is gone on with once its budget is raised."""
    world, provider = World(), Provider()
    play = program_of(provider, planned)
    most = Decimal(limit) / 10
    for point, number in [*deaths, ("never", 1)]:
        try:
            ended = world.do(lambda runtime: runtime.run(play, "job", budget=f"{most} USD"), Death(point, number))
        except perdure.NeedsHuman:
            ended = "stopped"
        if not is_there(world):
            continue
        assert check(world, provider) <= most
        if ended == "stopped":
            break
    if ended == "stopped":
        assert "done" == world.do(lambda runtime: runtime.resume("job", play, budget="+99 USD"))
        check(world, provider)
    assert ended in {"done", "stopped", DEAD}
    told = [entry.payload.by for entry in world.journal() if isinstance(entry.payload, e.BudgetSet)]
    assert told in (["", "person"], [""])
