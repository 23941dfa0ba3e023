"""Names of models as AutoGPT writes them, and as `--model` takes them: "gpt-4o" is "openai:gpt-4o".

Not which models exist today: a name is handed on as it is, and the provider says whether it knows it.
Called by the readers of `.env` and of `state.json`.
"""

from __future__ import annotations

import re
from typing import Final

from perdure.agent.autogpt.reading import Source

GROQ: Final = "groq"
_COMPATIBLE: Final = "openai"  # the provider whose protocol others speak as well
_PROVIDERS: Final = (
    ("openai", re.compile(r"(gpt-|chatgpt-|o\d|ft:gpt-|text-)")),
    ("anthropic", re.compile(r"claude")),
    ("google", re.compile(r"gemini|gemma-3")),
    (GROQ, re.compile(r"llama-?3|mixtral-8x7b-32768|gemma2?-\d+b-it|groq/")),
)
_LLAMAFILE: Final = re.compile(r"mistral-7b-instruct")  # what AutoGPT runs as a file of its own on this machine
_WHOLE: Final = re.compile(r"[a-z][a-z0-9-]*:\S+|offline|local")


def model_of(name: str, source: Source, key: str, *, base_url: str = "") -> str:
    """Return the model that `name` means; "" stays "". Raises ConfigInvalid for a name that tells no provider.

    With a `base_url`, a name that tells none is one of the OpenAI-compatible service there.
    """
    name = name.strip()
    if not name or _WHOLE.fullmatch(name):
        return name
    for provider, pattern in _PROVIDERS:
        if pattern.match(name):
            return f"{provider}:{name}"
    if base_url:
        return f"{_COMPATIBLE}:{name}"
    raise source.refusal(key, f"{name!r} tells no provider; write it with one, such as openai:{name}, or set --model")


def is_llamafile(name: str) -> bool:
    """Whether AutoGPT would look for this model behind LLAMAFILE_API_BASE."""
    return bool(_LLAMAFILE.match(name.strip()))
