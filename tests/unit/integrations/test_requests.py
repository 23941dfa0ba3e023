"""Requests of a durable agent's model: streamed or not, with what changes in each life, and when models fail."""

import asyncio

import pytest
from pydantic_ai import Agent, UsageLimitExceeded, UsageLimits
from pydantic_ai.capabilities import ModelFallback
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import FilePart, ModelResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel

from perdure.integrations.pydantic_ai import durable
from tests.unit.integrations.agents import Post, Speaker, calls, prompt_of, swept, text, turn_of
from tests.worlds import Play, Stop, World


def lives_twice(world, program):
    """Let `program(task, stop)` live, stopped behind its end, and once more."""
    lives = []

    async def once(task):
        result = await program(task)
        if not lives:
            lives.append(1)
            raise Stop("behind it")
        return result

    with pytest.raises(Stop):
        world.live(Play(once))
    return world.live(Play(once))


def test_streams_are_heard_as_they_come_and_found_again_whole():
    """With `run_stream`, a handler, `iter` and events: killed anywhere, the same answer, each request once."""

    def speaks(said):
        return calls(("send", {"letter": prompt_of(said)})) if turn_of(said) == 0 else text("hello")

    def play():
        speaker, post, heard = Speaker(speaks), Post(), []
        agent = Agent(speaker.model, tools=[post.send])

        async def listen(_context, events):
            heard.extend([type(event).__name__ async for event in events])

        async def program(task):
            async with durable(task, agent, effects={"send": "idempotent"}) as lasting:
                async with lasting.run_stream("a") as answer:
                    pieces = [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]
                other = await lasting.run("b", event_stream_handler=listen)
                async with lasting.iter("c") as run:
                    async for node in run:
                        if Agent.is_model_request_node(node):
                            async with node.stream(run.ctx) as events:
                                heard.extend([type(event).__name__ async for event in events])
            heard.append(pieces)
            return "".join(pieces) + other.output + run.result.output

        return program, (speaker, post, heard)

    def judge(result, found, kills):
        speaker, post, heard = found
        assert ("hellohellohello", ["a", "b", "c"]) == (result, post.sent)
        assert (len(speaker.asked), speaker.asked.total() <= 6 + kills) == (6, True)
        assert "PartDeltaEvent" in heard
        if not kills:
            assert list("hello") == heard[-1]

    assert swept(play, judge) > 30


def test_a_piece_is_heard_before_the_next_one_is_said():
    """Nothing waits for the whole."""
    said, heard = [], []

    async def stream(_messages, _info):
        for word in ("one", "two", "three"):
            said.append(word)
            yield word
            await asyncio.sleep(0)

    agent = Agent(FunctionModel(stream_function=stream))

    async def program(task):
        async with durable(task, agent, effects={}) as lasting, lasting.run_stream("go") as answer:
            heard.extend([(one, len(said)) async for one in answer.stream_text(delta=True, debounce_by=None)])

    World().live(Play(program))
    assert ["one", "two", "three"] == [piece for piece, _ in heard]
    assert heard[0][1] < 3


def test_a_stream_that_is_left_is_on_record_whole():
    """Whoever heard enough leaves; the second life asks nobody."""
    speaker = Speaker(lambda _: text("hello world"))
    agent = Agent(speaker.model)

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            async with lasting.run_stream("go") as answer:
                async for _ in answer.stream_text(delta=True, debounce_by=None):
                    break
            return (await lasting.run("more")).output

    assert "hello world" == lives_twice(World(), program)
    assert 2 == speaker.asked.total()


def test_a_stream_that_is_cancelled_is_no_answer():
    """The request is over at once, and the next life asks again."""
    said = []

    async def stream(_messages, _info):
        for letter in "hello":
            said.append(letter)
            yield letter
            await asyncio.sleep(0)

    agent = Agent(FunctionModel(stream_function=stream))

    async def program(task):
        async with durable(task, agent, effects={}) as lasting, lasting.run_stream("go") as answer:
            async for _ in answer.stream_text(delta=True, debounce_by=None):
                await answer.cancel()
                break
        return answer.response.state

    world = World()
    assert "interrupted" == lives_twice(world, program)
    assert 2 <= len(said) < 10
    assert world.kinds().count("ActionSettled") == 2


