"""What is kept of a document once it has been read: its profile.

Small, whatever the size of the document, and made of plain values, so that it can live in the durable state while the
text itself need not. All that comes later (comparing, grouping, writing) sees profiles only.
Called by the tool `extract_profile`.
"""

from collections import Counter
from typing import TypedDict

from perdure.agent.offline.likeness import sketch_of
from perdure.agent.offline.listing import kind_of
from perdure.agent.offline.prose import BREAK, prose_lines
from perdure.agent.offline.sentences import Quotation, pick_sentences
from perdure.agent.offline.terms import all_words_of, words_of

TERMS_MAX = 200
SENTENCES_MAX = 5


class Profile(TypedDict):
    """One document, in short."""

    # Telling word → how often it stands in the document; the commonest `TERMS_MAX`.
    terms: dict[str, int]
    # The most telling first.
    sentences: list[Quotation]
    # For `likeness`.
    sketch: bytes
    words: int
    lines: int
    encoding: str


def profile_of(name: str, text: str, encoding: str) -> Profile:
    """Take from a document what the digest needs; `text` as `reading` returns it."""
    source = text.split("\n")
    prose = prose_lines(text, kind_of(name) or "text")
    readable = "\n".join(prose).replace(BREAK, "\n")
    counts = Counter(words_of(readable))
    words = all_words_of(readable)
    return Profile(
        terms=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TERMS_MAX]),
        sentences=pick_sentences(source, prose, counts, SENTENCES_MAX),
        sketch=sketch_of(words),
        words=len(words),
        lines=len(source) - (not source[-1]),
        encoding=encoding,
    )
