"""Tells from the settled actions of a branch whether it goes in circles. Decides nothing, and calls no program wrong.

A cascade; the first rule that holds is the one that is named. Each looks at actions in a row.

| rule | holds when |
|---|---|
| `error` | the same call has failed with the same error 2 times |
| `run` | the same call has had the same answer 3 times |
| `near` | 5 calls that differ in ids, times, numbers or a few words failed alike, or had the same long answer |
| `cycle` | a sequence of 2 to 6 actions has come 3 times, or 2 times where that makes 8 that brought nothing new |
| `again` | another round (2 of a single action) of the circle of which the program was told a moment ago |
| `idle` | 8 actions brought no new answer, left no new value and no new file, and no fact was stated |
| `poll` | 100 polls brought nothing new, and hardly any time has passed between them |

No circle: what is declared to wait (`poll`), what has moved on in declared batch work, what goes away by waiting
(`passing`), what a model says to another prompt (`thought`), and a run in which something new came about between. A
test that is run again after an edit is none either: the edit was another call, or wrote another file.

Answers and calls are compared by marks of 32 bits. Two that differ have the same mark once in four thousand million,
and a firing takes several in a row, so none rests on one. `note` is called by the fold, for each outcome; what has been
seen is in `model/trace.py`. How well this agrees with people: docs/explanation/stuck.md.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast
from zlib import crc32

import msgspec

from perdure.model.trace import Firing, Trace

Text = tuple[bool, str]  # whether it is a key, and what it says
Changes = tuple[tuple[int, int], ...]  # marks (before, after) of places with what stands there; 0 = not known

_MARKS_MAX: Final = 192  # of one generation
_ARGUMENTS_BYTES_MAX: Final = 1024  # that are kept of the last step
_OBSERVATION_BYTES_MAX: Final = 4096  # that are looked at where texts are compared
_LONG_ANSWER_BYTES: Final = 200  # "ok" is the answer to many questions, a page is not
_PERIOD_MAX: Final = 6
_STEPS_MAX: Final = 40  # that are kept: twice what the longest cycle needs
_UNLIKE_LOOK: Final = 64  # of so many calls with the same long answer, one is held against the last at least
_POLL_US: Final = 10_000  # time between polls which is as good as none


class StuckRules(msgspec.Struct, frozen=True, kw_only=True):
    """How often is too often."""

    error_run: int = 2
    run: int = 3
    near_run: int = 5
    rounds: int = 3  # of a cycle
    idle_run: int = 8
    poll_run: int = 100
    near: float = 0.8  # share of word shingles in common


DEFAULT: Final = StuckRules()


class Step(msgspec.Struct, kw_only=True, gc=False):
    """One settled action, as the journal tells it."""

    seq: int  # of its outcome
    tool: str
    arguments: bytes = b"{}"  # as encoded in the intent; may be cut
    digest: bytes  # of the canonical arguments: equal arguments <=> equal digest
    observation: bytes  # encoded result, or "type: message" of the error; whoever cuts it adds length and digest
    failed: bool = False
    passing: bool = False  # failed in a way that goes away by waiting: whoever waits counts these
    poll: bool = False  # declared to wait, or asked for freshly on purpose
    thought: bool = False  # a model call: as long as it is asked otherwise, what it says shows nothing
    batch: bool = False  # in the body of an `each` loop or of a `map`: a finite list
    item: str = ""  # of a batch: at which element, where that is known
    changes: Changes = ()  # of the state, by its patch
    files: Changes = ()  # that it wrote
    at: int = 0  # UTC, microseconds


def note_fact(trace: Trace) -> None:
    """A verified fact is progress: what came before it counts no more. What was seen is still known."""
    trace.steps.clear()
    trace.warned.clear()
    trace.idle = trace.polls = 0


def note_hint(trace: Trace, period: int) -> None:
    """The program is told of a circle of `period` actions, which has just closed: it begins anew, knowing of it."""
    trace.warned = [mark for _, _, mark in trace.steps[-period:]] if period else []
    trace.steps.clear()
    trace.idle = trace.polls = 0


def note_again(trace: Trace, calls: Iterable[tuple[str, bytes]]) -> None:
    """The program is called anew, and will make `calls` (tool, digest) again: each of them is no repetition, once."""
    trace.owed = [crc32(digest, _mark_of(tool)) for tool, digest in calls][-_MARKS_MAX:]


def is_owed(trace: Trace, tool: str, digest: bytes) -> bool:
    """Whether that call is made again for no other reason than that the program was called anew; asked once."""
    mark = crc32(digest, _mark_of(tool))
    if mark not in trace.owed:
        return False
    trace.owed.remove(mark)
    return True


def note_reset(trace: Trace) -> None:
    """Forget everything: after an answer or a rollback the same actions are another attempt."""
    note_fact(trace)
    trace.owed.clear()
    trace.recent.clear()
    trace.older.clear()
    trace.unlike, trace.arguments, trace.answer, trace.item = 0, b"", 0, ""


def note_news(trace: Trace, seq: int, tool: str, call: tuple[bytes, bytes], observation: bytes) -> bool:
    """Take in a success of a call that was not made of late; return False where that takes a closer look by `note`.

    This is nearly every action of a run that is well, so it is kept short. `call` = (digest, arguments) of a `Step`.
    """
    tool_mark = _mark_of(tool)
    mark, answer = crc32(call[0], tool_mark), crc32(observation, tool_mark)
    recent, older = trace.recent, trace.older
    if mark in recent or mark in older:
        return False
    if answer == trace.answer and len(observation) >= _LONG_ANSWER_BYTES:
        unlike = trace.unlike
        if not unlike or not unlike & (unlike - 1) or not unlike % _UNLIKE_LOOK:
            return False
        trace.unlike = unlike + 1
    recent[mark] = recent[answer] = 0
    if len(recent) >= _MARKS_MAX:
        trace.older, trace.recent = recent, {}
    steps = trace.steps
    steps.append((seq, mark ^ answer, mark ^ answer))
    if len(steps) > _STEPS_MAX:
        del steps[: _STEPS_MAX // 2]
    trace.idle = trace.polls = 0
    trace.arguments, trace.answer, trace.item = call[1], answer, ""
    return True


def note(trace: Trace, step: Step, rules: StuckRules = DEFAULT) -> Firing | None:
    """Take in a settled action; return what shows that it closes a circle, if it does: each time anew."""
    if step.passing:
        return None
    tool = _mark_of(step.tool)
    answer = crc32(step.observation, tool)
    if step.poll:
        return _note_poll(trace, step, answer, rules)
    call = crc32(step.digest, tool)
    is_new_call = _add(trace, call)
    if step.thought and is_new_call:
        return None
    if step.failed or not is_new_call:  # this alone may be a repetition: its ids and times do not count
        answer = crc32(_without_chance(step.observation, with_numbers=step.failed), tool)
    is_new_answer = _add(trace, answer)
    is_new = is_new_answer or (is_new_call and not step.failed)
    if step.changes:
        is_new = _add_changes(trace, step.changes) or is_new
    has_moved_on = step.batch and (is_new_call or step.item != trace.item)
    if has_moved_on or (step.files and _add_changes(trace, step.files)):
        note_fact(trace)
        is_new = True
    exact = call ^ answer
    may_be_like = not is_new_answer and (step.failed or len(step.observation) >= _LONG_ANSWER_BYTES)
    is_like = may_be_like and _is_like_last(trace, step, answer, rules.near)
    trace.unlike = 0 if is_like else trace.unlike + 1
    like = trace.steps[-1][1] if is_like else exact
    trace.steps.append((step.seq, like, exact))
    if len(trace.steps) > _STEPS_MAX:
        del trace.steps[: _STEPS_MAX // 2]
    trace.idle = 0 if is_new else trace.idle + 1
    trace.polls, trace.answer, trace.item = 0, answer, step.item
    trace.arguments = step.arguments[:_ARGUMENTS_BYTES_MAX]
    if is_new_answer or (is_new_call and not may_be_like):
        return None
    return _find_circle(trace, step, rules)


@functools.lru_cache
def _mark_of(tool: str) -> int:
    return crc32(tool.encode())


def _add(trace: Trace, mark: int) -> bool:
    """Return whether `mark` was not seen of late; it has been now."""
    recent = trace.recent
    if mark in recent:
        return False
    recent[mark] = 0
    is_new = mark not in trace.older
    if len(recent) >= _MARKS_MAX:
        trace.older, trace.recent = recent, {}
    return is_new


def _add_changes(trace: Trace, changes: Changes) -> bool:
    """Return whether anything stands anywhere that did not stand there of late."""
    is_new = False
    for before, after in changes:
        if before:
            _add(trace, before)
        is_new = _add(trace, after) or is_new
    return is_new


def _note_poll(trace: Trace, step: Step, answer: int, rules: StuckRules) -> Firing | None:
    if _add(trace, answer):
        note_fact(trace)  # what was waited for has moved
        return None
    trace.polls += 1
    if trace.polls == 1:
        trace.polled_from = step.at
    if trace.polls < rules.poll_run:
        return None
    if step.at - trace.polled_from >= trace.polls * _POLL_US:
        trace.polls = 0
        return None
    text = f"{step.tool} was asked {trace.polls} times in a row, with hardly any time between, and said nothing new"
    return Firing(rule="poll", entries=(step.seq,), period=1, text=text)


def _is_like_last(trace: Trace, step: Step, answer: int, near: float) -> bool:
    if not trace.steps or trace.answer != answer:
        return False
    return _are_near(trace.arguments, step.arguments[:_ARGUMENTS_BYTES_MAX], near, with_numbers=step.failed)


def _find_circle(trace: Trace, step: Step, rules: StuckRules) -> Firing | None:
    steps = trace.steps
    _, like, exact = steps[-1]
    told = trace.warned if len(trace.warned) != 1 else trace.warned * 2  # to look once more is no circle
    if told and sorted(mark for _, _, mark in steps[-len(told) :]) == sorted(told):
        count, period = len(told), len(trace.warned)
        return _fire(trace, "again", count, period, f"{step.tool}: the same again, right after it was told so")
    same = _count_back(mark == exact for _, _, mark in reversed(steps))
    if step.failed and same >= rules.error_run:
        return _fire(trace, "error", same, 1, f"{step.tool} failed {same} times in a row with the same error")
    if same >= rules.run:
        return _fire(trace, "run", same, 1, f"{step.tool} gave the same answer {same} times to the same arguments")
    near = _count_back(mark == like for _, mark, _ in reversed(steps))
    if near >= rules.near_run:
        what = "failed alike" if step.failed else "gave the same answer"
        return _fire(trace, "near", near, 1, f"{step.tool} {what} {near} times to nearly the same arguments")
    is_idle = trace.idle >= rules.idle_run
    for period in range(2, _PERIOD_MAX + 1):
        rounds = 2 if is_idle and 2 * period >= rules.idle_run else rules.rounds
        if _is_cycle(steps, period, rounds):
            text = f"the same {period} actions came {rounds} times in a row, the last of them {step.tool}"
            return _fire(trace, "cycle", period * rounds, period, text)
    if is_idle:
        count = min(trace.idle, len(steps))
        text = f"{trace.idle} actions in a row brought nothing that was not there before"
        return _fire(trace, "idle", count, 0, text)
    return None


def _fire(trace: Trace, rule: str, count: int, period: int, text: str) -> Firing:
    entries = tuple(seq for seq, _, _ in trace.steps[-count:])
    return Firing(rule=rule, entries=entries, period=period, text=text)


def _count_back(hits: Iterable[bool]) -> int:
    count = 0
    for hit in hits:
        if not hit:
            break
        count += 1
    return count


def _is_cycle(steps: list[tuple[int, int, int]], period: int, rounds: int) -> bool:
    count = len(steps)
    if count < period * rounds or steps[-1][2] != steps[-1 - period][2]:
        return False
    first = count - period * (rounds - 1)
    return all(steps[at][2] == steps[at - period][2] for at in range(first, count))


# --- what is the same in two texts ----------------------------------------------------------------------------------
_CHANCE: Final = re.compile(
    rb'"(?:thoughts?|reasoning|rationale)"\s*:\s*"(?:[^"\\]|\\.)*"'
    rb"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b0x[0-9a-fA-F]+"
    rb"|\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?"
    rb"|\b\d{1,2}:\d\d:\d\d(?:\.\d+)?|\b1[5-9]\d{8}(?:\d{3}|\d{6}|\.\d+)?\b"
)  # thoughts, ids, addresses, times; no digests: where these differ, something does
_NUMBER: Final = re.compile(rb"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{12,}\b|\d+(?:\.\d+)?")  # and what looks like an id
_WORD: Final = re.compile(rb"\w+")


def _without_chance(text: bytes, *, with_numbers: bool) -> bytes:
    """Return `text` without thoughts, ids and times, and where asked for without any number; as far as it is read."""
    text, rest = text[:_OBSERVATION_BYTES_MAX], text[_OBSERVATION_BYTES_MAX:]
    text = _CHANCE.sub(b"#", text)
    return (_NUMBER.sub(b"#", text) if with_numbers else text) + rest


def _are_near(left: bytes, right: bytes, near: float, *, with_numbers: bool) -> bool:
    """Tell whether two texts differ in nothing but chance, or share most of their shingles of three words.

    Calls that differ in a number may well be items of some work: `with_numbers` says that this is out of question.
    """
    if left == right:
        return True
    left, right = _without_chance(left, with_numbers=with_numbers), _without_chance(right, with_numbers=with_numbers)
    if _NUMBER.findall(left) != _NUMBER.findall(right):
        return False
    one, other = _shingles(left), _shingles(right)
    return len(one & other) >= near * len(one | other)


def _shingles(text: bytes) -> set[bytes]:
    words: list[bytes] = _WORD.findall(text)
    return {b" ".join(words[at : at + 3]) for at in range(max(1, len(words) - 2))}


# --- one step beside those before it --------------------------------------------------------------------------------
_WRONG_IN_FORM: Final = re.compile(
    rb"missing \d+ required|unexpected keyword argument|takes \d+ positional|unrecognized arguments|no module named"
    rb"|command not found|no such file or directory|can't open file|invalid option",
    re.IGNORECASE,
)  # of a call that was wrong in form: as Python and shells say it
_NEARLY_ALL: Final = 0.75  # of the words


def is_repetition(step: Step, earlier: Sequence[Step]) -> str:
    """Say how `step` repeats what was done before; empty where it does not. `earlier`: oldest first.

    `back`: everything that it writes stood there before. `same`: the step before, but for empty arguments and how
    values are written. `lost`: that one succeeded; this one is nearly the same, or says less, and fails; so does this
    one where the very same succeeded earlier, and no file was written since. `corrected`: the step before was wrong in
    form, and is made again. So people judge a step by itself; one of these is no circle yet.
    """
    if not earlier or step.poll:
        return ""
    if _goes_back(step, earlier):
        return "back"
    if step.failed and _has_succeeded(step, earlier):
        return "lost"
    before = earlier[-1]
    if before.tool != step.tool:
        return ""
    now, then = _texts_of(step.arguments), _texts_of(before.arguments)
    if before.digest == step.digest or now == then:
        return "same"
    if step.failed and not before.failed and _says_no_more(now, then):
        return "lost"
    is_wrong_in_form = _WRONG_IN_FORM.search(before.observation[:_OBSERVATION_BYTES_MAX])
    return "corrected" if is_wrong_in_form and _is_part(now, then) else ""


def _has_succeeded(step: Step, earlier: Sequence[Step]) -> bool:
    for one in reversed(earlier):
        if one.tool == step.tool and one.digest == step.digest:
            return not one.failed
        if one.files:
            break
    return False


def _says_no_more(now: list[Text], then: list[Text]) -> bool:
    """Tell whether the words of `now` are among those of `then`, or nearly all of both are the same."""
    now_words, then_words = _words(now, with_keys=True), _words(then, with_keys=True)
    shared = (now_words & then_words).total()
    most = max(now_words.total(), then_words.total())
    return shared == now_words.total() or shared >= _NEARLY_ALL * most


def _is_part(now: list[Text], then: list[Text]) -> bool:
    """Tell whether the values of one are among those of the other, under whatever keys."""
    now_words, then_words = _words(now, with_keys=False), _words(then, with_keys=False)
    return now_words <= then_words or then_words <= now_words


def _goes_back(step: Step, earlier: Sequence[Step]) -> bool:
    changes = [change for change in step.files + step.changes if change[0] != change[1]]
    if not changes:
        return False
    stood = {before for one in earlier for before, _ in one.files + one.changes if before}
    return all(after in stood for _, after in changes)


def _words(texts: list[Text], *, with_keys: bool) -> Counter[str]:
    return Counter(word for is_key, text in texts if with_keys or not is_key for word in re.findall(r"\w+", text))


def _texts_of(arguments: bytes) -> list[Text]:
    """Return keys and values of encoded arguments, in order; without what is empty, and numbers as text."""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:  # cut
        return [(False, " ".join(arguments.decode("utf-8", "replace").split()))]
    return list(_texts(value))


def _texts(value: object) -> Iterator[Text]:
    if isinstance(value, dict):
        for key, item in sorted(cast("dict[str, object]", value).items()):
            inner = list(_texts(item))
            if inner:
                yield True, key
                yield from inner
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _texts(item)
    elif value not in ("", None):
        yield False, " ".join(str(value).split())
