"""What the tests of the log are made of: journals written entry by entry, sets of files, and a small schema check.

Called by the tests in this folder only.
"""

import asyncio
import hashlib
import json
import re

from perdure.codec import leaves
from perdure.codec.entries import pack
from perdure.logs.copying import Copier
from perdure.logs.lines import Joiner, line_bytes
from perdure.logs.reading import Record, find_set, read_set
from perdure.logs.schema import read_schema
from perdure.logs.scroll import LogFiles, folder_of
from perdure.logs.walking import walk
from perdure.model import entry as e
from perdure.model.effect import PRESETS
from perdure.model.entry import Driver, Header, Raw
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Append
from perdure.stores.memory import MemoryStore, MemoryWorld
from tests.worlds import StillClock

TASK = "0123456789abcdef" * 2
HOLDER = Holder(boot="b", pid_namespace=0, pid=1, started=1, token="0" * 32)
HEADER_BYTES = 117  # of a frame, behind its length
DAY_US = 86_400_000_000
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


def raw(value):
    """`value` as an entry holds it."""
    return Raw(leaves.encode(value, leaves.LeafWriter()))


STARTED = e.TaskStarted(name="t", goal="g", driver=Driver(kind="inline"), holder=HOLDER, state=raw({}))


def intent(action, preset="pure", **fields):
    """An intent of a tool called `tool`."""
    fields = {"arguments": raw({"n": 1}), "digest": b"d", **fields}
    return e.ActionIntended(action=action, tool="tool", effect=PRESETS[preset], **fields)


def settled(action, at, **fields):
    """The successful outcome of `action`, whose intent is entry `at`."""
    return e.ActionSettled(action=action, intent=at, **{"outcome": "succeeded", "result": raw(2)} | fields)


class Journal:
    """One task in a store of its own, written entry by entry, one second of its time each."""

    def __init__(self, task=TASK, *payloads):
        self.clock = StillClock()
        self.store = MemoryStore(MemoryWorld(), self.clock)
        self.task = task
        self.seq = 0
        self.at = 1_700_000_000_000_000
        self._prev = bytes(32)
        self._summary = TaskSummary(task=task, name="t", goal="g", status="running", driver="inline")
        asyncio.run(self.store.create(self._summary, HOLDER))
        self.write(STARTED, *payloads)

    def write(self, *payloads, ends=False, kind=0):
        """Append the entries, each alone; `kind`: as if of that kind, which no version knows."""
        for payload in payloads:
            self.seq += 1
            self.at += 1_000_000
            place = Header(self.task, self.seq, 1, self.at, 0, 0, 0, 0, 0, self._prev, b"")
            frame, digest = pack(payload, place, bytes(16))
            if kind:
                frame = frame[:5] + kind.to_bytes(2) + frame[7:]
                digest = hashlib.sha256(frame[4 : 4 + HEADER_BYTES]).digest()
            summary = TaskSummary(
                task=self.task, name="t", goal="g", status="succeeded" if ends else "running", driver="inline"
            )
            append = Append(
                expected_seq=self.seq - 1, epoch=1, frames=frame, last_seq=self.seq, last_digest=digest,
                prev_digest=self._prev, summary=summary,
            )  # fmt: skip
            asyncio.run(self._append(append))
            self._prev = digest
        return self

    async def _append(self, append):
        await self.store.append(self.task, append)

    def notes(self, number, size=100):
        """Append so many notes of that many bytes."""
        return self.write(*(e.NoteWritten(text=f"{self.seq + n:06d}".ljust(size, ".")) for n in range(number)))

    def lines(self):
        """All lines that the journal has, as bytes."""

        async def read():
            joiner = Joiner(self.store, self.task)
            made = [await joiner.take(step) async for step in walk(self.store, self.task)]
            return [line_bytes(line) for line in made if line is not None]

        return asyncio.run(read())


class Place:
    """A folder for log files."""

    def __init__(self, path, **limits):
        self.files = LogFiles(path=str(path), **{"file_bytes": 2_000, "files_max": 1_000, **limits})

    @property
    def folder(self):
        """Where the set of the one task is."""
        return folder_of(self.files.path, TASK, "t")

    def copy(self, journal):
        """Bring the files up to the journal, as one process would; return whether they are."""

        async def once():
            copier = Copier(journal.store, self.files, journal.clock)
            try:
                return await copier.copy(journal.task, "t")
            finally:
                await copier.close()

        return asyncio.run(once())

    def read(self):
        """All lines of the files, as bytes."""
        return [found.raw for found in read_set(find_set(self.files.path, "t")) if isinstance(found, Record)]


SCHEMA = json.loads(read_schema())


def complaints(value, schema=SCHEMA, path="line"):
    """What is wrong with `value` by the keywords that our schema uses; a field that it does not name is wrong too."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    found = []
    if "type" in schema and (
        not isinstance(value, TYPES[schema["type"]]) or (value is True and schema["type"] == "integer")
    ):
        return [f"{path} is no {schema['type']}: {value!r}"]
    if "const" in schema and value != schema["const"]:
        found.append(f"{path} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path} is none of {schema['enum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{path} does not match: {value!r}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{path} is below {schema['minimum']}")
    found += [f"{path} lacks {name}" for name in schema.get("required", ()) if name not in value]
    for name, inner in schema.get("properties", {}).items():
        if isinstance(value, dict) and name in value:
            found += complaints(value[name], inner, f"{path}.{name}")
    if schema is SCHEMA:
        found += [f"{path}.{name} is not named by the schema" for name in value if name not in schema["properties"]]
    if "not" in schema and not complaints(value, schema["not"], path):
        found.append(f"{path} has what it must not have")
    for word, right in (("oneOf", (1,)), ("anyOf", range(1, 99))):
        if word in schema and sum(not complaints(value, one, path) for one in schema[word]) not in right:
            found.append(f"{path}: {word} does not hold")
    return found
