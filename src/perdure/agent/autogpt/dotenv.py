"""AutoGPT's `.env`: keys of providers, handed on and masked wherever else they stand, and settings.

A variable of the environment goes before the line of the file. Many programs have a `.env`: from one that holds none of
AutoGPT's own names only the keys are taken. Called by `gathering.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, Final

from perdure.agent.autogpt.found import NOTHING, Found, Variables, merge
from perdure.agent.autogpt.reading import Source, read_text
from perdure.agent.autogpt.readings import fast, smart
from perdure.agent.autogpt.table import ENV, ENV_ROWS, Row
from perdure.codec.environment import secrets_in
from perdure.codec.known import process
from perdure.errors import ConfigInvalid

FILE: Final = ".env"
_ENVIRONMENT: Final = "the environment"
_PLACEHOLDERS: Final = ("your-", "<")  # how a template begins what is to be filled in
_WITH_ADDRESS: Final = "openai:"


def read_dotenv(folder: str, environ: Mapping[str, str], *, has_model: bool = False) -> Found:
    """Return what the `.env` of `folder` or of this user says, under `environ`; without one, what `environ` says alone.

    With `has_model` the names of models are passed over: another one is given.
    Raises ConfigInvalid naming file and key; then nothing of it holds.
    """
    path = next((path for path in _places(folder, environ) if os.path.lexists(path)), "")
    values = _parse(path, read_text(path)) if path else None
    _learn(values or {}, environ)
    ours = {name: text for name, text in environ.items() if text and _is_own(name)}
    if values is None:
        return Found(place=_ENVIRONMENT, **_settings(Source(_ENVIRONMENT), ours, has_model)) if ours else NOTHING
    if not any(_is_own(name) for name in values):
        return Found(place=path, variables=_variables(values, environ))
    settings = {name: environ.get(name) or text for name, text in values.items()} | ours
    return Found(
        place=path,
        variables=_variables(values, environ),
        ignored={row.name: row.meaning for row in ENV if row.verdict == "ignored" and row.name in values},
        unknown=tuple(sorted(values.keys() - ENV_ROWS.keys())),
        **_settings(Source(path), settings, has_model),
    )


def _learn(values: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Have the secrets of the file masked in all that this process records and shows, those that are not used too."""
    for name, text in secrets_in(values):
        process.know(name if name not in environ else f"{name} of {FILE}", text)


def _places(folder: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield where AutoGPT looks; the first file that is there is the only one that is read."""
    yield os.path.join(folder, FILE)
    if home := environ.get("HOME", ""):
        yield os.path.join(home, ".autogpt", FILE)
        yield os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "autogpt", FILE)


def _is_own(name: str) -> bool:
    """Whether only AutoGPT has a variable of this name."""
    return name in ENV_ROWS and not ENV_ROWS[name].is_common


def _settings(source: Source, values: Mapping[str, str], has_model: bool) -> dict[str, Any]:  # noqa: FBT001 - private
    """Return the fields and files of a `Found`."""
    rows = [row for row in ENV if row.name in values and not (has_model and row.read in {smart, fast})]
    fields = merge(*(row.read(source, row.name, values[row.name], values) for row in rows if row.read))
    return {"fields": _fitting(fields), "files": {row.name: values[row.name] for row in rows if row.part == "file"}}


def _fitting(fields: dict[str, Any]) -> dict[str, Any]:
    """Return `fields` with an address only where it is right for every model; it is handed on in any case."""
    models = [fields[name] for name in ("model", "fast_model") if fields.get(name)]
    if not models or not all(model.startswith(_WITH_ADDRESS) for model in models):
        fields.pop("base_url", None)
    return fields


def _variables(values: Mapping[str, str], environ: Mapping[str, str]) -> Variables:
    return Variables({row.variable: values[row.name] for row in ENV if _is_handed_on(row, values, environ)})


def _is_handed_on(row: Row, values: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    value = values.get(row.name, "")
    return bool(row.variable and value) and not environ.get(row.variable) and not value.startswith(_PLACEHOLDERS)


def _parse(path: str, text: str) -> dict[str, str]:
    """Return the variables of a file that are set to something."""
    from dotenv.main import resolve_variables
    from dotenv.parser import parse_stream

    bindings = list(parse_stream(StringIO(text)))
    if broken := next((binding for binding in bindings if binding.error), None):
        raise ConfigInvalid(path, f"line {broken.original.line} is no NAME=VALUE; mend it or make it a comment with #")
    pairs = ((binding.key, binding.value) for binding in bindings if binding.key is not None)
    return {name: value.strip() for name, value in resolve_variables(pairs, override=True).items() if value}
