"""A task is handed to a stranger who sees its package and nothing else, and who answers; all in processes."""

import json
import re
import shlex
from pathlib import Path

import pytest

from perdure.views.handover import Handover

PROGRAMS = '''

@perdure.tool(effect="pure", name="open_door")
def open_door(door: str, word: str) -> str:
    """Open for whoever knows the word of this door."""
    if word != {"north gate": "xyzzy", "south gate": "plugh"}[door]:
        raise PermissionError(f"{door} does not open for {word!r}")
    return f"{door} is open"


@perdure.program(state={"opened": []}, failures_max=2, strategies=[
    perdure.Strategy("guess", prompt="guess the word"), perdure.Strategy("think", prompt="think of the word"),
])
async def visit(task, door: str):
    """Go through a door, with the word that a person has said, or with a guess."""
    await task.adopt(["reach the door", "go through"])
    await task.check("reach the door", True)
    await task.begin_step("go through")
    word = task.advice.text if task.advice.kind == "person" else task.strategy.name
    return await task.act(open_door, door, word, then=lambda state, said: state["opened"].append(said))
'''
# What the stranger has beside the package: a list of doors and their words.
WORDS = {"east gate": "frotz", "north gate": "xyzzy", "south gate": "plugh", "west gate": "gnusto"}


def words_of_page(page):
    """Read a page as a stranger does: the lines to type, and what the failed calls were given."""
    lines = page.partition("## How to go on")[2].partition("\n## ")[0]
    commands = re.findall(r"(?m)^- `(perdure [^`]+)`", lines)
    failures = page.partition("## Failures")[2].partition("\n## ")[0]
    return commands, failures


def words_of_package(package):
    """Read the same from the fields."""
    return [way["command"] for way in package["ways"]], " ".join(one["arguments"] for one in package["failures"])


@pytest.mark.parametrize("door", ["north gate", "south gate"])
@pytest.mark.parametrize("form", ["page", "json"])
def test_a_stranger_finishes_a_task_by_an_answer(spawn, here, door, form):
    """The package says what failed with which arguments, and the lines to type: nothing else is needed."""
    with (here / "programs.py").open("a", encoding="utf-8") as file:
        file.write(PROGRAMS)

    def typed(line):
        process = spawn(*shlex.split(line)[1:])
        out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()

    code, _, err = typed(f"perdure run --program programs.py:visit --name v --set door='{door}'")
    assert (3, True) == (code, "next: perdure show v --handover" in err)
    code, out, _ = typed("perdure show v --handover" + " --json" * (form == "json"))
    assert 0 == code
    commands, evidence = words_of_page(out) if form == "page" else words_of_package(json.loads(out))
    (asked_at,) = [one for one in WORDS if one in evidence]
    (answering,) = [command for command in commands if command.startswith("perdure answer ")]
    (resuming,) = [command for command in commands if command.startswith("perdure resume ")]
    code, out, _ = typed(answering.replace("TEXT", shlex.quote(WORDS[asked_at])))
    assert (0, True) == (code, out.endswith(f"; next: {resuming}\n"))
    code, out, _ = typed(resuming + " --json")
    assert (0, f"{door} is open") == (code, json.loads(out)["result"])
    assert 0 == typed("perdure verify v")[0]


def test_a_wrong_answer_does_not_finish_it(perdure, here):
    """The task comes back with the same question, and the package says what was answered before."""
    with (here / "programs.py").open("a", encoding="utf-8") as file:
        file.write(PROGRAMS)
    perdure("run", "--program", "programs.py:visit", "--name", "v", "--set", "door=north gate")
    assert 0 == perdure("answer", "v", "open sesame")[0]
    assert 3 == perdure("resume", "v")[0]
    package = json.loads(perdure("show", "v", "--handover", "--json")[1])
    assert ["open sesame", None] == [one.get("answer") for one in package["asked"]]
    assert ["open sesame"] == package["messages"]
    assert any("open sesame" in one["error"] for one in package["failures"])


def test_show_names_the_handover(perdure, here):
    """Of a task that needs a person; it can be asked for of any other, too."""
    with (here / "programs.py").open("a", encoding="utf-8") as file:
        file.write(PROGRAMS)
    perdure("run", "--program", "programs.py:visit", "--name", "v", "--set", "door=north gate")
    assert "handover     perdure show v --handover" in perdure("show", "v")[1]
    perdure("run", "--program", "programs.py:count", "--name", "c")
    assert "handover" not in perdure("show", "c")[1]
    code, out, _ = perdure("show", "c", "--handover")
    assert (0, True) == (code, out.startswith("# Task `c` has succeeded\n"))
    assert 2 == perdure("show", "nobody", "--handover")[0]


def test_hostile_text_makes_no_heading_and_no_escape(perdure, here):
    """Text of a tool stays text: in one line, without control characters."""
    perdure("run", "--program", "programs.py:failing", "--name", "f")
    code, out, _ = perdure("show", "f", "--handover")
    assert (0, False, True) == (code, "\x1b" in out, "\\x1b[2Jbad" in out)


def test_every_field_of_the_package_is_named_in_the_reference():
    """And no other."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text("utf-8")
    named = re.search(r"`--handover`: .*?JSON: `([^`]+)`", text, re.DOTALL)
    assert sorted(Handover.__struct_fields__) == sorted(named[1].split())
