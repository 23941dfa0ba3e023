"""AutoGPT's episodes as turns of a conversation: each action an assistant's message whose calls have their results.

Two shapes of an action: {name, args, reasoning} (0.5.0) and {thoughts, use_tool, use_tools, raw_message} (since
0.5.1). What has no result was under way when AutoGPT ended: it is closed as interrupted, effect unknown. Pure.
Called by `state.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import msgspec

from perdure.agent.autogpt.reading import Object, Source, is_list, is_object
from perdure.model.chat import Call, Message, Result

FINISH: Final = "finish"
_NAME_MAX: Final = 64  # letters of a tool's name that every provider takes
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9_-]")
_KNOWN: Final = frozenset({"action", "result", "summary"})
_KNOWN_OF_ACTION: Final = frozenset({"name", "args", "reasoning", "thoughts", "use_tool", "use_tools", "raw_message"})
_INTERRUPTED: Final = Result(
    failed={
        "type": "Interrupted",
        "message": "AutoGPT ended during this call; whether it took effect is not known. Look before you do it again.",
    }
)
_FINISHED: Final = Result(text="The goal of that time was reached.")


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Episodes as messages."""

    messages: list[Message]
    finished: str | None = None  # the last words, where the last action was to finish
    unknown: tuple[str, ...] = ()  # keys that are none of AutoGPT's


def read_episodes(episodes: list[Any], source: Source, key: str) -> History:
    """Return the turns of `episodes`, the order kept; all calls are of turn 0. Raises ConfigInvalid naming the key."""
    messages: list[Message] = []
    unknown: dict[str, None] = {}
    finished: str | None = None
    taken = 0
    for number, item in enumerate(episodes):
        at = f"{key}[{number}]"
        episode = source.object_at(item, at)
        action = source.object_at(episode.get("action"), f"{at}.action")
        unknown |= dict.fromkeys(f"{key}[].{name}" for name in episode.keys() - _KNOWN)
        unknown |= dict.fromkeys(f"{key}[].action.{name}" for name in action.keys() - _KNOWN_OF_ACTION)
        calls = _calls(action, source, f"{at}.action", taken)
        taken += len(calls)
        finished = _reason(calls) if episode.get("result") is None else None
        results = _results(calls, episode.get("result"), source, f"{at}.result")
        messages += _turn(_thoughts(action, source, f"{at}.action"), calls, results)
    return History(messages=messages, finished=finished, unknown=tuple(unknown))


def _turn(thoughts: str, calls: list[Call], results: list[Result]) -> list[Message]:
    """Return one turn. An action without a call was a word to the person: what came back is the person's word."""
    if calls:
        answered = {call["id"]: result for call, result in zip(calls, results, strict=True)}
        return [Message(role="assistant", text=thoughts, calls=calls, results=answered)]
    reply = results[0].get("text") or results[0].get("failed", {}).get("message", "")
    return [Message(role="assistant", text=thoughts or "…"), Message(role="user", text=reply)]


def _calls(action: Object, source: Source, key: str, taken: int) -> list[Call]:
    if "use_tool" in action:
        tools = source.items_at(action.get("use_tools"), f"{key}.use_tools") or [action["use_tool"]]
        named = [(tool, "name", "arguments", f"{key}.use_tool") for tool in tools]
    elif "name" in action:
        named = [(action, "name", "args", key)]
    else:
        raise source.refusal(key, "has neither `use_tool` nor `name`; is it the state of another program?")
    calls: list[Call] = []
    for value, name_key, arguments_key, at in named:
        tool = source.object_at(value, at)
        name = source.text_at(tool.get(name_key), f"{at}.{name_key}").strip()
        arguments = source.object_at(tool.get(arguments_key), f"{at}.{arguments_key}")
        if name:
            calls.append(Call(id=f"0.{taken + len(calls) + 1}", name=_fitting(name), arguments=dict(arguments)))
    return calls


def _fitting(name: str) -> str:
    """Return a name that providers take; a model of that time may have made one up."""
    return _NO_LETTER.sub("_", name)[:_NAME_MAX]


def _reason(calls: list[Call]) -> str | None:
    for call in calls:
        if call["name"] == FINISH:
            return str(call["arguments"].get("reason", ""))
    return None


def _results(calls: list[Call], value: object, source: Source, key: str) -> list[Result]:
    """Return a result for each call, and one where there is none."""
    if value is None:
        return [_FINISHED if call["name"] == FINISH else _INTERRUPTED for call in calls] or [_INTERRUPTED]
    result = source.object_at(value, key)
    status = result.get("status")
    if status == "success":
        return _successes(calls, result.get("outputs"), source, key)
    if status == "error":
        failed = _failure(result, source, key)
    elif status == "interrupted_by_human":
        said = source.text_at(result.get("feedback"), f"{key}.feedback").strip()
        failed = {
            "type": "NotExecuted",
            "message": f"not executed; the person said: {said}" if said else "not executed",
        }
    else:
        raise source.refusal(f"{key}.status", f"{status!r} is not one of success, error, interrupted_by_human")
    return [Result(failed=failed) for _ in range(max(1, len(calls)))]


def _failure(result: Object, source: Source, key: str) -> dict[str, str]:
    reason = source.text_at(result.get("reason"), f"{key}.reason")
    error = source.object_at(result.get("error"), f"{key}.error")
    kind = source.text_at(error.get("exception_type"), f"{key}.error.exception_type")
    return {"type": kind or "CommandFailed", "message": reason or source.text_at(error.get("message"), key)}


def _successes(calls: list[Call], outputs: object, source: Source, key: str) -> list[Result]:
    """Return what each call gave. Of calls made at once AutoGPT kept one output per name, and errors as lines."""
    if len(calls) < 2:  # noqa: PLR2004 - one call, or none
        return [Result(text=_text(outputs))]
    by_name = source.object_at(outputs, f"{key}.outputs")
    errors = source.texts_at(by_name.get("_errors"), f"{key}.outputs._errors")
    times = Counter(call["name"] for call in calls)
    return [_one_of_many(call["name"], times[call["name"]], by_name, errors) for call in calls]


def _one_of_many(name: str, times: int, by_name: Object, errors: tuple[str, ...]) -> Result:
    failed = [line.partition(": ")[2] for line in errors if line.startswith(f"{name}: ")]
    if name in by_name and (times == 1 or not failed):
        shared = f"[AutoGPT kept one result of {times} calls of {name}; it may be another's.]\n" if times > 1 else ""
        return Result(text=shared + _text(by_name[name]))
    if failed and times == 1:
        return Result(failed={"type": "CommandFailed", "message": failed[0]})
    kept = [*failed, *([_text(by_name[name])] if name in by_name else [])]
    what = (
        f"AutoGPT did not keep which of {times} calls of {name} gave which result: {'; '.join(kept) or 'none is kept'}"
    )
    return Result(failed={"type": "ResultUnknown", "message": what})


def _text(outputs: object) -> str:
    if isinstance(outputs, str):
        return outputs
    return "" if outputs is None else msgspec.json.encode(outputs).decode()


def _thoughts(action: Object, source: Source, key: str) -> str:
    """Return what the agent thought, as lines of text."""
    thoughts = action.get("thoughts", action.get("reasoning"))
    if not is_object(thoughts):
        return source.text_at(thoughts, f"{key}.thoughts").strip()
    lines = (f"{name.replace('_', ' ')}: {_thought(value)}" for name, value in thoughts.items() if value)
    return "\n".join(lines)


def _thought(value: object) -> str:
    if is_list(value):
        return "".join(f"\n- {_text(item).removeprefix('- ')}" for item in value)
    return _text(value)
