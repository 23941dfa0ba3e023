"""What a program holds in a replay: a task whose calls are answered from the record, and never by a tool.

Each step first waits for its turn (`following`), then goes the engine's own way. A tool is put away for a stand-in of
the same name, effect and types that hands out the recorded outcome. Called by `playing`; programs see a `Task`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Never, TypeVar, cast

import msgspec

from perdure.core import resume
from perdure.core.resume import Answered, Fresh, Interrupted, Reused, UsedUp
from perdure.core.tracking import MapView
from perdure.engine import action, reusing
from perdure.engine.handle import Change
from perdure.engine.loops import Each, Place, current_place
from perdure.engine.outcomes import Options, Reducer, Work
from perdure.engine.replay.following import Follower
from perdure.engine.session import Session
from perdure.engine.task import CheckClass, Task, Using
from perdure.errors import PerdureError, Unwound
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.model.ids import check_name
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.tools import Tool
from perdure.tools.results import rebuild

T = TypeVar("T")


class RecordedIds:
    """`ports.Ids` that give what the record says, if it says something, else numbers that nobody sees."""

    def __init__(self) -> None:
        self._next: list[str] = []
        self._drawn = 0

    def give(self, *ids: str) -> None:
        """Give these next, and nothing of what was to be given before."""
        self._next = [one for one in ids if one]

    def task_id(self) -> str:
        """32 hex digits."""
        return self.salt().hex()

    def short_id(self) -> str:
        """The id of the action or effect that comes next."""
        return self._next.pop(0) if self._next else f"{self.salt().hex()[-22:]}"

    def salt(self) -> bytes:
        """16 bytes that count."""
        self._drawn += 1
        return self._drawn.to_bytes(16)

    def random(self) -> float:
        """Not asked for: draws have their own way."""
        return 0.0


class FedError(Exception):
    """Stands for the exception of a tool; its record is put in its place wherever it is seen."""

    def __init__(self, record: ErrorRecord) -> None:
        super().__init__(record.message)
        self.failure_class = record.failure_class


class _Ticket:
    """One call: which recorded outcome answers it."""

    def __init__(self) -> None:
        self.action = ""
        self.settled: e.ActionSettled | None = None  # once it was handed out

    def restored(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the recorded error in place of the fed one."""
        error = self.settled.error if self.settled is not None else None
        match outcome:
            case Failed() if error is not None:
                return Failed(error)
            case InDoubt() if error is not None:
                return InDoubt(f"{error.type}: {error.message}")
            case _:
                return outcome


class ReplayUsing(Using):
    """`Using` whose calls wait for their turn and are answered from the record."""

    def __init__(self, session: Session, lap: int, options: Options, follower: Follower) -> None:
        super().__init__(session, lap, options)
        self._follower = follower

    @classmethod
    def of(cls, plain: Using, follower: Follower) -> ReplayUsing:
        """Return `plain` as one that replays."""
        return cls(plain._session, plain._lap, plain._options, follower)  # noqa: SLF001 - its own class

    def _perform(
        self,
        tool: Any,  # noqa: ANN401 - as the task's
        args: tuple[object, ...],
        kwargs: dict[str, object],
        then: Any,  # noqa: ANN401
    ) -> Coroutine[Any, Any, tuple[str, Outcome]]:
        if not isinstance(tool, Tool):
            return super()._perform(tool, args, kwargs, then)
        declared = cast("Tool[..., Any]", tool)
        self._session.gate(f"act {declared.name!r}", self._lap)
        options, place = self._options, current_place.get()
        if place is not None and not options.key and place.belongs_to(self._session, self._lap):
            options = msgspec.structs.replace(options, place=_OncePlace(place))
        return self.in_turn(declared, declared.bind(args, kwargs), options, then)

    async def in_turn(
        self, tool: Tool[..., Any], given: Mapping[str, object], options: Options, then: Reducer | None
    ) -> tuple[str, Outcome]:
        """Make a call when its turn has come."""
        session, follower, ticket = self._session, self._follower, _Ticket()
        stand_in = _stand_in(tool, follower, ticket, options)
        call = _Call(session, self._lap, follower, lambda: action.prepare(session, stand_in, given, options, then))
        await follower.turn(call.may_go, is_act=True)
        session.gate(f"act {tool.name!r}", self._lap)
        call.begin(ticket)
        name, outcome = await action.perform(session, stand_in, given, options, then)
        return name, ticket.restored(outcome)


