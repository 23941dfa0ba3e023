"""A strategy's name proves nothing: what is sent to the model and to the search service must be another after it.

Four rollbacks, each for another reason and to a strategy that changes something else: template, tools, source, model.
The services note each request. Killed wherever recovery is at work, no request is other than undisturbed.
"""

import json
import subprocess
import sys
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from tests.crash.changing import RECKON_FIRST, SEARCH_FIRST, STRATEGIES
from tests.crash.forked import play_apart

ROOT = Path(__file__).parents[2]
IN_RECOVERY = ("during_recovery", "during_rollback")
BY_NAME = {one.name: one for one in STRATEGIES}
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def port():
    """The services, in a process of their own."""
    command = [sys.executable, "-m", "tests.crash.services"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as services:
        yield int(services.stdout.readline())
        services.stdin.close()
        services.wait(10)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, port):
    """What happens when nobody kills it, and how often each crash point is reached."""
    (found,) = play_apart("tests.crash.changing", [[]], tmp_path_factory.mktemp("undisturbed"), port)
    assert (found["kills"], found["status"], found["findings"]) == ([], "succeeded", [])
    return found


def told(request):
    """Return what a request to the model shows of a strategy: template, tools in order, model, temperature."""
    body = request["body"]
    template = body["messages"][0]["content"].partition("\n")[0]
    return template, tuple(tool["function"]["name"] for tool in body["tools"]), body["model"], body["temperature"]


def asked_by(log):
    """Return the requests to the model in groups: those in a row that show the same strategy."""
    chats = [request for request in log if request["path"] == CHAT]
    return [(shown, list(requests)) for shown, requests in groupby(chats, told)]


def marks_in(request):
    """Return the marks of the model's earlier answers that a request holds, in its transcript or anywhere else."""
    return {word.strip('",') for word in json.dumps(request["body"]).split() if word.startswith(('"reply-', "reply-"))}


def judge(found):
    """Return what is wrong with the requests of one case, a line each."""
    wrong = []
    groups = asked_by(found["log"])
    expected = [STRATEGIES[0], *(BY_NAME[name] for name in found["strategies"])]
    shown = [(one.prompt, one.tools, one.model, one.temperature) for one in expected]
    if [same for same, _ in groupby(shown)] != [same for same, _ in groups]:
        wrong.append(f"asked as {[same for same, _ in groups]} instead of as {shown}")
    backends = [request["path"].split("/")[1] for request in found["log"] if request["path"] != CHAT]
    if [name for name, _ in groupby(backends)] != [name for name, _ in groupby(one.source for one in expected)]:
        wrong.append(f"searched at {backends}")
    before = set()
    for number, (_, requests) in enumerate(segments(found["log"])):
        if any(lesson not in request["body"]["messages"][0]["content"]
               for request in requests for lesson in found["lessons"][:number]):  # fmt: skip
            wrong.append(f"strategy {number} is not told each of {number} lessons")
        seen = set().union(*(marks_in(request) for request in requests))
        if seen & before:
            wrong.append(f"strategy {number} is shown {sorted(seen & before)} of a transcript that was left")
        if len(requests[0]["body"]["messages"]) != 1:
            wrong.append(f"strategy {number} does not begin with an empty transcript")
        before |= seen
    if number != 4:
        wrong.append(f"{number} rollbacks")
    return wrong


def segments(log):
    """Return the requests to the model in groups by how many lessons they were told."""
    chats = [request for request in log if request["path"] == CHAT]
    return [
        (count, list(requests)) for count, requests in groupby(chats, lambda one: str(one["body"]).count("tried '"))
    ]


