"""How single values of AutoGPT's files become fields of `AgentSettings`. Pure; the table names these functions.

Each takes where it reads, the key, its value, and all values of the file, and returns fields. Raises ConfigInvalid.
Called through the rows of `table.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from perdure.agent.autogpt.models import is_llamafile, model_of
from perdure.agent.autogpt.reading import Object, Source
from perdure.core.permissions import Permissions, check_permissions
from perdure.errors import PatternInvalid
from perdure.model.budget import Budget

Fields = dict[str, Any]
Reading = Callable[[Source, str, Any, Object], Fields]

STRATEGIES: Final = ("one_shot", "plan_execute", "rewoo", "reflexion", "tree_of_thoughts")
CATEGORIES: Final = {  # of commands, until 0.5; by the last part of the name
    "execute_code": ("execute_shell", "execute_python_code", "execute_python_file"),
    "file_operations": (
        "read_file", "write_to_file", "append_to_file", "list_folder", "copy_file", "move_file", "delete_file",
        "search_in_files", "get_file_info",
    ),
    "git_operations": ("clone_repository", "git_status", "git_diff", "git_commit"),
    "user_interaction": ("ask_user", "ask_yes_no", "ask_choice"),
    "web_search": ("web_search",),
    "web_selenium": ("read_webpage", "fetch_webpage"),
    "image_gen": (),  # there is no such tool here
    "system": (),  # an agent that may not finish would not end
}  # fmt: skip
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_TEMPERATURE_MAX: Final = 2.0


def text(field: str) -> Reading:
    """Return the reading of a text into `field`."""
    return lambda source, key, value, _: {field: source.text_at(value, key)}


def texts(field: str) -> Reading:
    """Return the reading of a list of texts into `field`."""
    return lambda source, key, value, _: {field: source.texts_at(value, key)}


def count(field: str) -> Reading:
    """Return the reading of a whole number into `field`; none is 0."""
    return lambda source, key, value, _: {field: source.count_at(value or 0, key)}


def smart(source: Source, key: str, value: object, values: Object) -> Fields:
    """Read the name of the model that thinks."""
    return {"model": _model(source, key, value, values)}


def fast(source: Source, key: str, value: object, values: Object) -> Fields:
    """Read the name of the model that judges."""
    return {"fast_model": _model(source, key, value, values)}


def temperature(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read a temperature."""
    return {"temperature": source.number_at(value, key, _TEMPERATURE_MAX)}


