"""Wrong calls: nothing was done. The tree stands in the package."""

from __future__ import annotations

import shlex
from typing import Final

from perdure.errors.base import PerdureError

_NAMED_MAX: Final = 10  # effects that a message names


class UsageError(PerdureError):
    """The call was wrong; nothing was done."""


class Unstorable(UsageError):
    """A value outside the codec's domain, with the path to it."""

    def __init__(self, path: tuple[object, ...], type_name: str, reason: str = "") -> None:
        self.path = path
        self.type_name = type_name
        self.reason = reason
        place = "".join(f"[{step!r}]" for step in path) or "the value itself"
        why = f" ({reason})" if reason else ""
        super().__init__(f"cannot store {type_name} at {place}{why}; use plain values (see `perdure.codec.values`)")


class LimitExceeded(UsageError):
    """A maximum of ``limits.py`` was passed; `way`: what to do instead, where there is something."""

    def __init__(self, what: str, found: int, maximum: int, way: str = "") -> None:
        self.what = what
        self.found = found
        self.maximum = maximum
        super().__init__(f"{what}: {found} is over the maximum of {maximum}{f'; {way}' if way else ''}")


class SecretMissing(UsageError):
    """A secret whose text this process does not know."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"the text of secret {name!r} is not known here; set the environment variable {name} before the runtime is "
            f"opened, or bring it: `perdure.Secret({name!r}, text)`"
        )


class ReadOnlyState(UsageError):
    """A write to a view that only reads."""

    def __init__(self) -> None:
        super().__init__("task.state is read-only; change it in `async with task.edit() as state:` or in `then=`")


class StaleView(UsageError):
    """A view whose container has left the state."""

    def __init__(self, path: tuple[object, ...]) -> None:
        self.path = path
        super().__init__(f"the part of the state once at {path!r} is no longer there; read it again from task.state")


class EditClash(UsageError):
    """A second edit was begun while one is open on the same tree."""

    def __init__(self) -> None:
        super().__init__("an edit of this state is already open; leave its `async with` block first")


class EditOpen(UsageError):
    """An act, edit or checkpoint inside an edit's body."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} inside `task.edit()`: leave the block first, an edit only changes the state")


class ToolInvalid(UsageError):
    """A tool's declaration is refused at registration."""

    def __init__(self, tool: str, reason: str) -> None:
        self.tool = tool
        self.reason = reason
        super().__init__(f"tool {tool!r} is refused: {reason}")


class ArgumentsUnfit(UsageError):
    """What a model gives a tool is not what that takes; worded for the model, which can ask again."""

    def __init__(self, tool: str, problems: tuple[str, ...], parameters: tuple[str, ...]) -> None:
        self.tool = tool
        self.problems = problems
        self.parameters = parameters
        takes = f"it takes: {', '.join(parameters)}" if parameters else "it takes no arguments"
        super().__init__(f"{tool!r} was not called: {'; '.join(problems)}; call it again ({takes})")


class ToolNotFound(UsageError):
    """The tool of an action on record is not declared in this process, or more than one has its name."""

    def __init__(self, tool: str, places: tuple[str, ...] = ()) -> None:
        self.tool = tool
        self.places = places
        if places:
            why = f"more than one is declared ({', '.join(places)}); give each a name of its own: `name=`"
        else:
            why = "none is declared in this process; import the module in which it stands, or name its program: --app"
        super().__init__(f"tool {tool!r} of an action on record cannot be told: {why}")


class RollbackRefused(UsageError):
    """Effects that cannot be taken back lie behind the checkpoint."""

    def __init__(self, task: str, checkpoint: str, effects: tuple[str, ...], line: str) -> None:
        self.task = task
        self.checkpoint = checkpoint
        self.effects = effects  # "tool (action id)"
        self.line = line  # to type, before one of the two ways out
        shown = ", ".join(effects[:_NAMED_MAX]) + (", …" if len(effects) > _NAMED_MAX else "")
        super().__init__(
            f"task {task!r} cannot go back to {checkpoint!r} just so: {len(effects)} effect(s) behind it cannot be "
            f"taken back: {shown}; they stay in the world and answer equal calls. Say whether the program is told of "
            f"them: `{line} --carry` (carry=True), or not: `{line} --force` (force=True)"
        )


class RollbackUnderWay(UsageError):
    """A rollback has begun, and what was asked for does not go with that."""

    def __init__(self, task: str, what: str, line: str) -> None:
        self.task = task
        self.line = line
        super().__init__(f"task {task!r} is in the middle of a rollback: {what}; next: {line}")


class ToolUndeclared(UsageError):
    """A callable that was never declared; `line` is what to write, where that is not a declaration of the callable."""

    def __init__(self, name: str, line: str = "") -> None:
        self.name = name
        line = line or f'{name} = perdure.tool(effect="pure")({name})'
        super().__init__(
            f"{name!r} is not declared as a tool; say what it does to the world: `{line}` "
            f"(pure, idempotent, verifiable, irreversible, workspace)"
        )


