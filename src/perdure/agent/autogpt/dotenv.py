"""AutoGPT's `.env`: keys of providers, handed on and masked wherever else they stand, and settings.

A variable of the environment goes before the line of the file, but a key and an address belong together: no key of the
environment is sent to an address that only a file names, for a folder may come from anybody. Many programs have a
`.env`: from one that holds none of AutoGPT's own names only keys and addresses are taken. Called by `gathering.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, Final

import msgspec

from perdure.agent.autogpt.found import NOTHING, Found, Variables, merge
from perdure.agent.autogpt.models import is_llamafile
from perdure.agent.autogpt.reading import Source, is_ours, read_text
from perdure.agent.autogpt.readings import fast, smart
from perdure.agent.autogpt.table import ENV, ENV_ROWS, Row
from perdure.codec.environment import secrets_in
from perdure.codec.known import process
from perdure.errors import ConfigInvalid

FILE: Final = ".env"
_ENVIRONMENT: Final = "the environment"
_PLACEHOLDERS: Final = ("your-", "<")  # how a template begins what is to be filled in
_COMPATIBLE: Final = "openai"
# Address → (provider, its key): what belongs together.
_PAIRS: Final = {
    "OPENAI_API_BASE_URL": ("openai", "OPENAI_API_KEY"),
    "LLAMAFILE_API_BASE": ("openai", "OPENAI_API_KEY"),
    "ANTHROPIC_API_BASE_URL": ("anthropic", "ANTHROPIC_API_KEY"),
    "GROQ_API_BASE_URL": ("groq", "GROQ_API_KEY"),
}


class _File(msgspec.Struct, frozen=True):
    """A `.env` as it stands there; without a path there is none."""

    path: str = ""
    values: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])  # what is set to something
    broken: int = 0  # the first line that is no NAME=VALUE

    @property
    def is_autogpts(self) -> bool:
        """Whether it holds a name that only AutoGPT has."""
        return any(map(_is_own, self.values))


def read_dotenv(folder: str, environ: Mapping[str, str], *, model: str = "") -> Found:
    """Return what the `.env` of `folder` or of this user says, under `environ`; without one, what `environ` says alone.

    With a `model` the names of models are passed over: another one is given.
    Raises ConfigInvalid naming file and key; then nothing of it holds.
    """
    path = next((path for path in _places(folder, environ) if os.path.lexists(path)), "")
    if path and not is_ours(path):
        return Found(place=path, ignored={"the file": "it belongs to another user"})
    file = _parse(path) if path else _File()
    _learn(file.values, environ)
    return (
        _found(file, environ, model) if file.is_autogpts or any(map(_is_own, environ)) else _keys(file, environ, model)
    )


def read_keys(folder: str, environ: Mapping[str, str]) -> Variables:
    """Return the keys and addresses that the same file adds to `environ`, whatever its settings say: for a resume.

    An address without a key of its own is left out where the environment has one. Raises ConfigInvalid.
    """
    path = next((path for path in _places(folder, environ) if os.path.lexists(path)), "")
    if not path or not is_ours(path):
        return Variables()
    file = _parse(path)
    _learn(file.values, environ)
    alone = {name for name, (_, key) in _PAIRS.items() if environ.get(key) and not _is_filled_in(file, key)}
    return _variables(
        _File(path, {name: text for name, text in file.values.items() if name not in alone}), environ, set()
    )


def _found(file: _File, environ: Mapping[str, str], model: str) -> Found:
    """Return what there is of AutoGPT's, in the file or without one."""
    if file.broken and file.is_autogpts:
        line = f"line {file.broken} is no NAME=VALUE"
        raise ConfigInvalid(file.path, f"{line}; mend it or make it a comment with #")
    ours = {name: text for name, text in environ.items() if text and _is_own(name)}
    written: Mapping[str, str] = file.values if file.is_autogpts else {}
    values: dict[str, str] = {name: environ.get(name) or text for name, text in written.items()} | ours
    rows = [row for row in ENV if row.name in values and not (model and row.read in {smart, fast})]
    source = Source(file.path or _ENVIRONMENT)
    fields = _fitting(merge(*(row.read(source, row.name, values[row.name], values) for row in rows if row.read)))
    used = {name.partition(":")[0] for name in (model, fields.get("model"), fields.get("fast_model")) if name}
    return Found(
        place=source.place,
        fields=fields,
        variables=_variables(file, environ, used),
        files={row.name: values[row.name] for row in rows if row.part == "file"},
        ignored={row.name: row.meaning for row in ENV if row.verdict == "ignored" and row.name in written},
        unknown=tuple(sorted(written.keys() - ENV_ROWS.keys())),
    )


