"""The demo is run as a person runs it; what it says is held against what it leaves behind."""

import hashlib
import os
import re
import subprocess
from pydoc_data.topics import topics

from perdure.cli.demo import KILLS, _show_compared, _Showing
from tests.cli.conftest import COMMAND, ROOT


def test_the_demo_kills_at_four_points_and_its_digests_are_equal(tmp_path):
    """All topics are read; each kill is told with its point; each later process finds more outcomes; the sums agree."""
    folder = tmp_path / "it's kept"
    text = _run_demo(folder)
    points = re.findall(r"killed at (\w+), in \w+ \(.+\):", text)
    reused = [int(count) for count in re.findall(r"(\d+) outcomes reused", text)]
    sums = re.findall(r"sha256 ([0-9a-f]{64})", text)
    files = [folder / name / "digest.md" for name in ("undisturbed", "killed")]

    assert set(topics) == {path.stem for path in (folder / "topics").iterdir()}
    assert [spec.partition(":")[0] for spec in KILLS] == points
    assert (len(KILLS), reused) == (len(reused), sorted(reused))
    assert 2 == text.count("run again: ")  # the two actions that had run when the kill came, and were not written
    assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in files] == sums
    assert "equal, byte for byte" in text
    assert "differ" not in text


def test_digests_that_differ_end_the_demo_with_no(tmp_path, capsys):
    """A single byte more, and the demo says that they are not equal."""
    for name, content in (("undisturbed", b"a"), ("killed", b"ab")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "digest.md").write_bytes(content)

    assert not _show_compared(tmp_path, _Showing())
    assert "NOT EQUAL" in capsys.readouterr().out


def test_the_demo_writes_into_no_folder_that_holds_something(perdure, tmp_path):
    """A folder with files in it is refused: exit 2, and nothing is written."""
    (tmp_path / "mine").write_text("mine")
    code, _, complaint = perdure("demo", "--keep", tmp_path)

    assert (2, True) == (code, "no empty folder" in complaint)
    assert ["mine"] == [path.name for path in tmp_path.iterdir() if path.suffix != ".py"]


def _run_demo(folder):
    """Run it as a process, on a console that knows ASCII only; return what it printed."""
    done = subprocess.run(
        [*COMMAND, "demo", "--keep", str(folder)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode("ascii")
