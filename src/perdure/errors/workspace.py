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


class WorkspaceFull(WorkspaceError):
    """No room left for a file that is to come back; what is back stays, and the same call goes on where it was."""

    def __init__(self, folder: str, path: str) -> None:
        self.folder = folder
        self.path = path
        super().__init__(
            f"no room left in {folder!r} to put {path!r} back; what is back already stays: free some space and resume"
        )


class WorkspaceRefused(WorkspaceError):
    """The system refused to put a path back: no rights, a read-only disk, a failing one."""

    def __init__(self, folder: str, path: str, reason: str) -> None:
        self.folder = folder
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path!r} in {folder!r} cannot be put back: {reason}; what is back already stays: see to it and resume"
        )


class OutsideWorkspace(WorkspaceError):
    """A path that an agent has given leads out of its workspace; nothing was done."""

    def __init__(self, path: str, workspace: str) -> None:
        self.path = path
        self.workspace = workspace
        super().__init__(
            f"{path!r} leads out of the workspace {workspace!r}: nothing was done; give a path inside, relative to it"
        )


class FileRefused(WorkspaceError):
    """What an agent wants of a path cannot be done; worded for the model, which can ask for something else."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path!r} {reason}")


class ProcessesUnsupported(WorkspaceError):
    """This system does not say which processes a task has started."""

    def __init__(self, system: str) -> None:
        self.system = system
        super().__init__(
            f"processes of a task are not found on {system!r}, only on Linux: end them by hand before files go back"
        )


class ProcessesRemain(WorkspaceError):
    """Processes of a task go on that were to be stopped or ended; `pids` are those."""

    def __init__(self, task: str, pids: tuple[int, ...], reason: str) -> None:
        self.task = task
        self.pids = pids
        self.reason = reason
        named = ", ".join(map(str, pids[:10]))
        super().__init__(f"task {task!r} has processes that go on ({named}): {reason}; end them by hand and resume")
