"""What a prompt is rebuilt from after a rollback: the goal, what is verified, lessons, and advice. Pure text.

The transcript of a branch that was left is no part of it: it was in the state, and the state has gone back. Called by
`engine/handle.py` (`task.brief()`).
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.limits import LESSONS_TOLD_MAX
from perdure.model.document import Document
from perdure.model.ledger import Ledger


def brief(document: Document, ledger: Ledger) -> str:
    """Return goal, plan, facts, lessons, words of people, and advice as Markdown; empty parts are left out.

    Of the lessons the newest, each once: a task that runs for weeks learns more than a prompt should hold.
    """
    done = [step for step in document.plan if step in document.checks]
    left = [step for step in document.plan if step not in document.checks]
    lessons = list(dict.fromkeys(reversed(ledger.lessons)))[LESSONS_TOLD_MAX - 1 :: -1]
    advice = ledger.advice
    said = [text for text in ledger.messages if advice is None or advice.kind != "person" or text != advice.text]
    parts = [
        _part("Goal", [ledger.goal] if ledger.goal else [], bare=True),
        _part("Done and verified", done),
        _part("Still to do", left),
        _part("What is known", ledger.facts),
        _part("What was tried and did not work", lessons),
        _part("What people have said", said),
        _part("Now", [advice.text] if advice else [], bare=True),
    ]
    return "\n\n".join(filter(None, parts))


def _part(title: str, lines: Sequence[str], *, bare: bool = False) -> str:
    if not lines:
        return ""
    body = lines[0] if bare else "\n".join(f"- {line}" for line in lines)
    return f"## {title}\n\n{body}"
