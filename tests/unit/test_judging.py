"""What a journal shows of each promise: every rule is kept by one history and broken by another."""

import asyncio
import time

import msgspec
import pytest

from perdure.clock import SystemClock
from perdure.core import snapshots
from perdure.core.fold import FOLD_VERSION
from perdure.core.resume import again_key
from perdure.engine.loading import load_fold
from perdure.model import entry as e
from perdure.model.budget import Budget, Cost
from perdure.model.decision import RollBack
from perdure.model.effect import Standing
from perdure.model.entry import Entry, Header, Raw
from perdure.ports import SnapshotHead
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.views.judging import BY_TESTS, INVARIANTS, WHAT, Judge
from perdure.views.verifying import Verdict, verify
from tests.unit.logs.material import HOLDER, STARTED, TASK, Journal, intent, raw, settled

CLAIM = e.LeaseClaimed(holder=HOLDER)
BACK = e.RollbackBegan(to_seq=1, checkpoint="start"), e.RolledBackEntry(to_seq=1, checkpoint="start")


def decided(to_seq=1, strategy="b"):
    """Return a decision to roll back."""
    decision = RollBack(to_seq=to_seq, checkpoint="start", strategy=strategy, lesson="l")
    return e.DecisionTaken(decision=Raw(msgspec.json.encode(decision)), row="roll_back")


AS_DECIDED = msgspec.structs.replace(BACK[0], strategy="b", lesson="l")
PART = Raw(b'{"n":{"~":["state",["a"],3]}}')  # an argument that is the part of the state that entry 3 made


def judged(*rows, start=STARTED):
    """What a judge reports of entries behind the start: (seq, what). A row: payload, or (payload, epoch, branch)."""
    found = []
    judge = Judge(lambda seq, what, _text: found.append((seq, what)))
    branch = 0
    for seq, row in enumerate((start, *rows), start=1):
        payload, epoch, given = row if isinstance(row, tuple) else (row, 1, None)
        branch = branch + isinstance(payload, e.RolledBackEntry) if given is None else given
        judge.take(Entry(Header(TASK, seq, epoch, 0, branch, 0, 0, 0, 0, b"", b""), payload, b"", 0))
    return found


