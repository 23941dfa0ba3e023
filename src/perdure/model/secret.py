"""A reference to a secret: stands in a value where the secret must not. The secrets layer resolves it."""

from __future__ import annotations

import msgspec


class SecretRef(msgspec.Struct, frozen=True):
    """The secret called `name`; whoever needs the text asks the runtime's secrets for it."""

    name: str
