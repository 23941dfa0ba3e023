"""Settings of one process, and the place of its store: flag > environment > project file > user file > default.

Each setting is a row of `SETTINGS`, and every row is obeyed somewhere. The project file is `.perdure/config.toml` in
this folder or the nearest one above it, the user file `~/.config/perdure/config.toml`. An unknown key or a wrong value
is an error, never passed over. Not settings of a task: those are recorded in its journal.
Called by `perdure.open()` (through `find_place`), by the CLI and by `perdure doctor --config`.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from perdure.core.permissions import Permissions, check_permissions
from perdure.errors import ConfigInvalid, PatternInvalid
from perdure.limits import HEALTH_WINDOW

FOLDER: Final = ".perdure"
DATABASE: Final = "perdure.db"
FILE: Final = "config.toml"
PREFIX: Final = "PERDURE_"
NO_SETTINGS: Final[Mapping[str, Any]] = {}

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_SIZE: Final = re.compile(r"(\d+)\s*([KMG]i?B)", re.IGNORECASE)
_SHARE: Final = re.compile(r"(\d{1,2}|100)\s*% of (\d+)(?: calls)?")
_UNITS: Final = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_FALSE: Final = frozenset({"0", "false", "no", "off", ""})


Value = str | bool | tuple[str, ...]


class Setting(msgspec.Struct, frozen=True):
    """One thing that can be set: text, yes or no, or a list of texts, in which all files have a say."""

    key: str
    kind: type[str | bool | tuple[str, ...]]
    default: Value
    meaning: str
    is_secret: bool = False  # whoever sees the value could use it

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.key.upper()


# Those of AutoGPT, with what writes or tells of a file in the same way. A search asks: it could show a denied file.
ALLOWED: Final = tuple(
    f"{tool}({{workspace}}/**)"
    for tool in ("read_file", "write_to_file", "append_to_file", "list_folder", "get_file_info")
)
DENIED: Final = (
    *(f"read_file({path})" for path in ("**.env", "**.env.*", "**.key", "**.pem")),
    *(f"execute_shell(rm:{flags} **)" for flags in ("-*r*", "-*R*", "** -*r*", "** -*R*")),  # however it is spelt
    "execute_shell(sudo:**)",
)
SETTINGS: Final = (
    Setting("store", str, "", "where tasks are kept: a path or a URL (sqlite:///path, memory://)"),
    Setting("app", str, "", "the program to run tasks with, instead of the recorded one: pkg.mod:fn or file.py:fn"),
    Setting("model", str, "", "what thinks behind `perdure run GOAL`: offline, local, openai:NAME, anthropic:NAME …"),
    Setting("fast_model", str, "", "what judges and reflects; empty: the model"),
    Setting("base_url", str, "", "where an OpenAI-compatible service answers, instead of the provider"),
    Setting("prompt_strategy", str, "", "one_shot, plan_execute, reflexion, rewoo, tree_of_thoughts"),
    Setting("search", str, "", "what web_search asks: ddgs, tavily, serper; empty: what there is a key for"),
    Setting("mcp", str, "", "the file that names MCP servers whose tools the agent may call"),
    Setting("health_min", str, "50 % of 6", "a tool or provider is bad where fewer of its newest calls are valid"),
    Setting("unattended", bool, False, "a task that needs a person fails instead, with the same facts"),
    Setting("log_dir", str, "", "folder for live log files, one set per task; empty: none"),
    Setting("log_keep", str, "10 MB x 5", "how much of each task's log is kept: size of a file x files[, days d]"),
    Setting("notify_url", str, "", "a webhook that is told of tasks that need somebody, or have ended", is_secret=True),
    Setting("notify_command", str, "", "a command that is run then, without a shell"),
    Setting("workspace_ignore", str, "", "paths of a workspace to leave aside, beside the usual: `*.tmp, out/, /a/b`"),
    Setting("workspace_file_max", str, "64 MiB", "files of a workspace larger than this are not captured"),
    Setting("allow", tuple, ALLOWED, "calls of the agent's tools that need no permission; all others are asked"),
    Setting("deny", tuple, DENIED, "calls of the agent's tools that are refused, whatever is allowed"),
)
_PLACES: Final = ("store", "log_dir")  # in a project file, a relative one counts from the folder that holds `.perdure`
_LISTS: Final = tuple(setting.key for setting in SETTINGS if setting.kind is tuple)
_TABLES: Final = {"permissions": ("allow", "deny")}  # under which keys may stand in a file as well
_BY_KEY: Final = {setting.key: setting for setting in SETTINGS}
_OTHER_VARIABLES: Final = frozenset({"PERDURE_DEBUG", "PERDURE_CRASH", "PERDURE_TESTING"})
_NOTICE_VARIABLES: Final = "PERDURE_TASK"  # begins those that a command of `notify_command` is given


class Chosen(msgspec.Struct, frozen=True):
    """A value and where it came from: "flag --store", "PERDURE_STORE", a file's path, "default"."""

    value: Value
    origin: str


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, resolved."""

    chosen: dict[str, Chosen]

    def text(self, key: str) -> str:
        """Return the value of a setting that is text."""
        return str(self.chosen[key].value)

    def permissions(self) -> Permissions:
        """Return what the agent's tools may do without asking, and what not at all. Raises ConfigInvalid."""
        for key in ("allow", "deny"):
            try:
                check_permissions(Permissions(**{key: self._texts(key)}))
            except PatternInvalid as invalid:
                raise ConfigInvalid(self.chosen[key].origin, f"{key}: {invalid}") from invalid
        return Permissions(allow=self._texts("allow"), deny=self._texts("deny"))

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self.chosen[key].value
        return value if isinstance(value, tuple) else ()

    def shown(self, key: str) -> Value:
        """Return the value of a setting for people to see: of a secret, only that there is one."""
        value = self.chosen[key].value
        return "(set)" if value and _BY_KEY[key].is_secret else value

    def is_on(self, key: str) -> bool:
        """Return the value of a setting that is yes or no."""
        return bool(self.chosen[key].value)

    def size_bytes(self, key: str) -> int:
        """Return the value of a setting that is a size: "64 MiB", "10 MB". Raises ConfigInvalid."""
        text = self.text(key)
        found = _SIZE.fullmatch(text.strip())
        if found is None:
            raise ConfigInvalid(self.chosen[key].origin, f'{key} must be a size like "64 MiB" or "10 MB", not {text!r}')
        return int(found[1]) * _UNITS[found[2].lower()]

    def share(self, key: str) -> tuple[float, int]:
        """Return the value of a setting that is a share of so many: "50 % of 6" is (0.5, 6). Raises ConfigInvalid."""
        text = self.text(key)
        found = _SHARE.fullmatch(text.strip())
        if found is None or not 0 < int(found[2]) <= HEALTH_WINDOW:
            wanted = f'a share of 1 to {HEALTH_WINDOW} calls like "50 % of 6"'
            raise ConfigInvalid(self.chosen[key].origin, f"{key} must be {wanted}, not {text!r}")
        return int(found[1]) / 100, int(found[2])