def test_an_ordinary_history_is_not_complained_of():
    """Calls, claims, a rollback, an effect sent again as declared, a late word: nothing is wrong with it."""
    history = [
        e.ProgramCalled(attempt=1),
        intent("A", "idempotent", effect_key="k"),
        (CLAIM, 2, 0),
        intent("A", "idempotent", effect_key="k", attempt=2),
        settled("A", 5, outcome="failed"),
        intent("B", "idempotent", effect_key="k"),
        settled("B", 7, outcome="in_doubt"),
        settled("B", 7, by="person"),
        settled("B", 7, by="late"),
        *BACK,
        e.ProgramCalled(attempt=2),
        e.TaskSucceeded(result=raw(1)),
    ]
    rows = [
        row if isinstance(row, tuple) else (row, 1 + (place >= 2), int(place >= 10))
        for place, row in enumerate(history)
    ]
    assert [] == judged(*rows)


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ([STARTED], [(2, "order")]),
        ([(CLAIM, 2, 0), (e.NoteWritten(text=""), 1, 0)], [(3, "order")]),
        ([(e.NoteWritten(text=""), 2, 0)], [(2, "order")]),
        ([(e.NoteWritten(text=""), 1, 1)], [(2, "branch")]),
        ([BACK[0], (BACK[1], 1, 0)], [(3, "branch")]),
        ([BACK[0], (BACK[1], 1, 2)], [(3, "branch")]),
        ([*BACK, (e.NoteWritten(text=""), 1, 0)], [(4, "order")]),
        ([intent("A", "irreversible"), intent("A", "irreversible")], [(3, "action")]),
        ([intent("A", "idempotent"), settled("A", 2), intent("A", "idempotent")], [(4, "action")]),
        ([intent("A", "idempotent", effect_key="1"), intent("A", "idempotent", effect_key="2")], [(3, "action")]),
        (
            [intent("A", "idempotent", effect_key="1"), settled("A", 2), intent("B", "idempotent", effect_key="1")],
            [(4, "action")],
        ),
        (
            [
                intent("A", "idempotent", effect_key="1"),
                settled("A", 2, outcome="failed"),
                intent("B", "idempotent", effect_key="1", digest=b"other"),
            ],
            [(4, "action")],
        ),
        ([settled("A", 0)], [(2, "outcome")]),
        ([intent("A"), settled("A", 2), settled("A", 2)], [(4, "outcome")]),
        ([intent("A", "irreversible"), e.TaskSucceeded(result=raw(1))], [(3, "outcome")]),
        (
            [
                intent("A", "irreversible"),
                settled("A", 2, outcome="in_doubt"),
                e.TaskSucceeded(result=raw(1)),
            ],
            [(4, "outcome")],
        ),
        ([intent("A", "verifiable", parent="M"), intent("N", paid=True)], [(3, "outcome")]),
        (
            [
                intent("A", "verifiable", parent="M"),
                settled("A", 2, outcome="in_doubt"),
                intent("N", paid=True),
            ],
            [],
        ),
        ([BACK[1]], [(2, "rollback")]),
        ([BACK[0], BACK[0]], [(3, "rollback")]),
        ([BACK[0], e.ProgramCalled(attempt=1)], [(3, "rollback")]),
        ([BACK[0], e.StateEdited(patch=raw([]))], [(3, "rollback")]),
        ([BACK[0], e.RolledBackEntry(to_seq=1, checkpoint="other")], [(3, "rollback")]),
        ([e.RollbackBegan(to_seq=2, checkpoint="c")], [(2, "branch")]),
        ([e.CheckpointMarked(name="c"), *BACK, e.RollbackBegan(to_seq=2, checkpoint="c")], [(5, "branch")]),
        ([intent("A", "irreversible"), settled("A", 2), decided(), AS_DECIDED], [(5, "passed")]),
        ([intent("A", "irreversible"), settled("A", 2), decided(), (CLAIM, 2, 0), (AS_DECIDED, 2, 0)], [(6, "passed")]),
        ([intent("A", "irreversible"), settled("A", 2, outcome="in_doubt"), decided(), AS_DECIDED], [(5, "passed")]),
        ([e.StateEdited(patch=raw([]), by="ann"), decided(), AS_DECIDED], [(4, "passed")]),
        ([e.TaskHandedBack(by="ann"), decided(), AS_DECIDED], [(4, "passed")]),
        ([decided(to_seq=2), AS_DECIDED], [(3, "rollback")]),
        ([e.ProgramCalled(attempt=1), AS_DECIDED], [(3, "rollback")]),
        ([intent("A", "irreversible"), settled("A", 2, outcome="failed"), decided(), AS_DECIDED], []),
        ([intent("A", "irreversible"), settled("A", 2), BACK[0]], []),
        ([e.ProgramCalled(attempt=1), e.ProgramCalled(attempt=1)], [(3, "ledger")]),
        ([e.ProgramCalled(attempt=1), *BACK, e.ProgramCalled(attempt=1)], [(5, "ledger")]),
        ([e.NoteWritten(text=""), e.StateEdited(patch=raw([])), intent("A", arguments=PART)], []),
        (
            [e.NoteWritten(text=""), e.StateEdited(patch=raw([])), *BACK, intent("A", arguments=PART)],
            [(6, "branch")],
        ),
        ([intent("A", arguments=PART)], [(2, "branch")]),
        ([e.SnapshotTaken(at_seq=2, digest=b"")], [(2, "snapshot")]),
        ([e.TaskTakenOver(), e.ProgramCalled(attempt=1)], [(3, "order")]),
        ([e.TaskTakenOver(), e.TaskHandedBack(), e.TaskResumed(), e.ProgramCalled(attempt=1)], []),
    ],
)
def test_what_contradicts_a_promise_is_reported_at_its_entry(history, found):
    """Each rule once broken, and its neighbour that keeps it."""
    assert found == judged(*history)


DOLLAR = Cost(100, 0, "1 USD")
SET = e.BudgetSet(budget=Budget(money="2 USD", tokens=1000, actions=9))


def paid(action, reserve=DOLLAR, **options):
    """The intent of a paid call."""
    return intent(action, paid=True, reserve=reserve, **options)


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ([SET, paid("A"), settled("A", 3, money="1 USD"), paid("B"), settled("B", 5, money="0.5 USD")], []),
        ([SET, paid("A"), paid("B"), paid("C")], [(5, "budget")]),
        ([SET, paid("A"), paid("B"), intent("C")], []),
        ([SET, paid("A"), (CLAIM, 2, 0), (paid("A", attempt=2), 2, 0), (paid("A", attempt=3), 2, 0)], [(6, "budget")]),
        ([SET, paid("A"), settled("A", 3, money="2 USD"), intent("B")], [(5, "budget")]),
        ([SET, paid("A"), *BACK, (paid("B"), 1, 1), (paid("C"), 1, 1)], [(7, "budget")]),
        ([SET, paid("A", Cost(1000)), paid("B", Cost(1))], [(4, "budget")]),
        ([SET, *[intent(name) for name in "ABCDEFGHI"]], []),
        ([SET, *[intent(name) for name in "ABCDEFGHIJ"]], [(12, "budget")]),
        ([SET, paid("A", Cost(money="3 USD"))], [(3, "budget")]),
        ([SET, e.BudgetSet(budget=Budget(money="9 USD"), by="person"), paid("A", Cost(money="3 USD"))], []),
        ([intent("A", reserve=DOLLAR)], [(2, "budget")]),
        ([intent("A"), settled("A", 2, money="a lot")], [(3, "budget")]),
    ],
)
def test_calls_that_the_budget_does_not_allow_are_reported(history, found):
    """What is reserved counts until it is settled; killed, it counts for good."""
    assert found == judged(*history)


