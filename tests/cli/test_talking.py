"""tell and answer: to tasks that nobody holds, and to one that another process runs."""

import json

PROGRAMS = '''

@perdure.program(state={"heard": 0})
async def talker(task, wait_s: float = 0.0):
    """Ask for a colour, then say what it was told."""
    colour = await task.ask("which colour?", wait_s=wait_s)
    return {"colour": colour, "told": task.messages}


@perdure.program
async def chooser(task, wait_s: float = 0.0):
    """Ask for a colour and a size."""
    return await task.ask_all({"colour": "which colour?", "size": "which size?"}, wait_s=wait_s)
'''


def add_program(here):
    """Put the program beside the others."""
    with (here / "programs.py").open("a", encoding="utf-8") as file:
        file.write(PROGRAMS)


def test_a_question_is_answered_and_the_resumed_task_goes_on(perdure, here):
    """Each line says what to type next; the answer reaches the program, and what it was told as well."""
    add_program(here)
    code, _, err = perdure("run", "--program", "programs.py:talker", "--name", "t")
    assert 3 == code
    assert "which colour?" in err
    assert "next         perdure answer t TEXT" in perdure("show", "t")[1]
    code, out, _ = perdure("tell", "t", "be quick")
    assert (0, "task t is told; it still waits for a person: question: which colour?\n") == (code, out)
    assert (0, "answered: which colour?; next: perdure resume t\n") == perdure("answer", "t", "red")[:2]
    code, out, _ = perdure("resume", "t", "--json")
    assert (0, {"colour": "red", "told": ["be quick"]}) == (code, json.loads(out)["result"])
    assert 0 == perdure("verify", "t")[0]


def test_what_cannot_be_answered_is_refused_with_the_reason(perdure, here):
    """An empty text, no such task, nothing asked, a second answer, a finished task: exit 2, nothing written."""
    add_program(here)
    perdure("run", "--program", "programs.py:talker", "--name", "t")
    for arguments, why in (
        (("answer", "t", " "), "the text is empty"),
        (("tell", "t", ""), "the text is empty"),
        (("answer", "nobody", "yes"), "nobody"),
    ):
        code, _, err = perdure(*arguments)
        assert (2, True) == (code, why in err)
    assert 0 == perdure("answer", "t", "red")[0]
    code, _, err = perdure("answer", "t", "blue")
    assert (2, True) == (code, "has asked nothing" in err)
    assert 0 == perdure("resume", "t")[0]
    for verb in ("tell", "answer"):
        code, _, err = perdure(verb, "t", "more")
        assert (2, True) == (code, "has ended" in err)


def test_a_cancelled_question_is_over(perdure, here):
    """A task that waits for an answer can be cancelled instead."""
    add_program(here)
    perdure("run", "--program", "programs.py:talker", "--name", "t")
    assert 0 == perdure("cancel", "t")[0]
    assert "cancelled" == json.loads(perdure("show", "t", "--json")[1])["status"]


def test_a_running_task_hears_within_a_second(perdure, spawn, here):
    """It waits in its own process: what it is told, and its answer, arrive there, each once."""
    add_program(here)
    running = spawn("run", "--program", "programs.py:talker", "--name", "t", "--set", "wait_s=60", "--json")
    status = ""
    while status != "needs_human":
        code, out, _ = perdure("show", "t", "--json")
        status = json.loads(out)["status"] if code == 0 else ""
    assert (0, "told") == (code, json.loads(perdure("tell", "t", "be quick", "--json")[1])["status"])
    code, out, _ = perdure("answer", "t", "red", "--json")
    answered = json.loads(out)
    assert (0, "answered", "which colour?") == (code, answered["status"], answered["question"])
    out, _ = running.communicate(timeout=30)
    assert {"colour": "red", "told": ["be quick"]} == json.loads(out)["result"]
    kinds = [json.loads(line)["kind"] for line in perdure("log", "t")[1].splitlines()]
    assert (1, 2) == (kinds.count("question_answered"), kinds.count("message_received"))


