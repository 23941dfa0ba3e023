"""`perdure fork` as a person types it: a fork beside its parent, what it says, and one that was killed half way."""

import json

import pytest

PROGRAM = """
import perdure

@perdure.tool(effect="idempotent")
async def mail(to: str, key: perdure.EffectKey) -> str:
    with open("mails", "a") as file:
        file.write(f"{to}\\n")
    return to

@perdure.program(state={"sent": []})
async def letters(task):
    for to in ("ann", "bob"):
        await task.using(key=to).act(mail, to, then=lambda state, name: state["sent"].append(name))
        await task.checkpoint(f"{to} has one")
    return task.state["sent"].plain()
"""


@pytest.fixture
def letters(perdure, here):
    """A succeeded task with two effects, a checkpoint behind each."""
    (here / "letters.py").write_text(PROGRAM)
    assert 0 == perdure("run", "--program", "letters.py:letters", "--name", "letters", "--quiet")[0]
    return "letters"


def test_a_fork_is_made_shown_resumed_replayed_and_verified(perdure, here, letters):
    """What it does not know is listed and made again; log, replay and verify know it as a task like any other."""
    dry = perdure("fork", letters, "--at", "ann has one", "--into", "two", "--dry-run")
    assert 0 == dry[0]
    assert "1 effect(s) that letters had behind that moment" in dry[1]
    assert "mail (" in dry[1]
    assert not (here / "two").exists()
    assert ["letters"] == [row["name"] for row in json.loads(perdure("list", "--all", "--json")[1])]

    code, out, _ = perdure("fork", letters, "--at", "ann has one", "--into", "two")
    assert (0, "next: perdure resume letters-fork") == (code, out.splitlines()[-1])
    assert "a fork of letters from checkpoint 'ann has one'" in out
    assert ["interrupted"] == [row["status"] for row in json.loads(perdure("list", "--json")[1])]
    assert {"sent": ["ann"]} == json.loads(perdure("state", "letters-fork")[1])
    assert 0 == perdure("resume", "letters-fork", "--quiet")[0]
    assert ["ann", "bob", "bob"] == (here / "mails").read_text().split()
    for name in (letters, "letters-fork"):
        assert 0 == perdure("verify", name, "--full")[0]
        assert 0 == perdure("replay", name)[0]
        assert 0 == perdure("replay", name, "--tolerant")[0]
    first = json.loads(perdure("log", "letters-fork", "--json")[1].splitlines()[0])
    assert ("task_forked", "letters-fork") == (first["kind"], first["fields"]["started"]["name"])
    assert 0 == perdure("delete", letters, "--yes")[0]
    assert 0 == perdure("verify", "letters-fork", "--full")[0]
    assert 0 == perdure("replay", "letters-fork")[0]


def test_a_fork_of_any_moment_replays(perdure, letters):
    """Also where its parent was in the middle of a run: that run is cut there, and the fork's own follows."""
    entries = json.loads(perdure("show", letters, "--json")[1])["entries"]
    made = [at for at in range(1, entries + 1) if perdure("fork", letters, "--at", at, "--into", at)[0] == 0]
    assert len(made) == entries - 3  # two effects under way, and the end
    names = [row["name"] for row in json.loads(perdure("list", "--json")[1])]
    assert len(made) == len(names)
    assert {0} == {perdure("resume", name, "--quiet")[0] for name in names}
    assert {0} == {perdure("replay", name)[0] for name in names}
    assert {0} == {perdure("verify", name, "--full")[0] for name in names}


def test_the_json_says_all_of_it(perdure, here, letters):
    """The documented fields; `task` is the id of what was made."""
    code, out, _ = perdure("fork", letters, "--at", "1", "--into", "two", "--name", "again", "--json")
    made = json.loads(out)
    assert 0 == code
    assert ["mail", "mail"] == [one["tool"] for one in made["later_effects"]]
    assert {"action", "tool", "seq", "certain"} == set(made["later_effects"][0])
    assert ("again", 1, "", str(here / "two"), 0, 0) == tuple(
        made[field] for field in ("name", "at", "checkpoint", "workspace", "files", "file_bytes")
    )
    assert made["task"] == json.loads(perdure("show", "again", "--json")[1])["task"]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (("--at", "nowhere", "--into", "two"), "has no checkpoint 'nowhere'"),
        (("--at", "99", "--into", "two"), "none is 99"),
        (("--into", "."), "holds the store"),
        (("--into", ".perdure"), "holds the store"),
        (("--into", "mails"), "cannot be the fork's folder"),
        (("--into", "mails/in"), "cannot be written"),
    ],
)
def test_what_will_not_do_is_refused_and_nothing_is_made(perdure, here, letters, order, why):
    """Exit 2, the reason, and no task more than before."""
    code, _, err = perdure("fork", letters, *order)
    assert (2, True) == (code, why in err), err
    assert ["letters"] == [row["name"] for row in json.loads(perdure("list", "--all", "--json")[1])]
    assert not (here / "two").exists()


def test_two_forks_do_not_share_a_folder(perdure, here, letters):
    """Also one in which the first has no files yet: it would take those of the second for its own."""
    assert 0 == perdure("fork", letters, "--at", "start", "--into", "two")[0]
    code, _, err = perdure("fork", letters, "--at", "start", "--into", "two")
    assert (2, True) == (code, "is the workspace of task 'letters-fork', which is unfinished" in err)
    assert 0 == perdure("cancel", "letters-fork")[0]
    assert 0 == perdure("fork", letters, "--at", "start", "--into", "two")[0]


def test_a_half_fork_says_what_to_type(perdure, spawn, here, letters):
    """Killed half way: listed as half, never resumed, not even by --all; the line that it names makes it anew."""
    process = spawn("fork", letters, "--into", "two", PERDURE_TESTING="1", PERDURE_CRASH="during_fork:2")
    process.communicate()
    assert -9 == process.returncode
    (row,) = json.loads(perdure("list", "--json")[1])
    assert ("letters-fork", "half fork") == (row["name"], row["status"])
    assert "nothing to resume" in perdure("resume", "--all", "--due")[1]
    assert "nothing to resume" in perdure("resume")[1]
    code, _, err = perdure("resume", "letters-fork")
    assert 2 == code
    line = err.partition("make it anew: perdure ")[2].partition(" (or")[0]
    assert line.startswith("fork letters --at ")
    assert line.endswith(f"--into {here / 'two'} --name letters-fork")
    assert 0 == perdure("verify", "letters-fork")[0]
    assert "perdure delete letters-fork" in perdure("show", "letters-fork")[1]
    assert 0 == perdure(*line.split())[0]
    assert 0 == perdure("resume", "letters-fork", "--quiet")[0]
    assert ["letters", "letters-fork"] == sorted(
        row["name"] for row in json.loads(perdure("list", "--all", "--json")[1])
    )


def test_a_half_fork_can_be_deleted(perdure, spawn, letters):
    """Like any task."""
    process = spawn("fork", letters, "--into", "two", PERDURE_TESTING="1", PERDURE_CRASH="during_fork:1")
    process.communicate()
    process = spawn("fork", letters, "--into", "two", PERDURE_TESTING="1", PERDURE_CRASH="during_fork:3")
    process.communicate()
    assert 0 == perdure("delete", "letters-fork", "--yes")[0]
    assert ["letters"] == [row["name"] for row in json.loads(perdure("list", "--all", "--json")[1])]
