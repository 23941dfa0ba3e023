"""The tools of the web, as the agent calls them."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

import perdure
from perdure.errors import AddressRefused, ConfigInvalid, ContentRefused
from perdure.limits import PAGE_PASSAGES_LETTERS, SEARCH_RESULTS_MAX
from perdure.tools.builtin.web import fetch_webpage, read_webpage, searching, web_search
from perdure.tools.web import searching as engines
from tests.sites import redirect, response, site
from tests.worlds import Play, World

HERE = {"allow_private_network": True}
ARTICLE = (
    b"<html><head><title>Cats</title></head><body><article><h1>Cats</h1><p>The cat sat on the mat and looked at the "
    b'birds for a long time.</p><p>See <a href="/birds">the birds</a>.</p></article></body></html>'
)


def call(tool, page, *args, settings=HERE, **options):
    """Call a tool with the address of `page`."""

    async def main():
        async with site({"/": page, "/next": redirect("/")}) as stands:
            return await tool(stands.url("/next"), *args, settings=settings, **options), stands

    return asyncio.run(main())


def test_a_page_is_read():
    """Title, text and links, from where the redirects led to."""
    page, stands = call(read_webpage, response(ARTICLE))
    assert ("Cats", stands.url("/"), False) == (page["title"], page["url"], page["is_cut"])
    assert "The cat sat on the mat" in page["text"]
    assert [{"text": "the birds", "url": stands.url("/birds")}] == page["links"]


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/problem+json", "image/svg+xml"])
def test_what_is_text_but_no_page_is_read_as_it_is(kind):
    """It has neither title nor links."""
    page, _ = call(read_webpage, response(b' {"a": "<b>"} ', kind=kind))
    assert ("", '{"a": "<b>"}', []) == (page["title"], page["text"], page["links"])


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "application/octet-stream", "application/zip"])
@pytest.mark.parametrize("tool", [read_webpage, fetch_webpage])
def test_what_is_no_text_is_refused_with_a_sentence(kind, tool):
    """A model reads it, and takes another way."""
    with pytest.raises(ContentRefused, match="only text is read; look for the same as a web page"):
        call(tool, response(b"%PDF-1.7", kind=kind))


def test_what_tells_no_type_is_looked_at():
    """A page is a page, a text a text, and bytes are refused."""
    assert "Cats" == call(read_webpage, response(ARTICLE, kind=""))[0]["title"]
    assert "plain" == call(read_webpage, response(b"plain", kind=""))[0]["text"]
    with pytest.raises(ContentRefused, match="it is no text"):
        call(read_webpage, response(b"\x7fELF\0\0", kind=""))


def test_of_a_long_page_comes_back_what_the_question_is_about():
    """And that it was cut is said; without a question it comes back whole."""
    lines = "\n".join(f"line {at} says nothing at all" for at in range(2_000)) + "\nThe answer is 42."
    body = response(lines.encode(), kind="text/plain")
    asked, _ = call(read_webpage, body, question="What is the answer?")
    assert "The answer is 42." in asked["text"]
    assert asked["is_cut"]
    assert len(asked["text"]) <= PAGE_PASSAGES_LETTERS + 20
    by_topic, _ = call(read_webpage, body, ["answer"])
    assert by_topic["text"] == asked["text"]
    whole, _ = call(read_webpage, body)
    assert (lines, False) == (whole["text"], whole["is_cut"])


def test_a_page_is_fetched_as_it_is():
    """With its tags, in its encoding."""
    text, _ = call(fetch_webpage, response("<p>café".encode("latin-1"), kind="text/html; charset=latin-1"))
    assert "<p>café" == text


@pytest.mark.parametrize("tool", [read_webpage, fetch_webpage])
@pytest.mark.parametrize("settings", [None, {}, {"allow_private_network": False}])
def test_this_machine_is_not_asked_unless_the_settings_allow_it(tool, settings):
    """The page is there, and is never asked."""
    with pytest.raises(AddressRefused, match="allow_private_network"):
        call(tool, response(ARTICLE), settings=settings)


# ---------------------------------------------------------------- what they say of themselves


@pytest.mark.parametrize("tool", [web_search, read_webpage, fetch_webpage])
def test_they_read_and_bring_what_comes_from_outside(tool):
    """Run again on resume, and a source in the journal."""
    assert ("free/nothing", True) == (str(tool.effect), tool.source)
    assert "settings" == tool.parameters[-1]


def test_a_page_without_text_is_a_failed_call():
    """So is a search that finds nothing."""
    empty = {"url": "", "title": "t", "text": " \n", "links": [], "is_cut": False}
    assert not read_webpage.valid(empty)
    assert read_webpage.valid({**empty, "text": "x"})
    assert not web_search.valid([])
    assert not fetch_webpage.valid("")


def test_the_search_waits_with_the_engine_that_answers():
    """Health and breaker are that engine's, the tool is the same."""
    tool = searching({}, {"TAVILY_API_KEY": "k"})
    assert ("web_search", "tavily") == (tool.name, tool.provider)
    assert "ddgs" == searching({}, {}).provider
    assert "search" == web_search.provider
    with pytest.raises(ConfigInvalid):
        searching({"search": "none"}, {})


# ---------------------------------------------------------------- in a task


def test_a_search_in_a_task_keeps_the_key_out_of_the_journal(monkeypatch):
    """What was found is recorded and found again by the next life; the key is in no byte of the store."""
    key = "serper-key-0123456789"
    monkeypatch.setenv("SERPER_API_KEY", key)
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    found = {"organic": [{"title": f"t{at}", "link": f"https://a.example/{at}", "snippet": "s"} for at in range(50)]}
    body = response(json.dumps(found).encode(), kind="application/json")
    asked = []

    async def program(task):
        async with site({"/search": body}) as stands:
            monkeypatch.setattr(engines, "SERPER_URL", stands.url("/search"))
            hits = await task.using(key="s").act(web_search, "cats", num_results=1_000, settings={})
            asked.extend(stands.requests)
            if len(asked) == 1:
                asked.append("asked")
                raise perdure.UsageError("stop here")
            return len(hits)

    world = World()
    with pytest.raises(perdure.UsageError, match="stop here"):
        world.live(Play(program))
    assert SEARCH_RESULTS_MAX == world.live(Play(program))
    assert key == asked[0].headers["x-api-key"]
    assert 2 == len(asked)
    written = msgspec.json.encode([entry.payload for entry in world.journal()]).decode() + repr(world.memory.blobs)
    assert "https://a.example/19" in written
    assert key not in written
