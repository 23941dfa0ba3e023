"""An outside service in a process of its own: it books and cancels, and keeps count of who asked for what.

    python -m tests.crash.office        prints its port, serves on loopback until its stdin ends

Knows nothing of tasks. Each test case has a desk of its own, so that cases do not meet. `by_key` requests are dropped
where their key was seen before; others are done as often as they come.
"""

import json
import sys
import threading
import urllib.request
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DESKS: dict[str, dict[str, Any]] = defaultdict(lambda: {"booked": {}, "calls": [], "keys": []})
LOCK = threading.Lock()


class Clerk(BaseHTTPRequestHandler):
    """Answers one request: POST {"desk", "what": book | cancel | look, "name", "key"}."""

    def do_POST(self) -> None:
        """Do what is asked, note it, answer with the desk's books."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            answer = json.dumps(serve(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(asked: dict[str, str]) -> dict[str, Any]:
    """Do one request at its desk."""
    desk, what, name, key = DESKS[asked["desk"]], asked["what"], asked["name"], asked["key"]
    if what == "look":
        return desk
    desk["calls"].append([what, name])
    if key and key in desk["keys"]:
        return desk
    desk["keys"] += [key] if key else []
    desk["booked"][name] = desk["booked"].get(name, 0) + (1 if what == "book" else -1)
    return desk


def ask(port: int, desk: str, what: str, name: str = "", key: str = "") -> dict[str, Any]:
    """Send one request to the office at `port`; return the desk's books."""
    body = json.dumps({"desk": desk, "what": what, "name": name, "key": key}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", body, timeout=30) as answer:
        return json.loads(answer.read())


def main() -> None:
    """Serve until stdin ends, so that no office outlives who opened it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Clerk)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
