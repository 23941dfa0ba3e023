"""What models are told. Texts only: what is said when is decided elsewhere.

A request beside the conversation is two messages: who is asked, and about what. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.agent.approaches.approach import Approach
from perdure.agent.forms import schema_of
from perdure.agent.kit import Kit
from perdure.agent.memory import plain
from perdure.model.chat import Message
from perdure.model.move import PolicyView

EVIDENCE_MAX: Final = 12_000  # letters of what was done that a judge is shown
SHARE_MAX: Final = 1_500  # letters of one call and its result

HABITS: Final = (
    "Paths of files are relative to your workspace. What you did before stands in this conversation, also when the "
    "program was interrupted: do not do it again. A call that was interrupted says so; find out what it has done."
)
CHECKS: Final = (
    'Give each a check by which a machine can tell that it is reached: {"kind": "file_exists", "path": …}, '
    '{"kind": "text_contains", "path": …, "text": …}, {"kind": "json_valid", "path": …, "keys": […]}, '
    '{"kind": "command_succeeds", "command": …}. Only where none of these can tell: {"kind": "judged", "criterion": …}.'
)


def persona(view: PolicyView, kit: Kit, approach: Approach) -> str:
    """Return the system prompt of the conversation."""
    settings = kit.settings
    name, role = settings.name or "an autonomous agent", settings.role or "who reaches goals by calling tools"
    parts = [
        f"You are {name}, {role}.",
        approach.manner,
        "Small steps are safer: do one small thing at a time." if view.strategy.change == "smaller_steps" else "",
        "Nobody is watching: decide for yourself, and ask people only what you cannot find out.",
        HABITS,
        _listed("Constraints", settings.constraints),
        _listed("Resources", settings.resources),
        _listed("Best practices", settings.best_practices),
    ]
    return "\n\n".join(filter(None, parts))


def planner(view: PolicyView, *, smaller: bool) -> list[Message]:
    """Ask for a plan."""
    size = "many small steps, each of one or two calls" if smaller else "two to six steps"
    why = view.memory["ahead"].get("why", "")
    return _request(
        f"You plan the work of an agent that has these tools: {_tools(view)}.\nMake a plan of {size}, in the order in "
        f"which they are done, for what is still to do. {CHECKS} Give the whole goal such a check as well.",
        view.brief() + (f"\n\n## Why a new plan is needed\n\n{why}" if why else ""),
        "plan",
    )


def blueprint(view: PolicyView) -> list[Message]:
    """Ask for all calls at once."""
    offers = json.dumps(plain(view.memory["offers"]), ensure_ascii=False)
    return _request(
        "You plan all calls that an agent makes to reach a goal, before any of them is made. Number them E1, E2, …; "
        f'where an argument needs what an earlier call brings, write "#E1" in it. The tools:\n{offers}\n{CHECKS}',
        view.brief(),
        "blueprint",
    )


def candidates(view: PolicyView, ways: int) -> list[Message]:
    """Ask for several ways."""
    return _request(
        f"An agent with these tools is to reach a goal: {_tools(view)}.\nThink of {ways} ways that really differ, each "
        f"with an idea in one sentence and two to six steps. {CHECKS} Give the whole goal such a check as well.",
        view.brief(),
        "candidates",
    )


def scores(view: PolicyView, ways: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Ask how promising each of several ways is."""
    listed = "\n".join(
        f"{number}. {way['idea']}\n" + "\n".join(f"   - {step['title']}" for step in way["steps"])
        for number, way in enumerate(ways, 1)
    )
    return _request(
        "You weigh ways to reach a goal. Say of each, in their order, how likely it leads there: from 0 to 10.",
        f"{view.brief()}\n\n## The ways\n\n{listed}",
        "scores",
    )


def reflection(view: PolicyView, missed: str) -> list[Message]:
    """Ask what is to be learned from a claim that was not met."""
    return _request(
        "An agent has failed. Say in one or two sentences what it should do otherwise: a rule it can obey at once.",
        f"{view.brief()}\n\n## What it did\n\n{evidence(view)}\n\n## Why that was not enough\n\n{missed}",
        "reflection",
    )


def judging(view: PolicyView, criterion: str, claim: str) -> list[Message]:
    """Ask whether something is reached."""
    return _request(
        "You judge whether something was reached. Believe only what the calls and their results show, not what the "
        "agent says of itself. When in doubt it is not reached; say then what is missing.",
        f"## The goal\n\n{view.goal}\n\n## What is to be judged\n\n{criterion}\n\n"
        f"## What the agent says\n\n{claim}\n\n## What it did\n\n{evidence(view)}",
        "verdict",
    )


def evidence(view: PolicyView) -> str:
    """Return the newest calls with what they brought, oldest first, as far as a judge should read."""
    lines: list[str] = []
    room = EVIDENCE_MAX
    for message in reversed(view.memory["messages"]):
        for call in reversed(message.get("calls", [])):
            came = plain(message["results"].get(call["id"], {"text": "(being judged)"}))
            line = f"- {call['name']}({json.dumps(plain(call['arguments']), ensure_ascii=False)}) -> {_came(came)}"
            lines.append(line if len(line) <= SHARE_MAX else line[:SHARE_MAX] + "…")
            room -= len(lines[-1])
        if room <= 0:
            break
    return "\n".join(reversed(lines)) or "No calls were made."


def _came(result: Mapping[str, Any]) -> str:
    return f"failed: {result['failed']['message']}" if "failed" in result else str(result.get("text", ""))


def _request(who: str, about: str, form: str) -> list[Message]:
    schema = json.dumps(schema_of(form), separators=(",", ":"))
    asked = f"{who}\n\nAnswer with JSON of this schema and nothing else:\n{schema}"
    return [Message(role="system", text=asked), Message(role="user", text=about)]


def _tools(view: PolicyView) -> str:
    return ", ".join(offer["name"] for offer in view.memory["offers"])


def _listed(title: str, lines: Sequence[str]) -> str:
    return f"{title}:\n" + "\n".join(f"- {line}" for line in lines) if lines else ""