def test_a_stream_that_breaks_off_is_asked_for_again():
    """What was heard of the first is not part of the answer."""
    tries = []

    async def stream(_messages, _info):
        tries.append(1)
        yield "one "
        if len(tries) == 1:
            raise ValueError("broken")
        yield "two"

    agent = Agent(FunctionModel(stream_function=stream))

    async def program(task):
        async with durable(task, agent, effects={}) as lasting, lasting.run_stream("go") as answer:
            return await answer.get_output()

    assert "one two" == World().live(Play(program))
    assert 2 == len(tries)


def test_what_is_evaluated_in_each_life_makes_no_other_conversation():
    """Instructions and system prompts that hold the time: the replies on record stand."""
    speaker, looks = Speaker(lambda said: calls(("look", {})) if turn_of(said) == 0 else text("done")), []
    agent = Agent(speaker.model)

    @agent.instructions
    def now() -> str:
        looks.append(1)
        return f"It is {len(looks)} o'clock."

    @agent.system_prompt
    def mood() -> str:
        return f"You have been asked {len(looks)} times."

    @agent.tool_plain
    def look() -> str:
        return "seen"

    async def program(task):
        async with durable(task, agent, effects={"look": "pure"}) as lasting:
            return (await lasting.run("go")).output

    assert "done" == lives_twice(World(), program)
    assert 2 == speaker.asked.total()
    assert len(looks) == 4


def test_a_picture_of_a_model_comes_back_as_it_was():
    """Bytes of a reply are the same in the second life."""
    from pydantic_ai import BinaryImage

    picture = bytes(range(256))
    reply = ModelResponse(parts=[FilePart(BinaryImage(picture, media_type="image/png"))])
    agent = Agent(
        FunctionModel(lambda _messages, _info: reply, profile={"supports_image_output": True}), output_type=BinaryImage
    )

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            return (await lasting.run("draw")).output.data

    assert picture == lives_twice(World(), program)


@pytest.mark.parametrize("way", ["model", "capability"])
def test_a_fallback_is_found_again_without_the_one_that_failed(way):
    """Whether the fallback is a model or a capability: neither model is asked in the second life."""

    def fails(_messages):
        raise ModelHTTPError(503, "busy")

    bad, good = Speaker(fails), Speaker(lambda _: text("good"))
    if way == "model":
        agent = Agent(FallbackModel(bad.model, good.model))
    else:
        agent = Agent(bad.model, capabilities=[ModelFallback(good.model)])

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            return (await lasting.run("go")).output

    assert "good" == lives_twice(World(), program)
    assert (1, 1) == (bad.asked.total(), good.asked.total())


def test_limits_of_use_hold_over_what_is_on_record():
    """Replies from the record count like those that were asked for: the same limit at the same place."""
    speaker = Speaker(lambda _: calls(("look", {})))
    agent = Agent(speaker.model)

    @agent.tool_plain
    def look() -> str:
        return "seen"

    async def program(task):
        async with durable(task, agent, effects={"look": "pure"}) as lasting:
            with pytest.raises(UsageLimitExceeded, match="request_limit of 3"):
                await lasting.run("go", usage_limits=UsageLimits(request_limit=3))
        return "limited"

    assert "limited" == lives_twice(World(), program)
    assert 3 == speaker.asked.total()


def test_a_run_that_is_given_up_leaves_the_next_one_alone():
    """A time-out of the program around a run ends its request; the same question again is another run."""
    asked = []

    async def say(_messages, _info):
        asked.append(1)
        if len(asked) == 1:
            await asyncio.sleep(3600)
        return text("late")

    agent = Agent(FunctionModel(say))

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await lasting.run("go")
            return (await lasting.run("go")).output

    assert "late" == World().live(Play(program))
