"""One guarded, bounded GET, against servers on this machine that do whatever servers do."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib

import httpx2
import pytest

from perdure.core.classify import Verdict
from perdure.errors import AddressRefused, ContentRefused
from perdure.tools.recording import classify_error
from perdure.tools.web import fetching
from tests.sites import Site, redirect, response, site


def read(pages, path="/", *, host="127.0.0.1", allow_private=True, bytes_max=100_000, refusal=lambda kind: ""):
    """Fetch one page of a site; return (answer, site)."""

    async def main():
        async with site(pages) as stands:
            url = stands.url(path, host)
            answer = await fetching.fetch(
                url, accept="*/*", refusal=refusal, allow_private=allow_private, bytes_max=bytes_max
            )
            return answer, stands

    return asyncio.run(main())


def failed(pages, expected, **options) -> tuple[BaseException, Verdict]:
    """Fetch what fails; return the error and its verdict."""
    with pytest.raises(expected) as caught:
        read(pages, **options)
    return caught.value, classify_error(caught.value)


async def hang(asked, writer):
    """Take the request, and say nothing."""
    await asyncio.Event().wait()


# ---------------------------------------------------------------- what comes back


def test_an_answer_comes_with_its_type_its_charset_and_where_it_came_from():
    """After redirects, of whatever kind; the server sees its name, and that nothing else but packing is understood."""
    pages = {
        "/": redirect("/next"),
        "/next": redirect("end?x=1", status="308 Permanent Redirect"),
        "/end": response(b"<p>here", kind='Text/HTML; a=b; Charset="Latin-1"'),
    }
    answer, stands = read(pages, host="localhost")
    assert stands.url("/end?x=1", "localhost") == answer.url
    assert ("text/html", "Latin-1", b"<p>here", False) == (
        answer.content_type, answer.charset, answer.body, answer.is_cut
    )  # fmt: skip
    assert ["/", "/next", "/end"] == [asked.path for asked in stands.requests]
    headers = stands.requests[-1].headers
    assert f"localhost:{stands.port}" == headers["host"]
    assert "gzip, deflate" == headers["accept-encoding"]


def test_a_cookie_that_a_redirect_sets_is_sent_to_where_it_leads():
    """Many sites go in circles without; it lives as long as the one request."""
    pages = {"/": redirect("/next", set_cookie="seen=1"), "/next": response(b"x")}
    _, stands = read(pages)
    assert "seen=1" == stands.requests[1].headers["cookie"]


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"abc" * 1000, mtime=0)),
        ("x-gzip", gzip.compress(b"abc" * 500, mtime=0) * 2),
        ("gzip", gzip.compress(b"abc" * 1000, mtime=0) + b"\0" * 8),
        ("deflate", zlib.compress(b"abc" * 1000)),
        ("deflate", zlib.compress(b"abc" * 1000)[2:-4]),
        ("identity", b"abc" * 1000),
    ],
    ids=["gzip", "two members", "padded", "zlib", "deflate", "plain"],
)
def test_what_is_packed_is_unpacked(encoding, packed):
    """Several files in a row, bytes behind the end, and deflate as half of the web means it."""
    answer, _ = read({"/": response(packed, content_encoding=encoding)})
    assert (b"abc" * 1000, False) == (answer.body, answer.is_cut)


def test_no_more_is_read_than_wanted():
    """A page that never ends is cut at the bound."""

    async def endless(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    answer, _ = read({"/": endless}, bytes_max=25_000)
    assert (b"x" * 25_000, True) == (answer.body, answer.is_cut)


def test_a_page_of_just_the_bound_is_whole():
    """The bound itself is allowed."""
    answer, _ = read({"/": response(b"x" * 500)}, bytes_max=500)
    assert (500, False) == (len(answer.body), answer.is_cut)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_unpacked_up_to_the_bound_only(encoding, monkeypatch):
    """However small it is packed: no piece is ever unpacked further than there is room."""
    made = []
    unpack = fetching._Unpacking._unpack

    def counted(self, piece, room):
        made.append(unpack(self, piece, room))
        return made[-1]

    monkeypatch.setattr(fetching._Unpacking, "_unpack", counted)
    bomb = b"\0" * 50_000_000
    packed = gzip.compress(bomb) if encoding == "gzip" else zlib.compress(bomb)
    answer, _ = read({"/": response(packed, content_encoding=encoding)}, bytes_max=1_000)
    assert (1_000, True) == (len(answer.body), answer.is_cut)
    assert sum(map(len, made)) <= 1_001


def test_what_stands_beside_a_redirect_is_not_read():
    """A bomb there would be one too."""
    pages = {"/": redirect("/end", body=b"no gzip", content_encoding="gzip"), "/end": response(b"x")}
    assert b"x" == read(pages)[0].body


# ---------------------------------------------------------------- what fails


def test_an_answer_that_is_cut_is_a_lost_connection():
    """Fewer bytes than told: the same may be asked again."""
    _, verdict = failed({"/": response(b"half", content_length="1000")}, httpx2.RemoteProtocolError)
    assert "network" == verdict.failure_class


def test_a_packed_answer_that_is_cut_is_not_taken_for_whole():
    """Where no length is told, the packing tells."""
    packed = gzip.compress(bytes(range(256)) * 100)[:-20]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\n\r\n"
    failed({"/": head + packed}, ContentRefused)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "unheard-of"])
def test_packing_that_was_not_asked_for_is_refused(encoding):
    """It could not be unpacked within bounds."""
    error, verdict = failed({"/": response(b"x", content_encoding=encoding)}, ContentRefused)
    assert encoding in str(error)
    assert "request" == verdict.failure_class


def test_an_answer_that_is_not_packed_as_it_says_is_refused():
    """With a sentence, not with the library's error."""
    error, _ = failed({"/": response(b"plain text", content_encoding="gzip")}, ContentRefused)
    assert "not packed as it says" in str(error)


