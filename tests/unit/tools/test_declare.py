"""What a declaration says, what is refused with which line to write, and how arguments are bound."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types

import pytest

from perdure.errors import ToolInvalid, UsageError
from perdure.model.effect import PRESETS, Effect, EffectKey
from perdure.tools import Tool, tool, tools_in


@tool(effect="pure")
async def fetch(url: str, depth: int = 1) -> str:
    """Read a page."""
    return f"{url} {depth}"


@tool(effect="idempotent")
def publish(text: str, key: EffectKey, title: str = "") -> str:
    """Keyed; the key stands between two other parameters."""
    return f"{key}:{text}:{title}"


@tool(effect="pure")
def odd(first, /, *rest, flag=False, **others):
    """Every kind of parameter."""
    return first, rest, flag, others


@tool(effect="irreversible")
def fire(target: str) -> None:
    """Cannot be sent twice nor taken back."""


def plain(text):
    """Not declared."""
    return text


def keyed(text, key: EffectKey):
    """Not declared, takes a key."""


# ---------------------------------------------------------------- what a tool holds


def test_a_tool_shows_the_function_it_was_made_of():
    """Name, docstring, signature and place are those of the function."""
    assert "fetch" == fetch.name == fetch.__name__
    assert "Read a page." == fetch.__doc__
    assert ["url", "depth"] == list(inspect.signature(fetch).parameters)
    assert (__name__, "fetch") == (fetch.module, fetch.qualname)
    assert "<tool fetch (free/nothing)>" == repr(fetch)


def test_calling_a_tool_calls_the_function():
    """Outside of a task a tool is its function, key included, so that it can be tested as one."""
    assert "a 2" == asyncio.run(fetch("a", depth=2))
    assert "k:x:" == publish("x", EffectKey("k"))


def test_a_coroutine_function_is_told_from_a_plain_one():
    """`is_coroutine` says how it is to be called, through `partial` and `__call__` too."""

    class Asking:
        async def __call__(self, question: str) -> str:
            return question

    assert fetch.is_coroutine
    assert not publish.is_coroutine
    assert tool(effect="pure", name="fetch_deep")(functools.partial(fetch.fn, depth=9)).is_coroutine
    assert tool(effect="pure", name="ask")(Asking()).is_coroutine


def test_a_tool_cannot_be_changed():
    """A declaration is a frozen value."""
    with pytest.raises(AttributeError):
        fetch.effect = PRESETS["irreversible"]


@pytest.mark.parametrize("preset", ["pure", "irreversible", "workspace"])
def test_a_preset_gives_both_answers(preset):
    """The simple presets need nothing more than their name."""
    assert PRESETS[preset] == tool(effect=preset)(plain).effect


def test_the_other_presets_need_one_thing_more():
    """Keyed takes a key, verifiable a probe, compensable an undo; each is kept."""
    assert PRESETS["idempotent"] == publish.effect
    checked = tool(effect="verifiable", probe=plain)(plain)
    assert (PRESETS["verifiable"], plain) == (checked.effect, checked.probe)
    taken_back = tool(effect="compensable", undo=publish)(plain)
    assert (PRESETS["compensable"], publish) == (taken_back.effect, taken_back.undo_function)


def test_the_two_answers_can_be_written_out_or_refine_a_preset():
    """`retry` and `undo` stand alone, over a preset, or in an `Effect`."""
    wanted = Effect(retry="keyed", undo="nothing")
    assert wanted == tool(retry="keyed", undo="nothing")(keyed).effect
    assert wanted == tool(effect="idempotent", undo="nothing")(keyed).effect
    assert wanted == tool(effect=wanted)(keyed).effect
    assert Effect(retry="keyed", undo="function") == tool(effect="idempotent", undo=publish)(keyed).effect


def test_the_key_parameter_is_found_in_every_spelling():
    """The annotation counts, not the name: as a type, as text, with a module, or imported for the checker only."""

    def as_text(text, token: EffectKey): ...
    def with_module(text, token: perdure.EffectKey): ...  # noqa: F821 - not imported, on purpose
    def quoted(text, token: "perdure.EffectKey"): ...  # noqa: F821, UP037 - as above

    for fn in (keyed, as_text, with_module, quoted):
        declared = tool(effect="idempotent")(fn)
        assert (list(inspect.signature(fn).parameters)[1], ("text",)) == (declared.key_parameter, declared.parameters)


def test_one_unknown_annotation_does_not_hide_the_key():
    """A name that exists for the type checker only costs its own parameter nothing more than its type."""

    def send(text: Unknown, key: EffectKey) -> Unknown: ...  # noqa: F821 - not imported, on purpose

    declared = tool(effect="idempotent")(send)
    assert ("key", None) == (declared.key_parameter, declared.result_type)


def test_the_result_type_is_read_when_asked_for():
    """A class may stand below the tool in its file."""
    assert (str, type(None)) == (fetch.result_type, fire.result_type)
    space = types.ModuleType("late")
    exec("def make() -> 'Late': ...", vars(space))
    late = tool(effect="pure")(space.make)
    space.Late = int
    assert int is late.result_type
    assert odd.result_type is None


def test_a_result_type_that_no_stored_value_fits_is_refused():
    """It is said before the call, not after the effect."""
    import dataclasses

    @dataclasses.dataclass
    class Left:
        a: int

    @dataclasses.dataclass
    class Right:
        b: int

    def either():
        return Left(1)

    either.__annotations__["return"] = Left | Right
    with pytest.raises(ToolInvalid, match=r"'either'.*could not be rebuilt"):
        _ = tool(effect="pure")(either).result_type


def test_the_signature_digest_tells_signatures_apart_and_nothing_else():
    """Another default or name changes it; another body, or an object as default, does not."""

    def declare(text):
        space = {"thing": object()}
        exec(text, space)
        return tool(effect="pure")(space["f"]).signature_digest

    assert declare("def f(a, b=1): pass") == declare("def f(a, b=1): return 2")
    assert declare("def f(a=thing): pass") == declare("def f(a=thing): pass")
    different = ["def f(a, b=1): pass", "def f(a, b=2): pass", "def f(a, c=1): pass", "def f(a, *, b=1): pass"]
    different += ["def f(a: int, b=1): pass", "def f(a, b=1) -> int: pass"]
    assert len(different) == len(set(map(declare, different)))


# ---------------------------------------------------------------- what is refused


def generate():
    """Not one result."""
    yield 1


async def generate_later():
    """Not one result either."""
    yield 1


def takes_then(then):
    """Its parameter is a word of `act`."""


def two_keys(a: EffectKey, b: EffectKey):
    """One too many."""


def key_by_place(key: EffectKey, /):
    """Takes its key by place only."""


async def later():
    """Runs on the loop."""


class Thing:
    """Is no action, nor is its method without an object."""

    def method(self, text):
        """Need an object."""

    def bound(self, text):
        """Have one."""


REFUSED = [
    (plain, {}, 'effect="pure"'),
    (plain, {"effect": "harmless"}, "'harmless' is not known"),
    (plain, {"effect": 3}, "3 is not known"),
    (plain, {"retry": "free"}, "not said"),
    (plain, {"undo": "nothing"}, "not said"),
    (plain, {"retry": "often", "undo": "nothing"}, "'often' is not known"),
    (plain, {"effect": "irreversible", "undo": "later"}, "'later' is not known"),
    (plain, {"effect": "idempotent"}, "key: perdure.EffectKey"),
    (keyed, {"effect": "irreversible"}, 'effect="idempotent"'),
    (two_keys, {"effect": "idempotent"}, "keep one of them"),
    (key_by_place, {"effect": "idempotent"}, r"without \* or /"),
    (plain, {"effect": "verifiable"}, "`probe=`"),
    (plain, {"effect": "verifiable", "probe": 3}, "probe cannot be called"),
    (plain, {"effect": "verifiable", "probe": fire}, "a probe only reads"),
    (plain, {"effect": "pure", "probe": plain}, "never be asked"),
    (plain, {"effect": "compensable"}, "`undo=`"),
    (plain, {"effect": "irreversible", "undo": "function"}, "`undo=`"),
    (plain, {"effect": "compensable", "undo": fire}, "never be sent again"),
    (plain, {"effect": "compensable", "undo": plain}, "declare it"),
    (plain, {"effect": "pure", "undo": publish}, "nothing to undo"),
    (plain, {"effect": "workspace", "undo": "nothing"}, 'effect="workspace"'),
    (lambda: 1, {"effect": "pure"}, "write `name="),
    (functools.partial(plain, 1), {"effect": "pure"}, "write `name="),
    (plain, {"effect": "pure", "name": ""}, "give another `name=`"),
    (plain, {"effect": "pure", "name": "two words"}, "holds a blank"),
    (plain, {"effect": "pure", "name": "x" * 201}, "201"),
    (generate, {"effect": "pure"}, "return a list"),
    (generate_later, {"effect": "pure"}, "return a list"),
    (Thing, {"effect": "pure"}, "a class is no action"),
    (Thing.method, {"effect": "pure"}, "the bound one"),
    (3, {"effect": "pure", "name": "three"}, "cannot be called"),
    (fetch, {"effect": "pure"}, "declared already"),
    (takes_then, {"effect": "pure"}, "rename that parameter"),
    (later, {"effect": "pure", "quick": True}, "leave it out"),
    (plain, {"effect": "pure", "valid": later}, "true whatever it says"),
    (plain, {"effect": "pure", "provider": " "}, 'write provider="openai"'),
    (plain, {"effect": "pure", "settle_s": -1}, "settle_s=-1"),
    (plain, {"effect": "pure", "timeout_s": 0}, "timeout_s=0"),
    (plain, {"effect": "pure", "timeout_s": float("inf")}, "timeout_s=inf"),
    (plain, {"effect": "pure", "timeout_s": float("nan")}, "timeout_s=nan"),
    (plain, {"effect": "pure", "timeout_s": True}, "not a number"),
    (plain, {"effect": "pure", "valid": 3}, "valid="),
    (plain, {"effect": "pure", "paths": "out.txt"}, r"paths=\('out.txt',\)"),
    (plain, {"effect": "pure", "secrets": [3]}, "other than texts"),
    (plain, {"effect": "pure", "aliases": ["plain"]}, "something twice"),
    (plain, {"effect": "pure", "aliases": ["a", "a"]}, "something twice"),
    (plain, {"effect": "pure", "aliases": ["a b"]}, "holds a blank"),
]


@pytest.mark.parametrize(("fn", "options", "line"), REFUSED)
def test_an_incomplete_or_contradicting_declaration_is_refused(fn, options, line):
    """The refusal says what to write instead."""
    with pytest.raises(ToolInvalid, match=line):
        tool(**options)(fn)


def test_a_bare_decorator_is_refused_with_the_line_to_write():
    """`@tool` without an effect decides nothing."""
    with pytest.raises(ToolInvalid, match='effect="pure"'):
        tool(plain)


def test_an_unknown_keyword_is_refused_at_once():
    """A misspelt option is not passed over."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'payed'"):
        tool(effect="pure", payed=True)


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("args", "kwargs", "bound"),
    [
        (("a",), {}, {"url": "a"}),
        (("a", 2), {}, {"url": "a", "depth": 2}),
        (("a",), {"depth": 2}, {"url": "a", "depth": 2}),
        ((), {"depth": 2, "url": "a"}, {"url": "a", "depth": 2}),
    ],
)
def test_arguments_are_bound_by_name_without_defaults(args, kwargs, bound):
    """However they are given, the record of equal calls is equal; a later default does not change it."""
    assert bound == fetch.bind(args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'url'"),
        ((), {"depth": 1}, "missing a required argument: 'url'"),
        (("a", 1, 2), {}, "too many positional arguments"),
        (("a",), {"url": "b"}, "multiple values for argument 'url'"),
        (("a",), {"dept": 1}, "unexpected keyword argument 'dept'"),
    ],
)
def test_wrong_arguments_raise_what_python_would(args, kwargs, message):
    """TypeError, with the tool's name."""
    with pytest.raises(TypeError, match=rf"^fetch\(\) .*{message}"):
        fetch.bind(args, kwargs)


