"""Names of models: whose they are, where they are reached, which key they want, and what is refused by name."""

import asyncio

import pytest

from perdure.errors import ApiKeyMissing, ExtraMissing, ModelUnknown
from perdure.llm import opening
from perdure.llm.naming import (
    PROVIDERS,
    base_url_in,
    install_command,
    keys_of,
    keys_wanted,
    provider_of,
    split_name,
)
from perdure.llm.opening import open_model

KEYS = {"OPENAI_API_KEY": "k-1", "ANTHROPIC_API_KEY": "k-2", "GOOGLE_API_KEY": "k-3", "GROQ_API_KEY": "k-4"}
ADDRESS = "http://127.0.0.1:9/v1"


def opened(name, **options):
    """Open a model and close it; return it."""
    model = open_model(name, **{"environ": KEYS, **options})
    asyncio.run(model.aclose())
    return model


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("openai:gpt-5.6-terra", ("openai", "gpt-5.6-terra")),
        (" OpenAI: gpt-4.1 ", ("openai", "gpt-4.1")),
        ("ollama:qwen3:8b", ("ollama", "qwen3:8b")),
        ("gpt-4-turbo", ("openai", "gpt-4-turbo")),
        ("claude-sonnet-5-5", ("anthropic", "claude-sonnet-5-5")),
        ("mystery", ("", "mystery")),
    ],
)
def test_a_name_says_whose_model_it_is(model, expected):
    """PROVIDER:NAME, or a name that everybody knows."""
    assert expected == split_name(model)


@pytest.mark.parametrize(
    ("model", "base_url", "expected"),
    [
        ("openai:gpt-4.1", "", "openai"),
        ("google-gla:gemini-3.8-flash", "", "google"),
        ("local", "", "local"),
        ("openai:gpt-4.1", "https://me:secret@proxy.test:8443/v1", "proxy.test:8443"),
    ],
)
def test_calls_of_one_service_share_its_health(model, base_url, expected):
    """By provider, or by host and port of another service; nothing secret of an address is in it."""
    assert expected == provider_of(model, base_url)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "http://127.0.0.1:11434/v1"),
        ({"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/v1"),
        ({"OLLAMA_HOST": "box:1234"}, "http://box:1234/v1"),
        ({"OLLAMA_HOST": "https://box"}, "https://box:11434/v1"),
        ({"OLLAMA_BASE_URL": "http://other/v1", "OLLAMA_HOST": "box"}, "http://other/v1"),
    ],
)
def test_ollama_is_found_where_it_says(environ, expected):
    """Its own variables, else where it usually is."""
    assert expected == base_url_in(environ, "ollama")


@pytest.mark.parametrize(
    ("name", "kind", "provider"),
    [
        ("openai:gpt-5.6-terra", "OpenAIResponsesModel", "openai"),
        ("openai-chat:gpt-4.1", "OpenAIChatModel", "openai"),
        ("anthropic:claude-sonnet-5-5", "AnthropicModel", "anthropic"),
        ("google-gla:gemini-3.8-flash", "GoogleModel", "google"),
        ("google:gemini-3.8-flash", "GoogleModel", "google"),
        ("ollama:qwen3:8b", "OllamaModel", "ollama"),
    ],
)
def test_a_provider_is_asked_by_its_own_interface(name, kind, provider):
    """Each has its client; the name is kept as it was chosen."""
    model = opened(name)
    assert (kind, name, provider) == (type(model._model).__name__, model.name, model.provider)


@pytest.mark.parametrize("name", ["openai:gpt-5.6-terra", "gpt-5.6-terra", "qwen3:8b", "some/model"])
def test_another_service_is_asked_by_chat_completions(name):
    """With an address, whatever the name: a service that says it is compatible speaks that."""
    model = opened(name, base_url=ADDRESS, environ={})
    assert ("OpenAIChatModel", "127.0.0.1:9") == (type(model._model).__name__, model.provider)


