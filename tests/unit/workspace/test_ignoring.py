"""Which paths are left aside: a small part of gitignore's language, and what it does not have is refused."""

import pytest

from perdure.errors import ConfigInvalid
from perdure.workspace.ignoring import DEFAULTS, Ignoring


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.pyc", ["a.pyc", "d/a.pyc", ".pyc", "folder.pyc/"], ["a.py", "a.pyc.txt"]),
        ("out/", ["out/", "a/out/"], ["out", "a/out", "outer/", "rout/"]),
        ("out", ["out/", "out", "a/b/out"], ["outer", "rout"]),
        ("/out", ["out", "out/"], ["a/out", "a/out/"]),
        ("/out/", ["out/"], ["out", "a/out/"]),
        ("a/*.o", ["a/x.o", "a/.o"], ["x.o", "b/a/x.o", "a/b/x.o"]),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("part-?", ["part-1"], ["part-", "part-10"]),
        ("[ab]*", ["a", "bc"], ["c", "[ab]"]),
        ("[!a-c]x", ["dx"], ["ax", "x"]),
        ("a+b (1).txt", ["a+b (1).txt"], ["aab (1).txt"]),
        ("ü\n", ["ü\n"], ["ü"]),
    ],
)
def test_a_pattern_fits(pattern, fitting, others):
    """A path with a slash at its end is a folder."""
    ignoring = Ignoring([pattern], defaults=())
    found = [path for path in fitting + others if _fits(ignoring, path)]
    assert fitting == found


@pytest.mark.parametrize("pattern", ["!kept", "**/a", "a/**", "../a", "a//b", "/", "//", "./a", "[z-a]", ""])
def test_what_is_no_pattern_is_refused(pattern):
    """Nothing is read as something else than gitignore would."""
    with pytest.raises(ConfigInvalid) as caught:
        Ignoring([pattern])
    assert repr(pattern) in str(caught.value)


def test_the_defaults_leave_the_users_repository_alone_and_take_a_nested_one_in():
    """`.git` counts at the top only; caches, and what is ours, at any depth."""
    ignoring = Ignoring()
    left = [".git/", ".git", ".perdure/", "a/.perdure/", "a/__pycache__/", "a.pyc", "a/.perdure-part-0f"]
    taken = ["a/.git/", "a/.git", ".gitignore", ".env", "venv/", "build/", ".venv", "node_modules", "a.py"]
    assert left == [path for path in left + taken if _fits(ignoring, path)]


def test_a_setting_adds_to_the_defaults():
    """Patterns stand between commas; blanks around them, and nothing between two commas, are no pattern."""
    ignoring = Ignoring.from_text(" *.tmp , my files/,, ")
    assert (*DEFAULTS, "*.tmp", "my files/") == ignoring.patterns
    assert DEFAULTS == Ignoring.from_text("").patterns


def test_a_path_is_left_aside_with_its_folder():
    """What is in an ignored folder is ignored; what only begins like it is not."""
    ignoring = Ignoring(["/build/out/"])
    paths = ("build/out/x/y", "build/x", "a/node_modules/b/c", "a/b", ".venv")
    assert ["build/out/x/y", "a/node_modules/b/c"] == [p for p in paths if ignoring.fits_path(p, is_folder=False)]
    assert ignoring.fits_path(".venv", is_folder=True)


def _fits(ignoring, path):
    folder, _, name = path.rstrip("/").rpartition("/")
    return ignoring.fits(folder, name, is_folder=path.endswith("/"))
