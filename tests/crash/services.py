"""A scripted model server and a search service with two backends, in a process of their own; both note each request.

    python -m tests.crash.services        prints its port, serves on loopback until its stdin ends

The model speaks as the chat completions of OpenAI do. It is no help until the request is right: what it says hangs on
template, order of the tools, and model of the request, and on nothing else that it remembers. Each test case has a key
of its own (`Authorization: Bearer KEY`), by which the requests are told apart. Knows nothing of tasks.
"""

import json
import sys
import threading
import urllib.request
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOCK = threading.Lock()
LOGS: dict[str, list[dict[str, Any]]] = defaultdict(list)  # by key: {"path", "body"}, in the order of their coming
PAGES = {"web": "The tower is 12 metres high.", "books": "The tower is 330 metres high."}
TIMEOUT_S = 30


class Desk(BaseHTTPRequestHandler):
    """Answers one request: POST /v1/chat/completions, POST /web/search, POST /books/search, GET /log."""

    timeout = TIMEOUT_S

    def do_POST(self) -> None:
        """Note the request and answer it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            log = LOGS[self._key()]
            log.append({"path": self.path, "body": body})
            number = len(log)
        backend = self.path.split("/")[1]
        self._answer({"hits": [PAGES[backend]]} if backend in PAGES else completion(body, number))

    def do_GET(self) -> None:
        """Answer with all requests that came under the key."""
        with LOCK:
            self._answer(LOGS[self._key()])

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _key(self) -> str:
        return str(self.headers["Authorization"]).removeprefix("Bearer ")

    def _answer(self, value: object) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def completion(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Return what the model says to a request, each time with another mark by which it is known again."""
    message = reply(body, f"reply-{number}")
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "choices": [choice], "usage": usage}


def reply(body: dict[str, Any], mark: str) -> dict[str, Any]:
    """Return a message: first a call of the first tool offered, then what hangs on the way that is gone."""
    messages = body["messages"]
    offered = [tool["function"]["name"] for tool in body["tools"]]
    is_outline = messages[0]["content"].startswith("OUTLINE")
    if not any(message["role"] == "tool" for message in messages):
        return called(offered[0], mark, "300 + 30" if offered[0] == "st_reckon" else "tower")
    if body["model"] == "large":
        return {"content": f"{mark} HEIGHT 330"}
    if is_outline:
        return called("st_reckon", mark, "1 / 0")
    if offered[0] == "st_reckon":
        return {"content": f"{mark} HEIGHT 12"}
    return {"content": f"{mark} I am not sure."}


def called(tool: str, mark: str, given: str) -> dict[str, Any]:
    """Return a message that calls a tool."""
    function = {"name": tool, "arguments": json.dumps({"given": given})}
    return {"content": None, "tool_calls": [{"id": mark, "type": "function", "function": function}]}


def ask(port: int, key: str, path: str, body: object = None) -> Any:
    """Send one request and return the answer; without a body it is a GET."""
    raw = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", raw, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read())


def main() -> None:
    """Serve until stdin ends, so that no server outlives who opened it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
