"""What is learned from a store: plain JSON, lines of the log, listing, showing, and verify under damage."""

import asyncio
import base64
import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

import perdure
from perdure.clock import SystemClock
from perdure.codec import leaves
from perdure.codec.entries import pack
from perdure.codec.known import Secret
from perdure.core import snapshots
from perdure.core.fold import FOLD_VERSION
from perdure.engine.loading import load_fold
from perdure.errors import CheckpointUnknown, Damaged, UsageError
from perdure.logs.plain import moment, to_line, to_plain
from perdure.logs.walking import walk
from perdure.model import entry as e
from perdure.model.effect import PRESETS
from perdure.model.entry import Driver, Header, Raw
from perdure.model.failure import ErrorRecord
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Append, SnapshotHead, StoredAppend
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.views.history import Selection, log_lines
from perdure.views.listing import list_tasks
from perdure.views.showing import marks_of, show, state_of
from perdure.views.verifying import verify

TASK = "0123456789abcdef" * 2
HEADER_BYTES = 117  # of a frame, behind its length
HOLDER = Holder(boot="b", pid_namespace=0, pid=1, started=1, token="0" * 32)
STARTED = e.TaskStarted(name="t", goal="g", driver=Driver(kind="inline"), holder=HOLDER, state=Raw(b"{}"))


def raw(value, writer=None):
    """`value` as an entry holds it."""
    return Raw(leaves.encode(value, writer or leaves.LeafWriter()))


def intent(action, preset="pure", **fields):
    """An intent of a tool called `tool`."""
    return e.ActionIntended(
        action=action, tool="tool", effect=PRESETS[preset], arguments=raw({"n": 1}), digest=b"d", **fields
    )


def settled(action, at, **fields):
    """The successful outcome of `action`, whose intent is entry `at`."""
    return e.ActionSettled(action=action, intent=at, **{"outcome": "succeeded", "result": raw(2)} | fields)


async def written(*payloads, blobs=(), status="running", branch_of=lambda _seq: 0):
    """A memory store that holds one task with these entries, each its own append."""
    store = MemoryStore(MemoryWorld(), SystemClock())
    summary = TaskSummary(task=TASK, name="t", goal="g", status=status, driver="inline")
    await store.create(summary, HOLDER)
    prev = bytes(32)
    for seq, payload in enumerate((STARTED, *payloads), start=1):
        place = Header(TASK, seq, 1, seq * 1_000_000, branch_of(seq), 0, 0, 0, 0, prev, b"")
        frame, digest = pack(payload, place, bytes(16))
        await store.append(
            TASK,
            Append(
                expected_seq=seq - 1, epoch=1, frames=frame, last_seq=seq, last_digest=digest, prev_digest=prev,
                blobs=tuple(blobs), summary=summary,
            ),
        )  # fmt: skip
        prev = digest
    return store


def lines_of(*payloads, **how):
    """The log of a task with these entries behind its start."""

    async def read():
        store = await written(*payloads, **how)
        return [line async for line in log_lines(store, TASK)][1:]

    return asyncio.run(read())


def stored(store):
    """The appends of the one task, to be tampered with."""
    return store._world.tasks[TASK].appends


def tamper(store, seq, change):
    """Replace the frames of the append that holds entry `seq` by `change` of them."""
    for index, one in enumerate(stored(store)):
        if one.first_seq == seq:
            stored(store)[index] = StoredAppend(seq, seq, change(bytearray(one.frames)), one.last_digest)


def flip_last_byte(frames):
    """Damage in the payload."""
    frames[-1] ^= 1
    return bytes(frames)


def findings_of(store):
    """What verify finds: (seq, what)."""
    return [(one.seq, one.what) for one in asyncio.run(verify(store, "t")).findings]


