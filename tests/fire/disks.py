"""File systems that a test may cut off or fill: ext4 on a loop device, and memory of a fixed size. Root only."""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

EXT4_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
CAP_SYS_ADMIN = 21
WITHOUT_FLUSHING = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH: not even ext4's own journal is written


def why_not(*programs: str) -> str:
    """Return what is missing to mount things here, "" where nothing is."""
    missing = [name for name in ("mount", "umount", *programs) if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0 or not _may_administrate():
        return "only root (CAP_SYS_ADMIN) may mount"
    if "losetup" not in programs:
        return ""
    found = subprocess.run(["losetup", "-f"], capture_output=True, text=True, check=False)
    return "" if found.returncode == 0 else f"no loop device: {found.stderr.strip()}"


def _may_administrate() -> bool:
    with open("/proc/self/status") as status:
        held = next(int(line.split()[1], 16) for line in status if line.startswith("CapEff"))
    return bool(held >> CAP_SYS_ADMIN & 1)


class Disk:
    """A file system whose power can be cut."""

    def __init__(self, folder: Path) -> None:
        self.at = folder / "disk"
        self.at.mkdir()
        self._image = folder / "image"
        with open(self._image, "wb") as image:
            image.truncate(32 << 20)
        call("mkfs.ext4", "-q", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Give it power; what its journal says is brought over."""
        call("mount", "-o", "loop", str(self._image), str(self.at))

    def cut(self) -> None:
        """Take the power away."""
        folder = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_SHUTDOWN, WITHOUT_FLUSHING)
        finally:
            os.close(folder)

    def unmount(self) -> None:
        """Let go of it."""
        call("umount", str(self.at))


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """Make a disk, let go of it at the end whatever happens."""
    made = Disk(folder)
    try:
        yield made
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            made.unmount()


@contextlib.contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """Make a file system in memory that is full after `size_mib`."""
    folder.mkdir()
    call("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        call("umount", "--lazy", str(folder))


def call(*command: str) -> None:
    """Run a command that must work."""
    subprocess.run(command, check=True, capture_output=True)
