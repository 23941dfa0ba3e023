"""What a model sees of a result, and what the journal holds of it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.tools import tool
from perdure.tools.builtin.shown import shown
from tests.worlds import Play, World

LIMIT = 4_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        ([1, "ü", None], '[1,"ü",null]'),
        ({"a": (1, 2), 3: {"b": float("nan")}}, '{"a":[1,2],"3":{"b":"nan"}}'),
        ({(1, 2): "t"}, '{"[1, 2]":"t"}'),
        ({"s": {"b", "a"}}, '{"s":["a","b"]}'),
        ([b"text", b"\xff\x00"], '["text","(2 bytes that are no text)"]'),
        ([datetime(2026, 1, 2, 3, tzinfo=UTC), Decimal("1.10")], '["2026-01-02T03:00:00+00:00","1.10"]'),
    ],
)
def test_text_is_shown_as_it_is_and_anything_else_as_compact_json(value, text):
    """Whatever the codec can hold has words that a model can read."""
    assert text == shown(value, LIMIT)


def test_half_of_a_surrogate_pair_can_be_sent():
    """A request is UTF-8: what no UTF-8 can say is shown as an escape."""
    assert "a\\ud83db" == shown("a\ud83db", LIMIT)
    assert '["\\ud83d"]' == shown(["\ud83d"], LIMIT)


def test_a_long_text_is_shown_by_its_head_and_its_tail():
    """The line between says how much is left out of how much, and where the whole is."""
    text = "".join(f"{number:07}\n" for number in range(10_000))
    seen = shown(text, LIMIT)
    head, _, rest = seen.partition("\n[… ")
    line, _, tail = rest.partition(" …]\n")
    assert LIMIT >= len(seen) > LIMIT - 5
    assert text.startswith(head)
    assert text.endswith(tail)
    assert (
        f"{80_000 - len(head) - len(tail):,} of 80,000 letters are left out here; the whole is in the journal" == line
    )


@settings(max_examples=50)
@given(st.text(), st.integers(0, 500))
def test_no_more_than_the_limit_is_shown_but_the_line_itself(text, limit):
    """Short texts are whole; long ones never pass the limit, unless the line that says so does."""
    seen = shown(text * 20, limit)
    assert len(seen) <= max(limit, 110)


def test_a_deep_value_is_shown():
    """Nesting up to the codec's maximum is shown whole."""
    value: list[object] = []
    for _ in range(150):
        value = [value]
    assert "[" * 151 + "]" * 151 == shown(value, LIMIT)


def test_an_output_of_ten_megabytes_is_stored_whole_and_once_and_shown_short():
    """The result is one blob; what stands in the conversation, and each later request, is the short form."""
    world = World()
    whole = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(156_250))

    @tool(effect="pure", name="noisy")
    def noisy() -> str:
        return whole

    async def body(task):
        await task.using(key="0.0").act(noisy, then=lambda state, result: state["seen"].append(shown(result, LIMIT)))
        return len(task.state["seen"][0])

    play = Play(body, state={"seen": []})
    assert LIMIT >= world.live(play) > LIMIT - 5
    large = [blob for blob in world.memory.blobs.values() if len(blob) > LIMIT]
    assert [hashlib.sha256(whole.encode()).hexdigest()] == [hashlib.sha256(blob).hexdigest() for blob in large]
    assert len(json.dumps(world.state())) < LIMIT + 200