class ProgramNotImportable(UsageError):
    """The program cannot be found again by another process."""

    def __init__(self, target: str, reason: str) -> None:
        self.target = target
        self.reason = reason
        super().__init__(f"program {target!r} cannot be imported: {reason}")


class ConfigInvalid(UsageError):
    """A configuration holds an unknown key or a wrong value."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{place}: {reason}")


class PatternInvalid(UsageError):
    """A pattern of a permission that could never be meant so."""

    def __init__(self, pattern: str, reason: str) -> None:
        self.pattern = pattern
        self.reason = reason
        super().__init__(
            f"permission {pattern!r} is no pattern of calls: {reason}; write it like read_file({{workspace}}/**), "
            "execute_shell(git:**) or web_search(*)"
        )


class GoalUnknown(UsageError):
    """The chosen model does not understand the goal; `forms` are those it does."""

    def __init__(self, goal: str, forms: tuple[str, ...]) -> None:
        self.goal = goal
        self.forms = forms
        known = "\n".join(f"  {form}" for form in forms)
        super().__init__(
            f"goal {goal!r} is not one this model understands; for any other take a model that calls tools "
            f"(--model anthropic:NAME, openai:NAME, ollama:NAME, …). It knows:\n{known}"
        )


class KeyReused(UsageError):
    """The same tool and key with other arguments."""

    def __init__(self, tool: str, key: str, seq: int) -> None:
        self.tool = tool
        self.key = key
        self.seq = seq
        super().__init__(
            f"tool {tool!r} was called under key {key!r} with other arguments (entry {seq}); use another key; where an "
            "argument comes from a model or the clock, give that call a key as well"
        )


class KeyMissing(UsageError):
    """An equal effect without a key is on record, held by a checkpoint only.

    A resumed program could not tell this call from that one: it would be skipped, or made twice.
    """

    def __init__(self, tool: str, seq: int, keep: str) -> None:
        self.tool = tool
        self.seq = seq
        self.keep = keep  # the line to type that takes the record out of the way
        super().__init__(
            f"a call of {tool!r} without a key is on record (entry {seq}), and whether this is the same one cannot be "
            f"told; give each call its own: `task.using(key=...).act(...)`, or if this is another one: {keep}"
        )


class EffectNotAnchored(UsageError):
    """The next act would make it impossible to find an effect's outcome again."""

    def __init__(self, action: str, tool: str) -> None:
        self.action = action
        self.tool = tool
        super().__init__(
            f"action {action!r} of tool {tool!r} had an effect and nothing holds its outcome yet; before the next act "
            "write `await task.checkpoint(...)`, an `edit`, or give that act a key: `task.using(key=...).act(...)`"
        )


class NestedAct(UsageError):
    """An act inside a running tool."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(f"act inside the running tool {tool!r}: let the program call both, one after the other")


class ActionsInFlight(UsageError):
    """Not possible while actions run."""

    def __init__(self, what: str, actions: tuple[str, ...]) -> None:
        self.what = what
        self.actions = actions
        super().__init__(
            f"{what} while {len(actions)} action(s) are not over ({', '.join(actions[:3])}); await or settle them first"
        )


class CheckpointUnknown(UsageError):
    """No checkpoint of that name on this branch."""

    def __init__(self, task: str, name: str, known: tuple[str, ...]) -> None:
        self.task = task
        self.name = name
        self.known = known
        super().__init__(
            f"task {task!r} has no checkpoint {name!r} on this branch; it has: {', '.join(known) or 'none'}"
        )


class FileUnknown(UsageError):
    """What was asked for is no file of the workspace at that entry."""

    def __init__(self, task: str, path: str, seq: int, reason: str) -> None:
        self.task = task
        self.path = path
        self.seq = seq
        self.reason = reason
        super().__init__(f"{path!r} is no file of task {task!r} at entry {seq}: {reason}")


class ForkRefused(UsageError):
    """No task can begin at that moment of another; nothing was made."""

    def __init__(self, name: str, at: int, why: str, moments: tuple[str, ...]) -> None:
        self.name = name
        self.at = at
        self.why = why
        self.moments = moments  # the nearest ones that do: "name" (entry n)
        super().__init__(
            f"task {name!r} cannot be forked at entry {at}: {why}; the nearest moments from which it can: "
            f"{', '.join(moments)}; give one of them as `--at`"
        )


class ForkUnfinished(UsageError):
    """A fork whose making was cut short: it does not have all of its parent's entries, and cannot be resumed."""

    def __init__(self, task: str, name: str, command: str) -> None:
        self.task = task
        self.name = name
        self.command = command  # makes it anew
        super().__init__(
            f"task {name!r} ({task}) is a fork whose making was cut short; make it anew: {command} "
            f"(or take it away: perdure delete {name})"
        )


class ActionUnknown(UsageError):
    """`settle` was given an action that is neither open, in doubt nor loose."""

    def __init__(self, task: str, action: str) -> None:
        self.task = task
        self.action = action
        super().__init__(f"task {task!r} has no open or doubtful action {action!r}; `perdure show {task}` lists them")