# ---------------------------------------------------------------- plain JSON


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        ([1, "a", True, 1.5], [1, "a", True, 1.5]),
        ({"a": {"b": []}}, {"a": {"b": []}}),
        ((1, (2,)), [1, [2]]),
        (b"hi", {"$bytes": "aGk="}),
        (float("nan"), {"$float": "nan"}),
        (float("-inf"), {"$float": "-inf"}),
        (2**70, {"$int": str(2**70)}),
        (-(2**70), {"$int": str(-(2**70))}),
        (Decimal("1.10"), {"$decimal": "1.10"}),
        (date(2024, 2, 29), {"$date": "2024-02-29"}),
        (datetime(2024, 2, 29, 1, 2, 3, 4, UTC), {"$datetime": "2024-02-29T01:02:03.000004+00:00"}),
        (timedelta(days=1, microseconds=5), {"$timedelta": 86400.000005}),
        (UUID(int=1), {"$uuid": "00000000-0000-0000-0000-000000000001"}),
        ({3}, {"$set": [3]}),
        (frozenset({"a"}), {"$frozenset": ["a"]}),
        ({1: "a", "1": "b"}, {"$map": [[1, "a"], ["1", "b"]]}),
        ({"$bytes": "no"}, {"$map": [["$bytes", "no"]]}),
        ({"~": ["bytes", "no"]}, {"$map": [["~", ["bytes", "no"]]]}),
        ("a\udcff\\", {"$text": "a\\udcff\\\\"}),
        (Secret("key"), {"$secret": "key"}),
    ],
)
def test_each_value_is_shown_as_plain_json(value, plain):
    """What JSON lacks becomes an object with one key that names the type; nothing can be taken for it."""
    assert plain == to_plain(bytes(raw(value)), {})
    assert plain == json.loads(to_line(plain))


def test_an_unknown_tag_is_shown_as_it_is():
    """A value of a later version does not keep the log from being read."""
    assert {"$later": [1, {"$bytes": "aGk="}]} == to_plain(b'{"~":["later",1,{"~":["bytes","aGk="]}]}', {})


def test_references_into_the_state_say_where_they_point():
    """An argument that was a view is shown as path and entry."""
    assert {"$state": {"path": ["messages", 3], "seq": 7}} == to_plain(b'{"~":["state",["messages",3],7]}', {})
    run = {"$run": {"path": ["m"], "from": 0, "to": 2, "seq": 7}}
    assert {"$list": ["a", run]} == to_plain(b'{"~":["list","a",{"~":["run",["m"],0,2,7]}]}', {})


def test_big_leaves_come_from_their_blobs_and_are_never_cut():
    """A text of 100 KB stands whole in the line; one whose blob is gone is named by its digest."""
    writer, text = leaves.LeafWriter(), "ü" * 50_000
    encoded = bytes(raw([text, b"\0" * 9_000], writer))
    assert [text, {"$bytes": base64.b64encode(b"\0" * 9_000).decode()}] == to_plain(encoded, writer.blobs)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert {"$missing_blob": digest} == to_plain(encoded, {})[0]


def test_a_line_ends_only_where_it_ends():
    """Separators that some readers split at are escaped, so that every reader finds one record (OpenViking #3984)."""
    line = to_line({"text": "a\u2028b\u2029c\x85d\x0be\x1cf\rg\nh"})
    assert 1 == len(line.decode().splitlines())
    assert "a\u2028b\u2029c\x85d\x0be\x1cf\rg\nh" == json.loads(line)["text"]


# ---------------------------------------------------------------- the log


