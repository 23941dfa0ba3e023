"""The rules by which a call is found again, as values: no store, no engine."""

import msgspec
import pytest

from perdure.core.resume import (
    Answered,
    Call,
    Clash,
    Fresh,
    Interrupted,
    LeftBehind,
    LooseIndex,
    Reused,
    Twin,
    Unanchored,
    UsedUp,
    failed_key_of,
    find,
    key_of,
    left_behind,
    rule_for,
)
from perdure.model.document import Document, Kept
from perdure.model.effect import PRESETS, Standing
from perdure.model.ledger import Ledger, OpenAction

PURE, NEVER, KEYED = PRESETS["pure"], PRESETS["irreversible"], PRESETS["idempotent"]


def call(tool="t", digest=b"d", effect=PURE, **more):
    """Return a call."""
    return Call(tool=tool, digest=digest, effect=effect, **more)


def kept(action="a", tool="t", digest=b"d", **more):
    """Return a recorded outcome."""
    return Kept(action=action, tool=tool, digest=digest, intent=1, settled=2, **more)


def opened(action="a", tool="t", digest=b"d", effect=NEVER, **more):
    """Return an open action."""
    made = OpenAction(
        action=action, tool=tool, digest=digest, effect=effect, intent=1, epoch=1, branch=0, intended_at=0
    )
    return msgspec.structs.replace(made, **more)


def ledger(*actions, **more):
    """Return a ledger with these open actions."""
    return Ledger(open={one.action: one for one in actions}, **more)


def test_nothing_on_record_is_fresh():
    """With the key of an equal call that failed, if there was one."""
    asked = call(effect=KEYED)
    failed = ledger(failed_keys={failed_key_of("t", asked): "K"})
    assert Fresh() == find(asked, Document(), ledger(), set())
    assert Fresh("K") == find(asked, Document(), failed, set())
    for other in (call(effect=KEYED, digest=b"e"), call(effect=KEYED, key="k"), call(effect=KEYED, loop="l")):
        assert Fresh() == find(other, Document(), failed, set())


def test_a_loose_outcome_answers_equal_calls_once_in_order():
    """The same tool and digest, not claimed yet."""
    document = Document(loose=[kept("a1"), kept("a2"), kept("b", digest=b"e"), kept("c", tool="u")])
    assert Answered(kept("a1")) == find(call(), document, ledger(), set())
    assert Answered(kept("a2")) == find(call(), document, ledger(), {"a1"})
    assert Fresh() == find(call(), document, ledger(), {"a1", "a2"})
    assert Fresh() == find(call(takes_loose=False), document, ledger(), set())
    assert Answered(kept("c", tool="u")) == find(call("new", names=("new", "u")), document, ledger(), set())


def test_an_unapplied_outcome_is_handed_out_even_when_claimed():
    """Its reducer is still to be run, in the same call of the program, too."""
    waiting = kept(unapplied=True)
    assert Answered(waiting) == find(call(), Document(loose=[waiting]), ledger(), {"a"})


@pytest.mark.parametrize("loop", ["", "l"])
def test_a_keyed_outcome_answers_its_key_and_nothing_else(loop):
    """Other arguments clash; another key, loop or tool is fresh."""
    group = {key_of("t", "k"): kept(key="k")}
    document = Document(places={loop: group}) if loop else Document(keyed=group)
    assert Answered(kept(key="k")) == find(call(key="k", loop=loop), document, ledger(), {"a"})
    assert Clash(2) == find(call(key="k", loop=loop, digest=b"e"), document, ledger(), set())
    for other in (call(key="x", loop=loop), call(key="k", loop="other"), call("u", key="k", loop=loop), call()):
        assert Fresh() == find(other, document, ledger(), set())


def test_an_open_action_of_an_earlier_run_is_interrupted():
    """Found by tool, place and digest; one in flight here is not."""
    action = opened(key="k", loop="l")
    asked = call(key="k", loop="l", effect=NEVER)
    assert Interrupted(action) == find(asked, Document(), ledger(action), set())
    assert Fresh() == find(asked, Document(), ledger(action), {"a"})
    assert Clash(1) == find(call(key="k", loop="l", digest=b"e", effect=NEVER), Document(), ledger(action), set())
    assert Fresh() == find(call(key="k", effect=NEVER), Document(), ledger(action), set())


