"""What a model calls like a tool and is none: questions to people, the list of things to do, a checkpoint, the end.

Each is a move of the loop, so what it does is on record as what it is. Pure. Called by `turns.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from perdure.agent import results
from perdure.agent.memory import plain
from perdure.model.chat import Offer
from perdure.model.ids import make_name
from perdure.model.move import AskAll, Checkpoint, Move, PolicyView, Remember

NAME_MAX: Final = 80  # letters of a checkpoint's name, and of one that is told
NAMES_MAX: Final = 10  # that one complaint tells

Call = Mapping[str, Any]


def offer_of(name: str, description: str, arguments: Mapping[str, Any]) -> Offer:
    """Return what is offered like a tool; `arguments`: the schema of each, all of which are needed."""
    schema = {"type": "object", "properties": arguments, "required": list(arguments), "additionalProperties": False}
    return Offer(name=name, description=description, schema=schema)


_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
OFFERS: Final = (
    offer_of("ask_user", "Ask a person a question and wait for the answer.", {"question": _TEXT}),
    offer_of("ask_yes_no", "Ask a person a question that is answered with yes or no.", {"question": _TEXT}),
    offer_of("ask_choice", "Let a person choose one of several.", {"question": _TEXT, "choices": _TEXTS}),
    offer_of("todo_write", "Replace your list of things to do.", {"items": _TEXTS}),
    offer_of("todo_read", "Read your list of things to do.", {}),
    offer_of("checkpoint", "Mark this moment as one worth coming back to.", {"name": _TEXT}),
    offer_of(
        "finish",
        "Say that the goal is reached. It is verified; you are told when something is missing.",
        {"result": {"type": "string", "description": "What was achieved, and where it is to be found."}},
    ),
)
NAMES: Final = frozenset(offer["name"] for offer in OFFERS)
ASKING: Final = frozenset({"ask_user", "ask_yes_no", "ask_choice"})
CLAIMING: Final = frozenset({"finish", "step_done"})


def complaint(call: Call, offer: Offer) -> str:
    """Return what is wrong with the arguments of a call, "" where nothing is."""
    properties, given = offer["schema"]["properties"], call["arguments"]
    missing = [name for name in offer["schema"]["required"] if name not in given]
    unknown = [name for name in given if name not in properties]
    wrong = [name for name, value in given.items() if name in properties and not _fits(value, properties[name])]
    for what, names in (("are missing", missing), ("are not known", unknown), ("are of the wrong type", wrong)):
        if names:
            told = ", ".join(name[:NAME_MAX] for name in names[:NAMES_MAX]) + (", …" if names[NAMES_MAX:] else "")
            return f"arguments {what}: {told}; it takes {', '.join(properties) or 'none'}"
    if call["name"] in ASKING and not all(map(_says_something, given.values())):
        return "a question without words, or without anything to choose from, can be answered by nobody"
    return ""


def asked(view: PolicyView, place: int, calls: Sequence[Call]) -> Iterator[Move]:
    """Ask what is still to be asked, all of it at once, and take each answer to its call."""
    questions = {key_of(call): _question(call) for call in calls if key_of(call) not in view.answers}
    if questions:
        yield AskAll(questions=questions)
    answers = {call["id"]: results.text(_answer(call, view.answers[key_of(call)])) for call in calls}
    if answers:
        yield results.given(place, answers)


def noted(view: PolicyView, place: int, call: Call) -> Iterator[Move]:
    """Keep or show the list of things to do, or mark a checkpoint."""
    memory, arguments = view.memory, call["arguments"]
    match call["name"]:
        case "todo_write":
            items = list(arguments["items"])

            def write(memory: Any) -> None:  # noqa: ANN401 - a view of the state
                memory["todo"] = items
                results.put(memory, place, {call["id"]: results.text(f"noted, {len(items)} things")})

            yield Remember(change=write)
        case "todo_read":
            listed = "\n".join(f"- {item}" for item in memory.get("todo", ())) or "nothing is on the list"
            yield results.given(place, {call["id"]: results.text(listed)})
        case _:
            name = make_name(arguments["name"][:NAME_MAX]) or "checkpoint"
            said = {call["id"]: results.text(f"marked {name!r}")}
            yield Checkpoint(name=name, change=lambda memory: results.put(memory, place, said))


def key_of(call: Call) -> str:
    """Return by what the question of a call is known."""
    return f"ask {call['id']}"


def _question(call: Call) -> str:
    question = str(call["arguments"]["question"])
    if call["name"] == "ask_yes_no":
        return f"{question} (yes or no)"
    if call["name"] == "ask_choice":
        choices = "\n".join(f"{number}. {choice}" for number, choice in enumerate(call["arguments"]["choices"], 1))
        return f"{question}\n{choices}"
    return question


def _answer(call: Call, answer: str) -> str:
    """Return an answer as the model reads it: a yes is "yes", the number of a choice is the choice."""
    said = answer.strip()
    if call["name"] == "ask_yes_no" and said.lower() in {"y", "yes", "n", "no"}:
        return "yes" if said.lower().startswith("y") else "no"
    choices = call["arguments"].get("choices", ())
    if call["name"] == "ask_choice" and said.isdecimal() and 1 <= int(said) <= len(choices):
        return str(choices[int(said) - 1])
    return answer


def _says_something(value: object) -> bool:
    return bool(value.strip() if isinstance(value, str) else plain(value))


def _fits(value: object, schema: Mapping[str, Any]) -> bool:
    try:
        msgspec.convert(plain(value), list[str] if schema["type"] == "array" else str)
    except msgspec.ValidationError:
        return False
    return True