def test_a_settled_action_is_one_line_that_stands_alone():
    """Intent and outcome are joined: inputs, result, both times, key and attempt of the call."""
    (line,) = lines_of(
        intent("A", "idempotent", key="k", effect_key="E", step="s"),
        settled("A", 2, started_at=2_500_000, duration_us=1_500, tokens_in=3, money="0.01 EUR"),
    )
    assert "digest" in line
    assert {
        "v": 1,
        "task": TASK,
        "seq": 3,
        "at": "1970-01-01T00:00:03.000000Z",
        "level": "info",
        "kind": "action_settled",
        "branch": 0,
        "id": "A",
        "action": "tool",
        "effect": "keyed/impossible",
        "inputs": {"n": 1},
        "started_at": "1970-01-01T00:00:02.500000Z",
        "key": "k",
        "effect_key": "E",
        "step": "s",
        "outcome": "succeeded",
        "result": 2,
        "ended_at": "1970-01-01T00:00:02.501500Z",
        "duration_ms": 1.5,
        "cost": {"tokens_in": 3, "money": "0.01 EUR"},
        "digest": line["digest"],
    } == line


def test_a_failed_action_says_class_type_message_and_attempts():
    """The error of a line is complete, and the line is of level error."""
    error = ErrorRecord(type="OSError", message="gone", failure_class="network", causes=("a: b",))
    again = intent("A", attempt=2)
    (line,) = lines_of(intent("A"), again, settled("A", 3, outcome="failed", result=e.NOTHING, error=error))
    expected = {"class": "network", "type": "OSError", "message": "gone", "attempts": 2, "causes": ["a: b"]}
    assert ("error", expected) == (line["level"], line["error"])
    assert "result" not in line


def test_an_open_action_gets_a_line_without_an_end():
    """What was running when the journal ends is seen, last."""
    lines = lines_of(intent("A"), intent("B", "irreversible"), settled("A", 2))
    assert [("A", "succeeded"), ("B", "open")] == [(line["id"], line["outcome"]) for line in lines]
    assert "ended_at" not in lines[1]


def test_a_doubtful_action_is_told_twice():
    """In doubt, and again when a person has settled it: both lines stand alone."""
    lines = lines_of(
        intent("A", "irreversible"),
        settled("A", 2, outcome="in_doubt", result=e.NOTHING, by="resume"),
        settled("A", 2, by="person"),
    )
    assert [("in_doubt", "resume"), ("succeeded", "person")] == [(x["outcome"], x["settled_by"]) for x in lines]
    assert [{"n": 1}] * 2 == [line["inputs"] for line in lines]


def test_actions_name_the_checkpoint_they_came_behind():
    """After a rollback that is the one it went back to."""
    lines = lines_of(
        e.CheckpointMarked(name="one"),
        e.CheckpointMarked(name="two"),
        e.RolledBackEntry(to_seq=2, checkpoint="one"),
        intent("A"),
        settled("A", 5),
        branch_of=lambda seq: int(seq > 3),
    )
    assert "one" == lines[-1]["checkpoint"]


def test_other_entries_are_one_line_each_without_empty_fields():
    """Kind and fields are those of the entry; digests in hexadecimal, values of user code as plain JSON."""
    lines = lines_of(
        e.NoteWritten(text="hi", fields=raw({"b": b"x"})),
        e.CheckJudged(name="c", passed=False),
        e.CheckpointMarked(name="p", digest=b"\x01\x02"),
        e.TaskParkedEntry(until=5_000_000),
    )
    assert [
        ("note_written", "info", {"text": "hi", "fields": {"b": {"$bytes": "eA=="}}}),
        ("check_judged", "warning", {"name": "c", "passed": False}),
        ("checkpoint_marked", "info", {"name": "p", "digest": "0102"}),
        ("task_parked", "warning", {"until": "1970-01-01T00:00:05.000000Z"}),
    ] == [(line["kind"], line["level"], line["fields"]) for line in lines]


def test_an_entry_of_a_later_version_is_shown_raw():
    """The log goes on over a kind that this version does not know."""

    async def read():
        store = await written(e.NoteWritten(text="hi"))
        (last,) = stored(store)[-1:]
        frame = bytearray(last.frames)
        frame[5:7] = (999).to_bytes(2)  # its kind
        digest = hashlib.sha256(frame[4 : 4 + HEADER_BYTES]).digest()
        stored(store)[-1] = StoredAppend(2, 2, bytes(frame), digest)
        store._world.tasks[TASK].digests[2] = digest
        return [line async for line in log_lines(store, TASK)][-1], bytes(frame[4:]), await verify(store, "t")

    line, frame, verdict = asyncio.run(read())
    assert ("unknown_999", base64.b64encode(frame).decode()) == (line["kind"], line["raw"])
    assert [(2, "unknown")] == [(one.seq, one.what) for one in verdict.findings]


