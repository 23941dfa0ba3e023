"""Conversations as they go to a provider: whatever was said and whoever answered, the history is valid."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import messages as wire

from perdure.errors import ConversationInvalid
from perdure.llm.conversation import kept_of, to_wire
from tests.agent.history import problems_of

texts = st.text(max_size=8)
names = st.sampled_from(["read", "write", "", "no name!", "n" * 65])
results = st.one_of(
    st.builds(lambda text: {"text": text}, texts),
    st.builds(lambda text: {"failed": {"type": "builtins.OSError", "message": text}}, texts),
)


@st.composite
def turns(draw, number):
    """An assistant's turn with all its calls answered, kept by one of two providers or by none."""
    called = draw(st.lists(names, max_size=3))
    calls = [{"id": f"{number}.{place}", "name": name, "arguments": {"n": place}} for place, name in enumerate(called)]
    message = {"role": "assistant", "text": draw(texts), "calls": calls}
    message["results"] = {call["id"]: draw(results) for call in calls}
    ids = draw(st.lists(st.sampled_from(["c0", "c1", ""]), min_size=len(calls), max_size=len(calls)))
    parts = [{"part_kind": "thinking", "content": "hm", "signature": "s"}] if draw(st.booleans()) else []
    parts += [{"part_kind": "text"}] if message["text"].strip() else []
    parts += [
        {"part_kind": "tool-call", "tool_name": name, "tool_call_id": given}
        for name, given in zip(called, ids, strict=True)
    ]
    kept = draw(st.sampled_from([None, "ours", "theirs", "broken"]))
    if kept == "broken":
        message["kept"] = {"system": "ours", "parts": [{"part_kind": "tool-call", "tool_name": "other"}]}
    elif kept is not None:
        message["kept"] = {"system": kept, "parts": parts}
    return message


@st.composite
def conversations(draw):
    """Messages of everybody, with something asked at the end."""
    spoken = st.builds(lambda role, text: {"role": role, "text": text}, st.sampled_from(["system", "user"]), texts)
    count = draw(st.integers(0, 6))
    middle = [draw(st.one_of(spoken, turns(number))) for number in range(count)]
    return [{"role": "user", "text": "begin"}, *middle, {"role": "user", "text": "go on"}]


def as_chat(messages):
    """The messages in the form that `problems_of` judges."""
    chat = []
    for message in messages:
        if isinstance(message, wire.ModelResponse):
            calls = [
                {"id": call.tool_call_id, "function": {"name": call.tool_name, "arguments": call.args_as_json_str()}}
                for call in message.tool_calls
            ]
            chat.append({"role": "assistant", "content": message.text, "tool_calls": calls})
            continue
        for part in message.parts:
            match part:
                case wire.ToolReturnPart(content=content, tool_call_id=call):
                    chat.append({"role": "tool", "content": content, "tool_call_id": call})
                case wire.SystemPromptPart(content=content):
                    chat.append({"role": "system", "content": content})
                case wire.UserPromptPart(content=content):
                    chat.append({"role": "user", "content": content})
    return {"model": "m", "messages": chat}


@given(conversations())
def test_every_history_is_valid(messages):
    """Every call is answered once, right behind it, in order, under an id of its own; nothing empty is said."""
    sent = to_wire(messages, "ours")
    assert [] == problems_of(as_chat(sent))
    called = [part for each in sent for part in each.parts if isinstance(part, wire.ToolCallPart)]
    returned = [part for each in sent for part in each.parts if isinstance(part, wire.ToolReturnPart)]
    assert [call.tool_name for call in called] == [part.tool_name for part in returned]
    assert sum(len(message.get("calls", ())) for message in messages) == len(called)


@given(conversations())
def test_what_one_provider_kept_is_not_handed_to_another(messages):
    """Thinking goes back to whom it came from, and the same conversation always becomes the same messages."""
    sent = to_wire(messages, "others")
    assert [] == [part for each in sent for part in each.parts if isinstance(part, wire.ThinkingPart)]
    bare = [{name: value for name, value in message.items() if name != "kept"} for message in messages]
    assert as_chat(to_wire(bare, "ours")) == as_chat(sent)


@given(conversations())
def test_a_longer_conversation_begins_with_the_shorter_one(messages):
    """What was sent before is sent again as it was: a provider finds it in its cache."""
    longer = [*messages, {"role": "assistant", "text": "so"}, {"role": "user", "text": "and?"}]
    before = as_chat(to_wire(messages, "ours"))["messages"]
    assert before == as_chat(to_wire(longer, "ours"))["messages"][: len(before)]


def test_a_reply_comes_back_as_it_was():
    """Kept and put together again with text and arguments of the message, it is the provider's own reply."""
    response = wire.ModelResponse(
        parts=[
            wire.ThinkingPart(content="hm", signature="s" * 20, provider_name="ours"),
            wire.TextPart(content="I look."),
            wire.ToolCallPart("read", {"path": "a"}, "c7", provider_details={"thought_signature": "t"}),
        ],
        model_name="m-1",
        provider_name="ours",
    )
    kept = json.loads(json.dumps(kept_of(response, "ours")))
    call = {"id": "1.0", "name": "read", "arguments": {"path": "a"}}
    message = {
        "role": "assistant",
        "text": "I look.",
        "calls": [call],
        "results": {"1.0": {"text": "x"}},
        "kept": kept,
    }
    [restored, _] = to_wire([message], "ours")
    assert (list(response.parts), "m-1") == (list(restored.parts), restored.model_name)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_reply_with_nothing_in_it_is_left_out(text):
    """An empty reply, as a refusal leaves it, is no message that a provider takes."""
    sent = to_wire(
        [{"role": "user", "text": "go"}, {"role": "assistant", "text": text}, {"role": "user", "text": "on"}], "ours"
    )
    assert ["go", "on"] == [part.content for each in sent for part in each.parts]


def test_a_call_without_a_result_is_refused_by_its_id():
    """Nothing is made up here: whoever drives the conversation answers each call."""
    call = {"id": "1.0", "name": "read", "arguments": {}}
    with pytest.raises(ConversationInvalid, match=r"message 0 of the request: call '1\.0' of 'read' has no result"):
        to_wire([{"role": "assistant", "text": "", "calls": [call]}], "ours")
