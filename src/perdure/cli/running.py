"""The verbs that let a task work: run and resume."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

import msgspec
import typer
from typer.core import TyperCommand

from perdure.cli import exits
from perdure.cli.agents import AgentOptions, changes_of, chosen, take_keys
from perdure.cli.options import is_absent, looked_for_in, opened, refuse_absent, taking, wait_for
from perdure.cli.terminal import complain, say, say_json
from perdure.config import Config
from perdure.errors import TaskBusy, UsageError

if TYPE_CHECKING:
    from perdure.cli.session import Session
    from perdure.engine.report import ReportRow
    from perdure.engine.runtime import Runtime
    from perdure.model.entry import Driver
    from perdure.operations import Order, Way
    from perdure.ports import Store
    from perdure.views.listing import Row

_ARGUMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)


class _Job(NamedTuple):
    """What a run does, and what drives it."""

    start: Callable[[Runtime, Order], Awaitable[Any]]
    ask_driver: Callable[[], Driver]


class RunOptions(AgentOptions, frozen=True, kw_only=True):
    """Of `run`."""

    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is wanted, in one sentence.")] = ""
    model: Annotated[
        str | None, typer.Option(help="What thinks: offline, local, openai:NAME …", show_default=False)
    ] = None
    prompt_strategy: Annotated[
        str | None, typer.Option(help="How it goes about it: plan_execute, one_shot …", show_default=False)
    ] = None
    program: Annotated[str, typer.Option(metavar="PROGRAM", help="Run pkg.mod:fn or file.py:fn instead.")] = ""
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An argument; NAME=@FILE reads a file.")
    ] = None
    from_autogpt: Annotated[
        str, typer.Option("--from-autogpt", metavar="DIR", help="Go on with an agent of AutoGPT: its state.json.")
    ] = ""
    ai_settings: Annotated[
        str, typer.Option("--ai-settings", "-C", metavar="FILE", help="AutoGPT's file of name, role, goals.")
    ] = ""
    workspace: Annotated[str, typer.Option(metavar="DIR", help="Where the task's files are.")] = ""
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The task's name.", show_default=False)] = None
    new: Annotated[bool, typer.Option("--new", help="Start another where the last of that name is finished.")] = False
    budget: Annotated[
        str | None, typer.Option(metavar="BUDGET", help="What it may cost: '5 USD, tokens=200000'.", show_default=False)
    ] = None


class ResumeOptions(AgentOptions, frozen=True, kw_only=True):
    """Of `resume`."""

    name: Annotated[str, typer.Argument(metavar="TASK", help="Name or id of a task, or the beginning.")] = ""
    everything: Annotated[bool, typer.Option("--all", help="Every unfinished task that nobody works on.")] = False
    due: Annotated[bool, typer.Option("--due", help="With --all: not those that wait for a person.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be found.")] = False
    again: Annotated[bool, typer.Option("--again", help="Open a failed task again.")] = False
    accept: Annotated[list[str] | None, typer.Option(metavar="ROW", help="Go on over this row's stop.")] = None
    app: Annotated[str, typer.Option(metavar="PROGRAM", help="Take this program instead of the recorded one.")] = ""
    budget: Annotated[
        str | None,
        typer.Option(metavar="BUDGET", help="What it may cost from now on: '10 USD', '+5 USD'.", show_default=False),
    ] = None


class RunCommand(TyperCommand):
    """`run`, whose help ends with the goals that the offline model understands."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - click's own types
        """Write them."""
        from perdure.agent.offline.goals import GOAL_FORMS

        formatter.write("\nGoals that --model offline understands:\n")
        for form in GOAL_FORMS:
            formatter.write(f"  {form}\n")


@taking(RunOptions)
def run(options: RunOptions) -> None:
    """Work on a goal, or run a program. The same order again goes on with what is unfinished."""
    from perdure.operations import refuse_store_inside, refuse_workspace

    _refuse_name(options.name)
    _refuse_budget(options.budget, is_start=True)
    config = options.config(
        model=options.model,
        unattended=options.unattended,
        fast_model=options.fast_model,
        base_url=options.base_url,
        prompt_strategy=options.prompt_strategy,
        mcp=options.mcp,
    )
    order, names, job = _program_order(options) if options.program else _goal_order(options, config)
    if order.workspace:
        refuse_workspace(order.workspace)
        refuse_store_inside(order.workspace, config.text("store"))
    wait_for(_run(options, config, (order, names), job))


