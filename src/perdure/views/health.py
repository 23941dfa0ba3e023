"""Can perdure work well here? What `perdure doctor` looks at: each check is ok, warn or stop, with its remedy.

Only looks: makes no store, removes nothing, and shows names of keys, never their values.
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import platform
import re
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from perdure.clock import SystemClock
from perdure.codec.environment import secrets_in
from perdure.config import Config, unknown_variables
from perdure.errors import StoreError, UsageError
from perdure.limits import MIB
from perdure.llm.naming import keys_wanted
from perdure.ports import Store
from perdure.stores.opening import open_store
from perdure.views.listing import list_tasks

_SQLITE_MIN: Final = (3, 35, 0)
_STOP_BELOW: Final = 64 * MIB
_WARN_BELOW: Final = 1024 * MIB
_KEY: Final = re.compile(r"(^|_)(API_?KEY|ACCESS_KEY(_ID)?|AUTH_TOKEN|TOKEN|SECRET(_KEY)?)$")
_EXTRAS: Final = {"agent": "charset_normalizer"}
_REMOTE: Final = re.compile(r"nfs\d?|cifs|smb\w*|9p|virtiofs|fuse\S*|afs|ceph|gfs2|lustre|glusterfs")
_ABSENT: Final = "no store"
_FLEETING: Final = frozenset({"tmpfs", "ramfs"})


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing looked at."""

    name: str
    verdict: Literal["ok", "warn", "stop"]
    text: str
    remedy: str = ""


async def examine(config: Config, environ: Mapping[str, str], mounts: str = "/proc/mounts") -> list[Check]:
    """Look at this machine and at the store of `config`."""
    place = config.text("store")
    checks = [*await asyncio.to_thread(_machine, place, environ, mounts), _models(config, environ), _notices(config)]
    if any(check.name == _ABSENT for check in checks):
        return checks
    checks.append(await _store(place))
    if checks[-1].verdict == "ok" and _file_of(place) is not None:
        checks += [await asyncio.to_thread(_journal_mode, place), await _tasks(place)]
    return checks


def _machine(place: str, environ: Mapping[str, str], mounts: str) -> list[Check]:
    checks = [_python(), _sqlite(), _extras(), _keys(environ), _secrets(environ), _variables(environ)]
    path = _file_of(place)
    if path is None:
        return checks
    folder = next(above for above in path.parents if above.is_dir())
    checks += [_filesystem(folder, mounts), _space(folder), _holders(path.parent / "holders")]
    if not path.exists():
        remedy = f"make {folder} writable, or name another place"
        checks.append(_check(_ABSENT, f"none yet at {path}", stop=not os.access(folder, os.W_OK), remedy=remedy))
    return checks


def _file_of(place: str) -> Path | None:
    """Return the file of an SQLite store, None for any other."""
    path = place.removeprefix("sqlite:///")
    return None if "://" in path else Path(os.path.abspath(path))


def _check(name: str, text: str, *, warn: bool = False, stop: bool = False, remedy: str = "") -> Check:
    verdict: Literal["ok", "warn", "stop"] = "stop" if stop else "warn" if warn else "ok"
    return Check(name=name, verdict=verdict, text=text, remedy=remedy if warn or stop else "")


def _python() -> Check:
    is_old = sys.version_info < (3, 11)
    return _check("python", platform.python_version(), stop=is_old, remedy="install Python 3.11 or later")


def _sqlite() -> Check:
    is_old = sqlite3.sqlite_version_info < _SQLITE_MIN
    needed = ".".join(map(str, _SQLITE_MIN))
    return _check("sqlite", sqlite3.sqlite_version, stop=is_old, remedy=f"perdure needs SQLite {needed}")


def _extras() -> Check:
    missing = sorted(extra for extra, module in _EXTRAS.items() if importlib.util.find_spec(module) is None)
    there = sorted(_EXTRAS.keys() - set(missing))
    text = f"installed: {', '.join(there) or 'none'}" + (f"; not installed: {', '.join(missing)}" if missing else "")
    return _check("extras", text, warn=bool(missing), remedy=f"pip install 'perdure[{','.join(missing)}]'")


def _keys(environ: Mapping[str, str]) -> Check:
    names = sorted(name for name in environ if _KEY.search(name))
    return _check("keys", f"in the environment: {', '.join(names) or 'none'} (offline needs none)")