UNDOING = e.RollbackBegan(
    to_seq=1,
    checkpoint="start",
    moves=("effects undo A",),
    standing=(Standing(action="A", tool="t", digest=b"", settled=3, undo="function"),),
)
BOOKED = [intent("A", "compensable"), settled("A", 2)]  # entries 2 and 3; the rollback begins with 4
REUSED = e.ActionReused(action="A", tool="t", settled=3, digest=b"d")
SENT = [intent("A", "irreversible"), settled("A", 2), *BACK]  # it stands when entry 6 is written


def test_a_rollback_that_takes_an_effect_back_and_one_that_reuses_it_are_in_order():
    """An undo, its retry after a failure, the end; on the new branch an answer, and another by a person's word."""
    undo = intent("U", "idempotent", key="undo A", effect_key="k")
    again = intent("V", "idempotent", key="undo A", effect_key="k")
    undoing = [*BOOKED, UNDOING, undo, settled("U", 5, outcome="failed"), again, settled("V", 7), BACK[1]]
    assert [] == judged(*undoing)
    allowed = e.QuestionAnswered(answer=raw("no"), key=again_key("t", b"d"))
    assert [] == judged(*SENT, REUSED, allowed, REUSED)


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ([*BOOKED, UNDOING, BACK[1]], [(5, "rollback")]),
        ([*BOOKED, UNDOING, intent("B", "pure")], [(5, "rollback")]),
        ([*BOOKED, UNDOING, intent("B", "idempotent", key="undo B")], [(5, "rollback")]),
        (
            [*BOOKED, UNDOING, intent("U", "idempotent", key="undo A"), e.RollbackAbandoned(reason="")],
            [(6, "rollback")],
        ),
        (
            [
                *BOOKED,
                UNDOING,
                intent("U", "idempotent", key="undo A"),
                settled("U", 5),
                intent("V", "idempotent", key="undo A"),
            ],
            [(7, "rollback")],
        ),
        ([*SENT, REUSED, REUSED], [(7, "action")]),
        ([*SENT[:2], REUSED], [(4, "branch")]),
        ([SENT[0], *BACK, REUSED], [(5, "action")]),
    ],
)
def test_what_contradicts_the_promise_about_effects_is_reported(history, found):
    """Not undone, undone twice, something else sent meanwhile, given up too late; answered twice, or by nothing."""
    assert found == judged(*history)


def test_entries_between_a_checkpoint_and_a_rollback_to_it_are_left_for_good():
    """After two rollbacks the third branch stands on what both went back to, and on nothing they left."""
    to_two = e.RollbackBegan(to_seq=2, checkpoint="c"), e.RolledBackEntry(to_seq=2, checkpoint="c")
    history = [e.CheckpointMarked(name="c"), e.NoteWritten(text=""), *to_two, e.CheckpointMarked(name="d")]
    to_six = e.RollbackBegan(to_seq=6, checkpoint="d"), e.RolledBackEntry(to_seq=6, checkpoint="d")
    assert [] == judged(*history, e.NoteWritten(text=""), *to_six, *to_two)
    assert [(8, "branch")] == judged(*history, e.NoteWritten(text=""), e.RollbackBegan(to_seq=3, checkpoint="x"))


def test_every_invariant_of_the_design_has_its_row():
    """One to twelve, each either judged or shown by tests, none both; every finding belongs to one."""
    assert list(range(1, 13)) == sorted([*INVARIANTS, *BY_TESTS])
    assert set(INVARIANTS) == set(WHAT.values())


