"""AutoGPT's `.env`: what wins over what, whose file it is, and what is refused."""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.autogpt.dotenv import read_dotenv, read_keys
from perdure.agent.autogpt.table import ENV, ENV_ROWS
from perdure.codec.redact import redact_text
from perdure.errors import ConfigInvalid


@pytest.fixture
def read(tmp_path):
    """Write a `.env` and read it; the environment is empty but for what is given."""

    def call(lines, **environ):
        (tmp_path / ".env").write_text(lines, "utf-8")
        return read_dotenv(str(tmp_path), environ)

    return call


def test_a_variable_of_the_environment_goes_before_the_file(read):
    """Of settings and of keys."""
    found = read("SMART_LLM=gpt-4\nOPENAI_API_KEY=of-the-file", SMART_LLM="gpt-4o", OPENAI_API_KEY="of-the-shell")
    assert ({"model": "openai:gpt-4o"}, {}) == (found.fields, dict(found.variables))


def test_autogpts_own_variables_count_without_a_file(tmp_path):
    """Those that other programs have as well do not."""
    found = read_dotenv(str(tmp_path), {"SMART_LLM": "gpt-4o", "TEMPERATURE": "hot", "OPENAI_API_KEY": "k"})
    assert ({"model": "openai:gpt-4o"}, {}, "the environment") == (found.fields, dict(found.variables), found.place)


def test_without_a_file_and_variables_there_is_nothing(tmp_path):
    """An empty folder says nothing."""
    found = read_dotenv(str(tmp_path), {"HOME": "/home/ada"})
    assert ({}, "", {}) == (found.fields, found.place, dict(found.variables))


def test_of_another_programs_file_only_the_keys_are_taken(read):
    """It may hold what would be wrong as a setting of ours, and nothing of it is listed."""
    found = read("TEMPERATURE=warm\nLOG_LEVEL=3\nDATABASE_URL=x\nOPENAI_API_KEY=k")
    assert ({}, {"OPENAI_API_KEY": "k"}, {}, ()) == (found.fields, dict(found.variables), found.ignored, found.unknown)


def test_a_user_has_a_file_for_all_folders(tmp_path):
    """In `~/.autogpt`, else among the configurations; the first of all that is there is the only one that is read."""
    home, here = tmp_path / "home", tmp_path / "here"
    for folder in (home / ".autogpt", home / ".config" / "autogpt", here):
        folder.mkdir(parents=True)
    environ = {"HOME": str(home)}
    (home / ".config" / "autogpt" / ".env").write_text("FAST_LLM=gpt-4", "utf-8")
    assert {"fast_model": "openai:gpt-4"} == read_dotenv(str(here), environ).fields
    (home / ".autogpt" / ".env").write_text("SMART_LLM=gpt-4", "utf-8")
    assert {"model": "openai:gpt-4"} == read_dotenv(str(here), environ).fields
    (here / ".env").write_text("MINE=1", "utf-8")
    assert {} == read_dotenv(str(here), environ).fields


def test_what_is_not_filled_in_is_not_set(read):
    """Neither an empty value nor the one of the template."""
    found = read("SMART_LLM=\nAP_SERVER_PORT=1\nOPENAI_API_KEY=your-openai-api-key\nANTHROPIC_API_KEY=")
    assert ({}, {}) == (found.fields, dict(found.variables))


def test_the_secrets_of_a_file_are_masked_from_then_on(read):
    """All of them, handed on or not; one that the environment has otherwise keeps its name for that text."""
    read("OPENAI_API_KEY=sk-of-the-file-1\nELEVENLABS_API_KEY=el-of-the-file-2", OPENAI_API_KEY="sk-of-the-shell-3")
    assert "[secret OPENAI_API_KEY of .env] and [secret ELEVENLABS_API_KEY]" == redact_text(
        "sk-of-the-file-1 and el-of-the-file-2"
    )


