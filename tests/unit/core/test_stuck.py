"""The stuck detector: circles it names, work that only looks like one, and what it costs."""

import hashlib
import itertools
import json
import sys
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.stuck import Step, StuckRules, is_repetition, note, note_fact, note_reset
from perdure.model.trace import Trace

RULES = StuckRules()
PAGE = "A page that is long enough to say something. " * 8
TRACE_BYTES_MAX = 10_000
VARIED_INSTRUCTIONS_MAX = 249 * 8 / 7  # what was measured, and a seventh on top
VARIED_US_MAX = 2.0


def act(tool, arguments=None, answer="ok", **fields):
    """A settled action; `error` instead of `answer` makes it a failed one."""
    encoded = json.dumps(arguments or {}).encode()
    digest = hashlib.sha256(json.dumps(arguments or {}, sort_keys=True).encode()).digest()
    error = fields.pop("error", None)
    observation = error.encode() if error else json.dumps(answer).encode()
    return Step(
        seq=0, tool=tool, arguments=encoded, digest=digest, observation=observation, failed=bool(error), **fields
    )


def run(steps, trace=None, rules=RULES):
    """What fires, as {number of the step, from 1: firing}."""
    trace = Trace() if trace is None else trace
    fired = {}
    for number, step in enumerate(steps, start=1):
        step.seq = number
        if (firing := note(trace, step, rules)) is not None:
            fired[number] = firing
    return fired


def first(steps, **fields):
    """Number of the first step that fires, with rule and period; None where none does."""
    fired = run(steps, **fields)
    return next(((number, firing.rule, firing.period) for number, firing in fired.items()), None)


def again(tokens, times, **fields):
    """Actions of the tools named by letters, so often."""
    return [act(token, {"of": token}, f"answer of {token}", **fields) for token in tokens * times]


def flat(rounds):
    """The steps of all rounds, one after the other."""
    return list(itertools.chain.from_iterable(rounds))


# --- circles --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tokens", "times", "expected"),
    [
        ("A", 6, (3, "run", 1)),
        ("AB", 6, (6, "cycle", 2)),
        ("ABC", 4, (9, "cycle", 3)),
        ("ABCDEF", 4, (14, "cycle", 6)),  # eight brought nothing new: the third round need not be over
    ],
)
def test_a_sequence_that_comes_again_and_again_is_named(tokens, times, expected):
    """One action, or a cycle of several: found within three rounds, whatever its period."""
    assert expected == first(again(tokens, times))


@pytest.mark.parametrize("period", range(2, 7))
def test_a_cycle_of_up_to_six_is_seen_as_one(period):
    """Where nothing else fires before, the period is named, and the evidence is three rounds."""
    rules = StuckRules(idle_run=100)
    fired = run(again("ABCDEF"[:period], 3), rules=rules)
    assert [3 * period] == list(fired)
    firing = fired[3 * period]
    assert ("cycle", period, tuple(range(1, 3 * period + 1))) == (firing.rule, firing.period, firing.entries)


def test_a_cycle_is_seen_after_other_work():
    """What comes before a cycle does not hide it, and is no part of the evidence."""
    steps = [act("fetch", {"page": page}, f"page {page}") for page in range(50)] + again("AB", 3)
    fired = run(steps)
    assert [56] == list(fired)
    assert tuple(range(51, 57)) == fired[56].entries


def test_it_fires_exactly_at_the_threshold():
    """Twice is no circle, three times is; each rule counts up to its own number."""
    assert {} == run(again("A", RULES.run - 1))
    assert [RULES.run] == list(run(again("A", RULES.run)))
    assert {} == run(again("AB", RULES.rounds)[:-1])


def test_it_fires_as_long_as_it_goes_on_and_no_longer():
    """A firing that nobody heeds comes again; the first other action ends it."""
    assert [3, 4, 5] == list(run([*again("A", 5), *again("BC", 2)]))


def test_the_same_error_twice_is_enough():
    """The same call, failing in the same way: no third time is needed; numbers in the message do not count."""
    steps = [act("send", {"to": "x"}, error=f"OSError: attempt {attempt} was refused") for attempt in (1, 2)]
    assert (2, "error", 1) == first(steps)
    assert None is first([steps[0], act("send", {"to": "x"}, error="ValueError: no such address")])