def test_a_verdict_says_what_was_looked_at():
    """A quick look leaves fold and blobs open; a finding breaks its invariant and no other."""
    journal = Journal(TASK, intent("A", "irreversible"), intent("A", "irreversible"))
    quick = asyncio.run(verify(journal.store, "t", full=False))
    shown = {row.invariant: row.verdict for row in quick.invariants}
    assert {3, 0} == {number for number, verdict in shown.items() if verdict == "not_checked"}
    assert {5} == {number for number, verdict in shown.items() if verdict == "broken"}
    assert set(BY_TESTS) == {number for number, verdict in shown.items() if verdict == "by_tests"}
    whole = asyncio.run(verify(Journal(TASK).notes(3).store, "t"))
    assert {"holds", "by_tests"} == {row.verdict for row in whole.invariants}
    assert isinstance(whole, Verdict)
    assert whole.is_full


def test_a_blob_that_is_gone_is_found_by_a_full_look_only():
    """Finding it means fetching it."""
    named = Raw(b'{"~":["blob","str","' + b"a" * 64 + b'",5000]}')
    journal = Journal(TASK, e.NoteWritten(text="n", fields=named))
    assert asyncio.run(verify(journal.store, "t", full=False)).is_whole
    verdict = asyncio.run(verify(journal.store, "t"))
    assert [(2, "blob")] == [(one.seq, one.what) for one in verdict.findings]
    assert "broken" == verdict.invariants[-1].verdict


def test_a_ledger_that_counts_otherwise_is_reported(monkeypatch):
    """The counters of the fold are held against a count of the entries."""

    async def look():
        journal_store = journal.store

        async def forgetful(store, task, at=None):
            fold = await load_fold(store, task, at)
            fold.ledger.attempt -= 1
            return fold

        monkeypatch.setattr("perdure.views.verifying.load_fold", forgetful)
        return await verify(journal_store, "t")

    journal = Journal(TASK, e.ProgramCalled(attempt=1), e.ProgramCalled(attempt=2))
    assert ["ledger"] == [one.what for one in asyncio.run(look()).findings]


def test_a_planted_snapshot_is_not_believed():
    """Its own digest is right, and it is still not the fold of the entries."""

    async def look():
        fold = await load_fold(journal.store, TASK, 2)
        fold.tree.root["planted"] = 1
        data = snapshots.encode_fold(fold)
        head = SnapshotHead(
            seq=2, branch=0, fold_version=FOLD_VERSION, digest=snapshots.digest_of(data), size=len(data)
        )
        await journal.store.save_snapshot(TASK, head, [data])
        return [await verify(journal.store, "t", full=full) for full in (False, True)]

    journal = Journal(TASK).notes(3)
    quick, full = asyncio.run(look())
    assert quick.is_whole
    assert [(2, "snapshot")] == [(one.seq, one.what) for one in full.findings]


def test_progress_is_told_and_the_chain_is_read_quickly():
    """Over 100,000 entries a second on a quiet machine, a tenth of it on any, with progress on the way."""
    journal = Journal(TASK).notes(5_000, size=40)
    store = MemoryStore(journal.store._world, SystemClock())
    told = []
    began = time.perf_counter()
    verdict = asyncio.run(verify(store, "t", full=False, progress=lambda read, total: told.append((read, total))))
    assert 5_001 / (time.perf_counter() - began) > 10_000
    assert verdict.is_whole
    assert [(1024 * n, 5_001) for n in (1, 2, 3, 4)] == told
    assert isinstance(store._world, MemoryWorld)


# --- forks ----------------------------------------------------------------------------------------------------------
FORKED = e.TaskForked(started=STARTED, parent="0" * 32, at=3, parent_digest=bytes(32))
NOTE = e.NoteWritten(text="n")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([NOTE, NOTE], []),  # half
        ([NOTE, NOTE, (CLAIM, 2, 1), (NOTE, 2, 1)], []),
        ([(CLAIM, 2, 1), (NOTE, 2, 1), (CLAIM, 3, 2)], []),  # of a parent that is a fork itself
        ([NOTE, NOTE, NOTE], [(4, "branch")]),
        ([NOTE, NOTE, (CLAIM, 2, 0)], [(4, "branch")]),
        ([NOTE, NOTE, (NOTE, 1, 1)], [(4, "branch"), (4, "branch")]),
        ([NOTE, NOTE, (CLAIM, 2, 1), (CLAIM, 3, 2)], [(5, "branch")]),
        ([NOTE, FORKED], [(3, "order")]),
    ],
)
def test_a_fork_begins_its_own_life_on_the_next_branch(rows, expected):
    """By a claim right behind its parent's entries, and nowhere else; only entry 1 is the start."""
    assert expected == judged(*rows, start=FORKED)
