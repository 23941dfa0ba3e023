"""What a run takes over from AutoGPT's files, which of them wins, and what people are told."""

import json
import os
import shutil
from pathlib import Path

import pytest

from perdure.agent.autogpt import inherit, inherit_agent
from perdure.agent.settings import AgentSettings
from perdure.core.permissions import Permissions, judge
from perdure.errors import ConfigInvalid, UsageError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "autogpt"


@pytest.fixture
def agent(tmp_path):
    """A project of AutoGPT's with an agent in it; its folder."""
    folder = tmp_path / "data" / "agents" / "TidyGPT-7c1f03aa"
    (folder / "workspace").mkdir(parents=True)
    shutil.copy(FIXTURES / "state-0.6.json", folder / "state.json")
    return folder


def test_an_empty_folder_leaves_everything_as_it_is(tmp_path):
    """No file, no remark, no setting."""
    found = inherit(str(tmp_path), {})
    assert (AgentSettings(), "", (), {}) == (found.settings, found.goal, found.remarks, dict(found.variables))


@pytest.mark.parametrize("model", ["offline", "local"])
def test_for_a_model_that_asks_nobody_nothing_is_looked_at(tmp_path, model):
    """A file that would be refused stops nobody who does not need it."""
    (tmp_path / ".env").write_text("SMART_LLM=who-knows\n", "utf-8")
    assert (AgentSettings(), ()) == (inherit(str(tmp_path), {}, model=model).settings, ())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_that_nobody_named_is_left_aside(tmp_path, monkeypatch):
    """And that is told."""
    (tmp_path / "ai_settings.yaml").write_text("ai_name: Eve\n", "utf-8")
    os.chown(tmp_path / "ai_settings.yaml", 12345, 12345)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    found = inherit(str(tmp_path), {})
    place = tmp_path / "ai_settings.yaml"
    assert ("", (f"not obeyed in {place}: the file (it belongs to another user)",)) == (
        found.settings.name,
        found.remarks,
    )


def test_the_files_of_a_folder_make_one_set_of_settings(tmp_path):
    """Model from `.env`, name and goal from `ai_settings.yaml`, rules from both YAML files."""
    (tmp_path / ".env").write_text("SMART_LLM=gpt-4o\nOPENAI_API_KEY=k\n", "utf-8")
    (tmp_path / "ai_settings.yaml").write_text("ai_name: Ada\nai_goals: [Cook soup]\nconstraints: [no salt]\n", "utf-8")
    (tmp_path / "prompt_settings.yaml").write_text("constraints: [no pepper]\n", "utf-8")
    found = inherit(str(tmp_path), {})
    wanted = AgentSettings(model="openai:gpt-4o", name="Ada", constraints=("no salt", "no pepper"))
    assert (wanted, "Cook soup", {"OPENAI_API_KEY": "k"}) == (found.settings, found.goal, dict(found.variables))
    assert tuple(f"read {tmp_path / name}" for name in (".env", "ai_settings.yaml", "prompt_settings.yaml")) == (
        found.remarks
    )


def test_a_file_that_is_named_must_be_there(tmp_path):
    """In `.env` or in the environment; a relative path counts from the folder."""
    with pytest.raises(ConfigInvalid, match=r"mine\.yaml: cannot be read"):
        inherit(str(tmp_path), {"AI_SETTINGS_FILE": "mine.yaml"})
    (tmp_path / ".env").write_text("AI_SETTINGS_FILE=mine.yaml\n", "utf-8")
    with pytest.raises(ConfigInvalid, match=r"mine\.yaml: cannot be read"):
        inherit(str(tmp_path), {})
    (tmp_path / "mine.yaml").write_text("ai_name: Ada\n", "utf-8")
    assert "Ada" == inherit(str(tmp_path), {}).settings.name


def test_what_is_not_obeyed_is_told_by_reason(tmp_path):
    """Names with one reason stand together; names that are not AutoGPT's are told as well."""
    (tmp_path / ".env").write_text("USE_AZURE=True\nIMAGE_SIZE=256\nSD_WEBUI_URL=x\nMINE=1\n", "utf-8")
    azure, images, mine = inherit(str(tmp_path), {}).remarks
    assert azure.startswith(f"not obeyed in {tmp_path / '.env'}: USE_AZURE (not read; name the deployment with --model")
    assert images.endswith(
        ": IMAGE_SIZE, SD_WEBUI_URL (there is no tool for images or sound; an MCP server can be one)"
    )
    assert f"unknown in {tmp_path / '.env'}: MINE" == mine


def test_a_command_that_is_no_tool_here_need_not_be_left_out(tmp_path):
    """Tools by name and alias, and what is no tool but called like one; of others it is said that there are none."""
    lines = "DISABLED_COMMANDS=generate_image,execute_shell,ask_user\n"
    (tmp_path / ".env").write_text(lines, "utf-8")
    found = inherit(str(tmp_path), {})
    assert ("execute_shell", "ask_user") == found.settings.left_out
    assert "no tool has the name generate_image; there is nothing to leave out" == found.remarks[-1]


