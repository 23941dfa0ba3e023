"""What the tests of `workspace/` share: a look taken into a manifest, and a naive walk to compare it with."""

import contextlib
import hashlib
import os
import stat

from perdure.core.manifest import Manifest
from perdure.model.files import FileChange, Node, path_to_text
from perdure.workspace.capture import Capturer
from perdure.workspace.folder import Folder
from perdure.workspace.ignoring import Ignoring


@contextlib.contextmanager
def watched(path, *patterns, **options):
    """A capturer of the folder at `path`, and an empty manifest."""
    folder = Folder.open(path)
    try:
        yield Capturer(folder, Ignoring(patterns), **options), Manifest()
    finally:
        folder.close()


def take(capturer, manifest, paths=None):
    """Take one look in; return what it changed: path → node."""
    seen = {}
    for batch in capturer.look(manifest, paths):
        named = {change.node.digest for change in batch.changes if change.node and change.node.kind == "file"}
        assert named == set(batch.blobs)  # what an append holds is what it names
        assert all(digest == hashlib.sha256(content).digest() for digest, content in batch.blobs.items())
        assert not seen.keys() & {change.path for change in batch.changes}
        seen |= {change.path: change.node for change in batch.changes}
        manifest.apply(batch.changes)
    return seen


def walk(path):
    """The manifest of what stands on the disk, as simple as can be; knows files, links and folders."""
    made, top = Manifest(), os.fsencode(path)
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            place = os.path.join(folder, name)
            made.apply([FileChange(path_to_text(os.path.relpath(place, top)), _node(place))])
    return made


def _node(place):
    found = os.lstat(place)
    if stat.S_ISLNK(found.st_mode):
        return Node("link", target=path_to_text(os.readlink(place)))
    if stat.S_ISDIR(found.st_mode):
        return Node("folder", stat.S_IMODE(found.st_mode))
    with open(place, "rb") as file:
        content = file.read()
    return Node("file", stat.S_IMODE(found.st_mode), len(content), hashlib.sha256(content).digest())
