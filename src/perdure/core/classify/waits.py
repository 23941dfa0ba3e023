"""How long the other side asks to wait, and when a quota comes back. Reads what `reading` has found.

| told by | read as |
|---|---|
| `retry-after-ms`, `retry-after` | milliseconds; seconds or a date |
| `retryDelay` of Google, `retry_after` in a body | "34.07s", seconds, {"seconds": 34} |
| the message: "try again in 7m12s", "retry after 6 seconds" | its duration |
| `x-ratelimit-reset-*`, `anthropic-ratelimit-*-reset` | of the limits that are used up, the longest |

The first that is there counts. A date is measured against the answer's own `date` where it has one, so that a clock
that is wrong on this side does not matter. What is past, negative or no number is 0; what is absurd is cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, cast
from zoneinfo import ZoneInfo

from perdure.core.classify.reading import Facts

SECOND_US: Final = 1_000_000
HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0
WAIT_S_MAX: Final = DAY_S  # of a limit by the minute or of an overload
QUOTA_WAIT_S_MAX: Final = 366 * DAY_S

_UNITS_S: Final = {"m": 60.0, "s": 1.0, "h": HOUR_S, "d": DAY_S}
_PART: Final = r"(\d+(?:\.\d+)?)\s*(milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d)"
_PARTS: Final = re.compile(_PART, re.IGNORECASE)
_DURATION: Final = re.compile(rf"(?:{_PART}[\s,]*)+", re.IGNORECASE)
_ASKED: Final = re.compile(
    r"(?:(?:try(?:ing)? again|retry(?:ing)?|wait)(?: again)?(?: (?:in|after|for|at least|about))*|resets? (?:in|after))"
    r"[:\s]+"
    rf"(?P<wait>(?:{_PART}\b[\s,]*|{_PART}(?=\d))+)",
    re.IGNORECASE,
)
_DELAY_IN_TEXT: Final = re.compile(r"retry_?delay\W{1,20}(?:seconds\W{1,4})?(\d+(?:\.\d+)?)", re.IGNORECASE)
_DATE_IN_TEXT: Final = re.compile(
    r"(?:regain access|resets?|reset at|available again|try again|until)\b[^\d\n]{0,30}"
    r"(\d{4}-\d\d-\d\d)(?:(?:T| at |,? )(\d\d:\d\d(?::\d\d)?))?",
    re.IGNORECASE,
)
# As command lines tell it: "resets 5:10pm (Europe/Paris)", "resets Dec 5 at 9pm (UTC)".
_CLOCK_IN_TEXT: Final = re.compile(
    r"resets? (?:at |on )?(?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2}),? (?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap])m \((?P<zone>[\w/+-]{1,40})\)",
    re.IGNORECASE,
)
_LATER_IN_TEXT: Final = re.compile(
    rf"(?:resets?|try again|available(?: again)?) (?:in|after) (?P<wait>(?:{_PART}\b[\s,]*|{_PART}(?=\d))+)",
    re.IGNORECASE,
)
_LATER_S_MIN: Final = 60.0  # a shorter wait beside a quota is that of a limit by the minute
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_COUNT_IN_TEXT: Final = re.compile(r"limit reached\|(\d{10})\b", re.IGNORECASE)  # as a command line tells it
_LIMIT_RESET: Final = re.compile(r"(?:x-ratelimit|anthropic-ratelimit)-(?:reset-([\w-]+)|([\w-]+)-reset)")
_PLAIN_RESETS: Final = ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset")
_EPOCH_S_MIN: Final = 1_000_000_000  # a larger number is a moment, not a duration
_EPOCH_MS_MIN: Final = 1_000_000_000_000


def asked_wait(facts: Facts, now: int) -> float:
    """Return for how many seconds the other side asks to be left alone; 0 where it does not say."""
    headers = facts.headers
    told = (
        _number(headers.get("retry-after-ms", "")) / 1000,
        _wait_of(headers.get("retry-after", ""), facts, now),
        *(_delay(delay) for delay in facts.delays),
        *(float(found) for found in _DELAY_IN_TEXT.findall(facts.text)),
        *(duration_s(found["wait"]) for found in _ASKED.finditer(facts.text)),
    )
    return next((wait for wait in map(_sane, told) if wait > 0), 0.0)


def limit_wait(facts: Facts, now: int) -> float:
    """Return when the limits that are used up are free again, in seconds, from the headers that tell their state."""
    used_up: list[float] = []
    others: list[float] = []
    for name, left, value in _limits(facts.headers):
        wait = _sane(_wait_of(value, facts, now))
        is_meant = left == 0 or (math.isnan(left) and name not in facts.headers)
        (used_up if is_meant or name in facts.codes else others).append(wait)
    return max(used_up or others, default=0.0)


def duration_s(text: str) -> float:
    """Return "6m0s", "20ms", "1 hour 3 minutes" in seconds; 0 where it is no duration."""
    if not _DURATION.fullmatch(text.strip()):
        return 0.0
    return sum(float(number) * _unit_s(unit.lower()) for number, unit in _PARTS.findall(text))


def told_moment(facts: Facts, now: int) -> int:
    """Return when a quota comes back, in UTC microseconds, where body or message name the moment; else 0."""
    moments = [_moment(reset) for reset in facts.resets]
    moments += [_moment(found) for found in _COUNT_IN_TEXT.findall(facts.text)]
    for day, hour in _DATE_IN_TEXT.findall(facts.text):
        moments.append(_moment(f"{day}T{hour or '00:00'}Z"))
    if now:
        moments += [_next_clock(found, now) for found in _CLOCK_IN_TEXT.finditer(facts.text)]
        told = (*facts.resets_in, *(found["wait"] for found in _LATER_IN_TEXT.finditer(facts.text)))
        later = (_sane(_delay(wait)) for wait in told)
        moments += [now + round(clamped(wait, QUOTA_WAIT_S_MAX) * SECOND_US) for wait in later if wait >= _LATER_S_MIN]
    return max(moments, default=0)


def next_month(now: int) -> int:
    """Return the first moment of the next month, UTC."""
    first = _at(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return _us((first + timedelta(days=32)).replace(day=1))


def next_pacific_midnight(now: int) -> int:
    """Return the next midnight in California, by the rule that holds there since 2007.

    Summer time runs from the second Sunday of March to the first Sunday of November, both at 2:00.
    """
    today = _at(now).replace(hour=0, minute=0, second=0, microsecond=0)
    midnights = (today + timedelta(days=days) for days in (-1, 0, 1, 2))
    moments = (_us(midnight + timedelta(hours=_pacific_offset(midnight.date()))) for midnight in midnights)
    return next(moment for moment in moments if moment > now)


def clamped(wait_s: float, wait_s_max: float = WAIT_S_MAX) -> float:
    """Return a wait that can be waited for: no NaN, nothing negative, nothing absurd."""
    return min(_sane(wait_s), wait_s_max)


# --- headers --------------------------------------------------------------------------------------------------------
def _limits(headers: Mapping[str, str]) -> Iterator[tuple[str, float, str]]:
    """Yield (name of the limit, how much is left of it, when it is free again)."""
    for header, value in headers.items():
        found = _LIMIT_RESET.fullmatch(header)
        if found is None:
            continue
        name = found[1] or found[2]
        left = headers.get(f"x-ratelimit-remaining-{name}", headers.get(f"anthropic-ratelimit-{name}-remaining", ""))
        yield name, _number(left, math.nan), value
    for header in _PLAIN_RESETS:
        if header in headers:
            yield header, _number(headers.get(header.replace("reset", "remaining"), ""), math.nan), headers[header]


def _wait_of(value: str, facts: Facts, now: int) -> float:
    """Return a header's value in seconds: a number, a duration, or a moment less the present one."""
    number = _number(value, math.nan)
    if not math.isnan(number) and number < _EPOCH_S_MIN:
        return number
    if duration_s(value):
        return duration_s(value)
    moment = _moment(value)
    if not moment and not math.isnan(number):
        return number  # too large for a moment too
    present = _moment(facts.headers.get("date", "")) or now
    return (moment - present) / SECOND_US if moment and present else 0.0


