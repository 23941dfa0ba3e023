"""Milestones: checkpoints by rule. Says which moments of a task are worth going back to; marks none itself.

| rule | marks | when |
|---|---|---|
| plan | `plan` | a plan of at least one step is adopted |
| knowledge | `knowledge` | the first success of a `source=True` tool in a step: `valid=` holds, or there is substance |
| step | `step:NAME` | a check passes that is called like a step of the plan, or like the step that is under way |
| draft | `draft` | a text file of the task first has 120 words, and no check of the step is failing |

Each rule looks at what an entry has just made true, and holds once per branch for what it is about (a step, a path).
Where it holds while an effect is open nothing is marked, since a checkpoint has no open effect behind it: the next
entry for which the rule holds marks it. Called by `engine/marking.py`, behind each entry that may fulfil a rule.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import msgspec

from perdure.limits import (
    DRAFT_BYTES_MAX,
    DRAFT_WORDS_MIN,
    DRAFTS_AT_ONCE_MAX,
    DRAFTS_WAITING_MAX,
    ERROR_PAGE_LETTERS_MAX,
    NAME_BYTES_MAX,
)
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.files import FileChange
from perdure.model.ids import cut_text
from perdure.model.ledger import Ledger

# The parts of an answer that hold what was found; where one is there, the others say nothing.
_CARRIERS: Final = (
    "results", "items", "hits", "documents", "entries", "matches", "pages", "rows", "text", "content", "body", "html",
)  # fmt: skip
_REASONS: Final = (
    "bad request|unauthorized|forbidden|not found|gone|too many requests|internal server error|bad gateway|"
    "service unavailable|gateway time-?out"
)
_ERROR_PAGE: Final = re.compile(
    rf"(?:http/\S+ |error:? |status:? )*[45]\d\d\b\W{{0,5}}(?:{_REASONS}|error)"
    rf"|(?:{_REASONS}|page not found|(?:an )?error)\W*(?:[.!:,]|\d|$|has occurred|occurred)"
    r"|(?:access|permission) denied|just a moment\W|attention required\W"
    r"|(?:are you|verify (?:that )?you are)\b.{0,12}\b(?:human|robot)",
    re.IGNORECASE,
)
_MARKUP: Final = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_WORD: Final = re.compile(r"\S+")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever made an entry knows of it beside its fields."""

    is_source: bool = False  # the action's tool brings information from outside
    is_judged: bool = False  # the tool has a `valid=` of its own, and it held
    result: object = None  # of the action, decoded
    drafts: tuple[str, ...] = ()  # paths of files that were written, and whose bytes are a draft (`is_draft`)


_NOTHING: Final = Seen()


def milestones_after(
    payload: e.Payload, document: Document, ledger: Ledger, seen: Seen = _NOTHING
) -> tuple[e.CheckpointMarked, ...]:
    """Return the checkpoints that are due now that `payload` has been taken into `document` and `ledger`."""
    if has_open_effect(ledger):
        return ()
    match payload:
        case e.PlanAdopted(steps=steps) if steps:
            return (marked("plan", "rule plan"),)
        case e.ActionSettled(outcome="succeeded", invalid=False, error=None) if seen.is_source:
            return (*_knowledge(document, seen), *_drafts(document, seen.drafts))
        case e.ActionSettled():
            return _drafts(document, seen.drafts)
        case e.CheckJudged(passed=True, name=name):
            return (*_step(document, name), *_drafts(document, seen.drafts))
        case _:
            return ()


def has_open_effect(ledger: Ledger) -> bool:
    """Whether an effect is under way or in doubt, so that no checkpoint can be marked."""
    return any(not action.effect.is_free for action in ledger.open.values())


def is_known(document: Document, name: str, about: str = "") -> bool:
    """Whether this branch has that milestone."""
    return key_of(name, about) in document.milestones


def key_of(name: str, about: str) -> str:
    """Return how `Document.milestones` calls a milestone; a checkpoint's name has no line break."""
    return f"{name}\n{about}"


