"""What a tool's function takes and returns, read once. Used by `declare`; not a registry, and it calls nothing.

Binding an act's arguments to names is on the hot path: plain parameters are bound with one `dict(zip(...))`. The odd
ones (too many, unknown, `*args`, positional-only) go to `inspect`, which also words the errors.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter

from perdure.errors import ToolInvalid, UsageError
from perdure.model.effect import EffectKey

_BY_NAME = frozenset({Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY})
_PLAIN_DEFAULTS = frozenset({types.NoneType, bool, int, float, str, bytes})
_KEPT_BY_ACT = frozenset({"then"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The parameters of a function, sorted for fast binding. The key parameter is in none of the first three."""

    positional: tuple[str, ...]  # those that an act may give by place, in order
    names: frozenset[str]  # those that it may give by name
    required: frozenset[str]
    key_parameter: str | None  # the one annotated `EffectKey`
    by_name: bool  # every parameter can be given by name, none is *args or **kwargs
    signature: inspect.Signature
    digest: str  # of names, kinds, annotations and defaults; equal text in every process

    def bind(self, tool: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by parameter name, defaults not filled in. Raises TypeError, UsageError."""
        if not self.by_name or len(args) > len(self.positional):
            return self._bind_slowly(tool, args, kwargs)
        bound = dict(zip(self.positional, args, strict=False))
        if kwargs:
            if not (kwargs.keys() <= self.names and bound.keys().isdisjoint(kwargs)):
                return self._bind_slowly(tool, args, kwargs)
            bound.update(kwargs)
        if not bound.keys() >= self.required:
            return self._bind_slowly(tool, args, kwargs)
        return bound

    def spread(self, arguments: Mapping[str, object]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return what `bind` made, as positional and keyword arguments of a call."""
        if self.by_name:
            return (), dict(arguments)
        bound = self.signature.bind_partial()
        bound.arguments.update(arguments)
        return bound.args, bound.kwargs

    def _bind_slowly(self, tool: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if self.key_parameter in kwargs:
            raise UsageError(
                f"tool {tool!r}: {self.key_parameter!r} is the effect key, drawn and given by perdure; leave it out"
            )
        asked = [parameter for name, parameter in self.signature.parameters.items() if name != self.key_parameter]
        try:
            return dict(inspect.Signature(asked).bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{tool}() {error}") from None


def read_shape(fn: Callable[..., object], tool: str) -> Shape:
    """Read the parameters of `fn`. Raises ToolInvalid where no act could ever give them."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise ToolInvalid(tool, f"its parameters cannot be read ({error}); wrap it in a function of your own") from None
    parameters = list(signature.parameters.values())
    key_parameter = _find_key_parameter(fn, parameters, tool)
    _check_parameters(fn, parameters, tool)
    asked = [parameter for parameter in parameters if parameter.name != key_parameter]
    by_name = [parameter for parameter in asked if parameter.kind in _BY_NAME]
    return Shape(
        positional=tuple(p.name for p in asked if p.kind is Parameter.POSITIONAL_OR_KEYWORD),
        names=frozenset(p.name for p in by_name),
        required=frozenset(p.name for p in by_name if p.default is Parameter.empty),
        key_parameter=key_parameter,
        by_name=len(by_name) == len(asked),
        signature=signature,
        digest=_digest(signature),
    )


def read_result_type(fn: Callable[..., object], signature: inspect.Signature) -> object | None:
    """Return the type that `fn` says it returns; None where it says nothing, or a name that cannot be found."""
    annotation = signature.return_annotation
    return None if annotation is inspect.Signature.empty else _resolve(fn, annotation)


def namespace_of(fn: Callable[..., object]) -> dict[str, object]:
    """Return the names that annotations of `fn` may use, wherever it is wrapped, bound or partial."""
    target: object = inspect.unwrap(fn)
    while isinstance(target, functools.partial):
        target = typing.cast("object", target.func)
    target = getattr(target, "__func__", target)
    if not hasattr(target, "__globals__"):
        target = getattr(type(target), "__call__", target)  # noqa: B004 - its globals are wanted, it is not called
    return dict(getattr(target, "__globals__", {}))


def _find_key_parameter(fn: Callable[..., object], parameters: list[Parameter], tool: str) -> str | None:
    keys = [parameter for parameter in parameters if _is_key(fn, parameter.annotation)]
    if len(keys) > 1:
        raise ToolInvalid(tool, "two parameters are annotated EffectKey; one call has one key, keep one of them")
    if keys and keys[0].kind not in _BY_NAME:
        raise ToolInvalid(tool, f"its key is given by name; write `{keys[0].name}: perdure.EffectKey` without * or /")
    return keys[0].name if keys else None


def _is_key(fn: Callable[..., object], annotation: object) -> bool:
    resolved = _resolve(fn, annotation)
    if resolved is None and isinstance(annotation, str):
        return annotation.strip("'\"").rpartition(".")[2] == "EffectKey"  # imported for the type checker only
    return resolved is EffectKey


def _check_parameters(fn: Callable[..., object], parameters: list[Parameter], tool: str) -> None:
    if inspect.isfunction(fn) and parameters and parameters[0].name in {"self", "cls"}:
        raise ToolInvalid(
            tool, "a method has no object yet; declare the bound one: `tool(effect=…, name=…)(thing.method)`"
        )
    kept = [parameter.name for parameter in parameters if parameter.name in _KEPT_BY_ACT]
    if kept:
        raise ToolInvalid(tool, f"`task.act` keeps the word {kept[0]!r} for itself; rename that parameter")


def _resolve(fn: Callable[..., object], annotation: object) -> object | None:
    """Return the type that an annotation means, `Annotated` taken off; None where a name in it is not known."""
    carrier = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.cast("object", typing.get_type_hints(carrier, globalns=namespace_of(fn))["it"])
    except (NameError, AttributeError, TypeError, SyntaxError):
        return None


def _digest(signature: inspect.Signature) -> str:
    parts = [
        f"{p.kind.name} {p.name}: {_annotation_text(p.annotation)} = {_default_text(p.default)}"
        for p in signature.parameters.values()
    ]
    parts.append(f"-> {_annotation_text(signature.return_annotation)}")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _annotation_text(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default_text(default: object) -> str:
    """Never an address: `repr` is asked only where it says the value."""
    return repr(default) if type(default) in _PLAIN_DEFAULTS else type(default).__qualname__
