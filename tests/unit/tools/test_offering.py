"""What a model sees of a tool, and what becomes of the arguments that it gives."""

from __future__ import annotations

import enum
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from perdure.errors import ArgumentsUnfit, ToolInvalid
from perdure.model.effect import EffectKey
from perdure.tools import tool
from perdure.tools.offering import fit, offer

if TYPE_CHECKING:
    from nowhere import Unknown


class Colour(enum.Enum):
    """Two of them."""

    RED = "red"
    BLUE = "blue"


class Size(BaseModel):
    """A nested value."""

    wide: int
    high: int = 1


@tool(effect="idempotent")
def paint(  # noqa: PLR0913, PLR0917 - one of each kind
    workspace: str,
    settings: dict[str, Any],
    key: EffectKey,
    thing: Annotated[str, "What is painted."],
    colour: Literal["red", "blue"] = "red",
    layers: int = 1,
    tags: list[str] | None = None,
) -> str:
    """Paint a thing, in one colour, and let it dry before anybody touches it again, or give it
    one more layer.

    Internals that a model need not read.
    """  # noqa: D205 - a paragraph of two lines is what is to be read
    return f"{workspace} {settings} {key} {thing} {colour} {layers} {tags}"


@tool(effect="pure")
def rich(place: Path, size: Size, colour: Colour = Colour.RED) -> str:
    """Take objects."""
    return f"{place} {size} {colour}"


@tool(effect="pure")
def open_ended(first: str, *rest: str, **more: int) -> str:
    """Take whatever comes."""
    return f"{first} {rest} {more}"


@tool(effect="workspace", paths=("{filename}",))
def write(workspace: str, filename: str, contents: str) -> str:
    """Write a file."""
    return f"{workspace} {filename} {contents}"


READY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


@tool(effect="pure", schema=READY)
def forecast(arguments: dict[str, Any]) -> str:
    """Tell the weather."""
    return str(arguments)


# ---------------------------------------------------------------- offers


def test_an_offer_holds_what_the_model_needs_and_nothing_else():
    """First paragraph, types, defaults; neither what the agent fills in, nor the effect key, nor titles."""
    assert {
        "name": "paint",
        "description": "Paint a thing, in one colour, and let it dry before anybody touches it again, or give it one "
        "more layer.",
        "schema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "thing": {"type": "string", "description": "What is painted."},
                "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "layers": {"type": "integer", "default": 1},
                "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            },
            "required": ["thing"],
        },
    } == offer(paint)


def test_a_ready_schema_is_offered_as_it_is_and_cannot_be_changed_by_it():
    """What another has written goes to the model unchanged, in a copy."""
    made = offer(forecast)
    assert READY == made["schema"]
    made["schema"]["properties"]["city"]["type"] = "integer"
    assert "string" == READY["properties"]["city"]["type"]


def test_a_tool_without_parameters_and_docstring_can_be_offered():
    """Its schema is an object without properties, its description empty."""

    @tool(effect="pure")
    def bare():
        return 1

    assert {"type": "object", "properties": {}, "additionalProperties": False} == offer(bare)["schema"]
    assert "" == offer(bare)["description"]
    assert {} == fit(bare, {})


def test_an_annotation_that_is_not_there_at_run_time_leaves_its_parameter_open():
    """One name known to the type checker alone does not take the types of the others away."""

    @tool(effect="pure")
    def half(known: int, other: Unknown) -> int:
        return known + len(str(other))

    assert {"known": {"type": "integer"}, "other": {}} == offer(half)["schema"]["properties"]


def test_a_parameter_that_has_no_name_to_be_given_by_is_refused():
    """A model gives arguments by name: positional-only ones are refused with the thing to change."""

    @tool(effect="pure")
    def by_place(first: str, /) -> str:
        return first

    with pytest.raises(ToolInvalid, match="take the / behind 'first' away"):
        offer(by_place)


def test_a_type_that_no_schema_can_say_is_refused_by_name():
    """A tool whose parameter is an object of the program's own cannot be offered."""

    class Own:
        pass

    @tool(effect="pure")
    def odd(thing: Own) -> str:
        return str(thing)

    odd.fn.__globals__["Own"] = Own
    with pytest.raises(ToolInvalid, match=r"'odd' is refused: its parameters cannot be offered to a model: .*Own"):
        offer(odd)
    del odd.fn.__globals__["Own"]


def test_nothing_heavy_is_loaded_before_a_tool_is_offered():
    """The module can be imported without pydantic."""
    program = "import sys, perdure.tools.offering as o; sys.exit(bool({'pydantic', 'jsonschema'} & sys.modules.keys()))"
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


# ---------------------------------------------------------------- arguments


def test_fitting_arguments_come_back_without_the_defaults():
    """What the model leaves out stays out, so that equal calls are equal on record."""
    assert {"thing": "door"} == fit(paint, {"thing": "door"})


@pytest.mark.parametrize(
    ("given", "fitted"),
    [
        ({"layers": "3"}, {"layers": 3}),
        ({"layers": 3.0}, {"layers": 3}),
        ({"layers": None}, {}),
        ({"thing": 5}, {"thing": "5"}),
        ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}),
        ({"tags": None}, {"tags": None}),
    ],
)
def test_what_models_usually_get_wrong_is_put_right(given, fitted):
    """Numbers as texts and the other way round, a null for "leave it out", JSON in a text."""
    assert {"thing": "door", **fitted} == fit(paint, {"thing": "door", **given})


