"""A loop without a store, for the tests of this folder: makes the policy's moves with a plain dict as memory.

The real loop is `perdure.agent.loop`; this one can be stopped after any move, and calls the tools' functions directly.
"""

from pathlib import Path

from perdure.agent.offline.policy import OfflinePolicy
from perdure.agent.offline.reading import UnreadableDocument
from perdure.model.failure import ErrorRecord
from perdure.model.move import Act, AdoptPlan, Ask, Checkpoint, Finish, PolicyView
from perdure.model.outcome import Failed, Succeeded

MOVES_MAX = 1_000


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """Write `files` (path → text) below `folder`."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="")
    return folder


def drive(goal, workspace, memory=None, moves_max=None):
    """Make moves until the policy finishes or asks, or `moves_max` are made. Returns (memory, moves)."""
    memory = {} if memory is None else memory
    moves, last = [], None
    while len(moves) != moves_max:
        assert len(moves) < MOVES_MAX, "the policy goes round in circles"
        view = PolicyView(goal=goal, workspace=str(workspace), memory=memory, last=last)
        move = OfflinePolicy().next(view)
        moves.append(move)
        match move:
            case AdoptPlan():
                memory["plan"] = list(move.steps)
            case Checkpoint():
                memory.setdefault("marks", []).append(move.name)
            case Act():
                last = act(memory, move)
            case Ask() | Finish():
                break
    return memory, moves


def act(memory, move):
    """Call the tool, store what comes of it as the real loop does."""
    try:
        result = move.tool(**move.arguments)
        outcome = Succeeded(result)
    except (UnreadableDocument, OSError) as error:
        result = {"failed": {"type": f"somewhere.{type(error).__name__}", "message": str(error)}}
        outcome = Failed(ErrorRecord(type=result["failed"]["type"], message=str(error)))
    place = memory
    for step in move.into[:-1]:
        place = place.setdefault(step, {})
    place[move.into[-1]] = result
    return outcome


def digest(folder: Path, workspace: Path) -> tuple[str, dict]:
    """Digest `folder`; return the page and the memory at the end."""
    memory, _ = drive(f'Digest the documents under "{folder}"', workspace)
    return (workspace / "digest.md").read_text(encoding="utf-8"), memory
