"""What a simulated program does, step by step, and what its state must be when all of them are done.

Each step is written as the rules ask for (effects have a key or an anchor, what has neither asks the state first), so
whatever ends a life, the last one must come to what an undisturbed run comes to. Drawn by `plan.py`, judged by
`judging.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import msgspec

import perdure
from perdure.engine.task import CheckClass
from perdure.testing.simulation.outside import PAID, RESERVE, Outside

State = dict[str, Any]
Verdict = Literal["output", "suspicious", "tool", "refusal"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a program; `name` is its own and begins every name that it uses."""

    name: str

    @property
    def actions(self) -> int:
        """How many calls an undisturbed run makes."""
        return len(self.items)

    @property
    def items(self) -> tuple[str, ...]:
        """What it sends into the world."""
        return ()

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """Do it, or find that it is done."""
        raise NotImplementedError

    def expect(self, state: State) -> None:
        """Change `state` as the step does."""


class Keyed(Step, frozen=True, kw_only=True):
    """A call under a key of the user's."""

    tool: str
    reduces: bool

    @property
    def items(self) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        then = _keep(self.name) if self.reduces else None
        await task.using(key=self.name).act(outside.tools[self.tool], self.name, then=then)

    def expect(self, state: State) -> None:
        """See `Step`."""
        if self.reduces:
            _keep(self.name)(state, f"{self.tool} {self.name}")


class Think(Step, frozen=True, kw_only=True):
    """Calls that are paid for, each under its key; what it may cost at most is reserved."""

    times: int

    @property
    def items(self) -> tuple[str, ...]:
        """One for each time."""
        return tuple(f"{self.name}.{place}" for place in range(self.times))

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        for item in self.items:
            await task.using(key=item, reserve=RESERVE).act(outside.tools[PAID], item, then=_keep(item))

    def expect(self, state: State) -> None:
        """See `Step`."""
        for item in self.items:
            _keep(item)(state, f"{PAID} {item}")


class Loop(Step, frozen=True, kw_only=True):
    """`each`, whose acts are found again by their places; with a second call in the body, and an edit."""

    tool: str
    length: int
    edits: bool

    @property
    def items(self) -> tuple[str, ...]:
        """The items, and each once more for the second call."""
        names = [f"{self.name}.{place}" for place in range(self.length)]
        return (*names, *(f"{name} more" for name in names))

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        async for item in task.each(self.name, [f"{self.name}.{place}" for place in range(self.length)]):
            await task.act(outside.tools[self.tool], item, then=_keep(item))
            more = await task.act(outside.tools["read"], f"{item} more")
            if self.edits and item not in task.state["seen"]:
                async with task.edit() as state:
                    state["seen"][item] = more

    def expect(self, state: State) -> None:
        """See `Step`."""
        for place in range(self.length):
            item = f"{self.name}.{place}"
            _keep(item)(state, f"{self.tool} {item}")
            if self.edits:
                state["seen"][item] = f"read {item} more"


class Nested(Step, frozen=True, kw_only=True):
    """A loop in a loop."""

    tool: str
    outer: int
    inner: int

    @property
    def items(self) -> tuple[str, ...]:
        """One for each turn of the inner loop."""
        return tuple(f"{self.name}.{one}.{two}" for one in range(self.outer) for two in range(self.inner))

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        async for one in task.each(self.name, list(range(self.outer))):
            async for two in task.each("inner", list(range(self.inner))):
                item = f"{self.name}.{one}.{two}"
                await task.act(outside.tools[self.tool], item, then=_keep(item))

    def expect(self, state: State) -> None:
        """See `Step`."""
        for item in self.items:
            _keep(item)(state, f"{self.tool} {item}")


class ActAndEdit(Step, frozen=True, kw_only=True):
    """Calls without a key, then an edit; the state says whether they are done."""

    tools: tuple[str, ...]  # any number of free ones, or one effect

    @property
    def items(self) -> tuple[str, ...]:
        """One for each tool."""
        return tuple(f"{self.name}.{place}" for place in range(len(self.tools)))

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        if self.name in task.state["seen"]:
            return
        got = [await task.act(outside.tools[tool], item) for tool, item in zip(self.tools, self.items, strict=True)]
        async with task.edit(count={"edits": 1}) as state:
            state["seen"][self.name] = got
            state["log"].append(self.name)

    def expect(self, state: State) -> None:
        """See `Step`."""
        state["seen"][self.name] = [f"{tool} {item}" for tool, item in zip(self.tools, self.items, strict=True)]
        state["log"].append(self.name)


class Then(Step, frozen=True, kw_only=True):
    """A call without a key whose `then=` changes the state, which is asked first."""

    tool: str

    @property
    def items(self) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        if self.name not in task.state["got"]:
            await task.act(outside.tools[self.tool], self.name, then=_keep(self.name))

    def expect(self, state: State) -> None:
        """See `Step`."""
        _keep(self.name)(state, f"{self.tool} {self.name}")