def _models(config: Config, environ: Mapping[str, str]) -> Check:
    """Whether the models of the settings have the keys that they need."""
    models = [config.text(name) for name in ("model", "fast_model") if config.text(name)]
    url = config.text("base_url")
    lacking = {model: names for model in models if (names := _lacking(model, environ, url))}
    text = "; ".join(f"{model} needs {' or '.join(names)}, which is not set" for model, names in lacking.items())
    chosen = f"chosen in the settings: {', '.join(models) or 'none'}"
    return _check("models", text or chosen, warn=bool(lacking), remedy="set it in the environment, or in .env")


def _lacking(model: str, environ: Mapping[str, str], url: str) -> tuple[str, ...]:
    names = keys_wanted(model, environ, url)
    return () if any(environ.get(name, "").strip() for name in names) else names


def _secrets(environ: Mapping[str, str]) -> Check:
    """Which variables are masked wherever their texts would be recorded or shown."""
    names = sorted({name for name, _ in secrets_in(environ)})
    text = (
        f"{len(names)} known, masked in all records: {', '.join(names)}" if names else "none known in the environment"
    )
    return _check("secrets", text)


def _variables(environ: Mapping[str, str]) -> Check:
    unknown = unknown_variables(environ)
    text = ", ".join(f"{name} sets nothing" + (f" ({near}?)" if near else "") for name, near in unknown.items())
    return _check(
        "environment", text or "no unknown PERDURE_ variable", warn=bool(unknown), remedy="correct or unset it"
    )


def _notices(config: Config) -> Check:
    """Whether somebody can be told of a task that needs them."""
    url, command = config.text("notify_url"), config.text("notify_command")
    if not url and not command:
        return _check("notices", "nobody is told: neither notify_url nor notify_command is set")
    from perdure.engine.notifying import hooks_for

    try:
        places = [hook.place for hook in hooks_for(url, command)]
    except UsageError as error:
        return _check("notices", str(error), stop=True, remedy="correct the setting")
    missing = [place for place in places if "://" not in place and shutil.which(place) is None]
    text = f"told: {', '.join(places)}" + (f"; there is no command {missing[0]!r}" if missing else "")
    return _check("notices", text, warn=bool(missing), remedy="install it, or correct notify_command")


def _filesystem(folder: Path, mounts: str) -> Check:
    kind = _kind_of(folder, mounts)
    if _REMOTE.fullmatch(kind):
        remedy = "locks and fsync may not hold there; keep the store on a local disk"
        return _check("file system", f"{kind} at {folder}", warn=True, remedy=remedy)
    if kind in _FLEETING:
        return _check(
            "file system", f"{kind} at {folder}", warn=True, remedy="it is gone after a reboot; keep it on a disk"
        )
    return _check("file system", f"{kind or 'of unknown kind'} at {folder}")


def _kind_of(folder: Path, mounts: str) -> str:
    """Return the kind of the file system that holds `folder`; of mount points above it the longest counts."""
    try:
        lines = Path(mounts).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    real, best, kind = os.path.realpath(folder), "", ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:  # noqa: PLR2004 - device, point, kind: fstab(5)
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[1])
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _space(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    is_little, is_none = free < _WARN_BELOW, free < _STOP_BELOW
    text = f"{free / MIB:,.0f} MiB free at {folder}"
    return _check("space", text, warn=is_little, stop=is_none, remedy="free some; a full disk pauses every task")


def _holders(folder: Path) -> Check:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    dead = sum(not _is_locked(file) for file in files)
    text = f"{len(files) - dead} at work, {dead} left over from killed processes"
    return _check("holders", text + ("; harmless, the next claim clears them" if dead else ""))


def _is_locked(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


async def _store(place: str) -> Check:
    try:
        store = await open_store(place, SystemClock())
    except StoreError as error:
        return _check(
            "store", str(error), stop=True, remedy="keep the file as it is; restore a copy, or name another place"
        )
    powers = ", ".join(sorted(store.capabilities))
    await store.close()
    return _check("store", f"{store.place} opens ({powers})")


def _journal_mode(place: str) -> Check:
    path = _file_of(place) or Path()
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        connection.close()
    remedy = "WAL needs shared memory: keep the store on a local disk"
    return _check("journal mode", mode, stop=mode != "wal", remedy=remedy)


async def _tasks(place: str) -> Check:
    store: Store = await open_store(place, SystemClock())
    try:
        rows = await list_tasks(store)
    finally:
        await store.close()
    counts = Counter(row.standing for row in rows)
    text = ", ".join(f"{number} {standing}" for standing, number in sorted(counts.items())) or "none unfinished"
    waiting = counts["interrupted"] + counts["needs_human"]
    remedy = "perdure resume --all --due" if counts["interrupted"] else "perdure list"
    return _check("tasks", text, warn=waiting > 0, remedy=remedy)
