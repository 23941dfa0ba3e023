"""A tool as a model sees it, and a model's arguments as the tool takes them. Calls nothing, records nothing.

    offer(tool)             name, description and JSON Schema: of the function's parameters, or ready ones (MCP)
    fit(tool, arguments)    what `task.act(tool, **arguments)` takes; or `ArgumentsUnfit`, worded for the model

What an agent fills in itself (`workspace`, `settings`) and the effect key are never offered, and never taken from a
model. What the model leaves out stays out: defaults are the function's. pydantic reads the annotations, and is imported
when the first tool is offered. Called by `agent/`.
"""

from __future__ import annotations

import difflib
import inspect
import json
import os
import typing
import weakref
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, Final, cast

from perdure.errors import ArgumentsUnfit, PathOutside, ToolInvalid
from perdure.model.chat import Offer
from perdure.tools.declare import WHOLE, Tool
from perdure.tools.paths import paths_of
from perdure.tools.results import dump
from perdure.tools.signature import namespace_of

FILLED_IN: Final = frozenset({"workspace", "settings"})  # parameters whose values are the agent's business

_BY_NAME: Final = frozenset({Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY})
_PLAIN: Final = (bool, int, float, str)
_PROBLEMS_MAX: Final = 10  # that one error names
_SHOWN_MAX: Final = 80  # letters of a wrong value
_SAID_MAX: Final = 200  # letters of what is said about it
_READERS: Final[weakref.WeakKeyDictionary[Tool[..., Any], Any]] = weakref.WeakKeyDictionary()


def offer(tool: Tool[..., Any]) -> Offer:
    """Return `tool` as a model sees it. Raises ToolInvalid where a model could not give what it needs."""
    return Offer(name=tool.name, description=_description(tool), schema=_schema(tool))


def fit(tool: Tool[..., Any], arguments: Mapping[str, Any], workspace: str = "") -> dict[str, Any]:
    """Return `arguments` as an act of `tool` takes them: coerced to its annotations, as plain values.

    `workspace`: also see to it that what the tool would write lies inside. Raises ArgumentsUnfit, whose text tells the
    model what is missing, unknown (with the nearest name) or of a wrong type.
    """
    if tool.schema is not None:
        _check_ready(tool, arguments)
        return {WHOLE: dict(arguments)}
    fitted = _read(tool, dict(arguments))
    if workspace and tool.paths:
        _check_paths(tool, fitted, workspace)
    return fitted


def offered_parameters(tool: Tool[..., Any]) -> tuple[str, ...]:
    """Return the names of what a model gives, in order."""
    if tool.schema is not None:
        return tuple(cast("Mapping[str, Any]", tool.schema.get("properties", {})))
    return tuple(parameter.name for parameter in _asked(tool))


# --- what is offered ------------------------------------------------------------------------------------------------
def _description(tool: Tool[..., Any]) -> str:
    """Return the first paragraph of the docstring, on one line."""
    text = inspect.getdoc(tool.fn) or ""
    return " ".join(text.split("\n\n", 1)[0].split())


def _schema(tool: Tool[..., Any]) -> dict[str, Any]:
    if tool.schema is not None:
        return cast("dict[str, Any]", json.loads(json.dumps(tool.schema)))
    made = cast("dict[str, Any]", _reader(tool).json_schema(schema_generator=_untitled()))
    made.pop("title", None)
    properties = cast("dict[str, dict[str, Any]]", made.setdefault("properties", {}))
    for parameter in _asked(tool):
        if parameter.name in properties and type(parameter.default) in _PLAIN:
            properties[parameter.name]["default"] = parameter.default
    return made