def test_a_type_that_is_not_wanted_is_refused_before_its_body_is_read():
    """The server that never sends it is not waited for."""

    async def head_only(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/pdf\r\ncontent-length: 9\r\n\r\n")
        await hang(asked, writer)

    error, verdict = failed({"/": head_only}, ContentRefused, refusal=lambda kind: f"it is {kind}")
    assert "it is application/pdf" in str(error)
    assert "request" == verdict.failure_class


def test_redirects_that_lead_on_and_on_are_left():
    """After ten."""
    error, verdict = failed({"/": redirect("/")}, AddressRefused)
    assert "over 10 redirects" in str(error)
    assert "request" == verdict.failure_class


@pytest.mark.parametrize(
    ("status", "headers", "failure_class"),
    [
        ("404 Not Found", {}, "request"),
        ("403 Forbidden", {}, "auth"),
        ("429 Too Many Requests", {"retry_after": "7"}, "throttled"),
        ("503 Service Unavailable", {}, "capacity"),
    ],
)
def test_a_status_of_an_error_is_classified_by_what_the_server_says(status, headers, failure_class):
    """Status, headers, and the beginning of the body, unpacked."""
    packed = gzip.compress(b"the reason")
    error, verdict = failed(
        {"/": response(packed, status=status, content_encoding="gzip", **headers)}, httpx2.HTTPStatusError
    )
    assert failure_class == verdict.failure_class
    assert (7.0 if headers else 0.0) == verdict.wait_s
    assert "the reason" == error.response.text


def test_an_error_whose_body_cannot_be_read_is_still_that_error():
    """The status is what counts."""
    error, _ = failed({"/": response(b"x", status="500 Oh", content_encoding="br")}, httpx2.HTTPStatusError)
    assert 500 == error.response.status_code


def test_a_server_that_says_nothing_is_left(monkeypatch):
    """After the time between two pieces of an answer: a passing fault of the network."""
    monkeypatch.setattr(fetching, "PAGE_READ_S", 0.05)
    _, verdict = failed({"/": hang}, httpx2.ReadTimeout)
    assert "network" == verdict.failure_class


def test_a_server_that_drips_is_left(monkeypatch):
    """No piece comes late, and the whole takes too long."""

    async def drip(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    monkeypatch.setattr(fetching, "PAGE_S", 0.3)
    _, verdict = failed({"/": drip}, TimeoutError)
    assert "timeout" == verdict.failure_class


def test_a_port_that_nobody_listens_on_is_a_fault_of_the_network():
    """And no answer."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def main():
        await fetching.fetch(
            f"http://127.0.0.1:{port}/", accept="*/*", refusal=lambda kind: "", allow_private=True, bytes_max=10
        )

    with pytest.raises(httpx2.ConnectError) as caught:
        asyncio.run(main())
    assert "network" == classify_error(caught.value).failure_class


# ---------------------------------------------------------------- the guard


def refused(url: str, stands: Site | None = None) -> AddressRefused:
    """Ask `url` as the agent does by default; return why it was not asked."""

    async def main():
        await fetching.fetch(url, accept="*/*", refusal=lambda kind: "", bytes_max=10)

    with pytest.raises(AddressRefused) as caught:
        asyncio.run(main())
    return caught.value


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host.example/", "//host.example/", "host.example", ""])
def test_only_addresses_of_the_web_are_asked(url):
    """Files, other schemes and what is no whole address are refused."""
    assert "http://" in str(refused(url))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254",
     "10.1.2.3", "[fe80::1]"],
)  # fmt: skip
def test_private_addresses_are_refused_however_they_are_written(host):
    """What the system makes of the name is judged, not the name."""
    assert "private network" in str(refused(f"http://{host}/"))


def test_a_name_with_one_private_address_is_refused(monkeypatch):
    """All its addresses are judged before one is asked."""
    rows = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80)),
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%1", 80, 0, 1)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: rows)
    assert "fe80::1" in str(refused("http://site.example/"))


def test_a_redirect_into_a_private_network_is_refused(monkeypatch):
    """The guard stands below the redirects: the inner page is never asked."""
    inner = response(b"secret")

    async def main():
        async with site({"/secret": inner}) as private, site({"/": redirect(private.url("/secret"))}) as public:
            monkeypatch.setattr(fetching, "is_public", lambda address: address.compressed == "127.0.0.2")
            monkeypatch.setattr(fetching, "_look_up", look_up)
            with pytest.raises(AddressRefused, match="private network"):
                await fetching.fetch(public.url("/", "site.example"), accept="*/*", refusal=lambda kind: "")
            return private.requests, public.requests

    async def look_up(url):
        return ["127.0.0.1"] if url.host == "127.0.0.1" else ["127.0.0.2"]

    monkeypatch.setattr(asyncio, "start_server", _on_every_address(asyncio.start_server))
    asked_inside, asked_outside = asyncio.run(main())
    assert [] == asked_inside
    assert 1 == len(asked_outside)


@pytest.mark.parametrize("target", ["ftp://host.example/", "file:///etc/passwd", "http://me:hunter2@127.0.0.1:9/"])
def test_a_redirect_to_what_is_not_asked_is_refused(target):
    """As if it had been given."""
    error, _ = failed({"/": redirect(target)}, AddressRefused)
    assert "hunter2" not in str(error)


def test_the_connection_goes_to_the_address_that_was_judged(monkeypatch):
    """A name that leads elsewhere a moment later leads nowhere else: it is looked up once."""
    looked = []

    async def look_up(url):
        looked.append(url.host)
        return ["127.0.0.1"] if len(looked) == 1 else ["10.0.0.1"]

    monkeypatch.setattr(fetching, "_look_up", look_up)
    _, stands = read({"/": response(b"x")}, host="site.example")
    assert ["site.example"] == looked
    assert f"site.example:{stands.port}" == stands.requests[0].headers["host"]


def test_the_next_address_is_asked_where_one_does_not_answer(monkeypatch):
    """As of a host whose addresses of version 6 lead nowhere from here."""

    async def look_up(url):
        return ["127.0.0.3", "127.0.0.1"]

    monkeypatch.setattr(fetching, "_look_up", look_up)
    assert b"x" == read({"/": response(b"x")}, host="site.example")[0].body


def test_a_name_that_nobody_knows_is_refused(monkeypatch):
    """Waiting does not make it known; a resolver that is away is a fault of the network."""

    def unknown(*args, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def away(*args, **options):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "nobody knows a host" in str(refused("http://no-such-host.example/"))
    monkeypatch.setattr(socket, "getaddrinfo", away)
    with pytest.raises(socket.gaierror) as caught:
        asyncio.run(fetching.fetch("http://site.example/", accept="*/*", refusal=lambda kind: ""))
    assert "network" == classify_error(caught.value).failure_class


def test_a_password_in_an_address_is_refused_and_not_said_again():
    """It would stand in the journal."""
    error = refused("http://me:hunter2@site.example/")
    assert "hunter2" not in str(error)


def _on_every_address(start):
    def started(connected, host, port):
        return start(connected, "0.0.0.0", port)

    return started
