"""Random programs for the property tests: a list of steps, played by one program, beside a service that counts.

Every step is written as the rules ask for: effects have a key or an anchor, and what has neither asks the state first.
So whatever ends a life, the last one must come to what an undisturbed run comes to. Not a generator of wrong programs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import strategies as st

import perdure
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Succeeded
from tests.worlds import DEAD, Death, Play, World

EFFECTS = ("pure", "idempotent", "verifiable", "irreversible", "workspace")

step = st.one_of(
    st.tuples(st.just("keyed"), st.sampled_from(EFFECTS), st.booleans()),
    st.tuples(st.just("loop"), st.sampled_from(EFFECTS), st.integers(0, 3)),
    st.tuples(st.just("nested"), st.integers(1, 2), st.integers(0, 2)),
    st.tuples(st.just("read and edit"), st.integers(1, 3)),
    st.tuples(st.just("then"), st.sampled_from(EFFECTS)),
    st.tuples(st.just("send and mark"), st.sampled_from(EFFECTS)),
    st.tuples(st.just("parallel"), st.integers(2, 4)),
    st.tuples(st.just("mark")),
    st.tuples(st.just("check")),
    st.tuples(st.just("fails")),
)
steps = st.lists(step, min_size=1, max_size=6)
death = st.tuples(st.sampled_from(["any", "before_append", "after_append"]), st.integers(1, 30))
deaths = st.lists(death, max_size=4)


class Service:
    """The world outside: it counts, honours keys, and can be asked."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()  # by item
        self.keys: dict[str, set[str]] = {}  # by item: the keys under which it was sent
        self.tools = {effect: self._tool(effect) for effect in EFFECTS}

    def _tool(self, effect: Any) -> perdure.Tool[..., Any]:
        async def plain(item: str) -> str:
            self.calls[item] += 1
            await asyncio.sleep(0)
            return f"{effect} {item}"

        async def keyed(item: str, key: perdure.EffectKey) -> str:
            self.keys.setdefault(item, set()).add(key)
            return await plain(item)

        async def probe(item: str) -> bool | str:
            return f"{effect} {item}" if self.calls[item] else False

        options = {"probe": probe} if effect == "verifiable" else {}
        return perdure.tool(effect=effect, name=effect, **options)(keyed if effect == "idempotent" else plain)


class Player:
    """Plays a list of steps as a program."""

    def __init__(self, plan: list[Any]) -> None:
        self.plan = plan
        self.service = Service()
        self.play = Play(self._program, state={"got": [], "done": 0, "seen": {}})

    async def _program(self, task: Any) -> Any:
        for number, (kind, *parts) in enumerate(self.plan):
            await getattr(self, f"_{kind.replace(' ', '_')}")(task, str(number), *parts)
        return task.state.plain()

    async def _keyed(self, task: Any, number: str, effect: str, reduces: bool) -> None:
        then = _collect if reduces else None
        await task.using(key=number).act(self.service.tools[effect], number, then=then)

    async def _loop(self, task: Any, number: str, effect: str, length: int) -> None:
        async for item in task.each(number, [f"{number}.{place}" for place in range(length)]):
            await task.act(self.service.tools[effect], item, then=_collect)
            await task.act(self.service.tools["pure"], f"{item} again")

    async def _nested(self, task: Any, number: str, outer: int, inner: int) -> None:
        async for one in task.each(number, list(range(outer))):
            async for two in task.each("inner", list(range(inner))):
                await task.act(self.service.tools["idempotent"], f"{number}.{one}.{two}", then=_collect)

    async def _read_and_edit(self, task: Any, number: str, reads: int) -> None:
        if number in task.state["seen"]:
            return
        read = [await task.act(self.service.tools["pure"], f"{number}.{place}") for place in range(reads)]
        async with task.edit() as state:
            state["seen"][number] = read
            state["done"] += 1

    async def _then(self, task: Any, number: str, effect: str) -> None:
        if number not in task.state["seen"]:
            tool = self.service.tools[effect]
            await task.act(tool, number, then=lambda state, got: state["seen"].update({number: got}))

    async def _send_and_mark(self, task: Any, number: str, effect: str) -> None:
        if number in task.state["seen"]:
            return
        sent = await task.act(self.service.tools[effect], number)
        async with task.edit() as state:
            state["seen"][number] = sent

    async def _parallel(self, task: Any, number: str, width: int) -> None:
        await task.map(number, self.service.tools["pure"], [f"{number}.{place}" for place in range(width)])

    async def _mark(self, task: Any, number: str) -> None:
        await task.checkpoint(f"mark {number}")

    async def _check(self, task: Any, number: str) -> None:
        await task.check(f"check {number}", len(task.state["got"]) >= 0)

    async def _fails(self, task: Any, number: str) -> None:
        @perdure.tool(effect="pure")
        async def bad() -> None:
            raise ValueError(number)

        try:
            await task.act(bad)
        except perdure.ActionFailed:
            await task.note(f"dealt with {number}")


def _collect(state: Any, got: str) -> None:
    state["got"].append(got)


def undisturbed(plan: list[Any]) -> tuple[Any, Counter[str]]:
    """Return the result of a run that nothing ends, and how often each item was sent."""
    player = Player(plan)
    return World().live(player.play), player.service.calls


def live_on(world: World, player: Player) -> Any:
    """Run the player until it ends, as a person would: settling what is in doubt by what the service knows."""
    for _ in range(20):
        world.clock.advance(3_600)
        try:
            return world.live(player.play)
        except perdure.NeedsHuman:
            asyncio.run(_settle(world, player.service))
    raise AssertionError("no end after 20 lives")


async def _settle(world: World, service: Service) -> None:
    async with world.runtime() as runtime:
        task = (await runtime.store.find("job")).task
        fold = await _fold(runtime, task)
        doubtful = [action for action in fold.ledger.open.values() if action.effect.retry == "never"]
        for action in doubtful:
            item = _item_of(world, action.intent)
            happened = service.calls[item] > 0
            gone = Failed(ErrorRecord(type="person", message="it did not happen"))
            await runtime.settle(task, action.action, Succeeded(f"irreversible {item}") if happened else gone)


async def _fold(runtime: Any, task: str) -> Any:
    from perdure.engine.loading import load_fold

    return await load_fold(runtime.store, task)


def _item_of(world: World, seq: int) -> str:
    import msgspec

    from perdure.codec.entries import first_prev, unpack_all

    (stored,) = world.memory.tasks.values()
    task = stored.summary.task
    for append in stored.appends:
        if append.first_seq <= seq <= append.last_seq:
            prev = first_prev(append.frames)
            for entry in unpack_all(append.frames, task, first_seq=append.first_seq, prev=prev):
                if entry.header.seq == seq:
                    return msgspec.json.decode(bytes(entry.payload.arguments))["item"]  # type: ignore[union-attr]
    raise AssertionError(seq)


def played(plan: list[Any], lives: list[Any]) -> tuple[World, Player, Any]:
    """Play `plan` through one life for each death, then to its end."""
    world, player = World(), Player(plan)
    for where, number in lives:
        world.clock.advance(3_600)
        try:
            if world.live(player.play, death=Death(where, number)) != DEAD:
                break
        except perdure.NeedsHuman:
            asyncio.run(_settle(world, player.service))
    return world, player, live_on(world, player)
