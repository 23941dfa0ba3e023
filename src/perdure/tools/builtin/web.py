"""The tools of the web: search, read a page, fetch it as it is. How that is done stands in `tools/web/`.

All of them only read, and what they bring comes from outside. `settings` is filled in by the agent and never offered to
a model; keys of search engines are taken from the environment at the call and stand in no record.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

from perdure.errors import ContentRefused
from perdure.limits import (
    PAGE_PASSAGES_LETTERS,
    PAGE_S,
    PAGE_TEXT_LETTERS_MAX,
    SEARCH_RESULTS_MAX,
    SEARCH_S,
)
from perdure.tools.declare import Tool, tool
from perdure.tools.web.fetching import Answer, fetch
from perdure.tools.web.reading import choose, decode, read_html
from perdure.tools.web.searching import engine_of, search

Url = Annotated[str, "Address of the page, with http:// or https://."]

_OWN_TIME_S: Final = 15.0  # by so much the call may outlast its request: taking a long page apart takes a while
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS: Final = frozenset(
    {"application/json", "application/ld+json", "application/xml", "application/javascript", "application/x-ndjson",
     "application/yaml", "application/x-yaml", "application/toml", "application/rss+xml", "application/atom+xml"}
)  # fmt: skip
_ACCEPT: Final = (
    "text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.9, application/xml;q=0.8, */*;q=0.1"
)
_PDF: Final = "application/pdf"


class PageLink(TypedDict):
    """Where a page leads to."""

    text: str
    url: str


class Page(TypedDict):
    """A page as it was read."""

    url: str  # after redirects
    title: str
    text: str
    links: list[PageLink]
    is_cut: bool  # the page goes on, or passages were left out


class Hit(TypedDict):
    """One thing that a search found."""

    title: str
    url: str
    text: str


def _has_text(page: Page) -> bool:
    return bool(page["text"].strip())


@tool(effect="pure", source=True, provider="search", valid=bool, timeout_s=SEARCH_S + _OWN_TIME_S, aliases=("search",))
async def web_search(
    query: Annotated[str, "What to search for."],
    num_results: Annotated[int, "How many pages to return, at most."] = 8,
    settings: Mapping[str, Any] | None = None,
) -> list[Hit]:
    """Search the web; returns title, address and a few lines of each page found, the best first.

    Raises SearchFailed, ConfigInvalid where the engine that is set cannot be used, and errors of the connection.
    """
    engine = engine_of(settings or {}, os.environ)
    count = min(max(num_results, 1), SEARCH_RESULTS_MAX)
    found = await search(engine, query, count, os.environ)
    return [Hit(title=one.title, url=one.url, text=one.text) for one in found]


def searching(settings: Mapping[str, Any], environ: Mapping[str, str]) -> Tool[..., Any]:
    """Return `web_search` as a call of the engine that will answer: its health and its waits are that engine's."""
    return dataclasses.replace(web_search, provider=engine_of(settings, environ))


@tool(effect="pure", source=True, valid=_has_text, timeout_s=PAGE_S + _OWN_TIME_S)
async def read_webpage(
    url: Url,
    topics_of_interest: Annotated[list[str] | None, "Of a long page, keep what speaks of these."] = None,
    question: Annotated[str, "Of a long page, keep what may answer this."] = "",
    settings: Mapping[str, Any] | None = None,
) -> Page:
    """Read a web page: its title, its main text, and where it links to. Of a long page, say what you look for.

    With a question or topics, a long page is cut down to the passages that speak of them. Raises AddressRefused,
    ContentRefused, and errors of the connection.
    """
    answer = await fetch(url, accept=_ACCEPT, refusal=_refusal, allow_private=_allows_private(settings))
    wanted = [question, *(topics_of_interest or [])]
    return await asyncio.to_thread(_read, answer, [one for one in wanted if one.strip()])


@tool(effect="pure", source=True, valid=bool, timeout_s=PAGE_S + _OWN_TIME_S)
async def fetch_webpage(url: Url, settings: Mapping[str, Any] | None = None) -> str:
    """Fetch what an address answers, as text and as it is: HTML with its tags, JSON, a feed.

    Raises AddressRefused, ContentRefused, and errors of the connection.
    """
    answer = await fetch(url, accept=_ACCEPT, refusal=_refusal, allow_private=_allows_private(settings))
    return decode(answer.body, answer.charset, is_cut=answer.is_cut)


def _allows_private(settings: Mapping[str, Any] | None) -> bool:
    return bool((settings or {}).get("allow_private_network"))


def _refusal(content_type: str) -> str:
    """Say why an answer of this type is not read; empty where it is. One that tells no type is looked at."""
    is_text = content_type.startswith("text/") or content_type in _HTML or content_type in _TEXTS
    if not content_type or is_text or content_type.endswith(("+json", "+xml")):
        return ""
    if content_type == _PDF:
        return "it is a PDF, and only text is read; look for the same as a web page, or get it with a program"
    return f"it is {content_type}, and only text is read; look for the same as a web page, or get it with a program"


def _read(answer: Answer, wanted: list[str]) -> Page:
    text = decode(answer.body, answer.charset, is_cut=answer.is_cut)
    if "\0" in text:
        raise ContentRefused(answer.url, "it is no text, whatever it says; get it with a program")
    is_html = answer.content_type in _HTML or (not answer.content_type and text.lstrip()[:1] == "<")
    reading = read_html(text, answer.url) if is_html else None
    whole = reading.text if reading is not None else text.strip()
    kept = choose(whole, wanted, PAGE_PASSAGES_LETTERS if wanted else PAGE_TEXT_LETTERS_MAX)
    return Page(
        url=answer.url,
        title=reading.title if reading is not None else "",
        text=kept,
        links=[PageLink(text=link.text, url=link.url) for link in reading.links] if reading is not None else [],
        is_cut=answer.is_cut or len(kept) < len(whole),
    )
