"""Trees of a disk as values: made, read back, compared. For the tests of what is put back."""

import contextlib
import hashlib
import os
import stat

from perdure.model.files import Node, path_to_bytes, path_to_text

FOLDER = Node("folder", 0o755)


def file(text, mode=0o644):
    """A file that holds `text`."""
    content = text.encode()
    return Node("file", mode, len(content), hashlib.sha256(content).digest())


def link(target):
    """A link to `target`."""
    return Node("link", target=target)


class Texts(dict):
    """Blobs of short texts by their digests; counts how often it is asked."""

    def __init__(self, *texts):
        super().__init__({hashlib.sha256(text.encode()).digest(): text.encode() for text in texts})
        self.asked = 0

    def __getitem__(self, digest):
        self.asked += 1
        return super().__getitem__(digest)


@contextlib.contextmanager
def opened(folder):
    """A descriptor of a folder."""
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder_fd
    finally:
        os.close(folder_fd)


def make(folder, nodes, blobs):
    """Make the tree on the disk, the plain way; returns the folder."""
    os.makedirs(folder, exist_ok=True)
    for path, node in sorted(nodes.items()):
        place = os.path.join(os.fsencode(folder), path_to_bytes(path))
        if node.kind == "folder":
            os.mkdir(place)
        elif node.kind == "link":
            os.symlink(path_to_bytes(node.target), place)
        else:
            with open(place, "xb") as out:
                out.write(dict.__getitem__(blobs, node.digest))
    for path, node in sorted(nodes.items(), reverse=True):
        if node.kind != "link":
            os.chmod(os.path.join(os.fsencode(folder), path_to_bytes(path)), node.mode)
    return folder


def read(folder):
    """All that stands on the disk under `folder`, part files too, as {path: node}."""
    found = {}
    top = os.fsencode(folder)
    pending = [b""]
    while pending:
        below = pending.pop()
        for name in os.listdir(os.path.join(top, below)):
            raw = os.path.join(below, name)
            found[path_to_text(raw)] = node = _node(os.path.join(top, raw))
            if node.kind == "folder":
                pending.append(raw)
    return found


def _node(place):
    seen = os.lstat(place)
    mode = stat.S_IMODE(seen.st_mode)
    if stat.S_ISDIR(seen.st_mode):
        return Node("folder", mode)
    if stat.S_ISLNK(seen.st_mode):
        return Node("link", target=path_to_text(os.readlink(place)))
    with open(place, "rb") as content:
        return Node("file", mode, seen.st_size, hashlib.sha256(content.read()).digest())
