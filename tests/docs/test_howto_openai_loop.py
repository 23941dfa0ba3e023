"""The page about a home-made OpenAI loop does what it says: the real SDK, a scripted server, a kill at every turn."""

import asyncio
import contextlib
import difflib
import json
import os
import queue
import signal
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import perdure
from perdure.engine.loading import entries
from perdure.model.entry import ActionIntended
from tests.docs import lives, pages

pytest.importorskip("openai", reason="the openai package is not installed: the page about it is not run")

PAGE = pages.ROOT / "docs" / "how-to" / "under-an-openai-loop.md"
CHANGES_MAX = 15
REQUESTS_MAX = 2000
TURNS = 4  # of these, the last gives the answer
BOOKED = {"train-0 monday": 1, "room-0 monday": 1, "train-1 monday": 1, "train-2 monday": 1, "room-2 monday": 1}
PRINTED = "5 bookings made\n"


class Model:
    """A scripted model: knows from the history which turn it is, calls tools in all turns but the last."""

    def __init__(self, turns):
        self.turns = turns
        self.asked = Counter()  # turn -> how often
        self.seen = []  # the last history that it was shown
        self.kill_at = -1  # turn in which whoever asks is killed, once
        self.victims = queue.Queue()  # pids of those who may ask

    def answer(self, history):
        """Return (status, body) for a history; a call without its answer is refused, as real servers do."""
        turn = sum(message["role"] == "assistant" for message in history)
        self.asked[turn] += 1
        self.seen = history
        if turn == self.kill_at:
            self.kill_at = -1
            os.kill(self.victims.get(timeout=10), signal.SIGKILL)
        called = [call["id"] for message in history for call in message.get("tool_calls", ())]
        answered = [message["tool_call_id"] for message in history if message["role"] == "tool"]
        if called != answered or self.asked.total() > REQUESTS_MAX:
            return 400, {"error": {"message": f"called {called}, answered {answered}"}}
        return 200, completion(self.message(turn, len(answered)))

    def message(self, turn, booked):
        """Return what the model says in a turn; its call ids are unique within one message only."""
        if turn == self.turns - 1:
            return {"role": "assistant", "content": f"{booked} bookings made"}
        things = ["train", "room"] if turn % 2 == 0 else ["train"]
        calls = [
            {
                "id": f"call_{place}",
                "type": "function",
                "function": {"name": "book", "arguments": json.dumps({"what": f"{thing}-{turn}", "day": "monday"})},
            }
            for place, thing in enumerate(things)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}


def completion(message):
    """Return a message as the body of an answer."""
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "gpt-5", "choices": [choice]}


class Door(BaseHTTPRequestHandler):
    """Hands requests to the model of its server."""

    timeout = 10
    protocol_version = "HTTP/1.1"

    def handle(self):
        """Answer whoever is there; a killed one hangs up at any time."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_POST(self):
        """Answer one question."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, body = self.server.model.answer(request["messages"])
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format, *args):  # noqa: A002 - the name of the base class
        """Say nothing."""