def test_the_log_can_begin_behind_an_entry():
    """Actions that began before it are still joined."""

    async def read():
        store = await written(intent("A"), e.NoteWritten(text="hi"), settled("A", 2))
        return [line async for line in log_lines(store, TASK, Selection(after=3))]

    (line,) = asyncio.run(read())
    assert (4, {"n": 1}) == (line["seq"], line["inputs"])


def test_the_log_stops_at_damage_with_an_error_that_names_it():
    """What lies before is printed, then a typed error: never a silent end (claude-code #50347)."""

    async def read():
        store = await written(e.NoteWritten(text="1"), e.NoteWritten(text="2"), e.NoteWritten(text="3"))
        tamper(store, 3, flip_last_byte)
        seen = []
        try:
            async for line in log_lines(store, TASK):
                seen.append(line["seq"])  # noqa: PERF401 - what was seen before the error counts
        except Damaged as error:
            return seen, error.seq
        return seen, None

    assert ([1, 2], 3) == asyncio.run(read())


# ---------------------------------------------------------------- verify


def test_a_whole_task_is_found_whole():
    """Entries, blobs and snapshots are counted, and there is nothing to report."""

    async def look():
        writer = leaves.LeafWriter()
        note = e.NoteWritten(text="n", fields=raw({"big": "x" * 9_000}, writer))
        store = await written(note, intent("A"), settled("A", 3), blobs=writer.blobs.items())
        fold = await load_fold(store, TASK, 3)
        data = snapshots.encode_fold(fold)
        digest = snapshots.digest_of(data)
        head = SnapshotHead(seq=3, branch=0, fold_version=FOLD_VERSION, digest=digest, size=len(data))
        await store.save_snapshot(TASK, head, [data])
        return await verify(store, "t")

    verdict = asyncio.run(look())
    assert (True, 4, 1, 1) == (verdict.is_whole, verdict.entries, verdict.blobs, verdict.snapshots)


def test_all_damage_is_reported_not_only_the_first():
    """Two payloads that were changed are two findings, and what lies between them is still read."""
    store = asyncio.run(written(*(e.NoteWritten(text=str(n)) for n in range(6))))
    tamper(store, 3, flip_last_byte)
    tamper(store, 6, flip_last_byte)
    assert [(3, "chain"), (6, "chain")] == findings_of(store)
    assert 7 == asyncio.run(verify(store, "t")).entries


def test_missing_entries_are_named():
    """An append that is gone leaves a gap that is reported with its bounds."""
    store = asyncio.run(written(*(e.NoteWritten(text=str(n)) for n in range(4))))
    del stored(store)[2]
    assert [(3, "chain")] == findings_of(store)


def test_a_journal_cut_at_its_end_is_noticed():
    """What the store says is its head and what can be read must agree."""
    store = asyncio.run(written(e.NoteWritten(text="1"), e.NoteWritten(text="2")))
    tamper(store, 3, lambda frames: bytes(frames[:-5]))
    assert [(3, "chain")] == findings_of(store)[:1]


def test_a_forged_entry_is_not_linked():
    """An entry that was replaced by a well-formed other one breaks the link of the next."""

    async def forge():
        store = await written(e.NoteWritten(text="1"), e.NoteWritten(text="2"), e.NoteWritten(text="3"))
        first = stored(store)[0]
        place = Header(TASK, 2, 1, 2_000_000, 0, 0, 0, 0, 0, first.last_digest, b"")
        frame, digest = pack(e.NoteWritten(text="forged"), place, bytes(16))
        stored(store)[1] = StoredAppend(2, 2, frame, digest)
        return store

    assert [(3, "chain")] == findings_of(asyncio.run(forge()))


