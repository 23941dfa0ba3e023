"""Runs of Pydantic AI agents are found again: at once, one inside of another, with a history, and not as others."""

import asyncio

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.agent.wrapper import WrapperAgent
from pydantic_ai.messages import ModelResponse

import perdure
from perdure.codec import values
from perdure.integrations.pydantic_ai import durable
from perdure.model.entry import ActionIntended
from tests.unit.integrations.agents import Post, Speaker, calls, prompt_of, swept, text, turn_of
from tests.worlds import Play, Stop, World


def writes(messages):
    """Two letters with the prompt in them, then the end."""
    said = prompt_of(messages)
    if turn_of(messages) == 0:
        return calls(("send", {"letter": said}), ("send", {"letter": f"{said}!"}))
    return text(f"done {said}")


def test_runs_at_once_are_told_apart_by_what_they_are_asked():
    """Three runs in one block, two of them equal: killed anywhere, each letter goes out once, each has its answer."""

    def play():
        speaker, post = Speaker(writes), Post()
        agent = Agent(speaker.model, tools=[post.send])

        async def program(task):
            async with durable(task, agent, effects={"send": "idempotent"}) as lasting:
                done = await asyncio.gather(*(lasting.run(prompt) for prompt in ("a", "b", "a")))
            return [one.output for one in done]

        return program, (speaker, post)

    def judge(result, found, kills):
        speaker, post = found
        assert ["done a", "done b", "done a"] == result
        assert ["a", "a", "a!", "a!", "b", "b!"] == post.sent
        assert speaker.asked.total() <= 6 + 3 * kills

    assert swept(play, judge) > 30


def test_runs_that_come_in_another_order_find_their_own():
    """The second branch is faster in the second life; nobody is asked again."""
    speaker, post, slow = Speaker(writes), Post(), ["a"]
    agent = Agent(speaker.model, tools=[post.send])

    async def program(task):
        async def branch(prompt):
            for _ in range(50 if prompt in slow else 0):
                await asyncio.sleep(0)
            return (await agent.run(prompt)).output

        async with durable(task, agent, effects={"send": "idempotent"}):
            done = await asyncio.gather(branch("a"), branch("b"))
        if slow == ["a"]:
            slow[:] = ["b"]
            raise Stop("between")
        return done

    world = World()
    with pytest.raises(Stop):
        world.live(Play(program))
    assert ["done a", "done b"] == world.live(Play(program))
    assert (4, 4) == (speaker.asked.total(), len(post.sent))


def test_an_agent_that_asks_another_has_each_request_of_both_on_record():
    """The asking tool is part of the program; both agents are known by their own names, in tools and globals too."""

    def speaks(messages):
        if prompt_of(messages) != "top":
            return writes(messages)
        if turn_of(messages) == 0:
            return calls(("delegate", {"what": "x"}), ("delegate", {"what": "y"}))
        return text("end")

    def play():
        speaker, post = Speaker(speaks), Post()
        sub = Agent(speaker.model, tools=[post.send])
        top = Agent(speaker.model)

        @top.tool
        async def delegate(context, what: str) -> str:
            return (await sub.run(what, usage=context.usage)).output

        async def program(task):
            async with (
                durable(task, top, effects={"delegate": "program"}),
                durable(task, sub, effects={"send": "idempotent"}, name="sub"),
            ):
                return (await top.run("top")).output

        return program, (speaker, post)

    def judge(result, found, kills):
        speaker, post = found
        assert ("end", ["x", "x!", "y", "y!"]) == (result, post.sent)
        assert len(speaker.asked) == 6
        assert speaker.asked.total() <= 6 + 2 * kills

    assert swept(play, judge) > 30


def test_an_agent_inside_of_an_action_is_refused_with_what_to_write():
    """The model of the inner one is not asked."""
    speaker = Speaker(lambda messages: calls(("delegate", {})) if turn_of(messages) == 0 else text("ok"))
    inner = Speaker(lambda _: text("never"))
    top, sub = Agent(speaker.model), Agent(inner.model)

    @top.tool_plain
    async def delegate() -> str:
        return (await sub.run("x")).output

    async def program(task):
        async with durable(task, top, effects={"delegate": "pure"}), durable(task, sub, effects={}, name="sub"):
            await top.run("top")

    with pytest.raises(perdure.NeedsHuman, match=r"effects=\{'delegate': \"program\"\}"):
        World().live(Play(program))
    assert inner.asked.total() == 0


