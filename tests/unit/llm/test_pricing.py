"""Tokens by the rule, money by the price list."""

from decimal import Decimal

import pytest

from perdure.llm import pricing
from perdure.model.chat import ModelRequest


def test_every_part_of_a_request_counts():
    """Texts, calls, results, tools, the schema and what a provider gets back: each makes the estimate larger."""
    call = {"id": "1.0", "name": "read", "arguments": {"path": "a"}}
    turn = {"role": "assistant", "text": "", "calls": [call], "results": {"1.0": {"text": "x"}}}
    offer = {"name": "read", "description": "Read.", "schema": {"type": "object"}}
    requests = [
        ModelRequest(messages=[]),
        ModelRequest(messages=[{**turn, "calls": []}]),
        ModelRequest(messages=[turn]),
        ModelRequest(messages=[{**turn, "results": {"1.0": {"text": "x" * 9}}}]),
        ModelRequest(messages=[{**turn, "results": {"1.0": {"text": "x" * 9}}, "kept": {"signature": "s"}}]),
        ModelRequest(messages=[{**turn, "results": {"1.0": {"text": "x" * 9}}, "kept": {"signature": "s" * 9}}]),
    ]
    counted = [pricing.tokens_in(request) for request in requests]
    assert (sorted(set(counted)), 0) == (counted, counted[0])
    assert pricing.tokens_in(ModelRequest(messages=[], offers=[offer])) > pricing.FRAME_TOKENS
    assert pricing.tokens_in(ModelRequest(messages=[], schema={"type": "object"})) > 0


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abc", 1), ("abcd", 2), ("日本", 2), ("\ud800", 1)])
def test_three_bytes_are_a_token(text, tokens):
    """Rounded up; a text that is no Unicode counts too."""
    assert tokens == pricing.tokens_of(text)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [("0.00225", "0.00225 USD"), ("1E-7", "0.0000001 USD"), ("10", "10 USD"), ("0.50", "0.5 USD"), ("0", "")],
)
def test_money_is_plain_decimal_text(amount, expected):
    """No exponent, no idle zeros; nothing is in no currency."""
    assert expected == pricing.money(Decimal(amount))


def test_a_price_is_found_by_address_or_by_provider_and_is_else_unknown():
    """An unknown address falls back to the provider; an unknown model has no price, and still its tokens."""
    known = pricing.cost_of(1_000, 1_000, model="gpt-5-mini", provider="openai", url="http://127.0.0.1:9/v1")
    assert (1_000, 1_000, "0.00225 USD") == (known.tokens_in, known.tokens_out, known.money)
    assert "" == pricing.cost_of(1_000, 1_000, model="nobody-1", provider="openai").money
    assert "" == pricing.cost_of(1_000, 1_000, model="gpt-5-mini", provider="nobody").money
