"""Power cuts, for real: ext4 on a loop device is shut down in mid-run, everything that was not synced is gone."""

import random
import time

import pytest

from tests.fire import disks
from tests.fire.children import Child, doubled, go_on, look, settle_if_asked

WHY_NOT = disks.why_not("mkfs.ext4", "losetup")
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"power cuts are NOT tested here: {WHY_NOT}")
CUTS = (
    (1, 17, 9),
    pytest.param(tuple(random.Random(1).randrange(1, 12) for _ in range(24)), marks=pytest.mark.slow),
)


def cut_power(disk, world, after, delay_s=0.0, **order):
    """Run until `after` acts are acknowledged, and `delay_s` more, cut the power; return what the process has said.

    The process is stopped first, wherever it is: a machine without power runs nothing. One that ran on while its disk
    is shut down is told by the kernel, for a moment, that syncs have succeeded which have not.
    """
    with Child(disk.at / "store" / "a.db", world, **order) as child:
        child.hear(lambda heard: len(heard.acks) >= after)
        time.sleep(delay_s)
        child.stop()
        disk.cut()
        child.process.kill()
        child.finish()
    disk.unmount()
    disk.mount()
    return child


@pytest.mark.parametrize("cuts", CUTS, ids=["three", "many"])
def test_nothing_acknowledged_is_lost_in_a_power_cut(cuts, tmp_path):
    """Each act that has returned is there after each power cut; the task goes on and sends nothing twice."""
    count = sum(cuts) + 20
    with disks.disk(tmp_path) as disk:
        place, world = disk.at / "store" / "a.db", tmp_path / "world"
        acknowledged: set[int] = set()
        for number, after in enumerate(cuts):
            acknowledged |= set(cut_power(disk, world, after, delay_s=number % 8 / 2000, count=count).acks)
            found = look(place)
            assert [] == found.findings
            assert acknowledged <= set(found.state["sent"])
            settle_if_asked(place, world)
        end = go_on(place, world, count=count)
    print(f"power cuts: {len(cuts)}, acknowledged before them: {len(acknowledged)}")
    assert len(acknowledged) >= len(cuts)
    assert (list(range(count)), [], "succeeded") == (end.state["sent"], end.findings, end.status)
    assert [] == doubled(world)


def test_a_file_that_was_written_comes_back_from_the_store_after_a_power_cut(tmp_path):
    """Nobody synced it, so the disk has lost it; its bytes stand in the append that settled the action."""
    count, after = 60, 25
    with disks.disk(tmp_path) as disk:
        place, world, folder = disk.at / "store" / "a.db", tmp_path / "world", disk.at / "work"
        folder.mkdir()
        disks.call("sync", "--file-system", str(disk.at))
        order = {"count": count, "program": "write", "workspace": str(folder)}
        acknowledged = set(cut_power(disk, world, after, **order).acks)
        lost = {number for number in acknowledged if not _is_page(folder, number)}
        end = go_on(place, world, **order, resume=True)
        pages = [number for number in range(count) if _is_page(folder, number)]
    print(f"power cuts: 1, files acknowledged: {len(acknowledged)}, lost by the disk: {len(lost)}, back: {len(pages)}")
    assert lost, "the disk has lost nothing: this shows nothing"
    assert (list(range(count)), [], "succeeded") == (pages, end.findings, end.status)


def _is_page(folder, number):
    path = folder / f"{number}.txt"
    return path.exists() and path.read_text() == f"page {number}\n" * 100


def test_the_test_of_power_cuts_can_fail(tmp_path):
    """With synchronous=NORMAL the same cut loses acts that had returned: what FULL buys, and that this test sees it."""
    with disks.disk(tmp_path) as disk:
        place, world = disk.at / "store" / "a.db", tmp_path / "world"
        look(place)
        disks.call("sync", "--file-system", str(disk.at))
        acknowledged = set(cut_power(disk, world, 25, count=60, synchronous="NORMAL").acks)
        kept = set(look(place).state["sent"])
    print(f"power cuts: 1, acknowledged {len(acknowledged)}, kept {len(acknowledged & kept)}")
    assert len(acknowledged) >= 25
    assert acknowledged - kept


def test_a_process_that_outlives_its_disk_is_told_that_the_store_is_broken(tmp_path):
    """The disk goes and the process stays: StoreBroken, from the first failed sync on and for every later run."""
    order = {"count": 1000, "rounds": 3}
    with disks.disk(tmp_path) as disk, Child(disk.at / "store" / "a.db", tmp_path / "world", **order) as child:
        child.hear(lambda heard: len(heard.acks) >= 5)
        disk.cut()
        child.finish()
    print(f"power cuts: 1, acts before: {len(child.acks)}")
    assert ["StoreBroken"] * 3 == child.refusals
    assert 0 == child.process.returncode