def test_another_prompt_in_each_life_never_does_an_effect_twice():
    """A prompt that holds what the clock says is another conversation: the task stops and says what to write."""
    speaker, post, lives = Speaker(writes), Post(), []
    agent = Agent(speaker.model, tools=[post.send])

    async def program(task):
        lives.append(1)
        async with durable(task, agent, effects={"send": "idempotent"}) as lasting:
            await lasting.run(f"it is {len(lives)}")
        raise Stop("behind it")

    world = World()
    with pytest.raises(Stop):
        world.live(Play(program))
    with pytest.raises(perdure.errors.ResumeDiverged, match=r"'it is 2'.*send.*task\.now\(\)"):
        world.live(Play(program))
    assert (["it is 1", "it is 1!"], 2) == (post.sent, speaker.asked.total())


def test_another_prompt_without_effects_on_record_is_another_run():
    """A word from a person may change what is asked; nothing is lost but the old answer."""
    speaker, prompts = Speaker(lambda messages: text(prompt_of(messages))), ["old", "new"]
    agent = Agent(speaker.model)

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            said = (await lasting.run(prompts.pop(0))).output
        if said == "old":
            raise Stop("behind it")
        return said

    world = World()
    with pytest.raises(Stop):
        world.live(Play(program))
    assert "new" == world.live(Play(program))


def test_a_conversation_of_another_shape_stops_the_task():
    """An output validator that judges otherwise in the second life leads to another request than on record."""
    speaker, post, refused = Speaker(writes), Post(), ["too long"]
    agent = Agent(speaker.model, tools=[post.send])

    @agent.output_validator
    def judge(said: str) -> str:
        if len(speaker.asked) < 3:
            raise ModelRetry(refused[0])
        return said

    async def program(task):
        async with durable(task, agent, effects={"send": "idempotent"}) as lasting:
            await lasting.run("a")
        raise Stop("behind it")

    world = World()
    with pytest.raises(Stop):
        world.live(Play(program))
    speaker.asked.clear()
    refused[0] = "too short"
    with pytest.raises(perdure.errors.ResumeDiverged, match=r"output validator.*task\.act"):
        world.live(Play(program))
    assert speaker.asked.total() == 0


def test_a_conversation_over_many_runs_is_written_once():
    """Each run with the history of all before puts only its own words on record."""
    speaker = Speaker(lambda messages: text(prompt_of(messages).upper()))
    agent = Agent(speaker.model, instructions="Be loud. " * 20)
    turns = 30

    async def program(task):
        history = []
        async with durable(task, agent, effects={}) as lasting:
            for turn in range(turns):
                history = (await lasting.run(f"word {turn}", message_history=history)).all_messages()
        return len(history)

    world = World()
    assert 2 * turns == world.live(Play(program))
    sizes = [len(entry.payload.result) for entry in world.journal() if type(entry.payload).__name__ == "ActionSettled"]
    assert sum(sizes[-5:]) <= 1.1 * sum(sizes[1:6])
    said = [
        values.decode(e.payload.arguments)["said"] for e in world.journal() if isinstance(e.payload, ActionIntended)
    ]
    assert [f"word {turn}" for turn in range(turns)] == [one["parts"][0]["content"] for (one,) in said]


def test_a_history_from_elsewhere_is_put_on_record():
    """What the first request says beside its own words stands with the reply, once."""
    speaker = Speaker(lambda _: text("ok"))
    agent = Agent(speaker.model)
    world = World()

    async def program(task):
        before = [*(await Agent(Speaker(lambda _: text("an old answer")).model).run("an old question")).all_messages()]
        async with durable(task, agent, effects={}) as lasting:
            await lasting.run("new", message_history=before)
            await lasting.run("newer", message_history=before)

    world.live(Play(program))
    results = [entry.payload.result for entry in world.journal() if type(entry.payload).__name__ == "ActionSettled"]
    assert [True, False] == [b"an old answer" in bytes(result) for result in results]
    assert all(isinstance(one, ModelResponse) for one in speaker.seen[0][1:2])


def test_an_agent_in_a_wrapper_is_durable_under_both_names():
    """What runs is the agent inside."""
    speaker, lives = Speaker(lambda messages: text(prompt_of(messages).upper())), []
    agent = Agent(speaker.model)
    wrapped = WrapperAgent(agent)

    async def program(task):
        async with durable(task, wrapped, effects={}) as lasting:
            said = [(await one.run(prompt)).output for one, prompt in ((lasting, "a"), (agent, "b"))]
        if not lives:
            lives.append(1)
            raise Stop("behind it")
        return said

    world = World()
    with pytest.raises(Stop):
        world.live(Play(program))
    assert ["A", "B"] == world.live(Play(program))
    assert 2 == speaker.asked.total()


def test_an_effect_of_a_branch_that_was_left_is_not_repeated():
    """After a rollback the agent is asked anew, and the letter that is out already answers the call."""
    speaker, post, lives = Speaker(writes), Post(), []
    agent = Agent(speaker.model, tools=[post.send])

    async def program(task):
        await task.checkpoint("before")
        async with durable(task, agent, effects={"send": "idempotent"}) as lasting:
            said = (await lasting.run("a")).output
        lives.append(1)
        if len(lives) == 1:
            await task.rollback("before", carry=True)
        return said

    assert "done a" == World().live(Play(program))
    assert (["a", "a!"], 4) == (post.sent, speaker.asked.total())


