"""Secrets on the way through the engine: tools get them, records do not, and a resumed run finds what it did."""

import json

import msgspec
import pydantic
import pytest

import perdure
from perdure.codec.known import process
from perdure.codec.redact import redact
from perdure.core.touched import Touched
from perdure.engine import arguments
from perdure.model import entry as e
from perdure.ports import Message
from tests.worlds import Play, Stop, World

OLD, NEW = "old-4f9aQ27xLmPo30", "new-Zq81xx93kkPP0"
MASK = "[secret MAIL_TOKEN]"


@pytest.fixture
def mail(monkeypatch):
    """A secret of the environment; the list of what tools were given."""
    monkeypatch.setenv("MAIL_TOKEN", OLD)
    process.read_environment({"MAIL_TOKEN": OLD})
    return []


def sending(given, effect="idempotent"):
    """A tool that notes what it is given, and gives it back in several places."""

    async def send(token: object, text: str = "") -> object:
        given.append((token, text))
        return {"token": token, text: [token], "said": f"with {text}"}

    async def send_keyed(token: object, key: perdure.EffectKey, text: str = "") -> object:
        return await send(token, text)

    return perdure.tool(effect=effect, name="send")(send if effect == "pure" else send_keyed)


def all_texts(world, name="job"):
    """All that stands in the journal of a task, as text, and in the blobs of the store."""
    entries = "".join(msgspec.json.encode(entry.payload).decode() for entry in world.journal(name))
    kept = [(task.summary, task.messages, task.snapshots) for task in world.memory.tasks.values()]
    return entries + "".join(map(repr, world.memory.blobs.values())) + repr(kept)


def test_a_tool_gets_the_secret_and_the_record_its_name(mail):
    """What the tool is called with is true; what is recorded, returned, reduced and digested is masked."""
    world, seen = World(), []

    async def program(task):
        result = await task.act(sending(mail), OLD, text=f"text {OLD}", then=lambda state, got: seen.append(got))
        return [result, task.state.plain()]

    result, _ = world.live(Play(program))
    assert [(OLD, f"text {OLD}")] == mail
    assert {"token": MASK, f"text {MASK}": [MASK], "said": f"with text {MASK}"} == result
    assert [result] == seen
    assert "MAIL_TOKEN" in all_texts(world)
    assert OLD not in all_texts(world)


@pytest.mark.parametrize("result", [OLD, OLD.encode(), [OLD]])
def test_a_result_is_masked_for_its_first_caller_too(mail, result):
    """The run that made the call gets what a resumed run reads, also where the result is a bare text."""
    world, got = World(), []

    @perdure.tool(effect="pure")
    async def read() -> object:
        return result

    async def program(task):
        got.append(await task.act(read, then=lambda state, found: got.append(found)))

    world.live(Play(program))
    assert [redact(result)] * 2 == got
    assert result != got[0]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_call_is_found_again_though_the_secret_has_changed(mail, monkeypatch, keyed):
    """After the token was exchanged the equal call is answered by what is on record, and the tool not called."""
    world, calls = World(), []

    async def program(task):
        calls.append(task.attempt)
        act = task.using(key=f"mail {process.text_of('MAIL_TOKEN')}").act if keyed else task.act
        result = await act(
            sending(mail, "idempotent" if keyed else "pure"), process.text_of("MAIL_TOKEN"), text="hello"
        )
        if len(calls) == 1:
            raise Stop("enough")
        return result

    with pytest.raises(Stop):
        world.live(Play(program))
    process.__init__()
    monkeypatch.setenv("MAIL_TOKEN", NEW)
    assert MASK == world.live(Play(program))["token"]
    assert [(OLD, "hello")] == mail
    assert NEW not in all_texts(world)


def test_digests_tell_nothing_of_a_secret(mail):
    """Two secrets of one name have one digest, so nobody can try texts out against it; another text has another."""

    def digest_of(text):
        return arguments.record({"token": text}, Touched(), 1, keyed=False).digest

    process.know("MAIL_TOKEN", NEW)
    assert digest_of(OLD) == digest_of(NEW) == digest_of(MASK)
    assert digest_of(OLD) != digest_of("another text")
    assert arguments.digest({"token": [OLD]}, "") == arguments.digest({"token": [NEW]}, "")


