"""From a model's name to a model that can be asked. Nothing is sent.

`local` is the model on this machine; all else goes over pydantic-ai. Keys are taken from the environment that is given
and from nowhere else that is ours; they are never shown, stored or logged. Called by `agent/`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from perdure import ports
from perdure.errors import ApiKeyMissing, ConfigInvalid, ExtraMissing, ModelUnknown
from perdure.llm.naming import (
    KEYLESS_ELSEWHERE,
    KNOWN,
    LOCAL,
    OFFLINE,
    base_url_in,
    install_command,
    key_in,
    keys_of,
    provider_of,
    split_name,
)

if TYPE_CHECKING:
    from pydantic_ai.providers import Provider

_WANT_KEYS: Final = frozenset({"openai", "openai-chat", "openai-responses", "anthropic", "google"})
_NO_KEY: Final = "none-needed"  # services on one's own machine take any; clients want some
_WANTED: Final = re.compile(r"[Ss]et the `([A-Z0-9_]+)`")  # how pydantic-ai asks for a key
# Who is meant in pydantic-ai. A service at another address speaks chat completions, whatever OpenAI itself prefers.
_MEANT: Final = {"gemini": "google", "google-gla": "google", "google-vertex": "google-cloud"}


def open_model(name: str, *, base_url: str = "", environ: Mapping[str, str]) -> ports.Model:
    """Return the model that is chosen as `name`, such as "anthropic:claude-sonnet-5-5", "ollama:qwen3" or "local".

    With `base_url` it is asked there; a name without a provider then means a service that speaks OpenAI's chat
    completions. Loads client libraries, which takes up to a second or two: from an event loop, call it in a thread.
    Raises ModelUnknown, ApiKeyMissing, ExtraMissing or, for what is no address, ConfigInvalid: each names what to do.
    """
    if name == LOCAL:
        from perdure.llm.local import open_local

        return open_local()
    if not name.strip() or name == OFFLINE:
        raise ModelUnknown(name, "it is no model that can be asked")
    provider, model = split_name(name)
    if base_url and not _is_known(provider):  # such as "qwen3:8b", which is all name
        provider, model = "", name.strip()
    url = base_url or base_url_in(environ, provider)
    if url:
        _refuse_address(url)
    if not provider and not url:
        raise ModelUnknown(name, "it does not say whose model it is")
    if not model:
        raise ModelUnknown(name, f"it does not say which model of {provider!r}")
    return _opened(name, _meant(provider, url), model, url, environ)


def refuse_models(names: Iterable[str], *, base_url: str, environ: Mapping[str, str]) -> None:
    """Raise what opening any of these would raise, so that it is said before anything begins; `offline` is let pass."""
    for name in names:
        if name and name != OFFLINE:
            open_model(name, base_url=base_url, environ=environ)


def _refuse_address(url: str) -> None:
    """Raise ConfigInvalid for what is no address of a service, before a task tries for hours to reach it."""
    reason = "it does not begin with http:// or https://, or names no host"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:  # a port out of range, half of an IPv6 address
        is_good, reason = False, str(error)
    if not is_good:
        shown = repr(url) if "@" not in url else "it"
        raise ConfigInvalid(
            "base_url", f"{shown} is no address ({reason}); write http://HOST:PORT/v1 or https://HOST/v1"
        )


def _is_known(provider: str) -> bool:
    try:
        from pydantic_ai.providers import infer_provider_class

        infer_provider_class(_MEANT.get(provider, provider))
    except (ImportError, ValueError):  # an extra that is missing is told later, for whom it is needed
        return provider in KNOWN
    return True


def _meant(provider: str, url: str) -> str:
    if url and provider in {"", "openai"}:
        return "openai-chat"  # whoever wants the other interface says openai-responses
    return _MEANT.get(provider, provider)


def _opened(name: str, provider: str, model: str, url: str, environ: Mapping[str, str]) -> ports.Model:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model

        from perdure.llm import pricing
        from perdure.llm.provider import ProviderModel
    except ImportError as error:
        raise ExtraMissing(name, install_command(provider)) from error
    try:
        client = _client(name, provider, url, environ)
        found = infer_model(f"{provider}:{model}", provider_factory=lambda _: client)
    except ImportError as error:
        raise ExtraMissing(name, install_command(provider)) from error
    except UserError as error:
        wanted = _WANTED.search(str(error))
        if wanted is not None:
            raise ApiKeyMissing(name, (wanted[1],)) from None
        raise ModelUnknown(name, str(error).rstrip(".")) from None
    pricing.cost_of(1, 1, model=model, provider=provider)  # reads the price list, here and not in the event loop
    shared = provider_of(name, url if provider in {"openai-chat", "openai-responses"} else "")
    return ProviderModel(found, name=name, provider=shared)


def _client(name: str, provider: str, url: str, environ: Mapping[str, str]) -> Provider[Any]:
    """Return pydantic-ai's provider, given the key and the address where it takes them."""
    from pydantic_ai.providers import infer_provider_class

    try:
        kind = infer_provider_class(provider)
    except ValueError:
        raise ModelUnknown(name, f"no provider {provider!r} is known") from None
    taken = inspect.signature(kind).parameters
    options: dict[str, str] = {}
    key = key_in(environ, provider)
    if key and "api_key" in taken:
        options["api_key"] = key
    if url:
        place = next((place for place in ("base_url", "api_base", "azure_endpoint") if place in taken), "")
        if not place:
            raise ModelUnknown(name, f"the address of {provider!r} cannot be changed; say openai: with --base-url")
        options[place] = url
    if not key and url and provider in KEYLESS_ELSEWHERE:
        options["api_key"] = _NO_KEY
    elif not key and keys_of(provider) and provider in _WANT_KEYS:
        raise ApiKeyMissing(name, keys_of(provider))
    return kind(**options)
