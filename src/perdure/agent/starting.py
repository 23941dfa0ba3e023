"""What comes before an agent works: its goal made to mean the same anywhere, what AutoGPT leaves it, its own settings.

Called by the command; what starts and resumes tasks is `operations/`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from perdure.agent.agent import PLANNED, Agent, load_agent
from perdure.agent.autogpt import Inherited, inherit_agent
from perdure.agent.autogpt import inherit as inherit_folder
from perdure.agent.offline.goals import GOAL_FORMS, parse_goal
from perdure.codec import values
from perdure.engine.loading import load_fold, read_entry
from perdure.errors import ApiKeyMissing, GoalUnknown
from perdure.model.entry import start_of
from perdure.model.status import TaskSummary
from perdure.ports import Store


def place_goal(goal: str, model: str) -> str:
    """Return the goal with the folder it names made absolute, so that it means the same wherever it is resumed.

    Only the goals that the offline plan understands name one; any other model takes any goal as it is. Raises
    GoalUnknown for a goal that the model does not know.
    """
    if model not in PLANNED:
        return goal
    parsed = parse_goal(goal)
    if parsed is None:
        raise GoalUnknown(goal, GOAL_FORMS)
    head, _, tail = goal.rpartition(parsed.folder)
    folder = os.path.abspath(os.path.expanduser(parsed.folder))
    placed = parse_goal(head + folder + tail)
    return goal if placed is None or placed.folder != folder else head + folder + tail


def inherit(agent: str, environ: Mapping[str, str], *, goal: str = "", model: str = "") -> Inherited:
    """Return what a run takes over from AutoGPT: the agent at `agent`, or with "" the files in the working directory.

    Raises ConfigInvalid naming file and key, UsageError for an agent that had finished and is given no new `goal`.
    """
    if agent:
        return inherit_agent(agent, environ, goal=goal, model=model)
    return inherit_folder(os.getcwd(), environ, model=model)


async def agent_named(store: Store, name: str, changes: Mapping[str, Any]) -> tuple[Agent, dict[str, Any]] | None:
    """Return the agent that drives the newest task called `name`, and the arguments it was started with.

    None where there is no such task, or something else drives it.
    """
    found = next((one for one in await store.tasks() if one.name == name), None)
    start = None if found is None else start_of((await read_entry(store, found.task, 1)).payload)
    if start is None or start.driver.kind != "agent":
        return None
    raw = bytes(start.driver.arguments)
    arguments: Any = values.decode(raw) if raw else {}
    return load_agent(start.driver.target, arguments, changes), arguments


class Resumed(Protocol):
    """How a task is resumed (`operations.Way`), as far as it concerns an agent."""

    @property
    def again(self) -> bool: ...  # noqa: D102
    @property
    def by_timer(self) -> bool: ...  # noqa: D102
    @property
    def accept(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def places(self) -> Mapping[str, str]: ...  # noqa: D102


async def ready(store: Store, task: TaskSummary, agent: Agent, way: Resumed) -> Agent:
    """Return the agent as it goes on with its task in this process.

    Raises what `Agent.refuse_changes` raises, and ApiKeyMissing where a model lacks its key; then nothing is begun.
    Under a timer that would be read by nobody: there the report stops the task, and people are told.
    """
    agent = msgspec.structs.replace(agent, places=way.places)
    if agent.changes:
        agent.refuse_changes()
    if not (way.by_timer or "secrets" in way.accept):
        await refuse_without_keys(store, task, agent, again=way.again)
    return agent


async def refuse_without_keys(store: Store, task: TaskSummary, agent: Agent, *, again: bool = False) -> None:
    """Raise ApiKeyMissing where a task cannot go on for the want of a key; one that has ended does not (`again`: does).

    The report has a row for it as well, which stops whoever goes on without this.
    """
    if (task.is_finished and not again) or all(key.is_there for key in agent.keys({})):
        return  # by far the usual case: what was changed since its start is looked at with the report
    memory = (await load_fold(store, task.task)).tree.root
    lacking = next((key for key in agent.keys(memory) if not key.is_there), None)
    if lacking is not None:
        raise ApiKeyMissing(lacking.model, lacking.variables, task.name, lacking.place)