def _delay(delay: object) -> float:
    if isinstance(delay, Mapping):
        parts = cast("Mapping[str, object]", delay)
        return _number(parts.get("seconds", 0)) + _number(parts.get("nanos", 0)) / 1e9
    return duration_s(delay) or _number(delay) if isinstance(delay, str) else _number(delay)


# --- numbers and moments --------------------------------------------------------------------------------------------
def _number(value: object, missing: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return missing
    try:
        return float(value)
    except (ValueError, OverflowError):
        return missing


def _sane(wait_s: float) -> float:
    return wait_s if math.isfinite(wait_s) and wait_s > 0 else 0.0


def _unit_s(unit: str) -> float:
    return 0.001 if unit.startswith(("ms", "milli")) else _UNITS_S[unit[0]]


def _moment(value: object) -> int:
    """Return a date of HTTP, of RFC 3339, or a count since 1970 (seconds or milliseconds) in UTC microseconds."""
    number = _number(value, math.nan)
    if not math.isnan(number):
        seconds = number / 1000 if number >= _EPOCH_MS_MIN else number
        return int(seconds * SECOND_US) if _EPOCH_S_MIN <= seconds < _EPOCH_MS_MIN else 0
    if not isinstance(value, str) or not value:
        return 0
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = parse(value.strip())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return _us(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    return 0


def _at(moment: int) -> datetime:
    return datetime.fromtimestamp(moment / SECOND_US, UTC)


def _us(moment: datetime) -> int:
    return round(moment.timestamp()) * SECOND_US


def _next_clock(told: re.Match[str], now: int) -> int:
    """Return the next moment at which a clock in the zone that is named shows what is told; 0 where there is none."""
    try:
        present = _at(now).astimezone(ZoneInfo(told["zone"]))  # reads the machine's table of zones
        hour = int(told["hour"]) % 12 + (12 if told["half"].lower() == "p" else 0)
        moment = present.replace(hour=hour, minute=int(told["minute"] or 0), second=0, microsecond=0)
        if told["month"]:
            moment = moment.replace(month=_MONTHS.index(told["month"].lower()) + 1, day=int(told["day"]))
            return _us(moment if moment > present else moment.replace(year=moment.year + 1))
        return _us(moment if moment > present else moment + timedelta(days=1))
    except (KeyError, ValueError, OSError, OverflowError):  # no such zone, month, day or hour
        return 0


def _pacific_offset(day: date) -> int:
    """Return by how many hours the first moment of a day in California is behind UTC."""
    return 7 if _sunday(day.year, 3, 2) < day <= _sunday(day.year, 11, 1) else 8


def _sunday(year: int, month: int, nth: int) -> date:
    first = date(year, month, 1)
    return first + timedelta(days=(6 - first.weekday()) % 7 + 7 * (nth - 1))
