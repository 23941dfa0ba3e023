"""Programs: the function that drives a task, declared, found again by any process, and told apart from its changes.

Not what runs one (`engine/runtime.py`). Users write `@program`; runtime, CLI and resume load by what `Driver` recorded:
an import path and the folder it is rooted in, or a file. Nothing is ever imported from the current folder by accident.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import math
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from types import ModuleType, TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from perdure.codec import values
from perdure.engine.state_types import check_type, fit
from perdure.errors import ProgramNotImportable, UsageError
from perdure.limits import FAILURES_MAX
from perdure.model.entry import Driver, Raw
from perdure.model.ids import check_name
from perdure.model.strategy import Strategy
from perdure.tools import Tool
from perdure.tools.declare import tools_in
from perdure.tools.results import dump

P = ParamSpec("P")
R = TypeVar("R")

_FILE_MODULE: Final = "perdure_program_"  # how a module is called that was loaded by its file


class ProgramOptions(TypedDict, total=False):
    """The keywords of `program`."""

    state: object  # what the state is at the start: a dict, or a value of `state_type`
    state_type: type[Any] | None  # dataclass, msgspec.Struct, TypedDict or pydantic model: how views show the state
    state_version: int  # raised with each change of the state's shape; a `migration` leads from each to the next
    strategies: Sequence[Strategy]  # in the order in which they are tried
    failures_max: int  # counted failures until a rollback
    reached: Callable[[Any], object] | None  # of the state (read-only): the result, where the goal is reached already
    name: str | None  # default: the function's name


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Program(Generic[P, R]):
    """A declared program: takes a task and P, gives R. Calling it calls the function."""

    name: str
    fn: Callable[..., Coroutine[Any, Any, R]]
    first_state: Raw  # encoded, so that nobody changes it
    state_type: type[Any] | None
    state_version: int
    strategies: tuple[Strategy, ...]
    failures_max: int
    reached: Callable[[Any], object] | None
    source_digest: str  # sha256 of the source file as it was at the declaration, in hex; empty where it has none

    def __post_init__(self) -> None:
        described = {
            "__wrapped__": self.fn,
            "__name__": self.fn.__name__,
            "__qualname__": self.fn.__qualname__,
            "__module__": self.fn.__module__,
            "__doc__": self.fn.__doc__,
        }
        vars(self).update(described)

    def __call__(self, task: Any, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # noqa: ANN401 - a Task
        """Call the function itself."""
        return self.fn(task, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<program {self.fn.__module__}:{self.fn.__qualname__}>"

    @property
    def state(self) -> dict[str, Any]:
        """What the state is at the start; a fresh copy each time."""
        return cast("dict[str, Any]", values.decode(self.first_state))

    def driver(self, arguments: Mapping[str, object]) -> Driver:
        """Return how another process finds this program, and its arguments. Raises ProgramNotImportable, Unstorable."""
        target, folder = _place_of(self)
        return Driver(
            kind="program",
            target=target,
            folder=folder,
            arguments=Raw(values.encode(dict(arguments))),
            source_digest=self.source_digest,
        )


class DeclareProgram(Protocol):
    """What `program(...)` returns: makes a program of a coroutine function."""

    def __call__(self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /) -> Program[P, R]:
        """Make the program."""
        ...


@overload
def program(fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /) -> Program[P, R]: ...
@overload
def program(**options: Unpack[ProgramOptions]) -> DeclareProgram: ...
def program(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a program: `@program` or `@program(state={…}, strategies=[…], failures_max=3)`.

    Raises UsageError where the declaration is wrong, Unstorable where the first state cannot be stored, TypeError for
    an unknown keyword.
    """
    unknown = sorted(options.keys() - ProgramOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"program() got an unexpected keyword argument {unknown[0]!r}")
    known = cast("ProgramOptions", options)

    def declare(fn: Callable[..., Any], /) -> Program[..., Any]:
        return _declare(fn, known)

    return declare if fn is None else declare(fn)


