"""`classify` and `classify_reply`: evidence and tables in, a verdict out. Pure; knows no exception and no provider.

Fields come first, then the status, then words (`rows.py`). What comes from a provider, a server or over MCP and is
known to no row is "capacity" and marked as unknown: recovery makes a "request" of it when it comes again, so that an
unknown error is tried once more and cannot loop. An exception that shows no sign of any of these is the tool's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from perdure.core.classify import replies, waits
from perdure.core.classify.elsewhere import (
    CLIENTS,
    LATE_TYPES,
    MCP,
    MCP_CALL_CODES,
    MCP_CODES,
    MCP_WORDS,
    NETWORK_ERRNOS,
    OWN_TYPES,
    PROCESS,
    REASONS,
    STORAGE_ERRNOS,
    TLS,
    TYPES,
)
from perdure.core.classify.evidence import Evidence, Verdict
from perdure.core.classify.reading import FAILED, SUCCEEDED, Facts, decoded, named, read
from perdure.core.classify.rows import FIELDS, HTTP, WORDS, Row
from perdure.core.classify.words import ASSERTION
from perdure.model.failure import FailureClass

# To these classes belongs a wait: the others do not go away by it.
WAITING: Final[frozenset[FailureClass]] = frozenset({"network", "capacity", "throttled", "timeout"})

_REASONS: Final[dict[str, tuple[str, FailureClass]]] = {
    reason: (rule, failure_class) for rule, failure_class, found in REASONS for reason in found
}
# The last line of a trace that a process wrote, or that somebody put into a message of their own.
_CLIENT_TYPE_IN_TEXT: Final = re.compile(
    rf"^((?:{'|'.join(map(re.escape, CLIENTS))})\.[\w.]{{1,80}})(?:[:\n]|$)", re.MULTILINE
)
_NO_ERRNO: Final = re.compile(r"ssl|gaierror|herror", re.IGNORECASE)  # their numbers are not those of the system


def classify(evidence: Evidence, now: int) -> Verdict:
    """Return the class of an error, with the wait and the moment that the other side has told.

    `now` is UTC in microseconds since 1970; 0 where nobody knows, then only moments that need no clock are told.
    Promises that `wait_s` is between 0 and a day (a year for a quota), and that `until` is 0 or after `now`.
    """
    facts = read(evidence)
    match evidence.kind:
        case "http" | "event":
            return _over_http(facts, now)
        case "reply":
            return _of_reply(facts, now)
        case "socket":
            return _of_socket(facts, now)
        case "process":
            return _of_process(facts, now)
        case "mcp":
            return _over_mcp(facts, now)
        case _:
            return _of_exception(facts, now)


def classify_reply(reply: Mapping[str, object], provider: str = "") -> Verdict | None:
    """Return why an answer with status 200 is none: an error inside, cut, refused, empty. None: it is an answer.

    Takes whole answers and single events of a stream, as decoded JSON. Text that came before an error is no answer.
    """
    error = replies.error_in(reply)
    if error is not None:
        return classify(Evidence(kind="event", provider=provider, body=error), 0)
    if replies.has_refusal(reply):
        return Verdict(failure_class="refusal", rule="reply.refusal", provider=provider)
    found = [_REASONS.get(ending) for ending in replies.endings(reply)]
    bad = [reason for reason in found if reason is not None]
    if bad and len(bad) == len(found):
        rule, failure_class = bad[0]
        return Verdict(failure_class=failure_class, rule=rule, provider=provider)
    said = replies.said_instead(reply)
    if said:
        return _over_http(read(Evidence(kind="event", provider=provider, message=said)), 0)
    if replies.is_empty(reply):
        return Verdict(failure_class="output", rule="reply.empty", provider=provider)
    return None


# --- by where the error comes from ----------------------------------------------------------------------------------
def _over_http(facts: Facts, now: int) -> Verdict:
    if _is_tls(facts):
        return _judge(TLS, facts, now) or _unknown(facts, now)
    verdict = _judge(HTTP, facts, now) or _judge(TYPES, _typed(facts), now) or _of_ending(facts)
    return verdict or _unknown(facts, now)


def _of_ending(facts: Facts) -> Verdict | None:
    """The verdict on what has no error in it: an answer, or an event that tells how one ended."""
    body = decoded(facts.evidence.body)
    if isinstance(body, Mapping) and replies.error_in(cast("replies.Reply", body)) is None:
        return classify_reply(cast("replies.Reply", body), facts.provider)
    is_empty = not body and facts.evidence.status in SUCCEEDED
    return _verdict("output", "reply.empty", facts) if is_empty else None


def _of_reply(facts: Facts, now: int) -> Verdict:
    if facts.evidence.status in FAILED:
        return _over_http(facts, now)
    body = decoded(facts.evidence.body)
    if isinstance(body, Mapping):
        error = replies.error_in(cast("replies.Reply", body))
        if error is not None:  # its headers are those of the answer
            return _over_http(read(msgspec.structs.replace(facts.evidence, kind="event", body=error)), now)
        verdict = classify_reply(cast("replies.Reply", body), facts.provider)
        if verdict is not None:
            return verdict
    elif body:  # a text where JSON was due: some put the error there
        return _judge((*FIELDS, *WORDS), facts, now) or _verdict("output", "reply.unreadable", facts)
    return _verdict("output", "reply.empty" if not body else "reply.invalid", facts)


def _of_socket(facts: Facts, now: int) -> Verdict:
    verdict = _judge(TLS, facts, now)
    if verdict is not None:
        return verdict
    if not _NO_ERRNO.search(facts.evidence.type):
        if facts.evidence.errno in STORAGE_ERRNOS:
            return _verdict("storage", "os.storage", facts)
        if facts.evidence.errno in NETWORK_ERRNOS:
            return _verdict("network", "os.network", facts)
    return _judge(TYPES, _typed(facts), now) or _judge(HTTP, facts, now) or _unknown(facts, now)


def _of_process(facts: Facts, now: int) -> Verdict:
    is_told = facts.has_error_body and not _has(ASSERTION, facts.evidence.message)
    verdict = _judge(HTTP, facts, now) if is_told else None
    return (
        verdict
        or _judge(PROCESS, facts, now)
        or _by_type_in_text(facts, now)
        or _verdict("tool", "process.exit", facts)
    )


def _over_mcp(facts: Facts, now: int) -> Verdict:
    if _is_tool_result(facts.evidence.body):
        return _verdict("tool", "mcp.tool_error", facts)
    verdict = _judge(MCP, facts, now)
    if verdict is not None:
        return verdict
    codes = facts.numbers
    if MCP_CALL_CODES & set(codes):
        return _verdict("request", "mcp.call", facts)
    verdict = _judge(MCP_WORDS, facts, now)
    if verdict is not None:
        return verdict
    status = next((code for code in codes if code in FAILED), 0)
    if status:
        facts.status = status
        return _over_http(facts, now)
    known = next((code for code in codes if code in MCP_CODES), None)
    return _unknown(facts, now) if known is None else _verdict(MCP_CODES[known], f"mcp.{known}", facts)


def _of_exception(facts: Facts, now: int) -> Verdict:
    """An exception of unknown kin: an error of a provider, a connection or a process only where it looks like one."""
    kind, number = facts.evidence.type, facts.evidence.errno
    if facts.evidence.exit_code is not None:
        return _of_process(facts, now)
    if facts.has_error_body or facts.provider or facts.status:
        verdict = _judge(HTTP, facts, now)
        if verdict is not None:
            return verdict
    is_clients = any(kind.startswith(f"{client}.") for client in CLIENTS)
    if facts.provider or is_clients or kind in OWN_TYPES or number in NETWORK_ERRNOS | STORAGE_ERRNOS:
        return _of_socket(facts, now)
    if kind in LATE_TYPES:
        return _verdict("timeout", "late", facts)
    return _by_type_in_text(facts, now) or _verdict("tool", "exception", facts)


def _is_tls(facts: Facts) -> bool:
    return not facts.status and any(_fits(row, facts, 0.0) for row in TLS)


def _is_tool_result(body: object) -> bool:
    return isinstance(body, Mapping) and cast("Mapping[str, object]", body).get("isError") is True


def _by_type_in_text(facts: Facts, now: int) -> Verdict | None:
    """The verdict on the exception of a client library whose name stands at the start of the last such line."""
    found = _CLIENT_TYPE_IN_TEXT.findall(facts.text)
    return _judge((*FIELDS, *TYPES, *HTTP), _typed(facts, found[-1]), now) if found else None


def _typed(facts: Facts, kind: str = "") -> Facts:
    """Return facts whose one code is the name of the exception's class."""
    name = named((kind or facts.evidence.type).rpartition(".")[2])
    return Facts(
        evidence=facts.evidence, status=facts.status, provider=facts.provider, codes=(name,), headers=facts.headers
    )


