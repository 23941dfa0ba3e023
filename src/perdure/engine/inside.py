"""What a running tool may say of its own call."""

from __future__ import annotations

from perdure.engine.session import current_tool
from perdure.model.budget import Cost


def charge(cost: Cost) -> None:
    """Say what the call has cost so far."""
    del cost


def emit(event: str, **fields: object) -> None:
    """Tell the runtime's hooks something of the call that is not recorded."""
    job = current_tool.get()
    if job is not None and job.session.world.hooks:
        job.session.tell(event, action=job.action, **fields)