def test_the_order_of_keys_does_not_matter():
    """Equal arguments are equal, in whatever order they were written."""
    shuffled = [{"path": "a", "mode": "r"}, {"mode": "r", "path": "a"}, {"path": "a", "mode": "r"}]
    assert (3, "run", 1) == first([act("read", arguments) for arguments in shuffled])


@pytest.mark.parametrize(
    "vary",
    [
        lambda n: {"at": f"2024-05-0{n} 10:0{n}:00", "path": "a"},
        lambda n: {"request": f"0000000{n}-aaaa-4bbb-8ccc-1234567890a{n}", "path": "a"},
        lambda n: {"offset": 100 * n, "path": "a"},
        lambda n: {"thought": "another " * n, "path": "a"},
        lambda n: {
            "query": f"how to bake bread in an oven at home without a tin and without yeast please {'xyz'[n % 3]}"
        },
    ],
    ids=["time", "uuid", "offset", "thought", "a word"],
)
def test_calls_that_hardly_differ_and_fail_alike_are_one(vary):
    """A time, id, offset, thought or word that changes makes no other attempt of it, where the error stays."""
    steps = [act("read", vary(n), error=f"OSError: cannot read (request {n})") for n in range(1, 9)]
    assert (RULES.near_run, "near", 1) == first(steps)


def test_calls_that_hardly_differ_and_say_the_same_page_are_one():
    """With success it takes a long answer, and arguments that differ in chance or a few words."""
    steps = [act("search", {"id": f"2024-05-0{n}", "query": "rain"}, PAGE) for n in range(1, 9)]
    assert (RULES.near_run, "near", 1) == first(steps)


def test_near_calls_with_two_errors_in_turn_are_not_alike():
    """They fail, but not alike: it takes eight that bring nothing new."""
    errors = ["OSError: no such file", "ValueError: not a page"]
    steps = [act("read", {"offset": n}, error=errors[n % 2]) for n in range(12)]
    assert (2 + RULES.idle_run, "idle", 0) == first(steps)


def test_parallel_calls_of_one_message_count_as_any_others():
    """Three equal calls that were settled at one moment are three."""
    assert (3, "run", 1) == first(again("A", 3, at=5))


def test_wandering_among_what_is_known_is_no_progress():
    """Eight actions without order, each seen before, with changes that only take each other back."""
    known = again("ABC", 1)
    order = "ABACCBABBC"
    toggles = [
        act(token, {"of": token}, f"answer of {token}", changes=((0, 7 + n % 2),)) for n, token in enumerate(order)
    ]
    number, rule, _ = first(known + toggles)
    assert ("idle", 3 + 2 + RULES.idle_run) == (rule, number)  # both values of the toggle are new once


def test_going_back_to_what_stood_before_is_nothing_new():
    """Where it is known what stood there, the first change back counts no more than any later one."""
    run(again("ABC", 1), trace := Trace())
    run([act("A", {"of": "A"}, "answer of A", changes=((5, 6),))], trace)
    assert 0 == trace.idle
    run([act("B", {"of": "B"}, "answer of B", changes=((6, 5),))], trace)
    assert 1 == trace.idle


@pytest.mark.parametrize("new", ["answer", "change", "file", "fact"])
def test_anything_new_is_progress(new):
    """A new answer, a new value in the state, a new file or a fact: none of eight actions is idle after it."""
    trace, steps = Trace(), again("ABACCBA", 1)
    run(again("ABC", 1) + steps, trace)
    assert 7 == trace.idle
    last = {
        "answer": act("A", {"of": "A"}, "another"),
        "change": act("B", {"of": "B"}, "answer of B", changes=((0, 9),)),
    }
    last["file"] = act("B", {"of": "B"}, "answer of B", files=((0, 9),))
    if new == "fact":
        note_fact(trace)
        assert 0 == trace.idle
    else:
        assert None is note(trace, last[new])
        assert 0 == trace.idle


# --- no circles -----------------------------------------------------------------------------------------------------
def test_an_answer_that_grows_is_no_circle():
    """Somebody waits for a build, not declared, and each time there is a line more, however long it is already."""
    lines = [f"line {n} of a build that says a lot about what it is doing just now, and where\n" for n in range(90)]
    assert {} == run([act("tail", {"of": "log"}, "".join(lines[:n])) for n in range(1, 41)])
    assert {} == run([act("tail", {"of": "log"}, "".join(lines[:n])) for n in range(50, 90)])
    assert {} == run([act("status", {}, {"done": f"{n} %"}) for n in range(40)])


