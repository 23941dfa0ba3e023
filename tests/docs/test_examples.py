"""What the pages show is run: programs, command lines and what they print."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from perdure.cli.application import app
from tests.docs import pages

ROOT = pages.ROOT
EXPLANATIONS = [
    page for page in sorted((ROOT / "docs" / "explanation").glob("*.md")) if "```python" in page.read_text("utf-8")
]
README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"
# Kill the README's program here: in the third page, around the draft, and at each side of the publishing.
KILLS = (
    "after_effect:3",
    "after_outcome:9",
    "before_intent:10",
    "after_intent:10",
    "after_effect:10",
    "after_outcome:10",
)


def run(command, folder, **more):
    """Run a command as a reader would: in `folder`, with `python` and `perdure` of this checkout."""
    environment = pages.environment(folder, **more)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def shell(line, folder):
    """Run one line as a reader would type it."""
    return run(["bash", "-c", line], folder)


def readme_program(folder):
    """Save the README's program in `folder`, without its waiting."""
    (program,) = [block.text for block in pages.blocks_of(README) if block.language == "python"]
    quick = program.replace("asyncio.sleep(1)", "asyncio.sleep(0)")
    assert program != quick
    (folder / "report.py").write_text(quick, "utf-8")


def fits(expected, printed):
    """Whether printed text is the page's, where `…` stands for anything, and blanks for any number of them."""
    pattern = re.sub(r"(\\ )+", " +", re.escape(expected.strip())).replace("…", r"[\s\S]*")
    return re.fullmatch(pattern, printed.strip()) is not None


def typed_lines(block):
    """Return (line, what the page shows of its output) for each line of a console block."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    return [(line, shown) for line, _, shown in (part.partition("\n") for part in parts)]


def follow(block, folder):
    """Do what a block of the quickstart says; return what went otherwise than it says."""
    if block.language == "python":
        (folder / block.name).write_text(block.text, "utf-8")
    wrong = []
    for line, shown in typed_lines(block) if block.language == "console" else ():
        exits_with = re.search(r"# exits with (\d+)$", line)
        done = shell(line, folder)
        if done.returncode != int(exits_with[1] if exits_with else 0) or not fits(shown, done.stdout):
            wrong.append((line, done.returncode, done.stdout, done.stderr))
    return wrong


@pytest.mark.parametrize("page", EXPLANATIONS, ids=lambda page: page.stem)
def test_the_program_of_an_explanation_prints_what_the_page_says(page, tmp_path):
    """The Python blocks of a page are one program, and it prints the page's output block."""
    blocks = pages.blocks_of(page)
    program = "\n\n".join(block.text for block in blocks if block.language == "python")
    (expected,) = [block.text for block in blocks if block.language == "output"]
    (tmp_path / "page.py").write_text(program, "utf-8")
    done = run([sys.executable, "page.py"], tmp_path)
    assert ("", expected) == (done.stderr, done.stdout)


def test_the_quickstart_is_what_happens(tmp_path):
    """Every file is saved, every line is typed, and prints what the page shows."""
    assert [] == [wrong for block in pages.blocks_of(QUICKSTART) for wrong in follow(block, tmp_path)]


def test_the_readme_program_runs_and_its_lines_work(tmp_path):
    """The program publishes one document; the lines behind it all succeed, and a second run returns the result."""
    readme_program(tmp_path)
    first, second = shell("python report.py", tmp_path), shell("python report.py", tmp_path)
    assert ("", first.stdout) == (first.stderr, second.stdout)
    assert 1 == len(list((tmp_path / "published").iterdir()))
    (block,) = [block for block in pages.blocks_of(README) if block.language == "console"]
    typed = [line for line, _ in typed_lines(block)]
    assert 6 == len(typed)
    assert [] == [(line, done.stderr) for line in typed if (done := shell(line, tmp_path)).returncode]
    assert (tmp_path / "out" / "digest.md").is_file()


