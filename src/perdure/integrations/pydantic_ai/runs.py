"""Which run of an agent is which on record: a resumed program runs its agents again, perhaps in another order.

A run is known by what it is asked (prompt and history), by the body of `each` in which that is, and by how many equal
ones came before it; a request by its place in the run; a call by the request before it and by its id. So runs may be
concurrent. What is evaluated anew in each life (instructions, system prompts, the offers of a server) is no part of it.
Asks nothing and calls nothing; used by `lasting.py`, `requests.py` and `calls.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any, Final, Self, TypeVar, cast

import msgspec
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, UserContent, UserPromptPart

from perdure.engine.boundary import Boundary
from perdure.engine.handle import footing_of, kept_by_key
from perdure.engine.task import Task
from perdure.errors import ActionFailed, KeyReused, ResumeDiverged, UsageError
from perdure.model.ids import check_name

T = TypeVar("T")

DIGITS: Final = 16  # of a digest; keys are told apart by it, within one task
ANEW: Final = frozenset({"system-prompt", "instructions"})  # parts that are evaluated in each life

_RUNS: Final = "_runs_of_pydantic_ai"  # attribute of a task's handle, which belongs to one call of the program


class Runs:
    """The runs of one agent in one call of the program, over all blocks of the same name."""

    @classmethod
    def of(cls, task: Task, name: str, agent: object) -> Self:
        """Return those of this call of the program. Raises UsageError where another agent has the name."""
        check_name(name, "name of the agent")
        known: dict[str, Runs] = vars(task).setdefault(_RUNS, {})
        found = known.get(name) or known.setdefault(name, cls(task, name, agent))
        if found.agent is not agent:
            raise UsageError(f"name={name!r} is that of another agent of task {task.name!r}; give this one its own")
        return found  # type: ignore[return-value]  # there are no subclasses

    def __init__(self, task: Task, name: str, agent: object) -> None:
        self.task = task
        self.name = name
        self.agent = agent
        self.heard: set[str] = set()  # digests of what is on record of conversations
        self._begun: Counter[str] = Counter()  # by digest of place and conversation
        self._changed: dict[str, int] = {}  # by the same: the last change when it was asked
        self._on_record, self._left = _on_record(task, name)  # of the second, those that have not come yet
        self._live = 0

    def begin(self, prompt: str | Sequence[UserContent] | None, history: Sequence[ModelMessage]) -> Run:
        """Return the run that begins now.

        Raises ResumeDiverged where nothing else runs, and effects of another run are on record that has not come and
        that the program cannot know to be behind it; UsageError for the same question after the state has changed: a
        program that asks its state which round it is in could be given the answer of another one.
        """
        asked = [*history, ModelRequest([UserPromptPart(prompt)])] if prompt is not None else history
        footing = footing_of(self.task)
        digest = digest_of([footing.place, conversation_of(asked)])[:DIGITS]
        if self._begun[digest] and self._changed[digest] != footing.changed:
            raise UsageError(
                f"an agent is asked {_short(prompt)} once more, after the state has changed: a resumed program could "
                f'not tell which round it is in; give each round a block of its own: `durable(…, name=f"round {{n}}")`'
            )
        self._begun[digest] += 1
        self._changed[digest] = footing.changed
        nth = self._begun[digest]
        label = f"{self.name} {digest}" + (f"#{nth}" if nth > 1 else "")
        self._left.pop(label, None)
        if self._left and label not in self._on_record and not self._live:
            self._refuse(f"asks an agent for {_short(prompt)}, before", next(iter(self._left.values())))
        self._live += 1
        return Run(self, label)

    def end(self) -> None:
        """Note that a run is over."""
        self._live -= 1

    def _refuse(self, what: str, effect: str) -> None:
        question = (
            f"the program {what} it has asked for what led to {effect}, which is on record; make prompts of what "
            f"the task knows (`task.now()`, its arguments), and give parallel branches a block and a name= each"
        )
        raise ResumeDiverged(self.task.id, question, f"perdure show {self.task.id}", self.task.name)


class Run:
    """One run of an agent."""

    def __init__(self, runs: Runs, label: str) -> None:
        self.runs = runs
        self.task = runs.task
        self.replies = 0
        self.failures: dict[int, ActionFailed] = {}  # by id of the error that the agent was shown, which lives as long
        self._label = label

    @property
    def request_key(self) -> str:
        """The key of the next request: one that failed is made again under the same."""
        return f"{self._label} request {self.replies + 1}"

    def call_key(self, call: str) -> str:
        """Return the key of a call."""
        return f"{self._label} call {self.replies} {call if len(call) <= 2 * DIGITS else digest_of(call)}"

    def refusal(self, key: str, seq: int) -> ResumeDiverged:
        """Return what to raise where a request or call is another than the one at entry `seq`."""
        question = (
            f"{key!r} is another than the one on record (entry {seq}): a history processor, an output validator or a "
            f"tool that is part of the program says something else in this life; let it look things up by `task.act`"
        )
        return ResumeDiverged(self.task.id, question, f"perdure show {self.task.id}", self.task.name)

    def failure_of(self, error: BaseException) -> BaseException:
        """Return how the program shall see an error that leaves the run: as a failed action, where it comes of one."""
        failed = self.failures.get(id(error))
        if failed is None:
            return error
        failed.__cause__ = error
        return failed

    def unheard(self, values: Sequence[Any]) -> list[Any]:
        """Return those that no request before this one has put on record, and note all of them."""
        digests = [digest_of(value) for value in values]
        new = [value for value, digest in zip(values, digests, strict=True) if digest not in self.runs.heard]
        self.runs.heard.update(digests)
        return new


class Attempt:
    """One action of a run. The agent is shown the very error of what failed: its hooks and fallbacks go by its type."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._error: Exception | None = None

    async def of(self, body: Awaitable[T]) -> T:
        """Await what the action does, inside of it."""
        with Boundary() as caught:
            return await body
        self._error = cast("Exception", caught.error)
        raise self._error

    async def answer_of(self, action: Awaitable[T]) -> T:
        """Await the action. Raises ResumeDiverged where another one is on record."""
        try:
            return await action
        except KeyReused as clash:
            raise self._run.refusal(clash.key, clash.seq) from clash
        except ActionFailed as failed:
            error = self._error
            if error is None:
                raise
            self._run.failures[id(error)] = failed
        raise error


