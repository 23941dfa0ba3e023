"""What a request costs: tokens by a stated rule before it is sent, money by the price list that is installed.

The rule: a token for every 3 bytes of UTF-8, 8 for each message, call and tool. Texts in the languages of the web have
3.5 to 5 bytes a token, so this is more than what will be counted; for tables of random digits it may be less. Prices
are those of `genai-prices`, which ships with its data and asks nobody. Called by `provider.py` and `local.py`.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Final

import msgspec

from perdure.model import money as coins
from perdure.model.budget import Cost
from perdure.model.chat import ModelRequest

BYTES_PER_TOKEN: Final = 3
FRAME_TOKENS: Final = 8  # what stands around a message, a call, a tool


def tokens_of(value: object) -> int:
    """Return how many tokens a text has at most, or a value as JSON."""
    size_bytes = len(value.encode("utf-8", "replace")) if isinstance(value, str) else len(_encoded(value))
    return -(-size_bytes // BYTES_PER_TOKEN)


def tokens_in(request: ModelRequest) -> int:
    """Return how many tokens `request` has at most, what it offers included."""
    total = tokens_of(request.schema) if request.schema is not None else 0
    for offer in request.offers:
        total += FRAME_TOKENS + tokens_of(offer)
    for message in request.messages:
        total += FRAME_TOKENS + tokens_of(message["text"])
        total += tokens_of(kept) if (kept := message.get("kept")) is not None else 0
        for call in message.get("calls") or []:
            total += 2 * FRAME_TOKENS + tokens_of(call["name"]) + tokens_of(call["arguments"])
            total += tokens_of((message.get("results") or {}).get(call["id"], {}))
    return total


def cost_of(tokens_in: int, tokens_out: int, *, model: str, provider: str, url: str = "") -> Cost:
    """Return tokens and, where the price list knows the model, money."""
    return Cost(tokens_in=tokens_in, tokens_out=tokens_out, money=_price(tokens_in, tokens_out, model, provider, url))


def money(amount: Decimal) -> str:
    """Return an amount in dollars, in which price lists are; "" for nothing."""
    return coins.text_of({"USD": amount})


def _price(tokens_in: int, tokens_out: int, model: str, provider: str, url: str) -> str:
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
    if url:
        with contextlib.suppress(LookupError, ValueError):  # a service that is not on the list
            return money(calc_price(usage, model, provider_api_url=url).total_price)
    with contextlib.suppress(LookupError, ValueError):  # a provider or a model that is not
        return money(calc_price(usage, model, provider_id=provider).total_price)
    return ""


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)
