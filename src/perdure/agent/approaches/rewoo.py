"""`rewoo`: all calls are planned in one request and made without a model between them; a last request solves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from perdure.agent.asking import Question, asked
from perdure.agent.kit import Kit
from perdure.agent.prompts import blueprint
from perdure.model.chat import Offer
from perdure.model.move import Move, PolicyView, Remember

MANNER: Final = (
    "All calls were planned beforehand and are made for you; you see what each has brought. Say what follows from it "
    "for the goal. Only where something is missing call a tool yourself. Call `finish` when the goal is reached."
)
EVIDENCE: Final = re.compile(r"#(E\d+)")


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
        run: Mapping[str, Any] = ahead.get("run", {})
        for errand in ahead["errands"]:
            if errand["id"] not in run:
                yield Remember(change=lambda memory: _set_out(memory, errand))  # noqa: B023 - only the first is made

    def claims(self, view: PolicyView) -> str:  # noqa: ARG002 - always
        """Return "goal"."""
        return "goal"

    def missed(self, memory: Any, why: str) -> None:  # noqa: ANN401 - a view of the state
        """Change nothing: the model goes on by itself."""


def _set_out(memory: Any, errand: Mapping[str, Any]) -> None:  # noqa: ANN401 - a view of the state
    """Write the call of an errand as a reply, what stands for earlier ones replaced by what they brought."""
    memory["turn"] += 1
    call = f"{memory['turn']}.1"
    arguments = _filled(memory, errand["arguments"])
    memory["ahead"].setdefault("run", {})[errand["id"]] = call
    memory["messages"].append(
        {
            "role": "assistant",
            "text": f"{errand['id']}: {errand['why']}",
            "calls": [{"id": call, "name": errand["tool"], "arguments": arguments}],
            "results": {},
        }
    )


def _filled(memory: Any, value: Any) -> Any:  # noqa: ANN401 - a view of the state; any JSON
    """Return a value of an argument with "#E1" replaced by what that errand has brought."""
    if isinstance(value, str):
        return EVIDENCE.sub(lambda found: _brought(memory, found[1], found[0]), value)
    if isinstance(value, Mapping):
        return {key: _filled(memory, item) for key, item in cast("Mapping[str, Any]", value).items()}
    if hasattr(value, "__iter__"):
        return [_filled(memory, item) for item in value]
    return value


def _brought(memory: Any, errand: str, otherwise: str) -> str:  # noqa: ANN401 - a view of the state
    call = memory["ahead"].get("run", {}).get(errand)
    for message in memory["messages"]:
        if call is not None and call in message.get("results", {}):
            return str(message["results"][call].get("text", otherwise))
    return otherwise