def conversation_of(messages: Sequence[ModelMessage]) -> list[Any]:
    """Return messages as JSON, without what is other in each life: moments, ids of runs, what is evaluated anew."""
    dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json", fallback=type_text)
    return [
        {"kind": one["kind"], "parts": [_lasting(part) for part in one["parts"] if _is_said(part)]} for one in dumped
    ]


def digest_of(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return 64 hex digits."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _is_said(part: dict[str, Any]) -> bool:
    return part["part_kind"] not in ANEW


def _lasting(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "timestamp" and value is not None}


def type_text(value: object) -> str:
    """Return what stands for a value that is no JSON."""
    return f"<{type(value).__qualname__}>"  # never its repr, which may hold an address


def _short(prompt: object) -> str:
    return repr(prompt if isinstance(prompt, str) else "…")[:60]


def _on_record(task: Task, name: str) -> tuple[set[str], dict[str, str]]:
    """Return the runs of agent `name` that are on record, and one effect of each of those that are not behind us."""
    place = re.compile(rf"({re.escape(name)} [0-9a-f]{{{DIGITS}}}(?:#\d+)?) (?:request|call) \d+.*")
    passed = footing_of(task).passed
    runs: set[str] = set()
    effects: dict[str, str] = {}
    for kept in kept_by_key(task):
        if match := place.fullmatch(kept.key):
            runs.add(match[1])
            if not kept.free and kept.settled > passed:
                effects.setdefault(match[1], f"{kept.tool} ({kept.action})")
    return runs, effects
