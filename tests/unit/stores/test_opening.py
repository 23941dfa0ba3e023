"""URLs and paths become stores; what is none is refused with what to write instead."""

import asyncio
import os
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.errors import ConfigInvalid
from perdure.stores.opening import open_store
from perdure.testing.conformance.place import begun


def run_on(place, work):
    """Open the store at `place`, do `work` on it, close it."""

    async def main():
        store = await open_store(place, SystemClock())
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


async def place_of(store):
    """Where the store is."""
    return store.place


@pytest.mark.parametrize("name", ["a.db", "a b#?.db", "ü%20é.db", "✓ 🦀.db", "-x.db", "a:b.db"])
def test_a_path_is_an_sqlite_file(name, tmp_path):
    """A path is taken as it is, whatever letters it has, with its folder made for its owner alone."""
    path = tmp_path / "made" / name
    assert str(path) == run_on(path, place_of)
    assert path.is_file()
    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o700 == path.parent.stat().st_mode & 0o777


def test_sqlite_urls(tmp_path, monkeypatch):
    """Three slashes begin a relative path, four an absolute one; percent signs are escapes in a URL."""
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "in" / "a b.db") == run_on("sqlite:///in/a%20b.db", place_of)
    assert str(tmp_path / "c.db") == run_on(f"sqlite:///{tmp_path}/c.db", place_of)
    assert {"c.db", "in"} == {entry for entry in os.listdir(tmp_path) if not entry.startswith("c.db.")} - {
        "c.db-wal",
        "c.db-shm",
    }


def test_a_named_world_is_shared_and_a_nameless_one_is_not():
    """memory://NAME is one world in this process; memory:// is another each time."""
    run_on("memory://shared-by-test", begun)
    assert 1 == len(run_on("memory://shared-by-test", lambda store: store.tasks()))
    assert 0 == len(run_on("memory://other-of-test", lambda store: store.tasks()))
    run_on("memory://", begun)
    assert 0 == len(run_on("memory://", lambda store: store.tasks()))


@pytest.mark.parametrize("url", ["nosql://x", "sqlite://x.db", "sqlite:///", "postgresql://me:hush@host/db", "://"])
def test_other_urls_are_refused(url):
    """An unknown scheme is refused with the forms that exist; a password in it is not repeated."""
    with pytest.raises(ConfigInvalid, match="sqlite:///PATH") as caught:
        run_on(url, place_of)
    assert "hush" not in str(caught.value)


def test_relative_paths_do_not_follow_the_process(tmp_path, monkeypatch):
    """A store opened by a relative path stays where it was when the process changes its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    async def move_and_write(store):
        os.chdir("elsewhere")
        await begun(store)
        return len(await store.tasks())

    assert 1 == run_on("here.db", move_and_write)
    assert [] == list(Path(tmp_path, "elsewhere").iterdir())
