"""One turn of an agent: a request to the model, and an answer to each call of its reply.

Every call is answered exactly once, whatever it is: unknown, misspelt, refused, failed, interrupted. Only then the next
request is made. Pure: yields moves. Called by `policy.py`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final, cast

from perdure.agent import people, results
from perdure.agent.approaches import planning
from perdure.agent.checks import FAILING
from perdure.agent.kit import Kit
from perdure.agent.memory import plain
from perdure.agent.permits import Permits, permits
from perdure.agent.thinking import THINK, request_of
from perdure.errors import ArgumentsUnfit
from perdure.limits import REPLY_CALLS_MAX
from perdure.model import chat
from perdure.model.move import Act, AskAll, Judge, Move, PolicyView, Remember, Say, Together
from perdure.tools import Tool
from perdure.tools.builtin.shown import shown
from perdure.tools.offering import fit

SHELL: Final = "execute_shell"
REFUSED: Final = "CallRefused"
SHOWN_MAX: Final = 12_000  # letters of a result that the model is shown
REASON_MAX: Final = 2_000  # letters of why a turn has failed
NOTES_MAX: Final = 8  # replies in a row that call no tool, ask nobody and claim nothing
NOTING: Final = people.NAMES - people.ASKING - people.CLAIMING
OURS: Final = people.NAMES | people.CLAIMING | {"replan"}
NAME_MAX: Final = 80  # letters that are told of the name of a tool that is none
TOO_MANY: Final = f"only {REPLY_CALLS_MAX} calls of one reply are made: make this one again, if it is still needed"
SAME: Final = "As the equal call before it in this reply."

Call = Mapping[str, Any]


def thought(view: PolicyView, kit: Kit) -> Iterator[Move]:
    """Ask the model for its next reply."""
    model, think = kit.thinker(view.strategy)
    memory, temperature = view.memory, view.strategy.temperature
    turn = memory["turn"] + 1

    def keep(memory: Any, said: Mapping[str, Any]) -> None:  # noqa: ANN401 - a view of the state
        memory["turn"] = turn
        memory["messages"].append(message_of(said, turn))

    yield Act(
        tool=think,
        arguments={
            "model_name": model.name,
            "messages": memory["messages"],
            "offers": memory["offers"],
            "temperature": temperature,
        },
        key=turn_key(turn),
        keep=keep,
        on_failure="leave",
        reserve=model.estimate(request_of(memory["messages"].plain(), memory["offers"].plain(), "", temperature)),
    )


def turn_key(turn: int | str) -> str:
    """Return the key of the request of a turn."""
    return f"turn {turn}"


def message_of(said: Mapping[str, Any], turn: int) -> dict[str, Any]:
    """Return what a model has said as a message, its calls numbered by us."""
    calls = [{**call, "id": f"{turn}.{place}"} for place, call in enumerate(said["calls"], 1)]
    kept = {name: said[name] for name in ("kept", "is_cut") if name in said}
    return {"role": "assistant", "text": said["text"], "calls": calls, "results": {}, **kept}


def answered(view: PolicyView, kit: Kit) -> Iterator[Move]:
    """Answer the calls of the last reply, but those that claim that something is reached."""
    place = len(view.memory["messages"]) - 1
    message = view.memory["messages"][place]
    calls = list(results.unanswered(message))
    if given := dict(_without_call(view, kit, message)):
        yield results.given(place, given)
    questions = [call for call in calls if call["name"] in people.ASKING]
    yield from people.asked(view, place, questions)
    for call in calls:
        if call["name"] in NOTING:
            yield from people.noted(view, place, call)
        if call["name"] == "replan":
            yield planning.replanned(view, place, call)
    yield from _made(view, kit, place, [call for call in calls if call["name"] in kit.tools])


def counted(view: PolicyView) -> Iterator[Move]:
    """Count a turn in which all calls have failed, where those of the turn before had failed as well.

    And one of many in a row that do nothing but take notes: what calls no tool is seen by nobody else.
    """
    replies = (message for message in reversed(view.memory["messages"]) if message["role"] == "assistant")
    newest, turn = list(islice(replies, NOTES_MAX)), view.memory["turn"]
    if view.memory.get("counted") == turn or not newest or _is_judged(newest[0]):
        return  # a claim that was not met is counted by its own check
    if len(newest) > 1 and all(map(results.all_failed, newest[:2])):
        reasons = dict.fromkeys(answer["failed"]["message"] for answer in newest[0]["results"].values())
        why = "; ".join(reasons)[:REASON_MAX]
    elif len(newest) == NOTES_MAX and all(map(_takes_notes, newest)):
        why = f"{NOTES_MAX} replies in a row have only taken notes; do something, or call finish"
    else:
        return
    yield Judge(name=FAILING, passed=False, reason=why, change=lambda memory: memory.__setitem__("counted", turn))


def _is_judged(message: Mapping[str, Any]) -> bool:
    """Whether a reply makes a claim that could be judged: not one that was refused, as any misspelt call is."""
    brought = [
        message["results"].get(call["id"], {}) for call in message.get("calls", ()) if call["name"] in people.CLAIMING
    ]
    return any(result.get("failed", {}).get("type") != REFUSED for result in brought)


def _takes_notes(message: Mapping[str, Any]) -> bool:
    calls = message.get("calls", ())
    return bool(calls) and all(call["name"] in NOTING for call in calls)


def _without_call(view: PolicyView, kit: Kit, message: Mapping[str, Any]) -> Iterator[tuple[str, chat.Result]]:
    """Yield the results of those calls of a reply that are not made, by id, where they have none yet."""
    calls = message.get("calls", ())
    made = {call["id"] for call in calls[:REPLY_CALLS_MAX]}
    repeated: set[str] = set(_repeated(kit, calls)) if len(calls) > 1 else set()
    for call in results.unanswered(message):
        if call["id"] not in made:
            yield call["id"], results.failed(REFUSED, TOO_MANY)
        elif why := _unfit(view, kit, call):
            yield call["id"], results.failed(REFUSED, why)
        elif call["id"] in repeated:
            yield call["id"], results.text(SAME)


def _repeated(kit: Kit, calls: Sequence[Call]) -> Iterator[str]:
    """Yield the calls that ask what an earlier one of the reply has asked, where none between could change the answer.

    Ten equal ones are one too many, and no circle: the model has not seen an answer in between.
    """
    seen = set[tuple[str, str]]()
    for call in calls:
        tool = kit.tools.get(call["name"])
        if tool is None:
            continue
        mark = tool.name, json.dumps(plain(call["arguments"]), sort_keys=True)
        if not tool.effect.is_free or tool.may_write_files or tool.name in kit.effects:
            seen.clear()
        elif mark in seen and not tool.poll:
            yield call["id"]
        else:
            seen.add(mark)


def _unfit(view: PolicyView, kit: Kit, call: Call) -> str:
    """Return why a call cannot be made as it is, "" where it can; the model reads it."""
    if call.get("problem"):
        return str(call["problem"])
    offers = {offer["name"]: offer for offer in view.memory["offers"]}
    name = call["name"]
    if name in kit.tools and kit.tools[name].name in offers:
        return _misfit(view, kit.tools[name], call)
    if name in offers and name in OURS:
        return people.complaint(call, offers[name])
    if name in offers:
        return f"the tool {name!r} is gone since it was offered to you: nothing was called; go on without it"
    named = repr(name) if len(name) <= NAME_MAX else f"{name[:NAME_MAX]!r}…"
    return f"there is no tool {named}; there are: {', '.join(sorted(offers))}"


def _misfit(view: PolicyView, tool: Tool[..., Any], call: Call) -> str:
    try:
        fit(tool, call["arguments"], view.workspace)
    except ArgumentsUnfit as unfit:
        return str(unfit)
    return ""


def _made(view: PolicyView, kit: Kit, place: int, calls: list[Call]) -> Iterator[Move]:
    """Make the calls that are permitted, ask for what needs a person, answer what is refused."""
    if not calls:
        return
    found = yield from permitted(view, kit, calls)
    if found.refused:
        yield results.given(place, found.refused)
    acts = [act_of(view, kit, place, call) for call in calls if call["id"] in found.allowed]
    at_once = list(takewhile(lambda act: not act.tool.may_write_files and act.effect is None, acts))
    yield Together(acts=tuple(at_once)) if len(at_once) > 1 else acts[0]


def permitted(view: PolicyView, kit: Kit, calls: Sequence[Call]) -> Generator[Move, None, Permits]:
    """Ask what a person has to say to `calls`, note what is on record of it; return what may become of them."""
    found = permits(view, kit.settings, cast("list[chat.Call]", calls), kit.names)
    if found.questions:
        yield AskAll(questions=found.questions)
    if found.change is not None:
        yield Remember(change=found.change, count=found.count)
    for key, text in found.said.items():
        yield Say(text=text, key=key)
    return found


def act_of(view: PolicyView, kit: Kit, place: int, call: Call) -> Act:
    """Return the call of a tool: its result is shown in the reply at `place`, the whole of it stands in the journal."""
    tool = kit.tools[call["name"]]
    settings = plain(view.memory["hidden"])
    hidden = {"workspace": view.workspace, "settings": settings}
    given = fit(tool, call["arguments"]) | {name: hidden[name] for name in tool.parameters if name in hidden}

    def keep(memory: Any, result: Any) -> None:  # noqa: ANN401 - a view of the state, and what the tool brings
        results.put(memory, place, {call["id"]: results.text(shown(result, SHOWN_MAX))})
        if tool.name == SHELL:
            memory["ran"] = {"call": call["id"], **finding_of(result)}

    return Act(
        tool=tool,
        arguments=given,
        key=f"call {call['id']}",
        into=("messages", place, "results", call["id"]),
        keep=keep,
        effect=kit.effects.get(tool.name),
        asked_by=(THINK, turn_key(str(call["id"]).partition(".")[0])),
    )


def finding_of(ran: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the end of a command says, where a check asks whether it succeeds."""
    passed = ran["exit_code"] == 0
    tail = str(ran["output"])[-500:].strip()
    reason = "the command ends with 0" if passed else f"the command ends with {ran['exit_code']}: {tail}"
    return {"passed": passed, "reason": reason}
