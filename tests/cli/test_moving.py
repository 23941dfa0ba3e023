"""The verbs by which a person changes a task: rollback, settle, pause and cancel of tasks that nobody holds."""

import asyncio
import json

import pytest

import perdure as library


@pytest.fixture
def paused(perdure, here):
    """An unfinished task called `p`, stopped by its own script after two checkpoints."""

    async def stop_early():
        async with library.open(here / ".perdure" / "perdure.db") as runtime, runtime.task("p", state={"n": 0}) as task:
            for n in (1, 2):
                async with task.edit() as state:
                    state["n"] = n
                await task.checkpoint("mark")
            raise KeyError("stop")

    (here / ".perdure").mkdir()
    with pytest.raises(KeyError):
        asyncio.run(stop_early())
    return "p"


def test_a_rollback_puts_the_state_back_and_keeps_the_journal(perdure, paused):
    """By name, by number, to the start; each is a new branch, and verify finds all whole."""
    entries = []
    for to, expected in (("mark", 2), ("mark#1", 1), ("start", 0)):
        assert 0 == perdure("rollback", paused, "--to", to)[0]
        assert {"n": expected} == json.loads(perdure("state", paused)[1])
        entries.append(json.loads(perdure("show", paused, "--json")[1])["entries"])
    assert sorted(set(entries)) == entries
    assert 0 == perdure("verify", paused)[0]
    code, _, err = perdure("rollback", paused, "--to", "nowhere")
    assert 2 == code
    assert "has no checkpoint 'nowhere'" in err


def test_a_person_marks_a_checkpoint_and_sees_what_it_costs_to_go_back(perdure, paused):
    """It is listed as a person's, and a rollback comes back to it; nothing has happened since."""
    code, out, _ = perdure("checkpoint", paused, "by hand")
    assert (0, "checkpoint 'by hand' of task p is entry") == (code, out.rpartition(" ")[0])
    rows = json.loads(perdure("checkpoints", paused, "--json")[1])
    assert ["mark", "mark#2", "by hand"] == [row["name"] for row in rows]
    assert ("person", "person", True) == tuple(rows[2][key] for key in ("reason", "verifier", "admissible"))
    assert {0} == {rows[2]["price"][key] for key in ("actions", "to_undo", "staying", "files")}
    table = perdure("checkpoints", paused)[1].splitlines()
    assert (4, True) == (len(table), table[0].endswith("TO GO BACK COSTS"))
    assert 0 == perdure("rollback", paused, "--to", "by hand")[0]
    assert 2 == perdure("checkpoint", paused, " ")[0]


def test_a_task_that_a_script_drives_is_resumed_by_the_script(perdure, paused):
    """`resume` says so, exit 2, and changes nothing."""
    before = perdure("show", paused, "--json")[1]
    code, _, err = perdure("resume", paused)
    assert 2 == code
    assert "run the script" in err
    assert before == perdure("show", paused, "--json")[1]
    assert "next         run the script that started it again" in perdure("show", paused)[1]


def test_pause_and_cancel_of_a_task_that_nobody_holds_are_written_at_once(perdure, paused):
    """The status says so; a cancelled task takes no more commands."""
    assert (0, "task p is paused\n") == perdure("pause", paused)[:2]
    assert ("paused", "by person") == tuple(
        json.loads(perdure("list", "--json")[1])[0][key] for key in ("status", "why")
    )
    assert "nothing to resume" in perdure("resume", "--all", "--due")[1]
    assert (0, "task p is cancelled\n") == perdure("cancel", paused)[:2]
    for verb in ("pause", "cancel"):
        code, _, err = perdure(verb, paused)
        assert 2 == code
        assert "has ended (cancelled)" in err


@pytest.mark.parametrize("action", ["nothing", "-PW8MwMKVL3xTkPpd--tGu", ""])
def test_an_action_that_is_not_open_cannot_be_settled(perdure, paused, action):
    """Ids that begin with a dash are taken for ids; an empty beginning fits none here."""
    code, _, err = perdure("settle", paused, action, "--keep")
    assert 2 == code
    assert f"no open or doubtful action {action!r}" in err


@pytest.mark.parametrize(
    "answer",
    [(), ("--happened", "--keep"), ("--keep", "--result", "1"), ("--happened", "--result", "{")],
)
def test_a_settlement_must_say_one_thing(perdure, paused, answer):
    """None, two, a result that goes with nothing, a result that is not JSON: exit 2."""
    assert 2 == perdure("settle", paused, "x", *answer)[0]
