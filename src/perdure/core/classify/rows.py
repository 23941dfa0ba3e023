"""The table of the classifier: which class an error has, row by row. The first row whose every condition holds counts.

A row may ask for a code (a field of the body: `error.code`, `error.type`, `error.status`, a `reason`, a `quotaId`), for
a status of HTTP, and for words of the message. Rows that rest on fields stand before those that rest on the status, and
a row of words stands only where field and status leave more than one class: a 400 may be anything.

Sources: the providers' public pages on errors and limits; each row of `tests/fixtures/errors.jsonl` names its page.
Called by `classify`; the page `docs/reference/recovery.md` shows the same table.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from perdure.core.classify import words
from perdure.model.failure import FailureClass

# Where `until` of a quota is taken from, beside a moment that is named in body or message: the wait that is told;
# nothing else; midnight in California; the first of next month.
Return = Literal["told", "named", "pacific", "month"]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row: all conditions that are given must hold."""

    rule: str
    failure_class: FailureClass
    when: str  # the conditions as the page shows them
    providers: tuple[str, ...] = ()
    statuses: frozenset[int] = frozenset()
    codes: str = ""  # pattern for a whole code, in snake case
    quotas: str = ""  # pattern within the id of a quota that is used up
    text: str = ""  # pattern within the message
    wait: Literal["", "none", "short", "long"] = ""  # what the other side asks for: nothing; less than an hour; more
    should_retry: bool | None = None  # the header `x-should-retry`
    is_flagged: bool = False  # the result of a moderation is in the body
    back: Return = "told"


def _statuses(*parts: int | range) -> frozenset[int]:
    return frozenset(number for part in parts for number in (part if isinstance(part, range) else (part,)))


_NO_STATUS: Final = (0, 200)

