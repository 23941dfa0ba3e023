"""Which calls of a model's reply may run, which wait for a person, and what the model is told of the others. Pure.

    reply's calls ─ rules ─┬─ denied ─────────────────────────────▶ told to the model
                           ├─ allowed ────────────────────────────▶ run
                           └─ asked ── --continuous, or left of `y -N` ──▶ run
                                    └─ a question, by call and digest: y · y -N · n · anything else is told to the model

A question's key holds the digest of the exact call, so no answer is ever taken for another call; what runs is the call
that stands in memory. Nothing of a reply runs before all that it asks is answered. How many calls were made under
--continuous-limit, and of what each `y -N` grants, is counted where no rollback takes it back (`count`); for which
calls, and what is left to take from, stands in memory["permits"] (`change`, in the same append). The rules themselves
are `core/permissions.py`. Called by the policy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final

import msgspec

from perdure.agent.settings import AgentSettings
from perdure.core.fold import Fold
from perdure.core.permissions import Permissions, Verdict, digest_of_call, judge
from perdure.core.questions import open_questions
from perdure.limits import QUESTION_VALUE_BYTES
from perdure.model.chat import Call, Result
from perdure.model.ids import cut_text
from perdure.model.move import PolicyView

PREFIX: Final = "permit "  # of the keys of its questions
PLACE: Final = "permits"  # in memory
CHECKING: Final = "check "  # of the ids of calls that a check makes, and no model
UNASKED: Final = "calls under --continuous-limit"  # name of their count; what a grant gave counts under its question
_YES: Final = re.compile(r"\s*(?:y|yes)(?:\s*-?\s*(\d{1,6}))?\s*[.!]?\s*", re.IGNORECASE)
_NO: Final = re.compile(r"\s*(?:n|no)\s*[.!]?\s*", re.IGNORECASE)
_DIGITS: Final = 16
_NONE: Final[Mapping[str, Sequence[str]]] = {}


class Permits(msgspec.Struct, frozen=True, kw_only=True):
    """What may become of the calls of one reply. As long as there are `questions` nothing of it runs."""

    questions: dict[str, str] = {}  # by key: to be asked together (`AskAll`)
    allowed: tuple[str, ...] = ()  # ids of the calls that may run
    refused: dict[str, Result] = {}  # by call id: what the model is told instead of a result
    said: dict[str, str] = {}  # by key: one line for people each (`Say`)
    change: Callable[[Any], object] | None = None  # of memory (`Remember`), before anything runs
    count: dict[str, int] = {}  # goes with `change`


class Said(msgspec.Struct, frozen=True):
    """What a person has said to a call: `further` calls beyond it are allowed; `word` is for the model."""

    is_yes: bool
    further: int = 0
    word: str = ""


def permits(
    view: PolicyView,
    settings: AgentSettings,
    calls: Sequence[Call],
    names: Mapping[str, Sequence[str]] = _NONE,
) -> Permits:
    """Return what may become of `calls`: those of a reply, later those of them that have no result yet.

    `names`: by name of a tool as it is called, its other names, by which patterns may know it. A call that has a
    `problem` is none, and is left out. Raises PatternInvalid.
    """
    weighing = _Weighing(view, settings, names)
    for call in calls:
        if "problem" not in call:
            weighing.weigh(call)
    return weighing.result()


def key_of(call: Call) -> str:
    """Return the key of the question whether `call` may run: another call, or the same changed, has another."""
    return f"{PREFIX}{call['id']} {digest_of_call(call['name'], call['arguments'])[:_DIGITS]}"


def read_answer(text: str) -> Said:
    """Read an answer in AutoGPT's way: `y`, `y -N` (this call and the next N - 1), `n`; all else is for the model."""
    yes = _YES.fullmatch(text)
    if yes is not None and yes[1] != "0":
        return Said(is_yes=True, further=max(0, int(yes[1] or 1) - 1))
    return Said(is_yes=False, word="" if _NO.fullmatch(text) else text.strip())


def spread(text: str, key: str, fold: Fold) -> dict[str, str]:
    """Return what an answer to the question `key` of a task says to each question that is open, by key.

    Of an agent `y -N` says yes to the N - 1 calls behind its own as well, in the order in which they were asked. What
    it allows beyond them goes with the last. So no call waits behind a word that has allowed it.
    """
    if not _is_permit(key, fold):
        return {key: text}
    said, waiting = read_answer(text), open_questions(fold.document, fold.ledger)
    others = (one.key for one in dropwhile(lambda one: one.key != key, waiting) if one.key != key)
    behind = [other for other in others if other.startswith(PREFIX)][: said.further]
    if not behind:
        return {key: text}
    words, left = dict.fromkeys([key, *behind], "y"), said.further - len(behind)
    return words | {behind[-1]: f"y -{left + 1}"} if left else words


def meaning_of(text: str, key: str, fold: Fold) -> str:
    """Return what an answer means for the call that it was asked about, "" where it was asked about none."""
    if not _is_permit(key, fold):
        return ""
    said = read_answer(text)
    if said.is_yes:
        return "the call is allowed" + (f", and the next {said.further}" if said.further else "")
    return "the call is not made" + (", and the model reads your words" if said.word else "")


