"""Whatever is done to a workspace, after a look the manifest says what stands there."""

import contextlib
import os
import shutil
import tempfile

from hypothesis import event, given, settings
from hypothesis import strategies as st

from perdure.model.files import path_to_text
from tests.unit.workspace.trees import take, walk, watched

SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # as fast as can be
NAMES = st.sampled_from([b"a", b"b", b"n\nl", b"\xff\\", "ü".encode(), b".git"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join).filter(lambda path: not path.startswith(b".git"))
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from([b"", b"one", b"two", b"longer"])),
    st.tuples(st.just("folder"), PATHS, st.none()),
    st.tuples(st.just("link"), PATHS, st.sampled_from([b"a", b"../..", b"\xff\\", b"/etc"])),
    st.tuples(st.just("remove"), PATHS, st.none()),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("mode"), PATHS, st.sampled_from([0o600, 0o755, 0o700])),
    st.tuples(st.just("look"), st.none(), st.none()),
    st.tuples(st.just("look at"), st.lists(PATHS, min_size=1, max_size=3), st.none()),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(OPERATIONS, max_size=25))
def test_the_manifest_is_what_stands_there(operations):
    """Random changes and looks, whole ones and declared ones; the last look leaves the manifest as a naive walk."""
    place = os.path.realpath(tempfile.mkdtemp(prefix="perdure-capture-", dir=SHARED_MEMORY))
    try:
        with watched(place) as (capturer, manifest):
            for what, path, value in operations:
                _do(capturer, manifest, place, (what, path, value))
            take(capturer, manifest)
            assert walk(place) == manifest
            assert {} == take(capturer, manifest)
            assert {} == capturer.uncovered
            event(f"{min(len(manifest), 5)} paths or more")
    finally:
        shutil.rmtree(place)


def _do(capturer, manifest, place, operation):
    what, path, value = operation
    if what == "look":
        take(capturer, manifest)
        assert walk(place) == manifest
    elif what == "look at":
        _look_at(capturer, manifest, place, path)
    else:
        top = os.fsencode(place)
        with contextlib.suppress(OSError, shutil.Error):
            _change(_inside(top, path), what, _inside(top, value) if what == "move" else value)


def _inside(top, path):
    """Where `path` is; never through a link, because that may lead out of the test's own folder."""
    whole = os.path.join(top, path)
    if os.path.realpath(os.path.dirname(whole)) != os.path.dirname(whole):
        raise NotADirectoryError(whole)
    return whole


def _look_at(capturer, manifest, place, raws):
    """A look at some paths leaves them, and the folders above them, as they stand."""
    paths = [path_to_text(raw) for raw in raws]
    take(capturer, manifest, paths)
    there = walk(place)
    for path in paths:
        names = path.split("/")
        above = ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]
        assert [there.get(folder) for folder in above] == [manifest.get(folder) for folder in above]
        assert list(there.items(path)) == list(manifest.items(path))


def _change(path, what, value):
    if what == "folder":
        os.makedirs(path)
    elif what == "link":
        os.symlink(value, path)
    elif what == "move":
        os.rename(path, value)
    elif what == "remove" and os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif what == "remove":
        os.unlink(path)
    elif os.path.islink(path):
        return
    elif what == "mode":
        os.chmod(path, value)
    else:
        with open(path, "wb") as file:
            file.write(value)
