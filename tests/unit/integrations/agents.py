"""Agents for tests of the integration: a model that answers by what it is asked, a post that honours keys, and deaths.

`swept` plays a program undisturbed, then killed at each of its crash points. Called by tests only.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from perdure.integrations.pydantic_ai import effect_key
from perdure.integrations.pydantic_ai.runs import conversation_of, digest_of
from perdure.testing import Death
from tests.worlds import DEAD, Play, World

LIVES_MAX = 3


def turn_of(messages):
    """Return how often the model has answered in this conversation since the last words of a person."""
    turn = 0
    for message in messages:
        if isinstance(message, ModelResponse):
            turn += 1
        elif any(part.part_kind == "user-prompt" for part in message.parts):
            turn = 0
    return turn


def prompt_of(messages):
    """Return what was asked last."""
    said = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
    return [part.content for part in said if part.part_kind == "user-prompt"][-1]


def results_of(messages):
    """Return what the calls of the last reply brought."""
    return [part.content for part in messages[-1].parts if part.part_kind in {"tool-return", "retry-prompt"}]


def calls(*named):
    """Return a reply that calls tools, given as (name, arguments); the ids are the same in each."""
    parts = [ToolCallPart(name, given, tool_call_id=f"call_{n}") for n, (name, given) in enumerate(named)]
    return ModelResponse(parts=parts)


def text(said):
    """Return a reply of words."""
    return ModelResponse(parts=[TextPart(said)])


class Speaker:
    """A model that says what `speaks(messages)` returns, and counts what it was asked; streamed letter by letter."""

    def __init__(self, speaks: Callable[[list[Any]], ModelResponse]) -> None:
        self.asked: Counter[str] = Counter()
        self.seen: list[list[Any]] = []
        self.settings: list[Any] = []
        self._speaks = speaks
        self.model = FunctionModel(self._say, stream_function=self._stream)

    async def _say(self, messages, info):
        return self._answered(messages, info)

    async def _stream(self, messages, info):
        reply = self._answered(messages, info)
        for place, part in enumerate(reply.parts):
            if isinstance(part, TextPart):
                for letter in part.content:
                    yield letter
            else:
                yield {place: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    def _answered(self, messages, info):
        self.asked[digest_of(conversation_of(messages))] += 1
        self.seen.append(list(messages))
        self.settings.append(info.model_settings)
        return self._speaks(messages)


class Post:
    """Sends letters, each key once."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def send(self, letter: str) -> str:
        """Send a letter."""
        self.letters.setdefault(effect_key(), letter)
        return f"sent {letter}"

    @property
    def sent(self) -> list[str]:
        """The letters that went out, in order of the alphabet."""
        return sorted(self.letters.values())


def lived(world, program, death=None, **options):
    """Let a program live, again and again until it has a result; only the first life is ended by `death`."""
    for _ in range(LIVES_MAX):
        result = world.live(Play(program), death=death, **options)
        if result is not DEAD:
            return result
        death = None
    return DEAD


def swept(play, judge):
    """Play `play()` → (program, whatever) undisturbed and killed at each of its points; `judge(result, whatever)` each.

    Returns how often it was killed.
    """
    world = World()
    program, found = play()
    judge(lived(world, program), found, 0)
    points = len(world.points)
    for number in range(1, points + 1):
        world = World()
        program, found = play()
        assert DEAD == world.live(Play(program), death=Death("any", number)), number
        judge(lived(world, program), found, 1)
    return points