def test_a_file_is_read_as_shells_write_it(read):
    """Quotation marks, comments, `export` and other variables."""
    found = read("export SMART_LLM='gpt-4o' # the best\nNAME=gpt\n#FAST_LLM=x\nFAST_LLM=\"${NAME}-4\"\n")
    assert ({"model": "openai:gpt-4o", "fast_model": "openai:gpt-4"}, ("NAME",)) == (found.fields, found.unknown)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("o3-mini", "openai:o3-mini"),
        ("claude-3-opus-20240229", "anthropic:claude-3-opus-20240229"),
        ("gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("llama3-70b-8192", "groq:llama3-70b-8192"),
        ("ollama:qwen3", "ollama:qwen3"),
        ("offline", "offline"),
    ],
)
def test_a_name_of_a_model_tells_its_provider(read, name, model):
    """Or has it already."""
    assert {"model": model} == read(f"SMART_LLM={name}").fields


def test_the_address_of_a_service_is_for_models_that_no_provider_has(read):
    """Such a model is one of that service, and the address is recorded with it."""
    found = read("SMART_LLM=my-model\nOPENAI_API_BASE_URL=http://h:1/v1")
    assert {"model": "openai:my-model", "base_url": "http://h:1/v1"} == found.fields


@pytest.mark.parametrize("models", ["SMART_LLM=gpt-4\nFAST_LLM=claude-3", "RESTRICT_TO_WORKSPACE=True"])
def test_an_address_that_is_not_for_every_model_is_only_handed_on(read, models):
    """Where it is looked at for models of OpenAI alone."""
    found = read(f"{models}\nOPENAI_API_BASE_URL=http://h:1/v1")
    assert ("base_url" in found.fields, {"OPENAI_API_BASE_URL": "http://h:1/v1"}) == (False, dict(found.variables))


def test_a_llamafile_is_both_models_or_none(read):
    """One address holds for both."""
    lines = "LLAMAFILE_API_BASE=http://h:1/v1\nSMART_LLM=mistral-7b-instruct-v0.2\nFAST_LLM="
    both = {"model": "openai:mistral-7b-instruct-v0.2", "fast_model": "openai:mistral-7b-instruct-v0.2"}
    assert both | {"base_url": "http://h:1/v1"} == read(f"{lines}mistral-7b-instruct-v0.2").fields
    with pytest.raises(ConfigInvalid, match="FAST_LLM: 'gpt-4o' is not behind LLAMAFILE_API_BASE"):
        read(f"{lines}gpt-4o")


def test_a_given_model_takes_the_place_of_both_models(tmp_path):
    """A name that would be refused is not looked at."""
    (tmp_path / ".env").write_text("SMART_LLM=who-knows\nFAST_LLM=gpt-4", "utf-8")
    assert {} == read_dotenv(str(tmp_path), {}, model="ollama:x").fields


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            "SMART_LLM=who-knows",
            "SMART_LLM: 'who-knows' tells no provider; write it with one, such as openai:who-knows",
        ),
        ("SMART_LLM=gpt-4\nTEMPERATURE=hot", "TEMPERATURE: must be a number of at least 0 and at most 2, not 'hot'"),
        ("PROMPT_STRATEGY=lats", "PROMPT_STRATEGY: 'lats' is not one of one_shot, plan_execute, rewoo, reflexion"),
        ("RESTRICT_TO_WORKSPACE=perhaps", "RESTRICT_TO_WORKSPACE: must be True or False, not 'perhaps'"),
        ("SHELL_COMMAND_CONTROL=none", "SHELL_COMMAND_CONTROL: must be denylist or allowlist, not 'none'"),
        ("DISABLED_COMMAND_CATEGORIES=cooking", "DISABLED_COMMAND_CATEGORIES: 'cooking' is not one of execute_code"),
        ("SMART_TOKEN_LIMIT=1.5", "SMART_TOKEN_LIMIT: must be a whole number, not '1.5'"),
        ("SMART_LLM=gpt-4\nOPENAI_API_BASE_URL=h:1", "OPENAI_API_BASE_URL: must be an address like http://"),
        ("SMART_LLM=gpt-4\nnot a line", "line 2 is no NAME=VALUE"),
    ],
)
def test_a_wrong_value_is_refused_with_file_and_key(read, tmp_path, lines, complaint):
    """And nothing of the file holds."""
    with pytest.raises(ConfigInvalid) as refused:
        read(lines)
    assert str(refused.value).startswith(f"{tmp_path / '.env'}: {complaint}")


