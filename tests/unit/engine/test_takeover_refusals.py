"""What is refused while an effect may be under way in the process from which a task was taken: each edge of it."""

from types import SimpleNamespace

import msgspec
import pytest

from perdure.engine import takeover
from perdure.errors import TaskBusy
from perdure.limits import LEASE_CALL_MARGIN_S
from perdure.model.ids import Holder
from perdure.model.ledger import Ledger, Robbed
from tests.unit.core.test_recovery import opened

HOLDER = Holder(boot="b", pid_namespace=0, pid=1, started=0, token="somebody")
OVER = 10_000_000 + round(LEASE_CALL_MARGIN_S * 1_000_000)  # when a call of 10 s that began at 0 is over for certain


def flying(preset="irreversible", *, epoch=1, timeout_s=10.0, name="a1"):
    """Return an open action of the process that was robbed at epoch 2."""
    action = msgspec.structs.replace(opened(preset)["a1"], epoch=epoch, timeout_s=timeout_s, action=name)
    return {name: action}


def refused(monkeypatch, open_, now, *, is_alive=True, is_resume=False):
    """Return what the refusal says, "" where there is none."""
    monkeypatch.setattr(takeover, "is_alive", lambda holder, store: is_alive)
    ledger = Ledger(name="job", open=open_, robbed=Robbed(holder=HOLDER, epoch=2))
    try:
        takeover.refuse_under_way(None, SimpleNamespace(ledger=ledger, task="t"), now, is_resume=is_resume)
    except TaskBusy as busy:
        return str(busy)
    return ""


@pytest.mark.parametrize(("now", "is_refused"), [(OVER - 1, True), (OVER, False)])
def test_it_ends_with_the_time_out_and_the_margin_of_a_lease(monkeypatch, now, is_refused):
    """Not a moment before, and not later."""
    assert is_refused == bool(refused(monkeypatch, flying(), now))


@pytest.mark.parametrize(("is_alive", "is_refused"), [(True, True), (None, True), (False, False)])
def test_only_a_process_that_is_known_to_be_dead_is_over(monkeypatch, is_alive, is_refused):
    """One of another host of which nobody knows may well live."""
    assert is_refused == bool(refused(monkeypatch, flying(), 0, is_alive=is_alive))


def test_what_was_begun_since_is_not_his(monkeypatch):
    """Whoever holds the task now knows of his own calls."""
    assert not refused(monkeypatch, flying(epoch=2), 0)


@pytest.mark.parametrize(
    ("preset", "is_resume", "is_refused"),
    [("idempotent", True, False), ("idempotent", False, True), ("pure", False, False), ("verifiable", True, True)],
)
def test_a_resume_may_send_a_keyed_call_again(monkeypatch, preset, is_resume, is_refused):
    """Its service drops one of the two; nothing else may come before the first is over."""
    assert is_refused == bool(refused(monkeypatch, flying(preset), 0, is_resume=is_resume))


def test_of_several_calls_the_last_one_to_end_counts(monkeypatch):
    """It is the one that is named."""
    both = {**flying(timeout_s=1.0, name="short"), **flying(timeout_s=10.0, name="long")}
    assert "(action long)" in refused(monkeypatch, both, OVER - 1)
