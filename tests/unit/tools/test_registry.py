"""The tools of this process by name: which one is meant, and when that cannot be told."""

import gc

import pytest

import perdure
from perdure.errors import ToolNotFound
from perdure.tools import registry


def declared(name, module="tests.one", aliases=()):
    """Return a tool declared in `module`."""

    async def fn(item: int) -> None:
        """Do nothing."""

    fn.__module__, fn.__qualname__ = module, f"fn of {module}"
    return perdure.tool(effect="pure", name=name, aliases=aliases)(fn)


def test_a_tool_is_found_by_its_name_and_its_aliases():
    """An action on record may have an older name."""
    tool = declared("registered", aliases=("registered_before",))
    assert tool is registry.find_tool("registered")
    assert tool is registry.find_tool("registered_before")


def test_of_several_the_one_of_the_program_is_meant():
    """Where none of them is of its module, it cannot be told, and the places are named."""
    one, other = declared("twice", "tests.one"), declared("twice", "tests.other")
    assert one is registry.find_tool("twice", "tests.one")
    assert other is registry.find_tool("twice", "tests.other")
    with pytest.raises(ToolNotFound, match=r"tests\.one.*tests\.other"):
        registry.find_tool("twice", "tests.third")


def test_a_tool_that_nobody_knows_any_more_is_forgotten():
    """The registry keeps none alive."""
    declared("gone")
    gc.collect()
    with pytest.raises(ToolNotFound, match="gone"):
        registry.find_tool("gone")