def test_a_secret_by_name_is_recorded_by_name(mail):
    """A `Secret` given to a tool or program is stored as its name, and gives the text wherever it is asked."""
    world = World()

    @perdure.tool(effect="pure")
    async def use(token: perdure.Secret) -> str:
        mail.append(token.reveal())
        return f"used {token.reveal()}"

    async def program(task, token):
        assert perdure.Secret("MAIL_TOKEN") == token
        return [await task.act(use, token), token]

    expected = [f"used {MASK}", perdure.Secret("MAIL_TOKEN")]
    assert expected == world.live(Play(program), args={"token": perdure.Secret("MAIL_TOKEN")})
    assert [OLD] == mail
    assert OLD not in all_texts(world)


def test_an_undo_gets_the_secret_anew(mail):
    """What takes an effect back is called with what is on record: a secret by name is as good then as it was."""
    world = World()

    @perdure.tool(effect="idempotent", name="recall")
    async def recall(token: perdure.Secret, key: perdure.EffectKey, result: object = None) -> None:
        mail.append(("recalled", token.reveal()))

    @perdure.tool(effect="compensable", name="post", undo=recall)
    async def post(token: perdure.Secret) -> str:
        mail.append(("posted", token.reveal()))
        return "ok"

    async def program(task):
        await task.checkpoint("home")
        if task._session.fold.ledger.rollbacks:
            return "home"
        await task.using(key="a").act(post, perdure.Secret("MAIL_TOKEN"))
        return await task.rollback("home")

    assert "home" == world.live(Play(program))
    assert [("posted", OLD), ("recalled", OLD)] == mail


def test_values_of_pydantic_that_are_secret_are_masked_by_their_field():
    """SecretStr and SecretBytes reach the tool as they are, and are masked wherever their texts come along."""
    world, got = World(), []

    class Account(pydantic.BaseModel):
        user: str
        password: pydantic.SecretStr

    @perdure.tool(effect="pure")
    async def login(api_key: object, about: str, more: object = None) -> Account:
        got.append(api_key.get_secret_value())
        return Account(user=about, password=api_key)

    async def program(task):
        account = await task.act(login, pydantic.SecretStr(OLD), f"key {OLD}", [pydantic.SecretBytes(NEW.encode())])
        await task.note(f"{OLD} {NEW}")
        async with task.edit() as state:
            state["token"] = pydantic.SecretStr("third-4f9aQ27xLm")
            state["said"] = "third-4f9aQ27xLm"
        return [account.user, account.password.get_secret_value(), task.state.plain()]

    expected = ["key [secret api_key]", "[secret password]", {"token": "[secret token]", "said": "[secret token]"}]
    assert expected == world.live(Play(program))
    assert [OLD] == got
    (note,) = [one.payload.text for one in world.journal() if isinstance(one.payload, e.NoteWritten)]
    assert "[secret api_key] [secret more]" == note
    for secret in (OLD, NEW, "third-4f9aQ27xLm"):
        assert secret not in all_texts(world)


def test_the_state_is_masked_as_it_is_written(mail):
    """What is put into the state, in any way, is masked at once: the run that wrote it sees what a later one does."""
    world = World()

    async def program(task):
        async with task.edit() as state:
            state["a"] = OLD
            state[OLD] = {"b": []}
            state[OLD]["b"].append(OLD)
            assert (True, True, None, 1) == (
                OLD in state,
                OLD in state[OLD]["b"],
                state.get(NEW),
                state.get(OLD, 1) and 1,
            )
            assert state[OLD] == state.setdefault(OLD, "other")
            state[f"gone {OLD}"] = state[f"popped {OLD}"] = 1
            del state[f"gone {OLD}"]
            assert (1, 2) == (state.pop(f"popped {OLD}"), state.pop(f"popped {OLD}", 2))
            state["list"] = []
            state["list"] += [OLD, (OLD,)]
            state["list"].insert(0, f"x{OLD}")
            state["list"][0] = f"y{OLD}"
            state["set"] = {OLD}
            state["set"].add(f"z{OLD}")
        raise Stop(json.dumps(_sorted(task.state.plain())))

    with pytest.raises(Stop) as stopped:
        world.live(Play(program, state={"first": OLD}))
    expected = {
        "first": MASK, "a": MASK, MASK: {"b": [MASK]}, "list": [f"y{MASK}", MASK, [MASK]], "set": [MASK, f"z{MASK}"],
    }  # fmt: skip
    assert expected == json.loads(str(stopped.value))
    assert expected == _sorted(world.state())
    assert OLD not in all_texts(world)


def _sorted(state):
    return {**state, "set": sorted(state["set"]), "list": json.loads(json.dumps(state["list"]))}