def test_keys_are_neither_shown_nor_encoded(tmp_path):
    """What is handed on stands in no text that is made of the value."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=secret-1\n", "utf-8")
    found = inherit(str(tmp_path), {})
    assert "secret-1" not in repr(found)
    assert "<variables: OPENAI_API_KEY>" in repr(found)


def test_an_agent_goes_on_with_its_goal_settings_and_history(agent):
    """And in its workspace; the first remark says from where."""
    found = inherit_agent(str(agent), {})
    assert found.goal.startswith("Make an index of the archive")
    assert ("openai:gpt-4o", "TidyGPT", 5) == (found.settings.model, found.settings.name, found.turns)
    assert (5, str(agent / "workspace")) == (sum("calls" in m for m in found.messages), found.workspace)
    assert f"goes on from {agent / 'state.json'}: 5 actions" == found.remarks[0]


def test_the_project_of_an_agent_gives_keys_and_permissions(agent, tmp_path):
    """`.env` and `autogpt.yaml` of the project, `permissions.yaml` of the agent; the state goes before `.env`."""
    (tmp_path / ".env").write_text("SMART_LLM=gpt-4\nTEMPERATURE=0\nOPENAI_API_KEY=k\n", "utf-8")
    (tmp_path / ".autogpt").mkdir()
    (tmp_path / ".autogpt" / "autogpt.yaml").write_text("permissions: {deny: ['read_file(**.env)']}\n", "utf-8")
    (agent / "permissions.yaml").write_text("permissions: {allow: ['finish(**)']}\n", "utf-8")
    found = inherit_agent(str(agent), {})
    assert ("openai:gpt-4o", 0.0) == (found.settings.model, found.settings.temperature)
    assert (("finish(**)",), ("read_file(**.env)",)) == (found.settings.allow, found.settings.deny)
    assert {"OPENAI_API_KEY": "k"} == dict(found.variables)


@pytest.mark.parametrize(
    ("lines", "outcomes"),
    [
        ("SHELL_DENYLIST=sudo,su", ["ask", "ask", "deny", "deny"]),
        ("SHELL_COMMAND_CONTROL=allowlist\nSHELL_ALLOWLIST=ls,cat", ["ask", "deny", "deny", "deny"]),
    ],
)
def test_the_lists_of_the_shell_judge_calls(tmp_path, lines, outcomes):
    """A program on the denylist is refused, also behind another; with an allowlist every other one is."""
    (tmp_path / ".env").write_text(lines, "utf-8")
    settings = inherit(str(tmp_path), {}).settings
    permissions = Permissions(allow=settings.allow, deny=settings.deny, only=settings.only)
    calls = ("ls -l", "python3 x.py", "sudo ls", "ls; su")
    assert outcomes == [judge(permissions, "execute_shell", {"command_line": c}, "/w").outcome for c in calls]


def test_a_given_model_takes_the_place_of_those_of_the_state(agent):
    """Models of that time may be gone."""
    settings = inherit_agent(str(agent), {}, model="anthropic:claude-sonnet-4-5").settings
    assert ("offline", "") == (settings.model, settings.fast_model)


def test_a_given_goal_goes_before_the_agents_and_the_model_is_told(agent):
    """The history begins with what it was for."""
    found = inherit_agent(str(agent), {}, goal="Now tell me a joke")
    assert ("Now tell me a joke", "user") == (found.goal, found.messages[0]["role"])
    assert found.messages[0]["text"].startswith("What you did until now was for this goal:\nMake an index")


def test_an_agent_that_had_finished_needs_a_new_goal(agent):
    """The refusal says what it had finished with, and what to type."""
    state = json.loads((agent / "state.json").read_text("utf-8"))
    state["history"]["episodes"][-1]["action"]["use_tool"] = {"name": "finish", "arguments": {"reason": "all listed"}}
    (agent / "state.json").write_text(json.dumps(state), "utf-8")
    with pytest.raises(UsageError) as refused:
        inherit_agent(str(agent), {})
    assert (
        f"agent 'TidyGPT-7c1f03aa' had finished: 'all listed'; say what is wanted now: "
        f'perdure run "GOAL" --from-autogpt {agent}'
    ) == str(refused.value)
    assert "Sort it" == inherit_agent(str(agent), {}, goal="Sort it").goal


def test_an_agent_without_a_goal_needs_one(tmp_path):
    """It is asked for."""
    (tmp_path / "state.json").write_text('{"ai_profile": {}, "history": {}}', "utf-8")
    with pytest.raises(UsageError, match="has no goal on record; say what is wanted now"):
        inherit_agent(str(tmp_path), {})
    assert "cook" == inherit_agent(str(tmp_path), {}, goal="cook").goal
