"""The search engines: Tavily and Serper as loopback servers of their documented shape, ddgs at its own border."""

from __future__ import annotations

import asyncio
import json

import ddgs
import httpx2
import pytest
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

from perdure.errors import ConfigInvalid, SearchFailed
from perdure.tools.recording import classify_error, record_error
from perdure.tools.web import searching
from perdure.tools.web.searching import Found, engine_of, search
from tests.sites import response, site

KEY = "tvly-0123456789abcdef"
ENVIRON = {"TAVILY_API_KEY": KEY, "SERPER_API_KEY": KEY}
TAVILY = {
    "query": "cats",
    "answer": None,
    "images": [],
    "results": [
        {"title": "Cats", "url": "https://a.example/", "content": "About cats.", "score": 0.9, "raw_content": None},
        {"title": "More", "url": "https://b.example/", "content": "More.", "score": 0.8, "raw_content": None},
    ],
    "response_time": 1.2,
}
SERPER = {
    "searchParameters": {"q": "cats", "type": "search"},
    "organic": [{"title": "Cats", "link": "https://a.example/", "snippet": "About cats.", "position": 1}],
    "credits": 1,
}
CATS = Found(title="Cats", url="https://a.example/", text="About cats.")


def ask(monkeypatch, engine, page, count=5):
    """Search by a service whose server answers `page`; return (found, what was asked)."""

    async def main():
        async with site({"/search": page}) as stands:
            monkeypatch.setattr(searching, f"{engine.upper()}_URL", stands.url("/search"))
            return await search(engine, "cats", count, ENVIRON), stands.requests[0]

    return asyncio.run(main())


def as_json(value, **options):
    """A response of JSON."""
    return response(json.dumps(value).encode(), kind="application/json", **options)


def test_tavily_is_asked_as_it_documents(monkeypatch):
    """The key goes in the header, the question in the body; no more comes back than was wanted."""
    found, asked = ask(monkeypatch, "tavily", as_json(TAVILY), count=1)
    assert [CATS] == found
    assert ("POST", f"Bearer {KEY}") == (asked.method, asked.headers["authorization"])
    assert {"query": "cats", "max_results": 1} == json.loads(asked.body)


def test_serper_is_asked_as_it_documents(monkeypatch):
    """Its fields have other names."""
    found, asked = ask(monkeypatch, "serper", as_json(SERPER))
    assert [CATS] == found
    assert ("POST", KEY) == (asked.method, asked.headers["x-api-key"])
    assert {"q": "cats", "num": 5} == json.loads(asked.body)


@pytest.mark.parametrize("engine", ["tavily", "serper"])
@pytest.mark.parametrize(
    "answer", [{}, {"results": [], "organic": []}, {"results": [{}], "organic": [1, {"link": ""}]}]
)
def test_an_answer_with_nothing_in_it_is_nothing_found(monkeypatch, engine, answer):
    """Rows without an address are none."""
    assert [] == ask(monkeypatch, engine, as_json(answer))[0]


@pytest.mark.parametrize("page", [response(b"<html>oops"), as_json(["no", "object"]), as_json({"results": "none"})])
def test_an_answer_of_another_shape_is_a_failure_of_its_output(monkeypatch, page):
    """And names the engine."""
    with pytest.raises(SearchFailed, match=r"^tavily: ") as caught:
        ask(monkeypatch, "tavily", page)
    assert "output" == classify_error(caught.value).failure_class


