"""A rollback with five undos and forty files, killed where it is told to be. Run as a program by `test_rollback.py`.

    python -m tests.crash.rolling FOLDER PORT     one case a line on stdin: ["during_undo:3", "any:7"], one life a kill

Every life is a fork of this process: armed as the case says, the last one not at all. What came of a case is printed
as one line of JSON. Between the task's actions a bystander, who is no tool, makes and changes files.
"""

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure.engine.loading import entries
from perdure.model import entry as e
from perdure.views.verifying import verify
from tests.crash import forked, office

AT: dict[str, Any] = {"port": 0, "desk": ""}  # where the office is, and the case's desk there
BOOKED = ("keyed a", "keyed b", "probed a", "probed b", "free")
LIVES_MAX = 6


def asked(what: str, name: str = "", key: str = "") -> dict[str, Any]:
    """Ask the office for something, at this case's desk."""
    return office.ask(AT["port"], AT["desk"], what, name, key)


# --- the outside ----------------------------------------------------------------------------------------------------
@perdure.tool(effect="idempotent", undo="nothing", name="cancel_keyed")
def cancel_keyed(name: str, key: perdure.EffectKey) -> None:
    """Take a booking back; the office drops a second one under the same key."""
    asked("cancel", name, key)


def is_cancelled(name: str) -> bool:
    """Ask whether nothing is booked any more."""
    return asked("look")["booked"].get(name) == 0


@perdure.tool(effect="verifiable", undo="nothing", probe=is_cancelled, timeout_s=0.2)
def cancel_probed(name: str) -> None:
    """Take a booking back: done again, it would be one too many."""
    asked("cancel", name)


@perdure.tool(effect="pure")
def set_free(name: str) -> None:
    """Take a booking back in a way that may be done again."""
    asked("cancel", name, f"always this key for {name}")


def booking(undo: Any, kind: str) -> Any:
    """Return a tool that books and is taken back by `undo`."""

    def book(name: str, key: perdure.EffectKey) -> str:
        asked("book", name, key)
        return name

    return perdure.tool(retry="keyed", undo=undo, name=f"book_{kind}")(book)


TOOLS = {"keyed": booking(cancel_keyed, "keyed"), "probed": booking(cancel_probed, "probed"),
         "free": booking(set_free, "free")}  # fmt: skip


# --- the files ------------------------------------------------------------------------------------------------------
@perdure.tool(effect="workspace")
def begin(folder: str) -> None:
    """Make twenty-four files in folders."""
    for number in range(24):
        path = Path(folder, f"part{number % 3}", f"{number}.txt")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"first {number}\n")


@perdure.tool(effect="workspace")
def change(folder: str) -> None:
    """Change twelve of them, remove six, make six links, fourteen new files, a folder, a file where a folder was."""
    for number in range(12):
        path = Path(folder, f"part{number % 3}", f"{number}.txt")
        path.write_text(f"second {number}\n")
        path.chmod(0o600 if number % 2 else 0o755)
    for number in range(12, 18):
        Path(folder, f"part{number % 3}", f"{number}.txt").unlink()
        Path(folder, f"link{number}").symlink_to(f"part{number % 3}")
    for number in range(14):
        path = Path(folder, "new", str(number % 2), f"{number}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("new\n")


def bystand(folder: str) -> None:
    """Somebody else makes three files, two of them among the task's, and changes one of the task's."""
    for name in ("theirs", "new/theirs", "part1/theirs"):
        Path(folder, name).write_text("theirs\n")
    Path(folder, "part0/0.txt").write_text("changed by them\n")


@perdure.program(state={"note": "first"})
async def journey(task: perdure.Task) -> str:
    """Work, go on working, go back once."""
    await task.using(key="begin").act(begin, task.workspace)
    await task.checkpoint("base")
    if task._session.fold.ledger.rollbacks:
        return "went back"
    async with task.edit() as state:
        state["note"] = "second"
    for name in BOOKED:
        await task.using(key=name).act(TOOLS[name.split()[0]], name)
    await task.using(key="change").act(change, task.workspace)
    bystand(task.workspace)
    return await task.rollback("base")


# --- lives ----------------------------------------------------------------------------------------------------------
def live(folder: Path, spec: str) -> int:
    """One life of the task in a fork, armed with `spec`; return the signal that ended it, 0 where none did."""
    return forked.live(_run, folder, spec)


async def _run(folder: Path) -> None:
    async with perdure.open(folder / "s" / "p.db", log_dir="") as runtime:
        await runtime.run(journey, "t", workspace=str(folder / "work"))


async def _look(folder: Path) -> dict[str, Any]:
    async with perdure.open(folder / "s" / "p.db", log_dir="") as runtime:
        summary = await runtime.store.find("t")
        journal = [entry.payload async for entry in entries(runtime.store, summary.task)]
        verdict = await verify(runtime.store, "t")
        return {
            "status": summary.status,
            "rollbacks": sum(isinstance(one, e.RolledBackEntry) for one in journal),
            "begun": sum(isinstance(one, e.RollbackBegan) for one in journal),
            "kept": [sorted(one.kept) for one in journal if isinstance(one, e.WorkspaceRestored)][-1:],
            "findings": [str(finding) for finding in verdict.findings],
        }


def tree_of(folder: Path) -> dict[str, Any]:
    """What stands where."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        is_file = stat.S_ISREG(mode)
        content = os.readlink(path) if stat.S_ISLNK(mode) else path.read_text() if is_file else ""
        found[str(path.relative_to(folder))] = [stat.S_IFMT(mode), 0 if stat.S_ISLNK(mode) else mode & 0o7777, content]
    return found


def play(folder: Path, case: list[str]) -> dict[str, Any]:
    """Play one case: a life for each kill, then lives until it ends."""
    folder.mkdir(parents=True)
    (folder / "work").mkdir()
    AT["desk"] = str(folder)
    kills = [live(folder, spec) for spec in case]
    first = json.loads((folder / "counts.json").read_text()) if (folder / "counts.json").exists() else {}
    for _ in range(LIVES_MAX):
        if live(folder, "") == 0:
            break
    desk = asked("look")
    return {
        "case": case, "kills": kills, "counts": first, "tree": tree_of(folder / "work"), "booked": desk["booked"],
        "calls": desk["calls"], **asyncio.run(_look(folder)),
    }  # fmt: skip


def main() -> None:
    """Play the cases that come on stdin."""
    root, AT["port"] = Path(sys.argv[1]), int(sys.argv[2])
    for number, line in enumerate(sys.stdin):
        print(json.dumps(play(root / f"case{number}", json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