def test_two_agents_of_a_task_have_two_names():
    """Else one could be given what the other was answered."""
    one, other = (Agent(Speaker(lambda _: text("ok")).model) for _ in range(2))

    async def program(task):
        async with durable(task, one, effects={}), durable(task, other, effects={}):
            pass

    with pytest.raises(perdure.UsageError, match="that of another agent"):
        World().live(Play(program))


def test_a_block_inside_of_another_is_refused():
    """Each request would be an action in an action."""
    agent = Agent(Speaker(lambda _: text("ok")).model)

    async def program(task):
        async with durable(task, agent, effects={}), durable(task, agent, effects={}, name="again"):
            pass

    with pytest.raises(perdure.UsageError, match="durable here already"):
        World().live(Play(program))


def test_each_item_of_a_loop_has_runs_of_its_own():
    """The same question for each item: finished items are skipped, and no other takes their answers."""

    def speaks(messages):
        return (
            calls(("send", {"letter": "x"}))
            if turn_of(messages) == 0
            else text(f"done {messages[-1].parts[0].content}")
        )

    def play():
        speaker, post = Speaker(speaks), Post()
        agent = Agent(speaker.model, deps_type=str)

        @agent.tool
        def send(context, letter: str) -> str:
            return post.send(f"{letter} for {context.deps}")

        async def program(task):
            async with durable(task, agent, effects={"send": "idempotent"}) as lasting:
                async for customer in task.each("customers", ["ann", "bob", "eve"]):
                    said = (await lasting.run("write", deps=customer)).output
                    async with task.edit() as state:
                        state[customer] = said
            return task.state.plain()

        return program, (speaker, post)

    def judge(result, found, kills):
        speaker, post = found
        assert {name: f"done sent x for {name}" for name in ("ann", "bob", "eve")} == result
        assert ["x for ann", "x for bob", "x for eve"] == post.sent
        assert speaker.asked.total() <= 6 + kills

    assert swept(play, judge) > 30


def test_a_program_that_asks_its_state_may_leave_runs_out():
    """What it has put into the state is behind it, with all effects; the next run is not taken for it."""

    def play():
        speaker, post = Speaker(writes), Post()
        agent = Agent(speaker.model, tools=[post.send])

        async def program(task):
            async with durable(task, agent, effects={"send": "idempotent"}) as lasting:
                for prompt in ("a", "b", "c"):
                    if prompt not in task.state:
                        said = (await lasting.run(prompt)).output
                        async with task.edit() as state:
                            state[prompt] = said
            return task.state.plain()

        return program, (speaker, post)

    def judge(result, found, kills):
        speaker, post = found
        assert {prompt: f"done {prompt}" for prompt in "abc"} == result
        assert ["a", "a!", "b", "b!", "c", "c!"] == post.sent
        assert speaker.asked.total() <= 6 + kills

    assert swept(play, judge) > 30


def test_the_same_question_in_rounds_wants_a_name_for_each():
    """A resumed program could not tell the rounds apart: refused in the first life, at the second round."""
    speaker = Speaker(lambda _: text(f"answer {len(speaker.seen)}"))
    agent = Agent(speaker.model)

    def program(name):
        async def rounds(task):
            while len(task.state["rounds"]) < 3:
                async with durable(task, agent, effects={}, name=name(task)) as lasting:
                    said = (await lasting.run("next")).output
                async with task.edit() as state:
                    state["rounds"].append(said)
            return task.state["rounds"].plain()

        return Play(rounds, state={"rounds": []})

    with pytest.raises(perdure.UsageError, match=r"'next'.*once more.*name="):
        World().live(program(lambda _: "agent"))
    speaker.seen.clear()
    named = program(lambda task: f"round {len(task.state['rounds'])}")
    assert ["answer 1", "answer 2", "answer 3"] == World().live(named)


def test_a_block_in_a_loop_goes_on_with_the_runs_of_the_one_before():
    """The same question in the second round is a second run, asked anew and found again as such."""
    said = []
    speaker = Speaker(lambda _: text(f"answer {len(speaker.seen)}"))
    agent = Agent(speaker.model)

    async def program(task):
        del said[:]
        for _ in range(2):
            async with durable(task, agent, effects={}) as lasting:
                said.append((await lasting.run("again")).output)
        if not life:
            life.append(1)
            raise Stop("behind it")
        return said

    life, world = [], World()
    with pytest.raises(Stop):
        world.live(Play(program))
    assert ["answer 1", "answer 2"] == world.live(Play(program))
