"""git for an agent: cloned from a service on real sockets, looked at, committed; nothing a repository names is run."""

from __future__ import annotations

import asyncio
import http.server
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import GitFailed, OutsideWorkspace, UsageError
from perdure.tools.builtin.git import clone_repository, git_commit, git_diff, git_status

GIT = shutil.which("git") or ""
OPEN = {"allow_private_network": True}
pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    """Run git as a person would, in a clean environment."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    named = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run([GIT, *named, *arguments], cwd=folder, env=environment, capture_output=True, check=True)
    return done.stdout.decode()


class Backend(http.server.SimpleHTTPRequestHandler):
    """Serves repositories as plain files: git's oldest way over http."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Address of a repository with one commit, on loopback."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet")
    (origin / "readme.txt").write_text("hello\n")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "first")
    public = tmp_path / "public"
    public.mkdir()
    git(public, "clone", "--quiet", "--bare", str(origin), "tool.git")
    git(public / "tool.git", "update-server-info")

    def handler(*arguments: object) -> Backend:
        return Backend(*arguments, directory=str(public))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/tool.git"
        server.shutdown()
        thread.join(10)


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    """The task's folder."""
    (tmp_path / "workspace").mkdir()
    return str(tmp_path / "workspace")


def clone(url: str, into: str, workspace: str, **settings: object) -> str:
    """Call the tool's function."""
    return asyncio.run(clone_repository.fn(url, into, workspace, settings))


def test_a_repository_is_cloned_changed_looked_at_and_committed(served: str, workspace: str) -> None:
    """From a service on real sockets, into a folder of the workspace; the commit is the agent's."""
    assert f"cloned {served} to tool" == clone(served, "tool", workspace, **OPEN)
    repository = Path(workspace, "tool")
    assert "hello\n" == (repository / "readme.txt").read_text()
    (repository / "readme.txt").write_text("hello world\n")
    (repository / "new.txt").write_text("new\n")
    status = asyncio.run(git_status.fn(workspace, {}, "tool"))
    assert (" M readme.txt" in status, "?? new.txt" in status) == (True, True)
    assert "+hello world" in asyncio.run(git_diff.fn(workspace, {}, "tool"))
    asyncio.run(git_commit.fn("It greets the world", workspace, {}, "tool"))
    assert "nothing has changed" == asyncio.run(git_diff.fn(workspace, {}, "tool"))
    assert "agent|It greets the world" in git(repository, "log", "--format=%an|%s")


def test_a_commit_that_a_kill_has_left_without_its_outcome_is_not_made_again(workspace: str) -> None:
    """The second try says the same commit; another message with nothing to commit fails."""
    repository = Path(workspace, "own")
    repository.mkdir()
    git(repository, "init", "--quiet")
    (repository / "a.txt").write_text("a\n")
    first = asyncio.run(git_commit.fn("It has a", workspace, {}, "own"))
    assert first.startswith("committed as ")
    assert first == asyncio.run(git_commit.fn("It has a", workspace, {}, "own"))
    with pytest.raises(GitFailed, match="nothing to commit"):
        asyncio.run(git_commit.fn("It has b", workspace, {}, "own"))


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("file:///etc", "no http or https"),
        ("ext::sh -c 'touch hit'", "no http or https"),
        ("ssh://host/x", "no http or https"),
        ("/etc", "no http or https"),
        ("--upload-pack=touch", "no http or https"),
        ("https://ann:secret@example.org/x.git", "a user or a password"),
        ("http://127.0.0.1:9/x.git", "an address of this machine"),
        ("http://[::1]:9/x.git", "an address of this machine"),
        ("http://169.254.169.254/x.git", "an address of this machine"),
    ],
)
def test_what_is_not_cloned_from(url: str, word: str, workspace: str) -> None:
    """Other transports, passwords, this machine and its network: refused before git is asked, no password shown."""
    with pytest.raises(UsageError, match=word) as refused:
        clone(url, "x", workspace)
    assert "secret" not in str(refused.value)
    assert [] == os.listdir(workspace)


