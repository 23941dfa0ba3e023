"""`ai_settings.yaml` and the files of permissions: read whole or refused, unknown keys listed."""

import pytest

from perdure.agent.autogpt.ai_settings import read_ai_settings, read_permissions
from perdure.errors import ConfigInvalid
from perdure.model.budget import Budget

WHOLE = """\
ai_goals:
- Find a name for the bakery
- Goal 2: write it into name.txt
ai_name: NameGPT
ai_role: an AI that invents names
api_budget: 0.0
plugins: []
"""


@pytest.fixture
def path(tmp_path):
    """Where the file is."""
    return tmp_path / "ai_settings.yaml"


def test_a_whole_file_is_read(path):
    """As AutoGPT writes it; a budget of 0 is none, and a key that is not AutoGPT's is listed."""
    path.write_text(WHOLE, "utf-8")
    found = read_ai_settings(str(path))
    assert {"name": "NameGPT", "role": "an AI that invents names", "budget": Budget()} == found.fields
    assert ("Find a name for the bakery", "Goal 2: write it into name.txt") == found.goals
    assert ("plugins",) == found.unknown


def test_an_empty_file_says_nothing(path):
    """Nor does one of comments."""
    path.write_text("# to be written\n", "utf-8")
    assert ({}, (), ()) == (read_ai_settings(str(path)).fields, read_ai_settings(str(path)).goals, ())


def test_a_blank_line_of_a_list_says_nothing(path):
    """It is left out."""
    path.write_text("ai_goals: ['', Cook, ' ']\nconstraints: ['']\n", "utf-8")
    assert (("Cook",), {"constraints": ()}) == (read_ai_settings(str(path)).goals, read_ai_settings(str(path)).fields)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ai_goals: cook", "ai_goals: must be a list, not text"),
        ("ai_goals:\n- [a]", "ai_goals[0]: must be text, not a list"),
        ("ai_name: [Ada]", "ai_name: must be text, not a list"),
        ("ai_name: true", "ai_name: must be text, not true or false"),
        ("api_budget: -1", "api_budget: must be a number of at least 0, not -1"),
        ("api_budget: .nan", "api_budget: must be a number of at least 0, not nan"),
        ("api_budget: .inf", "api_budget: must be a number of at least 0, not inf"),
        ("constraints:\n  a: b", "constraints: must be a list, not an object"),
        ("ai_name: Ada\nai_name: Eve", "ai_name: stands there twice; which one is meant?"),
        ("- a", "must hold names with values (`ai_name: …`), not a list"),
        ("1: a", "must hold names with values (`ai_name: …`), not an object"),
        ("ai_name: 'Ada", "is no YAML: "),
        ("ai_name: !!python/object/apply:os.getcwd []", "is no YAML: "),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_key(path, text, complaint):
    """And nothing of it holds."""
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigInvalid) as refused:
        read_ai_settings(str(path))
    assert str(refused.value).startswith(f"{path}: {complaint}")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda path: None, "cannot be read: No such file or directory"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b"ai_name: \xff"), "is no UTF-8 text (byte 9)"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_apart(path, make, complaint):
    """Absent, no file, no text."""
    make(path)
    with pytest.raises(ConfigInvalid) as refused:
        read_ai_settings(str(path))
    assert str(refused.value).startswith(f"{path}: {complaint}")


def test_permissions_have_lists_and_nothing_else(path):
    """What else stands in the file is listed; a pattern that is no text is refused."""
    path.write_text("permissions:\n  allow: [finish(**)]\n  ask: []\nother: 1\n", "utf-8")
    assert ("other", "permissions.ask") == read_permissions(str(path)).unknown
    path.write_text("permissions:\n  deny: [[a]]\n", "utf-8")
    with pytest.raises(ConfigInvalid, match=r"permissions.deny\[0\]: must be text, not a list"):
        read_permissions(str(path))


def test_a_pattern_that_is_none_is_refused_with_file_and_key(path):
    """A rule that nobody can read protects nobody."""
    path.write_text("permissions:\n  deny: [sudo]\n", "utf-8")
    with pytest.raises(ConfigInvalid, match=r"permissions.deny: permission 'sudo' is no pattern of calls"):
        read_permissions(str(path))