def load_config(
    flags: Mapping[str, Any] = NO_SETTINGS, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> Config:
    """Return all settings for a process in `folder` (default: the working directory). Reads at most two files.

    A flag that is None was not given. Raises ConfigInvalid naming the place, the key and the nearest known one.
    """
    environ = os.environ if environ is None else environ
    folder = Path.cwd() if folder is None else folder
    chosen = {setting.key: Chosen(setting.default, "default") for setting in SETTINGS}
    of_user = _read_file(user_file(environ), relative_to=None)
    chosen |= of_user
    project = find_folder(folder)
    if project is not None:
        of_project = _read_file(project / FILE, relative_to=project.parent)
        chosen |= of_project
        chosen |= {
            key: _joined(of_user[key], of_project[key]) for key in _LISTS if key in of_user and key in of_project
        }
    chosen |= _read_environment(environ)
    chosen |= {
        key: Chosen(value, f"flag --{key.replace('_', '-')}") for key, value in flags.items() if value is not None
    }
    place = chosen["store"]
    if not place.value:
        chosen["store"] = _default_store(folder, project)
    return Config(chosen=chosen)


def find_place(store: str | None = None) -> str:
    """Return the path or URL of the store: `store` > PERDURE_STORE > files > nearest `.perdure/` upwards > here.

    Raises ConfigInvalid.
    """
    return store or load_config().text("store")


def find_folder(folder: Path) -> Path | None:
    """Return the nearest `.perdure` folder in `folder` or above it, None where there is none.

    One that belongs to another user is refused: its config may name code to run. Raises ConfigInvalid.
    """
    for above in (folder, *folder.parents):
        found = above / FOLDER
        if found.is_dir():
            if not _is_ours(found):
                raise ConfigInvalid(str(found), "it belongs to another user; name a store of yours with --store")
            return found
    return None


def user_file(environ: Mapping[str, str]) -> Path:
    """Return where this user's own settings are kept."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return Path(base) / "perdure" / FILE


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return each PERDURE_… variable that sets nothing, with the nearest one that does ("" where none is near)."""
    known = {setting.variable for setting in SETTINGS} | _OTHER_VARIABLES
    ours = (name for name in environ if name.startswith(PREFIX) and not name.startswith(_NOTICE_VARIABLES))
    unknown = sorted(name for name in ours if name not in known)
    return {name: _nearest(name, known) for name in unknown}


def _default_store(folder: Path, project: Path | None) -> Chosen:
    if project is None:
        return Chosen(str(folder / FOLDER / DATABASE), "default")
    return Chosen(str(project / DATABASE), f"found {project}")


def _is_ours(folder: Path) -> bool:
    if not hasattr(os, "getuid") or os.getuid() == 0:
        return True
    return folder.stat().st_uid in {os.getuid(), 0}


def _read_environment(environ: Mapping[str, str]) -> dict[str, Chosen]:
    chosen: dict[str, Chosen] = {}
    for setting in SETTINGS:
        text = environ.get(setting.variable)
        if text:
            chosen[setting.key] = Chosen(_from_text(setting, text), setting.variable)
    return chosen


def _read_file(path: Path, *, relative_to: Path | None) -> dict[str, Chosen]:
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigInvalid(str(path), f"cannot be read: {error.strerror}") from error
    try:
        table = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigInvalid(str(path), f"is not TOML: {error}") from error
    chosen: dict[str, Chosen] = {}
    for key, value in _flattened(table, str(path)):
        one = Chosen(_checked(key, value, str(path)), str(path))
        chosen[key] = _joined(chosen[key], one) if key in chosen else one
    for key in _PLACES:
        place = chosen.get(key)
        if place is not None and place.value and relative_to is not None and "://" not in str(place.value):
            chosen[key] = Chosen(str(relative_to / os.path.expanduser(str(place.value))), place.origin)
    return chosen


def _flattened(table: Mapping[str, object], place: str) -> Iterator[tuple[str, object]]:
    """Yield each key with its value; what stands in one of `_TABLES` as if it stood above."""
    for key, value in table.items():
        if key not in _TABLES:
            yield key, value
            continue
        if not isinstance(value, dict):
            raise ConfigInvalid(place, f"{key} must be a table: [{key}] in a line of its own, not {value!r}")
        for inner, one in cast("dict[str, object]", value).items():
            if inner not in _TABLES[key]:
                near = _nearest(inner, set(_TABLES[key]))
                known = f"did you mean {near!r}?" if near else f"known are {', '.join(_TABLES[key])}"
                raise ConfigInvalid(place, f"unknown key {inner!r} in [{key}]; {known}")
            yield inner, one


def _joined(first: Chosen, second: Chosen) -> Chosen:
    """Return both lists as one, each text once."""
    texts = [text for one in (first, second) if isinstance(one.value, tuple) for text in one.value]
    origin = first.origin if first.origin == second.origin else f"{first.origin} and {second.origin}"
    return Chosen(tuple(dict.fromkeys(texts)), origin)


def _from_text(setting: Setting, text: str) -> Value:
    """Return what a variable of the environment sets; of a list, each line is one text."""
    if setting.kind is tuple:
        return tuple(line.strip() for line in text.splitlines() if line.strip())
    return text if setting.kind is str else _to_bool(text, setting.variable)


def _checked(key: str, value: object, place: str) -> Value:
    setting = _BY_KEY.get(key)
    if setting is None:
        near = _nearest(key, _BY_KEY)
        known = f"did you mean {near!r}?" if near else f"known are {', '.join(sorted(_BY_KEY))}"
        raise ConfigInvalid(place, f"unknown key {key!r}; {known}")
    if setting.kind is tuple:
        texts = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ConfigInvalid(place, f'{key} must be a list of texts: {key} = ["…", "…"], not {value!r}')
        return tuple(str(text) for text in texts)
    if not isinstance(value, str | bool) or not isinstance(value, setting.kind):
        wanted = "text in quotes" if setting.kind is str else "true or false"
        raise ConfigInvalid(place, f"{key} must be {wanted}, not {value!r}")
    return value


def _to_bool(text: str, variable: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ConfigInvalid(variable, f"must be yes or no, not {text!r}")


def _nearest(name: str, known: Mapping[str, object] | set[str] | frozenset[str]) -> str:
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return found[0] if found else ""
