"""All that a run takes over from AutoGPT: from the files beside it, or from an agent that is to go on here.

    .env, ai_settings.yaml, prompt_settings.yaml ─────────▶ `inherit` ───────┐
    state.json, .env, autogpt.yaml, permissions.yaml ─────▶ `inherit_agent` ─┴▶ Inherited

Called by `operations` for `perdure run`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from perdure.agent.autogpt.ai_settings import FILES, read_ai_settings, read_permissions
from perdure.agent.autogpt.dotenv import read_dotenv
from perdure.agent.autogpt.found import NOTHING, Found, Variables, goal_of, settings_of
from perdure.agent.autogpt.reading import is_ours
from perdure.agent.autogpt.state import State, read_state
from perdure.agent.people import NAMES
from perdure.agent.settings import AgentSettings
from perdure.errors import UsageError
from perdure.model.chat import Message
from perdure.tools.builtin.catalogue import catalogue

_ALONE: Final = ("offline", "local")  # models that ask nobody
_FILE_KEYS: Final = ("AI_SETTINGS_FILE", "PROMPT_SETTINGS_FILE")  # of `.env`, in the order of FILES


class Inherited(msgspec.Struct, frozen=True, kw_only=True):
    """What a run takes over. `variables` are for the environment of this process, and for no record."""

    settings: AgentSettings = AgentSettings()
    goal: str = ""
    variables: Variables = Variables()
    remarks: tuple[str, ...] = ()  # for people, to be said once: what was read, what is not obeyed
    messages: list[Message] = []  # turns that the conversation begins with, behind the goal
    turns: int = 0  # how many of these are actions
    workspace: str = ""


def inherit(folder: str, environ: Mapping[str, str], *, model: str = "") -> Inherited:
    """Return what AutoGPT's files in `folder` say, where there are any; one that `.env` names must be there.

    A `model` takes the place of both models of `.env`; for one that asks nobody, nothing is looked at.
    Raises ConfigInvalid naming file and key.
    """
    if model in _ALONE:
        return Inherited()
    dotenv = read_dotenv(folder, environ, model=model)
    found = [dotenv]
    for name, key in zip(FILES, _FILE_KEYS, strict=True):
        named = os.path.join(folder, dotenv.files[key]) if key in dotenv.files else ""
        found.append(read_ai_settings(named) if named else _beside(os.path.join(folder, name), read_ai_settings))
    settings, remarks = _fitting(settings_of(*(one.fields for one in found)))
    return Inherited(
        settings=settings,
        goal=goal_of("", [goal for one in found for goal in one.goals]),
        variables=dotenv.variables,
        remarks=(*_remarks(found), *remarks),
    )


def inherit_agent(place: str, environ: Mapping[str, str], *, goal: str = "", model: str = "") -> Inherited:
    """Return what goes on of the agent whose `state.json` is at `place`, a file or its folder.

    A `goal` takes the place of the agent's, and is needed where the agent had finished or had none; a `model` takes the
    place of its models. Raises ConfigInvalid naming file and key, UsageError where a goal is needed.
    """
    state = read_state(place, has_model=bool(model))
    if not goal and (state.finished is not None or not state.goal):
        what = "has no goal on record" if state.finished is None else f"had finished: {state.finished!r}"
        line = f'perdure run "GOAL" --from-autogpt {shlex.quote(place)}'
        raise UsageError(f"agent {state.agent_id!r} {what}; say what is wanted now: {line}")
    home = os.path.dirname(state.place)
    dotenv = read_dotenv(state.project or home, environ, model=model)
    files = [os.path.join(state.project, ".autogpt", "autogpt.yaml")] if state.project else []
    files.append(os.path.join(home, "permissions.yaml"))
    permissions = [_beside(path, read_permissions) for path in files]
    settings, remarks = _fitting(settings_of(*(one.fields for one in (dotenv, *permissions)), state.fields))
    return Inherited(
        settings=settings,
        goal=goal or state.goal,
        variables=dotenv.variables,
        remarks=(
            f"goes on from {state.place}: {_count(state.turns)}",
            *_remarks([dotenv, *permissions, state]),
            *remarks,
        ),
        messages=[*_former_goal(state, goal), *state.messages],
        turns=state.turns,
        workspace=state.workspace,
    )


def _beside(path: str, read: Callable[[str], Found]) -> Found:
    """Return what a file says that nobody has named; one of another user is left aside."""
    if not os.path.lexists(path):
        return NOTHING
    return read(path) if is_ours(path) else Found(place=path, ignored={"the file": "it belongs to another user"})


def _fitting(settings: AgentSettings) -> tuple[AgentSettings, list[str]]:
    """Return the settings without names of tools that there are not, and what is to be said of these."""
    if not settings.left_out:
        return settings, []
    known = catalogue().keys() | NAMES
    left_out = tuple(name for name in settings.left_out if name in known)
    gone = [name for name in settings.left_out if name not in known]
    lines = [f"no tool has the name {', '.join(gone)}; there is nothing to leave out"] if gone else []
    return msgspec.structs.replace(settings, left_out=left_out), lines


def _count(turns: int) -> str:
    return "1 action" if turns == 1 else f"{turns} actions"


def _former_goal(state: State, goal: str) -> Iterator[Message]:
    if goal and state.goal and goal != state.goal:
        yield Message(role="user", text=f"What you did until now was for this goal:\n{state.goal}")


def _remarks(sources: Iterable[Found | State]) -> Iterator[str]:
    """Yield a line for each file that was read, and one for each reason why something in it is not obeyed."""
    for source in sources:
        if isinstance(source, Found) and (source.fields or source.goals or source.variables):
            yield f"read {source.place}"
        for reason in dict.fromkeys(source.ignored.values()):
            names = [name for name, why in source.ignored.items() if why == reason]
            yield f"not obeyed in {source.place}: {', '.join(names)} ({reason.replace('`', '')})"
        if source.unknown:
            yield f"unknown in {source.place}: {', '.join(source.unknown)}"