def load_program(target: str, folder: str, *, app: str | None = None) -> Program[..., Any]:
    """Import the program that `target` names, rooted in `folder`, and return it.

    `target` is "pkg.mod:name" or "path/file.py:name" (its `if __name__ == "__main__"` block does not run). `app` names
    another target to take instead, rooted in the current folder. Importing puts the folder on `sys.path`, where it
    stays, since programs import late too. Raises ProgramNotImportable naming target, folder and cause.
    """
    if app is not None:
        target, folder = app, os.getcwd()
    module_text, _, name = target.rpartition(":")
    if not module_text or not name:
        raise ProgramNotImportable(target, 'write it as "package.module:name" or "path/file.py:name"')
    folder = os.path.abspath(folder)
    if not os.path.exists(folder):
        raise ProgramNotImportable(target, f"its folder {folder!r} is gone; put it back, or say where it is with --app")
    load = _load_file if module_text.endswith(".py") else _load_module
    module = _find_main(module_text, folder, name) or load(target, module_text, folder)
    return _take(module, target, folder)


def load_tools(target: str, folder: str) -> dict[str, Tool[..., Any]]:
    """Return the declared tools of a module, by name and alias; `target` is "pkg.mod" or "file.py" below `folder`.

    Raises ProgramNotImportable, also where it declares none; ToolInvalid where two have the same name.
    """
    is_file = target.endswith(".py")
    module = _load_file(target, target, folder) if is_file else _load_module(target, target, folder)
    found = tools_in(module)
    if not found:
        raise ProgramNotImportable(target, f"{module.__file__!r} declares no tool; write `@perdure.tool(effect=…)`")
    return found


def source_changed(program: Program[..., Any], recorded_digest: str) -> bool:
    """Whether the program's source is another than the recorded one; False where nothing was recorded."""
    return bool(recorded_digest) and program.source_digest != recorded_digest


def plain_args(program: Program[..., Any], args: Mapping[str, object]) -> dict[str, Any]:
    """Return a checked copy of `args`. Raises UsageError for unknown or missing names, Unstorable for their values."""
    parameters = list(inspect.signature(program.fn).parameters.values())[1:]
    named = {p.name: p for p in parameters if p.kind in {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}}
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
    unknown = [] if takes_any else [name for name in args if name not in named]
    missing = [name for name, p in named.items() if p.default is Parameter.empty and name not in args]
    if unknown or missing:
        wrong = [f"it does not take {name!r}" for name in unknown] + [f"{name!r} is missing" for name in missing]
        expected = ", ".join(n if p.default is Parameter.empty else f"{n}=…" for n, p in named.items())
        raise UsageError(f"program {program.name!r}: {', '.join(wrong)}; its arguments are: {expected or 'none'}")
    return cast("dict[str, Any]", values.copy(dict(args), ("args",)))


# --- declaring ------------------------------------------------------------------------------------------------------
def _declare(fn: Callable[..., Any], options: ProgramOptions) -> Program[..., Any]:
    _check_function(fn)
    name = fn.__name__ if (given := options.get("name")) is None else given
    state_type = options.get("state_type")
    return Program(
        name=check_name(name, "program name"),
        fn=fn,
        first_state=_read_state(name, options.get("state", {}), state_type),
        state_type=state_type,
        state_version=_read_count(name, "state_version", options.get("state_version", 1)),
        strategies=_read_strategies(name, options.get("strategies", ())),
        failures_max=_read_count(name, "failures_max", options.get("failures_max", FAILURES_MAX)),
        reached=_read_reached(name, options.get("reached")),
        source_digest=_digest_source(fn),
    )


def _check_function(fn: object) -> None:
    if not inspect.isfunction(fn) or not inspect.iscoroutinefunction(fn):
        raise UsageError(f"{fn!r} is no program: write it as `async def name(task, …):`")
    kinds = [parameter.kind for parameter in inspect.signature(fn).parameters.values()]
    if not kinds or kinds[0] not in {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}:
        raise UsageError(f"program {fn.__name__!r} takes no task; write `async def {fn.__name__}(task, …):`")
    if Parameter.POSITIONAL_ONLY in kinds[1:]:
        raise UsageError(f"program {fn.__name__!r}: arguments are given by name; put the `/` right after the task")


