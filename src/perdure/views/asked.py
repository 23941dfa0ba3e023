"""What a task asks of people, and what became of what they have answered. Reads; called by the CLI."""

from __future__ import annotations

from perdure.core.questions import Open, open_questions
from perdure.engine.loading import entries, load_fold
from perdure.model import entry as e
from perdure.ports import Store


async def questions_of(store: Store, name: str) -> tuple[Open, ...]:
    """Return what a person can answer now, oldest first. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    fold = await load_fold(store, (await store.find(name)).task)
    return open_questions(fold.document, fold.ledger)


async def has_answered(store: Store, task: str, message: str, since: int) -> bool:
    """Whether a message that was taken in behind entry `since` is the answer to something: another may have come first.

    What a message answers is written right behind it, in the same append.
    """
    is_before = False
    async for entry in entries(store, task, after=since):
        if is_before:
            return isinstance(entry.payload, e.QuestionAnswered)
        is_before = isinstance(entry.payload, e.MessageReceived) and entry.payload.message == message
    return False
