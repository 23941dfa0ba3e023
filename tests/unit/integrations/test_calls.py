"""Calls of a durable agent's tools: whatever a tool says, and wherever it comes from, is on record as it was."""

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    ToolFailed,
    ToolReturn,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls, Hooks
from pydantic_ai.exceptions import UserError
from pydantic_ai.toolsets import FunctionToolset

import perdure
from perdure import operations
from perdure.integrations.pydantic_ai import durable, effect_key
from perdure.model.entry import ActionIntended
from perdure.testing import Death
from tests.unit.integrations.agents import Post, Speaker, calls, results_of, swept, text
from tests.worlds import DEAD, Play, Stop, World

PICTURE = BinaryContent(b"\xff\x00", media_type="image/png")


class City(BaseModel):
    """What a tool returns and a model fills."""

    name: str


def twice(world, program):
    """Let a program live that stops behind its end, and once more; return what the second life gives."""
    with pytest.raises(Stop):
        world.live(Play(program))
    return world.live(Play(program))


def speaking_once(*named):
    """Return a model that calls tools, and then says what it was told."""
    return Speaker(lambda said: calls(*named) if len(said) == 1 else text(str(results_of(said))))


def test_what_a_tool_says_comes_back_as_it_was():
    """A picture, values beside it, a model of the user's, a failure, a retry: and so in the second life."""
    speaker = Speaker(
        lambda said: calls(("show", {}), ("city", {}), ("fail", {}), ("again", {})) if len(said) == 1 else text("done")
    )
    agent, ran, shown, lives = Agent(speaker.model), [], [], []

    @agent.tool_plain
    def show() -> ToolReturn:
        ran.append("show")
        return ToolReturn("a picture", content=["look", PICTURE], metadata={"page": 1})

    @agent.tool_plain
    def city() -> City:
        ran.append("city")
        return City(name="Bern")

    @agent.tool_plain
    def fail() -> str:
        ran.append("fail")
        raise ToolFailed("there is none")

    @agent.tool_plain
    def again() -> str:
        ran.append("again")
        raise ModelRetry("ask better")

    async def program(task):
        effects = dict.fromkeys(("show", "city", "fail", "again"), "pure")
        async with durable(task, agent, effects=effects) as lasting:
            done = await lasting.run(["what is this?", PICTURE])
        told = [part for message in done.all_messages() for part in message.parts if part.part_kind != "text"]
        shown.append([(part.part_kind, part.content) for part in told if hasattr(part, "content")])
        if not lives:
            lives.append(1)
            raise Stop("behind it")
        return done.output

    assert "done" == twice(World(), program)
    assert shown[0] == shown[1]
    assert ("tool-return", {"name": "Bern"}) in shown[1]
    assert ("tool-return", "ask better") in shown[1]
    assert ("tool-return", "there is none") in shown[1]
    assert PICTURE.data == next(said[1].data for kind, said in shown[1][1:] if kind == "user-prompt")
    assert (sorted(ran), speaker.asked.total()) == (["again", "city", "fail", "show"], 2)


def test_calls_that_wait_for_a_person_go_on_in_a_run_of_their_own():
    """Approvals asked by declaration and by the tool itself: killed anywhere, the letter goes out once."""

    def speaks(said):
        if len(said) == 1:
            return calls(("send", {"letter": "a"}), ("other", {"what": "1"}))
        return text(str(results_of(said)))

    def play():
        speaker, post = Speaker(speaks), Post()
        agent = Agent(speaker.model, output_type=[str, DeferredToolRequests])

        @agent.tool_plain(requires_approval=True)
        def send(letter: str) -> str:
            return post.send(letter)

        @agent.tool
        def other(context, what: str) -> str:
            if not context.tool_call_approved:
                raise ApprovalRequired(metadata={"why": "it is dear"})
            return f"other {what}"

        async def program(task):
            async with durable(task, agent, effects={"send": "idempotent", "other": "pure"}) as lasting:
                first = await lasting.run("go")
                wanted = first.output
                assert {"why": "it is dear"} in wanted.metadata.values()
                allowed = DeferredToolResults(approvals={call.tool_call_id: True for call in wanted.approvals})
                done = await lasting.run(message_history=first.all_messages(), deferred_tool_results=allowed)
            return done.output

        return program, (speaker, post)

    def judge(result, found, kills):
        speaker, post = found
        assert ("['sent a', 'other 1']", ["a"]) == (result, post.sent)
        assert (len(speaker.asked), speaker.asked.total() <= 2 + kills) == (2, True)

    assert swept(play, judge) > 10