def test_a_missing_blob_is_reported_with_the_entry_that_names_it():
    """The chain may be whole and the value still gone."""
    writer = leaves.LeafWriter()
    note = e.NoteWritten(text="n", fields=raw({"big": "x" * 9_000}, writer))
    assert (2, "blob") in findings_of(asyncio.run(written(note)))


def test_a_changed_blob_is_reported():
    """Bytes that do not match their digest count as damage of the entry that names them."""
    writer = leaves.LeafWriter()
    note = e.NoteWritten(text="n", fields=raw({"big": "x" * 9_000}, writer))
    store = asyncio.run(written(note, blobs=writer.blobs.items()))
    (digest,) = writer.blobs
    store._world.blobs[digest] = b"other"
    assert (2, "blob") in findings_of(store)


def test_an_effect_that_was_sent_again_against_its_declaration_is_reported():
    """A `never` effect may have one intent only, a keyed one keeps its key."""
    twice = asyncio.run(written(intent("A", "irreversible"), intent("A", "irreversible", attempt=2)))
    assert [(3, "action")] == findings_of(twice)
    other_key = [intent("A", "idempotent", effect_key="1"), intent("A", "idempotent", effect_key="2")]
    assert [(3, "action")] == findings_of(asyncio.run(written(*other_key)))
    same_key = [intent("A", "idempotent", effect_key="1"), intent("A", "idempotent", effect_key="1")]
    assert [] == findings_of(asyncio.run(written(*same_key)))


def test_a_snapshot_that_differs_from_the_fold_is_reported():
    """A snapshot whose own digest is right is still held against the entries."""

    async def look():
        store = await written(e.NoteWritten(text="1"), e.NoteWritten(text="2"))
        fold = await load_fold(store, TASK, 2)
        fold.tree.root["planted"] = 1
        data = snapshots.encode_fold(fold)
        head = SnapshotHead(
            seq=2, branch=0, fold_version=FOLD_VERSION, digest=snapshots.digest_of(data), size=len(data)
        )
        await store.save_snapshot(TASK, head, [data])
        return store

    assert [(2, "snapshot")] == findings_of(asyncio.run(look()))


def test_walking_goes_on_where_the_store_itself_reports_damage():
    """A store that raises in the middle is asked for what lies behind."""

    class Raising(MemoryStore):
        async def read(self, task, after=0):
            async for one in super().read(task, after):
                if one.first_seq == 3 and after < 3:
                    raise Damaged(task, 3, "its row is missing")
                yield one

    async def look():
        whole = await written(*(e.NoteWritten(text=str(n)) for n in range(4)))
        return [(s.seq, bool(s.damage)) async for s in walk(Raising(whole._world, SystemClock()), TASK)]

    assert [(1, False), (2, False), (3, True), (4, False), (5, False)] == asyncio.run(look())


# ---------------------------------------------------------------- listing and showing


def test_a_running_task_whose_holder_is_dead_is_interrupted():
    """The status is derived when it is shown, and such a task is due."""
    (row,) = asyncio.run(_rows(written()))
    assert ("interrupted", True) == (row.standing, row.is_due(0))


def test_listing_reads_no_journal():
    """A thousand tasks cost a thousand summaries."""

    class Blind(MemoryStore):
        async def read(self, task, after=0):
            raise AssertionError("a journal was read")
            yield

    async def look():
        whole = await written(status="paused")
        return await list_tasks(Blind(whole._world, SystemClock()))

    assert ["paused"] == [row.standing for row in asyncio.run(look())]


