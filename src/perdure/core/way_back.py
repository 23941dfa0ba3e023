"""Which files of a workspace go back to what when a task goes back to a checkpoint. Pure; called by the rollback.

The rule: *undo only the task's own changes since somebody else last touched the path.* Where two things cannot stand
together (a file where a folder is needed), the one of somebody else that stands there stays, before it what somebody
else once made, before that what stood there at the checkpoint.

Not here: putting anything anywhere (`workspace/restoring.py`), and looking at a disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from perdure.core.manifest import Manifest
from perdure.model.entry import FilesCaptured
from perdure.model.files import Node

_OWNER_MAY_WORK: Final = 0o700  # what a folder's owner needs to change what is in it
_FOLDER: Final = Node("folder", 0o755)  # above a file, where no folder was ever on record

# Who comes first where two things cannot stand together.
_STANDS, _OTHERS, _CHECKPOINT = range(3)


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One path to put back; with both alike, a read-only folder that is opened on the way and closed again."""

    path: str
    expected: Node | None  # what stands there now, as the journal knows
    target: Node | None  # what is to stand there


class WayBack(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, sorted by path, and what cannot."""

    steps: tuple[Step, ...]
    foreign: tuple[str, ...]  # paths at which a change of the task is not undone, since somebody else's came on top


def way_back(checkpoint: Manifest, captures: Iterable[FilesCaptured]) -> WayBack:
    """Return the way from the end of `captures`, all those after the checkpoint in order, back to it."""
    seen = _Seen(checkpoint)
    for capture in captures:
        seen.take(capture)
    ends = _settle(seen)
    changed = [Step(path, seen.now(path), ends.get(path)) for path in seen.last]
    steps = {step.path: step for step in changed if step.expected != step.target}
    for folder in {above for path in steps for above in _above(path)} - steps.keys():
        node = seen.now(folder)
        if node is not None and node.kind == "folder" and not _is_open(node):
            steps[folder] = Step(folder, node, node)
    foreign = sorted(path for path in seen.own if ends.get(path) != seen.hoped(path))
    return WayBack(steps=tuple(steps[path] for path in sorted(steps)), foreign=tuple(foreign))


class _Seen:
    """What the captures say, path by path."""

    def __init__(self, checkpoint: Manifest) -> None:
        self.checkpoint = checkpoint
        self.last: dict[str, Node | None] = {}  # of each path that changed: what stands there now
        self.before: dict[str, Node | None] = {}  # what stood there before the task's changes, if no one came after
        self.own: set[str] = set()  # paths that the task ever changed
        self.others: set[str] = set()  # paths that somebody else ever changed
        self.on_top: set[str] = set()  # those of them that the task had changed before
        self.folders: dict[str, Node] = {}  # the last folder that stood at a path

    def take(self, capture: FilesCaptured) -> None:
        """Take the next one in."""
        for path, node in ((change.path, change.node) for change in capture.changes):
            was = self.now(path)
            if not capture.action:
                self.others.add(path)
                self.before.pop(path, None)
                self.on_top.update({path} & self.own)
            elif path not in self.before:
                self.own.add(path)
                self.before[path] = was
            for each in (was, node):
                if each is not None and each.kind == "folder":
                    self.folders[path] = each
            self.last[path] = node

    def now(self, path: str) -> Node | None:
        """Return what stands at `path` after all captures."""
        return self.last[path] if path in self.last else self.checkpoint.get(path)

    def hoped(self, path: str) -> Node | None:
        """Return what stood at a path of the task's where all that the task did to it was undone."""
        return self.checkpoint.get(path) if path in self.on_top else self.before[path]

    def wishes(self) -> Iterator[tuple[int, str, Node]]:
        """Yield what would like to stand where: (whose it is, path, node)."""
        for path, node in self.last.items():
            wish = self.before.get(path, node)
            if wish is not None:
                rank = _STANDS if path not in self.before else _OTHERS if path in self.others else _CHECKPOINT
                yield rank, path, wish


def _settle(seen: _Seen) -> dict[str, Node]:
    """Return what will stand at the paths that changed: wishes come true in order, if those before leave room."""
    ends: dict[str, Node] = {}
    needed: set[str] = set()  # folders above what will stand
    for _rank, path, node in sorted(seen.wishes(), key=lambda wish: wish[:2]):
        above = tuple(_above(path))
        if any(folder in ends and ends[folder].kind != "folder" for folder in above):
            continue
        if path not in needed or node.kind == "folder":
            ends[path] = node
            needed.update(above)
    for folder in needed & (seen.last.keys() - ends.keys()):
        now = seen.now(folder)
        ends[folder] = now if now is not None and now.kind == "folder" else seen.folders.get(folder, _FOLDER)
    return ends


def _is_open(folder: Node) -> bool:
    return folder.mode & _OWNER_MAY_WORK == _OWNER_MAY_WORK


def _above(path: str) -> Iterator[str]:
    """Yield the folders above `path`, the nearest first, without the workspace itself."""
    while path := path.rpartition("/")[0]:
        yield path
