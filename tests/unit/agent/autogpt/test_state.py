"""AutoGPT's `state.json`: the goal, and the history as a conversation that every provider takes.

The fixtures are written to AutoGPT's public schema: `state-0.5.0.json` in that of release 0.5.0, `state-0.6.json` in
that of 0.6 and the branch `classic`, with calls made at once, feedback, an error and a call that was under way.
"""

import json
import shutil
from pathlib import Path

import pytest

from perdure.agent.autogpt.state import read_state
from perdure.errors import ConfigInvalid
from perdure.limits import FOREIGN_FILE_BYTES_MAX
from perdure.model.budget import Budget

FIXTURES = Path(__file__).parents[3] / "fixtures" / "autogpt"
NEW, OLD = FIXTURES / "state-0.6.json", FIXTURES / "state-0.5.0.json"


@pytest.fixture
def state(tmp_path):
    """Write what is given as a `state.json` and read it."""

    def read(**parts):
        written = {"ai_profile": {"ai_name": "Ada"}, "task": "cook", "history": {"episodes": []}} | parts
        (tmp_path / "state.json").write_text(json.dumps(written), "utf-8")
        return read_state(str(tmp_path))

    return read


def episode(result, *tools):
    """Return an episode that calls `tools`, each (name, arguments)."""
    used = [{"name": name, "arguments": arguments} for name, arguments in tools]
    return {"action": {"thoughts": "so", "use_tool": used[0], "use_tools": used}, "result": result, "summary": None}


def results_of(read, *episodes):
    """Return the results of all calls, in order."""
    messages = read(history={"episodes": list(episodes)}).messages
    return [message["results"][call["id"]] for message in messages for call in message.get("calls", ())]


def test_a_state_of_0_6_is_read(tmp_path):
    """All of it: goal, settings, what is not obeyed; no key is unknown."""
    shutil.copy(NEW, tmp_path / "state.json")
    found = read_state(str(tmp_path))
    assert (
        "Make an index of the archive\n- List every file of the archive\n- Write index.md with one line per file"
        == (found.goal)
    )
    assert {
        "name": "TidyGPT",
        "role": "a careful archivist",
        "budget": Budget(money="2.5 USD"),
        "constraints": ("Never delete a letter",),
        "resources": ("A folder of old letters",),
        "best_practices": ("Look before you write",),
        "model": "openai:gpt-4o",
        "fast_model": "openai:gpt-4o-mini",
        "restrict_to_workspace": True,
        "context_max": 6000,
    } == found.fields
    assert ("TidyGPT-7c1f03aa", 5, None, ()) == (found.agent_id, found.turns, found.finished, found.unknown)
    assert {"config.cycle_budget", "config.cycle_count", "history.cursor", "agent_id"} <= found.ignored.keys()


def test_the_history_of_0_6_is_a_conversation(tmp_path):
    """Each call stands in an assistant's message with its result: done, failed, refused by a person, interrupted."""
    shutil.copy(NEW, tmp_path / "state.json")
    listed, read, copied, missed, written, opened, said = read_state(str(tmp_path)).messages
    assert [{"id": "0.1", "name": "list_folder", "arguments": {"folder": "."}}] == listed["calls"]
    assert {"0.1": {"text": '["a.txt","b.txt"]'}} == listed["results"]
    assert (
        "reasoning: The folder tells what there is.\nplan: \n- list the folder\n- read what is unclear"
        in listed["text"]
    )
    assert ["0.2", "0.3", "0.4"] == [call["id"] for call in read["calls"]]
    assert {
        "0.2": {"text": "Dear Anna, the ship is late."},
        "0.3": {"text": "b.txt: 912 bytes"},
        "0.4": {"failed": {"type": "CommandFailed", "message": "the page cannot be reached"}},
    } == read["results"]
    refused = {"type": "NotExecuted", "message": "not executed; the person said: stay inside the archive"}
    assert {"0.5": {"failed": refused}} == copied["results"]
    failed = {"type": "CommandExecutionError", "message": "File b.text does not exist."}
    assert {"0.6": {"failed": failed}} == missed["results"]
    assert "Interrupted" == written["results"]["0.7"]["failed"]["type"]
    assert "whether it took effect is not known" in written["results"]["0.7"]["failed"]["message"]
    assert {"role": "user", "text": "stay inside the archive"} == said
    assert "Kept open so far; read again what you still need:\n- file a.txt\n- folder ." == opened["text"]


def test_a_state_of_0_5_0_is_read(tmp_path):
    """Actions with `args`, a goal in the profile, the fast model thinking, access to all files."""
    shutil.copy(OLD, tmp_path / "state.json")
    found = read_state(str(tmp_path / "state.json"))
    assert ("Write menu.txt with three courses", 2, ()) == (found.goal, found.turns, found.unknown)
    assert ("openai:gpt-3.5-turbo-16k", False) == (found.fields["model"], found.fields["restrict_to_workspace"])
    searched, wrote = found.messages
    assert [{"id": "0.1", "name": "web_search", "arguments": {"query": "spring menu"}}] == searched["calls"]
    assert ("I need to know what is in season.", {"text": "asparagus, rhubarb"}) == (
        searched["text"],
        searched["results"]["0.1"],
    )
    assert "there will be four of us" in wrote["results"]["0.2"]["failed"]["message"]


