"""Which environment variables hold secrets: by their names, less what is plainly none. A pure function of a mapping.

Wrong in both directions costs something. A secret that is missed stands in the journal; a common word that is taken for
one is masked wherever it stands. So a name that says "secret" is believed unless its value is a path, a number, a
switch or a placeholder, and one that only says "key" must look drawn by lot as well. Called by `codec/known.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from perdure.codec.spelling import SPELLING_BYTES_MIN
from perdure.limits import SECRET_BYTES_MAX

_SURE: Final = re.compile(
    r"(^|_)(API_?KEYS?|(ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|MASTER|ACCOUNT|AUTH|SERVICE)_KEY|ACCESS_KEY_ID|\w*TOKEN|\w*SECRET|"
    r"PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|CREDENTIALS?|DSN|COOKIE)(_\d+)?$"
)
_LIKELY: Final = re.compile(r"(^|_)(KEY|KEYS|AUTH|SECRET_\w+|TOKEN_\w+|PASSWORD_\w+|API_?KEY_\w+)(_\d+)?$")
_NO_SECRET: Final = re.compile(
    r"(^|_)(PUBLIC|PUB)_KEY|_(FILE|PATH|DIR|NAME|URL|HOST|TYPE|(?<!ACCESS_KEY_)ID|TTL|LENGTH|EXPIRY)$|^(OLD)?PWD$"
)
_SECRET_URL: Final = re.compile(r"WEBHOOK|NOTIFY_URL$|(^|_)DSN$")  # of these, more than a password gives access
_DISTINCT_MIN: Final = 5  # characters
_DIGITS_MIN: Final = 16  # in a text of digits alone: shorter ones are ports, sizes and moments
_DRAWN_MIN: Final = 12  # characters of what only its looks speak for
_NUMBER: Final = re.compile(r"[-+]?[\d.,_]+([eE][-+]?\d+)?")
_PATH: Final = re.compile(r"(~?/|\.{1,2}/|[A-Za-z]:\\).*|unix:.*", re.DOTALL)
_PLACEHOLDERS: Final = frozenset(
    {
        "changeme", "change-me", "change_me", "password", "passw0rd", "password1", "password123", "placeholder",
        "undefined", "disabled", "enabled", "required", "optional", "postgres", "localhost", "mysecret", "my-secret",
        "my_secret", "your-api-key", "your_api_key", "your-api-key-here", "keychain", "secretservice", "insecure",
        "development", "production", "testtest", "anonymous",
    }
)  # fmt: skip


def secrets_in(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of each secret in `environ`; of a URL with a password, the password."""
    found = ((name, text) for name, value in sorted(environ.items()) for text in _secrets_of(name, value.strip()))
    return tuple((name, text) for name, text in found if len(text) <= SECRET_BYTES_MAX)


def _secrets_of(name: str, value: str) -> Iterator[str]:
    if "://" in value:
        yield from _password_in(value)
        if _SECRET_URL.search(name.upper()):
            yield value
    elif _says_so(name.upper(), value):
        yield value


def _says_so(name: str, value: str) -> bool:
    if _NO_SECRET.search(name) or not _could_be(value):
        return False
    return _SURE.search(name) is not None or (_LIKELY.search(name) is not None and _looks_drawn(value))


def _could_be(value: str) -> bool:
    is_plain = value.lower() in _PLACEHOLDERS or _PATH.fullmatch(value) is not None
    is_number = _NUMBER.fullmatch(value) is not None and len(value) < _DIGITS_MIN
    return len(value) >= SPELLING_BYTES_MIN and len(set(value)) >= _DISTINCT_MIN and not is_plain and not is_number


def _looks_drawn(value: str) -> bool:
    """Whether it mixes letters and digits, or cases, as words do not."""
    has_digits = re.search(r"\d", value) is not None and re.search(r"[A-Za-z]", value) is not None
    has_cases = (
        re.search(r"[a-z][A-Z]", value) is not None and re.search(r"[A-Z]{2}|[A-Z][a-z]?[A-Z]", value) is not None
    )
    return len(value) >= _DRAWN_MIN and (has_digits or has_cases)


def _password_in(url: str) -> Iterator[str]:
    try:
        password = urlsplit(url).password
    except ValueError:  # no URL after all
        return
    if password and _could_be(unquote(password)):
        yield unquote(password)
