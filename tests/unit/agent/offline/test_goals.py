"""Goals: which sentences are understood, and what is taken from them."""

import pytest

from perdure.agent.offline.goals import GOAL_FORMS, parse_goal


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("Digest the documents under docs", "docs"),
        ("digest THE DOCUMENTS Under /srv/Old Papers", "/srv/Old Papers"),
        ("Summarise the files in ./notes/", "./notes/"),
        ("Summarize the texts of notes", "notes"),
        ("  Summarize all the texts of notes  ", "notes"),
        ("Digest documents under docs", "docs"),
        ("Digest the documents under docs.", "docs"),
        ("Digest the documents under .", "."),
        ("Digest the documents under ..", ".."),
        ("Digest the documents under 'a b. '", "a b. "),
        ('Digest the documents under "docs."', "docs."),
        ("Digest the documents under “my papers”.", "my papers"),
        ("Digest the documents under it's here", "it's here"),
        ("Digest the documents under ~/papers", "~/papers"),
    ],
)
def test_the_folder_is_taken_from_the_goal(text, folder):
    """The folder is what stands after the preposition, without quotation marks or the full stop of the sentence."""
    goal = parse_goal(text)
    assert goal is not None
    assert folder == goal.folder


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Write a poem",
        "Digest the documents",
        "Digest the documents under",
        "Digest the documents under ''",
        "report.py",
    ],
)
def test_another_goal_is_not_understood(text):
    """A sentence of another form is no goal of this agent, and neither is one without a folder."""
    assert parse_goal(text) is None


@pytest.mark.parametrize("form", GOAL_FORMS)
def test_the_forms_shown_as_help_are_understood(form):
    """Each form that the help shows is one that is read."""
    assert parse_goal(form) is not None
