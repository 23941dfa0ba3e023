"""Every cell of the effects table, played: a real program, killed by SIGKILL at a crash point, against a real service.

The service is another process and is reached over HTTP; it honours keys at one address and knows none at the other. The
tools that are keyed use the first, all others the second, which must never get a second call without a person's word
(but for `free` and `restore`, which declare that it does no harm). Runs are forked children of this process.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
import traceback
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

import perdure
from perdure.core.effects_table import POINTS, RESUME, combinations
from perdure.engine import crashpoints
from perdure.errors import NeedsHuman
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Succeeded

CELLS = list(itertools.product(combinations(), range(len(POINTS))))
UNDOS = [cell for cell in combinations() if cell[1] == "function"]
ROWS = {row.retry: row for row in RESUME}


# --- the service --------------------------------------------------------------------------------------------------
class Desk(BaseHTTPRequestHandler):
    """Takes orders in: `/keyed/…` drops a second one under the same key, `/plain/…` does what it is told."""

    seen: ClassVar = {}

    def do_POST(self):
        """One call: note it, and do it, unless its key is known and honoured."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        book = self.seen.setdefault(order["book"], {"calls": 0, "keys": [], "done": 0, "undone": 0})
        is_known = self.path == "/keyed" and order["key"] in book["keys"]
        book["keys"].append(order["key"])
        book["calls"] += order["what"] == "do"
        if not is_known:
            book["done" if order["what"] == "do" else "undone"] += 1
        self._say(book)

    def do_GET(self):
        """What a book holds."""
        self._say(self.seen.get(self.path[1:], {"calls": 0, "keys": [], "done": 0, "undone": 0}))

    def _say(self, book):
        raw = json.dumps(book).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        """Keep quiet."""


@pytest.fixture(scope="module")
def service():
    """The address of the service, in a process of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    child = os.fork()
    if not child:
        server.serve_forever()
    server.socket.close()
    yield f"http://127.0.0.1:{server.server_port}"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def ask(address, path, order=None):
    """Send an order, or look into a book."""
    data = None if order is None else json.dumps(order).encode()
    with urllib.request.urlopen(f"{address}/{path}", data, timeout=5) as answer:
        return json.loads(answer.read())


# --- the program --------------------------------------------------------------------------------------------------
def make_program(address, retry, undo):
    """Return a program that makes one call of such a tool behind a checkpoint."""
    path = "keyed" if retry == "keyed" else "plain"

    async def take_back(book: str, key: perdure.EffectKey) -> None:
        ask(address, "keyed", {"book": book, "key": key, "what": "undo"})

    async def keyed(book: str, key: perdure.EffectKey) -> str:
        ask(address, path, {"book": book, "key": key, "what": "do"})
        return "done"

    async def plain(book: str) -> str:
        ask(address, path, {"book": book, "key": "", "what": "do"})
        return "done"

    def probe(book: str) -> object:
        return "done" if ask(address, book)["done"] else False

    options = {"undo": undo} if undo != "function" else {"undo": perdure.tool(effect="idempotent")(take_back)}
    options |= {"probe": probe} if retry == "probe" else {}
    tool = perdure.tool(retry=retry, name="order", timeout_s=0.2, **options)(keyed if retry == "keyed" else plain)

    async def program(task, book):
        await task.checkpoint("before")
        return await task.using(key="order").act(tool, book)

    return program


def in_child(work):
    """Do `work` in a forked child; return "killed", or what it returned."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, json.dumps(asyncio.run(work())).encode())
        except BaseException:  # noqa: BLE001 - a child tells, and never goes back into pytest
            traceback.print_exc(file=sys.stderr)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        told = said.read()
    _, status = os.waitpid(child, 0)
    return "killed" if os.WIFSIGNALED(status) else json.loads(told)