@contextlib.contextmanager
def serving(turns=TURNS):
    """Give (model, environment): a model behind a server on this machine, and how the SDK finds it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        server.daemon_threads = True
        server.block_on_close = False
        server.model = Model(turns)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield server.model, {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def nursery():
    """Run programs with perdure and the SDK imported."""
    with lives.nursery(
        "perdure.sync", "perdure.engine.opening", "perdure.stores.sqlite", "openai.resources.chat"
    ) as on:
        yield on


def programs(name):
    """Return the texts of the page that are saved under a name, in order."""
    return [block.text for block in pages.blocks_of(PAGE) if block.name == name]


def settle_in(folder, version):
    """Save one version of the loop (0: before, 1: after) in a folder made for it."""
    folder.mkdir()
    (folder / "chat.py").write_text(programs("chat.py")[version], "utf-8")
    (folder / "travel.py").write_text(programs("travel.py")[0], "utf-8")
    return folder


def bookings(folder):
    """Return how often each thing was booked."""
    path = folder / "bookings.txt"
    return Counter(line.split(" ", 1)[1] for line in path.read_text().splitlines()) if path.exists() else Counter()


def killed_in(turn, nursery, folder):
    """Kill a run while the model thinks in `turn`, start it again; return (model, second run)."""
    with serving() as (model, environment):
        model.kill_at = turn
        assert nursery.live(folder, "chat.py", "to the sea", begun=model.victims.put, **environment).killed
        return model, nursery.live(folder, "chat.py", "to the sea", **environment)


def test_few_lines_change():
    """At most fifteen lines are changed, added or taken out, as many as the page says."""
    before, after = (text.splitlines() for text in programs("chat.py"))
    pieces = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changed = sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in pieces if kind != "equal")
    assert changed <= CHANGES_MAX
    assert f"changes {changed} lines" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("version", [0, 1], ids=["before", "after"])
def test_undisturbed_both_do_the_same(version, nursery, tmp_path):
    """Each turn is asked once, each thing is booked once."""
    folder = settle_in(tmp_path / "chat", version)
    with serving() as (model, environment):
        run = nursery.live(folder, "chat.py", "to the sea", **environment)
    assert (0, PRINTED) == (run.code, run.printed), run
    assert (dict.fromkeys(range(TURNS), 1), BOOKED) == (model.asked, bookings(folder))


def test_killed_before_it_pays_and_books_again(nursery, tmp_path):
    """The home-made loop asks all turns before the kill again, and books again what was booked."""
    model, _ = killed_in(3, nursery, folder := settle_in(tmp_path / "chat", 0))
    assert (dict.fromkeys(range(TURNS), 2), dict.fromkeys(BOOKED, 2)) == (model.asked, bookings(folder))


@pytest.mark.parametrize("turn", range(TURNS))
def test_killed_after_in_any_turn_it_asks_only_that_turn_again(turn, nursery, tmp_path):
    """Killed while the model thinks, ours asks that question again and no other; each thing is booked once."""
    model, run = killed_in(turn, nursery, folder := settle_in(tmp_path / "chat", 1))
    assert (0, PRINTED) == (run.code, run.printed), run
    assert {**dict.fromkeys(range(TURNS), 1), turn: 2} == model.asked
    assert BOOKED == bookings(folder)


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_after_at_any_line_nobody_can_tell(every, nursery, tmp_path):
    """Killed at any moment of its lines: the same answer, history and bookings; at most one question asked again."""
    with serving() as (model, environment):
        first = nursery.live(settle_in(tmp_path / "0", 1), "chat.py", "x", files=("chat.py",), **environment)
        history = model.seen
        assert first.moments > 30
        for number in range(1, first.moments + 1, every):
            model.asked.clear()
            folder = settle_in(tmp_path / str(number), 1)
            killed = nursery.live(folder, "chat.py", "x", files=("chat.py",), kill_at=number, **environment)
            run = nursery.live(folder, "chat.py", "x", **environment)
            assert (True, 0, PRINTED) == (killed.killed, run.code, run.printed), (number, run)
            assert (history, BOOKED) == (model.seen, bookings(folder)), number
            assert (True, TURNS) == (model.asked.total() <= TURNS + 1, len(model.asked)), (number, model.asked)


def test_a_turn_writes_the_same_bytes_however_long_the_history(nursery, tmp_path):
    """Each question's arguments are as many bytes in the journal, but for longer numbers in them."""
    folder = settle_in(tmp_path / "chat", 1)
    with serving(turns=20) as (model, environment):
        assert 0 == nursery.live(folder, "chat.py", "to the sea", **environment).code
    assert len(json.dumps(model.seen)) > 5_000
    sizes = asyncio.run(sizes_of_arguments(folder / "perdure.db", "ask"))
    assert 20 == len(sizes)
    assert max(sizes) <= min(sizes) + 4, sizes


async def sizes_of_arguments(path, tool):
    """Return how many bytes the arguments of each call of a tool take in the journal."""
    async with perdure.open(path) as runtime:
        task = (await runtime.store.find("journey")).task
        intents = [
            entry.payload async for entry in entries(runtime.store, task) if isinstance(entry.payload, ActionIntended)
        ]
    return [len(intent.arguments) for intent in intents if intent.tool == tool]
