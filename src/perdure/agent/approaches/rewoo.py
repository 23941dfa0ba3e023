"""`rewoo`: all calls are planned in one request and made without a model between them; a last request solves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from perdure.agent.asking import Question, asked
from perdure.agent.kit import Kit
from perdure.agent.memory import plain
from perdure.agent.prompts import blueprint
from perdure.model.chat import Offer
from perdure.model.move import Move, PolicyView, Remember

MANNER: Final = (
    "All calls were planned beforehand and are made for you; you see what each has brought. Say what follows from it "
    "for the goal. Only where something is missing call a tool yourself. Call `finish` when the goal is reached."
)
EVIDENCE: Final = re.compile(r"#(E\d+)(?!\w)", re.IGNORECASE)


class Rewoo:
    """One request for the blueprint, its calls, one request that solves."""

    name = "rewoo"
    manner = MANNER
    offers: tuple[Offer, ...] = ()

    def ahead(self, view: PolicyView, kit: Kit) -> Iterator[Move]:
        """Plan all calls, then put each into the conversation as if the model had asked for it."""
        ahead = view.memory["ahead"]
        if "errands" not in ahead:
            number = view.memory.get("plans", 0) + 1

            def keep(memory: Any, said: Mapping[str, Any]) -> None:  # noqa: ANN401 - a view of the state
                memory["plans"] = number
                memory["ahead"]["errands"] = said["filled"]["errands"]
                memory["ahead"]["goal_check"] = said["filled"]["goal_check"]

            messages = blueprint(view)
            yield asked(view, kit, Question(form="blueprint", messages=messages, key=f"plan {number}"), keep)
        if len(ahead.get("run", ())) < len(ahead["errands"]):
            yield Remember(change=_set_out)

    def claims(self, view: PolicyView) -> str:  # noqa: ARG002 - always
        """Return "goal"."""
        return "goal"

    def missed(self, memory: Any, why: str) -> None:  # noqa: ANN401 - a view of the state
        """Change nothing: the model goes on by itself."""


def _set_out(memory: Any) -> None:  # noqa: ANN401 - a view of the state
    """Write the call of the next errand as a reply, what stands for earlier ones replaced by what they brought."""
    run = memory["ahead"].setdefault("run", [])  # ids of the calls, in the order of the errands
    errand = memory["ahead"]["errands"][len(run)]
    memory["turn"] += 1
    call, missing = f"{memory['turn']}.1", list[str]()
    made = {"id": call, "name": errand["tool"], "arguments": _filled(memory, plain(errand["arguments"]), missing)}
    if missing:
        made["problem"] = f"it hangs on {', '.join(dict.fromkeys(missing))}, which has brought nothing"
    run.append(call)
    memory["messages"].append(
        {"role": "assistant", "text": f"{errand['id']}: {errand['why']}", "calls": [made], "results": {}}
    )


def _filled(memory: Any, value: Any, missing: list[str]) -> Any:  # noqa: ANN401 - a view of the state; any JSON
    """Return a value of an argument with "#E1" replaced by what that errand has brought; note what has not."""
    if isinstance(value, str):
        return EVIDENCE.sub(lambda found: _brought(memory, found, missing), value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: _filled(memory, item, missing) for key, item in members.items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)  # type: ignore[redundant-cast]  # pyright needs it
        return [_filled(memory, item, missing) for item in items]
    return value


def _brought(memory: Any, found: re.Match[str], missing: list[str]) -> str:  # noqa: ANN401 - a view of the state
    """Return what the newest errand of that number has brought; what is the number of none stays as it is."""
    number, ahead = found[1].upper(), memory["ahead"]
    numbers = [errand["id"].strip().lstrip("#").upper() for errand in ahead["errands"]]
    if number not in numbers:
        return found[0]
    calls = [call for one, call in zip(numbers, ahead["run"], strict=False) if one == number]
    for message in memory["messages"]:
        if calls and "text" in message.get("results", {}).get(calls[-1], {}):
            return str(message["results"][calls[-1]]["text"])
    missing.append(number)
    return found[0]