def test_an_answer_without_an_end_is_left(monkeypatch):
    """It is not kept in memory whole."""

    async def endless(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        while True:
            writer.write(b" " * 100_000)
            await writer.drain()

    with pytest.raises(SearchFailed, match="longer than"):
        ask(monkeypatch, "tavily", endless)


@pytest.mark.parametrize(
    ("engine", "page", "failure_class"),
    [
        ("tavily", as_json({"detail": {"error": "Unauthorized: missing or invalid API key."}}, status="401 U"), "auth"),
        ("tavily", as_json({"detail": {"error": "Your request has been blocked due to excessive requests."}},
                           status="429 Too Many Requests", retry_after="9"), "throttled"),
        ("tavily", as_json({"detail": {"error": "This request exceeds your plan's set usage limit."}}, status="432 X"),
         "quota"),
        ("tavily", as_json({"detail": {"error": "This request exceeds the pay-as-you-go limit."}}, status="433 X"),
         "quota"),
        ("tavily", as_json({"detail": {"error": "Query is too long."}}, status="400 Bad Request"), "request"),
        ("tavily", as_json({"detail": {"error": "Internal Server Error"}}, status="500 Oh"), "capacity"),
        ("serper", as_json({"message": "Unauthorized.", "statusCode": 403}, status="403 Forbidden"), "auth"),
        ("serper", as_json({"message": "Not enough credits", "statusCode": 400}, status="400 Bad Request"), "quota"),
    ],
)  # fmt: skip
def test_the_errors_of_the_services_have_their_class(monkeypatch, engine, page, failure_class):
    """What a person pays in for is a quota, whatever the status."""
    with pytest.raises((httpx2.HTTPStatusError, SearchFailed)) as caught:
        ask(monkeypatch, engine, page)
    verdict = classify_error(caught.value)
    assert failure_class == verdict.failure_class
    assert (9.0 if failure_class == "throttled" else 0.0) == verdict.wait_s


@pytest.mark.parametrize("engine", ["tavily", "serper"])
def test_a_key_that_a_service_says_back_is_in_no_record(monkeypatch, engine):
    """Some name the key that they do not take."""
    page = as_json({"message": f"invalid key {KEY}"}, status="401 Unauthorized")
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        ask(monkeypatch, engine, page)
    record = record_error(caught.value)
    assert "invalid key ***" in record.message
    assert KEY not in repr(record)


# ---------------------------------------------------------------- ddgs


class Engine:
    """Stands in for the class `ddgs.DDGS`: the library's border, since no public engine can be reached from a test."""

    answer: object = []

    def __init__(self, timeout):
        self.timeout = timeout

    def text(self, query, max_results):
        """As the library's: rows of title, href and body."""
        assert ("cats", 5) == (query, max_results)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def engine(monkeypatch):
    """The class that is asked."""
    monkeypatch.setattr(ddgs, "DDGS", Engine)
    monkeypatch.setattr(Engine, "answer", [])
    return Engine


def test_ddgs_finds(engine):
    """Its rows under our names."""
    engine.answer = [{"title": "Cats", "href": "https://a.example/", "body": "About cats."}]
    assert [CATS] == asyncio.run(search("ddgs", "cats", 5, {}))


def test_ddgs_that_finds_nothing_is_no_error(engine):
    """It raises for that."""
    engine.answer = DDGSException("No results found.")
    assert [] == asyncio.run(search("ddgs", "cats", 5, {}))


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (RatelimitException("https://x 202"), "throttled"),
        (TimeoutException(TimeoutError("timed out")), "timeout"),
        (DDGSException(RuntimeError("connection refused")), "capacity"),
    ],
)
def test_the_errors_of_ddgs_have_their_class(engine, error, failure_class):
    """They say what happened only in their own names."""
    engine.answer = error
    with pytest.raises(SearchFailed, match=r"^ddgs: ") as caught:
        asyncio.run(search("ddgs", "cats", 5, {}))
    assert failure_class == classify_error(caught.value).failure_class


def test_the_border_of_ddgs_is_as_it_is_taken_for():
    """The class takes a time-out, and `text` a question and a count: what the stand-in above stands in for."""
    real = ddgs.DDGS(timeout=1)
    assert callable(real.text)
    assert issubclass(RatelimitException, DDGSException)
    assert issubclass(TimeoutException, DDGSException)
    with pytest.raises(DDGSException, match="query is mandatory"):
        real.text("", max_results=5)


# ---------------------------------------------------------------- which one


@pytest.mark.parametrize(
    ("settings", "environ", "engine"),
    [
        ({}, {}, "ddgs"),
        ({}, {"SERPER_API_KEY": "k"}, "serper"),
        ({}, {"SERPER_API_KEY": "k", "TAVILY_API_KEY": "k"}, "tavily"),
        ({"search": "ddgs"}, {"TAVILY_API_KEY": "k"}, "ddgs"),
        ({"search": "serper"}, {"SERPER_API_KEY": "k", "TAVILY_API_KEY": "k"}, "serper"),
        ({}, {"TAVILY_API_KEY": ""}, "ddgs"),
    ],
)
def test_the_engine_is_the_one_that_is_set_else_one_with_a_key_else_ddgs(settings, environ, engine):
    """An empty key is none."""
    assert engine == engine_of(settings, environ)


@pytest.mark.parametrize(
    ("settings", "word"), [({"search": "bing"}, "serper, ddgs"), ({"search": "tavily"}, "TAVILY_API_KEY")]
)
def test_an_engine_that_cannot_be_used_is_refused(settings, word):
    """With the ones there are, or the key that is missing."""
    with pytest.raises(ConfigInvalid, match=word):
        engine_of(settings, {})
