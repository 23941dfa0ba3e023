"""Power cuts, for real: ext4 on a loop device is shut down in mid-run, everything that was not synced is gone."""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fire.children import Child, doubled, go_on, look

EXT4_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
WITHOUT_FLUSHING = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH: not even ext4's own journal is written
COUNT = 50


def _why_not() -> str:
    """Return what is missing to cut the power of a file system, "" where nothing is."""
    if os.geteuid() != 0:
        return "only root may mount"
    missing = [name for name in ("mkfs.ext4", "mount", "umount", "losetup") if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    found = subprocess.run(["losetup", "-f"], capture_output=True, text=True, check=False)
    return "" if found.returncode == 0 else f"no loop device: {found.stderr.strip()}"


needs_power = pytest.mark.skipif(bool(_why_not()), reason=f"power cuts are NOT tested here: {_why_not()}")


class Disk:
    """A file system whose power can be cut."""

    def __init__(self, folder: Path) -> None:
        self.at = folder / "disk"
        self.at.mkdir()
        self._image = folder / "image"
        with open(self._image, "wb") as image:
            image.truncate(32 << 20)
        _call("mkfs.ext4", "-q", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Give it power; what its journal says is brought over."""
        _call("mount", "-o", "loop", str(self._image), str(self.at))

    def cut(self) -> None:
        """Take the power away."""
        folder = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_SHUTDOWN, WITHOUT_FLUSHING)
        finally:
            os.close(folder)

    def unmount(self) -> None:
        """Let go of it."""
        _call("umount", str(self.at))


@pytest.fixture
def disk(tmp_path) -> Iterator[Disk]:
    """A disk, unmounted at the end whatever happens."""
    made = Disk(tmp_path)
    yield made
    with contextlib.suppress(subprocess.CalledProcessError):
        made.unmount()


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _cut_power(disk: Disk, world: Path, after: int, **order: object) -> Child:
    """Run until `after` acts are acknowledged, cut the power, end the process; return what it has said."""
    with Child(disk.at / "store" / "a.db", world, count=COUNT, **order) as child:
        child.hear(lambda heard: len(heard.acks) >= after)
        disk.cut()
        child.process.kill()
        child.finish()
    disk.unmount()
    disk.mount()
    return child


@needs_power
def test_nothing_acknowledged_is_lost_in_a_power_cut(disk, tmp_path):
    """Each act that has returned is there after each of three power cuts; the task goes on and sends nothing twice."""
    place, world = disk.at / "store" / "a.db", tmp_path / "world"
    acknowledged: set[int] = set()
    for after in (1, 17, 9):
        acknowledged |= set(_cut_power(disk, world, after).acks)
        found = look(place)
        assert [] == found.findings
        assert acknowledged <= set(found.state["sent"])
    end = go_on(place, world, count=COUNT)
    print(f"power cuts: 3, acknowledged before them: {len(acknowledged)}")
    assert list(range(COUNT)) == end.state["sent"]
    assert ([], "succeeded") == (end.findings, end.status)
    assert [] == doubled(world)


@needs_power
def test_the_test_of_power_cuts_can_fail(disk, tmp_path):
    """With synchronous=NORMAL the same cut loses acts that had returned: what FULL buys, and that this test sees it."""
    place, world = disk.at / "store" / "a.db", tmp_path / "world"
    look(place)
    _call("sync")
    acknowledged = set(_cut_power(disk, world, 25, synchronous="NORMAL").acks)
    kept = set(look(place).state["sent"])
    print(f"power cuts: 1, acknowledged {len(acknowledged)}, kept {len(acknowledged & kept)}")
    assert len(acknowledged) >= 25
    assert acknowledged - kept
