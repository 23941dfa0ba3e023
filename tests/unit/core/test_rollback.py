"""Which checkpoints a rollback may go back to, and what the ledger keeps of the effects behind one. Pure."""

from perdure.core import rollback
from perdure.core.rollback import START, admissible, checkpoints
from perdure.model import entry as e
from perdure.model.checkpoint import Checkpoint
from perdure.model.document import Document
from perdure.model.effect import PRESETS, Standing
from perdure.model.ledger import Ledger, OpenAction


def mark(seq, name="c"):
    """Return a checkpoint at `seq`."""
    return Checkpoint(name=name, seq=seq, changed=seq)


def seqs(marks):
    """Return where checkpoints stand."""
    return [one.seq for one in marks]


def open_action(action, preset, intent):
    """Return an action that is not over."""
    return OpenAction(
        action=action, tool="t", effect=PRESETS[preset], digest=b"d", intent=intent, epoch=1, branch=0, intended_at=0
    )


def standing(action, **fields):
    """Return an effect of a branch that was left."""
    return Standing(**{"action": action, "tool": "t", "digest": b"d", "settled": 7, "undo": "impossible", **fields})


def test_the_start_is_a_checkpoint_and_the_newest_comes_first():
    """Marked ones, the one behind an effect, and the beginning, in one row."""
    document = Document(checkpoints=[mark(3), mark(9)], after_effect=mark(6, "effect"))
    assert [9, 6, 3, 1] == seqs(checkpoints(document))
    assert START == checkpoints(document)[-1].name


def test_only_those_behind_the_newest_effect_that_stays_are_admissible():
    """The one right behind it is; without such an effect all of them are."""
    document = Document(checkpoints=[mark(3), mark(9)], impossible_at=6, after_effect=mark(6, "effect"))
    assert [9, 6] == seqs(admissible(document, Ledger()))
    assert [9, 3, 1] == seqs(admissible(Document(checkpoints=[mark(3), mark(9)]), Ledger()))


def test_an_effect_in_doubt_counts_as_having_happened():
    """From its intent on; one that can be taken back does not, nor one that an earlier branch has left behind."""
    document = Document(checkpoints=[mark(3), mark(9)])
    for preset, expected in (("irreversible", [9]), ("compensable", [9, 3, 1]), ("pure", [9, 3, 1])):
        assert expected == seqs(admissible(document, Ledger(open={"a": open_action("a", preset, 5)})))
    left = Ledger(open={"a": open_action("a", "irreversible", 5)}, standing={"a": standing("a")})
    assert [9, 3, 1] == seqs(admissible(document, left))


def test_what_a_fork_has_from_its_parent_cannot_be_taken_back():
    """An undo would take from the parent what it has done: only what the fork has done itself can be undone."""
    document, ledger = Document(checkpoints=[mark(3), mark(9)]), Ledger(forked_at=5)
    for intent, expected in ((5, [9]), (6, [9, 3, 1])):
        ledger.open = {"a": open_action("a", "compensable", intent)}
        assert expected == seqs(admissible(document, ledger))
    for settled, expected in ((5, 12), (6, 0)):
        document, ledger.standing = Document(), {"a": standing("a", undo="function", settled=settled)}
        rollback.note_reuse(document, ledger, e.ActionReused(action="a", tool="t", settled=settled, digest=b"d"), 12)
        assert expected == document.impossible_at


def test_the_moment_behind_an_effect_is_a_checkpoint_as_soon_as_nothing_is_open():
    """Not while another effect is in flight; free ones do not matter; once for each effect."""
    document = Document(impossible_at=6)
    rollback.note_impossible(document, Ledger(open={"b": open_action("b", "idempotent", 5)}), 6)
    assert document.after_effect is None
    rollback.note_impossible(document, Ledger(open={"b": open_action("b", "pure", 5)}), 8)
    rollback.note_impossible(document, Ledger(), 9)
    assert 8 == document.after_effect.seq
    left = Ledger(open={"b": open_action("b", "irreversible", 5)}, standing={"b": standing("b", settled=0)})
    document.impossible_at = 10
    rollback.note_impossible(document, left, 10)  # the doubt of a branch that was left is none of this one
    assert 10 == document.after_effect.seq


def test_what_was_not_taken_back_stands_and_the_rest_is_forgotten():
    """Undone ones neither stand nor stay open; one in doubt stays open, and stands, as does one from before."""
    flying = (("b", "irreversible", 8), ("f", "pure", 8), ("w", "workspace", 8), ("before", "irreversible", 4))
    ledger = Ledger(open={action: open_action(action, preset, intent) for action, preset, intent in flying})
    ledger.standing = {"old": standing("old", used=True), "a": standing("a", undo="function", used=True)}
    began = e.RollbackBegan(
        to_seq=5,
        checkpoint="c",
        standing=(standing("a", undo="function"), standing("b", settled=0), standing("old")),
    )
    rollback.begin(ledger, began)
    ledger.rollback.undone.append("a")
    rollback.end(ledger)
    assert {"old": False, "b": False} == {name: one.used for name, one in ledger.standing.items()}
    assert (["b", "before"], None, 1) == (list(ledger.open), ledger.rollback, ledger.rollbacks)


def test_a_persons_word_in_the_middle_of_a_rollback_changes_what_there_is_to_undo():
    """It did not happen: nothing to take back. It happened: the outcome is known. Leave it: it stays."""
    ledger = Ledger()
    for action in ("no", "yes", "leave"):
        ledger.open[action] = open_action(action, "compensable", 6)
    effects = tuple(standing(one, settled=0, undo="function") for one in ledger.open)
    rollback.begin(ledger, e.RollbackBegan(to_seq=5, checkpoint="c", standing=effects))
    rollback.note_outcome(ledger, e.ActionSettled(action="no", intent=6, outcome="failed"), 20)
    rollback.note_outcome(ledger, e.ActionSettled(action="yes", intent=6, outcome="succeeded"), 21)
    rollback.note_release(ledger, "leave")
    assert (["no"], ["leave"]) == (ledger.rollback.undone, ledger.rollback.kept)
    assert 21 == next(one.settled for one in ledger.rollback.standing if one.action == "yes")


def test_a_doubt_that_is_said_once_more_settles_nothing():
    """Neither the effect that is to be taken back, nor the undo of it."""
    ledger = Ledger()
    rollback.begin(ledger, e.RollbackBegan(to_seq=5, checkpoint="c", standing=(standing("a", settled=0),)))
    undo = e.ActionIntended(
        action="u", tool="undo", effect=PRESETS["idempotent"], arguments=e.NOTHING, digest=b"d", key="undo a"
    )
    rollback.note_undo(ledger.rollback, undo, 8)
    for action in ("a", "u"):
        rollback.note_outcome(ledger, e.ActionSettled(action=action, intent=6, outcome="in_doubt"), 20)
    assert ([0], []) == ([one.settled for one in ledger.rollback.standing], ledger.rollback.undone)
