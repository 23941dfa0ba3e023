"""The world outside of a simulation: services that count, and the tools through which a program meets them.

It outlives every process. A request once sent arrives, whatever became of the sender. One service honours keys, one can
be asked, one can do neither; each call may fail as the plan says. Called by `steps.py`, `lives.py` and `judging.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar
from typing import Any, Final, Literal, cast

import msgspec

import perdure
from perdure.stores.memory import MemoryWorld
from perdure.testing.clock import FakeClock
from perdure.testing.simulation.chance import Chance

Fault = Literal["refused", "unreachable", "cut", "hangs", "malformed"]
current_action: Final[ContextVar[tuple[str, str]]] = ContextVar("perdure_simulated_action", default=("", ""))

TIMEOUT_S: Final = 1.0
SETTLE_S: Final = 0.5
ARRIVES_S: Final = 0.3  # how long a request is under way at most

FREE: Final = ("read", "glance", "study", "rate", "weigh")
PAID: Final = "think"  # bills what it did, and mostly says so
RESERVE: Final = perdure.Cost(tokens_out=10)  # it never bills more
LAZY: Final = frozenset({"read", "glance", "study", "weigh"})  # their intents may wait for the outcome
KEYED: Final = ("send", "post")
ASKED: Final = ("book", "stamp")
NEVER: Final = ("ring", "toll", "ship")
RESTORED: Final = ("save",)
EFFECTS: Final = (*KEYED, *ASKED, *NEVER, *RESTORED)
_THREADED: Final = frozenset({"study", "post", "toll"})
_EFFECT_OF: Final = {
    **dict.fromkeys((*FREE, PAID), "pure"),
    **dict.fromkeys(KEYED, "idempotent"),
    **dict.fromkeys(ASKED, "verifiable"),
    **dict.fromkeys(NEVER, "irreversible"),
    "ship": "compensable",
    **dict.fromkeys(RESTORED, "workspace"),
}


class Request(msgspec.Struct, frozen=True):
    """One call of a tool, as the world sees it."""

    task: str
    action: str
    tool: str
    item: str
    key: str
    at: float
    durable: int  # seq of the journal's last entry at that moment
    tokens: int = 0  # that are billed when it has arrived


UNDO: Final = "unship"  # takes back what `ship` has done, whether it happened or not


class Outside:
    """All services together."""

    def __init__(self, clock: FakeClock, memory: MemoryWorld, chance: Chance) -> None:
        self.begun: list[Request] = []
        self.landed: list[Request] = []
        self.faults: dict[str, list[Fault]] = {}  # by item: what becomes of its first calls
        self.patience: Counter[str] = Counter()  # by check: how often it still fails
        self.answered: set[str] = set()  # questions that the person has answered
        self._clock = clock
        self._memory = memory
        self._chance = chance
        self._nowhere = Context()  # belongs to no process
        self._by_item: dict[str, list[Request]] = {}
        self.tools: Mapping[str, perdure.Tool[..., Any]] = {name: self._declare(name) for name in _EFFECT_OF}

    def happened(self, item: str, action: str = "") -> bool:
        """Whether the effect called `item` is in the world; with `action`, that of this very call."""
        return any(action in {"", request.action} for request in self._by_item.get(item, ()))

    def times(self, item: str) -> int:
        """How many requests called `item` were taken in, those under one key counted once."""
        return len({request.key or str(place) for place, request in enumerate(self._by_item.get(item, ()))})

    def billed(self, task: str) -> int:
        """How many tokens a task has to pay for."""
        return sum(request.tokens for request in self.landed if request.task == task)

    def is_failing(self, check: str) -> bool:
        """Whether the check called `check` fails this time."""
        self.patience[check] -= 1
        return self.patience[check] >= 0

    # --- the tools --------------------------------------------------------------------------------------------------
    def _declare(self, name: str) -> perdure.Tool[..., Any]:
        options: dict[str, Any] = {"timeout_s": TIMEOUT_S, "name": name}
        if name in ASKED:
            options.update(probe=self._plain_probe(name) if name == "stamp" else self._probe(name), settle_s=SETTLE_S)
        if name == "weigh":
            options.update(valid=_makes_sense)
        if name == "ship":
            unship = _keyed(self._request, UNDO)
            options.update(undo=perdure.tool(effect="idempotent", name=UNDO, timeout_s=TIMEOUT_S)(unship))
        function = self._plain_service(name) if name in _THREADED or name == "glance" else self._service(name)
        options.update(quick=name == "glance", paid=name in {"rate", PAID})
        if name == PAID:
            function = self._think
        if name in KEYED:
            function = _plain_keyed(self._call) if name in _THREADED else _keyed(self._request, name)
        declare: Any = perdure.tool(effect=_EFFECT_OF[name], **options)  # type: ignore[call-overload]  # one of the presets
        return cast("perdure.Tool[..., Any]", declare(function))

    def _service(self, name: str) -> Callable[..., Any]:
        async def call(item: str) -> str:
            return await self._request(name, item, "")

        return call

    async def _think(self, item: str) -> str:
        tokens = self._chance.between(1, RESERVE.tokens_out)
        answer = await self._request(PAID, item, "", tokens)
        if self._chance.holds(0.8):
            perdure.charge(perdure.Cost(tokens_out=tokens))
        return answer

    def _plain_service(self, name: str) -> Callable[..., Any]:
        def call(item: str) -> str:
            return self._call(name, item, "")

        return call

    def _probe(self, name: str) -> Callable[..., Any]:
        async def probe(item: str) -> bool | str:
            await asyncio.sleep(self._chance.share() * ARRIVES_S)
            return f"{name} {item}" if self.happened(item) else False

        return probe

    def _plain_probe(self, name: str) -> Callable[..., Any]:
        def probe(item: str) -> bool | str:
            return f"{name} {item}" if self.happened(item) else False

        return probe

    # --- the services -----------------------------------------------------------------------------------------------
    async def _request(self, name: str, item: str, key: str, tokens: int = 0) -> str:
        request, fault = self._begin(name, item, key, tokens)
        if self._chance.holds(0.5):
            await asyncio.sleep(self._chance.share() * 0.1)
        _refuse(fault, item)
        under_way_s = self._chance.share() * ARRIVES_S if self._chance.holds(0.3) else 0.0
        asyncio.get_running_loop().call_later(under_way_s, self._land, request, context=self._nowhere)
        await asyncio.sleep(under_way_s + self._chance.share() * 0.1)
        if fault == "hangs":
            await asyncio.sleep(60.0)
        if fault == "cut":
            raise ConnectionResetError(f"connection lost while waiting for the answer about {item}")
        return "nonsense" if fault == "malformed" and name == "weigh" else f"{name} {item}"

    def _call(self, name: str, item: str, key: str) -> str:
        request, fault = self._begin(name, item, key)
        _refuse(fault, item)
        self._land(request)
        if fault == "cut":
            raise ConnectionResetError(f"connection lost while waiting for the answer about {item}")
        return f"{name} {item}"

    def _begin(self, name: str, item: str, key: str, tokens: int = 0) -> tuple[Request, Fault | None]:
        task, action = current_action.get()
        stored = self._memory.tasks.get(task)
        durable = stored.head[0] if stored else 0
        request = Request(task, action, name, item, key, self._clock.monotonic(), durable, tokens)
        self.begun.append(request)
        waiting = None if name == UNDO else self.faults.get(item)
        return request, waiting.pop(0) if waiting else None

    def _land(self, request: Request) -> None:
        self.landed.append(request)
        if request.tool != UNDO:
            self._by_item.setdefault(request.item, []).append(request)


def _makes_sense(result: str) -> bool:
    return result != "nonsense"


def _refuse(fault: Fault | None, item: str) -> None:
    if fault == "refused":
        raise ValueError(f"{item} is refused")
    if fault == "unreachable":
        raise ConnectionRefusedError(f"no connection for {item}")


def _keyed(request: Callable[..., Any], name: str) -> Callable[..., Any]:
    async def call(item: str, key: perdure.EffectKey) -> str:
        return await request(name, item, key)  # type: ignore[no-any-return]  # a text

    return call


def _plain_keyed(call_service: Callable[..., str]) -> Callable[..., Any]:
    def call(item: str, key: perdure.EffectKey) -> str:
        return call_service("post", item, key)

    return call