def test_what_is_declared_to_wait_may_say_the_same_for_ever():
    """A poll with pauses is no circle; not declared it is one."""
    waits = [act("status", {}, "running", poll=True, at=n * 1_000_000) for n in range(400)]
    assert {} == run(waits)
    assert (3, "run", 1) == first([act("status", {}, "running") for _ in range(40)])


def test_a_poll_that_never_pauses_is_a_busy_loop():
    """A hundred in a row, and no time has passed: also when other polls went well before."""
    paused = [act("status", {}, "running", poll=True, at=n * 1_000_000) for n in range(250)]
    busy = [act("status", {}, "running", poll=True, at=250_000_000 + n) for n in range(301)]
    fired = run(paused + busy)
    assert {"poll"} == {firing.rule for firing in fired.values()}
    assert 250 + RULES.poll_run <= min(fired) <= 250 + 2 * RULES.poll_run
    assert {} == run(busy[:99])
    assert {} == run([*busy[:60], *again("A", 1), *busy[60:120]])


def test_a_poll_that_brings_news_is_progress():
    """Looking again each time something has moved is no circle, though it finds the same."""
    news = [[*again("A", 1), act("status", {}, f"phase {n}", poll=True)] for n in range(10)]
    assert {} == run(flat(news))
    assert (7, "run", 1) == first(flat([[*again("A", 1), act("status", {}, "running", poll=True)] for _ in range(10)]))


def test_batch_work_is_no_circle():
    """A declared list is finite: other arguments, or the next element of it, are other work."""
    assert {} == run([act("mark", {"row": n}, error="ValueError: no such row", batch=True) for n in range(50)])
    assert {} == run([act("tick", {}, "ok", batch=True, item=str(n)) for n in range(50)])
    assert (3, "run", 1) == first([act("tick", {}, "ok", batch=True, item="7") for n in range(5)])


def test_a_plain_loop_over_many_things_is_no_circle():
    """Calls that succeed with other arguments are other work, though all answer the same, and leave nothing behind."""
    assert {} == run([act("insert", {"row": n}) for n in range(50)])
    assert {} == run([act("insert", {"row": n}, PAGE) for n in range(50)])
    letter = " ".join(itertools.chain.from_iterable((one + other for other in "abcdefgh") for one in "abcdefgh"))
    assert {} == run([act("send", {"row": n, "text": letter}, PAGE) for n in range(50)])
    assert {} == run([act("pay", {"at": f"2024-05-{n}"}) for n in range(10, 31)])


def test_a_test_that_is_run_again_after_an_edit_is_no_circle():
    """Edits differ, or write another file; the test between them fails in the same way."""
    test = {"error": "AssertionError: 1 test failed"}
    edits = [[act("edit", {"line": n, "text": "x" * n}), act("test", {}, **test)] for n in range(20)]
    assert {} == run(flat(edits))
    writes = [[act("fix_next", {}, files=((0, 100 + n),)), act("test", {}, **test)] for n in range(20)]
    assert {} == run(flat(writes))
    same = [[act("edit", {"line": 1}), act("test", {}, **test)] for n in range(20)]
    assert (6, "cycle", 2) == first(flat(same))


def test_what_goes_away_by_waiting_and_what_a_model_says_is_left_out():
    """Retries are counted elsewhere; a model call between two equal actions hides nothing and is nothing."""
    assert {} == run([act("fetch", {}, error="TimeoutError: ", passing=True) for _ in range(20)])
    talk = [[act("ask", {"turn": n}, f"idea {n}", thought=True), *again("A", 1)] for n in range(3)]
    assert (6, "run", 1) == first(flat(talk))


# --- forgetting, and remembering ------------------------------------------------------------------------------------
def test_after_a_reset_the_old_part_counts_no_more_and_a_new_circle_is_found():
    """Tripped, told something else, tripped again by another pattern: each time from the beginning."""
    trace = Trace()
    assert [3] == list(run(again("A", 3), trace))
    note_reset(trace)
    assert Trace() == trace
    assert {} == run(again("A", 2), trace)
    assert [6] == list(run(again("BC", 3), trace))


@given(st.lists(st.sampled_from("ABCX"), max_size=40), st.integers(0, 40))
def test_a_restart_changes_nothing(tokens, at):
    """The trace as stored, in the middle of anything, goes on as the one that was not."""
    steps = [act(token, {"of": token}, **({"error": "OSError: no"} if token == "X" else {})) for token in tokens]
    trace, other = Trace(), Trace()
    run(steps[:at], trace)
    run(steps[:at], other)
    other = msgspec.json.decode(msgspec.json.encode(other), type=Trace)
    assert run(steps[at:], trace) == run(steps[at:], other)
    assert trace == other


