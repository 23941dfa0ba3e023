"""The search engines: one question, one list of what was found. Keys come from the environment and go nowhere else.

`ddgs` asks public engines without a key; Tavily and Serper are services with one. Errors carry the class of failure
that recovery works with: those of the services by what they answer, those of `ddgs` by what it raises. Called by
`web_search`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from perdure.errors import ConfigInvalid, SearchFailed
from perdure.limits import PAGE_BYTES_MAX, PAGE_CONNECT_S, SEARCH_S

TAVILY_URL: Final = "https://api.tavily.com/search"
SERPER_URL: Final = "https://google.serper.dev/search"
KEYS: Final = {"tavily": "TAVILY_API_KEY", "serper": "SERPER_API_KEY"}  # by engine, in order of preference
ENGINES: Final = (*KEYS, "ddgs")

_FAILED: Final = 400
_ENGINE_S: Final = 10  # of ddgs for one public engine
_NOTHING: Final = "No results found."
_SPENT: Final = frozenset({432, 433})  # Tavily: the limit of the plan, the limit of what is paid as it goes
_TEXT_LETTERS_MAX: Final = 2_000


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found."""

    title: str
    url: str
    text: str


def engine_of(settings: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return which engine searches: the one that is set, else the first that there is a key for, else ddgs.

    Raises ConfigInvalid for an engine that is not known, or whose key is missing.
    """
    chosen = str(settings.get("search") or "")
    if not chosen:
        return next((engine for engine, key in KEYS.items() if environ.get(key)), "ddgs")
    if chosen not in ENGINES:
        raise ConfigInvalid("search", f"{chosen!r} is not one of {', '.join(ENGINES)}")
    if chosen in KEYS and not environ.get(KEYS[chosen]):
        raise ConfigInvalid("search", f"{chosen!r} needs a key; set {KEYS[chosen]} in the environment")
    return chosen


async def search(engine: str, query: str, count: int, environ: Mapping[str, str]) -> list[Found]:
    """Return at most `count` things that `engine` found; none where it found nothing.

    Raises SearchFailed, TimeoutError, and what httpx2 raises.
    """
    async with asyncio.timeout(SEARCH_S):
        match engine:
            case "tavily":
                headers = {"Authorization": f"Bearer {environ[KEYS[engine]]}"}
                answer = await _ask(engine, TAVILY_URL, headers, {"query": query, "max_results": count})
                rows = _rows(engine, answer, "results", ("title", "url", "content"))
            case "serper":
                headers = {"X-API-KEY": environ[KEYS[engine]]}
                answer = await _ask(engine, SERPER_URL, headers, {"q": query, "num": count})
                rows = _rows(engine, answer, "organic", ("title", "link", "snippet"))
            case _:
                given = await asyncio.to_thread(_ask_ddgs, query, count)
                rows = _rows(engine, {"results": given}, "results", ("title", "href", "body"))
    return rows[:count]


def _rows(engine: str, answer: object, name: str, fields: tuple[str, str, str]) -> list[Found]:
    """Return what stands in a list of the answer. Raises SearchFailed where the answer has another shape."""
    listed: object = cast("Mapping[str, object]", answer).get(name, []) if isinstance(answer, Mapping) else None
    if not isinstance(listed, list):
        raise SearchFailed(engine, f"its answer has no list {name!r}", "output")
    rows = (cast("Mapping[str, object]", row) for row in cast("list[object]", listed) if isinstance(row, Mapping))
    found = ([str(row.get(field) or "") for field in fields] for row in rows)
    return [Found(title=title, url=url, text=text[:_TEXT_LETTERS_MAX]) for title, url, text in found if url]


# --- services with a key --------------------------------------------------------------------------------------------
async def _ask(engine: str, url: str, headers: Mapping[str, str], question: Mapping[str, object]) -> object:
    import httpx2

    async with (
        httpx2.AsyncClient(timeout=httpx2.Timeout(SEARCH_S, connect=PAGE_CONNECT_S)) as client,
        client.stream("POST", url, headers=dict(headers), json=dict(question)) as response,
    ):
        body = await _read(response, engine)
        if response.status_code >= _FAILED:
            _refuse(engine, response, _masked(body, headers))
    try:
        return json.loads(body)
    except ValueError as error:
        raise SearchFailed(engine, f"its answer is no JSON ({error})", "output") from None


async def _read(response: Any, engine: str) -> bytes:  # noqa: ANN401 - httpx2.Response, imported where it is used
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > PAGE_BYTES_MAX:
            raise SearchFailed(engine, f"its answer is longer than {PAGE_BYTES_MAX} bytes", "output")
    return bytes(body)


def _masked(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return an answer without the key: some services say it back."""
    for value in headers.values():
        body = body.replace(value.rpartition(" ")[2].encode(), b"***")
    return body


def _refuse(engine: str, response: Any, body: bytes) -> None:  # noqa: ANN401 - httpx2.Response
    """Raise for an answer with a status of an error; the classifier reads status, headers and body."""
    import httpx2

    if engine == "tavily" and response.status_code in _SPENT:
        raise SearchFailed(engine, f"the plan is used up ({response.status_code}); raise its limit or wait", "quota")
    kept = {name: value for name, value in response.headers.items() if name in _TELLING}
    told = httpx2.Response(response.status_code, headers=kept, content=body, request=response.request)
    text = body[:_TEXT_LETTERS_MAX].decode("utf-8", "replace")
    raise httpx2.HTTPStatusError(
        f"{engine} answers {response.status_code}: {text}", request=response.request, response=told
    )


_TELLING: Final = frozenset({"content-type", "retry-after", "retry-after-ms", "x-should-retry"})


# --- public engines -------------------------------------------------------------------------------------------------
def _ask_ddgs(query: str, count: int) -> list[dict[str, Any]]:
    """Ask by the library `ddgs`, which has no coroutines."""
    import ddgs
    from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

    library: Any = ddgs  # its class has no types that can be read
    try:
        return cast("list[dict[str, Any]]", library.DDGS(timeout=_ENGINE_S).text(query, max_results=count))
    except RatelimitException as error:
        raise SearchFailed("ddgs", f"too many searches: {error}", "throttled") from error
    except TimeoutException as error:
        raise SearchFailed("ddgs", f"no engine answered in time: {error}", "timeout") from error
    except DDGSException as error:
        if str(error) == _NOTHING:
            return []
        raise SearchFailed("ddgs", f"no engine could be asked: {error}", "capacity") from error
