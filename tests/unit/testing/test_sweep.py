"""The crash sweep of a user's program, and the fixture around it."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import perdure
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Succeeded
from perdure.testing import CrashSweepFailed, crash_sweep

ROOT = Path(__file__).parents[3]
pytest_plugins = ["perdure.testing.plugin"]


class Shop:
    """A service that keeps its book in memory and honours keys, unless it is told to forget them."""

    def __init__(self):
        self.forgets = False
        self.empty()

    def empty(self):
        """Forget everything."""
        self.book, self.keys = [], {}

    def take(self, thing, key):
        """Take an order."""
        if self.forgets or key not in self.keys:
            self.keys[key] = thing
            self.book.append(thing)

    def things(self):
        """How much of what was ordered."""
        return Counter(self.book)


SHOP = Shop()


@pytest.fixture(autouse=True)
def _shop():
    SHOP.forgets = False
    SHOP.empty()


@perdure.tool(effect="idempotent")
async def order(thing: str, key: perdure.EffectKey) -> str:
    """Order something."""
    SHOP.take(thing, key)
    return f"ordered {thing}"


@perdure.tool(effect="irreversible")
def ring(hour: str) -> str:
    """Ring a bell, from a thread."""
    SHOP.take(f"ring at {hour}", "")
    return f"rang at {hour}"


@perdure.tool(effect="pure")
def weigh(thing: str) -> int:
    """Count letters."""
    return len(thing)


def note(state, answer):
    """Keep an answer."""
    state["got"].append(answer)


@perdure.program(state={"got": []})
async def careful(task):
    """Everything has its place, key or anchor."""
    async for thing in task.each("things", ["bread", "salt"]):
        await task.act(order, thing, then=note)
    await task.using(key="bell").act(ring, "noon", then=note)
    await task.checkpoint("rung")
    weight = await task.using(key="weight").act(weigh, "salt")
    return [*task.state["got"], weight]


@perdure.program(state={"got": []})
async def doubling(task):
    """Orders, and does not ask its state whether it has."""
    answer = await task.act(order, "bread")
    async with task.edit() as state:
        state["got"].append(answer)
    await task.checkpoint("ordered")


@perdure.program(state={"weight": 0})
async def wasteful(task):
    """Weighs, and does not ask its state whether it has."""
    weight = await task.act(weigh, "bread")
    async with task.edit() as state:
        state["weight"] = weight
    await task.using(key="bell").act(ring, "noon")


@perdure.program
async def broken(task):
    """Fails, whoever disturbs it."""
    raise ValueError("as always")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_careful_program_passes(perdure_crash_sweep, store):
    """It dies at each of its points, and neither result nor world can tell."""
    swept = perdure_crash_sweep(careful, reset=SHOP.empty, world=SHOP.things, store=store)
    assert ["ordered bread", "ordered salt", "rang at noon", 4] == swept.result
    assert {"before_intent", "after_intent", "after_effect", "after_outcome", "after_checkpoint"} == set(swept.points)
    assert 4 * 4 + 1 == len(swept.points)
    assert 1 == swept.calls["ring(hour='noon')"]


def test_an_effect_that_was_doubled_is_named(perdure_crash_sweep):
    """The message has the effect, both actions with their entries, and the point."""
    with pytest.raises(
        CrashSweepFailed, match=r"killed at after_checkpoint.*an effect was doubled: order\(thing='bread'\)"
    ):
        perdure_crash_sweep(doubling, reset=SHOP.empty)


def test_a_finished_action_that_ran_twice_is_named(perdure_crash_sweep):
    """A call without effect may be made again without harm, but not when it had ended."""
    with pytest.raises(
        CrashSweepFailed, match=r"a finished action ran twice: weigh\(thing='bread'\) is on record 2 times"
    ):
        perdure_crash_sweep(wasteful, reset=SHOP.empty)


def test_a_service_that_forgets_keys_is_found(perdure_crash_sweep):
    """The world differs, and the effect that was sent again is named."""
    SHOP.forgets = True
    with pytest.raises(CrashSweepFailed, match=r"sent again: order\(thing='bread'\)"):
        perdure_crash_sweep(careful, reset=SHOP.empty, world=SHOP.things)


def test_the_person_can_be_played_by_the_test():
    """`settle` is asked for each call that was begun and whose end nobody can know."""
    asked = []

    def settle(tool, arguments):
        asked.append((tool, arguments))
        if SHOP.things()["ring at noon"]:
            return Succeeded("rang at noon")
        return Failed(ErrorRecord(type="DidNotHappen", message="the bell is silent"))

    crash_sweep(careful, reset=SHOP.empty, world=SHOP.things, settle=settle)
    assert [("ring", {"hour": "noon"})] == asked


@perdure.program(state={"done": False})
async def stumbling(task):
    """Orders again after a kill, changes nothing by its edit, and is then refused."""
    for thing in ["bread", "salt"]:
        await task.act(order, thing)
        async with task.edit() as state:
            state["done"] = True


def test_an_error_after_a_kill_is_told_with_what_was_doubled():
    """Where the resumed program is refused, the failure says so and still names the effect."""
    with pytest.raises(CrashSweepFailed, match=r"an effect was doubled: order\(thing='bread'\)"):
        crash_sweep(stumbling, reset=SHOP.empty)


def test_an_error_of_the_program_is_not_hidden():
    """A program that fails undisturbed fails the sweep as itself."""
    with pytest.raises(perdure.NeedsHuman, match="as always"):
        crash_sweep(broken)


def test_the_fixture_comes_with_the_plugin(tmp_path):
    """A test file of a user's needs only the plugin, which pytest finds by its entry point."""
    (tmp_path / "test_mine.py").write_text(
        "import perdure\n"
        "@perdure.tool(effect='pure')\n"
        "async def read() -> int: return 1\n"
        "@perdure.program\n"
        "async def mine(task): return await task.using(key='one').act(read)\n"
        "def test_mine(perdure_crash_sweep):\n"
        "    assert 4 == len(perdure_crash_sweep(mine).points)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "perdure.testing.plugin", "-p", "no:cacheprovider"]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (0, "1 passed") == (done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0])
