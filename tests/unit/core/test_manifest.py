"""The manifest takes changes in, knows folders' digests, and tells what lies between two trees."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.manifest import Manifest
from perdure.model.files import FileChange, Node, path_to_bytes, path_to_text

NAMES = st.sampled_from(["a", "b", "c/d", "c/e", "c/f/g", "h"])
NODES = st.builds(lambda mode, digest: Node("file", mode, 3, digest), st.integers(0, 7), st.binary(max_size=2))


def of(tree):
    """A manifest of those files, with the folders in which they stand."""
    made = Manifest()
    folders = {path.rpartition("/")[0] for path in tree} | {"c" for path in tree if path.startswith("c/f")}
    made.apply(FileChange(path, Node("folder", 0o755)) for path in folders if path)
    made.apply(FileChange(path, node) for path, node in tree.items())
    return made


@given(st.dictionaries(NAMES, NODES), st.dictionaries(NAMES, NODES))
def test_changes_make_one_tree_the_other(left, right):
    """What `changes_to` returns, applied, gives an equal tree with an equal digest, whatever the way to it."""
    one, other = of(left), of(right)
    one.digest()  # a digest that is known before must not survive the changes
    changes = one.changes_to(other)
    one.apply(reversed(changes))
    assert (one, one.digest(), len(one)) == (other, of(right).digest(), len(other))
    assert (one.digest() == of(left).digest()) == (left == right)


@given(st.dictionaries(NAMES, NODES))
def test_it_reads_back_and_copies_are_apart(tree):
    """Encoded and read it is the same; a copy changes alone."""
    one = of(tree)
    again = Manifest.from_raw(msgspec.json.encode(one.to_value()))
    assert (again, len(again), again.digest()) == (one, len(one), one.digest())
    copy = one.copy()
    copy.apply([FileChange("new", Node("link", target="a"))])
    assert one == again != copy


def test_it_knows_what_the_task_has_written():
    """A path is the task's own from its change on, until somebody else changes it or it is gone."""
    one = Manifest()
    one.apply([FileChange("a", Node("file")), FileChange("b", Node("file")), FileChange("c", Node("file"))], 7)
    one.apply([FileChange("a", Node("file", 1)), FileChange("d", Node("file"))])
    one.apply([FileChange("b", None)], 8)
    assert one.written == {"c": 7}
    assert Manifest.from_raw(msgspec.json.encode(one.to_value())).written == {"c": 7}


def test_a_folders_digest_follows_what_is_under_it():
    """A change three folders down changes the digests above it and leaves the neighbours'."""
    one = of({"c": Node("folder", 0o755), "c/f": Node("folder", 0o755), "c/f/g": Node("file"), "n": Node("folder")})
    before = one.digest(), one.digest("c"), one.digest("n")
    one.apply([FileChange("c/f/g", Node("file", 0o600))])
    after = one.digest(), one.digest("c"), one.digest("n")
    assert [was == now for was, now in zip(before, after, strict=True)] == [False, False, True]
    assert [path for path, _ in one.items()] == ["c", "n", "c/f", "c/f/g"]


@given(st.binary())
def test_each_name_of_a_disk_has_one_text(raw):
    """Odd bytes and backslashes come back as they were, and the text is one that JSON can hold."""
    text = path_to_text(raw)
    text.encode()
    assert path_to_bytes(text) == raw


def test_a_tree_may_be_deeper_than_calls_may():
    """The digest of five thousand folders in each other is that of a tree made anew, also after a change far below."""
    deep = ["/".join("d" * depth) for depth in range(1, 5_000)]
    one, other = Manifest(), Manifest()
    one.apply(FileChange(path, Node("folder", 0o755)) for path in deep)
    before = one.digest()
    change = FileChange(f"{deep[-1]}/f", Node("file", 0o644, 1, b"x"))
    one.apply([change])
    other.apply([change, *(FileChange(path, Node("folder", 0o755)) for path in deep)])
    assert before != one.digest() == other.digest()
