"""Each row of the table of AutoGPT's settings does what its row says; a row without a case here is reported."""

import json

import pytest

from perdure.agent.autogpt.ai_settings import read_ai_settings, read_permissions
from perdure.agent.autogpt.dotenv import read_dotenv
from perdure.agent.autogpt.state import read_state
from perdure.agent.autogpt.table import ENV, PERMISSIONS, PROFILE, STATE
from perdure.model.budget import Budget

OWN = "AP_SERVER_PORT=8000\n"  # makes a file AutoGPT's, and does nothing else
SHELL = ("execute_shell",)

# Name → (lines of the file, fields of the settings that follow).
ENV_OBEYED = {
    "OPENAI_API_BASE_URL": (
        "OPENAI_API_BASE_URL=http://h:1/v1/\nSMART_LLM=mine",
        {"base_url": "http://h:1/v1", "model": "openai:mine"},
    ),
    "LLAMAFILE_API_BASE": (
        "LLAMAFILE_API_BASE=http://h:1/v1\nSMART_LLM=mistral-7b-instruct-v0.2",
        {"base_url": "http://h:1/v1", "model": "openai:mistral-7b-instruct-v0.2"},
    ),
    "SMART_LLM": ("SMART_LLM=gpt-4o", {"model": "openai:gpt-4o"}),
    "FAST_LLM": ("FAST_LLM=claude-3-haiku-20240307", {"fast_model": "anthropic:claude-3-haiku-20240307"}),
    "SMART_LLM_MODEL": ("SMART_LLM_MODEL=gpt-4", {"model": "openai:gpt-4"}),
    "FAST_LLM_MODEL": ("FAST_LLM_MODEL=gpt-3.5-turbo", {"fast_model": "openai:gpt-3.5-turbo"}),
    "SMART_TOKEN_LIMIT": ("SMART_TOKEN_LIMIT=8000", {"context_max": 8000}),
    "TEMPERATURE": ("TEMPERATURE=0.7", {"temperature": 0.7}),
    "PROMPT_STRATEGY": ("PROMPT_STRATEGY=rewoo", {"prompt_strategy": "rewoo"}),
    "RESTRICT_TO_WORKSPACE": ("RESTRICT_TO_WORKSPACE=False", {"restrict_to_workspace": False}),
    "EXECUTE_LOCAL_COMMANDS": ("EXECUTE_LOCAL_COMMANDS=False", {"left_out": SHELL}),
    "SHELL_COMMAND_CONTROL": ("SHELL_COMMAND_CONTROL=allowlist", {"left_out": SHELL}),
    "SHELL_DENYLIST": ("SHELL_DENYLIST=sudo, su", {"deny": ("execute_shell(sudo:**)", "execute_shell(su:**)")}),
    "SHELL_ALLOWLIST": (
        "SHELL_COMMAND_CONTROL=allowlist\nSHELL_ALLOWLIST=ls,cat\nSHELL_DENYLIST=sudo",
        {"only": ("execute_shell(ls:**)", "execute_shell(cat:**)")},
    ),
    "DENY_COMMANDS": ("DENY_COMMANDS=rm", {"deny": ("execute_shell(rm:**)",)}),
    "ALLOW_COMMANDS": ("SHELL_COMMAND_CONTROL=allowlist\nALLOW_COMMANDS=ls", {"only": ("execute_shell(ls:**)",)}),
    "DISABLED_COMMANDS": ("DISABLED_COMMANDS=delete_file,web_search", {"left_out": ("delete_file", "web_search")}),
    "DISABLED_COMMAND_CATEGORIES": (
        "DISABLED_COMMAND_CATEGORIES=autogpt.commands.execute_code,web_search",
        {"left_out": ("execute_shell", "execute_python_code", "execute_python_file", "web_search")},
    ),
}
ENV_FILES = {"AI_SETTINGS_FILE": "mine.yaml", "PROMPT_SETTINGS_FILE": "rules.yaml"}
ENV_HANDED_ON = {
    "OPENAI_API_KEY": "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY": "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY": "GOOGLE_API_KEY",
    "GROQ_API_KEY": "GROQ_API_KEY",
    "TAVILY_API_KEY": "TAVILY_API_KEY",
    "SERPER_API_KEY": "SERPER_API_KEY",
    "OPENAI_ORGANIZATION": "OPENAI_ORG_ID",
    "ANTHROPIC_API_BASE_URL": "ANTHROPIC_BASE_URL",
    "GROQ_API_BASE_URL": "GROQ_BASE_URL",
}
PROFILE_OBEYED = {
    "ai_name": ("ai_name: Ada", {"name": "Ada"}),
    "ai_role": ("ai_role: a cook", {"role": "a cook"}),
    "api_budget": ("api_budget: 1.50", {"budget": Budget(money="1.5 USD")}),
    "constraints": ("constraints:\n- no salt", {"constraints": ("no salt",)}),
    "resources": ("resources:\n- a stove", {"resources": ("a stove",)}),
    "best_practices": ("best_practices:\n- taste it", {"best_practices": ("taste it",)}),
    "performance_evaluations": (
        "performance_evaluations:\n- look back\nbest_practices:\n- taste it",
        {"best_practices": ("taste it", "look back")},
    ),
}
PERMISSIONS_OBEYED = {
    "permissions.allow": (
        "permissions:\n  allow: ['finish(**)', 'read_file({workspace}/./*)']",
        {"allow": ("finish(**)", "read_file({workspace}/*)")},
    ),
    "permissions.deny": ("permissions:\n  deny: ['read_file(**.env)']", {"deny": ("read_file(**.env)",)}),
}
STATE_OBEYED = {
    "ai_profile.ai_name": ("Ada", {"name": "Ada"}),
    "ai_profile.ai_role": ("a cook", {"role": "a cook"}),
    "ai_profile.api_budget": (10, {"budget": Budget(money="10 USD")}),
    "directives.constraints": (["no salt"], {"constraints": ("no salt",)}),
    "directives.resources": (["a stove"], {"resources": ("a stove",)}),
    "directives.best_practices": (["taste it"], {"best_practices": ("taste it",)}),
    "config.smart_llm": ("gpt-4o", {"model": "openai:gpt-4o"}),
    "config.fast_llm": ("gpt-4o-mini", {"fast_model": "openai:gpt-4o-mini"}),
    "config.allow_fs_access": (True, {"restrict_to_workspace": False}),
    "config.send_token_limit": (6000, {"context_max": 6000}),
}
STATE_READ_WHOLE = {  # in test_state.py
    "task",
    "ai_profile.ai_goals",
    "config.big_brain",
    "history.episodes",
    "history.pending_user_feedback",
    "context.items",
}