def test_objects_arrive_as_plain_values():
    """Paths, enums and models are what the journal can hold."""
    given = {"place": "a/b", "size": {"wide": "2"}, "colour": "blue"}
    fitted = fit(rich, given)
    assert {"place": "a/b", "size": {"wide": 2, "high": 1}, "colour": "blue"} == fitted
    assert [str, dict, str] == [type(value) for value in fitted.values()]


def test_open_parameters_take_more_names_and_hide_those_by_place():
    """`**more` is open, `*rest` is not offered."""
    assert ["first"] == list(offer(open_ended)["schema"]["properties"])
    assert {"first": "a", "x": 1} == fit(open_ended, {"first": "a", "x": 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "'thing' is missing"),
        ({"thin": "door"}, "'thing' is missing; 'thin' is unknown, did you mean 'thing'?"),
        ({"thing": "door", "zzz": 1}, "'zzz' is unknown;"),
        ({"thing": "door", "layers": "many"}, "'layers' is 'many': input should be a valid integer"),
        ({"thing": "door", "colour": "green"}, "'colour' is 'green': input should be 'red' or 'blue'"),
        ({"thing": "door", "tags": ["a", {}]}, "'tags.1' is {}"),
        ({"thing": "door", "workspace": "/"}, "'workspace' is unknown;"),
        ({"thing": "door", "settings": {}}, "'settings' is unknown"),
        ({"thing": "door", "key": "k"}, "'key' is unknown;"),
        ({"thing": {"a": "x" * 500}}, "x…: input should be a valid string"),
    ],
)
def test_what_does_not_fit_is_told_to_the_model(given, said):
    """Missing, unknown with the nearest name, of a wrong type; hidden ones are unknown; no value is told whole."""
    with pytest.raises(ArgumentsUnfit) as refused:
        fit(paint, given)
    assert said in str(refused.value)
    assert str(refused.value).startswith("'paint' was not called: ")
    assert str(refused.value).endswith("call it again (it takes: thing, colour, layers, tags)")
    assert len(str(refused.value)) < 500


def test_arguments_of_a_ready_schema_come_in_the_one_parameter():
    """A tool with `schema=` takes all of them as `arguments`."""
    assert {"arguments": {"city": "Ulm", "days": 2}} == fit(forecast, {"city": "Ulm", "days": 2})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "'city' is missing"),
        ({"town": "Ulm"}, "'city' is missing; 'town' is unknown"),
        ({"city": "Ulm", "day": 1}, "'day' is unknown, did you mean 'days'?"),
        ({"city": "Ulm", "days": 0}, "'days': 0 is less than the minimum of 1"),
        ({"city": 5}, "'city': 5 is not of type 'string'"),
    ],
)
def test_what_does_not_fit_a_ready_schema_is_told_to_the_model(given, said):
    """The words are those of a declared tool for names, the schema's for the rest."""
    with pytest.raises(ArgumentsUnfit) as refused:
        fit(forecast, given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/never"}}},
        {"properties": {"a": {"type": "no such type"}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"$defs": {"n": {"$ref": "#/$defs/n"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
        {"properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_schema_that_is_none_does_not_stop_a_call(schema):
    """A reference is not followed over the network; the tool itself has the last word."""

    @tool(effect="pure", schema=schema)
    def foreign(arguments: dict[str, Any]) -> str:
        return str(arguments)

    assert {"arguments": {"a": 1}} == fit(foreign, {"a": 1})


def test_regular_expressions_of_a_ready_schema_are_left_to_the_tool():
    """Some take for ever, and the event loop with them; a task whose call meets one could never be resumed."""
    endless = {"pattern": "(a+)+$", "patternProperties": {"(a+)+$": {}}, "additionalProperties": False}

    @tool(effect="pure", schema={"properties": {"a": endless, "b": {"additionalProperties": False}}})
    def foreign(arguments: dict[str, Any]) -> str:
        return str(arguments)

    text = "a" * 60 + "!"
    for given in ({"a": text}, {"a": {text: 1}}):
        assert {"arguments": given} == fit(foreign, given)
    with pytest.raises(ArgumentsUnfit, match="'b'"):
        fit(foreign, {"b": {"c": 1}})


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x"])
def test_paths_that_lead_out_are_told_to_the_model(path, tmp_path):
    """The engine would refuse such a call with a usage error, which is no answer for a model."""
    with pytest.raises(ArgumentsUnfit, match="lies outside of your workspace; give a path inside it"):
        fit(write, {"filename": path, "contents": ""}, str(tmp_path))
    assert {"filename": path, "contents": ""} == fit(write, {"filename": path, "contents": ""})


def test_a_path_that_no_file_can_have_is_told_to_the_model(tmp_path):
    """Half of a surrogate pair is no file name."""
    with pytest.raises(ArgumentsUnfit, match="names no path that a file can have"):
        fit(write, {"filename": "\ud83d", "contents": ""}, str(tmp_path))