def test_git_stays_at_the_address_that_was_looked_at(
    served: str, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means another host the next moment leads nowhere else: git does not look it up again."""
    port = int(served.rpartition(":")[2].partition("/")[0])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("127.0.0.1", port))])
    monkeypatch.setattr("perdure.tools.builtin.git.is_public", lambda address: str(address) == "127.0.0.1")
    assert "cloned " in clone(f"http://nobody-knows.invalid:{port}/tool.git", "tool", workspace)


@pytest.mark.parametrize("place", ["../out", "/etc/out"])
def test_nothing_is_cloned_or_looked_at_outside(place: str, served: str, workspace: str) -> None:
    """By a path or by a link."""
    with pytest.raises(OutsideWorkspace):
        clone(served, place, workspace, **OPEN)
    os.symlink("/", Path(workspace, "link"))
    with pytest.raises(OutsideWorkspace):
        asyncio.run(git_status.fn(workspace, {}, "link/etc"))
    with pytest.raises(UsageError, match="name a folder in it"):
        clone(served, ".", workspace, **OPEN)


def test_a_service_that_has_nothing_is_told_in_gits_words(served: str, workspace: str) -> None:
    """And nothing is left behind."""
    with pytest.raises(GitFailed, match="not found"):
        clone(served.replace("tool", "none"), "none", workspace, **OPEN)
    assert not Path(workspace, "none").exists()


def test_hooks_and_monitors_that_a_repository_names_are_not_run(workspace: str, tmp_path: Path) -> None:
    """A model can write them; git would run them with the first command."""
    repository = Path(workspace, "own")
    repository.mkdir()
    git(repository, "init", "--quiet")
    (repository / "a.txt").write_text("a\n")
    trap = repository / "trap.sh"
    trap.write_text("#!/bin/sh\ntouch hit\n")
    trap.chmod(0o755)
    for hook in ("pre-commit", "post-commit", "prepare-commit-msg"):
        shutil.copy(trap, repository / ".git" / "hooks" / hook)
    with (repository / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "{trap}"\n\tpager = "{trap}"\n[diff]\n\texternal = "{trap}"\n')
    asyncio.run(git_status.fn(workspace, {}, "own"))
    asyncio.run(git_commit.fn("a", workspace, {}, "own", ["a.txt"]))
    (repository / "a.txt").write_text("b\n")
    assert "+b" in asyncio.run(git_diff.fn(workspace, {}, "own"))
    assert not (repository / "hit").exists()
    subprocess.run([GIT, "-c", "safe.directory=*", "diff"], cwd=repository, check=False, capture_output=True)
    assert (repository / "hit").exists()  # the trap works, where git is run as people do


WALLS = pytest.mark.parametrize("settings", [{}, {"sandbox": "off"}], ids=["walled", "open"])


def own(workspace: str, settings_of_git: str = "") -> Path:
    """A repository of the agent with one commit, and what is added to its settings."""
    repository = Path(workspace, "own")
    repository.mkdir()
    git(repository, "init", "--quiet")
    (repository / "a.txt").write_text("a\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "a")
    (repository / "a.txt").write_text("b\n")
    with (repository / ".git" / "config").open("a") as config:
        config.write(settings_of_git)
    return repository


@WALLS
@pytest.mark.parametrize("kind", ["clean", "process"])
def test_filters_that_a_repository_names_are_not_run(kind: str, settings: dict[str, str], workspace: str) -> None:
    """A status that may always be asked for would run any program; names of filters are as odd as git allows."""
    hit = Path(workspace, "hit")
    repository = own(workspace, f'[filter "x=y.z"]\n\t{kind} = "touch {hit}; cat"\n')
    (repository / ".gitattributes").write_text("*.txt filter=x=y.z\n")
    assert "M a.txt" in asyncio.run(git_status.fn(workspace, settings, "own"))
    assert "+b" in asyncio.run(git_diff.fn(workspace, settings, "own"))
    asyncio.run(git_commit.fn("b", workspace, settings, "own"))
    assert not hit.exists()
    (repository / "a.txt").write_text("c\n")
    subprocess.run([GIT, "-c", "safe.directory=*", "diff"], cwd=repository, check=False, capture_output=True)
    assert hit.exists()  # the trap works, where git is run as people do


@WALLS
def test_a_transport_that_a_repository_names_is_not_run(settings: dict[str, str], workspace: str) -> None:
    """A part that is said to be elsewhere would be fetched by a program, which the repository itself allows."""
    hit = Path(workspace, "hit")
    remote = f'[remote "origin"]\n\turl = ext::touch {hit}\n\tpromisor = true\n[protocol "ext"]\n\tallow = always\n'
    there = "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = origin\n"
    repository = own(workspace, there + remote)
    part = git(repository, "rev-parse", "HEAD:a.txt").strip()
    (repository / ".git" / "objects" / part[:2] / part[2:]).unlink()
    with pytest.raises(GitFailed):
        asyncio.run(git_diff.fn(workspace, settings, "own"))
    assert not hit.exists()
    subprocess.run([GIT, "-c", "safe.directory=*", "diff"], cwd=repository, check=False, capture_output=True)
    assert hit.exists()


@WALLS
def test_a_repository_that_lies_elsewhere_is_not_looked_at(settings: dict[str, str], workspace: str) -> None:
    """Neither its files nor its history: settings and a `.git` that is a file can name any place of the machine."""
    elsewhere = Path(workspace).with_name("elsewhere")
    elsewhere.mkdir()
    git(elsewhere, "init", "--quiet")
    (elsewhere / "secret.txt").write_text("secret\n")
    git(elsewhere, "add", ".")
    own(workspace, f"[core]\n\tworktree = {elsewhere}\n")
    with pytest.raises(OutsideWorkspace):
        asyncio.run(git_status.fn(workspace, settings, "own"))
    Path(workspace, "other").mkdir()
    Path(workspace, "other", ".git").write_text(f"gitdir: {elsewhere}/.git\n")
    with pytest.raises((OutsideWorkspace, GitFailed)):  # within the walls it is not there
        asyncio.run(git_status.fn(workspace, settings, "other"))


@WALLS
def test_the_repository_that_the_workspace_lies_in_is_not_the_agents(settings: dict[str, str], workspace: str) -> None:
    """A workspace lies in the user's project as often as not: nothing is committed there."""
    around = Path(workspace).parent
    git(around, "init", "--quiet")
    Path(workspace, "a.txt").write_text("a\n")
    with pytest.raises(GitFailed, match="not a git repository"):
        asyncio.run(git_commit.fn("a", workspace, settings))
    assert "?? workspace/" in git(around, "status", "--short")


def test_without_walls_git_says_the_same(workspace: str) -> None:
    """The word on missing walls is not taken for git's; a commit that a kill has left is found there too."""
    own(workspace)
    first = asyncio.run(git_commit.fn("It has b", workspace, {"sandbox": "off"}, "own"))
    assert first == asyncio.run(git_commit.fn("It has b", workspace, {"sandbox": "off"}, "own"))
    assert "nothing has changed" == asyncio.run(git_diff.fn(workspace, {"sandbox": "off"}, "own"))