def marked(name: str, verifier: str, verdict: str = "", about: str = "") -> e.CheckpointMarked:
    """Return the entry that marks a milestone."""
    name = cut_text(name, NAME_BYTES_MAX)
    return e.CheckpointMarked(name=name, reason="milestone", verdict=verdict, verifier=verifier, about=about)


def waits_for(document: Document, check: str) -> tuple[str, ...]:
    """Return the paths whose draft waits for nothing but that `check` passes."""
    return tuple(document.unproven) if document.failing.keys() <= {check} else ()


def unproven_with(unproven: Mapping[str, int], changes: tuple[FileChange, ...], seq: int) -> dict[str, int]:
    """Return the files whose draft waits for a check, with those that entry `seq` has changed: the newest of them."""
    paths = {**unproven, **{change.path: seq for change in changes}}
    return dict(list(paths.items())[-DRAFTS_WAITING_MAX:])


# --- the rules ------------------------------------------------------------------------------------------------------
def _knowledge(document: Document, seen: Seen) -> tuple[e.CheckpointMarked, ...]:
    step = document.step
    if is_known(document, "knowledge", step) or not (seen.is_judged or has_substance(seen.result)):
        return ()
    return (marked("knowledge", "valid" if seen.is_judged else "rule knowledge", "passed", step),)


def _step(document: Document, check: str) -> tuple[e.CheckpointMarked, ...]:
    name = cut_text(f"step:{check}", NAME_BYTES_MAX)
    is_step = check in document.plan or (check == document.step and bool(check))
    if not is_step or is_known(document, name):
        return ()
    return (marked(name, f"check {check}", "passed"),)


def _drafts(document: Document, paths: tuple[str, ...]) -> tuple[e.CheckpointMarked, ...]:
    if document.failing:
        return ()
    step = document.step
    is_accepted = bool(step) and step in document.checks
    verifier, verdict = (f"check {step}", "passed") if is_accepted else ("rule draft", "")
    due = (path for path in dict.fromkeys(paths) if not is_known(document, "draft", path))
    return tuple(marked("draft", verifier, verdict, path) for path in itertools.islice(due, DRAFTS_AT_ONCE_MAX))


# --- what is worth something ----------------------------------------------------------------------------------------
def has_substance(result: object) -> bool:
    """Whether a result brings information: it is not empty, found something, and is no error page."""
    if isinstance(result, bytes):
        result = result.decode("utf-8", "replace")
    if isinstance(result, str):
        return bool(result.strip()) and not is_error_page(result)
    if isinstance(result, Mapping):
        return not _is_refusal(cast("Mapping[object, object]", result))
    if isinstance(result, list | tuple | set | frozenset):
        return any(map(has_substance, cast("Iterable[object]", result)))
    return result is not None and result is not False


def is_error_page(text: str) -> bool:
    """Whether a text is a server's, or a guard's, short word that there is nothing to be had."""
    head = text[: 10 * ERROR_PAGE_LETTERS_MAX]
    title = _TITLE.search(head)
    body = " ".join(_MARKUP.sub(" ", head).split())
    if len(body) > ERROR_PAGE_LETTERS_MAX:
        return False
    heads = (title[1].strip(), body) if title else (body,)
    return not any(heads) or any(_ERROR_PAGE.match(one) for one in heads)


def is_draft(raw: bytes) -> bool:
    """Whether the bytes of a file are a text of at least 120 words."""
    if len(raw) > DRAFT_BYTES_MAX or b"\0" in raw:
        return False
    try:
        words: Iterator[object] = _WORD.finditer(raw.decode())
    except UnicodeDecodeError:
        return False
    return next(itertools.islice(words, DRAFT_WORDS_MIN - 1, None), None) is not None


def _is_refusal(answer: Mapping[object, object]) -> bool:
    """Whether an answer with named parts says that it found nothing, or that something went wrong."""
    if answer.get("error") or answer.get("errors"):
        return True
    status = answer.get("status_code", answer.get("status"))
    if isinstance(status, int) and status >= 400:  # noqa: PLR2004 - the statuses of HTTP that say no
        return True
    found = [answer[name] for name in _CARRIERS if name in answer]
    values = found or list(answer.values())
    return not any(has_substance(value) for value in values)