def names(rows, verdict, *, part=None):
    """Return the names of the rows of a verdict; with `part`, of those that are read for that."""
    return [row.name for row in rows if row.verdict == verdict and (part is None or bool(row.part) == part)]


@pytest.fixture
def dotenv(tmp_path):
    """Write a `.env` of AutoGPT's and read it under an empty environment."""

    def read(lines):
        (tmp_path / ".env").write_text(OWN + lines, "utf-8")
        return read_dotenv(str(tmp_path), {})

    return read


@pytest.fixture
def state(tmp_path):
    """Write a `state.json` with one key of a row and read it."""

    def read(name, value):
        part, _, key = name.rpartition(".")
        written = {"history": {}, "ai_profile": {}}
        (written.setdefault(part, {}) if part else written)[key] = value
        (tmp_path / "state.json").write_text(json.dumps(written), "utf-8")
        return read_state(str(tmp_path))

    return read


@pytest.mark.parametrize("name", names(ENV, "obeyed", part=False))
def test_a_variable_that_is_obeyed_sets_what_its_row_says(name, dotenv):
    """Each such row has a case, and its lines give exactly its fields."""
    lines, fields = ENV_OBEYED[name]
    found = dotenv(lines)
    assert (fields, ()) == (found.fields, found.unknown)