def test_names_goals_and_words_are_masked_and_found_again(mail):
    """Whatever a program names with a secret in it is recorded masked, and the resumed program finds all of it."""
    world, calls = World(), []

    async def program(task, token):
        assert MASK == token
        calls.append(task.attempt)
        await task.adopt([f"step {OLD}"])
        await task.begin_step(f"step {OLD}")
        await task.fact(f"fact {OLD}", source=OLD)
        await task.check(f"check {OLD}", True)
        await task.checkpoint(f"point {OLD}")
        async for item in task.each(f"loop {OLD}", [OLD, "other"]):
            await task.act(sending(mail), item)
        answer = await task.ask(f"which of {OLD}?")
        return [answer, task.name, task.goal, task.facts, task.answers]

    def run(runtime):
        return runtime.run(Play(program), f"job {OLD}", goal=f"use {OLD}", args={"token": OLD})

    with pytest.raises(perdure.NeedsHuman, match=r"which of \[secret MAIL_TOKEN\]"):
        world.do(run)
    before = len(world.journal(f"job {MASK}"))

    async def answered(runtime):
        task = (await runtime.store.find(f"job {MASK}")).task
        return await runtime.say(task, Message(id="m1", what="answer", text=f"the {OLD}"))

    world.do(answered)
    expected = [f"the {MASK}", f"job {MASK}", f"use {MASK}", [f"fact {MASK}"], {f"which of {MASK}?": f"the {MASK}"}]
    assert expected == world.do(run)
    assert [1, 2] == calls
    assert [(OLD, ""), ("other", "")] == mail
    kinds = [type(one.payload).__name__ for one in world.journal(f"job {MASK}")[before:]]
    assert not {"PlanAdopted", "StepBegan", "FactStated", "CheckpointMarked", "PositionMoved", "ActionIntended"} & {
        *kinds
    }
    assert OLD not in all_texts(world, f"job {MASK}")


def test_errors_are_masked_before_they_are_cut(mail):
    """Message, causes and groups of a failure hold no part of a secret, wherever the limit cuts them."""
    world = World()

    @perdure.tool(effect="pure")
    async def fails(before: int) -> None:
        raise ValueError("x" * before + OLD + "y" * 50) from KeyError(OLD)

    async def program(task):
        messages = []
        for before in range(8_150, 8_192):
            with pytest.raises(perdure.ActionFailed) as failed:
                await task.act(fails, before)
            messages.append(str(failed.value))
        return messages

    assert not any("old-" in message for message in world.live(Play(program)))
    assert "old-4" not in all_texts(world)


def test_big_values_are_masked_before_they_are_named_by_their_content(mail):
    """A blob holds the masked text, under the digest of that."""
    world = World()

    @perdure.tool(effect="pure")
    async def read() -> object:
        return {"page": "p" * 100_000 + OLD + "q" * 100_000, "raw": b"b" * 10_000 + OLD.encode()}

    async def program(task):
        found = await task.act(read, then=lambda state, got: state.update(page=got["page"]))
        return [len(found["page"]), found["raw"][-len(MASK) :].decode(), MASK in task.state["page"]]

    assert [200_000 + len(MASK), MASK, True] == world.live(Play(program))
    assert OLD not in all_texts(world)


def test_hooks_are_told_nothing_secret(mail):
    """Events that a program listens to hold masks."""
    world, told = World(), []

    async def program(task):
        await task.note(f"note {OLD}", field={OLD: [OLD]})
        return OLD

    assert MASK == world.live(Play(program), hooks=[lambda task, event, fields: told.append((event, fields))])
    assert OLD not in repr(told)
    assert {"text": f"note {MASK}", "field": {MASK: [MASK]}} in [fields for event, fields in told if event == "note"]


def test_a_snapshot_says_what_the_journal_says(mail):
    """A secret that became known late stays where it was recorded, and the task opens as it was."""
    world, late = World(), "late-4f9aQ27xLm"

    async def program(task):
        async with task.edit() as state:
            state["before"] = late
        perdure.Secret("late", late)
        async with task.edit() as state:
            state["after"] = late
        raise Stop("enough")

    with pytest.raises(Stop):
        world.live(Play(program))
    assert {"before": late, "after": "[secret late]"} == world.state()


def test_without_secrets_nothing_is_walked_through(monkeypatch):
    """Where no secret is known a value goes on its way as the object that it is."""
    value = {"a": ["b"]}
    monkeypatch.setattr(process, "masks", None)
    assert redact(value) is value


def test_a_tool_says_which_secrets_it_needs():
    """A variable that a tool declares in `secrets=` is secret, though its name does not say so."""
    perdure.tool(effect="pure", name="asks_db", secrets=("DATABASE",))(lambda: None)
    process.read_environment({"DATABASE": OLD})
    assert "[secret DATABASE]" == redact(OLD)
