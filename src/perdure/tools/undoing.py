"""With what an undo is called: the arguments of the call that it takes back, by name, and that call's `result`.

Checked at the declaration, so that no rollback finds out. A parameter of the undo gets the argument of the same name,
the default that the original had for it, or, where it is called `result`, what the original returned (as a plain value;
None where that is not known). An effect key is its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Final

from perdure.errors import ToolInvalid
from perdure.tools.signature import Shape

RESULT: Final = "result"
_COLLECTS: Final = frozenset({Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD})


def check_undo(tool: str, original: Shape, undo: str, shape: Shape) -> None:
    """Raise ToolInvalid where `undo` takes something that no call of `tool` could give it."""
    given, taken = _named(original), _named(shape)
    if RESULT in given and RESULT in taken:
        raise ToolInvalid(
            tool, f"{RESULT!r} of its undo {undo!r} is what it returned, and also an argument; rename the argument"
        )
    missing = [name for name, one in taken.items() if one.default is Parameter.empty and name not in {*given, RESULT}]
    if missing:
        known = ", ".join([*given, RESULT])
        raise ToolInvalid(
            tool, f"its undo {undo!r} takes {missing[0]!r}, which is none of {known}; an undo is called with these"
        )


def bind_undo(original: Shape, shape: Shape, arguments: Mapping[str, object], result: object) -> dict[str, object]:
    """Return the arguments of the undo, by parameter name, for a call with `arguments` that returned `result`."""
    before = _named(original)
    bound: dict[str, object] = {}
    for name in _named(shape):
        if name == RESULT and RESULT not in before:
            bound[name] = result
        elif name in arguments:
            bound[name] = arguments[name]
        elif name in before and before[name].default is not Parameter.empty:
            bound[name] = before[name].default
    return bound


def _named(shape: Shape) -> dict[str, Parameter]:
    """Return the parameters that take one value each, without the key."""
    parameters = shape.signature.parameters
    return {name: one for name, one in parameters.items() if one.kind not in _COLLECTS and name != shape.key_parameter}