def test_the_trace_stays_small():
    """Some KB, after a long run as after a short one."""
    trace = Trace()
    for n in range(5_000):
        error = {"error": f"OSError: {n}" * 500} if n % 3 == 0 else {}
        note(trace, act("read" * 20, {"path": f"{n}" * 5_000}, f"{n}" * 500, changes=((n, n + 1),), **error))
    assert 1_000 < len(msgspec.json.encode(trace)) < TRACE_BYTES_MAX


# --- one step beside those before it --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "step", "expected"),
    [
        (act("fix", {"line": 3, "more": []}), act("fix", {"line": "3"}), "same"),
        (act("fix", {"line": 3}), act("fix", {"line": 4}), ""),
        (act("fix", {"line": 3}), act("mend", {"line": 3}), ""),
        (act("fix", {"a": "b"}), act("fix", {}, error="ValueError: empty"), "lost"),
        (act("fix", {"a": "b c d e"}), act("fix", {"a": "b c d f"}, error="ValueError: no"), "lost"),
        (act("fix", {"a": "b c d e"}), act("fix", {"a": "b x y z"}, error="ValueError: no"), ""),
        (act("fix", {"a": "b"}, error="ValueError: full"), act("fix", {}, error="ValueError: empty"), ""),
        (
            act("sh", {"line": "python x.py"}, "sh: python: command not found"),
            act("sh", {"line": "env python x.py"}),
            "corrected",
        ),
        (act("sh", {"line": "python x.py"}, "sh: python: command not found"), act("sh", {"line": "ls /bin"}), ""),
        (act("sh", {"line": "python x.py"}, "Traceback"), act("sh", {"line": "env python x.py"}), ""),
        (act("fix", {"a": 1}, files=((5, 6),)), act("fix", {"a": 2}, files=((6, 5),)), "back"),
        (act("fix", {"a": 1}, files=((5, 6),)), act("fix", {"a": 2}, files=((6, 7),)), ""),
        (act("fix", {"a": 1}, files=((5, 6),)), act("fix", {"a": 2}, files=((5, 5),)), ""),
        (act("ask", {}), act("ask", {}, poll=True), ""),
    ],
)
def test_how_a_step_repeats_the_one_before(before, step, expected):
    """Four ways, each beside something that only looks like it."""
    assert expected == is_repetition(step, [before])
    assert "" == is_repetition(step, [])


def test_a_call_that_had_succeeded_and_fails_is_lost_unless_a_file_was_written_between():
    """However long ago it was."""
    done, other = act("edit", {"a": 1}), act("look", {})
    failed = act("edit", {"a": 1}, error="ValueError: already there")
    assert "lost" == is_repetition(failed, [done, other])
    assert "" == is_repetition(failed, [done, act("look", {}, files=((0, 1),))])


# --- what it costs --------------------------------------------------------------------------------------------------
def _varied(count):
    return [act("read", {"number": n}, f"{n:0200d}", changes=((0, n),)) for n in range(count)]


def test_an_action_that_varies_costs_next_to_nothing(capsys):
    """Other arguments and another answer: a bounded number of instructions, the same at the end of a run."""
    trace, counts = Trace(), []

    def count(frame, event, _arg):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts[-1] += event == "opcode"
        return count

    before = sys.gettrace()
    for step in _varied(2_000):
        counts.append(0)
        sys.settrace(count)
        try:
            note(trace, step)
        finally:
            sys.settrace(before)
    early, late = min(counts[50:100]), min(counts[-50:])
    assert early == late
    assert early <= VARIED_INSTRUCTIONS_MAX, f"{early} instructions"
    with capsys.disabled():
        sys.stdout.write(f" {early} instructions, {_time(_varied(5_000)):.2f} µs ")


def test_an_action_that_varies_costs_less_than_two_microseconds():
    """The best of several rounds, since the machine may be busy."""
    assert min(_time(_varied(2_000)) for _ in range(20)) < VARIED_US_MAX


def _time(steps):
    trace = Trace()
    start = time.perf_counter()
    for step in steps:
        note(trace, step)
    return (time.perf_counter() - start) / len(steps) * 1e6