def test_a_person_is_asked_inside_of_a_run():
    """A handler of deferred calls asks by the task: the process ends there, and goes on with the answer, days later."""

    def speaks(said):
        if len(said) == 1:
            return calls(("send", {"letter": "a"}), ("look", {}))
        return text(str(results_of(said)))

    speaker, post, looked, holder = Speaker(speaks), Post(), [], []

    async def ask(_context, requests):
        named = {call.tool_call_id: await holder[-1].ask(f"{call.tool_name}?") for call in requests.approvals}
        return requests.build_results(approvals={call: answer == "yes" for call, answer in named.items()})

    agent = Agent(speaker.model, capabilities=[HandleDeferredToolCalls(ask)])

    @agent.tool
    def send(context, letter: str) -> str:
        if not context.tool_call_approved:
            raise ApprovalRequired
        return post.send(letter)

    @agent.tool_plain
    def look() -> str:
        looked.append(1)
        return "seen"

    async def program(task):
        holder.append(task)
        async with durable(task, agent, effects={"send": "idempotent", "look": "pure"}) as lasting:
            return (await lasting.run("go")).output

    world = World()
    with pytest.raises(perdure.NeedsHuman, match="send\\?"):
        world.live(Play(program))
    world.do(lambda runtime: operations.answer(runtime, "job", "yes", world.ids.short_id()))
    assert "['sent a', 'seen']" == world.live(Play(program))
    assert (["a"], [1], 2) == (post.sent, looked, speaker.asked.total())


