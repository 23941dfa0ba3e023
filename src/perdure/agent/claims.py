"""What an agent says it has reached, and how that is found out: the goal verifier, and that of single steps.

A claim stands in memory until it is judged: by what lies in the workspace, by a command, or by a model in a request of
its own. One that is met is verified progress; one that is not counts as a failure, and the model is told why. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from perdure.agent import people, results
from perdure.agent.approaches import planning
from perdure.agent.approaches.approach import Approach, goal_check, step_check
from perdure.agent.asking import Question, asked
from perdure.agent.checks import ENDING, GOAL
from perdure.agent.kit import Kit
from perdure.agent.looking import look
from perdure.agent.memory import plain
from perdure.agent.permits import CHECKING
from perdure.agent.prompts import judging
from perdure.agent.turns import SHELL, act_of, finding_of, permitted
from perdure.model.move import Act, Judge, Move, PolicyView, Remember

CUT: Final = "Your answer was cut off at its greatest length. Go on from there, more briefly."
SEEN: Final = "what lies in the workspace shows it"
SEEN_IN_FILES: Final = frozenset({"file_exists", "text_contains", "json_valid"})
Memory = Any  # a writable view of the state


def already(view: PolicyView) -> Iterator[Move]:
    """Look whether the goal is reached already, where files can tell: before the first turn, and when going in circles.

    A loop is no proof of failure, and what was done before this task counts as well.
    """
    memory = view.memory
    moment = f"nudged {view.attempt}" if view.advice.kind == "nudge" else f"planned {memory.get('plans', 0)}"
    check = plain(goal_check(memory))
    if check.get("kind") not in SEEN_IN_FILES or memory.get("looked") == moment or "looked_amiss" in memory:
        return

    def keep(memory: Memory, finding: Mapping[str, Any]) -> None:
        memory["looked"] = moment
        if finding["passed"]:
            memory["met"] = True

    arguments = {"check": dict(check), "workspace": view.workspace}
    yield Act(tool=look, arguments=arguments, key=f"look {moment}", keep=keep, into=("looked_amiss",))


def met(view: PolicyView) -> Iterator[Move]:
    """End a task whose goal was found to be reached."""
    if view.memory.get("met"):

        def end(memory: Memory) -> None:
            memory["reached"] = memory["ahead"].get("result", "") or "The goal was reached already."

        yield Judge(name=GOAL, passed=True, reason=SEEN, change=end)


def claimed(view: PolicyView, approach: Approach) -> Iterator[Move]:
    """Take a claim from the last reply: a call of `finish` or `step_done`, or that it calls nothing."""
    message, turn = view.memory["messages"][-1], view.memory["turn"]
    if message["role"] != "assistant" or view.memory.get("claimed") == turn:
        return
    if message.get("is_cut") and not message["calls"]:
        yield _told_to_go_on(view)
    call = next((call for call in results.unanswered(message) if call["name"] in people.CLAIMING), None)
    if call is None and message.get("calls"):
        return
    is_planless = "why" in view.memory["ahead"] and "steps" not in view.memory["ahead"]
    if call is not None and call["name"] == "step_done" and is_planless:
        why = "a new plan is asked for; say so again when a step of that is done"
        yield results.given(len(view.memory["messages"]) - 1, {call["id"]: results.failed("NoStep", why)})
    is_step = call["name"] == "step_done" if call else approach.claims(view) == "step"
    title = planning.next_step(view) if is_step else ""
    text = str(call["arguments"].get("result", "")) if call else _whole_text(view.memory["messages"])
    claim = planning.claim_of(turn, title, text)

    def take(memory: Memory) -> None:
        memory["claimed"] = turn
        memory["claim"] = claim

    yield Remember(change=take)


def _whole_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest reply says, behind what those before it have said that were cut off."""
    text, place = str(messages[-1]["text"]), len(messages) - 1
    while place > 1 and messages[place - 1]["text"] == CUT and messages[place - 2].get("is_cut"):
        place -= 2
        head = str(messages[place]["text"])
        text = f"{head}{text}" if head[-1:].isspace() or text[:1].isspace() else f"{head} {text}"
    return text


def _told_to_go_on(view: PolicyView) -> Move:
    """Let a reply that was cut off be gone on with; from the second in a row on that counts as a failure."""

    def tell(memory: Memory) -> None:
        memory["messages"].append({"role": "user", "text": CUT})

    replies = (message for message in reversed(view.memory["messages"]) if message["role"] == "assistant")
    newest = list(islice(replies, 2))
    if len(newest) > 1 and all(message.get("is_cut") for message in newest):
        return Judge(name=ENDING, passed=False, reason="reply after reply is cut off", change=tell)
    return Remember(change=tell)


