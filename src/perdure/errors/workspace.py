"""What a task's workspace can be refused for. The tree stands in the package."""

from __future__ import annotations

from perdure.errors.base import PerdureError


class WorkspaceError(PerdureError):
    """The folder of a task's files cannot be worked with."""


class WorkspaceBusy(WorkspaceError):
    """Another task works in this folder, in one inside it, or in one around it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(
            f"another task works in {folder!r}, or in a folder inside or around it: "
            "wait for it, or give this task a workspace of its own"
        )


class WorkspaceInvalid(WorkspaceError):
    """This folder cannot be the workspace, or is no longer the one that it was."""

    def __init__(self, folder: str, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(f"{folder!r} cannot be the workspace: {reason}")
