"""The tools for repositories in the workspace: git, run as any program of the agent is, and told to run nothing itself.

A repository's own settings can name programs (hooks, monitors, filters, pagers, transports), and a place elsewhere to
work in. The programs are switched off, the places refused; what is missed runs in the sandbox like everything else
here. Only `clone_repository` gets the network, for http and https; it reads from there and writes to the workspace.
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

import msgspec

from perdure.errors import GitFailed, UsageError
from perdure.limits import COMMAND_END_S, COMMAND_MAX_S
from perdure.tools import tool
from perdure.tools.builtin import sandbox
from perdure.tools.builtin.sandbox import Limits, Order, place_within
from perdure.tools.web.addresses import is_public, read_address

_ENGINE_S: Final = COMMAND_MAX_S + COMMAND_END_S
_SAFE: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.sshCommand=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "diff.submodule=short",
    "gc.auto=0",
    "safe.bareRepository=explicit",
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
    "GIT_NO_LAZY_FETCH": "1",
}
# Of all that is told here, only this outranks a repository that allows itself more.
_WEB: Final = {"GIT_ALLOW_PROTOCOL": "http:https"}
_NO_TRANSPORT: Final = {"GIT_ALLOW_PROTOCOL": "none"}
_FILTERS: Final = r"^filter\..*\.(clean|smudge|process)$"
_UNWALLED: Final = re.compile(r"\A\[not isolated: [^\n]*\]\n")  # the sandbox's word for programs, not git's
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
    pinned = await _check_url(url, settings)
    into = place_within(clone_path, workspace)
    if not into:
        raise UsageError("clone_path '' is the workspace itself: name a folder in it")
    arguments = ("clone", "--no-hardlinks", "--", url, into)
    await _git(arguments, workspace, "", {**settings, "network": True}, {**_WEB, **_configured(pinned)})
    return f"cloned {url} to {into}"


@tool(effect="pure", timeout_s=_ENGINE_S)
async def git_status(workspace: str, settings: dict[str, Any], repo_path: Place = ".") -> str:
    """Show which files of a repository in the workspace have changed, and on which branch it is."""
    repository = await _open(repo_path, workspace, settings)
    return await repository.git("status", "--short", "--branch", "--ignore-submodules=all")


@tool(effect="pure", timeout_s=_ENGINE_S)
async def git_diff(
    workspace: str,
    settings: dict[str, Any],
    repo_path: Place = ".",
    staged: Annotated[bool, "What is staged, instead of what is not."] = False,  # noqa: FBT002 - a model names it
) -> str:
    """Show what has changed in the files of a repository in the workspace."""
    repository = await _open(repo_path, workspace, settings)
    options = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=dirty")
    return await repository.git("diff", *options, *(("--staged",) if staged else ())) or "nothing has changed"


@tool(effect="workspace", paths=("{repo_path}",), timeout_s=_ENGINE_S)
async def git_commit(
    message: Annotated[str, "What is true with this commit."],
    workspace: str,
    settings: dict[str, Any],
    repo_path: Place = ".",
    files: Annotated[Sequence[str] | None, "Only these files; all that have changed without it."] = None,
) -> str:
    """Commit files of a repository in the workspace. It is not pushed anywhere."""
    if not message.strip():
        raise UsageError("message is empty: say what is true with this commit")
    repository = await _open(repo_path, workspace, settings)
    await repository.git("add", *(("--", *files) if files else ("--all",)))
    try:
        await repository.git("commit", "--no-verify", "--quiet", "-m", message)
    except GitFailed:
        # A commit that a kill has left without its outcome is the one that is wanted, and is not made again.
        if message.strip() != await repository.git("log", "-1", "--format=%B"):
            raise
    return "committed as " + await repository.git("rev-parse", "--short", "HEAD")


class _Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A repository of the workspace, whose settings run nothing and lead nowhere. Made by `_open`."""

    workspace: str
    folder: str  # of the workspace
    settings: Mapping[str, Any]
    environment: Mapping[str, str]

    async def git(self, *arguments: str) -> str:
        """Run git there; return what it says. Raises as `_git`."""
        return await _git(arguments, self.workspace, self.folder, self.settings, self.environment)


async def _open(path: str, workspace: str, settings: Mapping[str, Any]) -> _Repository:
    """Return the repository that `path` is in. Raises OutsideWorkspace where any part of it lies elsewhere.

    git itself finds its parts and its filters: only it knows what its settings mean.
    """
    folder = place_within(path, workspace)
    # A workspace often lies in a repository of the user, which is not the agent's.
    environment = {**_NO_TRANSPORT, "GIT_CEILING_DIRECTORIES": _above(workspace)}
    found = _Repository(workspace=workspace, folder=folder, settings=settings, environment=environment)
    where = ("--show-toplevel", "--git-dir", "--git-common-dir")
    for part in (await found.git("rev-parse", "--path-format=absolute", *where)).splitlines():
        place_within(part, workspace)
    try:
        filters = (await found.git("config", "--null", "--name-only", "--get-regexp", _FILTERS)).split("\0")
    except GitFailed:  # it has none
        filters = []
    return msgspec.structs.replace(
        found, environment={**environment, **_configured({name: "" for name in filters if name})}
    )


def _above(workspace: str) -> str:
    return os.path.dirname(os.path.realpath(workspace))


def _configured(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which git finds these settings, whatever a repository says."""
    told = {"GIT_CONFIG_COUNT": str(len(settings))}
    for at, (name, value) in enumerate(settings.items()):
        told |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
    return told


async def _git(
    arguments: Sequence[str],
    workspace: str,
    folder: str,
    settings: Mapping[str, Any],
    environment: Mapping[str, str],
) -> str:
    """Run git; return what it says. Raises GitFailed with that, CommandOutOfTime, SandboxUnavailable."""
    program = shutil.which("git")
    if program is None:
        raise GitFailed(arguments[0], "git is not installed here")
    options = [part for setting in _SAFE for part in ("-c", setting)]
    order = Order(
        argv=(program, "--no-pager", *options, *arguments),
        workspace=workspace,
        folder=folder,
        environment={**_ENVIRONMENT, **environment},
        limits=Limits(wall_s=COMMAND_MAX_S),
    )
    ran = await sandbox.run(order, settings)
    said = _CREDENTIALS.sub("", _UNWALLED.sub("", ran["output"])).strip()
    if ran["exit_code"] != 0:
        raise GitFailed(arguments[0], said or f"it ended with {ran['exit_code']}")
    return said


async def _check_url(url: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that keep git at the addresses that were looked at: a name may mean others the next moment.

    Raises UsageError for an address that is not to be cloned from: no web address, a password, a private host.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = _CREDENTIALS.sub("", url)
        raise UsageError(f"{shown!r} is no http or https address; other ways to clone are not allowed")
    if parts.username is not None or parts.password is not None:
        raise UsageError("the url holds a user or a password, which would be on record: give one without")
    if settings.get("allow_private_network"):
        return {}
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise GitFailed("clone", f"the host {parts.hostname!r} is not known: {error.strerror}") from error
    hosts = list(dict.fromkeys(str(place[0]).partition("%")[0] for *_, place in found))
    for host in hosts:
        address = read_address(host)
        if address is None or not is_public(address):
            raise UsageError(f"{parts.hostname!r} is an address of this machine or its network; it is not cloned from")
    return {"http.curloptResolve": f"{parts.hostname}:{port}:{','.join(hosts)}"}
