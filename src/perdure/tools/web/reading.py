"""From the bytes of a page to what it says. Pure but for the libraries it uses: it fetches nothing.

Text is read in the encoding in which it makes sense, which is not always the one that is told. Of an HTML page the main
text is kept (trafilatura), its title, and where it links to. Called by the tools of the web, in a thread.
"""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any, Final
from urllib.parse import urljoin

import msgspec

from perdure.limits import PAGE_LINKS_MAX

GAP: Final = "[…]"  # stands where passages were left out

_MARKS: Final = (  # how a text may begin, longest first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})|"
                              rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)  # fmt: skip
_HEAD_BYTES: Final = 4096  # so far in a page may say its encoding
_GUESS_BYTES: Final = 64 * 1024  # so much of a page is looked at to guess it
_GUESSED_FROM_BYTES: Final = 256
_BLIND: Final = ("utf-7", "utf-16", "utf-32", "iso2022", "hz")  # bytes of these pass for UTF-8 and mean something else
_LATIN: Final = frozenset({"iso8859-1", "ascii"})  # browsers read windows-1252 where these are told
_LEAST_PART: Final = 0.1  # of the best passage's score: with less it shares a "what" or an "about" and no more
_WORD: Final = re.compile(r"\w{3,}")
_TAG: Final = re.compile(r"<[^<>]{0,2000}>")
_SPACE: Final = re.compile(r"\s+")
_LINK_LETTERS_MAX: Final = 200


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Where a page leads to."""

    text: str
    url: str


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What an HTML page says."""

    title: str
    text: str
    links: list[Link]


# --- bytes to text --------------------------------------------------------------------------------------------------
def decode(body: bytes, told: str, *, is_cut: bool) -> str:
    """Return `body` as text. `told` is the charset of the header; a page that is cut may end inside of a letter.

    What decodes as UTF-8 is UTF-8, whatever is told: other encodings hardly ever look like it. (Those that do come
    first where they are told.) What no encoding fits is read as windows-1252, with the bytes that it lacks replaced.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _decoded(body, encoding, is_cut=is_cut) or body.decode(encoding, "replace")
    names = [name for name in map(_known, (told, _declared_in(body))) if name]
    blind = [name for name in names if name.startswith(_BLIND)]
    for encoding in (*blind, "utf-8", *names, _guess(body)):
        text = _decoded(body, encoding, is_cut=is_cut) if encoding else None
        if text is not None:
            return text
    return body.decode("windows-1252", "replace")


def _decoded(body: bytes, encoding: str, *, is_cut: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(body, final=not is_cut)
    except (UnicodeError, LookupError):
        return None


def _known(name: str) -> str:
    """Return Python's name of an encoding of text, as browsers mean it; "" where there is none such."""
    try:
        found = codecs.lookup(name.strip())
    except (LookupError, ValueError):
        return ""
    if not getattr(found, "_is_text_encoding", True):
        return ""
    return "windows-1252" if found.name in _LATIN else found.name


def _declared_in(body: bytes) -> str:
    found = _DECLARED.search(body[:_HEAD_BYTES])
    return (found[1] or found[2]).decode("ascii", "replace") if found else ""


def _guess(body: bytes) -> str:
    """Return the most likely encoding; "" for so few bytes that any would do."""
    if len(body) < _GUESSED_FROM_BYTES:
        return ""
    from charset_normalizer import from_bytes

    best = from_bytes(body[:_GUESS_BYTES]).best()
    return best.encoding if best is not None else ""


# --- a page to what it says -----------------------------------------------------------------------------------------
def read_html(html: str, url: str) -> Reading:
    """Return what the page at `url` says; with an empty text where nothing in it is to be read."""
    from trafilatura import bare_extraction, html2txt, load_html

    if not html.strip():
        return Reading(title="", text="", links=[])
    tree: Any = load_html(html)
    if tree is None:  # it has too little of a page for the library
        bare = unescape(_TAG.sub(" ", html))
        return Reading(title="", text=html2txt(html).strip() or _SPACE.sub(" ", bare).strip(), links=[])
    title = _SPACE.sub(" ", " ".join(tree.xpath("//title[1]//text()"))).strip()
    links = list(_links(tree, url))
    found: Any = bare_extraction(html, url=url, include_comments=False)
    text = (found.text if found is not None else "") or html2txt(html) or _all_text(tree)
    return Reading(title=title, text=text.strip(), links=links)


def _all_text(tree: Any) -> str:  # noqa: ANN401 - a tree of lxml
    """Return every text of a page that is hardly one."""
    texts = tree.xpath("//text()[not(ancestor::script or ancestor::style or ancestor::title)]")
    return "\n".join(filter(None, (_SPACE.sub(" ", text).strip() for text in texts)))


def _links(tree: Any, url: str) -> Iterator[Link]:  # noqa: ANN401 - a tree of lxml
    """Yield where the page leads to, each address once, in order."""
    base = next(iter(tree.xpath("//base/@href")), "")
    start, seen = _joined(url, base), {url}
    for anchor in tree.xpath("//a[@href]"):
        target = _joined(start, anchor.get("href")).partition("#")[0]
        text = _SPACE.sub(" ", "".join(anchor.itertext())).strip()
        if target in seen or not text or not target.startswith(("http://", "https://")):
            continue
        seen.add(target)
        yield Link(text=text[:_LINK_LETTERS_MAX], url=target)
        if len(seen) > PAGE_LINKS_MAX:
            return


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target.strip())
    except ValueError:  # brackets that are no address
        return ""


def choose(text: str, wanted: Iterable[str], letters_max: int) -> str:
    """Return the passages of `text` that speak of what is `wanted`, in their order, at most about `letters_max`.

    The whole where it is short enough; its beginning where nothing in it speaks of that.
    """
    if len(text) <= letters_max:
        return text
    passages = [passage[:letters_max] for passage in text.split("\n") if passage.strip()]
    scores = _scores(passages, {word for phrase in wanted for word in _words(phrase)})
    least = max(scores, default=0.0) * _LEAST_PART
    speaking = [at for at, score in enumerate(scores) if score > 0 and score >= least]
    order = sorted(speaking, key=lambda at: (-scores[at], at)) or range(len(passages))
    chosen: list[int] = []
    left = letters_max
    for at in order:
        left -= len(passages[at]) + 1
        if left < 0 and chosen:
            break
        chosen.append(at)
    return "\n".join(_with_gaps(passages, sorted(chosen)))


def _scores(passages: list[str], words: set[str]) -> list[float]:
    """Return for each passage how much it speaks of `words`; one that stands everywhere says nothing."""
    shared = [words & _words(passage) for passage in passages]
    counts = Counter(word for some in shared for word in some)
    return [sum(math.log(len(passages) / counts[word]) for word in sorted(some)) for some in shared]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _with_gaps(passages: list[str], chosen: list[int]) -> Iterator[str]:
    last = -1
    for at in chosen:
        if at > last + 1:
            yield GAP
        yield passages[at]
        last = at
    if last < len(passages) - 1:
        yield GAP
