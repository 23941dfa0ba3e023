"""The verbs, put together. `docs/reference/cli.md` has a section for each; a test compares."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.cli import (
    allowing,
    explaining,
    filing,
    forking,
    handing,
    logs,
    looking,
    moving,
    replaying,
    running,
    storing,
    talking,
)

app = typer.Typer(
    name="perdure",
    help="Autonomous agents that survive kills, reboots and faults.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(cls=running.RunCommand)(running.run)
app.command()(running.resume)
app.command(name="list")(looking.list_)
app.command()(looking.show)
app.command()(handing.state)
app.command()(handing.plan)
app.command()(filing.file)
app.command()(logs.log)
app.command()(looking.checkpoints)
app.command()(talking.tell)
app.command(cls=talking.AnswerCommand)(talking.answer)
app.command()(allowing.budget)
app.command(name="take-over")(handing.take_over)
app.command(name="hand-back")(handing.hand_back)
app.command()(moving.pause)
app.command()(moving.cancel)
app.command(cls=moving.SettleCommand)(moving.settle)
app.command()(moving.checkpoint)
app.command()(moving.rollback)
app.command()(forking.fork)
app.command()(explaining.explain)
app.command()(replaying.replay)
app.command()(storing.verify)
app.command()(storing.delete)
app.command()(storing.doctor)

store = typer.Typer(help="Copy the store, or show how big it is.", no_args_is_help=True, rich_markup_mode=None)
store.command()(storing.backup)
store.command(name="status")(storing.store_status)
app.add_typer(store, name="store")


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def demo(context: typer.Context) -> None:
    """Watch an agent being killed, and its result stay the same."""
    from perdure.cli.demo import demo as show_demo

    raise typer.Exit(show_demo(context.args) or 0)


@app.callback(invoke_without_command=True)
def start(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False
) -> None:
    """Autonomous agents that survive kills, reboots and faults."""
    if version:
        from perdure import __version__
        from perdure.cli.terminal import say

        say(f"perdure {__version__}")
        raise typer.Exit
