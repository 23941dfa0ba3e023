"""A rollback brings back the tree at the checkpoint, and nothing of a bystander's is lost: a thousand random runs.

Tools and shell commands write, append, rename, delete, chmod, link and make folders; between them somebody else makes
and changes files in the same folders. What is expected is found by looking at the real tree after each step, naively:
a path goes back to how somebody else has left it last since the checkpoint, else to how it was at the checkpoint.
"""

import asyncio
import os
import random
import shutil
import stat
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import perdure

SEQUENCES = 1_000
PER_TEST = 125
NAMES = ("a", "b", "c", "d", "odd \n\\ name", "ü")


@perdure.tool(effect="workspace", quick=True)
def do(folder: str, seed: int) -> str:
    """Do one random thing, with Python."""
    return change(folder, random.Random(seed))


@perdure.tool(effect="workspace", quick=True)
def shell(folder: str, seed: int) -> int:
    """Do some random things at once, with a shell."""
    rng = random.Random(seed)
    command = rng.choice([
        "mkdir -p s/t && echo 1 > s/t/u", "rm -rf s", "mv a b", "cp -r s d", "find . -type f -name 'a*' -delete",
        'for f in *; do [ -f "$f" ] && echo more >> "$f"; done', "ln -sfn a l", "chmod 700 s", "rm -rf c && mkdir c",
        "echo new > n; mv -f n a", "rm -rf * ; echo all > over", "chmod -R u+w . ; true",
    ])  # fmt: skip
    return subprocess.run(["sh", "-c", command], cwd=folder, stderr=subprocess.DEVNULL, check=False).returncode


def change(folder, rng):
    """Do one random thing to a random path; return what."""
    paths = [""] + [
        str(p.relative_to(folder)) for p in sorted(Path(folder).rglob("*")) if p.is_dir() and not p.is_symlink()
    ]
    path = Path(folder, rng.choice(paths), rng.choice(NAMES))
    what = rng.choice(["write", "append", "rename", "delete", "chmod", "symlink", "mkdir"])
    try:
        match what:
            case "write":
                path.write_text(str(rng.random()))
            case "append":
                with path.open("a") as file:
                    file.write("+")
            case "rename":
                path.rename(Path(folder, rng.choice(NAMES)))
            case "delete":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "chmod":
                path.chmod(rng.choice([0o755, 0o700] if path.is_dir() else [0o644, 0o600, 0o755, 0o400]))
            case "symlink":
                path.symlink_to(rng.choice(["a", "../out", "nowhere"]))
            case "mkdir":
                path.mkdir()
    except OSError:
        return "nothing"
    return what


def folders_in(folder):
    """The folder, and those in it."""
    return [folder] + [str(p) for p in sorted(Path(folder).rglob("*")) if p.is_dir() and not p.is_symlink()]


def bystander(folder, rng):
    """Somebody else makes a file, or changes one that is there."""
    files = [p for p in sorted(Path(folder).rglob("*")) if p.is_file() and not p.is_symlink()]
    if files and rng.random() < 0.5:
        Path(rng.choice(files)).write_text(f"theirs {rng.random()}")
    else:
        Path(rng.choice(folders_in(folder)), f"theirs{rng.randrange(3)}").write_text(f"theirs {rng.random()}")


def tree(folder):
    """What stands where, looked at the simple way."""
    found = {}
    for path in Path(folder).rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[str(path.relative_to(folder))] = ("link", os.readlink(path))
        elif stat.S_ISDIR(mode):
            found[str(path.relative_to(folder))] = ("folder", stat.S_IMODE(mode))
        else:
            found[str(path.relative_to(folder))] = ("file", stat.S_IMODE(mode), path.read_bytes())
    return found


class Watch:
    """Looks at the tree after each step, and knows what is to be there after a rollback."""

    def __init__(self, folder):
        self.folder = folder
        self.now = tree(folder)
        self.at_checkpoint = None
        self.theirs = {}  # since the checkpoint: path -> as somebody else has left it last

    def step(self, *, is_theirs):
        """Note what a step has changed."""
        before, self.now = self.now, tree(self.folder)
        if is_theirs and self.at_checkpoint is not None:
            changed = [p for p in before.keys() | self.now.keys() if before.get(p) != self.now.get(p)]
            self.theirs |= {path: self.now.get(path) for path in changed}

    def mark(self):
        """This is the checkpoint."""
        self.at_checkpoint, self.theirs = dict(self.now), {}

    def judge(self):
        """Compare the tree with what is to be there; return the paths that stand in each other's way."""
        wanted = {**self.at_checkpoint, **self.theirs}
        found = tree(self.folder)
        in_the_way = {
            p
            for p in wanted
            for q in wanted
            if wanted[q] and q.startswith(p + "/") and (wanted[p] or "x")[0] != "folder"
        }
        below = {q for p in in_the_way for q in (wanted.keys() | found.keys()) if q.startswith(p + "/")}
        standing = [path for path in wanted if wanted[path]]
        needed = {"/".join(path.split("/")[:n]) for path in standing for n in range(1, path.count("/") + 1)}
        for path in (wanted.keys() | found.keys()) - in_the_way - below:
            if path in needed and not wanted.get(path):
                assert found.get(path, "x")[0] == "folder", path  # it holds what is somebody else's
                continue
            assert found.get(path) == wanted.get(path), (path, found.get(path), wanted.get(path))
        lost = [p for p, node in self.theirs.items() if node and p not in below | in_the_way and found.get(p) != node]
        assert lost == []
        return in_the_way


async def play(seed, folder, met):
    """One sequence: some steps, a checkpoint, more steps, a rollback."""
    rng = random.Random(seed)
    watch = Watch(folder)
    async with perdure.open("memory://") as runtime:
        try:
            async with runtime.task("t", workspace=folder) as task:
                marked = rng.randrange(6)
                total = marked + 1 + rng.randrange(7)
                for number in range(total):
                    if number == marked:
                        await task.checkpoint("here")
                        watch.step(is_theirs=False)
                        watch.mark()
                    await one_step(task, watch, rng, number, met)
                await task.rollback("here")
        except perdure.RolledBack:
            met["rollbacks"] += 1
    met["in each other's way"] += bool(watch.judge())


async def one_step(task, watch, rng, number, met):
    """Something is done by a tool, by a shell, or by somebody else."""
    who = rng.choice(["tool", "shell", "bystander", "tool"])
    met[who] += 1
    if who == "bystander":
        bystander(watch.folder, rng)
    else:
        await task.using(key=f"{number}").act(do if who == "tool" else shell, watch.folder, rng.randrange(10**9))
    watch.step(is_theirs=who == "bystander")


@pytest.mark.parametrize("first", range(0, SEQUENCES, PER_TEST))
def test_a_rollback_is_the_tree_at_the_checkpoint(first, tmp_path, capsys):
    """Whatever was done, and whatever somebody else did meanwhile."""
    met = Counter()
    for seed in range(first, first + PER_TEST):
        folder = tmp_path / f"w{seed}"
        folder.mkdir()
        try:
            asyncio.run(play(seed, str(folder), met))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    with capsys.disabled():
        print(f"\nsequences {PER_TEST}, {dict(met)}")
    assert met["rollbacks"] == PER_TEST
    assert min(met[who] for who in ("tool", "shell", "bystander")) > PER_TEST