@pytest.mark.parametrize("name", names(ENV, "obeyed", part=True))
def test_a_variable_that_names_a_file_is_handed_to_who_reads_it(name, dotenv):
    """The path stands as it was written."""
    assert {name: ENV_FILES[name]} == dotenv(f"{name}={ENV_FILES[name]}").files


@pytest.mark.parametrize("name", names(ENV, "handed on"))
def test_a_key_is_handed_on_under_its_providers_name_and_not_recorded(name, dotenv):
    """It stands in the variables, in no field, and is not shown."""
    found = dotenv(f"{name}=http-or-secret")
    assert ({ENV_HANDED_ON[name]: "http-or-secret"}, {}) == (dict(found.variables), found.fields)
    assert "http-or-secret" not in repr(found)


@pytest.mark.parametrize("name", names(ENV, "ignored"))
def test_a_variable_that_is_ignored_changes_nothing_and_says_why(name, dotenv):
    """It is listed with the reason of its row."""
    found = dotenv(f"{name}=something")
    assert ({}, {}, ()) == (found.fields, dict(found.variables), found.unknown)
    assert next(row.meaning for row in ENV if row.name == name) == found.ignored[name]


@pytest.mark.parametrize("name", names(PROFILE, "obeyed", part=False))
def test_a_key_of_the_profile_sets_what_its_row_says(name, tmp_path):
    """Each such row has a case, in either of the two files."""
    lines, fields = PROFILE_OBEYED[name]
    (tmp_path / "ai_settings.yaml").write_text(lines, "utf-8")
    found = read_ai_settings(str(tmp_path / "ai_settings.yaml"))
    assert (fields, ()) == (found.fields, found.unknown)


@pytest.mark.parametrize("name", names(PROFILE, "obeyed", part=True))
def test_goals_of_the_profile_are_the_goal(name, tmp_path):
    """A list of texts; in YAML a line with a colon is an object, and is read as the line it was."""
    (tmp_path / "ai_settings.yaml").write_text(f"{name}:\n- Cook soup\n- Step 2: eat it\n- 7", "utf-8")
    assert ("Cook soup", "Step 2: eat it", "7") == read_ai_settings(str(tmp_path / "ai_settings.yaml")).goals


@pytest.mark.parametrize("name", names(PERMISSIONS, "obeyed"))
def test_permissions_are_taken_as_they_stand(name, tmp_path):
    """Each such row has a case."""
    lines, fields = PERMISSIONS_OBEYED[name]
    (tmp_path / "autogpt.yaml").write_text(lines, "utf-8")
    found = read_permissions(str(tmp_path / "autogpt.yaml"))
    assert (fields, ()) == (found.fields, found.unknown)


@pytest.mark.parametrize("name", names(STATE, "obeyed", part=False))
def test_a_key_of_a_state_sets_what_its_row_says(name, state):
    """Each such row has a case; null says nothing."""
    value, fields = STATE_OBEYED[name]
    assert (fields, (), {}) == (state(name, value).fields, state(name, value).unknown, state(name, None).fields)


@pytest.mark.parametrize("name", names(STATE, "ignored"))
def test_a_key_of_a_state_that_is_ignored_changes_nothing_and_says_why(name, state):
    """It is listed with the reason of its row."""
    found = state(name, 3)
    assert ({}, (), []) == (found.fields, found.unknown, found.messages)
    assert {name: next(row.meaning for row in STATE if row.name == name)} == found.ignored


def test_what_is_read_whole_has_its_own_tests():
    """The rows of a state that no single value tests are the ones named here."""
    assert STATE_READ_WHOLE == set(names(STATE, "obeyed", part=True))


def test_no_case_outlives_its_row():
    """Every case is of a row."""
    cases = {*ENV_OBEYED, *ENV_FILES, *ENV_HANDED_ON, *PROFILE_OBEYED, *PERMISSIONS_OBEYED, *STATE_OBEYED}
    assert set() == cases - {row.name for table in (ENV, PROFILE, PERMISSIONS, STATE) for row in table}


def test_no_setting_stands_twice():
    """A name has one row in its table."""
    for table in (ENV, PROFILE, PERMISSIONS, STATE):
        assert len(table) == len({row.name for row in table})
