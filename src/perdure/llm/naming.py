"""What a model's name says: the provider, its keys, its extra, where it is reached. Pure tables and functions.

Opens nothing and reads no environment but the mapping that it is given. Called by `opening.py` and `environment.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

LOCAL: Final = "local"
OFFLINE: Final = "offline"


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One that is known by name."""

    name: str
    keys: tuple[str, ...]  # environment variables, any of which holds its key
    extra: str  # of perdure; "": none, then that of pydantic-ai
    suggestion: str = ""  # a model to begin with
    has_other_ways: bool = False  # to say who asks: it can be used without a key


# The newest middle-sized model of each: what an agent can work with at a fair price.
PROVIDERS: Final = (
    Provider(name="openai", keys=("OPENAI_API_KEY",), extra="openai", suggestion="gpt-5.6-terra"),
    Provider(name="anthropic", keys=("ANTHROPIC_API_KEY",), extra="anthropic", suggestion="claude-sonnet-5-5"),
    Provider(name="google", keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"), extra="google", suggestion="gemini-3.8-flash"),
    Provider(name="openrouter", keys=("OPENROUTER_API_KEY",), extra="openai", suggestion="anthropic/claude-sonnet-5.5"),
    Provider(name="groq", keys=("GROQ_API_KEY",), extra="", suggestion="openai/gpt-oss-120b"),
    Provider(name="mistral", keys=("MISTRAL_API_KEY",), extra="", suggestion="mistral-medium-latest"),
    Provider(name="deepseek", keys=("DEEPSEEK_API_KEY",), extra="openai", suggestion="deepseek-v4-pro"),
    Provider(name="xai", keys=("XAI_API_KEY",), extra="", suggestion="grok-4.7"),
    Provider(name="ollama", keys=(), extra="openai"),
    Provider(name="huggingface", keys=("HF_TOKEN",), extra=""),
    Provider(name="cohere", keys=("CO_API_KEY",), extra=""),
    Provider(name="azure", keys=("AZURE_OPENAI_API_KEY",), extra="openai", has_other_ways=True),
)
KNOWN: Final = {provider.name: provider for provider in PROVIDERS}
# Names that people know from elsewhere.
ALIASES: Final = {
    "gemini": "google",
    "google-gla": "google",
    "google-vertex": "google-cloud",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
# Whose models need no key where they are asked at another address.
KEYLESS_ELSEWHERE: Final = frozenset({"openai", "openai-chat", "openai-responses", "ollama", "vllm", "litellm"})
# Names that say whose they are.
BEGINNINGS: Final = {"gpt-": "openai", "o3": "openai", "o4": "openai", "claude-": "anthropic", "gemini-": "google"}
OLLAMA_URL: Final = "http://127.0.0.1:11434/v1"


def split_name(model: str) -> tuple[str, str]:
    """Return (provider, name); the provider is "" where the name does not tell it."""
    provider, colon, name = model.strip().partition(":")
    if colon:
        return provider.strip().lower(), name.strip()
    return next((whose for start, whose in BEGINNINGS.items() if provider.startswith(start)), ""), provider


def provider_of(model: str, base_url: str = "") -> str:
    """Return whose health and waits a model's calls share: its provider, or host and port of another service."""
    if base_url:
        parts = urlsplit(base_url)
        return parts.netloc.rpartition("@")[2] or base_url
    provider, name = split_name(model)
    return ALIASES.get(provider, provider) or name


def label_of(model: str, url: str) -> str:
    """Return whose health and waits a model's calls share, where it is asked at `url` ("": at its provider's own).

    Only services that speak OpenAI's interfaces are told apart by where they are.
    """
    provider, _ = split_name(model)
    return provider_of(model, url if url and provider in {"", "openai", "openai-chat", "openai-responses"} else "")


def keys_of(provider: str) -> tuple[str, ...]:
    """Return the environment variables that may hold the key of `provider`."""
    name = ALIASES.get(provider, provider)
    known = KNOWN.get(name)
    return known.keys if known is not None else (f"{name.upper().replace('-', '_')}_API_KEY",)


def key_in(environ: Mapping[str, str], provider: str) -> str:
    """Return the key of `provider`, or ""."""
    return next((environ[name] for name in keys_of(provider) if environ.get(name, "").strip()), "")


def keys_wanted(model: str, environ: Mapping[str, str], base_url: str = "") -> tuple[str, ...]:
    """Return the variables any of which is to hold the key of `model`; none where it needs none, or that is not known.

    A service at another address that speaks OpenAI's chat completions, as most on one's own machine do, needs none.
    """
    provider, _ = split_name(model)
    known = KNOWN.get(ALIASES.get(provider, provider))
    if known is None or known.has_other_ways:
        return ()
    is_elsewhere = bool(base_url or base_url_in(environ, provider))
    return () if is_elsewhere and provider in KEYLESS_ELSEWHERE else known.keys


def base_url_in(environ: Mapping[str, str], provider: str) -> str:
    """Return where the environment says that `provider` is reached, or ""."""
    match provider:
        case "openai" | "openai-chat" | "":
            return environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE_URL") or ""
        case "ollama":
            return environ.get("OLLAMA_BASE_URL") or _ollama_url(environ.get("OLLAMA_HOST", ""))
        case _:
            return ""


def install_command(provider: str) -> str:
    """Return the line that installs what `provider` needs."""
    known = KNOWN.get(ALIASES.get(provider, provider))
    if known is not None and known.extra:
        return f"pip install 'perdure[agent,{known.extra}]'"
    return f"pip install 'perdure[agent]' 'pydantic-ai-slim[{provider}]'"


def _ollama_url(host: str) -> str:
    """OLLAMA_HOST is `host`, `host:port` or a URL; it is where the server listens, so 0.0.0.0 means here."""
    if not host:
        return OLLAMA_URL
    parts = urlsplit(host if "//" in host else f"http://{host}")
    name = "127.0.0.1" if parts.hostname in {None, "0.0.0.0"} else parts.hostname  # noqa: S104 - never listened on
    return f"{parts.scheme}://{name}:{parts.port or 11434}/v1"
