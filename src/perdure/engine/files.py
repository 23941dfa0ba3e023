"""The files of a task's workspace: taken in around its actions, put back before a second try and by a rollback.

    look (others' changes) ─ intent ─▶ tool runs ─▶ look (its changes) + outcome, one append

A path belongs to the task if it changed between the two looks around one of its actions; what changed at any other time
is somebody else's and is never removed or overwritten. The journal holds every version of a file as a blob, so the
store and not the folder is the durable copy. `workspace/` does the work on disk; here is when, and what is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from perdure.codec.redact import cut_redacted
from perdure.config import load_config
from perdure.core.fold import Fold
from perdure.core.manifest import Manifest
from perdure.core.milestones import is_draft
from perdure.core.way_back import Step, WayBack, way_back
from perdure.engine import crashpoints
from perdure.engine.loading import entries, load_fold
from perdure.engine.session import Session
from perdure.engine.threads import in_thread, wait_for
from perdure.errors import Damaged, WorkspaceInvalid
from perdure.limits import ERROR_MESSAGE_BYTES_MAX, PROCESSES_GRACE_S
from perdure.model import entry as e
from perdure.model.files import FileChange, Uncovered
from perdure.model.ids import plain_text
from perdure.model.ledger import OpenAction
from perdure.ports import Store
from perdure.tools import Tool
from perdure.tools.paths import ANYWHERE, overlap
from perdure.workspace import processes
from perdure.workspace.capture import Batch, Capturer
from perdure.workspace.folder import Folder
from perdure.workspace.ignoring import Ignoring
from perdure.workspace.losses import changed_since, find_losses, not_as_left
from perdure.workspace.restoring import Restored, apply, blobs_of

_PATHS_NAMED_MAX: Final = 10
_RESTORE: Final = "restore"  # the one move of a rollback
_CRASH: Final = "crash"  # whose doing it is that a file was found lost


class Job(Protocol):
    """One call that may write files: `outcomes.Work`."""

    tool: Tool[..., Any]
    action: str
    paths: tuple[str, ...]


class Files:
    """What one session knows of its workspace. `ports.Participant` of a rollback. Nothing is opened before its time."""

    name = "files"

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = asyncio.Lock()
        self._capturer: Capturer | None = None
        self._then: Fold | None = None  # what a rollback under way goes back to: asked for at each move
        self._at_work: dict[str, tuple[str, ...]] = {}  # actions in flight, and where they may write
        self._drafts: dict[str, tuple[str, ...]] = {}  # by action: files of its that are a draft
        self._is_shared = False  # nothing but looks, and the process that had the task until now may have the folder
        self._alone_since = -1  # so many processes had been started when none was found alive

    def close(self) -> None:
        """Let go of the folder."""
        if self._capturer is not None:
            self._capturer.folder.close()
            self._capturer = None

    # --- around an action -------------------------------------------------------------------------------------------
    async def before(self, job: Job) -> None:
        """Take in what others have changed where this call may write; its own changes begin now.

        Raises WorkspaceInvalid, WorkspaceBusy, ConfigInvalid: nothing is done then.
        """
        await self._mend_first()
        async with self._lock:
            await self._look(job.paths, self._owner(job.paths))
            self._at_work[job.action] = job.paths

    @property
    def is_watching(self) -> bool:
        """Whether the whole workspace has been looked at, and nobody writes there now."""
        return self._capturer is not None and self._session.fold.document.is_all_captured and not self._at_work

    @contextlib.asynccontextmanager
    async def ahead(self) -> AsyncGenerator[None]:
        """While a model thinks, take in what others have changed: the next call that writes finds that done.

        What goes wrong here the next look will say.
        """
        looking = asyncio.ensure_future(self._look_ahead())
        try:
            yield
        finally:
            cancelled = await wait_for(looking)
            looking.exception()
            if cancelled is not None:
                raise cancelled

    async def _look_ahead(self) -> None:
        async with self._lock:
            if self.is_watching:
                await self._look(ANYWHERE, self._owner(ANYWHERE))

    def forget(self, action: str) -> None:
        """The call is over, or was never made."""
        self._at_work.pop(action, None)
        self._drafts.pop(action, None)

    def drafts_of(self, action: str) -> tuple[str, ...]:
        """Return the paths at which looks have found a draft (`core.milestones.is_draft`) that `action` has written."""
        return self._drafts.get(action, ())

    async def after(self, job: Job) -> asyncio.CancelledError | None:
        """Take in what the call has changed: its outcome is put right behind it, into the same append.

        The outcome must be written all the same, so what cannot be taken in is noted, and a cancellation that came
        meanwhile is returned.
        """
        looking = asyncio.ensure_future(self.take_in(job.paths, job.action))
        cancelled = await wait_for(looking)
        error = looking.exception()
        if error is not None:
            text = f"the files of {job.tool.name} ({job.action}) were not taken in: {error}"
            self._session.put(e.NoteWritten(text=cut_redacted(text, ERROR_MESSAGE_BYTES_MAX)))
            self._session.tell("note", text=text)
        return cancelled

    async def put_back(self, action: OpenAction) -> None:
        """Before a second try: what the first one has changed goes back to what was there before it.

        All of it is taken in first and can be fetched from the journal.
        """
        await self._mend_first()
        async with self._lock:
            await self._end_processes(action.action)
            await self._look(action.paths, action.action, left_at=self._left_at(action.action))
            await self._restore((await self._way_back(action.intent, only=action.action)).steps)
            await self._look(action.paths, action.action)

    async def at_checkpoint(self) -> None:
        """Take in what others have changed, so that the checkpoint holds the files as they are."""
        document = self._session.fold.document
        if not (document.is_all_captured or len(self._session.fold.files)):
            return  # no action of this task has written files so far
        await self._mend_first()
        async with self._lock:
            paths = self._known_paths()
            await self._look(paths, self._owner(paths))

    async def at_takeover(self) -> None:
        """Take in the whole workspace, for a person who takes the task over or hands it back.

        When it is taken over, what calls that were left open have changed is their doing; from then on all is the
        person's, and nothing of it is ever removed or overwritten (`_look`).
        """
        self._is_shared = True
        if self._session.robbed is None:
            await self._mend_first()
        async with self._lock:
            is_taken = self._session.fold.ledger.takeover is not None
            for action in () if is_taken else _left_open(self._session):
                await self._look(action.paths, action.action)
            await self._look(ANYWHERE, "")

    async def mend(self, *, anew: bool = False) -> None:
        """Put back what the disk has lost of what the task had written; with `anew` all of it, if the folder is gone.

        Lost is what is older on disk than its journal's look at it. What somebody else has changed since is not.
        """
        files = self._session.fold.files
        is_there = await asyncio.to_thread(os.path.isdir, self._session.fold.ledger.workspace)
        if not files.written or not (self._session.after_crash if is_there else anew):
            return
        async with self._lock:
            capturer, steps = self._open(anew=anew), list[Step]()
            pieces = capturer.look(files.copy(), tuple(sorted(files.written)))
            while (piece := await in_thread(lambda: next(pieces, None))) is not None:
                if is_there:
                    lost = await in_thread(partial(find_losses, capturer.folder.fd, piece.changes, files))
                else:
                    lost = tuple(Step(change.path, change.node, files.get(change.path)) for change in piece.changes)
                await self._keep_remains(lost, piece.blobs)
                steps += lost
            done = (await self._restore(tuple(steps))).done if steps else ()
        self._session.after_crash = False
        if done:
            named = ", ".join(done[:_PATHS_NAMED_MAX])
            text = f"{len(done)} path(s) of the workspace were lost and are back from the store: {named}"
            self._session.put(e.NoteWritten(text=cut_redacted(text, ERROR_MESSAGE_BYTES_MAX)))
            self._session.tell("note", text=text)

    async def _mend_first(self) -> None:
        """A look must not take for somebody's doing what a crash has lost."""
        if self._session.after_crash:
            await self.mend()

    async def _keep_remains(self, steps: Sequence[Step], blobs: dict[bytes, bytes]) -> None:
        """Record what stands at the paths of `steps` before it is written over, should the times be wrong about it.

        The second entry takes the first one back: whoever comes after a kill in between finds the same to be mended.
        """
        there = [step for step in steps if step.expected is not None]
        if not there:
            return
        paths = tuple(step.path for step in there)
        found = tuple(FileChange(step.path, step.expected) for step in there)
        back = tuple(FileChange(step.path, step.target) for step in there)
        session = self._session
        session.put(e.FilesCaptured(changes=found, paths=paths, action=_CRASH), blobs=blobs)
        digest = session.fold.files.copy()
        digest.apply(back)
        session.put(e.FilesCaptured(changes=back, paths=paths, action=_CRASH, digest=digest.digest()))
        await session.commit()

    # --- in a rollback ----------------------------------------------------------------------------------------------
    async def prepare(self, to_seq: int) -> tuple[str, ...]:
        """See `ports.Participant`. Takes in what calls that were killed have changed, then what others have."""
        await self.mend()
        async with self._lock:
            for action in _left_open(self._session):
                await self._look(action.paths, action.action, left_at=self._left_at(action.action))
            way = await self._way_back(to_seq)
            changed = tuple(sorted({*(step.path for step in way.steps), *way.foreign}))
            if not changed:
                return ()
            await self._look(changed, "")
            way = await self._way_back(to_seq)
        return (_RESTORE,) if way.steps or way.foreign else ()

    async def apply(self, move: str) -> None:
        """See `ports.Participant`."""
        del move  # there is only one
        session = self._session
        pending = session.fold.ledger.rollback
        if pending is None:
            return
        await self._mend_first()
        async with self._lock:
            await self._end_processes()
            way = await self._way_back(pending.to_seq)
            restored = await self._restore(way.steps)
        kept = tuple(sorted({*restored.kept, *way.foreign}))
        session.put(e.WorkspaceRestored(restored=len(restored.done), kept=kept))
        session.tell("workspace_restored", restored=len(restored.done), kept=list(kept))

    async def done(self, to_seq: int) -> None:
        """See `ports.Participant`. What others have changed since the checkpoint is found by the next look."""
        del to_seq
        self._then = None

    async def take_in(self, paths: Sequence[str], owner: str) -> None:
        """Record what is different at `paths` as the doing of action `owner`, "" = of somebody else."""
        await self._mend_first()
        async with self._lock:
            await self._look(paths, owner)

    # --- looking ----------------------------------------------------------------------------------------------------
    def _owner(self, paths: Iterable[str]) -> str:
        """Return the action whose doing a look at `paths` finds now; "" where it is none of the task's.

        That is one in flight, or one that an earlier run has left open.
        """
        where = tuple(paths)
        flying = [action for action, theirs in self._at_work.items() if overlap(theirs, where)]
        open_ = self._session.fold.ledger.open.values()
        left = [a.action for a in open_ if a.action not in self._session.running and overlap(a.paths, where)]
        return (flying or left or [""])[-1]

    def _left_at(self, action: str) -> int:
        """Return from when on a change is none of `action`'s, since its process had ended; 0 where it may live."""
        session, ledger = self._session, self._session.fold.ledger
        open_ = ledger.open.get(action)
        if open_ is None or open_.epoch >= session.sequencer.epoch:
            return 0
        return ledger.handed_at if ledger.handed_at > open_.intended_at else session.left_at

    async def _look(self, paths: Sequence[str], owner: str, *, left_at: int | None = None) -> None:
        """Put what is different from the manifest at `paths`; all but the last piece is durable when this returns.

        The task's processes are held still meanwhile. Where one lives, what nobody else owns up to is its doing. With
        `left_at`, what has changed since then is somebody else's; not given, it is that of an earlier run's call.
        While a person has the task, everything is theirs but what a call made here (an undo) has changed.
        """
        is_theirs = self._session.fold.ledger.takeover is not None and owner not in self._session.running
        owner, left_at = ("", 0) if is_theirs else (owner, left_at)
        if left_at is None:
            left_at = 0 if owner in self._session.running else self._left_at(owner)
        capturer, living = self._open(), await self._living()
        with contextlib.ExitStack() as held:
            if living:
                await in_thread(lambda: held.enter_context(processes.frozen(self._session.task)))
            if left_at and owner and not living:
                await self._take_theirs(capturer, paths, left_at)
            of_living = "" if is_theirs else next((one.action for one in living), "")
            await self._take_pieces(capturer, paths, owner or of_living)

    async def _take_theirs(self, capturer: Capturer, paths: Sequence[str], left_at: int) -> None:
        """Put what others have changed at `paths` since `left_at`."""
        session, seen = self._session, self._session.fold.files.copy()
        behind_us = max(0, capturer.folder.now_ns() // 1_000 - session.world.clock.now())  # our clock
        pieces = capturer.look(seen, None if "" in paths else tuple(paths))
        while (piece := await in_thread(lambda: next(pieces, None))) is not None:
            seen.apply(piece.changes)
            root_fd = capturer.folder.fd
            theirs = await in_thread(partial(changed_since, root_fd, piece.changes, left_at + behind_us))
            if theirs:
                session.put(e.FilesCaptured(changes=theirs, paths=tuple(paths)), blobs=piece.blobs)
                await session.commit()

    async def _take_pieces(self, capturer: Capturer, paths: Sequence[str], owner: str) -> None:
        session, document, files = self._session, self._session.fold.document, self._session.fold.files
        seen = files.copy()
        pieces = capturer.look(seen, None if "" in paths else tuple(paths))
        piece = Batch((), {})
        while (following := await in_thread(lambda: next(pieces, None))) is not None:
            if piece.changes:
                session.put(e.FilesCaptured(changes=piece.changes, paths=tuple(paths), action=owner), blobs=piece.blobs)
                await session.commit()
            piece = following
            seen.apply(piece.changes)
            if owner and piece.changes:
                self._drafts[owner] = (*self.drafts_of(owner), *await in_thread(partial(_drafts_in, piece)))
        found = tuple(Uncovered(path, why) for path, why in sorted(capturer.uncovered.items()))
        uncovered = None if found == document.uncovered else found
        is_first = "" in paths and not document.is_all_captured
        if piece.changes or is_first or uncovered is not None:
            last = e.FilesCaptured(
                changes=piece.changes, paths=tuple(paths), action=owner, digest=seen.digest(), uncovered=uncovered
            )
            session.put(last, blobs=piece.blobs)
            files.take_digests(seen)  # they stay known but for what changes

    async def _living(self) -> tuple[processes.Process, ...]:
        """Return the processes of the task that live; /proc is read only where there may be some."""
        session, started = self._session, self._session.spawned
        if self._alone_since == started or not processes.is_supported():
            return ()
        found = await in_thread(lambda: processes.find(session.task))
        if not found:
            self._alone_since = started
        return found

    async def _end_processes(self, action: str = "") -> None:
        """End the processes that the task (this action) has started, and take in what they have written until then.

        Raises ProcessesRemain.
        """
        if not await self._living():
            return
        session = self._session
        ended = await in_thread(lambda: processes.end(session.task, PROCESSES_GRACE_S, session.world.clock, action))
        if ended:
            text = f"ended before files go back: {', '.join(one.command for one in ended[:_PATHS_NAMED_MAX])}"
            session.put(e.NoteWritten(text=cut_redacted(plain_text(text), ERROR_MESSAGE_BYTES_MAX)))
            session.tell("note", text=text)
            await self._look(self._known_paths(), ended[-1].action)

    def _known_paths(self) -> tuple[str, ...]:
        """Return where the task's files are: everywhere, once an action could write anywhere."""
        fold = self._session.fold
        return ANYWHERE if fold.document.is_all_captured else tuple(path for path, _ in fold.files.items())

    def _open(self, *, anew: bool = False) -> Capturer:
        """Open the folder; one that is gone with files of the task in it is not made again unless `anew`."""
        if self._capturer is None:
            config, session = load_config(), self._session
            place = session.fold.ledger.workspace
            if session.fold.files.written and not (anew or os.path.isdir(place)):
                remedy = f"perdure resume {shlex.quote(session.fold.ledger.name)} --accept workspace"
                raise WorkspaceInvalid(place, f"it is not there; put it back, or have its files made anew: {remedy}")
            ignoring = Ignoring.from_text(config.text("workspace_ignore"))
            largest = config.size_bytes("workspace_file_max")
            folder = Folder.open(place, store_place=session.world.store.place, is_shared=self._is_shared)
            self._capturer = Capturer(folder, ignoring, file_bytes_max=largest)
        return self._capturer

    # --- putting back -----------------------------------------------------------------------------------------------
    async def _way_back(self, to_seq: int, *, only: str = "") -> WayBack:
        """Return what goes back to how it was at the end of entry `to_seq`; with `only`, of that action's changes."""
        session = self._session
        await session.commit()
        then = (await self.fold_at(to_seq)).files
        return await find_way_back(session.world.store, session.task, to_seq, only=only, then=then)

    async def fold_at(self, seq: int) -> Fold:
        """Return the fold of entry `seq`; what a rollback goes back to is read once."""
        if self._then is None or self._then.seq != seq:
            self._then = await load_fold(self._session.world.store, self._session.task, seq)
        return self._then

    async def _restore(self, steps: tuple[Step, ...]) -> Restored:
        """Do the steps. Raises WorkspaceFull, WorkspaceRefused; called again, it goes on."""
        session, root = self._session, self._open().folder.fd
        blobs = _Bytes(session.world.store, blobs_of(steps))
        try:
            return await in_thread(lambda: apply(root, steps, blobs, reach=_reach))
        except KeyError as error:
            raise Damaged(session.task, session.fold.seq, f"a file's bytes are not in the store: {error}") from error


def files_of(session: Session) -> Files | None:
    """Return the files of a session's task; None where it has no workspace, or none is to be touched (a replay)."""
    if session.files is None and session.fold.ledger.workspace and session.world.has_disk:
        session.files = Files(session)
    return session.files


def _left_open(session: Session) -> tuple[OpenAction, ...]:
    """Return the calls that an earlier run has left open and that may have written files, oldest first."""
    open_ = session.fold.ledger.open.values()
    return tuple(one for one in open_ if one.paths and one.action not in session.running)


async def find_way_back(
    store: Store, task: str, to_seq: int, *, only: str = "", then: Manifest | None = None
) -> WayBack:
    """Return which files of a task go back to what, for the end of entry `to_seq`, as its journal tells; no disk.

    `then`: the manifest at that entry, where it is known.
    """
    captures: list[tuple[int, e.FilesCaptured]] = []
    async for entry in entries(store, task, to_seq):
        match entry.payload:
            case e.FilesCaptured() as captured if only and captured.action != only:
                captures.append((entry.header.seq, msgspec.structs.replace(captured, action="")))
            case e.FilesCaptured() as captured:
                captures.append((entry.header.seq, captured))
            case e.RolledBackEntry(to_seq=back):  # what lies between is on a branch that was left
                captures = [(seq, captured) for seq, captured in captures if seq <= back]
            case _:
                pass
    then = (await load_fold(store, task, to_seq)).files if then is None else then
    return way_back(then, [captured for _, captured in captures])


async def foresee_files(store: Store, fold: Fold, to_seq: int) -> tuple[str, ...]:
    """Return a line for each file that a rollback to `to_seq` would touch, or leave because others have changed it."""
    way, folder = await find_way_back(store, fold.task, to_seq), fold.ledger.workspace
    theirs = set(await asyncio.to_thread(not_as_left, folder, fold.files, [step.path for step in way.steps]))
    lines = [f"{_word(step)} {step.path}" for step in way.steps if step.path not in theirs]
    kept = sorted({*way.foreign, *theirs})
    return (*lines, *(f"keep {path} (changed by somebody else since)" for path in kept))


def _word(step: Step) -> str:
    if step.target is None:
        return "remove"
    return "bring back" if step.expected is None else "put back"


async def mend_files(session: Session) -> None:
    """See to it that the task's files are there before it goes on. Raises WorkspaceInvalid, WorkspaceBusy."""
    files = files_of(session)
    if files is not None:
        await files.mend(anew=True)


class _Bytes(Mapping[bytes, bytes]):
    """The bytes of files, fetched from the store one by one when a thread asks for them."""

    def __init__(self, store: Store, digests: frozenset[bytes]) -> None:
        self._store = store
        self._digests = digests
        self._loop = asyncio.get_running_loop()

    def __getitem__(self, digest: bytes) -> bytes:
        return asyncio.run_coroutine_threadsafe(self._store.blobs([digest]), self._loop).result()[digest]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)


def _drafts_in(piece: Batch) -> tuple[str, ...]:
    """Return the paths of the piece at which a draft stands."""
    files = ((change.path, change.node.digest) for change in piece.changes if change.node is not None)
    return tuple(path for path, digest in files if digest and is_draft(piece.blobs.get(digest, b"")))


def _reach() -> None:
    """A place at which a test may kill the process: before and after each path."""
    crashpoints.reach("during_rollback")
