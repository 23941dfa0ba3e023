"""The tools for repositories in the workspace: git, run as any program of the agent is, and told to run nothing itself.

A repository's own settings can name programs (hooks, monitors, filters, pagers). Hooks, monitors and pagers are
switched off; what cannot be, runs in the sandbox like everything else here. Only `clone_repository` gets the network,
for http and https; it reads from there and writes to the workspace.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from perdure.errors import GitFailed, PathOutside, UsageError
from perdure.limits import COMMAND_END_S, COMMAND_MAX_S
from perdure.tools import tool
from perdure.tools.builtin import sandbox
from perdure.tools.builtin.sandbox import Limits, Order
from perdure.tools.web.addresses import is_public, read_address

_ENGINE_S: Final = COMMAND_MAX_S + COMMAND_END_S
_SAFE: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.sshCommand=false",
    "commit.gpgSign=false",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.http.allow=always",
    "protocol.https.allow=always",
    "http.followRedirects=false",
    "user.name=agent",
    "user.email=agent@localhost",
    "safe.directory=*",
)
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_OPTIONAL_LOCKS": "0",
}
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]+@")

Place = Annotated[str, "Folder of the repository, relative to the workspace."]


@tool(effect="workspace", paths=("{clone_path}",), source=True, provider="git", timeout_s=_ENGINE_S)
async def clone_repository(
    url: Annotated[str, "Address of the repository: http or https."],
    clone_path: Annotated[str, "Folder of the workspace to put it into; it must not exist, or be empty."],
    workspace: str,
    settings: dict[str, Any],
) -> str:
    """Clone a repository into a folder of the workspace."""
    await _check_url(url, settings)
    into = _inside("clone_repository", clone_path, workspace)
    if not into:
        raise UsageError("clone_path '' is the workspace itself: name a folder in it")
    arguments = ("clone", "--no-hardlinks", "--", url, into)
    await _git(arguments, workspace, "", {**settings, "network": True})
    return f"cloned {url} to {into}"


@tool(effect="pure", timeout_s=_ENGINE_S)
async def git_status(workspace: str, settings: dict[str, Any], repo_path: Place = ".") -> str:
    """Show which files of a repository in the workspace have changed, and on which branch it is."""
    folder = _inside("git_status", repo_path, workspace)
    return await _git(("status", "--short", "--branch", "--ignore-submodules=all"), workspace, folder, settings)


@tool(effect="pure", timeout_s=_ENGINE_S)
async def git_diff(
    workspace: str,
    settings: dict[str, Any],
    repo_path: Place = ".",
    staged: Annotated[bool, "What is staged, instead of what is not."] = False,  # noqa: FBT002 - a model names it
) -> str:
    """Show what has changed in the files of a repository in the workspace."""
    folder = _inside("git_diff", repo_path, workspace)
    arguments = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", *(("--staged",) if staged else ()))
    return await _git(arguments, workspace, folder, settings) or "nothing has changed"


@tool(effect="workspace", paths=("{repo_path}",), timeout_s=_ENGINE_S)
async def git_commit(
    message: Annotated[str, "What is true with this commit."],
    workspace: str,
    settings: dict[str, Any],
    repo_path: Place = ".",
    files: Annotated[Sequence[str] | None, "Only these files; all that have changed without it."] = None,
) -> str:
    """Commit files of a repository in the workspace. It is not pushed anywhere."""
    folder = _inside("git_commit", repo_path, workspace)
    if not message.strip():
        raise UsageError("message is empty: say what is true with this commit")
    chosen = ("--", *files) if files else ("--all",)
    await _git(("add", *chosen), workspace, folder, settings)
    try:
        await _git(("commit", "--no-verify", "--quiet", "-m", message), workspace, folder, settings)
    except GitFailed:
        # A commit that a kill has left without its outcome is the one that is wanted, and is not made again.
        if message.strip() != await _git(("log", "-1", "--format=%B"), workspace, folder, settings):
            raise
    return "committed as " + await _git(("rev-parse", "--short", "HEAD"), workspace, folder, settings)


async def _git(arguments: Sequence[str], workspace: str, folder: str, settings: Mapping[str, Any]) -> str:
    """Run git; return what it says. Raises GitFailed with that, CommandOutOfTime, SandboxUnavailable."""
    program = shutil.which("git")
    if program is None:
        raise GitFailed(arguments[0], "git is not installed here")
    options = [part for setting in _SAFE for part in ("-c", setting)]
    order = Order(
        argv=(program, "--no-pager", *options, *arguments),
        workspace=workspace,
        folder=folder,
        environment=_ENVIRONMENT,
        limits=Limits(wall_s=COMMAND_MAX_S),
    )
    ran = await sandbox.run(order, settings)
    said = _CREDENTIALS.sub("", ran["output"]).strip()
    if ran["exit_code"] != 0:
        raise GitFailed(arguments[0], said or f"it ended with {ran['exit_code']}")
    return said


async def _check_url(url: str, settings: Mapping[str, Any]) -> None:
    """Raise UsageError for an address that is not to be cloned from: no web address, a password, a private host."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = _CREDENTIALS.sub("", url)
        raise UsageError(f"{shown!r} is no http or https address; other ways to clone are not allowed")
    if parts.username is not None or parts.password is not None:
        raise UsageError("the url holds a user or a password, which would be on record: give one without")
    if settings.get("allow_private_network"):
        return
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(parts.hostname, parts.port or 0, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise GitFailed("clone", f"the host {parts.hostname!r} is not known: {error.strerror}") from error
    for *_, place in found:
        address = read_address(str(place[0]).partition("%")[0])
        if address is None or not is_public(address):
            raise UsageError(f"{parts.hostname!r} is an address of this machine or its network; it is not cloned from")


def _inside(tool_name: str, path: str, workspace: str) -> str:
    """Return `path` relative to the workspace, through no link that leads out of it. Raises PathOutside."""
    root = os.path.realpath(workspace)
    whole = os.path.realpath(os.path.join(root, path))
    if whole != root and not whole.startswith(root.rstrip(os.sep) + os.sep):
        raise PathOutside(tool_name, path, workspace)
    return "" if whole == root else os.path.relpath(whole, root)
