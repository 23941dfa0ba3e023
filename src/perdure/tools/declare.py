"""`@tool`: a function and what it does to the world. Not a registry and not the call itself (both are the engine's).

Users write declarations; the engine reads the fields, binds arguments and calls. What is not declared, or contradicts
itself, is refused here with the line to write, so that nothing is found out after an effect. Background: design of
effects in `model/effect.py`.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from perdure.codec.known import process
from perdure.errors import PerdureError, ToolInvalid
from perdure.limits import ACTION_TIMEOUT_S
from perdure.model.effect import PRESETS, Effect, Retry, Undo
from perdure.model.ids import check_name
from perdure.tools import registry
from perdure.tools.results import refusal
from perdure.tools.signature import Shape, read_result_type, read_shape
from perdure.tools.undoing import check_undo

HOLE: Final = re.compile(r"\{(\w+)\}")  # in a path of `paths=`: the argument that fills it
WHOLE: Final = "arguments"  # the parameter of a tool with `schema=`: all that was asked for, whatever its names are

P = ParamSpec("P")
R = TypeVar("R")

Preset = Literal["pure", "verifiable", "compensable", "irreversible", "workspace"]


class ToolOptions(TypedDict, total=False):
    """The further keywords of `tool`."""

    undo: Tool[..., Any] | Undo | None  # how it is taken back: a declared tool, or one of the words
    probe: Callable[..., Any] | None  # asks the world whether the effect happened; for retry "probe" only
    settle_s: float  # how long after its time-out an effect may still appear in the world
    timeout_s: float
    paths: Sequence[str]  # what it writes, relative to the workspace; "{name}" = what the argument `name` says
    paid: bool  # costs money: the intent is durable before the call, a killed call counts as spent
    valid: Callable[[Any], object] | None  # judges the result by its truth
    poll: bool  # asked again and again: never takes a loose outcome, never counts as a loop
    source: bool  # brings information from outside
    provider: str  # whom it calls: calls to one provider share its health, and wait for it together
    quick: bool  # under a millisecond: called on the loop, not in a thread
    secrets: Sequence[str]  # names of the secrets it needs
    name: str | None  # stays the same for ever; default: the function's name
    aliases: Sequence[str]  # names that it had before
    schema: Mapping[str, Any] | None  # ready JSON Schema of what its one parameter `arguments` takes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool(Generic[P, R]):
    """A declared function: takes P, gives R (awaited). Calling it just calls the function, without any record."""

    name: str
    effect: Effect
    fn: Callable[..., Any]
    is_coroutine: bool
    shape: Shape
    undo_function: Tool[..., Any] | None
    probe: Callable[..., Any] | None
    settle_s: float
    timeout_s: float
    paths: tuple[str, ...]
    paid: bool
    valid: Callable[[Any], object] | None
    poll: bool
    source: bool
    provider: str
    quick: bool
    secrets: tuple[str, ...]
    aliases: tuple[str, ...]
    module: str
    qualname: str
    schema: Mapping[str, Any] | None = None  # of what `arguments` takes, where others have written it; read-only

    def __post_init__(self) -> None:
        described = {
            "__wrapped__": self.fn,
            "__name__": getattr(self.fn, "__name__", self.name),
            "__qualname__": self.qualname,
            "__module__": self.module,
            "__doc__": getattr(self.fn, "__doc__", None),
        }
        vars(self).update(described)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names that an act may give by place, in order; the key parameter is not among them."""
        return self.shape.positional

    @property
    def key_parameter(self) -> str | None:
        """The parameter that receives the effect key."""
        return self.shape.key_parameter

    @cached_property
    def may_write_files(self) -> bool:
        """Whether it is declared to change files of the workspace."""
        return self.effect.undo == "workspace" or bool(self.paths)

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing is to be recorded of it but what every tool has."""
        return not (self.paid or self.provider or self.source or self.poll or self.may_write_files)

    @property
    def signature_digest(self) -> str:
        """32 hex digits over names, kinds, annotations and defaults, or a ready schema; to be compared at a resume."""
        if self.schema is None:
            return self.shape.digest
        text = json.dumps(self.schema, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]

    @cached_property
    def result_type(self) -> object | None:
        """The annotated type of the result, None where there is none or its name cannot be found at run time.

        Read when first asked for, since a class may stand below the tool in its file. Raises ToolInvalid where no
        stored value could be rebuilt to it.
        """
        result_type = read_result_type(self.fn, self.shape.signature)
        reason = refusal(result_type)
        if reason:
            raise ToolInvalid(self.name, f"its results could not be rebuilt: {reason}; return another type")
        return result_type

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by parameter name, defaults not filled in.

        Raises TypeError, worded like Python's own, and UsageError where the caller gives the effect key.
        """
        return self.shape.bind(self.name, args, kwargs)

    def call(self, arguments: Mapping[str, object], effect_key: str = "") -> Any:  # noqa: ANN401 - R or its coroutine
        """Call the function with what `bind` returned, and with the effect key where it takes one."""
        shape = self.shape
        if shape.key_parameter is not None:
            arguments = {**arguments, shape.key_parameter: effect_key}
        if shape.by_name:
            return self.fn(**arguments)
        args, kwargs = shape.spread(arguments)
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name} ({self.effect})>"


