"""`ai_settings.yaml` and `prompt_settings.yaml`: who the agent is, what it is to do, and by which rules.

Called by `gathering.py`; `perdure run` reads the files where they lie in the working directory or are named.
"""

from __future__ import annotations

from typing import Any, Final

from perdure.agent.autogpt.found import Found, merge
from perdure.agent.autogpt.reading import Source, read_yaml
from perdure.agent.autogpt.table import PERMISSION_ROWS, PROFILE_ROWS

FILES: Final = ("ai_settings.yaml", "prompt_settings.yaml")
_GOALS: Final = "ai_goals"


def read_ai_settings(path: str) -> Found:
    """Return what the file says, of either kind. Raises ConfigInvalid naming file and key; then nothing of it holds."""
    source, values = Source(path), read_yaml(path)
    fields: list[dict[str, Any]] = []
    for name, row in PROFILE_ROWS.items():
        if row.read and name in values:
            fields.append(row.read(source, name, values[name], values))
    return Found(
        place=path,
        fields=merge(*fields),
        goals=source.texts_at(values.get(_GOALS), _GOALS),
        unknown=tuple(sorted(values.keys() - PROFILE_ROWS.keys())),
    )


def read_permissions(path: str) -> Found:
    """Return what `autogpt.yaml` or `permissions.yaml` allows and denies. Raises ConfigInvalid as above."""
    source, values = Source(path), read_yaml(path)
    permissions = source.object_at(values.get("permissions"), "permissions")
    flat = {f"permissions.{name}": value for name, value in permissions.items()}
    unknown = (values.keys() - {"permissions"}) | (flat.keys() - PERMISSION_ROWS.keys())
    fields = (
        row.read(source, name, flat[name], flat) for name, row in PERMISSION_ROWS.items() if name in flat and row.read
    )
    return Found(place=path, fields=merge(*fields), unknown=tuple(sorted(unknown)))
