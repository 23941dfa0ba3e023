"""The verbs by which a person speaks to a task: tell and answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from perdure.cli.moving import open_for, say_done
from perdure.cli.options import TaskOptions, taking, wait_for

if TYPE_CHECKING:
    from perdure.ports import Store

_COUNT: Final = re.compile(r"-\d{1,6}\Z")
_YES: Final = frozenset({"y", "yes"})
_HEARD_WITHIN_S: Final = 2.0
_LOOK_EVERY_S: Final = 0.05


class TalkOptions(TaskOptions, frozen=True, kw_only=True):
    """Of tell and answer."""

    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")]


@taking(TalkOptions)
def tell(options: TalkOptions) -> None:
    """Tell a task something. Its program reads it when it looks; it stops nothing and answers nothing."""
    wait_for(_tell(options))


class AnswerOptions(TalkOptions, frozen=True, kw_only=True):
    """Of answer."""

    question: Annotated[
        str, typer.Option("--question", metavar="QUESTION", help="Which one: its number or key (`perdure show`).")
    ] = ""


class AnswerCommand(TyperCommand):
    """`answer`, which takes the `-N` of an unquoted `y -N` for what it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's own type
        """Put it to its `y`."""
        words: list[str] = []
        for arg in args:
            if words and _COUNT.match(arg) and words[-1].lower() in _YES:
                words[-1] += f" {arg}"
            else:
                words.append(arg)
        return super().parse_args(ctx, words)


@taking(AnswerOptions)
def answer(options: AnswerOptions) -> None:
    """Answer what a task waits for: a question, or why it was handed over. Its program is told."""
    wait_for(_answer(options))


async def _tell(options: TalkOptions) -> None:
    from perdure import operations
    from perdure.ids_source import SystemIds
    from perdure.views.showing import word_for

    async with open_for(options) as runtime:
        summary = await runtime.store.find(options.name)
        message = SystemIds().short_id()
        is_written = await operations.tell(runtime, summary.task, options.text, message)
        is_heard = is_written or await is_taken(runtime.store, summary.task, message)
    word = word_for(summary)
    text = f"task {word} is told" if is_heard else f"task {word} is told as soon as its process looks"
    if summary.status == "needs_human":
        text += f"; it still waits for a person: {summary.reason}"
    standing = "told" if is_heard else "sent"
    say_done(options, {"task": summary.task, "name": summary.name, "status": standing}, text)


async def _answer(options: AnswerOptions) -> None:
    from perdure import operations
    from perdure.errors import NothingAsked
    from perdure.ids_source import SystemIds
    from perdure.views.asked import has_answered
    from perdure.views.showing import show

    async with open_for(options) as runtime:
        summary = await runtime.store.find(options.name)
        since, _ = await runtime.store.head(summary.task)
        message = SystemIds().short_id()
        answered = await operations.answer(runtime, summary.task, options.text, message, options.question)
        asked, is_written, meaning = answered
        is_heard = is_written or await is_taken(runtime.store, summary.task, message)
        if is_heard and not is_written and not await has_answered(runtime.store, summary.task, message, since):
            raise NothingAsked(summary.name, f"another answer to {asked!r} came first; this one counts for nothing")
        shown = await show(runtime.store, summary.task)
    fields = {"task": summary.task, "name": summary.name, "status": "answered" if is_heard else "sent"}
    fields["question"] = asked
    text = f"answered: {asked}" + (f"; {meaning}" if meaning else "")
    if is_written:
        fields["next_command"] = shown.next_command
        text += f"; next: {shown.next_command}"
    elif not is_heard:
        text = f"the answer is there as soon as the task's process looks: {asked}"
    say_done(options, fields, text)


async def is_taken(store: Store, task: str, message: str) -> bool:
    """Whether the task's process takes the message in while one waits."""
    import asyncio

    loop = asyncio.get_running_loop()
    end = loop.time() + _HEARD_WITHIN_S
    while loop.time() < end:
        waiting = (await store.messages([task])).get(task, [])
        if all(one.id != message for one in waiting):
            return True
        await asyncio.sleep(_LOOK_EVERY_S)
    return False