def test_after_each_rollback_the_requests_are_other_ones(undisturbed):
    """Template, tools, source, model: at the fourth change it succeeds; lessons stay, transcripts go."""
    assert [] == judge(undisturbed)
    assert ["outline", "reckon", "library", "large"] == undisturbed["strategies"]
    changed = [
        told_apart(*pair) for pair in pairwise([STRATEGIES[0], *(BY_NAME[n] for n in undisturbed["strategies"])])
    ]
    assert [{"prompt"}, {"prompt", "tools"}, {"tools", "source"}, {"model", "temperature"}] == changed
    assert [SEARCH_FIRST, SEARCH_FIRST, RECKON_FIRST, SEARCH_FIRST, SEARCH_FIRST] == [
        told(requests[0])[1] for _, requests in segments(undisturbed["log"])
    ]
    assert ["looked up", "looked up", "asked", "looked up"] == undisturbed["to"]
    assert "HEIGHT 330" in undisturbed["result"]


def told_apart(one, other):
    """Return the fields in which two strategies differ, apart from their names."""
    fields = ("prompt", "tools", "source", "model", "temperature")
    return {field for field in fields if getattr(one, field) != getattr(other, field)}


def test_a_refused_answer_is_asked_for_again_with_the_reason(undisturbed):
    """Twice under the first strategy: the request holds what the check has said, and not the refused answer."""
    (_, requests), *_ = segments(undisturbed["log"])
    advised = ["check 'it names a height' was not met" in one["body"]["messages"][0]["content"] for one in requests]
    assert [False, False, True, True] == advised
    assert ["reask", "reask", "roll_back"] == undisturbed["rows"][:3]
    assert not any("I am not sure" in str(one["body"]) for one in undisturbed["log"])


def test_killed_wherever_recovery_is_at_work_no_request_is_other(undisturbed, port, tmp_path):
    """After each observed failure, each decision, at each step of each rollback: the same requests, once each."""
    cases = [[f"{name}:{n + 1}"] for name in IN_RECOVERY for n in range(undisturbed["counts"][name])]
    found = play_apart("tests.crash.changing", cases, tmp_path / "killed", port)
    kills = sum(signal == 9 for one in found for signal in one["kills"])
    print(f"{kills} kills in {len(cases)} cases: {', '.join(IN_RECOVERY)}")
    assert kills == len(cases) > 20
    for one in found:
        same = ("status", "rows", "strategies", "lessons", "to", "findings", "result", "log")
        assert [] == [what for what in same if one[what] != undisturbed[what]], one["case"]
        assert [] == judge(one)


def test_killed_twice_in_the_same_recovery_no_request_is_other(undisturbed, port, tmp_path):
    """The second kill comes while the first is made good: at the claim of the lease, in decision or rollback."""
    firsts = [[f"during_rollback:{n}"] for n in (1, 4, 7)] + [[f"during_recovery:{n}"] for n in (8, 9, 12)]
    cases = [[*first, f"{name}:{n}"] for first in firsts for name in IN_RECOVERY for n in (1, 3)]
    found = play_apart("tests.crash.changing", cases, tmp_path / "killed", port)
    print(f"{sum(signal == 9 for one in found for signal in one['kills'])} kills in {len(cases)} cases, twice each")
    for one in found:
        assert (undisturbed["log"], []) == (one["log"], one["findings"]), one["case"]


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_anywhere_only_the_question_under_way_is_asked_again(undisturbed, port, tmp_path, every):
    """Whatever dies, the requests tell the strategies as undisturbed; each kill costs at most one of them."""
    cases = [[f"any:{n}"] for n in range(1, undisturbed["counts"]["any"], every)]
    found = play_apart("tests.crash.changing", cases, tmp_path / "killed", port)
    print(f"{sum(signal == 9 for one in found for signal in one['kills'])} kills in {len(cases)} cases, at any point")
    for one in found:
        assert (["succeeded"], [], []) == ([one["status"]], judge(one), one["findings"]), one["case"]
        assert len(undisturbed["log"]) <= len(one["log"]) <= len(undisturbed["log"]) + 1, one["case"]
        assert undisturbed["rows"] == one["rows"], one["case"]