def test_every_call_is_answered_exactly_once(tmp_path):
    """Whatever the fixture: the results are those of the calls, and ids are unique in the conversation."""
    for fixture in (NEW, OLD):
        messages = read_state(str(fixture)).messages
        calls = [call["id"] for message in messages for call in message.get("calls", ())]
        assert len(calls) == len(set(calls))
        assert [] == [m for m in messages if {c["id"] for c in m.get("calls", ())} != m.get("results", {}).keys()]


def test_of_calls_with_one_name_it_is_said_that_one_result_was_kept(state):
    """AutoGPT keeps an output per name: whose it is cannot be told, and where one failed nothing can."""
    twice = [("read_file", {"filename": "a"}), ("read_file", {"filename": "b"})]
    both = results_of(state, episode({"status": "success", "outputs": {"read_file": "A"}}, *twice))
    note = "[AutoGPT kept one result of 2 calls of read_file; it may be another's.]\nA"
    assert [{"text": note}, {"text": note}] == both
    mixed = results_of(
        state, episode({"status": "success", "outputs": {"read_file": "A", "_errors": ["read_file: gone"]}}, *twice)
    )
    assert ["ResultUnknown", "ResultUnknown"] == [one["failed"]["type"] for one in mixed]
    assert "gone; A" in mixed[0]["failed"]["message"]


def test_an_error_of_calls_made_at_once_is_the_error_of_each(state):
    """As AutoGPT shows it to its model."""
    two = [("git_diff", {}), ("git_status", {})]
    errors = results_of(state, episode({"status": "error", "reason": "git_diff: no; git_status: no"}, *two))
    assert [{"failed": {"type": "CommandFailed", "message": "git_diff: no; git_status: no"}}] * 2 == errors


def test_a_finished_agent_is_known_by_its_last_action(state):
    """Finish has no result there; the call is closed, and the reason is kept."""
    found = state(history={"episodes": [episode(None, ("finish", {"reason": "soup is ready"}))]})
    assert ("soup is ready", ["text"]) == (found.finished, list(found.messages[0]["results"]["0.1"]))
    again = [
        episode(None, ("finish", {"reason": "x"})),
        episode({"status": "success", "outputs": None}, ("read_file", {})),
    ]
    assert None is state(history={"episodes": again}).finished
    asked_again = episode({"status": "interrupted_by_human", "feedback": "salt it"}, ("finish", {"reason": "x"}))
    assert None is state(history={"episodes": [asked_again]}).finished


def test_a_made_up_name_of_a_tool_becomes_one_that_providers_take(state):
    """Letters, digits, `_` and `-`, at most 64."""
    found = state(history={"episodes": [episode(None, ("browse the web! " * 9, {}))]})
    assert ("browse_the_web__" * 9)[:64] == found.messages[0]["calls"][0]["name"]


def test_an_action_without_a_call_is_a_word_and_its_answer(state):
    """Early versions asked the person that way."""
    action = {"name": "", "args": {}, "reasoning": "how many guests?"}
    result = {"status": "interrupted_by_human", "feedback": "four"}
    asked, answered = state(history={"episodes": [{"action": action, "result": result}]}).messages
    assert ("assistant", "how many guests?") == (asked["role"], asked["text"])
    assert ("user", "not executed; the person said: four") == (answered["role"], answered["text"])


def test_what_was_kept_in_the_context_is_told(state):
    """Files and folders by path, other items by their text."""
    items = [{"type": "static", "description": "Weather", "source": None, "content": "rain"}, {"path": "a.txt"}]
    (told,) = state(context={"items": items}).messages
    assert "Kept open so far; read again what you still need:\n- Weather\nrain\n- file a.txt" == told["text"]


def test_the_task_alone_is_the_goal(state):
    """With goals, these are below it; with neither, the role; a goal that the task says already is not said twice."""
    assert "cook" == state().goal
    assert "cook soup\n- eat" == state(task="cook soup", ai_profile={"ai_goals": ["soup", "eat"]}).goal
    assert "1. cook\n2. eat" == state(task="", ai_profile={"ai_goals": ["cook", "eat"]}).goal
    assert "a cook" == state(task="", ai_profile={"ai_role": "a cook"}).goal
    assert "" == state(task=None, ai_profile={}).goal


def test_unknown_keys_are_listed_with_their_place(state):
    """At every level, each once."""
    one = {"action": {"name": "a", "args": {}, "mood": 1}, "result": None, "cost": 1}
    found = state(spice=1, config={"heat": 2}, history={"episodes": [one, one], "era": 1})
    assert (
        "config.heat",
        "history.era",
        "spice",
        "history.episodes[].cost",
        "history.episodes[].action.mood",
    ) == found.unknown