# --- by the tables --------------------------------------------------------------------------------------------------
def _judge(rows: Iterable[Row], facts: Facts, now: int) -> Verdict | None:
    """Return the verdict of the first row that fits."""
    wait_s = waits.asked_wait(facts, now)
    row = next((row for row in rows if _fits(row, facts, wait_s)), None)
    if row is None:
        return None
    rule = row.rule.format(status=facts.status)
    if row.failure_class == "quota":
        return _of_quota(row, rule, facts, wait_s, now)
    return _verdict(row.failure_class, rule, facts, _wait_of(row.failure_class, facts, wait_s, now))


def _fits(row: Row, facts: Facts, wait_s: float) -> bool:
    if row.providers and facts.provider not in row.providers:
        return False
    if row.statuses and facts.status not in row.statuses:
        return False
    if row.is_flagged and not facts.is_flagged:
        return False
    if row.wait and row.wait != ("none" if not wait_s else "long" if wait_s >= waits.HOUR_S else "short"):
        return False
    if row.should_retry is not None and facts.headers.get("x-should-retry", "") != str(row.should_retry).lower():
        return False
    return (
        (not row.codes or any(re.fullmatch(row.codes, code) for code in facts.codes))
        and (not row.quotas or any(_has(row.quotas, quota) for quota in facts.quotas))
        and (not row.text or _has(row.text, facts.text))
    )


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE | re.MULTILINE) is not None


