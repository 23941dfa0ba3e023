"""The lock among processes: exclusive, bounded waiting, the holder named, nothing left by the dead."""

import os
import subprocess
import sys
import threading

import pytest

from perdure.errors import StoreBusy
from perdure.stores.sqlite.filelock import FileLock


@pytest.fixture
def lock(tmp_path):
    """A lock on a file of its own."""
    lock = FileLock(str(tmp_path / "x.lock"), "place")
    yield lock
    lock.close()


@pytest.fixture
def rival(tmp_path):
    """Another handle on the same lock."""
    rival = FileLock(str(tmp_path / "x.lock"), "place")
    yield rival
    rival.close()


def test_one_holds_it_at_a_time(lock, rival):
    """While one handle holds the lock no other gets it, not even in the same process; afterwards it does."""
    assert lock.try_take()
    assert not rival.try_take()
    lock.give()
    assert rival.try_take()


def test_waiting_ends_and_names_the_holder(lock, rival):
    """A lock that is not free in time raises StoreBusy with the pid of its holder."""
    lock.take(0)
    with pytest.raises(StoreBusy) as caught:
        rival.take(0.05)
    assert (os.getpid(), "place") == (caught.value.pid, caught.value.place)
    assert 0.05 <= caught.value.waited_s < 5


def test_a_waiter_gets_it_when_it_is_given_back(lock, rival):
    """A waiter takes the lock once its holder gives it back."""
    lock.take(0)
    waiter = threading.Thread(target=rival.take, args=(10,))
    waiter.start()
    lock.give()
    waiter.join(10)
    assert not lock.try_take()


def test_the_dead_hold_nothing(lock, tmp_path):
    """A holder that is killed frees the lock at once, whatever pid it left in the file (openclaw issue 60258)."""
    program = (
        "import sys, signal\nfrom perdure.stores.sqlite.filelock import FileLock\n"
        "lock = FileLock(sys.argv[1], 'p')\nlock.take(0)\nprint('held', flush=True)\nsignal.pause()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "x.lock")]
    with subprocess.Popen(command, env={"PYTHONPATH": "src"}, stdout=subprocess.PIPE, text=True) as holder:
        assert "held\n" == holder.stdout.readline()
        assert not lock.try_take()
        assert holder.pid == lock.holder()
        holder.kill()
    assert lock.try_take()
    assert os.getpid() == lock.holder()


@pytest.mark.parametrize("contents", [b"", b"1", b"not a pid\xff\xfe", b"own pid", b"9" * 300])
def test_what_the_file_says_decides_nothing(contents, tmp_path):
    """The lock is the operating system's: an empty or strange file, or one naming a living process, blocks nobody."""
    (tmp_path / "y.lock").write_bytes(b"%d" % os.getpid() if contents == b"own pid" else contents)
    lock = FileLock(str(tmp_path / "y.lock"), "place")
    lock.take(0)
    lock.close()
