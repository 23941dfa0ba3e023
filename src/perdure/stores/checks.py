"""What every store refuses before it looks at anything stored: calls that could be right on no store. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.errors import LimitExceeded, UsageError
from perdure.limits import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX, SNAPSHOT_PART_BYTES
from perdure.model.ids import check_name, plain_text
from perdure.model.status import TaskSummary
from perdure.ports import Append, Message

SEQ_MAX: Final = (1 << 40) - 1  # entries of one task; the next one is refused, never wrapped
_DIGEST_BYTES: Final = 32


def check_append(append: Append) -> None:
    """Raise UsageError or LimitExceeded where `append` makes no sense by itself."""
    if not 0 <= append.expected_seq < append.last_seq:
        raise UsageError(f"an append after entry {append.expected_seq} cannot end at entry {append.last_seq}")
    if append.last_seq > SEQ_MAX:
        raise LimitExceeded("entries of one task", append.last_seq, SEQ_MAX)
    if len(append.last_digest) != _DIGEST_BYTES or len(append.prev_digest) != _DIGEST_BYTES:
        raise UsageError("the digests of an append are 32 bytes each")
    if len(append.frames) > BATCH_BYTES_MAX:
        raise LimitExceeded("frames of one append in bytes", len(append.frames), BATCH_BYTES_MAX)
    if append.summary is not None:
        check_summary(append.summary)


def check_summary(summary: TaskSummary) -> None:
    """Raise UsageError or LimitExceeded where the name cannot be one, or a text cannot be stored."""
    check_name(summary.name)
    try:
        msgspec.json.encode(summary)
    except UnicodeEncodeError as error:
        raise UsageError(f"summary of task {summary.task!r} holds half of a surrogate pair: {error}") from error


def check_parts(parts: list[int]) -> None:
    """Raise LimitExceeded where a part of a snapshot, of these sizes, is too large."""
    largest = max(parts, default=0)
    if largest > SNAPSHOT_PART_BYTES:
        raise LimitExceeded("part of a snapshot in bytes", largest, SNAPSHOT_PART_BYTES)


def storable_message(message: Message) -> Message:
    """Return `message` with texts that can be stored; raise LimitExceeded where it is too long."""
    text = plain_text(message.text)
    size = len(text.encode())
    if size > MESSAGE_BYTES_MAX:
        way = "put it into a file of the workspace, and tell where it is"
        raise LimitExceeded("message in bytes", size, MESSAGE_BYTES_MAX, way)
    return msgspec.structs.replace(
        message, id=plain_text(message.id), what=plain_text(message.what), text=text, key=plain_text(message.key)
    )