class ReplayTask(Task):
    """`Task` whose steps wait for their turn; what it tells of time and chance is what the record says."""

    def __init__(self, session: Session, follower: Follower) -> None:
        super().__init__(session)
        self._follower = follower
        self._plain = ReplayUsing(session, self._lap, Options(), follower)

    def using(self, **settings: Any) -> Using:  # noqa: ANN401 - as the task's
        """As `Task.using`."""
        plain = super().using(**settings)
        return ReplayUsing.of(plain, self._follower)

    def each(self, name: str, items: Iterable[T]) -> Each[T]:
        """As `Task.each`."""
        loop = _ReplayEach(self._session, self._lap, check_name(name, "loop name"), items, self._begun)
        loop.follower = self._follower
        return loop

    @contextlib.asynccontextmanager
    async def edit(self, *, count: Mapping[str, int] | None = None) -> AsyncGenerator[MapView]:
        """As `Task.edit`."""
        async with super().edit(count=count) as state:
            yield state
            await self._step(_is_plain_edit)

    async def checkpoint(self, name: str, *, then: Change | None = None) -> None:
        """As `Task.checkpoint`."""
        await self._step(lambda payload: isinstance(payload, e.CheckpointMarked) and payload.name == name, then)
        await super().checkpoint(name, then=then)

    async def check(
        self,
        name: str,
        verdict: bool | Callable[[], object],  # noqa: FBT001 - as the task's
        *,
        failure_class: CheckClass = "output",
        reason: str = "",
        then: Change | None = None,
    ) -> None:
        """As `Task.check`."""
        await self._step(lambda payload: isinstance(payload, e.CheckJudged) and payload.name == name, then)
        await super().check(name, verdict, failure_class=failure_class, reason=reason, then=then)

    async def note(self, text: str, *, then: Change | None = None, **fields: Any) -> None:  # noqa: ANN401 - as the task's
        """As `Task.note`."""
        await self._step(lambda payload: isinstance(payload, e.NoteWritten) and payload.text == text, then)
        await super().note(text, then=then, **fields)

    async def fact(self, text: str, *, source: str = "") -> None:
        """As `Task.fact`."""
        await self._step(lambda payload: isinstance(payload, e.FactStated) and payload.text == text)
        await super().fact(text, source=source)

    async def _answers(self, questions: Mapping[str, str], wait_s: float) -> dict[str, str]:
        await self._step(lambda payload: isinstance(payload, e.QuestionAsked))
        return await super()._answers(questions, wait_s)

    async def adopt(self, steps: Sequence[str], *, then: Change | None = None) -> None:
        """As `Task.adopt`."""
        await self._step(lambda payload: isinstance(payload, e.PlanAdopted), then)
        await super().adopt(steps, then=then)

    async def begin_step(self, name: str, *, then: Change | None = None) -> None:
        """As `Task.begin_step`."""
        await self._step(lambda payload: isinstance(payload, e.StepBegan) and payload.name == name, then)
        await super().begin_step(name, then=then)

    async def rollback(self, name: str, *, reason: str = "", carry: bool = False, force: bool = False) -> Never:
        """As `Task.rollback`."""
        await self._step(lambda payload: isinstance(payload, e.RollbackBegan))
        await super().rollback(name, reason=reason, carry=carry, force=force)

    async def settle(self, action_id: str, outcome: Outcome | None, *, by: str = "program") -> None:
        """As `Task.settle`."""
        await self._step(lambda payload: isinstance(payload, e.ActionReleased | e.ActionSettled))
        await super().settle(action_id, outcome, by=by)

    def now(self) -> int:
        """As `Task.now`."""
        return cast("int", self._follower.draw("now", int))

    def random(self) -> float:
        """As `Task.random`."""
        return cast("float", self._follower.draw("random", float))

    def new_id(self) -> str:
        """As `Task.new_id`."""
        return cast("str", self._follower.draw("new_id", str))

    async def _step(self, makes: Callable[[e.Payload], bool], then: Change | None = None) -> None:
        """Wait for the turn of a step that makes an entry like that; with `then`, one of the state before it."""
        if then is None:
            await _wait_for(self._follower, makes)
            return
        await _wait_for(self._follower, makes, _is_plain_edit)