def test_an_effect_in_doubt_is_never_fresh():
    """Also when this call of the program has made it."""
    action = opened(in_doubt=True)
    assert Interrupted(action) == find(call(effect=NEVER), Document(), ledger(action), {"a"})


@pytest.mark.parametrize(
    ("document", "actions", "claimed", "is_refused"),
    [
        ([kept(free=False)], [], {"a"}, True),
        ([kept(free=False)], [], set(), False),  # another call's business: left_behind sees to it
        ([kept(free=False, unapplied=True)], [], {"a"}, False),
        ([kept(free=True)], [], {"a"}, False),
        ([], [opened()], {"a"}, True),
        ([], [opened(in_doubt=True)], {"a"}, False),
        ([], [opened(key="k")], {"a"}, False),
        ([], [opened(reduces=True)], {"a"}, False),
        ([], [opened(effect=PURE)], {"a"}, False),
        ([], [opened()], set(), False),
    ],
)
def test_a_loose_effect_must_be_anchored_before_the_next_call(document, actions, claimed, is_refused):
    """Settled or in flight, made or handed out in this call of the program."""
    found = find(call("u", digest=b"u"), Document(loose=document), ledger(*actions), claimed)
    assert is_refused == isinstance(found, Unanchored)


@pytest.mark.parametrize(
    ("edited", "claimed", "finding"),
    [(1, set(), Answered), (3, set(), Twin), (1, {"a"}, Twin)],
    ids=["since the last edit", "before an edit", "made by this call of the program"],
)
def test_an_anchored_effect_answers_an_equal_call_where_the_two_can_be_told_apart(edited, claimed, finding):
    """Where they cannot, the call is refused: neither skipped nor sent twice."""
    anchored = kept(free=False)
    document = Document(anchored={key_of("t", b"d".hex()): anchored}, edited=edited)
    assert finding(anchored) == find(call(effect=NEVER), document, ledger(), claimed)
    assert finding(anchored) == find(call("new", effect=NEVER, names=("new", "t")), document, ledger(), claimed)
    others = [call(effect=NEVER, reduces=True), call(effect=PURE), call("u", effect=NEVER)]
    assert [Fresh()] * len(others) == [find(other, document, ledger(), claimed) for other in others]
    assert Twin(anchored) == find(call(effect=NEVER, takes_loose=False), document, ledger(), claimed)


def test_other_words_to_the_same_effect_are_refused_while_it_was_not_asked_for():
    """A model may have worded its argument differently: that would send it twice."""
    anchored = kept(free=False)
    document = Document(anchored={key_of("t", b"d".hex()): anchored}, edited=1)
    other = call(effect=NEVER, digest=b"e")
    assert Twin(anchored) == find(other, document, ledger(), set())
    assert Fresh() == find(other, document, ledger(), {"a"})
    loose = Document(loose=[kept(free=False)])
    assert LeftBehind() == find(other, loose, ledger(), set())
    assert LeftBehind() == find(other, Document(), ledger(opened()), set())


def test_a_call_that_was_given_a_key_since_takes_what_a_checkpoint_held():
    """The way out that KeyMissing names must not send it again."""
    anchored = kept(free=False)
    document = Document(anchored={key_of("t", b"d".hex()): anchored}, edited=3)
    assert Answered(anchored) == find(call(effect=NEVER, key="k"), document, ledger(), set())
    assert Fresh() == find(call(effect=NEVER, key="k"), document, ledger(), {"a"})
    assert Fresh() == find(call(effect=NEVER, key="k", digest=b"e"), document, ledger(), set())


def test_a_failed_effect_is_handed_out_to_a_resumed_program_and_made_again_by_the_same():
    """What was tried instead of it stands on record: making the first again would do both."""
    failed = kept(free=False, failed=True, key="k")
    document = Document(keyed={key_of("t", "k"): failed})
    assert Answered(failed) == find(call(effect=NEVER, key="k"), document, ledger(), set())
    assert Fresh() == find(call(effect=NEVER, key="k"), document, ledger(), {"a"})