def _keys(file: _File, environ: Mapping[str, str], model: str) -> Found:
    """Return what is taken of another program's file."""
    if not file.path:
        return NOTHING
    return Found(place=file.path, variables=_variables(file, environ, {model.partition(":")[0]} if model else set()))


def _places(folder: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield where AutoGPT looks; the first file that is there is the only one that is read."""
    yield os.path.join(folder, FILE)
    if home := environ.get("HOME", ""):
        yield os.path.join(home, ".autogpt", FILE)
        yield os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "autogpt", FILE)


def _is_own(name: str) -> bool:
    """Whether only AutoGPT has a variable of this name."""
    return name in ENV_ROWS and not ENV_ROWS[name].is_common


def _learn(values: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Have the secrets of the file masked in all that this process records and shows, those that are not used too."""
    for name, text in secrets_in(values):
        process.know(name if name not in environ else f"{name} of {FILE}", text)


def _fitting(fields: dict[str, Any]) -> dict[str, Any]:
    """Return `fields` with an address only where it is right for every model; it is handed on in any case."""
    models = [fields[name] for name in ("model", "fast_model") if fields.get(name)]
    if not models or not all(model.partition(":")[0] == _COMPATIBLE for model in models):
        fields.pop("base_url", None)
    return fields


def _variables(file: _File, environ: Mapping[str, str], used: set[str]) -> Variables:
    """Return what the file adds to `environ`: keys, and addresses of the providers in `used` (empty: any)."""
    keys = {key for name, (provider, key) in _PAIRS.items() if _is_in_force(name, file, environ, provider, used)}
    for key in keys:
        if environ.get(key) and not _is_filled_in(file, key):
            address = next(name for name in _PAIRS if name in file.values and _PAIRS[name][1] == key)
            way_out = f"put the key of that service into the file as well, or {address} into the environment"
            raise ConfigInvalid(file.path, f"{address}: {key} of the environment would be sent there; {way_out}")
    rows = [row for row in ENV if row.variable and _is_filled_in(file, row.name)]
    values = {row.variable: file.values[row.name] for row in rows if _is_handed_on(row, environ, keys, used)}
    return Variables(values, file.path)


def _is_in_force(name: str, file: _File, environ: Mapping[str, str], provider: str, used: set[str]) -> bool:
    """Whether an address of the file is the one that is asked."""
    if name not in file.values or environ.get(name) or environ.get(ENV_ROWS[name].variable or name):
        return False
    if name == "LLAMAFILE_API_BASE" and not is_llamafile(environ.get("SMART_LLM") or file.values.get("SMART_LLM", "")):
        return False
    return not used or provider in used


def _is_handed_on(row: Row, environ: Mapping[str, str], keys: set[str], used: set[str]) -> bool:
    if row.name in _PAIRS and used and _PAIRS[row.name][0] not in used:
        return False
    return row.name in keys or not environ.get(row.variable)


def _is_filled_in(file: _File, name: str) -> bool:
    return bool(file.values.get(name)) and not file.values[name].startswith(_PLACEHOLDERS)


def _parse(path: str) -> _File:
    from dotenv.main import resolve_variables
    from dotenv.parser import parse_stream

    bindings = list(parse_stream(StringIO(read_text(path))))
    broken = next((binding.original.line for binding in bindings if binding.error), 0)
    pairs = ((binding.key, binding.value) for binding in bindings if binding.key is not None)
    values = {name: value.strip() for name, value in resolve_variables(pairs, override=True).items() if value}
    return _File(path, {name: value for name, value in values.items() if value}, broken)