def test_two_questions_are_answered_in_reverse_order(perdure, here):
    """Who names none gets the lines to type; who names one reaches it, by number or key, over restarts between."""
    add_program(here)
    code, _, err = perdure("run", "--program", "programs.py:chooser", "--name", "t")
    assert (3, True) == (code, "[1] which colour?; [2] which size?" in err)
    shown = perdure("show", "t")[1]
    assert "question 2   which size?\n               perdure answer t TEXT --question 2" in shown
    assert "question: [1] which colour?; [2]" in perdure("list")[1]
    code, _, err = perdure("answer", "t", "red")
    assert (2, True) == (code, "perdure answer t TEXT --question 1   # which colour?" in err)
    code, out, _ = perdure("answer", "t", "XL", "--question", "2")
    assert (0, "answered: which size?; next: perdure answer t TEXT\n") == (code, out)
    assert 3 == perdure("resume", "t")[0]
    code, _, err = perdure("answer", "t", "S", "--question", "2")
    assert (2, True) == (code, "answered already" in err)
    assert (0, "answered: which colour?; next: perdure resume t\n") == perdure(
        "answer", "t", "red", "--question", "colour"
    )[:2]
    assert {"colour": "red", "size": "XL"} == json.loads(perdure("resume", "t", "--json")[1])["result"]
    assert 0 == perdure("verify", "t")[0]


def test_of_two_answers_to_a_running_task_the_first_counts(perdure, spawn, here):
    """Two people answer at the same time: one of them is told that their answer came too late."""
    add_program(here)
    running = spawn("run", "--program", "programs.py:chooser", "--name", "t", "--set", "wait_s=60", "--json")
    status = ""
    while status != "needs_human":
        code, out, _ = perdure("show", "t", "--json")
        status = json.loads(out)["status"] if code == 0 else ""
    people = [spawn("answer", "t", text, "--question", "size") for text in ("S", "XL")]
    ended = [(person.wait(30), person.stderr.read().decode()) for person in people]
    assert [0, 2] == sorted(code for code, _ in ended)
    late = next(err for code, err in ended if code == 2)
    assert "another answer" in late or "answered already" in late
    assert 0 == perdure("answer", "t", "red")[0]
    out, _ = running.communicate(timeout=30)
    sizes = {"colour": "red", "size": "S" if ended[0][0] == 0 else "XL"}
    assert sizes == json.loads(out)["result"]


def test_a_question_of_several_lines_is_shown_as_such_and_copied_as_one(perdure, here):
    """Lines to type and errors stay one line each, whatever a question holds; `show` has all of it."""
    with (here / "programs.py").open("a", encoding="utf-8") as file:
        file.write(
            "@perdure.program\nasync def several(task):\n"
            "    return await task.ask_all({'fruit': 'which fruit?\\n1. apple\\n2. pear', 'size': 'which size?'})\n"
        )
    code, _, err = perdure("run", "--program", "programs.py:several", "--name", "t")
    flat = "which fruit? 1. apple 2. pear"
    assert (3, True) == (code, f"question: [1] {flat}; [2] which size?; next:" in err)
    code, _, err = perdure("answer", "t", "pear")
    assert (2, f"  perdure answer t TEXT --question 1   # {flat}") == (code, err.splitlines()[1])
    assert f"which fruit?\n{' ' * 15}1. apple\n{' ' * 15}2. pear\n" in perdure("show", "t")[1]
    code, _, err = perdure("run", "--program", "programs.py:several", "--name", "u", "--unattended")
    assert (1, True) == (code, f"failed: nobody is there to answer: {flat}; which size?" in err)
    code, _, err = perdure("answer", "u", "pear")
    assert (2, True) == (code, "to open it again: perdure resume u --again" in err)


def test_a_text_that_is_too_long_is_refused_with_a_way(perdure, here):
    """Exit 2, and nothing is written."""
    add_program(here)
    perdure("run", "--program", "programs.py:talker", "--name", "t")
    for verb in ("tell", "answer"):
        code, _, err = perdure(verb, "t", "ä" * 40_000)
        assert (2, True) == (code, "bytes: 80000" in err and "put it into a file of the workspace" in err)
