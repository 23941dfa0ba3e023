"""The program of the how-to page on the log prints what the page says."""

from tests.docs import pages
from tests.docs.test_examples import run

PAGE = pages.ROOT / "docs" / "how-to" / "follow-the-log.md"


def test_the_program_of_the_page_prints_what_it_says(tmp_path):
    """Copied into an empty folder and run, whatever the reader's configuration is."""
    blocks = pages.blocks_of(PAGE)
    (program,) = [block.text for block in blocks if block.language == "python"]
    (printed,) = [block.text for block in blocks if block.language == "text"]
    (tmp_path / "errors.py").write_text(program, "utf-8")
    done = run(["python", "errors.py"], tmp_path)
    assert (printed, "", 0) == (done.stdout, done.stderr, done.returncode)


def test_the_configuration_of_the_page_is_obeyed(tmp_path):
    """With its lines in the project's file a run leaves a set of files."""
    (config,) = [block.text for block in pages.blocks_of(PAGE) if block.language == "toml"]
    (tmp_path / ".perdure").mkdir()
    (tmp_path / ".perdure" / "config.toml").write_text(config, "utf-8")
    (tmp_path / "p.py").write_text("import perdure\n@perdure.program()\nasync def go(task):\n    return 1\n", "utf-8")
    done = run(["perdure", "run", "--program", "p.py:go", "--name", "t", "--quiet"], tmp_path)
    assert (0, 1) == (done.returncode, len(list(tmp_path.glob("logs/t.*/live.ndjson"))))