def undoing(follower: Follower) -> Callable[..., Coroutine[Any, Any, tuple[str, Outcome]]]:
    """Return what makes the undos of a rollback, whoever has decided on it: answered from the record, as any call."""

    def undo(
        session: Session, tool: Tool[..., Any], given: Mapping[str, object], options: Options, _then: None
    ) -> Coroutine[Any, Any, tuple[str, Outcome]]:
        return ReplayUsing(session, session.lap, options, follower).in_turn(tool, given, options, None)

    return undo


class _ReplayEach(Each[T]):
    """`Each` whose moves wait for their turn."""

    follower: Follower

    async def __anext__(self) -> T:
        """As `Each`."""
        await _wait_for(
            self.follower, lambda payload: isinstance(payload, e.PositionMoved) and payload.loop == self._loop
        )
        return await super().__anext__()


class _OncePlace(Place):
    """A place for one call, which may ask for its key more than once: it is tried out before it sets out."""

    def __init__(self, place: Place) -> None:
        self.loop, self.index = place.loop, place.index
        self._within = place
        self._key = ""

    def next_key(self, tool: str, digest: bytes) -> str:
        """As `Place`, the same each time."""
        self._key = self._key or self._within.next_key(tool, digest)
        return self._key


async def _wait_for(
    follower: Follower, makes: Callable[[e.Payload], bool], before: Callable[[e.Payload], bool] | None = None
) -> None:
    """Wait for the turn of a step that makes an entry like that, or none; there may be one like `before` in front."""

    def fits() -> bool:
        head = follower.head()
        if head is None or makes(head.payload):
            return head is not None
        if before is None or not before(head.payload):
            return False
        following = next(itertools.islice(follower.walk.ahead(), 1, None), None)
        return following is not None and makes(following.payload)

    await follower.turn(fits, is_act=False)


def _is_plain_edit(payload: e.Payload) -> bool:
    return isinstance(payload, e.StateEdited) and not payload.action


class _Call:
    """A call before it sets out: how it would be answered as things stand."""

    def __init__(self, session: Session, lap: int, follower: Follower, prepare: Callable[[], Work]) -> None:
        self._session = session
        self._lap = lap
        self._follower = follower
        self._prepare = prepare

    def may_go(self) -> bool:
        """Whether it is its turn: its entry is the next on record, or it makes none."""
        if self._is_refused():
            return True
        if self._session.is_alarmed:
            return False  # effects are in flight: when they have ended, it is refused
        work = self._prepare()
        if resume.key_of(work.tool.name, f"{work.call.loop}\n{work.call.key}") in self._session.busy_keys:
            return False
        match self._finding(work):
            case Fresh():
                return self._intent(work) is not None
            case Interrupted(open_):
                return self._goes_on(work, open_.action)
            case Reused(standing):
                return self._makes(
                    lambda payload: isinstance(payload, e.ActionReused) and payload.action == standing.action
                )
            case Answered(kept) if kept.unapplied and work.then is not None:
                return self._makes(lambda payload: isinstance(payload, e.StateEdited) and payload.action == kept.action)
            case _:
                return True

    def begin(self, ticket: _Ticket) -> None:
        """Take the ids that the record has for it. Raises what ends the replay where it is not on record."""
        if self._is_refused():
            return
        work = self._prepare()
        match self._finding(work):
            case Fresh():
                intent = self._intent(work)
                if intent is not None:
                    ticket.action = intent.action
                    self._give(intent.action, intent.effect_key)
                    return
                ticket.settled = None if self._follower.is_strict else self._equal(work)
                if ticket.settled is None or not work.call.effect.is_free:
                    raise self._follower.refuse(_intended(work))
            case Interrupted(open_):
                ticket.action = open_.action
            case _:
                pass

    def _is_refused(self) -> bool:
        """Whether the engine will refuse it in its own words."""
        try:
            self._session.gate("act", self._lap)
            self._prepare()
        except (PerdureError, Unwound):
            return True
        return False

    def _finding(self, work: Work) -> resume.Finding:
        session = self._session
        document, ledger = session.fold.document, session.fold.ledger
        found = resume.find(work.call, document, ledger, session.claimed, session.loose)
        said = document.answers.get(resume.again_key(work.call.tool, work.call.digest))
        if not isinstance(found, UsedUp) or said is None:
            return found
        return Fresh() if reusing.is_yes(said) else Reused(found.standing)

    def _intent(self, work: Work) -> e.ActionIntended | None:
        return self._follower.intent(_intended(work), same_action=False)

    def _goes_on(self, work: Work, name: str) -> bool:
        """Whether it is the turn of a call that an earlier run has begun."""
        if name in self._session.late:
            return True
        open_ = self._session.fold.ledger.open[name]
        match resume.rule_for(open_):
            case "run":
                came = msgspec.structs.replace(_intended(work), action=name)
                return self._follower.intent(came, same_action=True) is not None
            case "probe":
                return True
            case "doubt":
                return open_.in_doubt or self._makes(
                    lambda payload: isinstance(payload, e.ActionSettled) and payload.action == name
                )

    def _makes(self, makes: Callable[[e.Payload], bool]) -> bool:
        head = self._follower.head()
        return head is not None and makes(head.payload)

    def _equal(self, work: Work) -> e.ActionSettled | None:
        """Return the recorded success of an equal call, for one without effects that is not on record."""
        record = self._follower.walk.record
        actions = {
            entry.payload.action
            for entry in record.entries
            if isinstance(entry.payload, e.ActionIntended)
            and (entry.payload.tool, entry.payload.digest) == (work.call.tool, work.call.digest)
        }
        for entry in record.entries:
            settled = entry.payload
            if isinstance(settled, e.ActionSettled) and settled.action in actions and settled.outcome == "succeeded":
                return settled
        return None

    def _give(self, *ids: str) -> None:
        cast("RecordedIds", self._session.world.ids).give(*ids)