class TaskMismatch(UsageError):
    """The task is recorded with other `what` than given."""

    def __init__(self, task: str, what: str) -> None:
        self.task = task
        self.what = what
        super().__init__(f"task {task!r} was started with another {what}; give the same, or choose another name")


class TaskFinished(UsageError):
    """The task has ended and takes no more actions."""

    def __init__(self, task: str, status: str) -> None:
        self.task = task
        self.status = status
        way = (
            f"; to open it again: perdure resume {shlex.quote(task)} --again"
            if status == "failed"
            else "; start another"
        )
        super().__init__(f"task {task!r} has ended ({status}): nothing more is done in it{way}")


class BranchLeft(UsageError):
    """A call from code whose call of the program is over: rolled back, failed, or ended."""

    def __init__(self, task: str, branch: int) -> None:
        self.task = task
        self.branch = branch
        super().__init__(f"this call for task {task!r} came from a call of its program that is over; it was not made")


class ForkedRuntime(UsageError):
    """A runtime used in a forked child."""

    def __init__(self, opened_by: int, used_by: int) -> None:
        self.opened_by = opened_by
        self.used_by = used_by
        super().__init__(f"runtime opened by process {opened_by} is used by its child {used_by}; open one there")


class LoopBlocked(UsageError):
    """A call of `perdure.sync` in the thread of its own event loop, which would wait for itself for ever."""

    def __init__(self) -> None:
        super().__init__(
            "this call was made in the thread of the event loop that has to do it; "
            "in `then=` and in coroutine tools use what they are given, elsewhere the API with await"
        )


class NothingAsked(UsageError):
    """An answer to a task that waits for none."""

    def __init__(self, name: str, why: str, next_command: str = "") -> None:
        self.name = name
        self.next_command = next_command
        then = f"; next: {next_command}" if next_command else ""
        super().__init__(f"task {name!r} has asked nothing that an answer could go to ({why}){then}")


class QuestionUnclear(UsageError):
    """An answer that names no question, where several are open; `lines` are those to type, one for each."""

    def __init__(self, name: str, lines: tuple[str, ...]) -> None:
        self.name = name
        self.lines = lines
        listed = "\n".join(f"  {line}" for line in lines)
        super().__init__(f"task {name!r} has asked {len(lines)} questions; say which one is answered:\n{listed}")


class QuestionNotOpen(UsageError):
    """An answer to a question that is answered, over, or was never asked; nothing was written."""

    def __init__(self, name: str, question: str, why: str, lines: tuple[str, ...]) -> None:
        self.name = name
        self.question = question
        self.why = why
        self.lines = lines
        listed = ("\n".join(["; open are:", *(f"  {line}" for line in lines)])) if lines else "; none is open"
        super().__init__(f"question {question!r} of task {name!r} cannot be answered: {why}{listed}")


class StateVersion(UsageError):
    """No migration leads from the recorded state to what the program expects; nothing of it was run."""

    def __init__(self, task: str, found: int, wanted: int, reason: str) -> None:
        self.task = task
        self.found = found
        self.wanted = wanted
        super().__init__(f"the state of task {task!r} has version {found}, its program wants {wanted}: {reason}")


class StateInvalid(UsageError):
    """The state, or what was to be put there, is not what the program's `state_type=` says."""

    def __init__(self, type_name: str, path: tuple[object, ...], reason: str) -> None:
        self.type_name = type_name
        self.path = path
        where = "".join(f"[{step!r}]" for step in path)
        super().__init__(f"state{where} is no {type_name}: {reason}")


class StatePathInvalid(UsageError):
    """A place of the state as a person has typed it cannot be read, or is not there."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path!r} is no place in the state: {reason}")


class NotTakenOver(UsageError):
    """Only whoever has taken a task over may change it by hand, or hand it back."""

    def __init__(self, name: str, next_command: str) -> None:
        self.name = name
        self.next_command = next_command
        super().__init__(f"nobody has taken task {name!r} over; first: {next_command}")


class PathOutside(UsageError):
    """A tool says that it writes outside of the task's workspace."""

    def __init__(self, tool: str, path: str, workspace: str) -> None:
        self.tool = tool
        self.path = path
        self.workspace = workspace
        super().__init__(
            f"tool {tool!r} would write {path!r}, which lies outside of the workspace {workspace!r}: nothing was done; "
            "give a path inside, or declare it without undo='workspace' and paths="
        )


class CostInvalid(UsageError):
    """A cost, a sum of money or a budget that cannot be read, or makes no sense."""


class CurrencyMismatch(UsageError):
    """A cost and a budget are in different currencies, and perdure converts none."""

    failure_class = "request"  # of a tool that has charged so: the same call would come to the same

    def __init__(self, task: str, budget: str, currencies: tuple[str, ...]) -> None:
        self.task = task
        self.budget = budget
        self.currencies = currencies
        super().__init__(
            f"the budget of task {task!r} is {budget}, and these costs are in {', '.join(currencies)}: state them in "
            f"the currency of the budget, or set a budget in theirs, or none (`--budget money=none`)"
        )