@taking(ResumeOptions)
def resume(options: ResumeOptions) -> None:
    """Go on with an unfinished task. Without a name: with the only one there is."""
    from perdure.operations import Way

    if options.due and not options.everything:
        raise UsageError("--due says which of --all; type: perdure resume --all --due")
    if options.everything and options.name:
        raise UsageError(f"say --all or a task, not both; for one task: perdure resume {shlex.quote(options.name)}")
    if options.everything and options.budget is not None:
        raise UsageError("--budget is for one task; type: perdure resume TASK --budget BUDGET")
    _refuse_rows(options.accept or ())
    _refuse_budget(options.budget)
    places = take_keys()
    config = options.config(
        app=options.app,
        unattended=options.unattended,
        fast_model=options.fast_model,
        base_url=options.base_url,
        mcp=options.mcp,
    )
    way = Way(
        again=options.again,
        accept=tuple(options.accept or ()),
        app=config.text("app"),
        budget=options.budget or "",
        changes=changes_of(options, config),
        places=places,
        by_timer=options.everything,
    )
    wait_for(_resume(options, config, way))


def parse_argument(text: str) -> tuple[str, Any]:
    """Return (name, value) of NAME=VALUE: JSON where it is JSON, else text; @FILE is that file's text. UsageError."""
    match = _ARGUMENT.match(text)
    if match is None:
        raise UsageError(f"--set {text!r} is not NAME=VALUE")
    name, value = match.groups()
    if value.startswith("@"):
        return name, _read(Path(value[1:]))
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
    except UnicodeEncodeError as error:
        raise UsageError(f"--set {text!r} holds bytes that are no text; use NAME=@FILE.json") from error


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """Return {name: value} of several NAME=VALUE. Raises UsageError, also where a name comes twice."""
    values: dict[str, Any] = {}
    for text in texts:
        name, value = parse_argument(text)
        if name in values:
            raise UsageError(f"--set {name}=… is given twice; which one is meant?")
        values[name] = value
    return values


def _refuse_name(name: str | None) -> None:
    """Raise UsageError for a name that no task shall have, or that every later command would take for an option."""
    from perdure.model.ids import check_name

    if name is None:
        return
    check_name(name)
    if name.startswith("-"):
        raise UsageError(f"--name {name!r} begins like an option; choose another")


def _refuse_budget(text: str | None, *, is_start: bool = False) -> None:
    """Raise UsageError where a budget cannot be read; at the start there is none to add to.

    An empty one is what a shell makes of "$5": nobody who writes that wants no budget at all.
    """
    from perdure.core.allowance import parse_budget
    from perdure.model.budget import NO_BUDGET

    if text is not None:
        parse_budget(text, NO_BUDGET if is_start else None)


def _refuse_rows(accepted: Sequence[str]) -> None:
    from perdure.engine.report import ROWS

    for row in accepted:
        if row not in ROWS:
            raise UsageError(f"--accept {row!r} is no row of the report; its rows are: {', '.join(ROWS)}")


def _read(path: Path) -> Any:  # noqa: ANN401 - what the file says
    try:
        text = path.read_text("utf-8")
        return msgspec.json.decode(text) if path.suffix == ".json" else text
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise UsageError(f"--set cannot take {str(path)!r}: {error}") from error


