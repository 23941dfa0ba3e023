"""A service that speaks OpenAI's chat completions, scripted, in a process of its own: for tests of everything above.

    with ModelServer(script) as server:
        … base_url=server.base_url …
        assert [] == server.problems()
        assert [1, 1] == [request["served"] for request in server.requests()]

`script` is a function of a module (`Asked` → `Answer`), or a list: the answer of each turn, or a list of them for a
turn, one for each time that the same request comes. What it answers follows from the request alone (`Asked.turn`,
`Asked.goal`, `Asked.seen`), so a resumed agent meets the same service. Every request's history is judged as a strict
provider would (`history.py`): what is not valid is answered with 400, and noted. `stop` and `start` keep port and log.

Histories are judged in chat completions only. It streams in the dialects of Anthropic and Google and in OpenAI's
responses too (`dialects.py`); to other paths it can answer errors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import http.server
import importlib
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from tests.agent.dialects import dialect_of, events_of, turns_in
from tests.agent.history import problems_of

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 20.0
LIFE_S: Final = 900.0  # a server that was forgotten ends by itself
BODY_BYTES_MAX: Final = 64 << 20
MODEL: Final = "scripted-1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What the service does with a request."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()  # (name, arguments); arguments that are a text go out as they are
    finish: str = ""  # "": "tool_calls" with calls, else "stop"; "-": the stream ends without one
    refusal: str = ""
    thinking: str = ""  # in the dialects that have it
    usage: tuple[int, int] | None = None  # tokens in, out; None: a quarter of the letters, and 4 for each message
    status: int = 200
    body: str | None = None  # sent as it is instead of all else; what it is stands in `headers`
    error: dict[str, Any] | None = None  # the body's "error" where the status is none of success, or where a cut is
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    delay_s: float = 0.0  # before anything is answered
    piece_delay_s: float = 0.0  # before each piece of a stream
    cut_after: int = -1  # so many pieces, then `error`, or a reset of the connection; -1: all


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """A request, as a script looks at it."""

    body: dict[str, Any]
    path: str = "/v1/chat/completions"
    seen: int = 0  # how often the same request has come before

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation."""
        return self.body.get("messages") or []

    @property
    def turn(self) -> int:
        """How many replies of the model are in the conversation."""
        return turns_in(self.body)

    @property
    def goal(self) -> str:
        """What the first user message says."""
        return next((text_of(message) for message in self.messages if message.get("role") == "user"), "")

    @property
    def system(self) -> str:
        """What the system messages say."""
        return "\n".join(text_of(each) for each in self.messages if each.get("role") in {"system", "developer"})

    @property
    def last(self) -> str:
        """What the last message says."""
        return text_of(self.messages[-1]) if self.messages else ""

    @property
    def results(self) -> list[str]:
        """What the calls of the last reply brought, in order; empty where a user has spoken since."""
        found: list[str] = []
        for message in reversed(self.messages):
            if message.get("role") != "tool":
                break
            found.insert(0, text_of(message))
        return found

    @property
    def tools(self) -> list[str]:
        """Names of the tools on offer."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or []]


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, whether it is one text or parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


Script = Callable[[Asked], Answer] | Sequence[Answer | Sequence[Answer]]


class ModelServer:
    """The service, seen from the test. With `key`, requests that do not carry it are answered with 401."""

    def __init__(self, script: Script, *, key: str = "", keeps_bodies: bool = True) -> None:
        self.key = key
        self.keeps_bodies = keeps_bodies  # a conversation of thousands of turns is better not noted whole at each turn
        self.port = 0
        self._folder = tempfile.TemporaryDirectory(prefix="modelserver-")
        self._log = Path(self._folder.name) / "log.jsonl"
        self._log.touch()
        self._script = _named(script, Path(self._folder.name) / "script.json")
        self._process: subprocess.Popen[bytes] | None = None
        self._rows: list[dict[str, Any]] | None = None  # of a server that has ended

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._rows = self.requests()
        self._folder.cleanup()

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process, on the same port as before."""
        command = [sys.executable, "-m", "tests.agent.modelserver", self._script, str(self.port), str(self._log)]
        environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "MODELSERVER_KEY": self.key}
        environ["MODELSERVER_BODIES"] = "1" if self.keeps_bodies else ""
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environ)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_S)
        line = self._process.stdout.readline() if ready else b""
        assert line, "the model server did not start"
        self.port = int(line)

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def requests(self) -> list[dict[str, Any]]:
        """Return what came, in order.

        Each: `number`, `connection` (the client's port), `path`, `key` (digest of the whole request), `turn`, `goal`,
        `seen`, `problems`, `status`, `stream`, `messages` (count), `model`, `offers` (names), `bytes`, `body`, and
        `served`: 1 once the answer was sent to its end.
        """
        if self._rows is not None:
            return self._rows
        rows: dict[int, dict[str, Any]] = {}
        for line in self._log.read_text("utf-8").splitlines():
            row = json.loads(line)
            rows.setdefault(row["number"], {"served": 0}).update(row)
        return [rows[number] for number in sorted(rows)]

    def problems(self) -> list[tuple[int, str]]:
        """Return what was wrong with histories: (number of the request, what)."""
        return [(row["number"], problem) for row in self.requests() for problem in row["problems"]]

    def served(self) -> Counter[str]:
        """Return how often each request was answered to its end with success, by key."""
        return Counter(row["key"] for row in self.requests() if row["served"] and row["status"] == 200)