class Group(Step, frozen=True, kw_only=True):
    """Calls side by side, each under its key, beside an edit that takes its time."""

    tools: tuple[str, ...]
    edit_s: float  # 0: no edit

    @property
    def items(self) -> tuple[str, ...]:
        """One for each tool."""
        return tuple(f"{self.name}.{place}" for place in range(len(self.tools)))

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        async with asyncio.TaskGroup() as group:
            for tool, item in zip(self.tools, self.items, strict=True):
                group.create_task(task.using(key=item).act(outside.tools[tool], item, then=_put(item)))
            if self.edit_s and self.name not in task.state["seen"]:
                group.create_task(self._edit(task))
        for tool, item in zip(self.tools, self.items, strict=True):
            if item not in task.state["got"]:  # the edit was open for too long: only the reducer is still to run
                await task.using(key=item).act(outside.tools[tool], item, then=_put(item))

    async def _edit(self, task: perdure.Task) -> None:
        async with task.edit() as state:
            state["seen"][self.name] = "edited"
            await asyncio.sleep(self.edit_s)

    def expect(self, state: State) -> None:
        """See `Step`."""
        for tool, item in zip(self.tools, self.items, strict=True):
            _put(item)(state, f"{tool} {item}")
        if self.edit_s:
            state["seen"][self.name] = "edited"


class Map(Step, frozen=True, kw_only=True):
    """`task.map`, whose results go into the state by an edit."""

    tool: str
    width: int

    @property
    def items(self) -> tuple[str, ...]:
        """As many as items."""
        return tuple(f"{self.name}.{place}" for place in range(self.width))

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        got = await task.map(self.name, outside.tools[self.tool], list(self.items), concurrency=2)
        if self.name not in task.state["seen"]:
            async with task.edit() as state:
                state["seen"][self.name] = got

    def expect(self, state: State) -> None:
        """See `Step`."""
        state["seen"][self.name] = [f"{self.tool} {item}" for item in self.items]


class Mark(Step, frozen=True, kw_only=True):
    """A checkpoint."""

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        del outside
        await task.checkpoint(f"mark {self.name}")


class Anchored(Step, frozen=True, kw_only=True):
    """An effect that only a checkpoint holds; no edit may come after it."""

    tool: str

    @property
    def items(self) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        await task.act(outside.tools[self.tool], self.name)
        await task.checkpoint(f"mark {self.name}")


class Refused(Exception):
    """What a program may raise of itself, with a class."""

    def __init__(self, name: str, failure_class: Verdict) -> None:
        super().__init__(f"{name} is refused")
        self.failure_class = failure_class


class Check(Step, frozen=True, kw_only=True):
    """A check that the world lets fail some times; caught or not. Or the program itself says what is wrong."""

    caught: bool
    says: Verdict = "output"

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        try:
            await self._judge(task, outside)
        except (perdure.CheckFailed, Refused):
            if not self.caught:
                raise
            await task.note(f"going on without check {self.name}")

    async def _judge(self, task: perdure.Task, outside: Outside) -> None:
        if self.says in {"tool", "refusal"}:
            if outside.is_failing(self.name):
                raise Refused(self.name, self.says)
            return
        kind: CheckClass = "suspicious" if self.says == "suspicious" else "output"
        await task.check(f"check {self.name}", lambda: not outside.is_failing(self.name), failure_class=kind)


class Circle(Step, frozen=True, kw_only=True):
    """The same call again and again, as long as the world lets it; who is told of it goes on a little faster."""

    turns: int

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        for _ in range(self.turns):
            if task.advice.kind == "nudge":
                outside.patience[self.name] -= 2
            if not outside.is_failing(self.name):
                return
            await task.act(outside.tools["glance"], self.name)


class Caught(Step, frozen=True, kw_only=True):
    """A call that may fail, and whose failure the program deals with."""

    tool: str

    @property
    def items(self) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        try:
            await task.using(key=self.name).act(outside.tools[self.tool], self.name)
        except perdure.ActionFailed as failed:
            await task.note(f"{self.name} failed", why=failed.error.message)


class GoBack(Step, frozen=True, kw_only=True):
    """A rollback, once: the world remembers what the state forgets."""

    to: str

    @property
    def actions(self) -> int:
        """Looked, rejected, and looked again on the next branch."""
        return 3

    @property
    def items(self) -> tuple[str, ...]:
        """The look and the rejection."""
        return (f"{self.name} rejected",)

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        rejected = f"{self.name} rejected"
        times = await task.using(key=f"{self.name} times").act(_times_of(outside), rejected)
        if times == 0:
            await task.using(key=rejected).act(outside.tools["send"], rejected)
            await task.rollback(self.to, reason=f"{self.name} is bad", carry=True)


class Words(Step, frozen=True, kw_only=True):
    """Notes, facts, plans and draws."""

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        del outside
        drawn = [task.now(), task.random(), task.new_id()]
        await task.adopt(["begin", "go on", "end"])
        await task.fact(f"{self.name} was come by", source="simulation")
        await task.note(f"drew for {self.name}", drawn=drawn)


class Question(Step, frozen=True, kw_only=True):
    """A question, or giving up: until the person has answered."""

    fails: bool

    async def play(self, task: perdure.Task, outside: Outside) -> None:
        """See `Step`."""
        if self.name in outside.answered:
            return
        if self.fails:
            await task.fail(f"{self.name} is out of reach")
        await task.ask(f"what about {self.name}?")


def _keep(item: str) -> Callable[[Any, Any], None]:
    def keep(state: Any, result: Any) -> None:
        state["got"][item] = result
        state["log"].append(item)

    return keep


def _put(item: str) -> Callable[[Any, Any], None]:
    """As `_keep`, for calls of no order."""

    def put(state: Any, result: Any) -> None:
        state["got"][item] = result

    return put


def _times_of(outside: Outside) -> perdure.Tool[..., Any]:
    async def times(item: str) -> int:
        return outside.times(item)

    return perdure.tool(effect="pure", name="times")(times)
