"""How a task goes on from here: the exact lines to type, with what each does. Pure; called by `gathering`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from perdure.core import awaiting, questions
from perdure.core.fold import Fold
from perdure.limits import QUESTION_GIST_BYTES
from perdure.model.ids import cut_text
from perdure.views.handover.package import Place, Way
from perdure.views.listing import Row
from perdure.views.showing import Pending, next_command, word_for

_PLACES_MAX = 3
_INLINE = "it is driven by a script, which starts it again itself"


def ways_of(row: Row, fold: Fold, pending: tuple[Pending, ...], places: tuple[Place, ...]) -> tuple[Way, ...]:
    """Return what can be typed now, best first."""
    name = word_for(row.summary)
    return (*_first(row, fold, pending), *_others(row, places), *_looks(name))


def _first(row: Row, fold: Fold, pending: tuple[Pending, ...]) -> Iterator[Way]:
    name, ledger = word_for(row.summary), fold.ledger
    if row.standing == "running":
        yield Way(command=f"perdure tell {name} TEXT", does="its program reads it when it looks (`task.messages`)")
        yield Way(command=f"perdure pause {name}", does="it stops at the end of its running action")
        return
    if not row.is_unfinished:
        if row.standing == "failed":
            line, more = next_command(row, budget=ledger.budget_asked), " with more" if ledger.budget_asked else ""
            yield Way(command=line, does=f"it is opened again and goes on{more}")
        return
    for one in pending:
        if one.settle:
            does = f"say what became of {one.tool} ({one.action}): look there first, nobody else can know it"
            yield Way(command=one.settle, does=does)
    if row.summary.taken_at:
        yield Way(command=f"perdure hand-back {name} --say TEXT", does="give it back; its program looks before it acts")
        return
    asked = () if awaiting.waits_for_word(ledger) else questions.open_questions(fold.document, ledger)
    for question in asked:
        which = f" --question {shlex.quote(question.name)}" if len(asked) > 1 else ""
        about = f": {cut_text(question.text, QUESTION_GIST_BYTES)}" if which else ""
        does = f"its program gets TEXT as the answer to its question{about}"
        yield Way(command=f"perdure answer {name} TEXT{which}", does=does)
    if awaiting.waits_for_word(ledger):
        does = "its program is told TEXT (`task.advice`, `task.messages`, `task.brief()`), and all counts begin anew"
        yield Way(command=f"perdure answer {name} TEXT", does=does)
    line = next_command(row, budget=ledger.budget_asked)
    if ledger.budget_asked:
        does = "its budget is raised to that in all (`+` adds to it); it goes on with the call that did not fit"
        yield Way(command=f"perdure resume {name} --budget {shlex.quote(ledger.budget_asked)}", does=does)
    if row.summary.driver == "inline":
        yield Way(command=line, does=_INLINE)
    elif row.standing == "half fork":
        yield Way(command=line, does="whoever made this fork was killed before it was whole")
    elif not ledger.budget_asked:
        yield Way(command=f"perdure resume {name}", does="it goes on from where it stands; after an answer, type this")


def _others(row: Row, places: tuple[Place, ...]) -> Iterator[Way]:
    name = word_for(row.summary)
    if not row.is_unfinished or row.summary.is_half_fork:
        return
    if row.standing != "running":
        for place in places[: -_PLACES_MAX - 1 : -1]:
            stays = "" if place.is_open else "; it passes an effect or a person's change: --dry-run says which"
            does = f"go back to entry {place.entry} first (with --dry-run: only say what that would change){stays}"
            yield Way(command=f"perdure rollback {name} --to {shlex.quote(place.name)}", does=does)
    if not row.summary.taken_at:
        yield Way(command=f"perdure take-over {name}", does="change state, plan and files yourself, then hand it back")
    yield Way(command=f"perdure cancel {name}", does="end it for good")


def _looks(name: str) -> Iterator[Way]:
    yield Way(command=f"perdure log {name} --since ENTRY --format text", does="all that happened, from an entry on")
    yield Way(command=f"perdure state {name}", does="its whole state (--at ENTRY: as it was then)")
