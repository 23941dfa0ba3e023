"""`run` and `resume`: orders that find their task again, interruptions of every kind, exit codes."""

import json
import signal

import pytest

from perdure.llm.naming import PROVIDERS

RUN = ("run", "--program", "programs.py:count")
GOAL = "Digest the documents under docs"


@pytest.fixture
def docs(here):
    """A folder of three texts."""
    (here / "docs").mkdir()
    for number in range(3):
        text = f"The journal holds entries. Entries of the journal number {number} are linked to a chain.\n"
        (here / "docs" / f"{number}.txt").write_text(text, "utf-8")
    return here / "docs"


def until(process, text):
    """Read the process's stderr until a line holds `text`; returns all lines."""
    lines = []
    for line in process.stderr:
        lines.append(line.decode())
        if text in lines[-1]:
            break
    return "".join(lines)


def pending_of(perdure, name):
    """The actions of a task that are not over, as soon as there is one."""
    for _ in range(1_000):
        code, out, _ = perdure("show", name, "--json")
        pending = json.loads(out).get("pending") if code == 0 else None
        if pending:
            return pending
    raise AssertionError("no action was ever open")


def test_a_program_runs_and_says_first_how_to_resume_and_last_its_result(perdure):
    """The first line names task and command, stdout ends with the result, single actions go to stderr."""
    code, out, err = perdure(*RUN, "--set", "n=3", "--set", 'extra=["a"]', "--name", "my task")
    assert 0 == code
    assert out.splitlines()[0].startswith("task my task (id ")
    assert out.splitlines()[0].endswith("perdure resume 'my task'")
    assert {"sum": 3, "extra": ["a"]} == json.loads(out.partition("\n")[2])
    assert 3 == err.count("nap (")


def test_the_same_order_finds_its_task_again(perdure):
    """No name was given: the same program with the same arguments returns the recorded result; others are others."""
    perdure(*RUN, "--set", "n=1")
    _, out, err = perdure(*RUN, "--set", "n=1")
    assert "has succeeded before" in out.splitlines()[0]
    assert "nap" not in err
    _, out, _ = perdure(*RUN, "--set", "n=2")
    assert "has succeeded before" not in out
    _, out, _ = perdure("list", "--all", "--json")
    assert 2 == len({row["name"] for row in json.loads(out)})


def test_new_starts_another_task_of_the_same_name(perdure):
    """A finished task keeps its name and its history."""
    perdure(*RUN, "--name", "x")
    code, _, err = perdure(*RUN, "--name", "x", "--new")
    assert (0, 5) == (code, err.count("nap ("))
    _, out, _ = perdure("list", "--all", "--json")
    assert ["x", "x"] == [row["name"] for row in json.loads(out)]


def test_json_prints_one_object_and_nothing_else_on_stdout(perdure):
    """Whoever pipes it gets the result, the id and the status."""
    _, out, _ = perdure(*RUN, "--name", "x", "--json")
    found = json.loads(out)
    assert {"name": "x", "status": "succeeded", "result": {"sum": 10, "extra": None}} == {
        key: found[key] for key in ("name", "status", "result")
    }
    assert 32 == len(found["task"])


def test_arguments_are_json_or_text_or_files(perdure, here):
    """NAME=VALUE is JSON where it is JSON; @FILE is read, .json as JSON."""
    (here / "a.json").write_text('[1, {"b": null}]', "utf-8")
    (here / "a.txt").write_text("3", "utf-8")
    for given, expected in [("@a.json", [1, {"b": None}]), ("@a.txt", "3"), ("word", "word"), ('"3"', "3"), ("", "")]:
        _, out, _ = perdure(*RUN, "--set", "n=0", "--set", f"extra={given}", "--json")
        assert expected == json.loads(out)["result"]["extra"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "say what to do"),
        (("run", "programs.py"), "perdure run --program programs.py:NAME"),
        (("run", "pkg.mod:report"), "perdure run --program pkg.mod:report"),
        (("run", GOAL, "--model", "gpt"), "does not say whose model it is"),
        (("run", GOAL, "--model", "acme:gpt"), "no provider 'acme' is known"),
        (("run", "make me rich", "--model", "offline"), "Digest the documents under DIR"),
        (("run", GOAL, "--model", "offline", "--set", "a=1"), "--set"),
        (("run", GOAL, "--model", "offline", "--workspace", "."), "lies inside the workspace"),
        (("run", "--program", "programs.py:nothing"), "its programs are: asking"),
        (("run", "--program", "nowhere.py:count"), "there is no file"),
        ((*RUN, "--set", "m=1"), "does not take 'm'"),
        ((*RUN, "--set", "n"), "NAME=VALUE"),
        ((*RUN, "--set", "n=@gone.json"), "gone.json"),
        (("resume", "--due"), "resume --all --due"),
        (("resume", "nothing"), "no task 'nothing': there is no store in "),
        (("settle", "x", "y"), "--happened"),
    ],
)
def test_what_is_wrong_costs_exit_2_and_makes_no_task(perdure, here, arguments, said):
    """The message says what to type instead, on one line of stderr (a list of goals may follow)."""
    code, out, err = perdure(*arguments)
    assert (2, "") == (code, out)
    assert said in err
    assert err.startswith("perdure: ")
    _, out, _ = perdure("list", "--all", "--json")
    assert [] == json.loads(out)


