"""AutoGPT's `state.json`: the goal, the settings and what was done, so that a task goes on from there.

Read in the shapes of 0.5.0 (actions with `args`), 0.5.1 to 0.6 and `classic` (actions with `use_tool`). All of it is
read or none; keys that this version does not know are listed. Called by `gathering.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from perdure.agent.autogpt.episodes import read_episodes
from perdure.agent.autogpt.found import goal_of, merge
from perdure.agent.autogpt.reading import Object, Source, read_json
from perdure.agent.autogpt.table import STATE_ROWS
from perdure.errors import ConfigInvalid
from perdure.model.chat import Message

FILE: Final = "state.json"
_PARTS: Final = ("ai_profile", "directives", "config", "history", "context")  # objects whose keys have rows
_MARKS: Final = ("ai_profile", "history")  # without these it is the file of another program
_MODELS: Final = ("config.smart_llm", "config.fast_llm")
_DATA_FOLDERS: Final = (".autogpt", "data")  # in which AutoGPT keeps `agents/ID/state.json`


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a `state.json` says."""

    place: str
    agent_id: str
    goal: str  # empty: the file tells none
    fields: dict[str, Any]  # of AgentSettings
    messages: list[Message]  # turns of the conversation, in order
    turns: int
    workspace: str = ""  # the folder in which the agent worked, where it lies beside the file
    project: str = ""  # the folder in which AutoGPT was started, where the place of the file tells it
    finished: str | None = None  # the agent's last words, where it had finished
    ignored: dict[str, str]
    unknown: tuple[str, ...]


def read_state(place: str, *, has_model: bool = False) -> State:
    """Return what the `state.json` at `place` says, a file or the folder that holds it.

    With `has_model` the names of models are passed over: another one is given.
    Raises ConfigInvalid naming file and key, and what to do; then nothing of it holds.
    """
    path = os.path.abspath(os.path.join(place, FILE) if os.path.isdir(place) else place)
    if not os.path.lexists(path):
        raise ConfigInvalid(path, _absence(place))
    source, values = Source(path), read_json(path)
    if not any(mark in values for mark in _MARKS):
        raise source.refusal(" and ".join(_MARKS), "are missing; this is not the state of an AutoGPT agent")
    flat = dict(_flatten(values, source))
    history = read_episodes(
        source.items_at(flat.get("history.episodes"), "history.episodes"), source, "history.episodes"
    )
    said = source.texts_at(flat.get("history.pending_user_feedback"), "history.pending_user_feedback")
    opened = _opened(source.items_at(flat.get("context.items"), "context.items"), source)
    agent_id = source.text_at(flat.get("agent_id"), "agent_id") or os.path.basename(os.path.dirname(path))
    workspace, project = _folders(os.path.dirname(path))
    return State(
        place=path,
        agent_id=agent_id,
        goal=_goal(flat, source),
        fields=_fields(flat, source, has_model),
        messages=[*history.messages, *(Message(role="user", text=text) for text in (*opened, *said))],
        turns=len(flat.get("history.episodes") or ()),
        workspace=workspace,
        project=project,
        finished=history.finished,
        ignored={name: STATE_ROWS[name].meaning for name in flat if _is_ignored(name)},
        unknown=(*sorted(flat.keys() - STATE_ROWS.keys()), *history.unknown),
    )


def _flatten(values: Object, source: Source) -> Iterator[tuple[str, Any]]:
    """Yield (name of a row, value) of all keys."""
    for name, value in values.items():
        if name in _PARTS:
            yield from ((f"{name}.{key}", part) for key, part in source.object_at(value, name).items())
        else:
            yield name, value


def _fields(flat: Object, source: Source, has_model: bool) -> dict[str, Any]:  # noqa: FBT001 - private
    passed_over = _MODELS if has_model else ()
    given = {name: value for name, value in flat.items() if value is not None and name not in passed_over}
    rows = ((name, STATE_ROWS[name]) for name in STATE_ROWS if name in given)
    fields = merge(*(row.read(source, name, given[name], flat) for name, row in rows if row.read))
    if not source.flag_at(given.get("config.big_brain", True), "config.big_brain") and fields.get("fast_model"):
        fields["model"] = fields["fast_model"]
    return fields


def _goal(flat: Object, source: Source) -> str:
    task = source.text_at(flat.get("task"), "task")
    goals = source.texts_at(flat.get("ai_profile.ai_goals"), "ai_profile.ai_goals")
    return goal_of(task, goals) or source.text_at(flat.get("ai_profile.ai_role"), "ai_profile.ai_role").strip()


def _opened(items: list[Any], source: Source) -> Iterator[str]:
    """Yield one message that says what the agent had open."""
    lines = [
        _item(source.object_at(item, f"context.items[{n}]"), source, f"context.items[{n}]")
        for n, item in enumerate(items)
    ]
    if lines:
        yield "\n".join(["Kept open so far; read again what you still need:", *lines])


def _item(item: Object, source: Source, key: str) -> str:
    kind = source.text_at(item.get("type"), f"{key}.type") or "file"
    if kind in {"file", "folder"}:
        return f"- {kind} {source.text_at(item.get('path', item.get('file_path')), f'{key}.path')}"
    if kind == "static":
        description = source.text_at(item.get("description", item.get("item_description")), f"{key}.description")
        content = source.text_at(item.get("content", item.get("item_content")), f"{key}.content")
        return f"- {description}\n{content}"
    raise source.refusal(f"{key}.type", f"{kind!r} is not one of file, folder, static")


def _is_ignored(name: str) -> bool:
    return name in STATE_ROWS and STATE_ROWS[name].verdict == "ignored"


def _folders(folder: str) -> tuple[str, str]:
    """Return (workspace, project) of an agent whose state lies in `folder`; "" where the place does not tell."""
    agents, data = os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))
    is_usual = os.path.basename(agents) == "agents" and os.path.basename(data) in _DATA_FOLDERS
    project = os.path.dirname(data) if is_usual else ""
    beside = os.path.join(folder, "workspace")
    if os.path.isdir(beside):
        return beside, project
    return (project if os.path.basename(data) == _DATA_FOLDERS[0] else ""), project


def _absence(place: str) -> str:
    """Return what to do where there is no such file: name the agents that lie below."""
    for data in ("", *_DATA_FOLDERS):
        agents = os.path.join(place, data, "agents")
        if os.path.isdir(agents):
            found = sorted(name for name in os.listdir(agents) if os.path.isfile(os.path.join(agents, name, FILE)))
            if found:
                return (
                    f"is not there; name one of its agents, such as {os.path.join(agents, found[0])!r} ({len(found)})"
                )
    return "is not there; name the folder of an agent: the one in which its state.json lies"
