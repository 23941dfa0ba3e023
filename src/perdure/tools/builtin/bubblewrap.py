"""bubblewrap: whether it can be used here, and what it is told so that a program sees next to nothing of the machine.

Called by `sandbox.py`, which starts it. The system is read-only and holds what programs need; of the user's files only
the workspace is there. What this holds, and what it does not: docs/explanation/sandbox.md.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from perdure.limits import COMMAND_END_S, COMMAND_TMP_BYTES, MIB

UID: Final = "1000"  # inside, whoever runs it outside; called "agent" in `etc/`
HOST: Final = "sandbox"

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
# No more of /etc than programs look for: no passwords, no settings of services, nobody's name.
_ETC: Final = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "fonts",
    "host.conf",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
_OUR_ETC: Final = os.path.join(os.path.dirname(__file__), "etc")
_ETC_OF_NETWORK: Final = ("gai.conf", "hosts", "resolv.conf")
_READ_ONLY_IN_WORKSPACE: Final = (".git/config", ".git/hooks")  # what is written there runs outside, by the next git
# A shell is the first process inside, and all others end with it. bubblewrap's own would be one too many: it comes from
# outside of the walls, and who is root there could write to its file through /proc/1/exe.
# `ulimit` has two names for the number of processes. Inside its own user namespace a count begins at nought.
_LIMIT_AND_RUN: Final = '{ ulimit -u "$0" || ulimit -p "$0"; } 2>/dev/null; "$@"; exit "$?"'


class Bubblewrap(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about it."""

    program: str = ""  # its path; empty: programs cannot be isolated
    reason: str = ""  # why not, and what to do


@functools.cache
def find() -> Bubblewrap:
    """Return whether bubblewrap isolates programs here: tried once in each process, with all that is asked of it."""
    if sys.platform != "linux":
        return Bubblewrap(reason="bubblewrap is for Linux only")
    program = shutil.which("bwrap")
    if program is None:
        return Bubblewrap(reason="bubblewrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)")
    argv = [program, *_walls(network=False), *_system(network=False), "--remount-ro", "/", "--", "/bin/sh", "-c", ":"]
    try:
        tried = subprocess.run(  # noqa: S603 - nothing in it is anybody's but ours
            argv, capture_output=True, timeout=COMMAND_END_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Bubblewrap(reason=f"bubblewrap ({program}) does not run: {error}")
    if tried.returncode != 0:
        said = tried.stderr.decode("utf-8", "replace").strip() or f"exit code {tried.returncode}"
        return Bubblewrap(reason=f"bubblewrap ({program}, 0.8 or later) may not isolate programs here: {said}")
    return Bubblewrap(program=program)


def wrap(
    argv: Sequence[str], *, workspace: str, cwd: str, env: Mapping[str, str], network: bool, tasks_max: int
) -> list[str]:
    """Return the command that runs `argv` inside: `workspace` is all that it can write to and outlives it.

    `find` has said that it can be used.
    """
    told = [find().program, *_walls(network=network), *_system(network=network)]
    for place, is_writable in sorted(_places(workspace), key=lambda found: found[0].count(os.sep)):
        told += ["--bind" if is_writable else "--ro-bind", place, place]
    if os.path.realpath(workspace) != workspace:
        told += ["--symlink", os.path.realpath(workspace), workspace]
    told += _masked(workspace)
    for name, value in env.items():
        told += ["--setenv", name, value]
    told += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", cwd, "--"]
    return [*told, "/bin/sh", "-c", _LIMIT_AND_RUN, str(tasks_max), *argv]


def _walls(*, network: bool) -> list[str]:
    told = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", UID, "--gid", UID, "--hostname", HOST]
    return [
        *told,
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        "--clearenv",
        *(["--share-net"] if network else []),
    ]


def _system(*, network: bool) -> list[str]:
    """Return what is read-only, and the folders that are made anew for each program."""
    told: list[str] = []
    for place in _SYSTEM:
        if os.path.islink(place):
            told += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            told += ["--ro-bind", place, place]
    for name in (*_ETC, *(_ETC_OF_NETWORK if network else ())):
        told += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in ("group", "passwd"):
        told += ["--ro-bind", os.path.join(_OUR_ETC, name), f"/etc/{name}"]
    # Who is root outside is root to /proc/sys, whatever he is called inside: he could say what a crash runs, as root.
    told += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]
    for place, size_bytes in (("/tmp", COMMAND_TMP_BYTES), ("/var/tmp", MIB), ("/dev/shm", COMMAND_TMP_BYTES)):  # noqa: S108 - private ones
        told += ["--perms", "1777", "--size", str(size_bytes), "--tmpfs", place]
    return told


def _places(workspace: str) -> Iterator[tuple[str, bool]]:
    """What of the user's files is there, where it stands outside as well, and whether it may be written to."""
    real = os.path.realpath(workspace)
    yield real, True
    for name in _READ_ONLY_IN_WORKSPACE:
        path = os.path.join(real, name)
        if os.path.realpath(path) == path and os.path.exists(path):
            yield os.path.join(real, ".git"), True  # a mount of its own cannot be moved out of the way
            yield path, False
    yield from ((path, False) for path in _of_python())


def _of_python() -> Iterable[str]:
    """Return where the running Python and its packages lie, so that programs have the same; not what /usr holds."""
    executable = os.path.realpath(sys.executable)
    found = {sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)}
    if not any(executable.startswith(f"{prefix}{os.sep}") for prefix in found):
        found.add(executable)
    home = os.path.expanduser("~")
    return sorted(path for path in found if not _is_too_much(path, home))


def _is_too_much(path: str, home: str) -> bool:
    """Whether a folder of Python's is there already, or holds far more than Python."""
    return path in {"/", "/usr"} or path.startswith("/usr/") or home == path or home.startswith(f"{path}{os.sep}")


def _masked(workspace: str) -> list[str]:
    """Return what hides perdure's own folder, if one lies in the workspace: settings, keys, stores."""
    place = os.path.join(os.path.realpath(workspace), ".perdure")
    if os.path.islink(place) or not os.path.isdir(place):
        return []
    return ["--tmpfs", place, "--remount-ro", place]