def test_who_looks_in_the_wrong_store_is_told_which_it_was(perdure, here):
    """Another folder has another store: no verb on a task makes one, and each names the one that it has looked at."""
    place = str(here / ".perdure" / "perdure.db")
    verbs = (("show", "t"), ("tell", "t", "x"), ("answer", "t", "x"), ("resume", "t"), ("replay", "t"), ("verify", "t"))
    for arguments in verbs:
        code, _, err = perdure(*arguments)
        assert (2, f"perdure: no task 't': there is no store in {place}; go to the folder") == (
            code,
            err[: err.index(" of")],
        )
    assert not (here / ".perdure").exists()
    perdure(*RUN)
    for arguments in verbs:
        code, _, err = perdure(*arguments)
        assert (2, True) == (code, f"no task has the name or id 't' in {place};" in err), err


def test_without_a_model_people_learn_what_there_is_and_offline_works(perdure, docs, monkeypatch):
    """What the environment offers, what is used, how to choose; never the key. The results are the usual."""
    for provider in PROVIDERS:
        for variable in provider.keys:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    code, out, err = perdure("run", GOAL, "--json")
    assert (0, 3) == (code, json.loads(out)["result"]["documents"])
    assert "ANTHROPIC_API_KEY is set: models of anthropic can be used" in err
    assert "No model was chosen: `offline` is used" in err
    assert "sk-very-secret" not in out + err
    _, _, err = perdure("run", GOAL, "--model", "offline", "--new")
    assert "No model was chosen" not in err


def test_a_goal_is_worked_on_and_means_the_same_from_any_folder(perdure, docs, here, monkeypatch):
    """The folder that a goal names is recorded absolute; the same goal elsewhere is another task."""
    code, out, _ = perdure("run", GOAL, "--model", "offline", "--workspace", "out", "--json")
    assert 0 == code
    assert (here / "out" / "digest.md").read_text("utf-8").startswith("# Digest of 3 documents")
    first = json.loads(out)
    code, out, _ = perdure("run", GOAL, "--model", "offline", "--workspace", "out", "--json")
    assert first == json.loads(out)
    (here / "sub" / "docs").mkdir(parents=True)
    (here / "sub" / "docs" / "a.txt").write_text("Only one text about one journal.", "utf-8")
    monkeypatch.chdir(here / "sub")
    code, out, _ = perdure("run", GOAL, "--model", "offline", "--workspace", "../out", "--json")
    assert first["task"] != json.loads(out)["task"]
    assert 1 == json.loads(out)["result"]["documents"]
    _, out, _ = perdure("list", "--all", "--json")
    folders = [here / "sub" / "docs", here / "docs"]
    assert [f"Digest the documents under {folder}" for folder in folders] == [row["goal"] for row in json.loads(out)]


def test_a_killed_task_is_listed_as_interrupted_and_resumed_without_its_name(perdure, spawn):
    """SIGKILL in the middle: what was done is not done again, the result is that of an undisturbed run."""
    process = spawn(*RUN, "--set", "n=6", "--set", "ms=50", "--name", "k")
    until(process, "checkpoint: middle")
    process.kill()
    process.wait()
    _, out, _ = perdure("list", "--json")
    assert ["interrupted"] == [row["status"] for row in json.loads(out)]
    code, out, err = perdure("resume", "--json")
    assert (0, 15) == (code, json.loads(out)["result"]["sum"])
    assert 0 < err.count("nap (") <= 4
    _, out, _ = perdure("resume")
    assert out.startswith("nothing to resume")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_action_end_and_pauses(perdure, spawn, number):
    """Exit 130, the status says who paused it, and `resume --all --due` takes it."""
    process = spawn(*RUN, "--set", "n=20", "--set", "ms=30", "--name", "s", "--json")
    until(process, "nap (")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert 130 == process.returncode
    assert b"perdure: task 's' was paused by signal; next: perdure resume s" in err
    assert ("paused", "perdure resume s") == tuple(json.loads(out)[key] for key in ("status", "next_command"))
    code, out, _ = perdure("resume", "--all", "--due", "--quiet", "--json")
    assert (0, 190) == (code, json.loads(out)["result"]["sum"])


