"""From what a person types to a store: URL or path -> `ports.Store`. Called by the runtime; knows every store."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import unquote

from perdure.errors import ConfigInvalid
from perdure.ports import Clock, Store
from perdure.stores.memory import MemoryStore, MemoryWorld

_worlds: Final[dict[str, MemoryWorld]] = {}  # the named ones, for as long as the process lives


async def open_store(place: str | os.PathLike[str], clock: Clock) -> Store:
    """Open the store at `place`, making it where nothing is.

    A path or `sqlite:///PATH` (`sqlite:////ABSOLUTE`) is an SQLite file; `memory://` a new world of its own,
    `memory://NAME` the world of that name in this process. Raises ConfigInvalid for any other scheme, and what the
    store raises: StoreUnreadable, StoreTooNew, StoreBusy, StoreFull, StoreBroken.
    """
    text = os.fspath(place)
    scheme, mark, rest = text.partition("://")
    if not mark:
        return await _open_sqlite(text, clock)
    if scheme == "sqlite" and rest.startswith("/") and rest != "/":
        return await _open_sqlite(unquote(rest[1:]), clock)
    if scheme == "memory":
        world = _worlds.setdefault(rest, MemoryWorld()) if rest else MemoryWorld()
        return MemoryStore(world, clock, text)
    raise ConfigInvalid("store", f"{_hide_password(text)!r} is none of PATH, sqlite:///PATH, memory://NAME")


async def open_to_look(place: str | os.PathLike[str], clock: Clock) -> Store:
    """As `open_store`, but nothing is ever written: no file is made, changed or locked, all that writes is refused.

    For copies, and for folders in which nothing may be written. Raises StoreUnreadable where nothing is.
    """
    path = os.fspath(place)
    if "://" in path and not path.startswith("sqlite:///"):
        return await open_store(path, clock)
    from perdure.stores.sqlite.looking import look_into_sqlite

    return look_into_sqlite(unquote(path.removeprefix("sqlite:///")) if "://" in path else path, clock)


async def _open_sqlite(path: str, clock: Clock) -> Store:
    from perdure.stores.sqlite.store import open_sqlite

    return await open_sqlite(path, clock)


def _hide_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{at}{host}" if at else url