def _untitled() -> Any:  # noqa: ANN401 - a class of pydantic's
    """Titles repeat the names: every request would pay for them."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - as pydantic has it
            return False

    return Untitled


def _asked(tool: Tool[..., Any]) -> list[Parameter]:
    """Return the parameters that a model gives. Raises ToolInvalid where one has no name to give it by."""
    asked: list[Parameter] = []
    for parameter in tool.shape.signature.parameters.values():
        if parameter.name in FILLED_IN or parameter.name == tool.key_parameter:
            continue
        if parameter.kind in _BY_NAME:
            asked.append(parameter)
        elif parameter.kind is Parameter.POSITIONAL_ONLY and parameter.default is Parameter.empty:
            raise ToolInvalid(tool.name, f"a model gives arguments by name; take the / behind {parameter.name!r} away")
    return asked


# --- reading by annotations -----------------------------------------------------------------------------------------
def _reader(tool: Tool[..., Any]) -> Any:  # noqa: ANN401 - a pydantic.TypeAdapter
    """Return what checks and coerces arguments, made once for each tool. Raises ToolInvalid."""
    reader = _READERS.get(tool)
    if reader is None:
        reader = _READERS[tool] = _make_reader(tool)
    return reader


def _make_reader(tool: Tool[..., Any]) -> Any:  # noqa: ANN401 - as above
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from typing_extensions import TypedDict

    hints = _hints(tool)
    fields = {parameter.name: _field(parameter, hints) for parameter in _asked(tool)}
    is_open = any(p.kind is Parameter.VAR_KEYWORD for p in tool.shape.signature.parameters.values())
    # A TypedDict keeps what was left out apart from what was given, and lets a parameter have any name.
    make: Any = TypedDict
    form = make("Arguments", fields)
    form.__pydantic_config__ = ConfigDict(extra="allow" if is_open else "forbid", coerce_numbers_to_str=True)
    try:
        return TypeAdapter(form)
    except PydanticUserError as error:
        raise ToolInvalid(tool.name, f"its parameters cannot be offered to a model: {error.message}") from error


def _field(parameter: Parameter, hints: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a type
    from pydantic import Field

    annotation = hints.get(parameter.name, Any)
    notes = [note for note in getattr(annotation, "__metadata__", ()) if isinstance(note, str)]
    if notes:
        annotation = typing.Annotated[annotation, Field(description=" ".join(notes))]
    return annotation if parameter.default is Parameter.empty else typing.NotRequired[annotation]


def _hints(tool: Tool[..., Any]) -> dict[str, Any]:
    """Return the annotations as types, one by one: a name known to the type checker alone leaves one open, not all."""
    names = namespace_of(tool.fn)
    hints: dict[str, Any] = {}
    for parameter in tool.shape.signature.parameters.values():
        carrier = type("Carrier", (), {"__annotations__": {"it": parameter.annotation}})
        try:
            found = typing.get_type_hints(carrier, globalns=names, include_extras=True)["it"]
        except (NameError, AttributeError, TypeError, SyntaxError):
            continue
        hints[parameter.name] = Any if found is Parameter.empty else found
    return hints


def _read(tool: Tool[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Validate; what small models usually get wrong (a null for "leave it out", JSON in a text) is put right once."""
    from pydantic import ValidationError

    reader = _reader(tool)
    try:
        return _as_plain(reader.validate_python(arguments))
    except ValidationError as error:
        mended = _mend(tool, arguments, error.errors(include_url=False))
        if mended == arguments:
            raise _unfit(tool, error.errors(include_url=False)) from None
    try:
        return _as_plain(reader.validate_python(mended))
    except ValidationError as error:
        raise _unfit(tool, error.errors(include_url=False)) from None


def _mend(tool: Tool[..., Any], arguments: dict[str, Any], problems: list[Any]) -> dict[str, Any]:
    mended = dict(arguments)
    for name in {problem["loc"][0] for problem in problems if problem["loc"]} & arguments.keys():
        value = arguments[name]
        if value is None and name in tool.shape.names - tool.shape.required:
            del mended[name]
        elif isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
            try:
                mended[name] = json.loads(value)
            except ValueError:
                continue
    return mended