def test_a_second_ctrl_c_stops_now_and_the_effect_is_in_doubt(perdure, spawn):
    """The action is cut off; what became of it only a person can say, and `settle` is the way out."""
    process = spawn("run", "--program", "programs.py:danger", "--name", "d")
    pending_of(perdure, "d")
    process.send_signal(signal.SIGINT)
    until(process, "pausing at the end")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert 130 == process.returncode
    code, _, err = perdure("resume", "d")
    assert 3 == code
    assert "needs a person" in err
    (pending,) = pending_of(perdure, "d")
    assert pending["settle"].startswith(f"perdure settle d {pending['action']} --happened")
    assert 2 == perdure("settle", "d", "", "--happened")[0]  # a variable that is not set means no action
    code, _, _ = perdure("settle", "d", pending["action"], "--happened", "--result", '"boom"')
    assert 0 == code
    code, out, _ = perdure("resume", "d", "--json")
    assert (0, "boom") == (code, json.loads(out)["result"])


def test_a_task_is_paused_and_cancelled_from_another_process(perdure, spawn):
    """The message is seen within a second or two; the process ends with the code of a pause."""
    process = spawn(*RUN, "--set", "n=400", "--set", "ms=20", "--name", "p")
    until(process, "nap (")
    code, _, err = perdure("resume", "p")
    assert 5 == code
    assert f"process {process.pid}" in err
    code, out, _ = perdure("pause", "p", "--json")
    assert (0, "paused") == (code, json.loads(out)["status"])
    process.communicate(timeout=20)
    assert 130 == process.returncode
    _, out, _ = perdure("resume", "--all", "--due")
    assert out.startswith("nothing to resume")  # a person paused it
    code, out, _ = perdure("cancel", "p")
    assert (0, "task p is cancelled") == (code, out.strip())
    code, _, err = perdure("resume", "p")
    assert 1 == code
    assert "was cancelled" in err


def test_several_unfinished_tasks_are_shown_and_none_is_guessed(perdure, spawn):
    """Exit 2 and a table; with --all each of them goes on."""
    for name in ("a", "b"):
        process = spawn(*RUN, "--set", "n=4", "--set", "ms=50", "--name", name)
        until(process, "nap (")
        process.kill()
        process.wait()
    code, out, err = perdure("resume")
    assert 2 == code
    assert "perdure resume --all --due" in err
    assert ["b", "a"] == [line.split()[0] for line in out.splitlines()[1:]]
    code, _, _ = perdure("resume", "--all", "--quiet")
    assert 0 == code
    assert "no unfinished tasks" in perdure("list")[1]


def test_a_dry_run_says_what_would_be_found_and_changes_nothing(perdure, spawn):
    """The rows of the report; an effect in doubt is a stop, with the line that settles it and exit 3."""
    process = spawn("run", "--program", "programs.py:danger", "--name", "d", "--quiet")
    pending_of(perdure, "d")
    process.kill()
    process.wait()
    before = perdure("show", "d", "--json")[1]
    code, out, err = perdure("resume", "d", "--dry-run")
    assert 3 == code
    assert "stop last action: whether fire happened is not known: perdure settle d" in out
    assert "the row says what to type" in err
    assert before == perdure("show", "d", "--json")[1]


def test_a_failing_program_asks_for_a_person_and_fails_when_unattended(perdure):
    """Exit 3 attended, exit 1 unattended; `--again` opens the failed one."""
    code, _, err = perdure("run", "--program", "programs.py:failing", "--name", "f")
    assert 3 == code
    assert "perdure show f" in err
    code, out, _ = perdure("run", "--program", "programs.py:failing", "--name", "g", "--unattended", "--json")
    assert (1, "failed") == (code, json.loads(out)["status"])
    code, _, err = perdure("resume", "g")
    assert 1 == code
    code, _, err = perdure("resume", "g", "--again", "--unattended")
    assert 1 == code
    assert "broken failed" in err
