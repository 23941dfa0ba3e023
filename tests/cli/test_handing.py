"""take-over, state, plan, hand-back: as a person types them, with what each refuses."""

import json

import pytest

PROGRAMS = '''

from dataclasses import dataclass


@dataclass
class Order:
    """What the state is."""

    price: int
    parts: list[str]


@perdure.program(state=Order(price=1, parts=["a"]), state_type=Order)
async def ordering(task):
    """Adopt a plan, pass a check, ask."""
    await task.adopt(["find", "order"])
    await task.begin_step("find")
    await task.check("find", True)
    await task.begin_step("order")
    answer = await task.ask("really?")
    return [task.state.price, list(task.state.parts), answer, task.advice.text]
'''


@pytest.fixture
def taken(perdure, here):
    """The command, and a task that waits and was taken over."""
    with (here / "programs.py").open("a", encoding="utf-8") as file:
        file.write(PROGRAMS)
    assert 3 == perdure("run", "--program", "programs.py:ordering", "--name", "o")[0]
    assert 0 == perdure("take-over", "o", "--by", "ann")[0]
    return perdure


def test_who_has_it_and_since_when_stands_everywhere(taken):
    """In the list, in `show`, in what a run and a resume are refused with; as JSON too."""
    shown = json.loads(taken("show", "o", "--json")[1])
    assert ("needs_human", "takeover: by ann", "ann") == (shown["status"], shown["why"], shown["person"])
    assert "perdure hand-back o" == shown["next_command"]
    code, out, _ = taken("list")
    assert f"needs_human (taken over by ann, {shown['taken_at'][:16].replace('T', ' ')})" in out
    assert f"person       ann, who has it since {shown['taken_at']}" in taken("show", "o")[1]
    for order in (("run", "--program", "programs.py:ordering", "--name", "o"), ("resume", "o"), ("pause", "o")):
        code, _, err = taken(*order)
        assert (3, True) == (code, "needs a person: takeover: by ann; next: perdure hand-back o" in err)
    code, out, err = taken("resume", "o", "--dry-run")
    assert (3, True) == (code, "stop person: ann has taken it over; perdure hand-back o" in out)
    assert "--accept" not in err
    assert 2 == taken("resume", "o", "--accept", "person")[0]
    code, out, _ = taken("resume", "--all", "--due")
    assert (0, True) == (code, out.startswith("nothing to resume in"))


def test_from_the_takeover_to_the_result(taken):
    """What is changed reaches the program, is told to it, and the journal is whole and equal in a replay."""
    assert 0 == taken("state", "o", "--set", "price=5", "--set", 'parts[+]="b"', "--unset", "parts[0]")[0]
    assert {"price": 5, "parts": ["b"]} == json.loads(taken("state", "o", "--json")[1])
    code, out, _ = taken("state", "o", "--set", "price=5", "--json")
    assert (0, False) == (code, json.loads(out)["changed"])
    assert 0 == taken("plan", "o", "--set", "find", "--set", "order", "--set", "pay")[0]
    code, out, _ = taken("hand-back", "o", "--say", "be kind", "--json")
    handed = json.loads(out)
    assert (0, "paused") == (code, handed["status"])
    assert ["state: price = 5, parts (list)", "plan: find > order > pay"] == handed["changes"]
    assert 3 == taken("resume", "o")[0]
    assert 0 == taken("answer", "o", "yes")[0]
    code, out, _ = taken("resume", "o", "--json")
    price, parts, answer, advice = json.loads(out)["result"]
    assert (0, 5, ["b"], "yes") == (code, price, parts, answer)
    assert "price = 5" in advice
    assert "They say: be kind" in advice
    assert 0 == taken("verify", "o", "--full")[0]
    assert 0 == taken("replay", "o")[0]
    code, _, err = taken("take-over", "o")
    assert (2, True) == (code, "has ended" in err)


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (("--set", "price=dear"), "a text is written 'price=\"dear\"'"),
        (("--set", 'price="dear"'), "is no int"),
        (("--set", "colour=1"), "no such field"),
        (("--unset", "price"), "cannot be removed"),
        (("--set", "parts[7]=1"), "1 element(s)"),
        (("--set", "parts"), "write PATH=JSON"),
        (("--set", "=1"), "begins with no key"),
        (("--unset", "parts[", "--set", "price=7"), "cannot be read from '['"),
        (("--set", "price=7", "--at", "1"), "cannot be changed"),
        (("--set", "price=7", "--app", "programs.py:nothing"), "nothing"),
    ],
)
def test_what_cannot_be_put_there_is_refused_and_nothing_is_changed(taken, order, why):
    """Exit 2, one line that says why, the state as it was."""
    code, out, err = taken("state", "o", *order)
    assert (2, "", True, 1) == (code, out, why in err, err.count("\n"))
    assert {"price": 1, "parts": ["a"]} == json.loads(taken("state", "o", "--json")[1])