def test_the_environment_may_give_the_address():
    """Under the names that OpenAI's client and AutoGPT read."""
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE_URL"):
        model = opened("openai:gpt-4.1", environ={variable: ADDRESS})
        assert "127.0.0.1:9" == model.provider


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("openai:gpt-4.1", ("OPENAI_API_KEY",)),
        ("anthropic:claude-sonnet-5-5", ("ANTHROPIC_API_KEY",)),
        ("google:gemini-3.8-flash", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
        ("deepseek:deepseek-v4-pro", ("DEEPSEEK_API_KEY",)),
    ],
)
def test_a_missing_key_is_named(name, variables, monkeypatch):
    """The variables to set are in the message and on the error."""
    for variable in (*variables, "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ApiKeyMissing, match=f"set {' or '.join(variables)} ") as info:
        open_model(name, environ={})
    assert variables == info.value.variables


@pytest.mark.parametrize(
    ("name", "url", "wanted"),
    [
        ("openai:gpt-5", "", ("OPENAI_API_KEY",)),
        ("gpt-5", "", ("OPENAI_API_KEY",)),
        ("openai:gpt-5", "http://here/v1", ()),
        ("anthropic:claude-sonnet-5-5", "http://here", ("ANTHROPIC_API_KEY",)),
        ("google-gla:gemini-3.8-flash", "", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
        ("ollama:qwen3", "", ()),
        ("azure:gpt-5", "", ()),
        ("qwen3:8b", "http://here/v1", ()),
        ("local", "", ()),
        ("offline", "", ()),
        ("", "", ()),
    ],
)
def test_which_keys_a_model_wants_is_known_without_its_library(name, url, wanted):
    """As opening it would find; of one that nobody knows, nothing is said."""
    assert wanted == keys_wanted(name, {}, url)


@pytest.mark.parametrize("provider", [one for one in PROVIDERS if one.keys and not one.has_other_ways])
def test_what_wants_a_key_is_not_opened_without_one(provider, monkeypatch):
    """The table is no stricter than the libraries are, where they are installed."""
    for variable in (*provider.keys, "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises((ApiKeyMissing, ExtraMissing)):
        open_model(f"{provider.name}:{provider.suggestion or 'm'}", environ={})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "no model that can be asked"),
        ("offline", "no model that can be asked"),
        ("mystery", "does not say whose model it is"),
        ("openai:", "does not say which model"),
        ("acme:super-1", "no provider 'acme' is known"),
    ],
)
def test_what_cannot_be_opened_is_refused_by_name(name, reason):
    """With how a model is named."""
    with pytest.raises(ModelUnknown, match=reason):
        open_model(name, environ=KEYS)


def test_a_provider_that_is_at_one_place_only_says_so():
    """An address for a provider that takes none is refused, not passed over."""
    with pytest.raises(ModelUnknown, match="cannot be changed"):
        open_model("deepseek:deepseek-v4-pro", base_url=ADDRESS, environ={"DEEPSEEK_API_KEY": "k"})


def test_what_is_not_installed_is_named_with_its_command():
    """Groq's library is not among what is needed here: the line that brings it is told."""
    with pytest.raises(ExtraMissing, match=r"pip install 'perdure\[agent\]' 'pydantic-ai-slim\[groq\]'"):
        open_model("groq:openai/gpt-oss-120b", environ=KEYS)
    assert "pip install 'perdure[agent,anthropic]'" == install_command("anthropic")


def test_no_error_shows_a_key():
    """Neither the key that is set nor its value stands in what people see."""
    for name in ("acme:super-1", "groq:x", "openai:"):
        with pytest.raises((ModelUnknown, ExtraMissing)) as info:
            open_model(name, environ=KEYS)
        assert [] == [key for key in KEYS.values() if key in str(info.value)]


def test_keys_of_any_provider_have_a_name():
    """Those that are not in the table go by the usual form."""
    assert ("MOONSHOTAI_API_KEY",) == keys_of("moonshotai")
    assert ("OPENAI_API_KEY",) == keys_of("openai-chat")


def test_opening_reads_no_environment_but_the_one_given(monkeypatch):
    """A key of the process is of no use where another environment is handed over."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of the process")
    with pytest.raises(ApiKeyMissing):
        opening.open_model("anthropic:claude-sonnet-5-5", environ={})