def _read_state(name: str, given: object, state_type: type[Any] | None) -> Raw:
    """Return the first state, encoded: a dict, or a value of the state's type; defaults of the type are filled in."""
    if state_type is not None:
        check_type(name, state_type)
    state = given if state_type is None else dump(given)
    if type(state) is not dict:
        raise UsageError(f"program {name!r}: state= is a {type(state).__name__}; write a dict")
    plain = values.copy(cast("object", state), ("state",))
    return Raw(values.encode(plain if state_type is None else fit(plain, state_type)))


def _read_strategies(name: str, given: object) -> tuple[Strategy, ...]:
    found = tuple(cast("Sequence[object]", given)) if isinstance(given, list | tuple) else (None,)
    if not all(isinstance(one, Strategy) for one in found):
        raise UsageError(f"program {name!r}: strategies= is no list of strategies; write `[perdure.Strategy(name, …)]`")
    strategies = tuple(_read_strategy(name, cast("Strategy", one)) for one in found)
    if len({one.name for one in strategies}) != len(strategies):
        raise UsageError(f"program {name!r}: two strategies have the same name; recovery tells them apart by it")
    return strategies


def _read_strategy(name: str, given: Strategy) -> Strategy:
    """Return `given` as it will be read from the journal. What could not be read there is refused here."""
    try:
        strategy = msgspec.convert(msgspec.to_builtins(given), Strategy)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"program {name!r}: strategy {given.name!r} is refused: {error}") from None
    if strategy.temperature is not None and not math.isfinite(strategy.temperature):
        raise UsageError(f"program {name!r}: strategy {given.name!r}: temperature={given.temperature} is none")
    check_name(strategy.name, f"program {name!r}: strategy")
    return strategy


def _read_count(name: str, option: str, given: object) -> int:
    if type(given) is not int or given < 1:
        raise UsageError(f"program {name!r}: {option}={given!r} is not a whole number from 1 up")
    return given


def _read_reached(name: str, given: object) -> Callable[[Any], object] | None:
    if given is not None and (not callable(given) or inspect.iscoroutinefunction(given)):
        raise UsageError(f"program {name!r}: reached= is a plain function of the state: what it returns is the result")
    try:
        if given is not None:
            inspect.signature(given).bind(None)
    except TypeError:
        raise UsageError(f"program {name!r}: reached= takes the state and nothing else") from None
    except ValueError:
        pass  # of something built in, whose parameters nobody can know
    return given


def _digest_source(fn: Callable[..., Any]) -> str:
    path = getattr(sys.modules.get(fn.__module__), "__file__", None) or fn.__code__.co_filename
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""  # typed in, or inside an archive: nothing to compare


# --- where a program is ---------------------------------------------------------------------------------------------
def _place_of(program: Program[..., Any]) -> tuple[str, str]:
    """Return target and folder. Raises ProgramNotImportable where no other process could find it."""
    shown = f"{program.fn.__module__}:{program.fn.__qualname__}"
    if "<locals>" in program.fn.__qualname__:
        raise ProgramNotImportable(shown, "it is made inside a function; move it to the top of its module")
    module = sys.modules.get(program.fn.__module__)
    name = _name_in(module, program)
    if module is None or name is None:
        raise ProgramNotImportable(shown, "its module has no name for it; assign it at the top of the module")
    file = getattr(module, "__file__", None)
    if file is None:
        raise ProgramNotImportable(shown, "it was typed in and is in no file; save it in one")
    module_name = _import_name(module)
    root = module_name and _root_of(module_name, file)
    if root:
        return f"{module_name}:{name}", root
    folder, file_name = os.path.split(os.path.abspath(file))
    return f"{file_name}:{name}", folder


