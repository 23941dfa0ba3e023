"""What a model is asked to answer as JSON: the shape of each such answer, its schema, and its reading.

A form is named in the request (`think(form="plan")`), so that what is on record says what was asked for. Called by
`thinking.py` (schema, reading) and by whoever uses an answer.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

from perdure.model.failure import FailureClass

CheckKind = Literal["file_exists", "text_contains", "json_valid", "command_succeeds", "judged"]


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it is found out whether something is reached; `judged`: a model reads what was done and says so."""

    kind: CheckKind = "judged"
    path: str = ""  # of a file of the workspace
    text: str = ""  # that stands in it
    keys: list[str] = []  # that its JSON object has
    command: str = ""  # that ends with 0
    criterion: str = ""  # in words, for a judge and for people


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One sub-goal and how it is known to be reached."""

    title: str
    check: Check = Check()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the goal, and how the goal is known to be reached."""

    steps: list[Step]
    goal_check: Check = Check()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge says."""

    passed: bool
    reason: str


class Reflection(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be learned from a failure."""

    lesson: str


class Approach(msgspec.Struct, frozen=True, kw_only=True):
    """One way to go about it, with what its author thinks of it."""

    idea: str
    steps: list[Step]


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Several ways, that differ."""

    approaches: list[Approach]
    goal_check: Check = Check()


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """How promising each of them is: from 0 to 10, in their order."""

    scores: list[float]


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a blueprint; "#E1" in an argument stands for what E1 brings."""

    id: str
    tool: str
    arguments: dict[str, Any] = {}
    why: str = ""


class Blueprint(msgspec.Struct, frozen=True, kw_only=True):
    """All calls that are needed, made without a model between them."""

    errands: list[Errand]
    goal_check: Check = Check()


FORMS: Final[dict[str, type[msgspec.Struct]]] = {
    "plan": Plan,
    "verdict": Verdict,
    "reflection": Reflection,
    "candidates": Candidates,
    "scores": Scores,
    "blueprint": Blueprint,
}
_FENCED: Final = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL | re.IGNORECASE)


class FormNotFilled(ValueError):
    """A model was asked for JSON of a form and has answered something else; the message goes back to it."""

    failure_class: FailureClass = "output"


def schema_of(form: str) -> dict[str, Any]:
    """Return the JSON Schema of a form."""
    (reference,), components = msgspec.json.schema_components([FORMS[form]], ref_template="#/$defs/{name}")
    return {**components.pop(FORMS[form].__name__), "$defs": components} if components else reference


def read_form(form: str, text: str) -> dict[str, Any]:
    """Return a model's answer as plain values. Raises FormNotFilled saying what is wrong and where."""
    fenced = _FENCED.match(text)
    try:
        filled = msgspec.json.decode(fenced[1] if fenced else text, type=FORMS[form])
    except msgspec.DecodeError as error:
        raise FormNotFilled(
            f"the answer is no {form}: {error}; answer with JSON of the schema and nothing else"
        ) from error
    if isinstance(filled, Candidates) and not filled.approaches:
        raise FormNotFilled("the answer names no approach; name at least one")
    plain: dict[str, Any] = msgspec.to_builtins(filled)
    return plain