class AsyncTool(Tool[P, R]):
    """A tool made of a coroutine function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function itself."""
        return cast("Coroutine[Any, Any, R]", self.fn(*args, **kwargs))


class PlainTool(Tool[P, R]):
    """A tool made of a plain function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return cast("R", self.fn(*args, **kwargs))


class Declare(Protocol):
    """What `tool(...)` returns: makes a tool of a function."""

    # A coroutine function fits the second overload too; the first is the one that both checkers take.
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R], /) -> PlainTool[P, R]: ...


class DeclareKeyed(Protocol):
    """As `Declare`; parameters are left open, since an act leaves out the key that the function takes."""

    @overload
    def __call__(self, fn: Callable[..., Coroutine[Any, Any, R]], /) -> AsyncTool[..., R]: ...  # type: ignore[overload-overlap] # as above
    @overload
    def __call__(self, fn: Callable[..., R], /) -> PlainTool[..., R]: ...


@overload
def tool(*, effect: Literal["idempotent"], **options: Unpack[ToolOptions]) -> DeclareKeyed: ...
@overload
def tool(
    *, effect: Preset | Effect | None = None, retry: Literal["keyed"], **options: Unpack[ToolOptions]
) -> DeclareKeyed: ...
@overload
def tool(
    *,
    effect: Preset | Effect | None = None,
    retry: Literal["free", "probe", "restore", "never"] | None = None,
    **options: Unpack[ToolOptions],
) -> Declare: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    effect: str | Effect | None = None,
    retry: Retry | None = None,
    **options: Any,
) -> Any:
    """Declare what a function does to the world: `@tool(effect="pure")`, or `tool(effect="pure")(function)`.

    `effect` is a preset (pure, idempotent, verifiable, compensable, irreversible, workspace) or an `Effect`; `retry`
    and `undo` refine it or stand instead of it. Raises ToolInvalid with the line to write where the declaration is
    incomplete or contradicts itself, TypeError for an unknown keyword.
    """
    unknown = sorted(options.keys() - ToolOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"tool() got an unexpected keyword argument {unknown[0]!r}")
    known = cast("ToolOptions", options)

    def declare(fn: Callable[..., Any], /) -> Tool[..., Any]:
        return _declare(fn, effect, retry, known)

    return declare if fn is None else declare(fn)


def tools_in(place: ModuleType | Mapping[str, object]) -> dict[str, Tool[..., Any]]:
    """Return the tools that stand in a module or namespace, by recorded name, aliases included.

    Raises ToolInvalid where two of them claim the same name.
    """
    found: dict[str, Tool[..., Any]] = {}
    values: Mapping[str, object] = vars(place) if isinstance(place, ModuleType) else place
    for one in filter(None, map(_as_tool, values.values())):
        for name in (one.name, *one.aliases):
            other = found.setdefault(name, one)
            if other is not one:
                where = f"{other.module}.{other.qualname} and {one.module}.{one.qualname}"
                raise ToolInvalid(name, f"{where} both have this name; give one of them `name=`")
    return found


# --- checks of one declaration --------------------------------------------------------------------------------------
_EXAMPLES: Final = (
    '`@perdure.tool(effect="pure")` for reads and pure work, "idempotent" where a second call with the same key is '
    'dropped, "verifiable" with probe=, "compensable" with undo=, "workspace" for files only, else "irreversible"'
)


def _declare(
    fn: Callable[..., Any], effect: str | Effect | None, retry: Retry | None, options: ToolOptions
) -> Tool[..., Any]:
    name = _read_name(fn, options.get("name"))
    _check_callable(fn, name)
    is_coroutine = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)
    if options.get("quick") and is_coroutine:
        raise ToolInvalid(name, "quick= is for plain functions, a coroutine already runs on the loop; leave it out")
    answers = _read_effect(name, effect, retry, options.get("undo"))
    shape = read_shape(fn, name)
    _check_effect(name, answers, shape, has_probe=options.get("probe") is not None)
    undo_function = _as_tool(options.get("undo"))
    if undo_function is not None:
        check_undo(name, shape, undo_function.name, undo_function.shape)
    made = AsyncTool[..., Any] if is_coroutine else PlainTool[..., Any]
    declared = made(
        name=name,
        effect=answers,
        fn=fn,
        is_coroutine=is_coroutine,
        shape=shape,
        undo_function=undo_function,
        probe=_read_probe(name, options.get("probe")),
        settle_s=_read_seconds(name, "settle_s", options.get("settle_s", 0.0), least=0.0),
        timeout_s=_read_seconds(name, "timeout_s", options.get("timeout_s", ACTION_TIMEOUT_S), least=0.001),
        paths=_read_paths(name, options.get("paths", ()), shape),
        paid=bool(options.get("paid")),
        valid=_read_valid(name, options.get("valid")),
        poll=bool(options.get("poll")),
        source=bool(options.get("source")),
        provider=_read_provider(name, options.get("provider", "")),
        quick=bool(options.get("quick")),
        secrets=_read_texts(name, "secrets", options.get("secrets", ())),
        aliases=_read_aliases(name, options.get("aliases", ())),
        module=str(getattr(fn, "__module__", type(fn).__module__)),
        qualname=str(getattr(fn, "__qualname__", type(fn).__qualname__)),
        schema=options.get("schema"),
    )
    if declared.schema is not None and declared.parameters != (WHOLE,):
        raise ToolInvalid(name, f"with schema= it takes what that says in one parameter; write `{WHOLE}: dict`")
    registry.register(declared)
    for secret in declared.secrets:
        process.expect(secret)
    return declared


def _as_tool(value: object) -> Tool[..., Any] | None:
    return cast("Tool[..., Any]", value) if isinstance(value, Tool) else None


def _read_name(fn: object, given: str | None) -> str:
    name = getattr(fn, "__name__", None) if given is None else given
    if not isinstance(name, str) or name == "<lambda>":
        raise ToolInvalid(repr(fn), 'it has no name that stays the same; write `name="…"`')
    return _check_tool_name(name, name)


def _read_provider(name: str, given: object) -> str:
    if given == "":
        return ""
    if not isinstance(given, str):
        raise ToolInvalid(name, f'provider={given!r} is no name; write provider="openai"')
    try:
        return check_name(given, "provider")
    except PerdureError as error:
        raise ToolInvalid(name, f'{error}; write provider="openai"') from None


def _check_tool_name(tool_name: str, name: str) -> str:
    try:
        check_name(name, "tool name")
    except PerdureError as error:
        raise ToolInvalid(tool_name, f"{error}; give another `name=`") from None
    if any(letter.isspace() for letter in name):
        raise ToolInvalid(tool_name, f"its name {name!r} holds a blank; give another `name=`")
    return name


def _check_callable(fn: object, name: str) -> None:
    if isinstance(fn, Tool):
        raise ToolInvalid(name, f"it is declared already ({fn.effect}); declare the function `{name}.fn` anew")
    if isinstance(fn, type):
        raise ToolInvalid(name, "a class is no action; write a function that makes the object and returns plain values")
    if not callable(fn):
        raise ToolInvalid(name, f"{type(fn).__name__} cannot be called; declare a function")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise ToolInvalid(name, "a generator gives no one result; collect what it yields and return a list")


def _read_effect(name: str, effect: object, retry: str | None, undo: object) -> Effect:
    """Put preset, `retry` and `undo` together. Raises ToolInvalid where an answer is missing or unknown."""
    start = PRESETS.get(effect) if isinstance(effect, str) else effect
    if effect is not None and not isinstance(start, Effect):
        raise ToolInvalid(name, f"effect {effect!r} is not known; write {_EXAMPLES}")
    taken_back = _read_undo(name, undo)
    if isinstance(start, Effect):
        answers = Effect(retry=cast("Retry", retry or start.retry), undo=taken_back or start.undo)
    elif retry is None or taken_back is None:
        raise ToolInvalid(name, f"what it does to the world is not said; write {_EXAMPLES}")
    else:
        answers = Effect(retry=cast("Retry", retry), undo=taken_back)
    if answers.retry not in get_args(Retry):
        raise ToolInvalid(name, f"retry {answers.retry!r} is not known; write one of {', '.join(get_args(Retry))}")
    if answers.undo == "function" and not isinstance(undo, Tool):
        raise ToolInvalid(name, "it is taken back by a function, and none is given; write `undo=` and a declared tool")
    return answers


def _read_undo(name: str, undo: object) -> Undo | None:
    if undo is None:
        return None
    declared = _as_tool(undo)
    if declared is not None:
        if declared.effect.retry == "never":
            raise ToolInvalid(
                name, f"its undo {declared.name!r} may never be sent again; make that keyed or verifiable"
            )
        return "function"
    if callable(undo):
        raise ToolInvalid(
            name, 'an undo is an action too; declare it: `undo=perdure.tool(effect="idempotent")(function)`'
        )
    if undo not in get_args(Undo):
        raise ToolInvalid(
            name, f"undo {undo!r} is not known; write a declared tool or one of {', '.join(get_args(Undo))}"
        )
    return cast("Undo", undo)


def _check_effect(name: str, effect: Effect, shape: Shape, *, has_probe: bool) -> None:
    """Raise ToolInvalid where the answers do not fit each other or the function."""
    if effect.retry == "keyed" and shape.key_parameter is None:
        raise ToolInvalid(name, "it is keyed, and takes no key; add the parameter `key: perdure.EffectKey` and send it")
    if effect.retry != "keyed" and shape.key_parameter is not None:
        raise ToolInvalid(
            name, f'it takes the key {shape.key_parameter!r}, but is not keyed; write `effect="idempotent"`'
        )
    if effect.retry == "probe" and not has_probe:
        raise ToolInvalid(name, "the world is to be asked, and nothing asks it; write `probe=` and a function")
    if effect.retry != "probe" and has_probe:
        raise ToolInvalid(name, 'its probe would never be asked; write `effect="verifiable"` or leave `probe=` out')
    if effect.retry == "free" and effect.undo != "nothing":
        raise ToolInvalid(name, 'free is for reads and pure work, it leaves nothing to undo; write `retry="keyed"`')
    if effect.retry == "restore" and effect.undo != "workspace":
        raise ToolInvalid(name, 'only files can be put back before a second try; write `effect="workspace"`')


def _read_probe(name: str, probe: object) -> Callable[..., Any] | None:
    declared = _as_tool(probe)
    if declared is not None and not declared.effect.is_free:
        raise ToolInvalid(
            name, f"its probe {declared.name!r} changes the world ({declared.effect}); a probe only reads"
        )
    if probe is not None and not callable(probe):
        raise ToolInvalid(name, "its probe cannot be called; write `probe=` and a function")
    return cast("Callable[..., Any] | None", probe)


def _read_valid(name: str, valid: object) -> Callable[[Any], object] | None:
    if valid is not None and not callable(valid):
        raise ToolInvalid(name, "valid= cannot be called; write a function of the result, such as `valid=bool`")
    if inspect.iscoroutinefunction(valid):
        raise ToolInvalid(name, "valid= is a coroutine, which is true whatever it says; write a plain function")
    return valid


def _read_seconds(name: str, option: str, given: object, *, least: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ToolInvalid(name, f"{option}={given!r} is not a number of seconds")
    if not math.isfinite(given) or given < least:
        raise ToolInvalid(name, f"{option}={given!r} is not a finite number of seconds from {least:g} up")
    return float(given)


def _read_texts(name: str, option: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ToolInvalid(name, f"{option}={given!r} is not a tuple of texts; write `{option}=({given!r},)`")
    texts = tuple(cast("Sequence[object]", given))
    if not all(isinstance(text, str) and text for text in texts):
        raise ToolInvalid(name, f"{option}={given!r} holds something other than texts")
    return cast("tuple[str, ...]", texts)


def _read_paths(name: str, given: object, shape: Shape) -> tuple[str, ...]:
    paths = _read_texts(name, "paths", given)
    for hole in (hole for path in paths for hole in HOLE.findall(path)):
        if hole not in shape.signature.parameters or hole == shape.key_parameter:
            raise ToolInvalid(name, f"paths={paths!r} names {hole!r}, which is none of its parameters")
    return paths


def _read_aliases(name: str, given: object) -> tuple[str, ...]:
    aliases = _read_texts(name, "aliases", given)
    for alias in aliases:
        _check_tool_name(name, alias)
    if len({name, *aliases}) <= len(aliases):
        raise ToolInvalid(name, f"aliases={aliases!r} names something twice; each is a name that it had before")
    return aliases
