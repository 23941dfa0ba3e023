"""What the command takes over from AutoGPT's files: which of them wins, what adds up, and what a resume needs."""

import json
import os

from perdure.cli.agents import changes_of, chosen, take_keys
from perdure.cli.running import RunOptions
from perdure.config import load_config
from perdure.core.permissions import Permissions, judge
from tests.agent.modelserver import Answer, ModelServer

ENV = "SMART_LLM=gpt-4o\nOPENAI_API_KEY=sk-of-the-file-1\nSHELL_DENYLIST=curl\nTEMPERATURE=0.5\n"


def choose(monkeypatch, **options):
    """Return what a run in this folder is to do; keys that it takes are gone with the test."""
    monkeypatch.setenv("OPENAI_API_KEY", "")
    wish = RunOptions(**options)
    config = load_config({"model": options["model"]} if "model" in options else {})
    return chosen(wish, config, changes_of(wish, config))


def test_no_list_takes_back_what_another_denies(here, monkeypatch):
    """The usual rules, those of the project and those of AutoGPT's `.env` deny together."""
    (here / ".env").write_text(ENV, "utf-8")
    usual = choose(monkeypatch, goal="tidy up").agent.settings
    (here / ".perdure").mkdir()
    (here / ".perdure" / "config.toml").write_text('deny = ["execute_shell(wget:**)"]\n', "utf-8")
    ours = choose(monkeypatch, goal="tidy up").agent.settings
    for settings, lines in ((usual, ("curl x",)), (ours, ("curl x", "wget x"))):
        rules = Permissions(allow=settings.allow, deny=settings.deny)
        verdicts = {judge(rules, "execute_shell", {"command_line": line}, "/w").outcome for line in lines}
        assert {"deny"} == verdicts


def test_a_model_of_the_command_line_goes_before_that_of_the_file(here, monkeypatch, capsys):
    """Other settings of the file hold, and what was read is said."""
    (here / ".env").write_text(ENV, "utf-8")
    settings = choose(monkeypatch, goal="tidy up", model="openai:gpt-5").agent.settings
    assert ("openai:gpt-5", 0.5) == (settings.model, settings.temperature)
    assert f"perdure: read {here / '.env'}\n" == capsys.readouterr().err


def test_goal_and_budget_come_from_the_file_that_is_named(here, monkeypatch):
    """A goal of the command line goes before it."""
    (here / ".env").write_text(ENV, "utf-8")
    (here / "mine.yaml").write_text("ai_goals: [Cook soup]\napi_budget: 3\n", "utf-8")
    start = choose(monkeypatch, ai_settings="mine.yaml")
    assert ("Cook soup", "3 USD") == (start.goal, start.budget.money)
    assert "Bake" == choose(monkeypatch, ai_settings="mine.yaml", goal="Bake").goal


def test_a_resume_takes_the_keys_of_the_file(here, monkeypatch):
    """Into the environment of its process; what is set there stays."""
    (here / ".env").write_text(ENV, "utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    take_keys()
    assert "sk-of-the-file-1" == os.environ["OPENAI_API_KEY"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-shell-2")
    take_keys()
    assert "sk-of-the-shell-2" == os.environ["OPENAI_API_KEY"]


def _runs_a_command(asked):
    """A model that runs a command, which asks; then it is done."""
    if "You judge" in json.dumps(asked.body["system"]):
        return Answer(text='{"passed": true, "reason": "it is"}')
    return Answer(text="done") if asked.turn else Answer(calls=(("execute_shell", {"command_line": "true"}),))


def test_a_resume_that_lacks_a_key_says_which_and_where_it_was_before_anything_runs(perdure, here, monkeypatch):
    """From another folder than that of its `.env`; nothing is written, with the key it goes on, no value is kept."""
    project, elsewhere = here / "project", here / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (project / ".env").write_text("ANTHROPIC_API_KEY=sk-of-the-file-1\n", "utf-8")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    store = ("--store", here / "tasks.db")
    with ModelServer(_runs_a_command) as server:
        monkeypatch.chdir(project)
        url = server.base_url.removesuffix("/v1")
        order = ("run", "Write a note", "--model", "anthropic:claude-sonnet-5-5", "--base-url", url, "--name", "n",
                 "--prompt-strategy", "one_shot")  # fmt: skip
        assert 3 == perdure(*order, *store)[0]
        assert {"ANTHROPIC_API_KEY": str(project / ".env")} == json.loads(perdure("state", "n", *store)[1])["keys"]
        assert "ok   secrets: ANTHROPIC_API_KEY is set" in perdure("resume", "n", "--dry-run", *store)[1]

        monkeypatch.chdir(elsewhere)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "")
        entries, requests = perdure("log", "n", *store)[1], len(server.requests())
        want = f"ANTHROPIC_API_KEY in the environment or in .env; the last time it came from {project / '.env'}"
        for verb in (("resume", "n"), ("resume", "n", "--yes"), order):
            code, _, err = perdure(*verb, *store)
            assert (2, True) == (code, want in err), err
        code, out, _ = perdure("resume", "n", "--dry-run", *store)
        assert (3, True) == (code, "stop secrets: set ANTHROPIC_API_KEY: anthropic:claude" in out)
        assert (entries, requests) == (perdure("log", "n", *store)[1], len(server.requests()))

        code, _, err = perdure("resume", "--all", *store)  # nobody reads it: there people are told
        assert (3, True) == (code, f"it; the last time it came from {project / '.env'}" in err), err
        assert requests == len(server.requests())

        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-shell-2")
        code, _, err = perdure("resume", "n", "--yes", *store)
        assert 0 == code, err
        assert {"ANTHROPIC_API_KEY": "the environment"} == json.loads(perdure("state", "n", *store)[1])["keys"]
        assert not any(b"sk-of-the" in path.read_bytes() for path in here.glob("tasks.db*"))