def _as_plain(arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - what pydantic has read
    """Objects as plain values, paths as texts: what the journal can hold."""
    plain = cast("dict[str, Any]", dump(dict(arguments)))
    return {
        name: os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value
        for name, value in plain.items()
    }


def _unfit(tool: Tool[..., Any], problems: list[Any]) -> ArgumentsUnfit:
    known = offered_parameters(tool)
    return ArgumentsUnfit(tool.name, tuple(_worded(problem, known) for problem in problems[:_PROBLEMS_MAX]), known)


def _worded(problem: Mapping[str, Any], known: tuple[str, ...]) -> str:
    place = ".".join(str(step) for step in problem["loc"])
    if problem["type"] == "missing":
        return f"{place!r} is missing"
    if problem["type"] == "extra_forbidden":
        return _unknown(place, known)
    given = repr(problem.get("input"))
    given = given if len(given) <= _SHOWN_MAX else f"{given[:_SHOWN_MAX]}…"
    said = str(problem["msg"])
    return f"{place!r} is {given}: {said[:1].lower()}{said[1:]}"


def _unknown(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"{name!r} is unknown" + (f", did you mean {near[0]!r}?" if near else "")


# --- ready schemas and paths ----------------------------------------------------------------------------------------
def _check_ready(tool: Tool[..., Any], arguments: Mapping[str, Any]) -> None:
    """Names are checked here, so that the nearest can be told; all else by the schema."""
    schema = tool.schema or {}
    known = offered_parameters(tool)
    required = cast("list[str]", schema.get("required", []))
    problems = [f"{name!r} is missing" for name in required if name not in arguments]
    if schema.get("additionalProperties") is False:
        problems += [_unknown(name, known) for name in arguments if name not in known]
    problems = problems or _schema_problems(tool, arguments)
    if problems:
        raise ArgumentsUnfit(tool.name, tuple(problems[:_PROBLEMS_MAX]), known)


def _schema_problems(tool: Tool[..., Any], arguments: Mapping[str, Any]) -> list[str]:
    """Return what a JSON Schema says against `arguments`; nothing where it is no schema, or nobody here can read one.

    The tool itself has the last word then. A schema that leads elsewhere is not followed: nothing is loaded. One that
    leads to itself for ever says nothing, and its regular expressions are left to the tool: some take for ever.
    """
    try:
        from jsonschema import exceptions, validators  # type: ignore[import-untyped]  # it has no types
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:  # they come with the `mcp` library
        return []
    schema = dict(tool.schema or {})
    known, new_registry = cast("Any", validators), cast("Any", Registry)
    checker = known.validator_for(schema)
    try:
        checker.check_schema(schema)
        bounded = known.extend(checker, _without_expressions(checker.VALIDATORS))
        found: list[Any] = list(bounded(schema, registry=new_registry()).iter_errors(dict(arguments)))
    except (exceptions.SchemaError, Unresolvable, RecursionError):
        return []
    return [f"{'.'.join(map(str, each.absolute_path)) or 'the call'!r}: {each.message[:_SAID_MAX]}" for each in found]


def _without_expressions(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands for the keywords that search with a regular expression: they say nothing."""

    def additional(checker: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - theirs
        none: tuple[()] = ()
        whole = keywords["additionalProperties"]
        return none if "patternProperties" in schema else whole(checker, value, instance, schema)

    def nothing(*_: object) -> tuple[()]:
        return ()

    return {"additionalProperties": additional, "pattern": nothing, "patternProperties": nothing}


def _check_paths(tool: Tool[..., Any], arguments: Mapping[str, Any], workspace: str) -> None:
    try:
        paths_of(tool, arguments, workspace)
    except PathOutside as error:
        why = f"{error.path!r} lies outside of your workspace; give a path inside it, relative to it"
    except (ToolInvalid, ValueError) as error:  # ValueError: letters that no file name can hold
        why = f"it names no path that a file can have: {error}"
    else:
        return
    raise ArgumentsUnfit(tool.name, (why,), offered_parameters(tool))