def _goal_order(options: RunOptions, config: Config) -> tuple[Order, tuple[str, ...], _Job]:
    from perdure import operations
    from perdure.agent import starting

    if options.values:
        raise UsageError("--set gives arguments to a program; a goal has none")
    operations.refuse_program(options.goal)
    place, changes = config.text("store"), changes_of(options, config)
    wanted = chosen(options, config, changes)
    folder = os.path.abspath(options.workspace) if options.workspace else wanted.workspace
    order = operations.Order(
        name=options.name or "",
        goal=wanted.goal,
        workspace=folder,
        new=options.new,
        budget=options.budget or wanted.budget,
    )
    names = operations.names_of(order, options.goal or wanted.goal, wanted.goal, folder)

    async def start(runtime: Runtime, found: Order) -> Any:  # noqa: ANN401 - the task's result
        placed = found.workspace or operations.default_workspace(place, found.name)
        placed_order = msgspec.structs.replace(found, workspace=placed)
        known = None if found.new else await starting.agent_named(runtime.store, found.name, changes)
        if known is None:
            wanted.agent.refuse_models()  # before anything begins; one that has ended needs none for its result
            if wanted.is_unlimited and not order.budget:
                complain(
                    "perdure: nothing limits how long this works and what it costs; --budget '5 USD, wall=8h' would"
                )
        agent, args = known or (wanted.agent, wanted.arguments)
        if known is not None:
            agent = msgspec.structs.replace(agent, places=wanted.agent.places)
            await starting.refuse_without_keys(runtime.store, await runtime.store.find(found.name), agent)
        return await operations.start_goal(runtime, placed_order, agent, args)

    return order, names, _Job(start, lambda: wanted.agent.driver(wanted.arguments))


def _program_order(options: RunOptions) -> tuple[Order, tuple[str, ...], _Job]:
    from perdure import operations
    from perdure.engine.programs import load_program

    if options.model:
        raise UsageError("--model is for goals; a program brings what it thinks with")
    values = parse_arguments(options.values or ())
    folder = os.path.abspath(options.workspace) if options.workspace else ""
    order = operations.Order(
        name=options.name or "", goal=options.goal, workspace=folder, new=options.new, budget=options.budget
    )
    subject = options.goal or options.program.rpartition(":")[2]
    arguments = msgspec.json.encode(values, order="deterministic").decode()
    names = operations.names_of(order, subject, os.getcwd(), options.program, arguments, folder)

    async def start(runtime: Runtime, found: Order) -> Any:  # noqa: ANN401 - the task's result
        return await operations.start_program(runtime, found, options.program, values)

    return order, names, _Job(start, lambda: load_program(options.program, os.getcwd()).driver(values))


async def _run(options: RunOptions, config: Config, ordered: tuple[Order, tuple[str, ...]], job: _Job) -> None:
    from perdure.cli.session import Session
    from perdure.operations import Way, recall

    order, names = ordered
    async with Session(config, options) as session:
        known = await recall(session.runtime.store, names, order, job.ask_driver)
        if options.new:
            known.refuse_new()
        elif known.summary is not None:
            session.say_found(known.summary, has_budget=bool(options.budget))
            order = msgspec.structs.replace(order, workspace=order.workspace or known.summary.workspace)
        order = msgspec.structs.replace(order, name=known.name)
        await _work(
            session, known.name, lambda runtime: job.start(runtime, order), Way(), asks=_can_ask(options, config)
        )


async def _resume(options: ResumeOptions, config: Config, way: Way) -> None:
    from perdure import operations
    from perdure.cli.session import Session

    place = config.text("store")
    if options.name:
        refuse_absent(place, options.name)
    names = [options.name] if options.name else await _choose(options, place)
    if not names:
        return
    async with Session(config, options) as session:
        if options.dry_run:
            for name in names:
                _say_report(name, await operations.foresee(session.runtime, name, way.app), as_json=options.as_json)
            return
        if options.everything:
            await _resume_all(session, names, way, options)
        else:
            await _resume_one(session, names[0], way, asks=_can_ask(options, config))


async def _resume_one(session: Session, name: str, way: Way, *, asks: bool = False) -> None:
    """Let a task work to its end; where somebody can be asked here they are."""
    from perdure import operations
    from perdure.operations import Way

    with looked_for_in(session.runtime.store.place):
        exact = (await session.runtime.store.find(name)).name
    await _work(session, exact, lambda runtime: operations.resume(runtime, name, way), Way(app=way.app), asks=asks)