@pytest.mark.parametrize("address", ["http://ada:secret-1@h/v1", "http://h/v1?key=secret-1", "secret-1@h"])
def test_an_address_that_holds_a_secret_is_refused_and_not_shown(read, address):
    """Addresses are recorded."""
    with pytest.raises(ConfigInvalid) as refused:
        read(f"SMART_LLM=gpt-4\nOPENAI_API_BASE_URL={address}")
    assert "secret-1" not in str(refused.value)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_left_aside(tmp_path, monkeypatch):
    """What it says would decide where keys are sent."""
    (tmp_path / ".env").write_text("SMART_LLM=gpt-4", "utf-8")
    os.chown(tmp_path / ".env", 12345, 12345)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    found = read_dotenv(str(tmp_path), {})
    assert ({}, {"the file": "it belongs to another user"}) == (found.fields, found.ignored)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("OPENAI_API_BASE_URL", "OPENAI_API_KEY"),
        ("ANTHROPIC_API_BASE_URL", "ANTHROPIC_API_KEY"),
        ("GROQ_API_BASE_URL", "GROQ_API_KEY"),
    ],
)
@pytest.mark.parametrize("own", ["", "AP_SERVER_PORT=1\n"])
def test_no_key_of_the_environment_goes_to_an_address_of_a_file(read, address, key, own):
    """Whosever file it is; with a key of its own the file is whole, and with an address of the shell its own counts."""
    variable = ENV_ROWS[address].variable
    with pytest.raises(ConfigInvalid, match=f"{address}: {key} of the environment would be sent there"):
        read(f"{own}{address}=http://h/v1", **{key: "of-the-shell"})
    pair = read(f"{own}{address}=http://h/v1\n{key}=of-the-file", **{key: "of-the-shell"}).variables
    assert {variable: "http://h/v1", key: "of-the-file"} == dict(pair)
    shell = {key: "of-the-shell", variable: "http://s/v1"}
    assert {} == dict(read(f"{own}{address}=http://h/v1\n{key}=of-the-file", **shell).variables)


def test_a_resume_takes_keys_and_nothing_else(tmp_path):
    """Settings are on record, so a wrong one stops nothing; no key of the shell goes to an address of the file."""
    assert {} == dict(read_keys(str(tmp_path), {}))
    (tmp_path / ".env").write_text("SMART_LLM=who-knows\nnot a line\nOPENAI_API_BASE_URL=http://h/v1", "utf-8")
    assert {} == dict(read_keys(str(tmp_path), {"OPENAI_API_KEY": "of-the-shell"}))
    (tmp_path / ".env").write_text("OPENAI_API_BASE_URL=http://h/v1\nOPENAI_API_KEY=of-the-file", "utf-8")
    pair = {"OPENAI_API_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "of-the-file"}
    assert pair == dict(read_keys(str(tmp_path), {"OPENAI_API_KEY": "of-the-shell"}))


def test_an_address_of_a_provider_that_is_not_asked_is_not_looked_at(tmp_path):
    """Where the models are known to be somebody else's."""
    (tmp_path / ".env").write_text("OPENAI_API_BASE_URL=http://h/v1", "utf-8")
    found = read_dotenv(str(tmp_path), {"OPENAI_API_KEY": "of-the-shell"}, model="anthropic:claude-sonnet-5-5")
    assert {} == dict(found.variables)


def test_a_broken_line_of_another_programs_file_is_not_ours_to_mend(read):
    """Its keys are taken."""
    assert {"OPENAI_API_KEY": "k"} == dict(read("not a line\nOPENAI_API_KEY=k").variables)


@given(lines=st.lists(st.sampled_from([row.name for row in ENV]), max_size=4), values=st.data())
def test_whatever_a_file_says_it_is_read_or_refused(lines, values):
    """With no other error than the one that names file and key."""
    value = st.one_of(st.text(max_size=20), st.sampled_from(["True", "0", "a,b", "http://h/v1", "gpt-4", "denylist"]))
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(f"{name}={values.draw(value)}" for name in lines)
        Path(folder, ".env").write_bytes(text.encode("utf-8", "surrogateescape"))
        with contextlib.suppress(ConfigInvalid):
            read_dotenv(folder, {})
