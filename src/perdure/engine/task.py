"""What user code holds: `Task`. Every method is a thin door to the session, the critical section or the sequencer.

A handle belongs to one call of the program (one branch); after a rollback the engine hands out a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, Literal, Never, ParamSpec, TypeVar, cast, overload

import msgspec

from perdure.codec.redact import cut_redacted, redact, redact_text
from perdure.core.allowance import check_cost
from perdure.core.resume import find_unanchored
from perdure.engine import action, crashpoints, marking
from perdure.engine.boundary import Boundary
from perdure.engine.files import files_of
from perdure.engine.handle import Change, Handle
from perdure.engine.loops import Each, current_place
from perdure.engine.outcomes import Options
from perdure.engine.recovering import put_failure
from perdure.engine.rollback import roll_back
from perdure.engine.session import Session, editing
from perdure.engine.settling import settle
from perdure.errors import (
    ActionFailed,
    ActionsInFlight,
    ActionTimedOut,
    CheckFailed,
    LimitExceeded,
    OutcomeUnknown,
    ToolLeftOut,
    ToolUndeclared,
    UsageError,
)
from perdure.limits import COUNT_MAX, COUNT_NAMES_MAX, ERROR_MESSAGE_BYTES_MAX
from perdure.model import entry as e
from perdure.model.budget import NO_COST, Cost
from perdure.model.document import Document
from perdure.model.effect import Effect
from perdure.model.ids import check_key, check_name, check_text
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.tools import Tool

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
CheckClass = Literal["output", "suspicious"]  # what a check that is not met says: a bad answer, or false information
Reducer = Callable[[Any, R], object]  # (writable state, result); what it returns is not looked at


class Task(Handle):
    """One task in the hands of its program."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._begun: set[str] = set()  # names of the loops begun in this call of the program
        self._marks: Counter[tuple[str, str]] = Counter()  # (checkpoint, place) marked in this call of the program
        self._plain = Using(session, self._lap, Options())  # what `act` without settings uses

    # --- actions ----------------------------------------------------------------------------------------------------
    @overload
    async def act(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def act(self, tool: Tool[..., R], /, *args: Any, then: Reducer[R], **kwargs: Any) -> R: ...
    async def act(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call `tool`, durably, and return its recorded result (a fresh value for each caller).

        `then(state, result)` changes the state in the same append as the outcome. Raises ActionFailed (ActionTimedOut),
        OutcomeUnknown, ReducerFailed; UsageError before anything was done.
        """
        return await self._plain.act(tool, *args, **kwargs)

    async def act_outcome(
        self, tool: Tool[..., R], /, *args: Any, then: Reducer[R] | None = None, **kwargs: Any
    ) -> Outcome:
        """As `act`, but return Succeeded, Failed or InDoubt as a value."""
        return await self._plain.act_outcome(tool, *args, then=then, **kwargs)

    def using(  # noqa: PLR0913 - every setting of a call is a keyword of its own
        self,
        *,
        key: str = "",
        timeout_s: float | None = None,
        fresh: bool = False,
        result_type: Any = None,
        effect: Effect | None = None,
        name: str = "",
        reserve: Cost | None = None,
    ) -> Using:
        """Return this task with settings for the next `act`.

        `key`: found again by (tool name, key) while the branch lives. `fresh`: never answered by a loose outcome.
        `result_type`: what the result is rebuilt to. `effect`, `name`: instead of the tool's own. `reserve`: the most
        that the call of a paid tool may cost; it counts as spent until the call has said what it did cost, and where it
        is killed it stays spent. `using(…).asked_by(tool, key)` says whose result asks for the call: its `parent` in
        the log. Raises UsageError.
        """
        if key:
            key = redact_text(check_key(key))
        _check_timeout(timeout_s)
        options = Options(
            key=key,
            timeout_s=timeout_s,
            fresh=fresh,
            result_type=result_type,
            effect=effect,
            name=name,
            reserve=NO_COST if reserve is None else check_cost(reserve),
        )
        return Using(self._session, self._lap, options)

    def each(self, name: str, items: Iterable[T]) -> Each[T]:
        """Iterate over `items` so that a resumed program goes on where it was.

        Acts in the body that have no key get one by their place in the loop. Finished items are skipped. Raises
        ResumeDiverged where another item than recorded stands at a place, UsageError where the name is used twice.
        """
        return Each(self._session, self._lap, redact_text(check_name(name, "loop name")), items, self._begun)

    async def map(self, name: str, tool: Tool[[T], R], items: Sequence[T], *, concurrency: int = 8) -> list[R]:
        """Call `tool` with each item, at most `concurrency` at once; return the results in order.

        Each call is found again by its place. The first failure cancels the others and is raised.
        """
        check_name(name, "map name")
        _check_concurrency(concurrency)
        outer = current_place.get()
        prefix = f"{outer}." if outer is not None and outer.belongs_to(self._session, self._lap) else ""
        slots = asyncio.Semaphore(concurrency)

        async def one(place: int, item: T) -> R:
            async with slots:
                return await self.using(key=f"map {prefix}{name} {place}").act(tool, item)

        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(one(place, item)) for place, item in enumerate(items)]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return [done.result() for done in running]

    async def settle(self, action_id: str, outcome: Outcome | None, *, by: str = "program") -> None:
        """Say how an open or doubtful action ended; None keeps it as a fact that no call will claim."""
        await settle(self._session, action_id, outcome, by=by)

    # --- the document -----------------------------------------------------------------------------------------------
    @contextlib.asynccontextmanager
    async def edit(self, *, count: Mapping[str, int] | None = None) -> AsyncGenerator[Any]:
        """Change the state: durable when the block is left, all of it or (if the block raises) nothing.

        `count`, name -> by how much (1 or more), is added to `counts` in the same append; no rollback takes it back.
        Raises UsageError, LimitExceeded.
        """
        session = self._session
        session.gate("edit", self._lap)
        count = _checked_counts(count or {}, session.fold.ledger.counts)
        await self._until_editable("edit")
        session.edit_closed.clear()
        session.editor = asyncio.current_task()
        token = editing.set(session.task)
        change = session.begin_edit()
        try:
            yield change.view
            operations = change.finish()
            is_written = bool(operations or count)
            is_written = is_written or find_unanchored(session.fold.document, session.claimed) is not None
            if is_written:  # an edit that changes nothing anchors an effect all the same
                session.refuse_other_lap(self._lap)
                session.refuse_left_behind("an edit")
                session.put_patch(operations, counts=count)
        except BaseException:
            change.undo()
            raise
        finally:
            editing.reset(token)
            session.editor = None
            session.edit_closed.set()
        if is_written:
            await session.commit()

    async def checkpoint(self, name: str, *, then: Change | None = None) -> None:
        """Mark this moment by `name`: a rollback can come back to it.

        Marking it again with nothing changed writes nothing, nor does a resumed program that comes by it again. An
        effect without a key before it is held by it. `then(state)` changes the state in the append of the mark; it is
        then marked each time that this is called, and the state says whether it was. Raises ActionsInFlight while
        actions run.
        """
        session = self._session
        session.gate(f"checkpoint {name!r}", self._lap)
        name = redact_text(check_name(name, "checkpoint name"))
        self._refuse_in_flight(name)
        files = files_of(session)
        if files is not None:
            await files.at_checkpoint()
            self._refuse_in_flight(name)
        place = current_place.get()
        where = str(place) if place is not None and place.belongs_to(session, self._lap) else ""
        self._marks[name, where] += 1
        if then is not None:
            await self._until_editable(f"checkpoint {name!r}")
            self._refuse_in_flight(name)
            self._change(then, f"checkpoint {name!r}")
        elif _is_passed(session, name, where, self._marks[name, where]):
            return
        session.refuse_left_behind(f"checkpoint {name!r}")
        seq = session.put(e.CheckpointMarked(name=name, place=where))
        await session.commit()
        crashpoints.reach("after_checkpoint")
        session.tell("checkpoint_marked", name=name, seq=seq)

    def _refuse_in_flight(self, name: str) -> None:
        if self._session.running:
            raise ActionsInFlight(f"checkpoint {name!r}", tuple(self._session.running))

    async def rollback(self, name: str, *, reason: str = "", carry: bool = False, force: bool = False) -> Never:
        """Go back to the newest checkpoint `name` ("name#2": the second, "start": the beginning); never returns.

        State, files, and what tools with an `undo=` have done since go back. Effects that cannot be taken back stop it
        (RollbackRefused), unless they are to stay: `carry` adds each to `task.facts`, `force` does not. Equal calls are
        answered by them in either case.
        """
        self._session.gate("rollback", self._lap)
        raise await roll_back(self._session, redact(name), reason=reason, carry=carry, force=force)

    async def check(
        self,
        name: str,
        verdict: bool | Callable[[], object],  # noqa: FBT001 - it is the point of the call
        *,
        failure_class: CheckClass = "output",
        reason: str = "",
        then: Change | None = None,
    ) -> None:
        """Judge something: True is recorded as progress, False raises CheckFailed.

        `failure_class`: "suspicious" where it shows that the information is false: its source is left then. `reason`:
        how that was found out, or why it is not met, for those who read of it.

        A CheckFailed that leaves the program is a counted failure; the program is then called anew, and what free
        tools gave it since the last change of its state is asked for again.

        `then(state)` changes the state in the append of the verdict, whichever it is, so that a resumed program knows
        that it has judged. A False is then counted in the same append, wherever the CheckFailed goes.

        A function is called without arguments; an exception in it means failed.
        """
        session = self._session
        session.gate(f"check {name!r}", self._lap)
        name = redact_text(check_name(name, "check name"))
        passed, why = _judge(verdict)
        why = redact_text(why or check_text(reason, "reason"))
        told = cut_redacted(why, ERROR_MESSAGE_BYTES_MAX)
        drafts = await marking.drafts_waiting_for(session, self._lap, name) if passed else ()
        if then is not None:
            await self._until_editable(f"check {name!r}")
            self._change(then, f"check {name!r}")
        if not passed:
            failed = CheckFailed(name, why, failure_class)
            session.put(e.CheckJudged(name=name, passed=False, reason=told))
            if then is not None:
                put_failure(session, failed)
            await session.commit()
            raise failed
        if then is not None or name not in session.fold.document.checks:
            marking.put_passed(session, name, drafts, told)
            await session.commit()
            marking.tell_marked(session)


class Using:
    """A task with settings for one call; made by `Task.using`."""

    def __init__(self, session: Session, lap: int, options: Options) -> None:
        self._session = session
        self._lap = lap
        self._options = options

    def asked_by(self, tool: str, key: str) -> Using:
        """Return this with one more setting: which call's result asks for this one, as a reply of a model does.

        The log names that call as its `parent`. One that does not stand on this branch is not named.
        """
        made = copy.copy(self)  # of its own class: in a replay no tool may be called
        made._options = msgspec.structs.replace(self._options, asked_by=(tool, key))  # noqa: SLF001 - of its own class
        return made

    @overload
    async def act(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def act(self, tool: Tool[..., R], /, *args: Any, then: Reducer[R], **kwargs: Any) -> R: ...
    async def act(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As `Task.act`."""
        action_id, outcome = await self._perform(tool, args, kwargs, kwargs.pop("then", None))
        match outcome:
            case Succeeded(result):
                return result
            case Failed(error):
                kind = ActionTimedOut if error.failure_class == "timeout" else ActionFailed
                raise kind(action_id, tool.name, error)
            case InDoubt():
                raise OutcomeUnknown(self._session.task, action_id, tool.name)

    async def act_outcome(
        self, tool: Tool[..., R], /, *args: Any, then: Reducer[R] | None = None, **kwargs: Any
    ) -> Outcome:
        """As `Task.act_outcome`."""
        _, outcome = await self._perform(tool, args, kwargs, then)
        return outcome

    def _perform(
        self,
        tool: Any,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        then: Any,
    ) -> Coroutine[Any, Any, tuple[str, Outcome]]:
        if not isinstance(tool, Tool):
            raise _refusal(tool)
        if then is not None and _is_coroutine_function(then):
            raise UsageError("then= must be a plain function: what it does is written together with the outcome")
        declared = cast("Tool[..., Any]", tool)
        self._session.gate(f"act {declared.name!r}", self._lap)
        if self._session.fold.ledger.strategies:
            _refuse_left_out(self._session, declared.name)
        options = self._options
        if options.reserve != NO_COST and not declared.paid:
            raise UsageError(f"reserve= is for paid calls, and {declared.name!r} is not declared so: write `paid=True`")
        place = current_place.get()
        if place is not None and not options.key and place.belongs_to(self._session, self._lap):
            options = msgspec.structs.replace(options, place=place)
        return action.perform(self._session, declared, declared.bind(args, kwargs), options, then)


def _refuse_left_out(session: Session, tool: str) -> None:
    """Raise ToolLeftOut for a tool that the strategy leaves out: another strategy of the task names it."""
    ledger = session.fold.ledger
    now = ledger.strategies[session.fold.document.strategy]
    if now.tools and tool not in now.tools and any(tool in one.tools for one in ledger.strategies):
        raise ToolLeftOut(tool, now.name, now.tools)


def _check_timeout(given: object) -> None:
    if given is not None and not (isinstance(given, int | float) and 0 < given < math.inf):
        raise UsageError(f"timeout_s={given!r} is not a number of seconds above 0")


def _check_concurrency(given: object) -> None:
    """With none at once nothing would ever be called, and the program would wait for ever."""
    if not isinstance(given, int) or given < 1:
        raise UsageError(f"concurrency={given!r} is not a whole number from 1 up")


def _refusal(tool: object) -> UsageError:
    """Return what to say of something that is no tool."""
    if not inspect.isawaitable(tool):
        return ToolUndeclared(getattr(tool, "__name__", repr(tool)))
    if inspect.iscoroutine(tool):
        tool.close()
    return UsageError("the tool was called already; hand over the tool and its arguments: `task.act(tool, ...)`")


def _is_coroutine_function(then: object) -> bool:
    """As `inspect` says it, which takes longer for what a reducer mostly is: a bare function."""
    if type(then) is FunctionType and not then.__dict__:  # one with a mark upon it may be more than its code says
        return bool(then.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(then)


def _is_passed(session: Session, name: str, place: str, nth: int) -> bool:
    """Whether the mark stands already: the program comes by it again, or there is nothing new to hold."""
    document = session.fold.document
    if find_unanchored(document, session.claimed) is not None:
        return False
    if _is_marked(document, name):
        return True
    own = (mark for mark in document.checkpoints if mark.reason == "program")
    marks = sum(mark.name == name and mark.place == place for mark in own)
    return session.is_replaying and nth <= marks


def _is_marked(document: Document, name: str) -> bool:
    """Whether `name` was marked since the document last changed or kept the outcome of an effect."""
    changed = document.last_change
    for mark in reversed(document.checkpoints):
        if mark.changed != changed:
            return False
        if mark.name == name and mark.reason == "program":
            return True
    return False


def _checked_counts(count: Mapping[str, int], so_far: Mapping[str, int]) -> dict[str, int]:
    for name, by in count.items():
        check_name(name, "count name")
        if type(by) is not int or by < 1:  # True is none
            raise UsageError(f"count {name!r} grows by a whole number from 1 on, not by {by!r}")
        if so_far.get(name, 0) + by > COUNT_MAX:
            raise LimitExceeded(f"count {name!r}", so_far.get(name, 0) + by, COUNT_MAX)
    names = len(so_far.keys() | count.keys())
    if names > COUNT_NAMES_MAX:
        raise LimitExceeded("names of counts of one task", names, COUNT_NAMES_MAX)
    return {redact_text(name): by for name, by in count.items()}


def _judge(verdict: object) -> tuple[bool, str]:
    """Return (passed, why not)."""
    if not callable(verdict):
        return bool(_refuse_awaitable(verdict)), ""
    with Boundary() as caught:
        verdict = verdict()
    if caught.error is None:
        return bool(_refuse_awaitable(verdict)), ""
    return False, f"{type(caught.error).__name__}: {caught.error}"


def _refuse_awaitable(verdict: object) -> object:
    """Return `verdict`; raise where it is still to be awaited, since anything that can be is true."""
    if inspect.isawaitable(verdict):
        if inspect.iscoroutine(verdict):
            verdict.close()
        raise UsageError("a check takes a verdict or a plain function; await yours first and hand over what it says")
    return verdict