FIELDS: Final = (
    Row(
        rule="throttled.in_flight",
        failure_class="throttled",
        codes=r"(?:openrouter_)?in_flight_budget(?:_exhausted)?",
        when="code `in_flight_budget_exhausted`: money for what is under way, free again when it is done",
    ),
    Row(
        rule="http.402",
        failure_class="quota",
        statuses=_statuses(402),
        when="status 402",
        back="named",
    ),
    Row(
        rule="quota.spend_tier",
        failure_class="quota",
        codes=r"enforced_spend_limit\w*",
        when="code `enforced_spend_limit_reached`, until the first of next month",
        back="month",
    ),
    Row(
        rule="quota.credit",
        failure_class="quota",
        codes=words.CREDIT_CODES,
        when="code `insufficient_quota`, `credit_balance_exhausted`, `organization_spend_limit_exceeded`, "
        "`project_spend_limit_exceeded`, `billing_error`, `BILLING_DISABLED`, and others that name a credit, a "
        "balance, a budget, a spend or usage limit",
        back="named",
    ),
    Row(
        rule="quota.said",
        failure_class="quota",
        codes=rf"{words.BROAD_CODES}|{words.RATE_CODES}",
        text=words.SPENT,
        when="code of a rate or a right, and the message is about money: credits are depleted, a spend limit reached",
        back="named",
    ),
    Row(
        rule="quota.zero",
        failure_class="quota",
        statuses=_statuses(0, 429),
        text=words.LIMIT_ZERO,
        when="the message names a quota with `limit: 0`",
        back="named",
    ),
    Row(
        rule="quota.per_day_id",
        failure_class="quota",
        quotas=words.PER_DAY,
        when="`PerDay` in the id of a quota that is used up, whatever delay is told; until midnight in California, or "
        "the delay where that is an hour or more",
        back="pacific",
    ),
    Row(
        rule="throttled.per_minute_id",
        failure_class="throttled",
        quotas=words.PER_MINUTE,
        when="`PerMinute` in the id of a quota that is used up",
    ),
    Row(
        rule="context.limit",
        failure_class="context",
        statuses=_statuses(0, 413, 429),
        text=words.TOO_LARGE,
        when="a limit by the minute that this one request is larger than",
    ),
    Row(
        rule="quota.per_day",
        failure_class="quota",
        statuses=_statuses(*_NO_STATUS, 400, 403, 413, 429, 503),
        codes=rf"{words.RATE_CODES}|{words.QUOTA_CODES}|requests|tokens",
        text=words.PER_LONGER,
        when="code of a rate, and the message speaks of a day or longer: requests per day (RPD), tokens per day (TPD)",
    ),
    Row(
        rule="quota.exceeded",
        failure_class="quota",
        codes=words.QUOTA_CODES,
        when="code `quota_exceeded`, `dailyLimitExceeded`, `ServiceQuotaExceededException`",
    ),
    Row(
        rule="quota.long_wait",
        failure_class="quota",
        codes=r"resource_exhausted",
        wait="long",
        when="code `RESOURCE_EXHAUSTED`, and a wait of an hour or more is told",
    ),
    Row(
        rule="quota.plan",
        failure_class="quota",
        codes=r"resource_exhausted",
        text=words.CURRENT_QUOTA,
        wait="none",
        when="code `RESOURCE_EXHAUSTED`, the message is about the plan, and no wait is told",
        back="named",
    ),
    Row(
        rule="refusal.said",
        failure_class="refusal",
        codes=words.BROAD_CODES,
        text=words.VIOLATES,
        when="code `permission_denied`, `forbidden`, and the message says that the content violates a policy",
    ),
    Row(
        rule="auth.key",
        failure_class="auth",
        codes=words.KEY_CODES,
        when="code `invalid_api_key`, `authentication_error`, `permission_error`, `API_KEY_INVALID`, "
        "`UNAUTHENTICATED`, `AccessDeniedException`, and others of a key or a right, whatever the status",
    ),
    Row(
        rule="context.length",
        failure_class="context",
        codes=words.CONTEXT_CODES,
        when="code `context_length_exceeded`, `request_too_large`, `exceed_context_size_error`, and others of a length",
    ),
    Row(
        rule="refusal.filter",
        failure_class="refusal",
        codes=words.FILTER_CODES,
        when="code `content_filter`, `ResponsibleAIPolicyViolation`, `content_policy_violation`, and other filters",
    ),
    Row(
        rule="refusal.flagged",
        failure_class="refusal",
        statuses=_statuses(*_NO_STATUS, 400, 403),
        is_flagged=True,
        when="the body gives the `reasons` of a moderation",
    ),
    Row(
        rule="output.generation",
        failure_class="output",
        codes=words.OUTPUT_CODES,
        when="code `tool_use_failed`, `json_validate_failed`, `max_tokens_exceeded`",
    ),
    Row(
        rule="capacity.model",
        failure_class="capacity",
        codes=words.MODEL_CODES,
        when="code `ModelNotReadyException`, `ModelTimeoutException`, `ModelErrorException`",
    ),
    Row(
        rule="network.late",
        failure_class="network",
        statuses=_statuses(*_NO_STATUS, 400),
        codes=words.LATE_CODES,
        when="status 400, code `RequestTimeout`: what was sent came too slowly",
    ),
    Row(
        rule="capacity.aborted",
        failure_class="capacity",
        statuses=_statuses(*_NO_STATUS, 409),
        codes=words.ABORTED_CODES,
        when="status 409, code `ABORTED`, `conflict_error`: somebody else was at the same thing",
    ),
    Row(
        rule="throttled.aws_limit",
        failure_class="throttled",
        providers=("aws",),
        statuses=_statuses(400),
        codes=r"limit_exceeded",
        when="status 400 of AWS, code `LimitExceededException`",
    ),
    Row(
        rule="throttled.rate",
        failure_class="throttled",
        codes=words.RATE_CODES,
        when="code `rate_limit_exceeded`, `rate_limit_error`, `slow_down`, `ThrottlingException`, "
        "`RESOURCE_EXHAUSTED`, and others of a rate",
    ),
    Row(
        rule="capacity.busy",
        failure_class="capacity",
        codes=words.BUSY_CODES,
        when="code `overloaded_error`, `server_is_overloaded`, `service_unavailable_error`, `UNAVAILABLE`, and others",
    ),
)

STATUSES: Final = (
    Row(
        rule="http.{status}",
        failure_class="auth",
        statuses=_statuses(401, 407, 511),
        when="status 401, 407, 511",
    ),
    Row(rule="http.413", failure_class="context", statuses=_statuses(413), when="status 413"),
)

