"""The agent's tools: declared to perdure, served by the world that is at hand. They decide nothing.

The world of a run is in `here`. Called by the agent's program.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any, Final

import perdure
from benchmarks.recbench import errors, model
from benchmarks.recbench.kits import Kit, Maze
from benchmarks.recbench.world import TIMEOUT_S

here: Final[ContextVar[Any]] = ContextVar("recbench_world")
THINK_TIMEOUT_S: Final = 30.0


def is_move(text: str) -> bool:
    """Whether an answer of the model is a call of a known tool."""
    try:
        move = json.loads(text)
    except ValueError:
        return False
    return isinstance(move, dict) and move.get("tool") in STEP_OF


def _kit() -> Kit:
    return here.get()  # type: ignore[no-any-return]


def _thinker(provider: int) -> Any:
    async def think(request: dict[str, Any]) -> str:
        return await model.answer(_kit(), provider, request)

    whom = errors.PROVIDERS[provider]
    options: dict[str, Any] = {"name": f"recbench.think_{whom}", "provider": whom, "timeout_s": THINK_TIMEOUT_S}
    return perdure.tool(effect="pure", paid=True, valid=is_move, **options)(think)


THINK: Final = tuple(map(_thinker, range(len(errors.PROVIDERS))))


# --- free -----------------------------------------------------------------------------------------------------------
@perdure.tool(effect="pure", source=True, name="recbench.look_up", timeout_s=TIMEOUT_S)
async def look_up(goal: int, source: int) -> dict[str, Any]:
    """Read what a source says of an order."""
    kit = _kit()
    return await kit.serve(f"look_up {source}", goal, lambda: kit.read(goal, source))


def _reader(number: int, name: str) -> Any:
    async def ask(goal: int) -> dict[str, Any]:
        kit = _kit()
        if not isinstance(kit, Maze):
            raise TypeError("only the maze has readers")
        return await kit.serve(name, goal, lambda: kit.ask(goal, number))

    return perdure.tool(effect="pure", source=True, name=f"recbench.{name}", timeout_s=TIMEOUT_S)(ask)


lantern, map_, compass = (_reader(number, name) for number, name in enumerate(("lantern", "map", "compass")))


@perdure.tool(effect="pure", name="recbench.look_around", timeout_s=TIMEOUT_S)
async def look_around(goal: int) -> str:
    """Look, and learn nothing new."""
    return await _kit().serve("look_around", goal, lambda: "everything is where it was")


@perdure.tool(effect="pure", name="recbench.audit", timeout_s=TIMEOUT_S)
async def audit(goal: int) -> bool:
    """Check what is prepared, independently of what was read."""
    kit = _kit()
    return await kit.serve("audit", goal, lambda: kit.is_prepared(goal))


@perdure.tool(effect="pure", name="recbench.inspect", timeout_s=TIMEOUT_S)
async def inspect(goal: int) -> bool:
    """Check whether a sub-goal is reached."""
    kit = _kit()
    return await kit.serve("inspect", goal, lambda: kit.is_done(goal))


def _poll(name: str) -> Any:
    async def look(goal: int) -> str:
        kit = _kit()
        return await kit.serve(name, goal, lambda: kit.look(goal))

    return perdure.tool(effect="pure", poll=True, name=f"recbench.{name}", timeout_s=TIMEOUT_S)(look)


delivery, gate = _poll("delivery"), _poll("gate")


# --- with effects ---------------------------------------------------------------------------------------------------
@perdure.tool(effect="idempotent", name="recbench.release", timeout_s=TIMEOUT_S)
async def release(goal: int, value: int, key: perdure.EffectKey) -> str:
    """Take a reservation back."""
    return await _take_back("release", "prepare", goal, value, key)


@perdure.tool(effect="compensable", retry="keyed", undo=release, name="recbench.reserve", timeout_s=TIMEOUT_S)
async def reserve(goal: int, value: int, key: perdure.EffectKey) -> dict[str, Any]:
    """Reserve an amount for an order; a new reservation takes the place of the one before."""
    return await _prepare("reserve", goal, value, key)


@perdure.tool(effect="idempotent", name="recbench.turn_back", timeout_s=TIMEOUT_S)
async def turn_back(goal: int, value: int, key: perdure.EffectKey) -> str:
    """Turn a door back."""
    return await _take_back("turn_back", "prepare", goal, value, key)


async def _is_turned(goal: int, value: int) -> dict[str, Any] | bool:
    kit = _kit()
    return {"value": value} if [value] == [row.value for row in kit.standing("prepare", goal)] else False


@perdure.tool(
    effect="compensable", retry="probe", probe=_is_turned, undo=turn_back, name="recbench.turn", timeout_s=TIMEOUT_S
)
async def turn(goal: int, value: int) -> dict[str, Any]:
    """Turn to a door; there is no key, but one can look."""
    return await _prepare("turn", goal, value, "")


@perdure.tool(effect="idempotent", name="recbench.charge", timeout_s=TIMEOUT_S)
async def charge(goal: int, value: int, key: perdure.EffectKey) -> dict[str, Any]:
    """Take the money."""
    return await _write("charge", "commit", goal, value, key)


@perdure.tool(effect="idempotent", name="recbench.walk_back", timeout_s=TIMEOUT_S)
async def walk_back(goal: int, value: int, key: perdure.EffectKey) -> str:
    """Walk back through the door."""
    return await _take_back("walk_back", "commit", goal, value, key)


@perdure.tool(effect="compensable", retry="keyed", undo=walk_back, name="recbench.walk", timeout_s=TIMEOUT_S)
async def walk(goal: int, value: int, key: perdure.EffectKey) -> dict[str, Any]:
    """Walk through the door."""
    return await _write("walk", "commit", goal, value, key)


@perdure.tool(effect="idempotent", name="recbench.publish", timeout_s=TIMEOUT_S)
async def publish(goal: int, value: int, key: perdure.EffectKey) -> dict[str, Any]:
    """Publish a part."""
    return await _write("publish", "commit", goal, value, key)


@perdure.tool(
    effect="workspace",
    paths=("part_{goal}.txt", "draft_{goal}_{source}.txt"),
    name="recbench.write_part",
    timeout_s=TIMEOUT_S,
)
async def write_part(goal: int, value: int, source: int) -> dict[str, Any]:
    """Write a part, and the draft that led to it."""
    kit = _kit()

    def do() -> dict[str, Any]:
        if value < 0:
            kit.inject("tool", goal)
            raise errors.of_tool("tool", "write_part", 0)
        kit.write_files(goal, value, source)
        return {"value": value}

    return await kit.serve("write_part", goal, do)


@perdure.tool(effect="irreversible", name="recbench.mail", timeout_s=TIMEOUT_S)
async def mail(goal: int, value: int) -> dict[str, Any]:
    """Tell the customer; mail has no key."""
    return await _write("mail", "tell", goal, value, "")


@perdure.tool(effect="idempotent", name="recbench.untag", timeout_s=TIMEOUT_S)
async def untag(goal: int, label: str, key: perdure.EffectKey) -> str:
    """Take a label off."""
    return await _take_back("untag", "tag", goal, label, key)


@perdure.tool(effect="compensable", retry="keyed", undo=untag, name="recbench.tag", timeout_s=TIMEOUT_S)
async def tag(goal: int, label: str, key: perdure.EffectKey) -> dict[str, Any]:
    """Put a label on an order."""
    return await _write("tag", "tag", goal, label, key)


async def _prepare(tool: str, goal: int, value: int, key: str) -> dict[str, Any]:
    kit = _kit()

    def do() -> dict[str, Any]:
        if value < 0:
            kit.inject("tool", goal)
            raise errors.of_tool("tool", tool, 0)
        known = {row.key for row in kit.rows if row.key}
        if key not in known:
            for row in kit.standing("prepare", goal):
                row.undone = True  # the new one takes the place of the old one
            kit.write("prepare", goal, value, key)
        return {"value": value}

    return await kit.serve(tool, goal, do)


async def _write(tool: str, kind: str, goal: int, value: int | str, key: str) -> dict[str, Any]:
    kit = _kit()

    def do() -> dict[str, Any]:
        kit.write(kind, goal, value, key)
        return {"value": value}

    return await kit.serve(tool, goal, do)


async def _take_back(tool: str, kind: str, goal: int, value: int | str, key: str) -> str:
    kit = _kit()

    def do() -> str:
        if not any(row.key == f"undo {key}" for row in kit.rows):
            kit.undo(kind, goal, value)
            kit.write("undo", goal, value, f"undo {key}").undone = True
        return "taken back"

    return await kit.serve(tool, goal, do)


# By the name under which the model calls it: which step it is, and the tool. Repeated reads are reads again.
STEP_OF: Final = {
    "look_up": "read", "lantern": "read", "map": "read", "compass": "read", "reserve": "prepare", "turn": "prepare",
    "delivery": "wait", "gate": "wait", "charge": "commit", "walk": "commit", "mail": "tell",
    "write_part": "prepare", "publish": "commit", "look_around": "", "finish": "",
}  # fmt: skip
TOOLS: Final[dict[str, perdure.Tool[..., Any]]] = {
    "look_up": look_up, "lantern": lantern, "map": map_, "compass": compass, "look_around": look_around,
    "reserve": reserve, "turn": turn, "delivery": delivery, "gate": gate, "charge": charge, "walk": walk, "mail": mail,
    "write_part": write_part, "publish": publish,
}  # fmt: skip
