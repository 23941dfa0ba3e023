"""The file that names MCP servers, and what hints and words make of a tool."""

from __future__ import annotations

import json

import pytest
from mcp_types import ToolAnnotations

from perdure.errors import ConfigInvalid
from perdure.tools.mcp.config import filled, read_servers, secrets_of
from perdure.tools.mcp.effects import effect_of


def write(tmp_path, **rows):
    """Write a file of servers; return its path."""
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": rows, "theme": "of another client"}))
    return str(file)


def refused(tmp_path, row, environ=None):
    """Return why a file with this server is refused."""
    with pytest.raises(ConfigInvalid) as caught:
        read_servers(write(tmp_path, desk=row), environ or {})
    return str(caught.value)


def test_servers_are_read_in_the_form_of_the_usual_clients(tmp_path):
    """By command or by url; disabled ones are left out, what only other clients know is passed over."""
    path = write(
        tmp_path,
        desk={"command": "npx", "args": ["-y", "desk"], "env": {"A": "b"}, "cwd": "/tmp", "autoApprove": ["x"]},
        far={"url": "https://far.example/mcp", "headers": {"X": "y"}, "timeout_s": 5, "effects": {"a": "pure"}},
        old={"type": "sse", "url": "https://old.example/sse"},
        off={"command": "no", "disabled": True},
    )
    desk, far, old = read_servers(path, {})
    assert ("desk", "stdio", "npx", ("-y", "desk"), {"A": "b"}, "/tmp", 600.0) == (
        desk.name, desk.transport, desk.command, desk.args, desk.env, desk.cwd, desk.timeout_s
    )  # fmt: skip
    assert ("http", "https://far.example/mcp", {"X": "y"}, 5.0, {"a": "pure"}) == (
        far.transport, far.url, far.headers, far.timeout_s, far.effects
    )  # fmt: skip
    assert "sse" == old.transport


def test_variables_are_filled_in_when_a_server_is_opened_and_kept_nowhere(tmp_path):
    """Also with something otherwise; what they stood for is known as a secret, short words apart."""
    row = {
        "command": "${BIN:-desk}",
        "args": ["--key", "${KEY}", "$HOME ${}"],
        "env": {"TOKEN": "Bearer ${KEY}"},
        "cwd": "${PLACE}",
    }
    environ = {"KEY": "k3y-long", "PLACE": "/srv"}
    (server,) = read_servers(write(tmp_path, desk=row), environ)
    assert "k3y-long" not in repr(server)
    whole = filled(server, environ)
    assert ("desk", ("--key", "k3y-long", "$HOME ${}"), {"TOKEN": "Bearer k3y-long"}, "/srv") == (
        whole.command, whole.args, whole.env, whole.cwd
    )  # fmt: skip
    assert {"k3y-long"} == secrets_of(server, environ)
    far = {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}
    (server,) = read_servers(write(tmp_path, far=far), {"HOST": "far.example", "KEY": "k3y"})
    whole = filled(server, {"HOST": "far.example", "KEY": "k3y"})
    assert ("https://far.example/mcp", {"Authorization": "Bearer k3y"}) == (whole.url, whole.headers)


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"comand": "x"}, "'comand' is not known; write 'command'"),
        ({"zzzzzz": 1, "command": "x"}, "'zzzzzz' is not known; known: command"),
        ({}, "either a command"),
        ({"command": "x", "url": "http://x"}, "either a command"),
        ({"command": "x", "type": "http"}, "does not go with a command"),
        ({"url": "http://x", "type": "stdio"}, "does not go with a url"),
        ({"url": "http://x", "type": "pigeon"}, "'pigeon' is not one of stdio, http"),
        ({"command": ["x"]}, "command is no text"),
        ({"command": "x", "args": "y"}, "args is no list of texts"),
        ({"command": "x", "args": [1]}, "args is no list of texts"),
        ({"command": "x", "env": {"A": 1}}, "env is no object of texts"),
        ({"command": "x", "timeout_s": -1}, "is no number of seconds"),
        ({"command": "x", "timeout_s": True}, "is no number of seconds"),
        ({"command": "x", "effects": {"a": "verifiable"}}, "'verifiable' is not one of pure, idempotent, irreversible"),
        ({"command": "x", "args": ["${KEY}"]}, "the variable KEY, which the environment does not have; set it"),
        ("x", "no object of settings"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_place(tmp_path, row, word):
    """File, server, key, and what to write."""
    said = refused(tmp_path, row)
    assert word in said
    assert "desk" in said


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mcpServers": []}', "no json"])
def test_a_file_without_servers_is_refused(tmp_path, text):
    """So is one that is not there."""
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(ConfigInvalid, match=r"mcp\.json"):
        read_servers(str(file), {})
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        read_servers(str(tmp_path / "none.json"), {})


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        (None, "irreversible"),
        (ToolAnnotations(), "irreversible"),
        (ToolAnnotations(destructive_hint=False), "irreversible"),
        (ToolAnnotations(destructive_hint=True), "irreversible"),
        (ToolAnnotations(idempotent_hint=True), "idempotent"),
        (ToolAnnotations(idempotent_hint=True, destructive_hint=True), "idempotent"),
        (ToolAnnotations(read_only_hint=True), "pure"),
        (ToolAnnotations(read_only_hint=True, destructive_hint=True), "pure"),
        (ToolAnnotations(read_only_hint=False, idempotent_hint=False), "irreversible"),
    ],
)
def test_hints_speak_of_what_may_be_sent_again(hints, effect):
    """Whether something is destroyed is another question, and nothing can be taken back either way."""
    assert effect == effect_of("x", hints, {})


def test_the_operators_word_goes_over_hints():
    """The one about the tool over the one about all."""
    safe = ToolAnnotations(read_only_hint=True)
    assert "irreversible" == effect_of("x", safe, {"x": "irreversible"})
    assert "irreversible" == effect_of("x", safe, {"*": "irreversible"})
    assert "idempotent" == effect_of("x", safe, {"*": "irreversible", "x": "idempotent"})
    assert "pure" == effect_of("x", safe, {"y": "irreversible"})