def _intended(work: Work) -> e.ActionIntended:
    """Return the entry that a call would make, as far as it is compared before it is made."""
    call = work.call
    return e.ActionIntended(
        action=work.action,
        tool=call.tool,
        effect=call.effect,
        arguments=msgspec.Raw(work.arguments.raw),
        digest=call.digest,
        key=call.key,
        loop=call.loop,
        reduces=call.reduces,
    )


def _stand_in(tool: Tool[..., Any], follower: Follower, ticket: _Ticket, options: Options) -> Tool[..., Any]:
    """Return a tool like `tool` that hands out the recorded outcome and does nothing."""

    def late_outcome(settled: e.ActionSettled) -> Outcome:
        if settled.error is not None:
            return Failed(settled.error)
        result = rebuild(_given_by(settled, follower), options.result_type or tool.result_type)
        return Succeeded(result, valid=not settled.invalid)

    async def hand_out(*_args: object, **_given: object) -> object:
        follower.expect_late(ticket.action, late_outcome)
        settled = ticket.settled = ticket.settled or await follower.answer(ticket.action)
        return _given_by(settled, follower)

    async def tell(**_given: object) -> object:
        return await _probed(follower, ticket)

    def is_valid(_result: object) -> bool:
        return ticket.settled is None or not ticket.settled.invalid

    made = dataclasses.replace(
        tool,
        fn=hand_out,
        is_coroutine=True,
        quick=False,
        valid=None if tool.valid is None else is_valid,
        probe=None if tool.probe is None else tell,
    )
    vars(made)["result_type"] = tool.result_type  # it is read from the function, and that is another one now
    return made


def _given_by(settled: e.ActionSettled, follower: Follower) -> object:
    """Return what the tool has returned, or raise what it raised."""
    if settled.error is None:
        return follower.walk.record.value(settled.result) if bytes(settled.result) else None
    if settled.invalid:
        return object()  # the tool returned something that cannot be stored, and so is this
    raise FedError(settled.error)


async def _probed(follower: Follower, ticket: _Ticket) -> object:
    """Return what the probe has answered, by what followed: the outcome, another dispatch, or nothing known."""
    name = ticket.action

    def fits() -> bool:
        head = follower.head()
        return head is not None and _is_about(head.payload, name)

    await follower.turn(fits, is_act=True)
    head = follower.head()
    settled = head.payload if head is not None and _is_about(head.payload, name) else None
    if not isinstance(settled, e.ActionSettled):
        return False
    if settled.by != "probe":
        return None
    result = follower.walk.record.value(settled.result) if bytes(settled.result) else None
    return True if result is None else result


def _is_about(payload: e.Payload, name: str) -> bool:
    return isinstance(payload, e.ActionSettled | e.ActionIntended) and payload.action == name
