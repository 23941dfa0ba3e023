"""The effects as a participant of a rollback: each undo is one action, found again after a kill like any other.

An undo has an intent, an effect key and the `retry` of its own tool; the key "undo ACTION" says what it takes back.
One that fails parks the task: a person repairs what is broken and resumes, or says what became of it. Called by
`engine/rollback.py`.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from typing import Any, Final, Never

from perdure.codec.redact import cut_redacted
from perdure.core import resume
from perdure.core.rollback import Behind, undo_key
from perdure.engine import action, crashpoints
from perdure.engine.ending import tell_stopped
from perdure.engine.loading import arguments_of, entries, read_entry, result_of
from perdure.engine.outcomes import Options
from perdure.engine.session import Session
from perdure.errors import Damaged, StopRequested, ToolNotFound
from perdure.limits import ERROR_MESSAGE_BYTES_MAX
from perdure.model import entry as e
from perdure.model.failure import PASSING
from perdure.model.ledger import Rollback
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.tools import Tool, registry
from perdure.tools.undoing import bind_undo

NAME: Final = "effects"
CARRY: Final = f"{NAME} carry "
_UNDO: Final = f"{NAME} undo "


def undo_move(one: Behind) -> str:
    """Return the move that takes an effect back."""
    return f"{_UNDO}{one.action}"


def carry_move(one: Behind, fact: str) -> str:
    """Return the move that lets an effect stay and tells the new branch of it."""
    return f"{CARRY}{one.action} {fact}"


def fact_in(move: str) -> str:
    """Return the sentence of a `carry_move`."""
    return move.removeprefix(CARRY).partition(" ")[2]


class Effects:
    """`ports.Participant` for what tools have done outside."""

    name = NAME

    def __init__(self, session: Session) -> None:
        self._session = session

    @staticmethod
    def is_first(moves: tuple[str, ...]) -> bool:
        """Whether nothing is done before the first undo."""
        return moves[0].startswith(_UNDO) or all(move.startswith(CARRY) for move in moves)

    async def prepare(self, to_seq: int) -> tuple[str, ...]:
        """Its moves are made by `roll_back`, which knows what the caller has said about each effect."""
        del to_seq
        return ()

    async def check(self, one: Behind) -> None:
        """Raise ToolNotFound where the undo of an effect could not be made in this process."""
        self._undo_of(one.tool)

    async def apply(self, move: str) -> None:
        """Make one move. An undo that was made is not made again. Raises StopRequested, ToolNotFound."""
        what, _, of = move.partition(" ")
        pending = self._session.fold.ledger.rollback
        if what != "undo" or pending is None or of in pending.undone or of in pending.kept:
            return  # what is carried is stated when the rollback ends
        crashpoints.reach("during_undo")
        await self._undo(of, pending)
        crashpoints.reach("during_undo")

    async def done(self, to_seq: int) -> None:
        """Nothing is left to be done."""

    async def _undo(self, of: str, pending: Rollback) -> None:
        """Take back the effect of action `of`. A passing fault is tried again a few times."""
        session = self._session
        intent, undo, given = await self._call_of(of, pending)
        patience = session.world.rules.patience
        undoing, outcome = await self._make(undo, given, of)
        for retry in range(patience.retries_max):
            if not (isinstance(outcome, Failed) and outcome.error.failure_class in PASSING):
                break
            await asyncio.sleep(patience.base_s * 2**retry)
            undoing, outcome = await self._make(undo, given, of)
        if not isinstance(outcome, Succeeded):
            await self._ask(intent.tool, of, undo.name, undoing, outcome)
        session.tell("undone", action=of, by=undoing)

    async def _make(self, undo: Tool[..., Any], given: Mapping[str, object], of: str) -> tuple[str, Outcome]:
        """Make one try, under the same effect key as any before it."""
        session = self._session
        key = undo_key(of)
        failed = session.fold.document.keyed.get(resume.key_of(undo.name, key))
        if failed is not None and failed.failed:
            session.claim(failed.action)  # the failure is known, so the call is made again
        session.is_undoing = True
        try:
            session.gate(f"undo of action {of}", session.lap)
            perform = session.perform or action.perform
            return await perform(session, undo, given, Options(key=key, is_undo=True), None)
        finally:
            session.is_undoing = False

    async def _ask(self, tool: str, of: str, undo: str, undoing: str, outcome: Outcome) -> Never:
        """Leave the task to a person, in the middle of its rollback."""
        session = self._session
        name = shlex.quote(session.fold.ledger.name)
        match outcome:
            case Failed(error):
                how = f"failed ({error.type}: {error.message})"
            case InDoubt(reason):
                how = f"is in doubt ({reason})"
            case _:
                how = "has not ended"
        text = cut_redacted(
            f"{undo!r} (action {undoing}), which takes back {tool!r} (action {of}), {how}; put it right and "
            f"`perdure resume {name}`, or say that it is taken back: `perdure settle {name} {undoing} --happened`, "
            f"or that it stays in the world: `perdure settle {name} {undoing} --keep`",
            ERROR_MESSAGE_BYTES_MAX,
        )
        if session.world.rules.unattended:
            session.put(e.TaskFailedEntry(reason=text))
        else:
            session.put(e.QuestionAsked(question=text, reason="handover", action=undoing))
        await session.commit()
        tell_stopped(session)
        session.stop = StopRequested(session.task, "undo", text)
        raise session.stop

    async def _call_of(self, of: str, pending: Rollback) -> tuple[e.ActionIntended, Tool[..., Any], dict[str, object]]:
        """Return the intent of the effect that is to be taken back, its undo, and with what that is called."""
        session = self._session
        store, task = session.world.store, session.task
        at = next((one.settled for one in pending.standing if one.action == of), 0)
        settled = (await read_entry(store, task, at)).payload if at else None
        result: object = None
        if isinstance(settled, e.ActionSettled):
            seq, result = settled.intent, await result_of(store, task, at, settled)
        else:
            open_ = session.fold.ledger.open.get(of)  # it is in doubt: what it returned is not known
            seq = open_.intent if open_ is not None else await self._intent_behind(pending.to_seq, of)
        intent = (await read_entry(store, task, seq)).payload if seq else None
        if not isinstance(intent, e.ActionIntended):
            raise Damaged(task, seq, f"the intent of action {of} is missing")
        original, undo = self._undo_of(intent.tool)
        arguments = await arguments_of(store, task, seq, intent)
        return intent, undo, bind_undo(original.shape, undo.shape, arguments, result)

    async def _intent_behind(self, to_seq: int, action: str) -> int:
        """Return where an effect was intended of which a person has said that it stays; 0 where it was not."""
        found = 0
        async for entry in entries(self._session.world.store, self._session.task, to_seq):
            if isinstance(entry.payload, e.ActionIntended) and entry.payload.action == action:
                found = entry.header.seq
        return found

    def _undo_of(self, name: str) -> tuple[Tool[..., Any], Tool[..., Any]]:
        """Return the tool of an action, and what takes it back. Raises ToolNotFound."""
        session = self._session
        tool = session.undoable.get(name) or registry.find_tool(name, session.module)
        if tool.undo_function is None:
            raise ToolNotFound(name, (f"{tool.module}.{tool.qualname}, which has no undo=",))
        return tool, tool.undo_function
