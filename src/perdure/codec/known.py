"""Which secrets this process knows, by name, and the masks that stand for their texts.

One registry for the whole process (`process`): what is secret to one task is secret to all. It learns from the
environment when a runtime is opened, from `Secret`, and from values that say of themselves that they are secret
(pydantic's). What is made of it is immutable and replaced as a whole, so that readers need no lock. `codec/redact.py`
walks through values; this module only knows texts. The masks never depend on the texts: a secret that has changed is
masked as before, so that equal calls still find each other, and nobody can guess it from a digest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from perdure.codec.environment import secrets_in
from perdure.codec.masks import Masks, mask_of
from perdure.codec.spelling import SPELLING_BYTES_MIN
from perdure.errors import LimitExceeded, SecretMissing, UsageError
from perdure.limits import SECRET_BYTES_MAX, SECRETS_MAX

_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.:/@ -]{0,126}[A-Za-z0-9_])?")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.:/@-]+")


class Secret:
    """A secret by its name: what is recorded is the name alone, and whoever holds it asks for the text.

    `Secret("MAIL_KEY")` is the environment variable of that name; `Secret("mail", text)` is a text that the program
    brings (from a vault, say) each time it starts. Give it to tools and programs in place of the text: a resumed run
    gets the text anew, though it has changed. Equal by name. Raises UsageError for a name or text that cannot be used.
    """

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str, text: str | bytes | None = None) -> None:
        if not is_secret_name(name):
            raise UsageError(f"secret {name!r}: name it by letters, digits and _ (inside also blanks and . : / @ -)")
        object.__setattr__(self, "name", name)
        if text is None:
            process.expect(name)
        else:
            process.know(name, text)

    @classmethod
    def recorded(cls, name: str) -> Secret:
        """Return the secret that a journal names, whatever it calls it."""
        secret = cls.__new__(cls)
        object.__setattr__(secret, "name", name)
        if is_secret_name(name):
            process.expect(name)
        return secret

    def reveal(self) -> str:
        """Return the text. Raises SecretMissing where this process does not know it."""
        return process.text_of(self.name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Secret does not change: {name!r} cannot be set")

    def __reduce__(self) -> tuple[Callable[[str], Secret], tuple[str]]:
        return Secret.recorded, (self.name,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Secret, self.name))

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __str__(self) -> str:
        return mask_of(self.name)


def is_secret_name(name: object) -> bool:
    """Whether a secret can be called so: a mask is to stand in any text, and in JSON, as it is."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class Registry:
    """The secrets of one process. Only grows: a text that was secret once stays masked."""

    def __init__(self) -> None:
        self.masks: Masks | None = None  # None: nothing is known, and nothing is to be looked for
        self.learned = 0  # raised with each new text
        self._told: dict[str, bytes] = {}  # the newest text of each name that did not come from the environment
        self._all: dict[tuple[str, bytes], None] = {}
        self._environ: Mapping[str, str] = {}
        self._expected: set[str] = set()  # names that are secret though they do not say so

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all that is known."""
        return tuple(sorted({name for name, _ in self._all}))

    def know(self, name: str, text: str | bytes) -> None:
        """Mask `text` by `name` from now on. Raises UsageError where it is too short to be masked, LimitExceeded."""
        raw = _checked(name, text)
        self._told[name] = raw
        self._take([(name, raw)])

    def expect(self, name: str) -> None:
        """Take the environment variable `name` for a secret, now or when the environment is read."""
        if name in self._expected:
            return
        self._expected.add(name)
        self._take(self._expected_in(self._environ))

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Learn the secrets of `environ`: by what the names of variables say, and those that are expected."""
        self._environ = environ
        self._take([*((name, _stripped(text)) for name, text in secrets_in(environ)), *self._expected_in(environ)])

    def text_of(self, name: str) -> str:
        """Return the newest text of `name`. Raises SecretMissing; UsageError where it is too short to be masked."""
        if name in self._told:
            return self._told[name].decode("utf-8", "surrogateescape")
        text = self._environ.get(name, "").strip()
        if not text:
            raise SecretMissing(name)
        self._take([(name, _checked(name, text))])
        return text

    def _expected_in(self, environ: Mapping[str, str]) -> list[tuple[str, bytes]]:
        found = [(name, _stripped(environ[name])) for name in sorted(self._expected & environ.keys())]
        return [(name, raw) for name, raw in found if SPELLING_BYTES_MIN <= len(raw) <= SECRET_BYTES_MAX]

    def _take(self, named: Iterable[tuple[str, bytes]]) -> None:
        fresh = [pair for pair in named if pair not in self._all]
        if not fresh:
            return
        if len(self._all) + len(fresh) > SECRETS_MAX:
            raise LimitExceeded("known secrets", len(self._all) + len(fresh), SECRETS_MAX)
        self._all.update(dict.fromkeys(fresh))
        known: tuple[tuple[str, bytes], ...] = ()
        while len(known) != len(self._all):  # another thread may have learned something since we looked
            known = tuple(self._all)
            self.masks = Masks(known)
        self.learned += 1


process: Final = Registry()


def _checked(name: str, text: str | bytes) -> bytes:
    raw = _stripped(text)
    if len(raw) < SPELLING_BYTES_MIN:
        raise UsageError(
            f"secret {name!r} is shorter than {SPELLING_BYTES_MIN} bytes: so short a text stands in others by chance "
            f"and cannot be masked; choose a longer one"
        )
    if len(raw) > SECRET_BYTES_MAX:
        raise LimitExceeded(f"secret {name!r} in bytes", len(raw), SECRET_BYTES_MAX)
    return raw


def _stripped(text: str | bytes) -> bytes:
    return (text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)).strip()


def sealed_name(path: tuple[object, ...]) -> str:
    """Return how a secret is called that was met at `path` of a value: by the last name on the way to it."""
    said = next((step for step in reversed(path) if isinstance(step, str)), "")
    return _NOT_IN_NAMES.sub("_", said).strip("_.:/@-")[:64] or "value"
