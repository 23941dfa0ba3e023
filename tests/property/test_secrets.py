"""Promise P7, first half: no known secret is in any byte of a store, its logs, notices, or what the command prints.

Random programs try to leak secrets in every field that a program or a person can fill, in several spellings; one life
is cut short and a second one ends the task. Then every byte is searched: database and WAL as they lie on the disk, and
everything in them that is compressed, unpacked. The same runs without redaction must be found full of secrets.
"""

import asyncio
import base64
import contextlib
import io
import json
import random
import re
import sqlite3
import string
from collections import Counter
from urllib.parse import quote

import pytest
import zstandard

import perdure
from perdure.cli import main
from perdure.codec import redact
from perdure.codec.known import process
from perdure.ports import Message

ZSTD = b"\x28\xb5\x2f\xfd"
STEPS = 40
PATIENT = perdure.Rules(health=perdure.HealthRules(valid_min=0.0))  # whatever fails here is meant to
SPELT = {
    "raw": lambda text: text,
    "json": lambda text: json.dumps(text)[1:-1],
    "url": lambda text: quote(text, safe=""),
    "base64": lambda text: base64.b64encode(b"user:" + text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
}


def traces_of(secret):
    """Bytes of which each gives the secret, or most of it, away; made by other means than redaction makes its own."""
    raw = secret.encode()
    inside = [base64.b64encode(b"x" * before + raw)[4 : 4 + len(raw) // 2] for before in range(3)]
    spelt = [SPELT[name](secret).encode() for name in ("raw", "json", "url", "hex")]
    return {*spelt, raw[: len(raw) - 6], raw[6:], *inside}


def drawn_secrets(drawn):
    """Variables of an environment: keys as they are handed out, and passwords as people make them."""
    letters = string.ascii_letters + string.digits
    plain = {f"SERVICE{n}_API_KEY": "".join(drawn.choice(letters) for _ in range(24 + n)) for n in range(3)}
    odd = "".join(drawn.choice(letters + "/+=\"'\\&<ü ") for _ in range(20))
    return {**plain, "DB_PASSWORD": f"pw{odd}Z9", "WEB_TOKEN": f"-{odd[::-1]}x7"}


class Leaker:
    """A program that leaks: the same leaks in each of its lives, and how often it tried which."""

    def __init__(self, seed, secrets):
        self.seed, self.secrets, self.tried, self.lives = seed, secrets, Counter(), 0
        self.ways = [name for name in dir(self) if name.startswith("by_")]

        @perdure.tool(effect="pure", name="echo")
        async def echo(value: object, more: object = None) -> object:
            return {"value": value, "more": more}

        @perdure.tool(effect="idempotent", name="send")
        async def send(value: object, key: perdure.EffectKey) -> object:
            return [value]

        @perdure.tool(effect="pure", name="fail")
        async def fail(text: str) -> None:
            raise ValueError(text) from KeyError(text)

        self.echo, self.send, self.fail = echo, send, fail

    def draw(self, way):
        """A text that holds a secret in some spelling."""
        spelling = self.drawn.choice(sorted(SPELT))
        self.tried[f"{way} {spelling}"] += 1
        return f"<{SPELT[spelling](self.drawn.choice(self.secrets))}>"

    async def run(self, task, given):
        """Leak, step by step; the first life ends in the middle."""
        self.lives += 1
        self.drawn = random.Random(self.seed)
        await task.adopt([self.draw("plan"), "end"])
        for number in range(STEPS):
            way = self.drawn.choice(self.ways)
            await getattr(self, way)(task, self.draw(way), number)
            if self.lives == 1 and number == STEPS // 2:
                raise perdure.UsageError(self.draw("error of the program"))
        await task.ask(f"which of {given}?")
        return {"result": self.draw("result")}

    async def by_argument(self, task, text, number):
        """As an argument, and from the result into the state."""
        await task.act(self.echo, text, more=number, then=lambda state, got: state.update(last=got))

    async def by_nested_argument(self, task, text, number):
        """In keys, members and bytes, and in the key of the call."""
        value = {text: [number, (text, {text}), {"x": text.encode()}]}
        await task.using(key=f"{number} {text}").act(self.echo, value, then=lambda state, got: state.update(deep=got))

    async def by_big_argument(self, task, text, number):
        """Across the size from which a text is a blob."""
        edge = self.drawn.randrange(4_000, 4_200)
        await task.using(key=f"{number}").act(self.echo, "x" * edge + text + "y" * 90_000)

    async def by_effect(self, task, text, number):
        """To a tool with an effect."""
        await task.using(key=f"{number}").act(self.send, [text])

    async def by_error(self, task, text, number):
        """In an exception and its cause, across the place where the text is cut."""
        with contextlib.suppress(perdure.ActionFailed):
            await task.act(self.fail, f"{number} " + "x" * self.drawn.choice([0, 8_150, 8_160, 8_170]) + text)

    async def by_note(self, task, text, number):
        """In a note and its fields."""
        await task.note(f"note {text}", field={text: text})

    async def by_fact(self, task, text, number):
        """In a fact and where it comes from."""
        await task.fact(f"fact {text}", source=text)

    async def by_check(self, task, text, number):
        """In the name of a check, and in why another is not met."""
        await task.check(f"check {text} {number}"[:150], True)
        with contextlib.suppress(perdure.CheckFailed):
            await task.check(f"unmet {number}", False, reason=text)

    async def by_checkpoint(self, task, text, number):
        """In the name of a checkpoint."""
        await task.checkpoint(f"point {text} {number}"[:180])

    async def by_step(self, task, text, number):
        """In the name of a step."""
        await task.begin_step(f"step {text}"[:180])

    async def by_loop(self, task, text, number):
        """In the name and the items of a loop."""
        async for item in task.each(f"loop {number} {text}"[:180], [text, "b"]):
            await task.act(self.echo, item)

    async def by_edit(self, task, text, number):
        """In all that can stand in the state."""
        async with task.edit() as state:
            state[text] = {"list": [text], "set": {text, number}}
            state["page"] = "p" * 200_000 + text + "q" * 200_000
            state[text]["list"].append(text)
            state[text]["set"].add(f"{text}!")


def run(leaker, store, logs, told):
    """Two lives of the program and the words of a person between them."""

    async def life():
        hook = lambda task, event, fields: told.write(f"{event} {fields!r}\n".encode())  # noqa: E731
        secret = leaker.secrets[0]
        async with perdure.open(store, log_dir=logs, hooks=[hook], rules=PATIENT) as runtime:
            program = Drivable(leaker)
            order = {"goal": f"use {secret}", "args": {"given": f"[{secret}]"}}
            with pytest.raises(perdure.UsageError):
                await runtime.run(program, f"job {secret}"[:150], **order)
            with pytest.raises(perdure.NeedsHuman):
                await runtime.run(program, f"job {secret}"[:150], **order)
            (summary,) = await runtime.store.tasks()
            await runtime.say(summary.task, Message(id="m1", what="tell", text=f"mind {secret}"))
            await runtime.say(summary.task, Message(id="m2", what="answer", text=f"the one with {secret}"))
            await runtime.run(program, f"job {secret}"[:150], **order)
            return summary.task

    return asyncio.run(life())


class Drivable:
    """The leaker as a runtime wants a program."""

    state_version, failures_max, reached, source_digest = 1, 3, None, ""

    def __init__(self, leaker):
        self.fn = leaker.run
        self.strategies = (perdure.Strategy("one", prompt=f"with {leaker.secrets[1]}"),)
        self._first = leaker.secrets[2]

    @property
    def state(self):
        """The state at the start."""
        return {"first": self._first}

    def driver(self, arguments):
        """How it would be found again."""
        from perdure.codec import values
        from perdure.model.entry import Driver, Raw

        return Driver(kind="program", target="tests:leaker", arguments=Raw(values.encode(dict(arguments))))


def printed(store, task):
    """What the command prints of the task, in every way that it can be looked at."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        for verb in ("show", "show --handover", "show --json", "log", "log --json", "state", "checkpoints", "explain"):
            name, *options = verb.split()
            main([name, task, *options, "--store", str(store)])
        main(["list", "--json", "--store", str(store)])
        main(["verify", "--store", str(store)])
    return f"{out.getvalue()}{err.getvalue()}".encode()


def bytes_of(folder):
    """All bytes of all files of a folder, and of databases each value again, unpacked where it is compressed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {str(path): path.read_bytes() for path in files}
    for path in files:
        if path.suffix == ".db":
            connection = sqlite3.connect(path)
            found[f"{path} unpacked"] = b"\n".join(_values_in(connection))
            connection.close()
    return found


def _values_in(connection):
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        for row in connection.execute(f"SELECT * FROM {table}"):
            for value in row:
                raw = value if isinstance(value, bytes) else str(value).encode()
                yield raw
                yield from _unpacked(raw)


def _unpacked(raw):
    for found in re.finditer(re.escape(ZSTD), raw):
        with contextlib.suppress(zstandard.ZstdError):
            yield zstandard.ZstdDecompressor().decompressobj().decompress(raw[found.start() :])


def leaks_in(places, secrets):
    """How often a trace of a secret is found, by place."""
    traces = [trace for secret in secrets for trace in traces_of(secret)]
    counts = {place: sum(raw.count(trace) for trace in traces) for place, raw in places.items()}
    return {place: count for place, count in counts.items() if count}


def played(seed, tmp_path, monkeypatch):
    """One leaking run; returns (leaks by place, attempts by way, bytes searched)."""
    drawn = random.Random(seed)
    environ = drawn_secrets(drawn)
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    store, logs, told = tmp_path / "store.db", tmp_path / "logs", io.BytesIO()
    leaker = Leaker(seed, tuple(environ.values()))
    task = run(leaker, store, str(logs), told)
    places = {"hooks": told.getvalue(), **bytes_of(tmp_path), "console": printed(store, task)}
    assert 2 <= leaker.lives
    assert len(places["console"]) > 10_000
    return leaks_in(places, leaker.secrets), leaker.tried, sum(map(len, places.values()))


@pytest.mark.parametrize("seed", range(6))
def test_no_secret_is_found_anywhere(seed, tmp_path, monkeypatch):
    """Whatever the program leaks, wherever: nothing of it is in the store, the logs, the notices, or on the console."""
    leaks, tried, searched = played(seed, tmp_path, monkeypatch)
    print(f"{sum(tried.values())} attempts in {len(tried)} ways and spellings, {searched:,} bytes searched")
    assert {} == leaks
    assert sum(tried.values()) > STEPS
    assert searched > 1_000_000


def test_without_redaction_the_search_finds_what_was_leaked(tmp_path, monkeypatch):
    """The same search, with redaction switched off, finds secrets in every kind of place: so it can find them."""
    monkeypatch.setattr(type(process), "masks", property(lambda _: None, lambda _, __: None), raising=False)
    leaks, _, _ = played(0, tmp_path, monkeypatch)
    kinds = {place.rpartition("/")[2].rpartition(".")[2] for place in leaks}
    print(f"{sum(leaks.values())} traces found in {sorted(kinds)}")
    assert {"hooks", "db unpacked", "console", "ndjson"} <= kinds
    assert redact.process is process