async def _resume_all(session: Session, names: Sequence[str], way: Way, options: ResumeOptions) -> None:
    """Let one task after the other work; none stops the others. Leaves with the code of the first that did not succeed.

    Those that another process has taken in the meantime are passed over, and nothing is begun once it is to stop.
    """
    codes: list[int] = []
    for place, name in enumerate(names):
        if session.stopping.is_set():
            complain(f"perdure: {len(names) - place} more were not begun; the next resume takes them")
            break
        code = await _resume_next(session, name, way, options)
        codes.extend(() if code is None else (code,))
    if len(names) > 1:
        ends = Counter(exits.WORDS.get(code, "failed") for code in codes)
        told = ", ".join(f"{count} {word}" for word, count in ends.items())
        complain(f"perdure: of {len(names)} tasks {told or 'none was left to go on with'}")
    if any(codes):
        raise typer.Exit(next(code for code in codes if code))


async def _resume_next(session: Session, name: str, way: Way, options: ResumeOptions) -> int | None:
    """Resume one of many and return its exit code, None where another process has it; its error is told and kept."""
    from perdure.engine.boundary import Boundary

    with Boundary() as caught:
        if not await _is_to_go_on(session.runtime.store, name, due=options.due):
            return None
        try:
            await _resume_one(session, name, way)
        except TaskBusy:
            return None
        except SystemExit as left:
            raise UsageError(f"its program has left Python by SystemExit({left.code!r})") from left
        return exits.DONE
    error = cast("Exception", caught.error)
    await session.say_error(name, error)
    return exits.code_of(error)


async def _is_to_go_on(store: Store, name: str, *, due: bool) -> bool:
    """Whether a task still is what it was when all were looked for: others may be at work beside us."""
    from perdure.clock import SystemClock
    from perdure.views.listing import look_at

    row = await look_at(store, await store.find(name))
    if row.standing == "running" or not row.is_unfinished:
        return False
    return row.is_due(SystemClock().now()) if due else True


def _can_ask(options: AgentOptions, config: Config) -> bool:
    from perdure.cli.asking import can_ask

    return can_ask(unattended=config.is_on("unattended"), as_json=options.as_json)


async def _work(
    session: Session, name: str, work: Callable[[Runtime], Awaitable[Any]], way: Way, *, asks: bool
) -> None:
    """Let `work` run the task; where somebody can be asked here they are, and it is resumed by `way`."""
    if not asks:
        await session.work_on(name, work)
        return
    from perdure import operations
    from perdure.cli.asking import work_and_ask

    await work_and_ask(session, name, work, lambda runtime: operations.resume(runtime, name, way))


async def _choose(options: ResumeOptions, place: str) -> list[str]:
    """Return the ids of the tasks to resume. Several without --all: a table, and exit 2."""
    from perdure.cli.looking import say_rows
    from perdure.clock import SystemClock
    from perdure.views.listing import list_tasks

    rows: list[Row] = []
    if not is_absent(place):
        async with opened(place) as store:
            rows = [
                row for row in await list_tasks(store) if row.standing != "running" and not row.summary.is_half_fork
            ]
    if options.due:
        now = SystemClock().now()
        rows = [row for row in rows if row.is_due(now)]
    if not rows:
        (complain if options.as_json else say)(f"nothing to resume in {place}")
    if len(rows) > 1 and not options.everything:
        say_rows(rows)
        complain(f"perdure: {len(rows)} tasks could be resumed; name one, or type: perdure resume --all --due")
        raise typer.Exit(exits.USAGE)
    return [row.summary.task for row in rows]


def _say_report(name: str, rows: tuple[ReportRow, ...], *, as_json: bool) -> None:
    if as_json:
        say_json({"task": name, "rows": [{"verdict": r.verdict, "name": r.name, "text": r.text} for r in rows]})
    else:
        for row in rows:
            say(str(row))
    stops = [row.name for row in rows if row.verdict == "stop"]
    if stops and set(stops) <= {"last action", "person"}:  # they name their own way out, and nothing goes over them
        complain("perdure: it would stop here; the row says what to type")
        raise typer.Exit(exits.NEEDS_A_PERSON)
    if stops:
        accepting = " ".join(f"--accept {shlex.quote(stop)}" for stop in stops)
        complain(f"perdure: it would stop here; to go on all the same: perdure resume {shlex.quote(name)} {accepting}")
        raise typer.Exit(exits.NEEDS_A_PERSON)