@pytest.mark.parametrize(
    ("status", "reason", "until", "is_due"),
    [
        ("paused", "by person", 0, False),
        ("paused", "by signal", 0, True),
        ("paused", "by storage: full", 0, True),
        ("parked", "", 10, True),
        ("parked", "", 11, False),
        ("needs_human", "question: why", 0, False),
    ],
)
def test_what_is_due(status, reason, until, is_due):
    """`resume --all --due` takes what nobody holds back on purpose and whose time has come."""
    summary = TaskSummary(task=TASK, name="t", goal="", status=status, reason=reason, until=until)
    assert is_due == perdure_row(summary).is_due(10)


def perdure_row(summary):
    """A row as listed."""
    from perdure.views.listing import Row

    return Row(summary=summary, standing=summary.status)


async def _rows(making):
    return await list_tasks(await making)


def test_show_names_the_line_that_settles_a_doubtful_action():
    """Whoever reads it can go on without looking anything up."""

    async def look():
        store = await written(
            intent("A", "irreversible"),
            settled("A", 2, outcome="in_doubt", result=e.NOTHING),
            e.QuestionAsked(question="did it?", reason="in_doubt", action="A"),
            status="needs_human",
        )
        return await show(store, "t")

    shown = asyncio.run(look())
    assert ("needs_human", "in_doubt: did it?") == (shown.status, shown.why)
    assert "perdure settle t A --happened | --did-not-happen" == shown.next_command == shown.pending[0].settle


@perdure.tool(effect="pure", quick=True)
def double(n: int) -> int:
    """Return 2 n."""
    return 2 * n


@perdure.program(state={"done": []})
async def worker(task):
    """Two rounds, each ended by a checkpoint of the same name."""
    for n in range(2):
        await task.act(double, n, then=lambda state, result: state["done"].append(result))
        await task.checkpoint("round")
    return {"ok": True}


async def _work():
    """A store on which the program above has run."""
    store = MemoryStore(MemoryWorld(), SystemClock())
    async with perdure.open(store) as runtime:
        await runtime.run(worker, "w", goal="work")
    return store


def test_show_and_log_and_verify_agree_with_a_real_run():
    """A task made by the engine is shown with result and checkpoints, its log has a line per action."""

    async def look():
        store = await _work()
        summary = await store.find("w")
        lines = [line async for line in log_lines(store, summary.task)]
        return await show(store, "w"), lines, await verify(store, "w")

    shown, lines, verdict = asyncio.run(look())
    assert ("succeeded", {"ok": True}, 2) == (shown.status, shown.result, shown.actions)
    assert ["round", "round#2"] == [mark.name for mark in shown.checkpoints]
    actions = [(x["inputs"], x["result"]) for x in lines if x["kind"] == "action_settled"]
    assert [({"n": 0}, 0), ({"n": 1}, 2)] == actions
    assert verdict.is_whole
    assert msgspec.json.decode(to_line(shown.result)) == {"ok": True}


def test_the_state_can_be_read_at_any_entry_and_checkpoint():
    """At a seq, at the newest of a name, at the second of a name; anything else is refused."""

    async def look(at):
        store = await _work()
        return await state_of(store, (await store.find("w")).task, at)

    read = {at: asyncio.run(look(at))["done"] for at in ("", "1", "round", "round#1", "start")}
    assert {"": [0, 2], "1": [], "round": [0, 2], "round#1": [0], "start": []} == read
    with pytest.raises(CheckpointUnknown):
        asyncio.run(look("nowhere"))
    with pytest.raises(UsageError):
        asyncio.run(look("9999"))


def test_marks_are_numbered_by_name():
    """Two checkpoints of one name can be told apart."""

    async def look():
        store = await _work()
        return marks_of(await load_fold(store, (await store.find("w")).task))

    assert ["round", "round#2"] == [mark.name for mark in asyncio.run(look())]


def test_moments_always_have_six_digits():
    """Lines sort as text in the order of their time."""
    assert ["1970-01-01T00:00:00.000000Z", "2024-01-01T00:00:00.000001Z"] == [moment(0), moment(1_704_067_200_000_001)]
