"""Which calls of a reply may run: rules, answers, grants and --continuous, each bound to the exact call."""

from collections import Counter

import pytest

from perdure.agent.permits import UNASKED, Said, key_of, permits, read_answer
from perdure.agent.settings import AgentSettings
from perdure.limits import QUESTION_VALUE_BYTES
from perdure.model.move import PolicyView

ROOT = "/ws"


def call(number, name="deed", **arguments):
    """Return the n-th call of turn 3."""
    return {"id": f"3.{number}", "name": name, "arguments": arguments}


def view(memory=None, **answers):
    """Return what a policy sees; answers by the place of the call."""
    return PolicyView(goal="g", workspace=ROOT, memory=memory or {}, answers=answers)


class Memory(dict):
    """Memory of the agent, and beside it what no rollback takes back."""

    def __init__(self, **kept):
        super().__init__(kept)
        self.counts = Counter()

    def note(self, found):
        """Do what the loop does with a `Remember` of it."""
        found.change(self)
        self.counts.update(found.count)


def weighed(calls, memory=None, answers=(), **settings):
    """Return the permits of `calls` after `answers`, pairs of call and text."""
    memory = Memory() if memory is None else memory
    seen = PolicyView(
        goal="g", workspace=ROOT, memory=memory, counts=memory.counts,
        answers={key_of(one): text for one, text in answers},
    )  # fmt: skip
    return permits(seen, AgentSettings(**settings), calls)


def test_rules_decide_first_and_the_rest_is_asked_together():
    """An allowed call runs, a denied one is told to the model, each of the others has its question."""
    calls = [call(0, "look", at="a"), call(1, "sell", what="b"), call(2, x=1), call(3, x=2)]
    rules = {"allow": ("look(*)",), "deny": ("sell(*)",)}
    found = weighed(calls, **rules)
    assert ([key_of(calls[2]), key_of(calls[3])], ()) == (list(found.questions), found.allowed)
    assert "Allow deed(x=1)? Answer y, y -N" in found.questions[key_of(calls[2])]
    found = weighed(calls, answers=[(calls[2], "y"), (calls[3], "n")], **rules)
    assert (("3.0", "3.2"), {}) == (found.allowed, found.questions)
    assert {"3.1", "3.3"} == found.refused.keys()
    assert "rule: sell(*)" in found.refused["3.1"]["failed"]["message"]
    assert ("CallRefused", None) == (found.refused["3.3"]["failed"]["type"], found.change)


def test_as_long_as_one_answer_is_missing_nothing_runs():
    """An answered call waits for the others of its reply."""
    calls = [call(0), call(1)]
    found = weighed(calls, answers=[(calls[0], "y")])
    assert ([key_of(calls[1])], ()) == (list(found.questions), found.allowed)


def test_an_approval_holds_for_the_exact_call_only():
    """Another value, another type, another tool, another place: each is asked anew."""
    approved = call(0, x=1)
    assert ("3.0",) == weighed([approved], answers=[(approved, "y")]).allowed
    for other in (call(0, x=2), call(0, x="1"), call(0, "do", x=1), call(1, x=1)):
        assert [key_of(other)] == list(weighed([other], answers=[(approved, "y")]).questions)


def test_two_identical_calls_have_two_questions():
    """What is allowed once is not allowed twice."""
    calls = [call(0, x=1), call(1, x=1)]
    assert 2 == len(weighed(calls).questions)
    assert {"3.1"} == weighed(calls, answers=[(calls[0], "y"), (calls[1], "no")]).refused.keys()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y", Said(is_yes=True)),
        (" YES ", Said(is_yes=True)),
        ("y -3", Said(is_yes=True, further=2)),
        ("y-3", Said(is_yes=True, further=2)),
        ("y 3", Said(is_yes=True, further=2)),
        ("y -1", Said(is_yes=True)),
        ("y -0", Said(is_yes=False, word="y -0")),
        ("n", Said(is_yes=False)),
        ("No.", Said(is_yes=False)),
        ("yes, but not today", Said(is_yes=False, word="yes, but not today")),
        ("use the other file", Said(is_yes=False, word="use the other file")),
        ("y -9999999", Said(is_yes=False, word="y -9999999")),
    ],
)
def test_answers_are_read_in_autogpts_way(text, said):
    """Only a clear yes is one; whatever else is said is for the model."""
    assert said == read_answer(text)


def test_feedback_is_told_to_the_model():
    """The call is not made, and the model reads what to do instead."""
    one = call(0)
    found = weighed([one], answers=[(one, "use the other file")])
    assert found.refused["3.0"]["failed"]["message"].endswith("They say: use the other file")


