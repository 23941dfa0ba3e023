"""The quiet half of `Task`: what the task is, and what its program says of itself. Makes no actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Never, cast

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.codec.redact import cut_redacted, redact, redact_text
from perdure.core.briefing import brief
from perdure.core.spending import state_of
from perdure.engine import asking, marking
from perdure.engine.loops import current_place
from perdure.engine.outcomes import refuse_awaitable
from perdure.engine.session import Session
from perdure.errors import StopRequested, UsageError
from perdure.limits import ERROR_MESSAGE_BYTES_MAX
from perdure.model import entry as e
from perdure.model.advice import NO_ADVICE, Advice
from perdure.model.budget import BudgetState
from perdure.model.document import Kept
from perdure.model.ids import check_name, check_text, plain_text
from perdure.model.strategy import DEFAULT_STRATEGY, Strategy

Change = Callable[[Any], object]  # (writable state); what it returns is not looked at


class Handle:
    """One task in the hands of one call of its program (one branch)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lap = session.lap
        self._asked: set[str] = set()  # questions of this call of the program
        self._adopted = 0  # plans, in this call of the program; the same again is none
        self._own_plan: tuple[str, ...] | None = None  # the last of these
        self._steps = 0  # begun, in this call of the program; the same again is none
        self._own_step = ""  # the last of these

    # --- what it is -------------------------------------------------------------------------------------------------
    @property
    def id(self) -> str:
        """The task's id: 32 hex digits, never used again."""
        return self._session.task

    @property
    def name(self) -> str:
        """The task's name."""
        return self._session.fold.ledger.name

    @property
    def goal(self) -> str:
        """What is wanted, as recorded at the start."""
        return self._session.fold.ledger.goal

    @property
    def workspace(self) -> str:
        """Folder of the task's files, "" where it has none."""
        return self._session.fold.ledger.workspace

    @property
    def attempt(self) -> int:
        """1 at the first call of the program, one more at each new call on this task."""
        return self._session.fold.ledger.attempt

    @property
    def status(self) -> str:
        """Where the task stands: one of `model.status.Status`."""
        return self._session.fold.ledger.status

    @property
    def strategy(self) -> Strategy:
        """The strategy to follow; `Strategy("default")` where none were declared."""
        strategies = self._session.fold.ledger.strategies
        return strategies[self._session.fold.document.strategy] if strategies else DEFAULT_STRATEGY

    @property
    def budget(self) -> BudgetState:
        """What the task has spent, over every restart and rollback, and how that stands to its budget.

        Time is counted up to the last entry of the journal.
        """
        return state_of(self._session.fold.ledger, self._session.fold.at)

    @property
    def counts(self) -> dict[str, int]:
        """What the program has counted by `edit(count=…)`, by name, over every restart and rollback."""
        return dict(self._session.fold.ledger.counts)

    @property
    def lessons(self) -> list[str]:
        """What abandoned branches taught, oldest first."""
        return list(self._session.fold.ledger.lessons)

    @property
    def advice(self) -> Advice:
        """What recovery or a person has to say to this call of the program, false where there is nothing."""
        return self._session.fold.ledger.advice or NO_ADVICE

    def brief(self) -> str:
        """Return what a prompt is built from: goal, what is done, facts, lessons, words of people, advice (Markdown).

        After a rollback it says what was learned, and nothing of the transcript of the branch that was left.
        """
        return brief(self._session.fold.document, self._session.fold.ledger)

    @property
    def facts(self) -> list[str]:
        """What was stated as true, oldest first: by `fact`, by people, and of effects that a rollback had to leave."""
        return list(self._session.fold.ledger.facts)

    @property
    def answers(self) -> dict[str, str]:
        """What people have answered to the task's own questions on this branch, by key (see `ask`)."""
        return dict(self._session.fold.document.answers)

    @property
    def checks(self) -> dict[str, int]:
        """Names of the checks that have passed on this branch, each with the entry that says so."""
        return dict(self._session.fold.document.checks)

    @property
    def plan(self) -> list[str]:
        """The steps of the plan on this branch, in order: as the program has adopted them, or a person since."""
        return list(self._session.fold.document.plan)

    @property
    def state(self) -> Any:  # noqa: ANN401 - a MapView, shown by the program's `state_type`
        """The state, read-only; `.plain()` copies it. Change it by `edit` or by `then=`."""
        return self._session.fold.tree.view()

    @property
    def messages(self) -> list[str]:
        """What people have said to the task, oldest first, each once; survives every rollback.

        By `perdure tell`, and by `perdure answer` where it waited for a person and had asked nothing itself; an answer
        to a question of its own is what `ask` returns. A program keeps in its state how many it has heeded.
        """
        return list(self._session.fold.ledger.messages)

    async def adopt(self, steps: Sequence[str], *, then: Change | None = None) -> None:
        """Record the plan: the ordered sub-goals.

        The same plan again writes nothing, nor does a resumed program that comes by its plans again. `then(state)`
        changes the state in the append of the plan, which is then written each time: the state says whether it was.
        """
        session = self._session
        session.gate("plan", self._lap)
        if isinstance(steps, str):
            raise UsageError(f"a plan is a list of steps, not {steps!r}")
        plan = tuple(redact_text(plain_text(check_text(step, "step"))) for step in steps)
        is_again, self._own_plan = plan == self._own_plan, plan
        self._adopted += then is not None or not is_again
        document = session.fold.document
        if then is not None:
            await self._until_editable("plan")
            self._change(then, "a plan")
        elif is_again or document.plan == plan or (session.is_replaying and self._adopted <= document.plans):
            return
        marking.put_plan(session, plan)
        await session.commit()
        session.tell("plan_adopted", steps=list(plan))
        marking.tell_marked(session)

    async def begin_step(self, name: str, *, then: Change | None = None) -> None:
        """Say which step of the plan is worked on from here on; what follows is recorded as done in it.

        A resumed program that comes by its steps again writes nothing, nor does one that is in the step already.
        `then(state)`: as of `adopt`.
        """
        session = self._session
        session.gate(f"step {name!r}", self._lap)
        name = redact_text(check_name(name, "step name"))
        is_again, self._own_step = name == self._own_step, name
        self._steps += then is not None or not is_again
        document = session.fold.document
        if then is not None:
            await self._until_editable(f"step {name!r}")
            self._change(then, f"step {name!r}")
        elif is_again or document.step == name or (session.is_replaying and self._steps <= document.steps):
            return
        session.put(e.StepBegan(name=name))
        await session.commit()
        session.tell("step_began", name=name)

    # --- telling ----------------------------------------------------------------------------------------------------
    async def note(self, text: str, *, then: Change | None = None, **fields: Any) -> None:  # noqa: ANN401 - values of the codec's domain
        """Write one line for people into log and terminal; `then(state)` changes the state in its append."""
        session = self._session
        session.gate("note", self._lap)
        check_text(text, "note")
        writer = LeafWriter()
        raw = msgspec.Raw(leaves.encode(fields, writer)) if fields else e.NOTHING
        if then is not None:
            await self._until_editable("note")
            self._change(then, "a note")
        session.put(e.NoteWritten(text=cut_redacted(text, ERROR_MESSAGE_BYTES_MAX), fields=raw), blobs=writer.blobs)
        await session.commit()
        session.tell("note", text=text, **fields)

    async def fact(self, text: str, *, source: str = "") -> None:
        """State something verified; it survives every rollback."""
        session = self._session
        session.gate("fact", self._lap)
        source = redact_text(plain_text(check_text(source, "source")))
        text = cut_redacted(check_text(text, "fact"), ERROR_MESSAGE_BYTES_MAX)
        if text not in session.fold.ledger.facts:
            session.put(e.FactStated(text=text, source=source))
            await session.commit()

    async def ask(self, question: str, *, key: str = "", wait_s: float = 0.0) -> str:
        """Ask a person and return the answer (`perdure answer`).

        The answer on record is returned at once. Else the task needs a human, and the program is left, after waiting
        `wait_s` seconds; called anew, it gets the answer here. A question is known by its `key`, without one by its
        text (in the body of an `each` together with the place); a call of the program may ask each once. A rollback to
        before the question forgets the answer. Raises UsageError.
        """
        question = redact_text(check_text(question, "question"))
        known_by = asking.key_of(self._session, self._lap, question, redact(key))
        asking.refuse_again(self._asked, known_by)
        return (await self._answers({known_by: question}, wait_s))[known_by]

    async def ask_all(self, questions: Mapping[str, str], *, wait_s: float = 0.0) -> dict[str, str]:
        """Ask people several questions at once (key -> text) and return the answers by key, when all are there.

        They are put on record together; each is answered by itself, in any order (`perdure answer --question`). As
        `ask` otherwise: what is answered is never asked again, and the program is left while an answer is missing.
        Raises UsageError, LimitExceeded.
        """
        asking.check_questions(questions)
        known_by = {key: redact(key) for key in questions}
        for key in known_by.values():
            asking.refuse_again(self._asked, key)
        answers = await self._answers({known_by[key]: redact_text(text) for key, text in questions.items()}, wait_s)
        return {key: answers[known_by[key]] for key in questions}

    async def fail(self, reason: str) -> Never:
        """End the task as failed; its scene is kept."""
        self._session.gate("fail", self._lap)
        raise StopRequested(self.id, "fail", cut_redacted(reason, ERROR_MESSAGE_BYTES_MAX))

    # --- time and chance, recorded ----------------------------------------------------------------------------------
    def now(self) -> int:
        """UTC in microseconds since 1970, recorded with the next append."""
        return cast("int", self._draw(self._session.world.clock.now()))

    def random(self) -> float:
        """A float in [0, 1), recorded with the next append."""
        return cast("float", self._draw(self._session.world.ids.random()))

    def new_id(self) -> str:
        """22 letters of 128 random bits, recorded with the next append."""
        return cast("str", self._draw(self._session.world.ids.short_id()))

    async def _answers(self, questions: Mapping[str, str], wait_s: float) -> dict[str, str]:
        self._session.gate("question", self._lap)
        return await asking.ask_all(self._session, questions, wait_s)

    def _draw(self, value: object) -> object:
        self._session.drawn.append(value)
        return value

    async def _until_editable(self, what: str) -> None:
        """Wait until no edit is open."""
        session = self._session
        while not session.edit_closed.is_set():
            await session.edit_closed.wait()
            session.gate(what, self._lap)

    def _change(self, then: Change, what: str) -> None:
        """Put what `then` changes of the state; what it raises leaves nothing behind."""
        session = self._session
        session.refuse_other_lap(self._lap)
        session.refuse_left_behind(what)
        change = session.begin_edit()
        try:
            refuse_awaitable(then(change.view))
            operations = change.finish()
            if operations:
                session.put_patch(operations)
        except BaseException:
            change.undo()
            raise


class Footing(NamedTuple):
    """On what a program stands at this moment, as far as it can know it again in another life."""

    place: str  # of the body of `each` that runs, "" outside of one
    changed: int  # seq of the last change of state, plan, strategy, or a position
    passed: int  # seq of the last entry by which a program can know that something is behind it


def footing_of(task: Handle) -> Footing:
    """Return on what the program of `task` stands."""
    session = task._session  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - of the class above
    document, place = session.fold.document, current_place.get()
    here = str(place) if place is not None and place.belongs_to(session, session.lap) else ""
    return Footing(here, document.changed, max(document.changed, *document.checks.values(), 0))


def kept_by_key(task: Handle) -> list[Kept]:
    """Return the outcomes on this branch that are found again by a key, since the present strategy was taken."""
    document = task._session.fold.document  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - of the class above
    return [one for one in document.keyed.values() if one.settled >= document.strategy_at]