def _is_permit(key: str, fold: Fold) -> bool:
    driver = fold.ledger.driver
    return driver is not None and driver.kind == "agent" and key.startswith(PREFIX)


class _Weighing:
    """Weighs the calls of a reply in their order: what one of them grants is there for the next."""

    def __init__(self, view: PolicyView, settings: AgentSettings, names: Mapping[str, Sequence[str]]) -> None:
        self._view, self._settings, self._names = view, settings, names
        self._rules = Permissions(allow=settings.allow, deny=settings.deny, only=settings.only)
        self._count = Counter[str]()  # what the calls of this reply take
        kept: Mapping[str, Any] = view.memory.get(PLACE) or {}
        self._decided: Mapping[str, str] = kept.get("calls") or {}
        self._grants: dict[str, int] = dict(kept.get("grants") or {})  # by key of their question: so many further calls
        self._is_noted = True  # what is granted or taken is to be noted before a call runs, and so it is once
        self._now: dict[str, str] = {}  # by key: why a call of this reply may run
        self._questions: dict[str, str] = {}
        self._allowed: list[str] = []
        self._refused: dict[str, Result] = {}
        self._continuous: list[str] = []  # texts of calls that would have been asked
        self._turn = ""

    def weigh(self, call: Call) -> None:
        """Decide on one call."""
        self._turn = call["id"].partition(".")[0]
        verdict = judge(
            self._rules, call["name"], call["arguments"], self._view.workspace, self._names.get(call["name"], ())
        )
        if verdict.outcome == "deny":
            self._refused[call["id"]] = _denied(call, verdict)
            return
        why = self._why_allowed(call, verdict)
        if why:
            self._allowed.append(call["id"])
            self._now[key_of(call)] = why
            if why == "continuous" and verdict.outcome == "ask":
                self._continuous.append(call_text(call))

    def result(self) -> Permits:
        """Return what it has come to."""
        if self._questions:
            return Permits(questions=self._questions, refused=self._refused)
        said_key = f"{PREFIX}{self._turn}"
        is_new = bool(self._continuous) and said_key not in (self._view.memory.get("said") or ())
        said = {said_key: f"allowed by --continuous: {'; '.join(self._continuous)}"} if is_new else {}
        kept = {"calls": self._now, "grants": {key: much for key, much in self._grants.items() if self._left(key)}}
        return Permits(
            allowed=tuple(self._allowed),
            refused=self._refused,
            said=said,
            change=(lambda memory: memory.update({PLACE: kept})) if not self._is_noted else None,
            count=dict(self._count),
        )

    def _why_allowed(self, call: Call, verdict: Verdict) -> str:
        """Return why the call may run; "" where it may not: then it is refused, or there is a question."""
        key, settings = key_of(call), self._settings
        if key in self._decided:
            return self._decided[key]
        is_limited = settings.continuous and settings.continuous_limit > 0
        is_over = is_limited and self._counted(UNASKED) >= settings.continuous_limit
        if not is_over and (settings.continuous or verdict.outcome == "allow"):
            if is_limited:
                self._take(UNASKED)
            return "continuous" if settings.continuous else "rule"
        answer = self._view.answers.get(key)
        if answer is not None:
            return self._heed(call, key, read_answer(answer))
        granted = next(filter(self._left, self._grants), None)
        if granted is not None:
            self._take(granted)
            return "granted"
        self._questions[key] = _question(call, settings.continuous_limit if is_over else 0)
        return ""

    def _take(self, name: str) -> None:
        self._count[name] += 1
        self._is_noted = False

    def _counted(self, name: str) -> int:
        return self._view.counts.get(name, 0) + self._count[name]

    def _left(self, key: str) -> int:
        return max(0, self._grants[key] - self._counted(key))

    def _heed(self, call: Call, key: str, said: Said) -> str:
        if said.is_yes:
            if said.further:
                self._grants[key] = said.further
                self._is_noted = False
            return "answered"
        word = f" They say: {said.word}" if said.word else ""
        self._refused[call["id"]] = _failed("CallRefused", f"A person did not allow this call; it was not made.{word}")
        return ""


def _denied(call: Call, verdict: Verdict) -> Result:
    return _failed(
        "CallDenied",
        f"{call['name']} is not allowed to do this: {cut_text(verdict.subject, QUESTION_VALUE_BYTES)!r} "
        f"(rule: {verdict.rule}). It was not made, and asking again changes nothing.",
    )


def _failed(kind: str, message: str) -> Result:
    return {"failed": {"type": kind, "message": message}}


def _question(call: Call, limit: int) -> str:
    reached = f"{limit} calls are made, as --continuous-limit allows. " if limit else ""
    why = "To check what was said to be done. " if call["id"].startswith(CHECKING) else ""
    how = "Answer y, y -N (this and the next N - 1 calls), n, or what to do instead."
    return f"{reached}{why}Allow {call_text(call)}? {how}"


def call_text(call: Call) -> str:
    """Return a call as people read it; long values are cut."""
    values = (f"{name}={_value(value)}" for name, value in call["arguments"].items())
    return f"{call['name']}({', '.join(values)})"


def _value(value: object) -> str:
    return cut_text(msgspec.json.encode(value, enc_hook=repr).decode(), QUESTION_VALUE_BYTES)