def test_where_the_file_lies_tells_the_workspace(tmp_path):
    """A folder `workspace` beside it; of the later layout, the folder in which AutoGPT was started."""
    server = tmp_path / "data" / "agents" / "A-1"
    cli = tmp_path / "letters" / ".autogpt" / "agents" / "A-2"
    for folder in (server / "workspace", cli, tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    for folder in (server, cli, tmp_path / "elsewhere"):
        shutil.copy(NEW, folder / "state.json")
    found = {read_state(str(folder)).workspace for folder in (server, cli, tmp_path / "elsewhere")}
    assert {str(server / "workspace"), str(tmp_path / "letters"), ""} == found
    assert [str(tmp_path), str(tmp_path / "letters"), ""] == [
        read_state(str(folder)).project for folder in (server, cli, tmp_path / "elsewhere")
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is no whole JSON"),
        ('{"ai_profile": {}, "hist', "is no whole JSON"),
        ("[]", "must hold a JSON object, not a list"),
        ("{}", "ai_profile and history: are missing; this is not the state of an AutoGPT agent"),
        ('{"history": []}', "history: must be an object with names, not a list"),
        ('{"history": {"episodes": {}}}', "history.episodes: must be a list, not an object"),
        ('{"history": {"episodes": [3]}}', "history.episodes[0]: must be an object with names, not a number"),
        (
            '{"history": {"episodes": [{"action": {}}]}}',
            "history.episodes[0].action: has neither `use_tool` nor `name`",
        ),
        (
            '{"history": {"episodes": [{"action": {"name": "a", "args": [1]}}]}}',
            "history.episodes[0].action.args: must be an object with names, not a list",
        ),
        (
            '{"history": {"episodes": [{"action": {"name": "a", "args": {}}, "result": {"status": "fine"}}]}}',
            "history.episodes[0].result.status: 'fine' is not one of success, error, interrupted_by_human",
        ),
        ('{"history": {}, "config": {"smart_llm": "x"}}', "config.smart_llm: 'x' tells no provider"),
        ('{"history": {}, "config": {"big_brain": 1}}', "config.big_brain: must be true or false, not 1"),
        ('{"history": {}, "context": {"items": [{"type": "car"}]}}', "context.items[0].type: 'car' is not one of"),
    ],
)
def test_a_wrong_state_is_refused_with_file_and_key(tmp_path, text, complaint):
    """And nothing of it is read."""
    (tmp_path / "state.json").write_text(text, "utf-8")
    with pytest.raises(ConfigInvalid) as refused:
        read_state(str(tmp_path))
    assert str(refused.value).startswith(f"{tmp_path / 'state.json'}: {complaint}")


def test_a_state_cut_at_any_byte_is_refused(tmp_path):
    """No half of a file is taken for a whole one."""
    whole = OLD.read_bytes().rstrip()
    for size in range(0, len(whole), 7):
        (tmp_path / "state.json").write_bytes(whole[:size])
        with pytest.raises(ConfigInvalid, match="is no whole JSON"):
            read_state(str(tmp_path))


def nodes_of(value, path=()):
    """Yield the path of each part of a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in inner:
        yield from nodes_of(part, (*path, step))


def replaced(value, path, part):
    """Return `value` with `part` at `path`."""
    if not path:
        return part
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = replaced(value[path[0]], path[1:], part)
    return made


@pytest.mark.parametrize("part", [None, True, -1, 1e308, "", "x", [], [[]], {}, {"x": 1}], ids=repr)
def test_whatever_stands_anywhere_is_read_or_refused(tmp_path, part):
    """Never half, never with another error; what is read is a conversation in which every call has its result."""
    for fixture in (NEW, OLD):
        whole = json.loads(fixture.read_text("utf-8"))
        for path in nodes_of(whole):
            (tmp_path / "state.json").write_text(json.dumps(replaced(whole, path, part)), "utf-8")
            try:
                messages = read_state(str(tmp_path)).messages
            except ConfigInvalid:
                continue
            open_calls = [m for m in messages if {c["id"] for c in m.get("calls", ())} != m.get("results", {}).keys()]
            assert ([], path) == (open_calls, path)


def test_a_state_that_is_too_large_is_refused_unread(tmp_path):
    """Its size is not what memory has to bear."""
    with (tmp_path / "state.json").open("wb") as file:
        file.truncate(FOREIGN_FILE_BYTES_MAX + 1)
    with pytest.raises(ConfigInvalid, match="has more than"):
        read_state(str(tmp_path))


def test_a_folder_above_names_an_agent_below(tmp_path):
    """Whoever names the project is told what to name."""
    with pytest.raises(ConfigInvalid, match="name the folder of an agent"):
        read_state(str(tmp_path))
    agent = tmp_path / "data" / "agents" / "A-1"
    agent.mkdir(parents=True)
    shutil.copy(NEW, agent / "state.json")
    with pytest.raises(ConfigInvalid, match=r"name one of its agents, such as .*A-1"):
        read_state(str(tmp_path))