def test_an_index_that_is_kept_finds_what_a_new_one_finds():
    """Also after the list has grown and after another has taken its place."""
    index, document = LooseIndex(), Document()
    for loose in ([kept("a1")], [kept("a1"), kept("b", digest=b"e", free=False)], [kept("c")]):
        for one in loose:
            document.loose.append(one)
            for asked in (call(), call(digest=b"e")):
                for claimed in (set(), {"a1"}, {"b"}):
                    expected = find(asked, document, ledger(), claimed)
                    assert expected == find(asked, document, ledger(), claimed, index)
        document.loose = []


def test_left_behind_are_unclaimed_effects_settled_or_open():
    """Free ones, anchored ones and claimed ones are not."""
    document = Document(loose=[kept("a", free=False), kept("b")], anchored={"t": kept("c", free=False)})
    held = ledger(opened("d"), opened("e", effect=PURE))
    assert ["t (a)", "t (d)"] == left_behind(document, held, set())
    assert [] == left_behind(document, held, {"a", "d"})


def test_every_retry_word_has_its_rule():
    """And `retry` alone decides."""
    rules = {name: rule_for(opened(effect=effect)) for name, effect in PRESETS.items()}
    assert {
        "pure": "run",
        "idempotent": "run",
        "workspace": "run",
        "verifiable": "probe",
        "compensable": "doubt",
        "irreversible": "doubt",
    } == rules


def left(action, **more):
    """Return an effect of a branch that was left."""
    return Standing(**{"action": action, "tool": "t", "digest": b"d", "settled": 2, "undo": "impossible", **more})


def standing(*effects, opened=()):
    """Return a ledger with these effects of branches that were left."""
    return ledger(*opened, standing={one.action: one for one in effects})


def test_an_effect_of_a_branch_that_was_left_answers_an_equal_call():
    """The oldest that has answered none; only a call of the same tool with the same content, which has an effect."""
    old, new = left("old"), left("new")
    asked = call(effect=NEVER, key="k")
    assert Reused(old) == find(asked, Document(), standing(old, new), set())
    assert Reused(new) == find(asked, Document(), standing(left("old", used=True), new), set())
    assert Reused(old) == find(call(effect=NEVER, digest=b"view", content=b"d"), Document(), standing(old), set())
    assert Reused(old) == find(call("new", effect=NEVER, names=("new", "t")), Document(), standing(old), set())
    for other in (call("u", effect=NEVER), call(effect=NEVER, digest=b"e"), call(effect=PURE)):
        assert Fresh() == find(other, Document(), standing(old), set())


def test_what_the_branch_knows_itself_comes_first():
    """Its own outcome under that key, and its own open call."""
    own = Document(keyed={key_of("t", "k"): kept("own", key="k")})
    assert Answered(kept("own", key="k")) == find(call(effect=NEVER, key="k"), own, standing(left("old")), set())
    flying = opened("own", key="k")
    assert Interrupted(flying) == find(
        call(effect=NEVER, key="k"), Document(), standing(left("old"), opened=[flying]), set()
    )


def test_an_undo_is_answered_by_no_effect_of_the_program():
    """It may have called the same tool with the same arguments; what is to be taken back now is another thing."""
    undo = call(effect=KEYED, key="undo a", is_undo=True)
    assert Fresh() == find(undo, Document(), standing(left("old", undo="nothing")), set())


def test_one_in_doubt_on_a_branch_that_was_left_is_settled_first():
    """The equal call is taken for the same; no other call comes by it."""
    doubt = opened("old", effect=KEYED, in_doubt=True)
    there = standing(left("old", settled=0), opened=[doubt])
    assert Interrupted(doubt) == find(call(effect=KEYED, key="k"), Document(), there, set())
    assert Fresh() == find(call(effect=KEYED, key="k", digest=b"e"), Document(), there, set())


def test_used_up_a_person_is_asked_only_where_another_could_not_be_taken_back():
    """The newest is named; what has an undo is made again."""
    used = [left(name, used=True) for name in ("old", "new")]
    assert UsedUp(used[1]) == find(call(effect=NEVER), Document(), standing(*used), set())
    booked = left("old", used=True, undo="function")
    assert Fresh() == find(call(effect=PRESETS["compensable"]), Document(), standing(booked), set())