def _wait_of(failure_class: FailureClass, facts: Facts, wait_s: float, now: int) -> float:
    if failure_class not in WAITING:
        return 0.0
    if not wait_s and failure_class == "throttled":
        wait_s = waits.limit_wait(facts, now)
    return waits.clamped(wait_s)


def _of_quota(row: Row, rule: str, facts: Facts, wait_s: float, now: int) -> Verdict:
    """Return a quota's verdict: the moment that is named, else what the row trusts.

    A short wait beside a quota of a day of Google's is that of another limit; and nobody pays in within a told wait.
    """
    moment = waits.told_moment(facts, now)
    back = row.back
    if back == "told" and facts.provider == "google" and wait_s < waits.HOUR_S:
        back = "pacific"
    if back == "told":
        wait_s = wait_s or waits.limit_wait(facts, now)
    is_trusted = back == "told" or (back == "pacific" and wait_s >= waits.HOUR_S)
    wait_s = waits.clamped(wait_s, waits.QUOTA_WAIT_S_MAX) if is_trusted else 0.0
    if now and not moment and wait_s:
        moment = now + round(wait_s * waits.SECOND_US)
    elif now and not moment and back == "pacific":
        moment = waits.next_pacific_midnight(now)
    elif now and not moment and back == "month":
        moment = waits.next_month(now)
    latest = now + round(waits.QUOTA_WAIT_S_MAX * waits.SECOND_US) if now else moment
    until = min(moment, latest) if moment > now else 0
    return Verdict(failure_class="quota", wait_s=wait_s, until=until, rule=rule, provider=facts.provider)


def _verdict(failure_class: FailureClass, rule: str, facts: Facts, wait_s: float = 0.0) -> Verdict:
    return Verdict(failure_class=failure_class, wait_s=wait_s, rule=rule, provider=facts.provider)


def _unknown(facts: Facts, now: int) -> Verdict:
    wait_s = waits.clamped(waits.asked_wait(facts, now))
    return Verdict(failure_class="capacity", wait_s=wait_s, rule="unknown", provider=facts.provider, is_unknown=True)
