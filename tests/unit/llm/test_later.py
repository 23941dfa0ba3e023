"""A model that is opened with its first request: when that may be, and that it is the real one from then on."""

import asyncio

import pytest

from perdure.llm.later import LaterModel, is_as_before
from perdure.llm.naming import PROVIDERS, base_url_in, label_of
from perdure.llm.opening import open_model
from perdure.model.chat import ModelRequest
from perdure.testing import ScriptedModel

OPENAI = {"OPENAI_API_KEY": "k"}
HERE = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("first", ["reply", "estimate"])
def test_it_is_opened_once_with_the_first_request(first):
    """Whichever of the two comes first; closed only where it was opened."""
    opened = []

    def opening(name):
        opened.append(ScriptedModel(["hello"], name=name))
        return opened[-1]

    async def use():
        model = LaterModel("scripted:one", "scripted", 1000, opening)
        await model.aclose()
        assert ("scripted:one", "scripted", 1000, []) == (model.name, model.provider, model.context_tokens, opened)
        request = ModelRequest(messages=[{"role": "user", "text": "hi"}])
        if first == "estimate":
            model.estimate(request)
        reply = await model.reply(request, lambda piece: None)
        model.estimate(request)
        await model.aclose()
        return reply.text

    assert "hello" == asyncio.run(use())
    assert 1 == len(opened)


@pytest.mark.parametrize(
    ("name", "provider", "url", "environ", "expected"),
    [
        ("openai:gpt-5", "openai", "", OPENAI, True),
        ("gpt-5", "openai", "", OPENAI, True),
        ("openai:gpt-5", "127.0.0.1:9", HERE, {}, True),
        ("openai:gpt-5", "127.0.0.1:9", "", {"OPENAI_BASE_URL": HERE}, True),
        ("anthropic:claude-sonnet-5-5", "anthropic", HERE, {"ANTHROPIC_API_KEY": "k"}, True),
        ("openai:gpt-5", "openai", "", {}, False),  # the key is gone: that is said at once
        ("openai:gpt-5", "openai", HERE, OPENAI, False),  # somebody else is asked now
        ("openai:gpt-5", "127.0.0.1:9", "", OPENAI, False),
        ("qwen3:8b", "127.0.0.1:9", HERE, {}, False),  # whose it is, only the library knows
        ("local", "local", "", {}, False),
    ],
)
def test_it_waits_only_where_opening_would_find_the_same(name, provider, url, environ, expected):
    """All else is opened at once, and says what is wrong."""
    assert expected == is_as_before(name, provider, base_url=url, environ=environ)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *((f"{one.name}:{one.suggestion or 'm'}", "") for one in PROVIDERS if one.extra and not one.has_other_ways),
        *((f"{name}:m", HERE) for name in ("openai", "openai-chat", "anthropic", "google", "ollama")),
    ],
)
def test_the_tables_name_a_provider_as_opening_it_does(name, url, monkeypatch):
    """So whose health and waits a model shares does not change when it is opened later."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    keys = {variable: "k" for one in PROVIDERS for variable in one.keys}
    model = open_model(name, base_url=url, environ=keys)
    assert model.provider == label_of(name, url or base_url_in(keys, name.partition(":")[0]))