def _named(script: Script, file: Path) -> str:
    if callable(script):
        assert "<locals>" not in script.__qualname__, "a script is a function of a module: its server imports it"
        return f"{script.__module__}:{script.__qualname__}"
    turns = [[turn] if isinstance(turn, Answer) else list(turn) for turn in script]
    file.write_text(json.dumps([[dataclasses.asdict(answer) for answer in turn] for turn in turns]))
    return str(file)


# --- the process ------------------------------------------------------------------------------------------------------
def _loaded(script: str) -> Callable[[Asked], Answer]:
    if not script.endswith(".json"):
        module, _, name = script.partition(":")
        found: Any = importlib.import_module(module)
        return functools.reduce(getattr, name.split("."), found)
    turns = [
        [Answer(**{**answer, "calls": tuple(map(tuple, answer["calls"]))}) for answer in turn]
        for turn in json.loads(Path(script).read_text("utf-8"))
    ]

    def answer(asked: Asked) -> Answer:
        turn = turns[min(asked.turn, len(turns) - 1)]
        return turn[min(asked.seen, len(turn) - 1)]

    return answer


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, script: Callable[[Asked], Answer], log: str) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.script = script
        self.key = os.environ.get("MODELSERVER_KEY", "")
        self.keeps_bodies = bool(os.environ.get("MODELSERVER_BODIES"))
        self._lock = threading.Lock()
        rows = [json.loads(line) for line in Path(log).read_text("utf-8").splitlines()]
        self._number = max((row["number"] for row in rows), default=0)
        self._seen = Counter(row["key"] for row in rows if "key" in row)
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed are what this server is for: nothing to say."""

    def came(self, key: str) -> tuple[int, int]:
        """Return the number of a request, and how often the same has come before."""
        with self._lock:
            self._number += 1
            self._seen[key] += 1
            return self._number, self._seen[key] - 1

    def note(self, row: Mapping[str, Any]) -> None:
        """Write one line of the log, in one go."""
        os.write(self._log, json.dumps(row).encode() + b"\n")


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing: the log is a file."""

    def do_GET(self) -> None:
        """List the models."""
        listed = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]}
        self._send(200, json.dumps(listed).encode(), {})

    def do_POST(self) -> None:
        """Answer one request by the script."""
        size = min(int(self.headers.get("Content-Length") or 0), BODY_BYTES_MAX)
        raw = self.rfile.read(size)
        if len(raw) < size:  # the client was killed while it was asking: that is no request
            self.close_connection = True
            return
        body = json.loads(raw or b"{}")
        key = hashlib.sha256(json.dumps([self.path, body], sort_keys=True).encode()).hexdigest()[:16]
        number, seen = self.server.came(key)
        asked = Asked(body=body, path=self.path, seen=seen)
        is_chat = dialect_of(self.path) == "chat"
        problems = problems_of(body) if is_chat else []
        answer = self._decide(asked, problems, is_chat=is_chat)
        row = {"number": number, "path": self.path, "key": key, "seen": seen, "problems": problems, "bytes": len(raw)}
        if self.server.keeps_bodies:
            row["body"] = body
        told = {"turn": asked.turn, "goal": asked.goal, "model": body.get("model"), "stream": bool(body.get("stream"))}
        row["connection"] = self.client_address[1]
        counts = {"messages": len(asked.messages), "offers": asked.tools if is_chat else [], "status": answer.status}
        self.server.note({**row, **told, **counts})
        time.sleep(answer.delay_s)
        self._number = number
        self._answer(answer, asked, key)

    def _decide(self, asked: Asked, problems: list[str], *, is_chat: bool) -> Answer:
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            error = {"message": "Incorrect API key provided.", "code": "invalid_api_key"}
            return Answer(status=401, error={**error, "type": "invalid_request_error"})
        if problems:
            return Answer(status=400, error={"message": problems[0], "type": "invalid_request_error", "code": None})
        answer = self.server.script(asked)
        if not dialect_of(self.path) and answer.status == 200:
            return Answer(status=404, error={"message": f"no such path: {self.path}", "type": "not_found_error"})
        return answer

    def _answer(self, answer: Answer, asked: Asked, key: str) -> None:
        if answer.body is not None:
            self._send(answer.status, answer.body.encode(), answer.headers)
        elif answer.status != 200:
            error = answer.error or {"message": f"scripted {answer.status}", "type": "scripted_error", "code": None}
            self._send(answer.status, json.dumps({"error": error}).encode(), answer.headers)
        elif asked.body.get("stream") or dialect_of(self.path) == "google":
            self._stream(answer, asked, key)
        elif answer.cut_after >= 0:
            self._reset()
        else:
            self._send(200, json.dumps(_completion(answer, asked, key)).encode(), answer.headers)

    def _stream(self, answer: Answer, asked: Asked, key: str) -> None:
        self.send_response(200)
        headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        events = _events(answer, asked, key)
        for count, event in enumerate(events):
            if count == answer.cut_after:
                if answer.error:
                    self._piece(f"data: {json.dumps({'error': answer.error})}\n\n".encode())
                    self._piece(b"")
                else:
                    self._reset()
                return
            time.sleep(answer.piece_delay_s)
            if count + 1 == len(events):  # before the last one: a client that has it may ask at once
                self._note_served()
            self._piece(event)
        self._piece(b"")

    def _note_served(self) -> None:
        self.server.note({"number": self._number, "served": 1})

    def _piece(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def _reset(self) -> None:
        """Cut the connection, so that the client sees it."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.close()

    def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "POST":
            self._note_served()
        self.wfile.write(content)


def _events(answer: Answer, asked: Asked, key: str) -> list[bytes]:
    """Return the pieces of a stream; the last one ends it."""
    dialect = dialect_of(asked.path)
    if dialect != "chat":
        return list(events_of(dialect, answer, key, answer.usage or (100, 10)))
    return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in _chunks(answer, asked, key)] + [b"data: [DONE]\n\n"]


def _calls(answer: Answer, key: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{key[:8]}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(answer.calls)
    ]


def _usage(answer: Answer, asked: Asked) -> dict[str, int]:
    said = answer.text + "".join(json.dumps(call) for call in answer.calls)
    heard = sum(4 + len(text_of(each) + json.dumps(each.get("tool_calls", ""))) // 4 for each in asked.messages)
    tokens_in, tokens_out = answer.usage or (
        heard + len(json.dumps(asked.body.get("tools", ""))) // 4,
        len(said) // 4 + 1,
    )
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.calls else "stop")


def _completion(answer: Answer, asked: Asked, key: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal or None}
    if answer.calls:
        message["tool_calls"] = _calls(answer, key)
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
    head = {"id": f"chatcmpl-{key}", "object": "chat.completion", "created": 1, "model": asked.body.get("model")}
    return {**head, "choices": [choice], "usage": _usage(answer, asked)}


def _chunks(answer: Answer, asked: Asked, key: str) -> Iterator[dict[str, Any]]:
    head = {"id": f"chatcmpl-{key}", "object": "chat.completion.chunk", "created": 1, "model": asked.body.get("model")}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in re.findall(r"\s*\S+\s*|\s+", answer.text):
        yield chunk({"content": piece})
    if answer.refusal:
        yield chunk({"refusal": answer.refusal})
    for place, call in enumerate(_calls(answer, key)):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        function = {"name": call["function"]["name"], "arguments": arguments[:half]}
        yield chunk({"tool_calls": [{**call, "index": place, "function": function}]})
        yield chunk({"tool_calls": [{"index": place, "function": {"arguments": arguments[half:]}}]})
    if answer.finish != "-":
        yield chunk({}, _finish(answer))
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(answer, asked)}


def _end_with_parent() -> None:
    """Leave when whoever started this is gone, or after a long while."""
    select.select([sys.stdin], [], [], LIFE_S)
    os._exit(0)


def serve(script: str, port: str, log: str) -> None:
    """Serve until killed; the port is the first line of output."""
    server = _Server(int(port), _loaded(script), log)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    from tests.agent import modelserver  # so that a script's classes are those of this module

    modelserver.serve(*sys.argv[1:])
