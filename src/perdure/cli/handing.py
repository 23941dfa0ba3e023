"""The verbs by which a person takes a task over, looks at and changes its state and plan, and hands it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from perdure.cli.moving import open_for, say_done
from perdure.cli.options import TaskOptions, opened, taking, wait_for
from perdure.cli.terminal import say, say_bytes, say_json
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.views.planning import Step

By = Annotated[str, typer.Option("--by", metavar="PERSON", help="Who does it.")]


class TakeOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `take-over`."""

    by: By = "person"


class BackOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `hand-back`."""

    say: Annotated[str, typer.Option("--say", metavar="TEXT", help="What the program shall know besides.")] = ""
    by: Annotated[
        str, typer.Option("--by", metavar="PERSON", help="Who does it, if not who has it.", show_default=False)
    ] = ""


class StateOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `state`."""

    at: Annotated[str, typer.Option(metavar="WHEN", help="At an entry's number or a checkpoint's name.")] = ""
    put: Annotated[
        list[str] | None, typer.Option("--set", metavar="PLACE=JSON", help="Put a value there; may be repeated.")
    ] = None
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="PLACE", help="Remove what stands there; may be repeated.")
    ] = None
    app: Annotated[str, typer.Option(metavar="PROGRAM", help="The program whose types the state has.")] = ""


class PlanOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `plan`."""

    put: Annotated[
        list[str] | None, typer.Option("--set", metavar="STEP", help="A step of another plan; repeat it for the next.")
    ] = None
    file: Annotated[str, typer.Option("--from", metavar="FILE", help="Another plan: a step in each line.")] = ""


@taking(TakeOptions)
def take_over(options: TakeOptions) -> None:
    """Take a task out of the hands of its program, even while it runs. It is yours until you hand it back."""
    wait_for(_take_over(options))


@taking(BackOptions)
def hand_back(options: BackOptions) -> None:
    """Hand a task back. Its program is told what you have changed, and goes on with the next resume."""
    wait_for(_hand_back(options))


@taking(StateOptions)
def state(options: StateOptions) -> None:
    """Print a task's state as JSON, or change it. Indented; with --json on one line."""
    if not (options.put or options.unset):
        wait_for(_state(options))
        return
    if options.at:
        raise UsageError("--at looks at an earlier state, and that cannot be changed")
    wait_for(_edit(options))


@taking(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Print a task's plan and how far it is, or write another one."""
    if options.put and options.file:
        raise UsageError("--set and --from exclude each other: where is the plan?")
    if options.put or options.file:
        wait_for(_replan(options, options.put or _read_steps(options.file)))
    else:
        wait_for(_plan(options))


async def _take_over(options: TakeOptions) -> None:
    from perdure import operations
    from perdure.views.showing import word_for

    async with open_for(options) as runtime:
        task = (await operations.find_exactly(runtime.store, options.name)).task
        await runtime.take_over(task, by=options.by)
        summary = await runtime.store.find(task)
    fields = {"task": summary.task, "name": summary.name, "status": summary.status, "why": summary.reason}
    line = f"perdure hand-back {word_for(summary)}"
    say_done(options, fields, f"task {summary.name} is taken over by {options.by}; when you are done: {line}")


async def _hand_back(options: BackOptions) -> None:
    from perdure.views.showing import show

    async with open_for(options) as runtime:
        task = (await runtime.store.find(options.name)).task
        changes = await runtime.hand_back(task, say=options.say, by=options.by)
        shown = await show(runtime.store, task)
    fields = {"task": shown.task, "name": shown.name, "status": shown.status, "changes": list(changes)}
    told = "".join(f"  {line}\n" for line in changes) or "  nothing was changed\n"
    say_done(options, fields, f"task {shown.name} is handed back\n{told}next: {shown.next_command}")


async def _state(options: StateOptions) -> None:
    import json

    from perdure.views.showing import state_of

    async with opened(options.place) as store:
        plain = await state_of(store, (await store.find(options.name)).task, options.at)
    if options.as_json:
        say_json(plain)
    else:
        say_bytes((json.dumps(plain, indent=2, ensure_ascii=False) + "\n").encode())


async def _edit(options: StateOptions) -> None:
    from perdure import operations
    from perdure.core.statepath import parse_assignment, spell

    pairs = [parse_assignment(text) for text in options.put or ()]
    assign = [(spell(path), _json(spell(path), text)) for path, text in pairs]
    gone = tuple(options.unset or ())
    async with open_for(options) as runtime:
        edit = operations.Edit(assign=tuple(assign), remove=gone, app=options.config(app=options.app).text("app"))
        summary, is_changed = await operations.edit_state(runtime, options.name, edit)
    _say_changed(options, summary, "state", is_changed=is_changed)


async def _plan(options: PlanOptions) -> None:
    from perdure.views.planning import plan_of

    async with opened(options.place) as store:
        steps = await plan_of(store, options.name)
    if options.as_json:
        say_json(list(steps))
    elif steps:
        for number, step in enumerate(steps, 1):
            say(f"{number:>3}  {_mark(step)}  {step.name}")
            if judged := _judged(step):
                say(f"{'':>11}{judged}")
    else:
        say(f"task {options.name} has no plan")


async def _replan(options: PlanOptions, steps: list[str]) -> None:
    async with open_for(options) as runtime:
        summary = await runtime.store.find(options.name)
        is_changed = await runtime.adopt_plan(summary.task, steps)
    _say_changed(options, summary, "plan", is_changed=is_changed)


def _say_changed(options: TaskOptions, summary: Any, what: str, *, is_changed: bool) -> None:  # noqa: ANN401 - a TaskSummary
    from perdure.views.showing import word_for

    done = "is changed" if is_changed else "is as it was"
    fields = {"task": summary.task, "name": summary.name, "changed": is_changed}
    text = f"the {what} of task {summary.name} {done}; when you are done: perdure hand-back {word_for(summary)}"
    say_done(options, fields, text)


def _mark(step: Step) -> str:
    return "done" if step.done else "now " if step.current else "    "


def _judged(step: Step) -> str:
    """Return how a step is checked and what was found, in one line; nothing of one that has passed and says no more."""
    found = {"passed": "passed", "failed": "not reached yet"}.get(step.verdict, "")
    why = f"{found} (entry {step.entry})" + (f": {step.why}" if step.why else "")
    return "; ".join(filter(None, (step.check, why if found and (step.why or step.check) else "")))


def _json(place: str, text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        quoted = msgspec.json.encode(text.encode("utf-8", "backslashreplace").decode()).decode()
        raise UsageError(f"--set {place}={text} is not JSON ({error}); a text is written '{place}={quoted}'") from error


def _read_steps(file: str) -> list[str]:
    """Return the lines of a plan; empty ones are passed over. Raises UsageError."""
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"--from {file!r} cannot be read: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