def test_a_call_that_others_are_to_answer_is_deferred_in_each_life():
    """`CallDeferred` is on record with what it says."""
    speaker, ran, lives = speaking_once(("wait", {})), [], []
    agent = Agent(speaker.model, output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def wait() -> str:
        ran.append(1)
        raise CallDeferred(metadata={"ticket": 7})

    async def program(task):
        async with durable(task, agent, effects={"wait": "pure"}) as lasting:
            wanted = (await lasting.run("go")).output
        if not lives:
            lives.append(1)
            raise Stop("behind it")
        return [call.tool_name for call in wanted.calls], list(wanted.metadata.values())

    assert (["wait"], [{"ticket": 7}]) == twice(World(), program)
    assert (1, 1) == (len(ran), speaker.asked.total())


def test_an_output_function_is_a_tool_like_any_other():
    """It tries again at the first output and sends the second; killed anywhere, one letter goes out."""

    def play():
        speaker, post = Speaker(lambda said: calls(("final_result", {"letter": "x" * (len(said) - 1)}))), Post()

        def deliver(letter: str) -> str:
            if not letter:
                raise ModelRetry("say something")
            return post.send(letter)

        agent = Agent(speaker.model, output_type=deliver)

        async def program(task):
            async with durable(task, agent, effects={"deliver": "idempotent"}) as lasting:
                return (await lasting.run("go")).output

        return program, (speaker, post)

    def judge(result, found, kills):
        speaker, post = found
        assert ("sent xx", ["xx"]) == (result, post.sent)
        assert (len(speaker.asked), speaker.asked.total() <= 2 + kills) == (2, True)

    assert swept(play, judge) > 10


def test_an_output_function_without_an_effect_is_refused_before_it_runs():
    """With the line to write."""
    ran = []

    def deliver(letter: str) -> str:
        ran.append(letter)
        return letter

    agent = Agent(Speaker(lambda _: calls(("final_result", {"letter": "x"}))).model, output_type=deliver)

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            await lasting.run("go")

    with pytest.raises(perdure.errors.ToolUndeclared, match="deliver"):
        World().live(Play(program))
    assert ran == []


def test_what_a_tool_returns_beside_json():
    """Of a pure tool it is refused; of an effect, what has happened stays known and the text says what it was."""
    sent = []
    agent = Agent(speaking_once(("send", {})).model)

    @agent.tool_plain
    def send() -> object:
        sent.append(1)
        return object()

    def program(effect):
        async def run(task):
            async with durable(task, agent, effects={"send": effect}) as lasting:
                return (await lasting.run("go")).output

        return Play(run, failures_max=1)

    assert "['<object>']" == World().live(program("irreversible"))
    with pytest.raises(perdure.NeedsHuman, match="must be JSON"):
        World().live(program("pure"))


def test_a_tool_that_is_part_of_the_program_runs_in_each_life():
    """What it does to `deps` is there again, and what it calls through the task is on record."""
    speaker, read, lives = speaking_once(("note", {"what": "milk"})), [], []
    agent = Agent(speaker.model, deps_type=list)

    @perdure.tool(effect="pure")
    async def price_of(what: str) -> int:
        read.append(what)
        return 3

    async def program(task):
        basket = []

        async with durable(task, agent, effects={"note": "program"}) as lasting:
            await lasting.run("go", deps=(task, basket))
        if not lives:
            lives.append(1)
            raise Stop("behind it")
        return basket

    @agent.tool
    async def note(context, what: str) -> str:
        task, basket = context.deps
        basket.append((what, await task.using(key=f"price of {what}").act(price_of, what)))
        return "noted"

    assert [("milk", 3)] == twice(World(), program)
    assert ["milk"] == read


def test_tools_and_models_that_a_run_is_given_are_durable_too():
    """An agent without a model and tools is given both when it is run."""
    speaker, ran, lives = speaking_once(("extra", {})), [], []
    agent = Agent()

    def extra() -> str:
        ran.append(1)
        return "more"

    async def program(task):
        async with durable(task, agent, effects={"extra": "pure"}) as lasting:
            said = (await lasting.run("go", model=speaker.model, toolsets=[FunctionToolset([extra])])).output
        if not lives:
            lives.append(1)
            raise Stop("behind it")
        return said

    assert "['more']" == twice(World(), program)
    assert (1, 2) == (len(ran), speaker.asked.total())


@pytest.mark.parametrize("refusal", [ModelRetry, ToolFailed])
def test_a_broken_connection_that_is_told_to_the_model_leaves_an_effect_in_doubt(refusal):
    """As toolsets of MCP do: told to try again, the model would send a second letter. A pure call may be told so."""
    speaker, sent = speaking_once(("send", {})), []
    agent = Agent(speaker.model)

    @agent.tool_plain
    def send() -> str:
        sent.append(1)
        try:
            raise ConnectionResetError("the server has gone")
        except OSError as error:
            raise refusal("Connection closed") from error

    def program(effect):
        async def run(task):
            async with durable(task, agent, effects={"send": effect}) as lasting:
                return (await lasting.run("go")).output

        return Play(run)

    with pytest.raises(perdure.NeedsHuman, match="did 'send'"):
        World().live(program("irreversible"))
    assert (1, 1) == (len(sent), speaker.asked.total())
    assert "Connection closed" in World().live(program("pure"))


def test_two_toolsets_with_one_name_are_refused_as_before():
    """It is Pydantic AI that says so."""

    def one() -> str:
        return "one"

    agent = Agent(Speaker(lambda _: text("ok")).model, toolsets=[FunctionToolset([one]), FunctionToolset([one])])

    async def program(task):
        async with durable(task, agent, effects={"one": "pure"}) as lasting:
            await lasting.run("go")

    with pytest.raises(perdure.NeedsHuman, match="conflicts with existing tool"):
        World().live(Play(program, failures_max=1))
    assert issubclass(UserError, RuntimeError)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_tool_with_a_probe_is_asked_for_by_its_own_arguments(arrived):
    """Killed in the call: the probe says whether it happened, and it is made again only if not."""
    speaker, sent, asked = speaking_once(("send", {"letter": "a"})), [], []
    agent = Agent(speaker.model)

    @agent.tool_plain
    def send(letter: str) -> str:
        sent.append(letter)
        return "sent"

    def was_sent(letter):
        asked.append(letter)
        return arrived

    declared = {"effect": "verifiable", "probe": was_sent, "timeout_s": 0.01}

    async def program(task):
        async with durable(task, agent, effects={"send": declared}) as lasting:
            return (await lasting.run("go")).output

    world = World()
    assert DEAD == world.live(Play(program), death=Death("after_effect", 2))
    world.clock.advance(1)
    world.live(Play(program))
    assert (["a"] * (1 if arrived else 2), asked[0]) == (sent, "a")


def test_effects_are_an_effect_or_keywords_too():
    """They stand in the intent as they were given."""
    agent, keys = Agent(speaking_once(("one", {}), ("two", {})).model), []

    @agent.tool_plain
    def one() -> str:
        keys.append(effect_key())
        return "1"

    @agent.tool_plain
    def two() -> str:
        return "2"

    keyed = perdure.Effect(retry="keyed", undo="nothing")

    async def program(task):
        effects = {"one": keyed, "two": {"effect": "pure", "timeout_s": 7, "provider": "shop"}}
        async with durable(task, agent, effects=effects) as lasting:
            await lasting.run("go")

    world = World()
    world.live(Play(program))
    intents = {e.payload.tool: e.payload for e in world.journal() if isinstance(e.payload, ActionIntended)}
    assert (keyed, [intents["one"].effect_key]) == (intents["one"].effect, keys)
    assert (7, "shop") == (intents["two"].timeout_s, intents["two"].provider)


@pytest.mark.parametrize(
    ("effect", "why"),
    [
        ("harmless", "is not one of"),
        ("compensable", "is not one of"),
        (perdure.Effect(retry="never", undo="function"), "rollback could not find"),
        ({"effect": "pure", "name": "other"}, "'name', which is none of"),
        ({"effect": "program", "timeout_s": 3}, "part of the program"),
        ({"effect": "pure", "probe": len}, "probe would never be asked"),
        ({"timeout_s": 3}, "two answers|effect"),
    ],
)
def test_effects_that_say_nothing_are_refused_at_once(effect, why):
    """Before anything runs."""
    agent = Agent(Speaker(lambda _: text("never")).model)

    async def program(task):
        async with durable(task, agent, effects={"send": effect}):
            pass

    with pytest.raises(perdure.UsageError, match=why):
        World().live(Play(program))


def test_what_fails_is_seen_as_itself_inside_and_as_a_failed_action_outside():
    """Hooks of the agent go by the type of an error; the program gets ActionFailed, which recovery knows."""
    seen = []
    agent = Agent(speaking_once(("boom", {})).model, capabilities=[hooks := Hooks()])

    @hooks.on.tool_execute_error
    async def look(_context, *, error, **_):
        seen.append(repr(error))
        raise error

    @agent.tool_plain
    def boom() -> str:
        raise ValueError("no such order")

    async def program(task):
        async with durable(task, agent, effects={"boom": "pure"}) as lasting:
            try:
                await lasting.run("go")
            except perdure.ActionFailed as failed:
                return repr(failed.__cause__)

    assert "ValueError('no such order')" == World().live(Play(program))
    assert ["ValueError('no such order')"] == seen