@pytest.mark.parametrize("point", KILLS)
def test_the_readme_program_publishes_once_however_it_is_killed(point, tmp_path):
    """Killed by SIGKILL and resumed, it gives the undisturbed result, and the service holds one document."""
    readme_program(tmp_path)
    killed = run([sys.executable, "report.py"], tmp_path, PERDURE_CRASH=point, PERDURE_TESTING="1")
    assert -signal.SIGKILL == killed.returncode
    resumed = shell("perdure resume report-42", tmp_path)
    assert 0 == resumed.returncode, resumed.stderr
    documents = list((tmp_path / "published").iterdir())
    assert 1 == len(documents)
    assert resumed.stdout.splitlines()[-1] == f"published, {len(documents[0].read_text('utf-8'))} characters"


WRITES = 'return "\\n\\n".join([prompt, *lessons, *(page[:200] for page in pages)])'
FAILS_AT_FIRST = """with open("asked.txt", "a") as asked:
        asked.write(f"{prompt}|{len(pages)} pages|{' '.join(lessons)}\\n")
    """


@pytest.mark.parametrize("point", ["", *(f"during_recovery:{n}" for n in range(1, 7)), "during_rollback:1"])
def test_the_readme_program_takes_its_second_prompt_when_the_first_fails_three_times(point, tmp_path):
    """Back to the pages collected, with the lesson; killed in its recovery it asks for no draft more than that."""
    readme_program(tmp_path)
    program = (tmp_path / "report.py").read_text("utf-8")
    short = program.replace(WRITES, FAILS_AT_FIRST + WRITES + " if prompt == OUTLINE else 'too short'")
    assert 2 == len(short.split(FAILS_AT_FIRST))
    (tmp_path / "report.py").write_text(short, "utf-8")
    if point:
        killed = run([sys.executable, "report.py"], tmp_path, PERDURE_CRASH=point, PERDURE_TESTING="1")
        assert -signal.SIGKILL == killed.returncode
    done = shell("python report.py", tmp_path)
    assert 0 == done.returncode, done.stderr
    lesson = (
        "tried 'direct' from checkpoint 'pages collected', failed because CheckFailed: check 'draft is long enough'"
    )
    asked = [line.split("|") for line in (tmp_path / "asked.txt").read_text("utf-8").splitlines()]
    assert [("What these pages say:", "7 pages", "")] * 3 == [tuple(one) for one in asked[:-1]]
    assert ["An outline first, then what these pages say:", "7 pages"] == asked[-1][:2]
    assert asked[-1][2].startswith(lesson)
    assert 1 == len(list((tmp_path / "published").iterdir()))


def test_the_readme_shows_what_the_demo_prints(tmp_path):
    """Each line of the excerpt stands in the demo's output; figures, digests and names of documents may differ."""
    (excerpt,) = [block.text for block in pages.blocks_of(README) if block.language == "text"]
    done = run(["bash", "-c", "perdure demo"], tmp_path, TMPDIR=str(tmp_path))
    assert 0 == done.returncode, done.stderr
    printed = [without_figures(line) for line in done.stdout.splitlines()]
    assert [] == [line for line in map(without_figures, excerpt.splitlines()) if line not in printed]


def without_figures(line):
    """Return a line of the demo with what depends on machine and Python version taken out."""
    return re.sub(r"\((read|extract) [^)]*\)|\b[0-9a-f]{64}\b|\d+(\.\d+)?", "#", line)


def test_every_command_line_of_the_pages_exists():
    """Each `perdure VERB --option` that a page shows is a verb with that option."""
    commands = get_command(app).commands
    verbs = {name: {opt for param in verb.params for opt in param.opts} for name, verb in commands.items()}
    unknown = [
        f"{page.relative_to(ROOT)}: perdure {verb} {' '.join(options)}"
        for page in pages.PAGES
        for verb, options in pages.commands_of(page)
        if verb not in verbs or not set(options) <= {*verbs[verb], "--help"}
    ]
    assert [] == unknown


def test_the_readme_opens_with_its_two_commands():
    """After the title and one sentence stand `make demo` and `make test`, and nothing else."""
    title, sentence, fence = README.read_text("utf-8").split("\n\n")[:3]
    assert ("# perdure", 1) == (title, sentence.count("."))
    commands = [line.split("#")[0].strip() for line in fence.splitlines()[1:-1]]
    assert ["make demo", "make test"] == commands
    makefile = Path(ROOT, "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE) for command in commands)