def judged(view: PolicyView, kit: Kit, approach: Approach) -> Iterator[Move]:
    """Find out whether what is claimed is so, and say it."""
    claim = view.memory.get("claim")
    if claim is None:
        return
    is_step = bool(claim["title"])
    check = plain(step_check(view.memory, claim["title"]) if is_step else goal_check(view.memory))
    if "finding" not in claim:
        yield from _found_out(view, kit, check, plain(claim))
    finding: dict[str, Any] = plain(claim["finding"])
    if "failed" in finding:  # what should have found out has failed itself: that shows nothing
        finding = {"passed": False, "reason": f"the check could not be made: {finding['failed']['message']}"}
    name = claim["title"] if is_step else GOAL
    closed = _closing(plain(claim), finding, approach)
    reason = finding["reason"] or (SEEN if finding["passed"] else "")
    yield Judge(name=name, passed=finding["passed"], reason=reason, change=closed)


def _found_out(view: PolicyView, kit: Kit, check: Mapping[str, Any], claim: Mapping[str, Any]) -> Iterator[Move]:
    """Find out, by the first of these; a command needs the permission of any other, and may have been run just now."""
    number, into = claim["id"], ("claim", "finding")
    kind = check.get("kind", "judged")
    if kind == "command_succeeds" and SHELL in kit.tools:
        if (ran := _just_run(view, kit, check["command"])) is not None:
            yield Remember(change=partial(_keep_run, ran=plain(ran)))
        call = {"id": f"{CHECKING}{number}", "name": SHELL, "arguments": {"command_line": check["command"]}}
        found = yield from permitted(view, kit, [call])
        for refused in found.refused.values():
            yield Remember(change=partial(_keep_refusal, why=refused.get("failed", {}).get("message", "")))
        yield _with(act_of(view, kit, 0, call), keep=_keep_exit, into=into)
    if kind in SEEN_IN_FILES:
        arguments = {"check": dict(check), "workspace": view.workspace}
        yield Act(tool=look, arguments=arguments, key=f"look {number}", into=into)
    criterion = check.get("criterion") or check.get("command") or claim["title"] or view.goal
    question = Question(
        form="verdict", messages=judging(view, criterion, claim["result"]), key=f"judge {number}", by_judge=True
    )
    yield asked(view, kit, question, _keep_verdict)


def _with(act: Act, *, keep: Any, into: tuple[str | int, ...]) -> Act:  # noqa: ANN401 - as `Act.keep`
    return Act(tool=act.tool, arguments=act.arguments, key=act.key, into=into, keep=keep, effect=act.effect)


def _just_run(view: PolicyView, kit: Kit, command: str) -> Mapping[str, Any] | None:
    """Return what a command has come to that was run in the newest two replies, where nothing was changed since."""
    replies = (message for message in reversed(view.memory["messages"]) if message["role"] == "assistant")
    for message in islice(replies, 2):
        for call in reversed(message.get("calls", ())):
            tool = kit.tools.get(call["name"])
            if tool is None or tool.effect.is_free:
                continue
            ran = view.memory.get("ran", {})
            is_it = ran.get("call") == call["id"] and _line_of(call["arguments"]) == command.strip()
            return ran if is_it else None
    return None


def _line_of(arguments: Mapping[str, Any]) -> str:
    """Return the command that a call has run in the workspace, as checks are."""
    return str(arguments["command_line"]).strip() if not arguments.get("working_dir") else ""


def _keep_exit(memory: Memory, result: Mapping[str, Any]) -> None:
    memory["claim"]["finding"] = finding_of(result)


def _keep_run(memory: Memory, ran: Mapping[str, Any]) -> None:
    memory["claim"]["finding"] = {"passed": ran["passed"], "reason": ran["reason"]}


def _keep_refusal(memory: Memory, why: str) -> None:
    memory["claim"]["finding"] = {"passed": False, "reason": f"the command of the check may not be run: {why}"}


def _keep_verdict(memory: Memory, said: Mapping[str, Any]) -> None:
    passed, reason = said["filled"]["passed"], said["filled"]["reason"]
    memory["claim"]["finding"] = {"passed": passed, "reason": f"a model judged: {reason}" if passed else reason}


def _closing(claim: Mapping[str, Any], finding: Mapping[str, Any], approach: Approach) -> Any:  # noqa: ANN401 - a change of memory
    """Return the change of memory that closes a claim."""
    met, why = finding["passed"], finding["reason"] or "the check is not met"

    def close(memory: Memory) -> None:
        memory.pop("claim")
        place = len(memory["messages"]) - 1
        calls = [call for call in results.unanswered(memory["messages"][place]) if call["name"] in people.CLAIMING]
        said = results.text("It is done.") if met else results.failed("NotReached", f"It is not done: {why}")
        later = results.failed("OneAtATime", "one claim of a reply is judged; make this one again if it is so")
        results.put(memory, place, {call["id"]: later if number else said for number, call in enumerate(calls)})
        if met and claim["title"]:
            memory.setdefault("done", []).append(claim["title"])
            memory["ahead"]["result"] = claim["result"]
        elif met:
            memory["reached"] = claim["result"]
        else:
            approach.missed(memory, why)
            if not calls:
                memory["messages"].append({"role": "user", "text": f"It is not done: {why}"})

    return close