def strategy(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read the name of a prompt strategy."""
    name = source.text_at(value, key).strip()
    if name not in STRATEGIES:
        raise source.refusal(key, f"{name!r} is not one of {', '.join(STRATEGIES)}; take one of these")
    return {"prompt_strategy": name}


def base_url(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read the address of an OpenAI-compatible service."""
    return {"base_url": _address(source, key, value)}


def llamafile(source: Source, key: str, value: object, values: Object) -> Fields:
    """Read the address of a llamafile, in force where the model is one; then the other model has to be one too."""
    address = _address(source, key, value)
    if not is_llamafile(str(values.get("SMART_LLM", ""))):
        return {}
    fast_model = str(values.get("FAST_LLM", ""))
    if fast_model and not is_llamafile(fast_model):
        raise source.refusal("FAST_LLM", f"{fast_model!r} is not behind {key}, and one address holds for both models")
    return {"base_url": address}


def restriction(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read whether files outside of the workspace are out of reach."""
    return {"restrict_to_workspace": _flag(source, key, value)}


def access(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read whether files outside of the workspace are within reach."""
    return {"restrict_to_workspace": not source.flag_at(value, key)}


def local_commands(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read whether there is a shell."""
    return {} if _flag(source, key, value) else {"left_out": ("execute_shell",)}


def commands(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read names of commands that are not offered."""
    return {"left_out": _names(source, key, value)}


def categories(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read names of kinds of commands that are not offered: "execute_code" or "autogpt.commands.execute_code"."""
    left_out: list[str] = []
    for name in _names(source, key, value):
        kind = name.rpartition(".")[2]
        if kind not in CATEGORIES:
            raise source.refusal(
                key, f"{name!r} is not one of {', '.join(CATEGORIES)}; name commands in DISABLED_COMMANDS"
            )
        left_out += CATEGORIES[kind]
    return {"left_out": tuple(left_out)}


def shell_control(source: Source, key: str, value: object, values: Object) -> Fields:
    """Read which of the two lists of programs is in force; an allowlist that allows nothing leaves no shell."""
    if _control(source, key, value) == "denylist" or _names(source, key, _allowlist(values)):
        return {}
    return {"left_out": ("execute_shell",)}


def shell_denylist(source: Source, key: str, value: object, values: Object) -> Fields:
    """Read the programs that the shell may not start."""
    if _control(source, "SHELL_COMMAND_CONTROL", values.get("SHELL_COMMAND_CONTROL")) != "denylist":
        return {}
    return {"deny": tuple(f"execute_shell({name}:**)" for name in _names(source, key, value))}


def shell_allowlist(source: Source, key: str, value: object, values: Object) -> Fields:
    """Read the only programs that the shell may start."""
    if _control(source, "SHELL_COMMAND_CONTROL", values.get("SHELL_COMMAND_CONTROL")) != "allowlist":
        return {}
    return {"only": tuple(f"execute_shell({name}:**)" for name in _names(source, key, value))}


def budget(source: Source, key: str, value: object, _: Object) -> Fields:
    """Read an amount of US dollars; 0 is without a limit."""
    return {"budget": Budget(money=source.dollars_at(0 if value is None else value, key))}


def patterns(field: str) -> Reading:
    """Return the reading of patterns of calls into `field`; "/./", which AutoGPT writes, is one slash."""

    def read(source: Source, key: str, value: object, _: Object) -> Fields:
        found = tuple(_plain(one) for one in source.texts_at(value, key))
        try:
            check_permissions(Permissions(allow=found))
        except PatternInvalid as error:
            raise source.refusal(key, str(error)) from error
        return {field: found}

    return read


def _plain(pattern: str) -> str:
    while "/./" in pattern:
        pattern = pattern.replace("/./", "/")
    return pattern


def _model(source: Source, key: str, value: object, values: Object) -> str:
    address = values.get("OPENAI_API_BASE_URL") or values.get("LLAMAFILE_API_BASE") or ""
    return model_of(source.text_at(value, key), source, key, base_url=str(address))


def _flag(source: Source, key: str, value: object) -> bool:
    word = source.text_at(value, key).strip().lower()
    if word not in _TRUE | _FALSE:
        raise source.refusal(key, f"must be True or False, not {value!r}")
    return word in _TRUE


def _names(source: Source, key: str, value: object) -> tuple[str, ...]:
    return tuple(name.strip() for name in source.text_at(value, key).split(",") if name.strip())


def _control(source: Source, key: str, value: object) -> str:
    control = source.text_at(value, key).strip() or "denylist"
    if control not in {"denylist", "allowlist"}:
        raise source.refusal(key, f"must be denylist or allowlist, not {control!r}")
    return control


def _allowlist(values: Object) -> object:
    return values.get("SHELL_ALLOWLIST") or values.get("ALLOW_COMMANDS")


def _address(source: Source, key: str, value: object) -> str:
    address = source.text_at(value, key).strip().rstrip("/")
    is_secret = "@" in address or "?" in address
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_whole = False
    if is_secret:  # it is recorded, so it is not shown either
        raise source.refusal(
            key, "holds a name, a password or a query; an address is recorded, so put the secret into its key"
        )
    if not is_whole:
        raise source.refusal(key, f"must be an address like http://127.0.0.1:8080/v1, not {address!r}")
    return address