def test_without_its_program_the_state_is_changed_by_its_structure_alone(taken, spawn, here):
    """Where it cannot be imported any more, a person who mends the task is not kept from it."""
    (here / "programs.py").write_text("raise RuntimeError('broken')\n")
    process = spawn("state", "o", "--set", 'price="dear"')
    _, err = process.communicate(timeout=30)
    assert (0, b"") == (process.returncode, err)
    assert "dear" == json.loads(taken("state", "o", "--json")[1])["price"]


def test_a_plan_is_shown_with_its_progress_and_written_from_a_file(taken, here):
    """What is done, what is worked on; empty lines of a file are passed over."""
    assert (0, "  1  done  find\n  2  now   order\n") == taken("plan", "o")[:2]
    (here / "plan.txt").write_text("find\n\n  pay  \n")
    assert 0 == taken("plan", "o", "--from", "plan.txt")[0]
    find, pay = json.loads(taken("plan", "o", "--json")[1])
    assert ("find", True, "passed") == (find["name"], find["done"], find["verdict"])
    assert {"name": "pay"} == pay
    (here / "empty.txt").write_text("\n")
    for order, why in (
        (("--from", "empty.txt"), "at least one step"),
        (("--from", "nowhere.txt"), "cannot be read"),
        (("--from", "plan.txt", "--set", "x"), "exclude each other"),
        (("--set", ""), "is empty"),
    ):
        code, _, err = taken("plan", "o", *order)
        assert (2, True) == (code, why in err)
    assert 2 == len(json.loads(taken("plan", "o", "--json")[1]))


def test_only_whoever_has_taken_it_over_changes_it(perdure, here):
    """Of any other task nothing is changed, and the line to type is named."""
    perdure("run", "--program", "programs.py:queries", "--name", "q")
    for order in (("state", "q", "--set", "x=1"), ("plan", "q", "--set", "x"), ("hand-back", "q")):
        code, _, err = perdure(*order)
        assert (2, True) == (code, "nobody has taken task 'q' over; first: perdure take-over q" in err)
    assert (0, "task q has no plan\n") == perdure("plan", "q")[:2]
    assert "{}" == perdure("state", "q", "--json")[1].strip()


def test_what_is_done_meanwhile_names_the_hand_back_as_what_comes_next(perdure, here):
    """A rollback, and saying what became of an action, are no end of it."""
    perdure("run", "--program", "programs.py:mails", "--name", "m")
    perdure("take-over", "m")
    code, out, _ = perdure("rollback", "m", "--to", "start", "--force")
    assert (0, "task m is back at 'start'; next: perdure hand-back m\n") == (code, out)
    assert "perdure hand-back m" == json.loads(perdure("show", "m", "--json")[1])["next_command"]


def test_a_task_is_taken_over_by_its_whole_name(perdure, here):
    """It stops what runs, so a beginning of the name is not enough; twice by the same person is once."""
    perdure("run", "--program", "programs.py:queries", "--name", "query")
    code, _, err = perdure("take-over", "que")
    assert (2, True) == (code, "only the beginning" in err)
    assert 2 == perdure("take-over", "query", "--by", " ")[0]
    assert 0 == perdure("take-over", "query")[0]
    assert 0 == perdure("take-over", "query")[0]
    kinds = [json.loads(line)["kind"] for line in perdure("log", "query")[1].splitlines()]
    assert 1 == kinds.count("task_taken_over")
    code, out, _ = perdure("hand-back", "que")
    assert (0, "task query is handed back\n  nothing was changed\nnext: perdure resume query\n") == (code, out)
