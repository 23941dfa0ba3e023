"""Sentences worth quoting, each with the lines it stands on.

A quotation must be found *verbatim* where it is said to be. `lines_quoted` is that rule, for this module, for the
tests, and for whoever checks a digest: the lines of the file from first to last, each stripped, joined by one blank. A
sentence is a candidate only if it is part of that, and can be printed as it is: no tags, no entities, nothing
unprintable.
Pure. Called by `profile`.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import log
from typing import TypedDict

from perdure.agent.offline.prose import BREAK
from perdure.agent.offline.terms import words_of

LENGTH_MIN, LENGTH_MAX = 40, 320
LINES_MAX = 5


class Quotation(TypedDict):
    """A sentence and the lines (from 1, both included) on which it stands."""

    text: str
    first: int
    last: int


def lines_quoted(source: Sequence[str], first: int, last: int) -> str:
    """Join lines `first` to `last` of a file in the form in which quotations stand in them."""
    return " ".join(line.strip() for line in source[first - 1 : last])


def pick_sentences(source: Sequence[str], prose: Sequence[str], counts: Counter[str], most: int) -> list[Quotation]:
    """Pick up to `most` sentences that tell what a document is about, the most telling first.

    `prose` are the lines of `source` without markup (`prose.prose_lines`), `counts` how often each word stands in it.
    """
    rated: list[tuple[float, int, Quotation, frozenset[str]]] = []
    for place, quotation in enumerate(_candidates(source, prose)):
        words = frozenset(words_of(quotation["text"]))
        rated.append((-_weight(quotation["text"], words, counts, place), place, quotation, words))
    picked: list[Quotation] = []
    said: set[str] = set()
    for _, _, quotation, words in sorted(rated, key=lambda row: row[:2]):
        if len(picked) == most:
            break
        if len(words & said) <= _REPETITION_MAX * len(words):
            picked.append(quotation)
            said |= words
    return picked


_REPETITION_MAX = 0.6
_WORDS_MIN = 4
_LETTERS_SHARE_MIN = 0.9
_ITEM = re.compile(r"\s*+(?:[-*+•]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s")
_BLANKS = re.compile(r"\s*+")
_RULE_LINE = re.compile(r"[^\w]{3,}+$")
_SENTENCE_END = re.compile(r"[.!?…]++[\"'”’)\]]*+(?=\s|$)|[。！？]++[」』”]*+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|etc|approx|resp|fig|figs|eq|no|nos|vol|ch|sec|pp?|ed|eds|dr|mr|mrs|ms|prof|st|inc|ltd|co"
    r"|jr|sr|al|bzw|usw|ca|nr|z\.b|d\.h|u\.a)|(?:^|[\s(])[A-Za-z])\.$",
    re.IGNORECASE,
)
_UNPRINTABLE_AS_IS = re.compile(r"<[A-Za-z/!?]|&#?\w+;|!\[|\]\(|[“”]|\*\*|:[a-z:]+:`")
_CODE_SIGNS = re.compile(r"[`*_=<>{}\[\]|\\#~^@/]")


def _weight(text: str, words: frozenset[str], counts: Counter[str], place: int) -> float:
    """Rate a sentence: telling words for its length, more near the beginning, less for signs that are no prose."""
    told = sum(log(1 + counts[word]) for word in words) / (6 + len(words))
    early = 1 + 0.6 / (1 + place)
    noisy = 1 / (1 + len(_CODE_SIGNS.findall(text)) / 4)
    return told * early * noisy


def _candidates(source: Sequence[str], prose: Sequence[str]) -> Iterator[Quotation]:
    for first, lines in _paragraphs(prose):
        for sentence in _sentences(first, lines):
            if _is_quotable(sentence["text"]) and _is_verbatim(source, sentence):
                yield sentence


def _is_verbatim(source: Sequence[str], sentence: Quotation) -> bool:
    return sentence["text"] in lines_quoted(source, sentence["first"], sentence["last"])


def _is_quotable(text: str) -> bool:
    if not (LENGTH_MIN <= len(text) <= LENGTH_MAX or _is_dense(text)) or not text.isprintable():
        return False
    if _UNPRINTABLE_AS_IS.search(text) or not (text[0].isalpha() and text[0] == text[0].upper()):
        return False
    prose_signs = sum(letter.isalpha() or letter in " ,.;:'’\"()-–—!?" for letter in text)
    return prose_signs >= _LETTERS_SHARE_MIN * len(text) and len(words_of(text)) >= _WORDS_MIN


def _is_dense(text: str) -> bool:
    """Scripts such as Han say in fifteen characters what takes forty in Latin."""
    return LENGTH_MIN * 2 // 5 <= len(text) < LENGTH_MIN and text[0] > "\u2e80"


def _paragraphs(prose: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the first line, lines) for each run of lines that belong together; headings are none."""
    first, lines = 1, list[str]()
    for number, line in enumerate(prose, start=1):
        blocks = line.split(BREAK)
        for place, block in enumerate(blocks):
            is_prose = bool(block.strip()) and not block.isupper() and not _RULE_LINE.match(block)
            if lines and (place > 0 or not is_prose or _ITEM.match(block)):
                yield first, lines
                lines = []
            if not is_prose:
                continue
            if not lines:
                first = number
            lines.append(block)
    if lines:
        yield first, lines


def _sentences(first: int, lines: Sequence[str]) -> Iterator[Quotation]:
    """Cut a paragraph into sentences, each with the lines on which it begins and ends."""
    item = _ITEM.match(lines[0])
    stripped = [line.strip() for line in (lines[0][item.end() if item else 0 :], *lines[1:])]
    paragraph = " ".join(stripped)
    ends_of_lines = list(accumulate(len(line) + 1 for line in stripped))
    start = 0
    for end in _ends(paragraph):
        text = paragraph[start:end].strip()
        begin = end - len(paragraph[start:end].lstrip())
        start = end
        first_line, last_line = bisect_right(ends_of_lines, begin), bisect_right(ends_of_lines, end - 1)
        if text and last_line - first_line < LINES_MAX:
            yield Quotation(text=text, first=first + first_line, last=first + last_line)


def _ends(paragraph: str) -> Iterator[int]:
    """Find where sentences end: not after an abbreviation or an initial, not before a small letter."""
    for match in _SENTENCE_END.finditer(paragraph):
        blanks = _BLANKS.match(paragraph, match.end())
        goes_on = blanks is not None and paragraph[blanks.end() : blanks.end() + 1].islower()
        if not goes_on and not _ABBREVIATION.search(paragraph[max(0, match.start() - 12) : match.end()]):
            yield match.end()
