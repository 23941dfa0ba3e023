"""Names and ids: what a task, an action and a holder are called. Not how ids are drawn (that is `ids_source`)."""

from __future__ import annotations

import unicodedata

import msgspec

from perdure.errors import LimitExceeded, UsageError
from perdure.limits import KEY_BYTES_MAX, NAME_BYTES_MAX


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease: enough to tell one process from a later one with the same number."""

    boot: str  # the kernel's boot id
    pid_namespace: int  # inode of the pid namespace, 0 where there is none
    pid: int
    started: int  # start time of the process in kernel ticks
    token: str  # random, one per runtime; names the lock file in `.perdure/holders/`

    def __str__(self) -> str:
        return f"process {self.pid} (runtime {self.token[:8]})"


def check_name(name: str, what: str = "name") -> str:
    """Return `name` if it can be a task's, checkpoint's or loop's name; raise `UsageError` or `LimitExceeded`.

    Names are compared as they are given: no case folding and no Unicode normalisation, so that two different names
    never share anything. They are never used as paths.
    """
    check_text(name, what)
    if not name or name != name.strip():
        raise UsageError(f"{what} {name!r} is empty or begins or ends with a blank")
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in name):
        raise UsageError(f"{what} {name!r} holds a control character or half of a surrogate pair")
    size = len(name.encode())
    if size > NAME_BYTES_MAX:
        raise LimitExceeded(f"{what} {name[:20]!r}… in bytes", size, NAME_BYTES_MAX)
    return name


def make_name(text: str, size_max: int = NAME_BYTES_MAX) -> str:
    """Return a name made of any text: one line, no control characters, at most `size_max` bytes; "" of nothing."""
    letters = (" " if unicodedata.category(letter) == "Cc" else letter for letter in plain_text(text))
    line = " ".join("".join(letters).split())
    return line.encode()[:size_max].decode("utf-8", "ignore").strip()


def check_key(key: str) -> str:
    """Return `key` if an action can be found again by it: any text that UTF-8 can hold, up to `KEY_BYTES_MAX`."""
    check_text(key, "key")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"key {key!r} holds half of a surrogate pair; use `model.ids.plain_text(key)`") from error
    if size > KEY_BYTES_MAX:
        raise LimitExceeded(f"key {key[:20]!r}… in bytes", size, KEY_BYTES_MAX)
    return key


def check_text(text: object, what: str) -> str:
    """Return `text` if it is one. What is none could be written into a journal, and never be read from it again."""
    if not isinstance(text, str):
        raise UsageError(f"{what} {text!r} is no text")
    return text


def plain_text(text: str) -> str:
    """Return `text` with halves of surrogate pairs written as escapes, so that it can always be stored and shown."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def cut_text(text: str, size_max: int) -> str:
    """Return `text`, or its head of at most `size_max` UTF-8 bytes whose end says how long it was."""
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= size_max:
        return encoded.decode()
    mark = f"… [cut, {len(encoded)} bytes]"
    room = max(0, size_max - len(mark.encode()))
    return (encoded[:room].decode("utf-8", "ignore") + mark).encode()[: max(size_max, 0)].decode("utf-8", "ignore")