def test_y_n_allows_this_and_the_next_calls_durably():
    """The count stands in memory; the same reply looked at again takes nothing from it, and then it is used up."""
    calls, memory = [call(0), call(1)], Memory()
    answers = [(calls[0], "y -3")]
    found = weighed(calls, memory, answers)
    assert (("3.0", "3.1"), {}) == (found.allowed, found.questions)
    memory.note(found)
    assert ({key_of(calls[0]): 2}, [1]) == (memory["permits"]["grants"], list(memory.counts.values()))
    again = weighed(calls, memory, answers)
    assert (("3.0", "3.1"), None) == (again.allowed, again.change)
    later = [{"id": "4.0", "name": "deed", "arguments": {}}, {"id": "4.1", "name": "deed", "arguments": {}}]
    assert [key_of(later[1])] == list(weighed(later, memory).questions)
    answered = weighed(later, memory, [(later[1], "y")])
    assert ("4.0", "4.1") == answered.allowed
    memory.note(answered)
    assert ({}, [2]) == (memory["permits"]["grants"], list(memory.counts.values()))
    assert 1 == len(weighed([call(7)], memory).questions)


def test_what_was_permitted_stays_so_when_the_calls_before_have_run():
    """Calls are made one after the other: the second is not asked, counted or mentioned again."""
    for answers, settings in (([(call(0), "y -2")], {}), ([], {"continuous": True, "continuous_limit": 2})):
        memory = Memory()
        found = weighed([call(0), call(1)], memory, answers, **settings)
        memory.note(found)
        memory["said"] = list(found.said)
        later = weighed([call(1)], memory, answers, **settings)
        assert (("3.1",), {}, {}, None) == (later.allowed, later.questions, later.said, later.change)


def test_a_grant_is_not_spent_on_what_the_rules_allow():
    """Only calls that would have been asked count."""
    memory = Memory(permits={"grants": {"before": 1}})
    found = weighed([call(0, "look", at="a"), call(1)], memory, allow=("look(*)",))
    memory.note(found)
    assert (("3.0", "3.1"), {}) == (found.allowed, memory["permits"]["grants"])


def test_a_grant_holds_for_later_calls_not_for_earlier_ones():
    """`y -N` to the second of two calls leaves the first to be answered."""
    calls = [call(0), call(1), call(2)]
    assert [key_of(calls[0])] == list(weighed(calls, answers=[(calls[1], "y -9")]).questions)


def test_continuous_allows_what_would_ask_and_says_so_once():
    """Denied stays denied; what the rules allow anyway is not mentioned."""
    calls = [call(0, "look", at="a"), call(1, x=1), call(2, "sell")]
    rules = {"allow": ("look(*)",), "deny": ("sell(*)",), "continuous": True}
    found = weighed(calls, **rules)
    assert (("3.0", "3.1"), {"3.2"}, {}) == (found.allowed, found.refused.keys(), found.questions)
    assert {"permit 3": "allowed by --continuous: deed(x=1)"} == found.said
    again = weighed(calls, Memory(said=list(found.said)), **rules)
    assert ({}, None) == (again.said, again.change)


def test_continuous_limit_counts_all_calls_then_asks():
    """Also those that the rules allow; `y` allows one more, `y -N` so many. The count survives a restart."""
    memory, rules = Memory(), {"allow": ("look(*)",), "continuous": True, "continuous_limit": 3}
    calls = [call(0, "look", at="a"), call(1), call(2), call(3, "look", at="b")]
    found = weighed(calls, memory, **rules)
    assert [key_of(calls[3])] == list(found.questions)
    assert found.questions[key_of(calls[3])].startswith("3 calls are made, as --continuous-limit allows. Allow look")
    found = weighed(calls, memory, [(calls[3], "y -2")], **rules)
    memory.note(found)
    assert (4, 3, {key_of(calls[3]): 1}) == (len(found.allowed), memory.counts[UNASKED], memory["permits"]["grants"])
    assert weighed(calls, memory, [(calls[3], "y -2")], **rules).change is None
    found = weighed([call(8), call(9)], memory, **rules)
    assert [key_of(call(9))] == list(found.questions)


def test_a_call_that_is_none_is_left_out():
    """Its problem is told to the model by whoever made it one."""
    broken = {"id": "3.0", "name": "deed", "arguments": {}, "problem": "no JSON"}
    found = weighed([broken, call(1)], continuous=True)
    assert (("3.1",), {}) == (found.allowed, found.refused)


def test_a_question_shows_the_call_and_cuts_long_values():
    """The digest in its key stands for all of it."""
    long = call(0, "write_to_file", filename="a", contents="x" * 100_000)
    (text,) = weighed([long]).questions.values()
    assert 'filename="a"' in text
    assert len(text) < QUESTION_VALUE_BYTES + 300


def test_a_pattern_may_know_the_tool_by_another_name():
    """AutoGPT's older names, for example."""
    one = call(0, "write_to_file", filename="a")
    settings = AgentSettings(allow=("write_file({workspace}/**)",))
    assert 1 == len(permits(view(), settings, [one]).questions)
    assert ("3.0",) == permits(view(), settings, [one], {"write_to_file": ("write_file",)}).allowed