def life(store, program, book, *, dies_at="", rolls_back=False):
    """Return the work of one process: it goes on with the task; asked about an effect, a person looks and settles."""
    from tests.worlds import Play

    async def live():
        asked = 0
        async with perdure.open(store) as runtime:
            if rolls_back:
                await runtime.rollback("job", "before", carry=True, program=Play(program))
            crashpoints.arm(dies_at)
            for _ in range(3):
                try:
                    result = (
                        await runtime.resume("job", Play(program))
                        if asked
                        else await runtime.run(Play(program), "job", args={"book": book[1]})
                    )
                except NeedsHuman:
                    asked += 1
                    fold = await _fold(runtime)
                    for action in list(fold.ledger.open):
                        happened = ask(*book)["done"] > ask(*book)["undone"]
                        no = Failed(ErrorRecord(type="No", message="it did not"))
                        await runtime.settle("job", action, Succeeded("done") if happened else no)
                else:
                    return {"result": result, "asked": asked}
        return {"result": None, "asked": asked}

    return live


async def _fold(runtime):
    from perdure.engine.loading import load_fold

    return await load_fold(runtime.store, (await runtime.store.find("job")).task)


def play(service, folder, cell, *, rolls_back=False, second=""):
    """Kill the program in a cell, let it go on; return how it ended and what the service has seen."""
    (retry, undo), point = cell
    folder.mkdir()
    program, store = make_program(service, retry, undo), folder / "p.db"
    book = (service, f"{folder.parent.name}-{folder.name}")
    assert "killed" == in_child(life(store, program, book, dies_at=f"{POINTS[point]}:1"))
    if second:
        assert "killed" == in_child(_undoing(store, program, second))
    ended = in_child(life(store, program, book, rolls_back=rolls_back and not second))
    return ended, ask(*book)


def _undoing(store, program, second):
    from tests.worlds import Play

    async def go_back():
        crashpoints.arm(second)
        async with perdure.open(store) as runtime:
            await runtime.rollback("job", "before", carry=True, program=Play(program))

    return go_back


def _played(cells, tmp_path, play_one):
    found = {cell: play_one(cell, tmp_path / str(number)) for number, cell in enumerate(cells)}
    assert found
    return found


def test_every_cell_of_the_table_at_a_resume(service, tmp_path):
    """The service has seen as many calls as the table says, the effect is there once, and who was asked was to be."""
    found = _played(CELLS, tmp_path, lambda cell, folder: play(service, folder, cell))
    print(f"{len(found)} cells, as many kills")
    for ((retry, undo), point), (ended, book) in found.items():
        row = ROWS[retry]
        where = (retry, undo, POINTS[point])
        assert (where, row.calls[point], "done") == (where, book["calls"], ended["result"])
        assert (where, row.asks[point]) == (where, ended["asked"] > 0)
        if retry not in {"free", "restore"}:
            assert (where, 1) == (where, book["done"])


def test_every_cell_of_the_table_at_a_rollback(service, tmp_path):
    """Taken back, made again, or left in the world and not made again: never twice there without a person's word."""
    found = _played(CELLS, tmp_path, lambda cell, folder: play(service, folder, cell, rolls_back=True))
    print(f"{len(found)} cells, as many kills")
    for ((retry, undo), point), (ended, book) in found.items():
        where, was_sent = (retry, undo, POINTS[point]), point >= POINTS.index("after_intent")
        assert (where, "done") == (where, ended["result"])
        if undo == "function":
            assert (where, int(was_sent)) == (where, book["undone"])
        if undo == "impossible":
            assert (where, 1) == (where, book["done"])


@pytest.mark.parametrize("number", [1, 2])
def test_killed_during_the_undo_it_is_finished_and_done_once(service, tmp_path, number):
    """Before and after it; the service that takes it back sees one key."""
    cells = [(cell, POINTS.index("after_outcome")) for cell in UNDOS]
    found = _played(
        cells,
        tmp_path,
        lambda cell, folder: play(service, folder, cell, rolls_back=True, second=f"during_undo:{number}"),
    )
    print(f"{len(found)} cells, {2 * len(found)} kills")
    for cell, (ended, book) in found.items():
        assert (cell, "done", 1, 2) == (cell, ended["result"], book["undone"], book["calls"])
