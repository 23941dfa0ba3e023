"""The goals that the offline agent understands, and how they are read.

A goal is one sentence of a person. This module turns it into a `DigestGoal` or says, with `None`, that it is another
kind of goal. It looks at words only, never at the disk: whether the folder exists is for the first action to find out.
Called by the command line (to choose the offline agent, and for its help) and by the policy.
"""

import re

import msgspec

GOAL_FORMS: tuple[str, ...] = (
    "Digest the documents under DIR",
    "Summarise the documents in DIR",
    "Summarize the files of DIR",
    "Digest the texts under 'a folder with blanks'",
)
"""Examples, one per line of help. Verb, noun and preposition of one may be combined with those of another."""


class DigestGoal(msgspec.Struct, frozen=True, kw_only=True):
    """Read a folder and write `digest.md` about it."""

    # As the person wrote it, without its quotation marks: relative or absolute, `~` not expanded.
    folder: str


def parse_goal(text: str) -> DigestGoal | None:
    """Read a goal; `None` when it is not one of `GOAL_FORMS`.

    A folder in quotation marks is taken to the letter. Without them it may hold blanks too, and the full stop of the
    sentence is dropped: `under docs.` means `docs`, while `under .` and `under ..` mean what they say.
    """
    match = _GOAL.fullmatch(text.strip())
    if match is None:
        return None
    folder = match["quoted"] or _without_full_stop(match["bare"] or "")
    return DigestGoal(folder=folder) if folder else None


_GOAL = re.compile(
    r"""
    (?: digest | summari[sz]e ) \s+
    (?: (?: all \s+ )? the \s+ )? (?: documents | files | texts ) \s+
    (?: under | in | of ) \s+
    (?: (?P<open> ["'`“‘] ) (?P<quoted> .+ ) ["'`”’] \s* [.]? | (?P<bare> [^\s"'`“‘] .* ) )
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def _without_full_stop(folder: str) -> str:
    """Drop the point that ends the sentence, not one that belongs to the path."""
    folder = folder.rstrip()
    is_sentence_end = folder.endswith(".") and folder[-2:-1].isalnum()
    return folder[:-1] if is_sentence_end else folder
