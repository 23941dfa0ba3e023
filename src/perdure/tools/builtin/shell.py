"""The tools that run programs: shell commands and Python, in the workspace.

What such a call may do to the world depends on where it runs: walled in and without the network it changes files of the
workspace and nothing else, so that it may be made again after these are put back; with the network, or with the user's
own rights, it may do anything. `effect_of` says which, and the agent makes the call under that effect.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from perdure.errors import UsageError
from perdure.limits import COMMAND_END_S, COMMAND_LINE_BYTES, COMMAND_MAX_S, COMMAND_S
from perdure.model.effect import PRESETS, Effect
from perdure.model.ids import plain_text
from perdure.tools import Tool, tool
from perdure.tools.builtin import sandbox
from perdure.tools.builtin.sandbox import Limits, Order, Ran, place_within

# `timeout` is AutoGPT's word. The engine's own comes later, so that the end of a command is known and not in doubt.
_ENGINE_S: Final = COMMAND_MAX_S + COMMAND_END_S

Seconds = Annotated[int, "How many seconds it may take, 600 at most."]


@tool(effect="workspace", timeout_s=_ENGINE_S, aliases=("execute_shell_popen",))
async def execute_shell(
    command_line: Annotated[str, "The command, as a shell takes it."],
    workspace: str,
    settings: dict[str, Any],
    timeout: Seconds = COMMAND_S,  # noqa: ASYNC109 - AutoGPT's word
    working_dir: Annotated[str, "Folder of the workspace to run it in."] = "",
) -> Ran:
    """Run a shell command without input, for `timeout` seconds (1 to 600) at most; return exit code and output.

    It starts in the workspace, or in its folder `working_dir`. What it leaves in the background ends with it.
    """
    _refuse_untakeable("the command", command_line)
    folder = _folder(working_dir, workspace)
    shell = shutil.which("bash") or "/bin/sh"
    order = Order(argv=(shell, "-c", command_line), workspace=workspace, folder=folder, limits=_limits(timeout))
    return await sandbox.run(order, settings)


@tool(effect="workspace", timeout_s=_ENGINE_S)
async def execute_python_code(
    code: Annotated[str, "The program."],
    workspace: str,
    settings: dict[str, Any],
    timeout: Seconds = COMMAND_S,  # noqa: ASYNC109 - AutoGPT's word
) -> Ran:
    """Run Python code in the workspace, for `timeout` seconds (1 to 600) at most; print what you want to see."""
    _refuse_untakeable("the program", code, bytes_max=0)
    order = Order(argv=(sys.executable, "-B", "-"), workspace=workspace, text=code, limits=_limits(timeout))
    return await sandbox.run(order, settings)


@tool(effect="workspace", timeout_s=_ENGINE_S)
async def execute_python_file(
    filename: Annotated[str, "Path of the program, relative to the workspace."],
    workspace: str,
    settings: dict[str, Any],
    args: Annotated[Sequence[str] | str, "Its arguments: a list, or one text as in a shell."] = (),
    timeout: Seconds = COMMAND_S,  # noqa: ASYNC109 - AutoGPT's word
) -> Ran:
    """Run a Python file of the workspace, for `timeout` seconds (1 to 600) at most; return exit code and output."""
    name = place_within(filename, workspace)
    given = shlex.split(args) if isinstance(args, str) else args
    for text in given:
        _refuse_untakeable("an argument", text)
    order = Order(argv=(sys.executable, "-B", name, *given), workspace=workspace, limits=_limits(timeout))
    return await sandbox.run(order, settings)


_TOOLS: Final[tuple[Tool[..., Any], ...]] = (execute_shell, execute_python_code, execute_python_file)


def effect_of(tool: Tool[..., Any], settings: Mapping[str, Any]) -> Effect:
    """Return what a call of `tool` may do to the world under these settings of the agent.

    A tool of this module that is not confined to the workspace here may do anything; any other has its own effect.
    """
    if tool not in _TOOLS or sandbox.isolation_of(settings).is_confined:
        return tool.effect
    return PRESETS["irreversible"]


def _refuse_untakeable(what: str, text: str, *, bytes_max: int = COMMAND_LINE_BYTES) -> None:
    """Raise UsageError for what the system cannot hand to a program; the model is told what to do instead."""
    size_bytes = len(text.encode("utf-8", "replace"))
    if bytes_max and size_bytes > bytes_max:
        raise UsageError(
            f"{what} has {size_bytes:,} bytes, {bytes_max:,} can be taken: nothing was run; put it into a file with "
            "write_to_file and run that"
        )
    if "\0" in text or plain_text(text) != text:
        raise UsageError(f"{what} holds a NUL or half of a surrogate pair: nothing was run; write it without")


def _limits(timeout_s: float) -> Limits:
    if not 1 <= timeout_s <= COMMAND_MAX_S:
        raise UsageError(f"timeout {timeout_s!r} is not from 1 to {COMMAND_MAX_S} seconds; give one that is")
    return Limits(wall_s=timeout_s)


def _folder(path: str, workspace: str) -> str:
    folder = place_within(path, workspace)
    if folder and not os.path.isdir(os.path.join(workspace, folder)):
        raise UsageError(f"{path!r} is no folder of the workspace: make it first, or leave working_dir out")
    return folder