def _name_in(module: ModuleType | None, program: Program[..., Any]) -> str | None:
    names = [name for name, value in vars(module).items() if value is program] if module else []
    return program.fn.__qualname__ if program.fn.__qualname__ in names else next(iter(names), None)


def _import_name(module: ModuleType) -> str:
    """Return the name under which a module can be imported, empty where only its file leads to it."""
    name = module.__name__
    if name == "__main__" and module.__spec__ is not None:
        name = module.__spec__.name  # started with `python -m`
    return "" if name == "__main__" or name.startswith(_FILE_MODULE) else name


def _root_of(module_name: str, file: str) -> str:
    """Return the folder in which the import path begins, empty where the file does not lie as the path says."""
    place = os.path.splitext(os.path.abspath(file))[0]
    if os.path.basename(place) == "__init__":
        place = os.path.dirname(place)
    for part in reversed(module_name.split(".")):
        place, found = os.path.split(place)
        if found != part:
            return ""
    return place


# --- loading --------------------------------------------------------------------------------------------------------
class _Importing:
    """Turns whatever an import raises into ProgramNotImportable, with its cause. Cancellation and Ctrl-C pass."""

    def __init__(self, target: str, folder: str) -> None:
        self.target = target
        self.folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception | SystemExit):
            cause = f"{type(error).__name__}: {error}"
            raise ProgramNotImportable(self.target, f"importing it from {self.folder!r} raised {cause}") from error


def _load_module(target: str, module_name: str, folder: str) -> ModuleType:
    _reach(folder)
    importlib.invalidate_caches()
    with _Importing(target, folder):
        module = importlib.import_module(module_name)
    found = _root_of(module_name, getattr(module, "__file__", None) or "")
    if not found or os.path.realpath(found) != os.path.realpath(folder):
        elsewhere = getattr(module, "__file__", None) or "another place"
        reason = f"{module_name} comes from {elsewhere!r}, not from the recorded folder {folder!r}"
        raise ProgramNotImportable(target, f"{reason}; start in a process without the other, or name it with --app")
    return module


def _load_file(target: str, relative: str, folder: str) -> ModuleType:
    path = os.path.normpath(os.path.join(folder, relative))
    name = _FILE_MODULE + hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise ProgramNotImportable(target, f"there is no file {path!r}; put it back, or say where it is with --app")
    module = importlib.util.module_from_spec(spec)
    _reach(os.path.dirname(path))
    sys.modules[name] = module
    try:
        with _Importing(target, folder):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find_main(module_text: str, folder: str, name: str) -> ModuleType | None:
    """Return `__main__` where it is the wanted module and has the program, so that nothing of it exists twice."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if main is None or file is None or not isinstance(getattr(main, name, None), Program):
        return None
    by_name = _import_name(main)
    if by_name:
        is_wanted = by_name == module_text and _root_of(by_name, file) == folder
    else:
        is_wanted = os.path.abspath(file) == os.path.normpath(os.path.join(folder, module_text))
    return main if is_wanted else None


def _reach(folder: str) -> None:
    if folder not in map(os.path.abspath, sys.path):
        sys.path.insert(0, folder)


def _take(module: ModuleType, target: str, folder: str) -> Program[..., Any]:
    name = target.rpartition(":")[2]
    found = getattr(module, name, None)
    if isinstance(found, Program):
        return cast("Program[..., Any]", found)
    if found is None:
        there = sorted(key for key, value in vars(module).items() if isinstance(value, Program))
        reason = f"{module.__file__!r} has no {name!r}; its programs are: {', '.join(there) or 'none'}"
    elif callable(found):
        reason = f"{name!r} in {module.__file__!r} is not declared; write `@perdure.program` above it"
    else:
        reason = f"{name!r} in {module.__file__!r} is a {type(found).__name__}, not a program"
    raise ProgramNotImportable(target, f"{reason} (folder {folder!r})")