def test_the_key_is_not_the_callers_to_give():
    """It is skipped by place, refused by name, and handed over at the call."""
    assert {"text": "x", "title": "t"} == publish.bind(("x", "t"), {})
    with pytest.raises(UsageError, match="'key' is the effect key"):
        publish.bind(("x",), {"key": "mine"})
    assert "k:x:t" == publish.call(publish.bind(("x", "t"), {}), "k")


def test_star_and_positional_only_parameters_make_the_round_trip():
    """What `bind` recorded, `call` gives back in its places."""
    bound = odd.bind((1, 2, 3), {"flag": True, "first": 4})
    assert {"first": 1, "rest": (2, 3), "flag": True, "others": {"first": 4}} == bound
    assert (1, (2, 3), True, {"first": 4}) == odd.call(bound)


def test_binding_a_plain_call_never_asks_inspect(monkeypatch):
    """The hot path is a `dict(zip(...))`."""

    def refuse(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(inspect.Signature, "bind", refuse)
    assert {"url": "a", "depth": 2} == fetch.bind(("a",), {"depth": 2})


# ---------------------------------------------------------------- a ready schema


def test_a_tool_with_a_ready_schema_takes_what_that_says_in_one_parameter():
    """Names that no parameter of Python could have come through; without that parameter it is refused."""
    schema = {"type": "object", "properties": {"from-date": {"type": "string"}}}

    def other(arguments: dict) -> dict:
        return arguments

    ready = tool(effect="pure", schema=schema)(other)
    assert {"from-date": "x"} == ready.call(ready.bind((), {"arguments": {"from-date": "x"}}))
    assert schema == ready.schema
    assert tool(effect="pure")(plain).schema is None
    with pytest.raises(ToolInvalid, match="write `arguments: dict`"):
        tool(effect="pure", schema=schema)(plain)


def test_the_digest_of_a_tool_with_a_ready_schema_is_that_of_the_schema():
    """The function is the same for all of them: what changes is the schema, whatever order its keys come in."""

    def other(arguments: dict) -> dict:
        return arguments

    one, same, changed = (
        tool(effect="pure", schema=schema)(other).signature_digest
        for schema in ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, {"a": 1, "b": [3]})
    )
    assert one == same
    assert one != changed


# ---------------------------------------------------------------- tools of a place


def test_tools_are_found_by_name_and_by_former_names():
    """Aliases lead to the same tool; other values are passed over; two variables for one tool are no clash."""
    renamed = tool(effect="pure", name="new", aliases=["old"])(plain)
    place = {"a": renamed, "b": renamed, "c": plain, "d": Tool, "e": 3}
    assert {"new": renamed, "old": renamed} == tools_in(place)
    module = types.ModuleType("some")
    vars(module).update(place)
    assert {"new", "old"} == tools_in(module).keys()


@pytest.mark.parametrize("other", [{"name": "plain"}, {"name": "x", "aliases": ["plain"]}])
def test_two_tools_of_one_name_are_refused(other):
    """A recorded name must lead to one tool."""
    place = {"a": tool(effect="pure")(plain), "b": tool(effect="pure", **other)(Thing().bound)}
    with pytest.raises(ToolInvalid, match="both have this name"):
        tools_in(place)
