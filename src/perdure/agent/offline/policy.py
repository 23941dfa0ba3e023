"""What the offline agent does next.

It looks at what stands in memory and names the first thing that is missing. It keeps nothing itself, so it goes on
after a kill exactly where the memory says. Pure. Driven by `agent/loop.py`; memory is

    listing       what the folder holds                    (list_documents)
    documents     name → its text, then its profile, or why it could not be read
    comparison    groups, single documents, near-duplicates
    introduction  what a model has written about it, where one was chosen
    digest        the page
    report        what was written where

One text at a time: a document is read and at once replaced by its profile, so memory stays small.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from perdure.agent.offline import introducing, tools
from perdure.agent.offline.goals import GOAL_FORMS, parse_goal
from perdure.agent.offline.listing import BEYOND
from perdure.errors import GoalUnknown
from perdure.llm import pricing
from perdure.model.budget import Cost
from perdure.model.move import Act, AdoptPlan, Ask, Checkpoint, Finish, Move, PolicyView
from perdure.tools import Tool

PLAN = (
    "list the documents",
    "read each document",
    "extract its terms and telling sentences",
    "compare the documents",
    "write digest.md",
)
LISTED, READ, COMPARED, WRITTEN = "documents listed", "documents read", "documents compared", "digest written"


INTRODUCE = "let the model write an introduction"


class OfflinePolicy:
    """Digests a folder, and raises `GoalUnknown` for any other goal. With `model`, that one introduces the digest."""

    def __init__(self, model: str = "") -> None:
        self._model = model

    def next(self, view: PolicyView) -> Move:
        """Return the first move that memory does not show as made."""
        goal = parse_goal(view.goal)
        if goal is None:
            raise GoalUnknown(view.goal, GOAL_FORMS)
        return next(_missing(view, goal.folder, self._model))


def _missing(view: PolicyView, folder: str, model: str) -> Iterator[Move]:
    """Yield what is still to be done, in order; only the first is ever made."""
    memory = view.memory
    if "plan" not in memory:
        yield AdoptPlan(steps=(*PLAN[:-1], INTRODUCE, PLAN[-1]) if model else PLAN)
    yield from _made(view, tools.list_documents, {"folder": folder, "workspace": view.workspace}, "listing")
    yield from _marked(memory, LISTED)
    yield from _next_document(memory)
    yield from _marked(memory, READ)
    yield from _made(view, tools.compare_documents, {"documents": _documents(memory)}, "comparison")
    yield from _marked(memory, COMPARED)
    known = {"listing": memory["listing"], "documents": _documents(memory), "comparison": memory["comparison"]}
    if model:
        yield from _introduced(view, model)
        known["introduction"] = memory["introduction"]
    yield from _made(view, tools.compose_digest, known, "digest")
    page = {"workspace": view.workspace, "name": tools.REPORT_NAME, "text": memory["digest"]}
    yield from _made(view, tools.write_report, page, "report")
    yield from _marked(memory, WRITTEN)
    yield Finish(result=_result(memory))


def _made(view: PolicyView, tool: Tool[..., Any], arguments: dict[str, Any], into: str) -> Iterator[Move]:
    """Yield the call, or nothing when its result is there; after a failure a question, on resume the call anew."""
    result = view.memory.get(into)
    if result is None:
        yield Act(tool=tool, arguments=arguments, key=into, into=(into,))
    elif isinstance(result, Mapping) and "failed" in result:
        if view.last is None:
            yield Act(tool=tool, arguments=arguments, key=f"{into}, attempt {view.attempt}", into=(into,))
        yield Ask(question=f"{tool.name} failed: {result['failed']['message']}. Put it right, then resume this task.")


def _introduced(view: PolicyView, model: str) -> Iterator[Move]:
    messages = introducing.messages_of(view.memory["comparison"], _documents(view.memory))
    arguments = {"model": model, "messages": messages}
    for move in _made(view, introducing.write_introduction, arguments, "introduction"):
        if isinstance(move, Act):
            tokens = pricing.tokens_in(introducing.request_of(messages))
            move = msgspec.structs.replace(  # noqa: PLW2901 - the same move, with what it may cost
                move, reserve=Cost(tokens_in=tokens, tokens_out=introducing.TOKENS_MAX)
            )
        yield move


def _marked(memory: Mapping[str, Any], name: str) -> Iterator[Move]:
    if name not in memory.get("marks", ()):
        yield Checkpoint(name=name)


def _next_document(memory: Mapping[str, Any]) -> Iterator[Move]:
    """Read the first document that has not been read; or, when its text is there, extract from it."""
    listing, documents = memory["listing"], _documents(memory)
    for name in listing["names"]:
        entry = documents.get(name)
        if entry is None:
            arguments = {"folder": listing["folder"], "name": name}
            yield Act(tool=tools.read_document, arguments=arguments, key=_key("read", name), into=("documents", name))
        elif "text" in entry:
            arguments = {"name": name, "text": entry["text"], "encoding": entry["encoding"]}
            yield Act(
                tool=tools.extract_profile, arguments=arguments, key=_key("extract", name), into=("documents", name)
            )


def _documents(memory: Mapping[str, Any]) -> Mapping[str, Any]:
    documents: Mapping[str, Any] = memory.get("documents", {})
    return documents


_KEY_NAME_MAX = 120


def _key(step: str, name: str) -> str:
    """Name an action after its document; a long name is cut, and told apart by its digest."""
    if len(name.encode()) <= _KEY_NAME_MAX:
        return f"{step} {name}"
    return f"{step} {name[: _KEY_NAME_MAX // 4]}… {sha256(name.encode()).hexdigest()[:16]}"


def _result(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Sum up for who started the task; the page itself says the rest. `left_aside`: documents over the maximum."""
    documents, comparison = _documents(memory), memory["comparison"]
    failed = sum("failed" in documents[name] for name in documents)
    beyond = sum(count for what, count in memory["listing"]["left_aside"] if what.startswith(BEYOND))
    return {
        "report": memory["report"]["name"],
        "documents": len(documents) - failed,
        "groups": len(comparison["groups"]),
        "single": len(comparison["single"]),
        "unreadable": failed,
        **({"left_aside": beyond} if beyond else {}),
    }