WORDS: Final = (
    Row(
        rule="text.context",
        failure_class="context",
        text=words.TOO_LONG,
        when="the message says that the input is too long",
    ),
    Row(
        rule="text.per_day",
        failure_class="quota",
        statuses=_statuses(*_NO_STATUS, 403, 429),
        text=words.LIMIT_PER_DAY,
        when="status 403 or 429, and the message speaks of a limit by the day or longer",
    ),
    Row(
        rule="text.rate_429",
        failure_class="throttled",
        statuses=_statuses(429),
        text=words.THROTTLED_429,
        when="status 429, and the message speaks of a limit by the minute or of a wait",
    ),
    Row(
        rule="text.quota",
        failure_class="quota",
        text=words.NO_MONEY,
        when="the message says that a credit, a balance or a spend limit is used up",
        back="named",
    ),
    Row(
        rule="text.auth",
        failure_class="auth",
        statuses=_statuses(*_NO_STATUS, 400, 403, 404, 422, 498),
        text=words.BAD_KEY,
        when="status 400, 403, 404, 422, 498, and the message says that a key or a token is missing or not valid",
    ),
    Row(
        rule="text.refusal",
        failure_class="refusal",
        statuses=_statuses(*_NO_STATUS, 400, 403, 422, 451, 498),
        text=words.REFUSED,
        when="status 400, 403, 422, 451, 498, and the message names a policy or a filter",
    ),
    Row(
        rule="text.rate",
        failure_class="throttled",
        statuses=_statuses(*_NO_STATUS, 400, 403, 503),
        text=words.THROTTLED,
        when="status 400, 403, 503, and the message names a rate limit",
    ),
)

REST: Final = (
    Row(
        rule="http.should_not_retry",
        failure_class="quota",
        statuses=_statuses(429),
        should_retry=False,
        wait="none",
        when="status 429 with `x-should-retry: false`, and no wait is told",
        back="named",
    ),
    Row(
        rule="http.should_not_retry",
        failure_class="request",
        statuses=_statuses(408, 409, range(500, 600)),
        should_retry=False,
        when="status 408, 409, 5xx with `x-should-retry: false`",
    ),
    Row(
        rule="http.should_retry",
        failure_class="capacity",
        statuses=_statuses(range(400, 429), range(430, 500)) - {403, 408},
        should_retry=True,
        when="another status 4xx with `x-should-retry: true`",
    ),
    Row(rule="http.403", failure_class="auth", statuses=_statuses(403), when="status 403"),
    Row(
        rule="http.409",
        failure_class="capacity",
        statuses=_statuses(409),
        providers=("openai", "azure", "anthropic"),
        when="status 409 of OpenAI, Azure, Anthropic: somebody else was at the same thing",
    ),
    Row(
        rule="http.{status}",
        failure_class="network",
        statuses=_statuses(408, 499),
        when="status 408, 499",
    ),
    Row(rule="http.429", failure_class="throttled", statuses=_statuses(429), when="status 429"),
    Row(
        rule="http.{status}",
        failure_class="capacity",
        statuses=_statuses(424, 425, 498),
        when="status 424, 425, 498",
    ),
    Row(
        rule="http.{status}",
        failure_class="request",
        statuses=_statuses(501, 505, 506, 510),
        when="status 501, 505, 506, 510",
    ),
    Row(
        rule="http.{status}",
        failure_class="capacity",
        statuses=_statuses(range(500, 600)),
        when="another status 5xx: 500, 502, 503, 504, 529",
    ),
    Row(
        rule="http.{status}",
        failure_class="request",
        statuses=_statuses(range(300, 500)),
        when="another status 3xx or 4xx: 400, 404, 405, 422",
    ),
    Row(
        rule="capacity.server",
        failure_class="capacity",
        codes=words.SERVER_CODES,
        when="no status, code `api_error`, `server_error`, `INTERNAL`, `timeout_error`, `DEADLINE_EXCEEDED`",
    ),
    Row(
        rule="request.invalid",
        failure_class="request",
        codes=words.REQUEST_CODES,
        when="no status, code `invalid_request_error`, `INVALID_ARGUMENT`, `not_found_error`, `ValidationException`",
    ),
    Row(
        rule="text.down",
        failure_class="capacity",
        statuses=_statuses(*_NO_STATUS),
        text=words.DOWN,
        when="no status, and the message says that the other side is overloaded or down",
    ),
    Row(
        rule="text.network",
        failure_class="network",
        statuses=_statuses(*_NO_STATUS),
        text=words.OFFLINE,
        when="no status, and the message says that a connection failed",
    ),
)

HTTP: Final = (*FIELDS, *STATUSES, *WORDS, *REST)
