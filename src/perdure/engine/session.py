"""One lease's work on one task: what a handle, the critical section and the program loop share. Not seen by users."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from perdure import __version__
from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.codec.redact import redact
from perdure.core import resume
from perdure.core.recovery import Rules
from perdure.core.tracking import Edit, StateTree
from perdure.engine.boundary import Boundary
from perdure.engine.leases import Tenure
from perdure.engine.providers import Providers
from perdure.engine.sequencer import Sequencer
from perdure.engine.ticker import Ticker
from perdure.errors import (
    Alarmed,
    BranchLeft,
    EditOpen,
    NestedAct,
    PerdureError,
    ResumeDiverged,
    StopRequested,
    StoreBroken,
    StoreBusy,
    StoreError,
    TaskFinished,
)
from perdure.limits import LEASE_CALL_MARGIN_S, LEASE_TTL_S, PARALLEL_ACTIONS_MAX, STORE_BUSY_S, TICK_S
from perdure.model import entry as e
from perdure.model.budget import Cost
from perdure.model.ids import Holder
from perdure.model.outcome import Outcome
from perdure.model.patch import Op
from perdure.model.status import UNFINISHED
from perdure.ports import Clock, Delivering, Hook, Ids, Store
from perdure.tools import Tool

if TYPE_CHECKING:
    from perdure.engine.files import Files
    from perdure.engine.marking import Milestone


class Running(Protocol):
    """A call whose tool runs."""

    requested: tuple[str, ...]  # checkpoints that the tool asks for
    charged: Cost | None  # what it says that the call has cost; None: it has said nothing

    @property
    def session(self) -> Session: ...  # noqa: D102

    @property
    def action(self) -> str: ...  # noqa: D102

    @property
    def tool(self) -> Tool[..., Any]: ...  # noqa: D102


log: Final = logging.getLogger("perdure")
current_tool: Final[ContextVar[Running | None]] = ContextVar("perdure_current_tool", default=None)
editing: Final[ContextVar[str]] = ContextVar("perdure_editing", default="")  # id of the task whose edit body runs
_NO_COUNTS: Final[Mapping[str, int]] = {}

_CLAIMS_MIN: Final = 256  # so many claims are kept before the first look at which still matter


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime gives each of its sessions."""

    store: Store
    clock: Clock
    ids: Ids
    ticker: Ticker
    threads: ThreadPoolExecutor
    rules: Rules
    lease_ttl_s: float = LEASE_TTL_S
    hooks: tuple[Hook, ...] = ()
    has_disk: bool = True  # False: files of workspaces are neither looked at nor touched (a replay)
    providers: Providers | None = None  # None: nobody is called (a replay)


class Slots:
    """At most so many at once, first come first served. Unlike a semaphore's, the free case needs no await."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: deque[asyncio.Future[None]] = deque()  # empty while there are free ones

    def try_take(self) -> bool:
        """Take a slot if one is free; return whether it was."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Wait for a slot and take it."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given to us in the same moment
                self.give()
            raise

    def give(self) -> None:
        """Give a slot back: to the one who has waited longest, if there is one."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


class Session:
    """The state of one task in this process, from claim to release."""

    marks_milestones = True  # a replay takes them, words on health, and stops at a budget from the record instead

    def __init__(self, world: World, sequencer: Sequencer) -> None:
        self.world = world
        self.sequencer = sequencer
        self.fold = sequencer.fold
        self.task = sequencer.fold.task
        self.epoch = sequencer.epoch
        self.claimed: set[str] = set()  # actions that this call of the program has made or been handed; see `claim`
        self._claims_max = _CLAIMS_MIN
        self.loose = resume.LooseIndex()
        self._called_at = 0  # seq of the entry that says so
        self.lap = 0  # raised with each call of the program: code of an earlier one is refused
        self.running: dict[str, asyncio.Task[Any]] = {}  # actions in flight here, all claimed; who makes them
        self.busy_keys: dict[str, asyncio.Future[None]] = {}
        self.waited_for: set[str] = set()  # providers for which a call has waited here
        self.late: dict[str, asyncio.Future[Outcome | None]] = {}  # what threads that outlived their call come to
        self.slots = Slots(PARALLEL_ACTIONS_MAX)
        self.edit_closed = asyncio.Event()
        self.edit_closed.set()
        self.editor: asyncio.Task[Any] | None = None  # who has an edit open
        self.stop: StopRequested | None = None
        self.runner: asyncio.Task[Any] | None = None  # of the program, to be cancelled when it must stop now
        self.drawn: list[object] = []
        self.received: set[str] = set()  # messages on record, whose append may still be on its way
        self.heeds_alarms = False  # whether somebody is there who calls the program anew
        self.is_closed = False
        self.adapt: Callable[[], None] | None = None  # brings the state to what the program wants, after a jump
        self.is_undoing = False  # the rollback under way makes its own calls, and nobody else
        self.undoable: dict[str, Tool[..., Any]] = {}  # tools with an undo that were called here, by recorded name
        self.module = ""  # of the program: there the tools of actions on record are looked for first
        self.perform: Callable[..., Coroutine[Any, Any, tuple[str, Outcome]]] | None = None  # of undos, in a replay
        self.after_commit: Callable[[], None] | None = None  # the snapshot policy listens here
        self.milestones: tuple[Milestone, ...] = ()  # functions of the program's module
        self.untold: list[tuple[str, dict[str, Any]]] = []  # what hooks are told once it is durable: event, fields
        self.files: Files | None = None  # see `files.files_of`
        self.has_told_low = False  # that its budget is
        self.spawned = 0  # processes that tools have started
        self.robbed: Holder | None = None  # who had the lease until now, and lives
        self.left_at = 0  # by then the last holder had certainly ended; 0: not known
        self.after_crash = False  # whether the last holder was found dead, or of another boot: files may be lost
        self.tenure = Tenure(world.clock, world.lease_ttl_s)

    # --- calls of the program ---------------------------------------------------------------------------------------
    def begin_call(self, source_digest: str = "") -> None:
        """Note that the program is called: what stands on record from here on is its doing."""
        self.claimed = set(self.running)
        self.lap += 1
        attempt = self.fold.ledger.attempt + 1
        self.put(e.ProgramCalled(attempt=attempt, source_digest=source_digest, perdure=__version__))
        self._called_at = self.fold.seq

    @property
    def is_replaying(self) -> bool:
        """Whether this call of the program has neither changed the document nor had an effect yet.

        Until then it only goes the way that is on record.
        """
        return max(self.fold.document.changed, self.fold.last_effect) <= self._called_at

    async def drain(self, *, now: bool = False) -> None:
        """End what the call of the program that is over has left running, before anything follows.

        Free actions are cancelled, the others waited for (`now`: cancelled as well, so that they end in doubt).
        """
        self.lap += 1
        me = asyncio.current_task()
        while left := {action: task for action, task in self.running.items() if task is not me}:
            for action, task in left.items():
                open_ = self.fold.ledger.open.get(action)
                if now or open_ is None or open_.effect.is_free:
                    task.cancel()
            await asyncio.wait(left.values(), timeout=TICK_S)
        while self.editor is not None and self.editor is not me:
            self.editor.cancel()
            await asyncio.wait([self.editor], timeout=TICK_S)

    # --- gates ------------------------------------------------------------------------------------------------------
    def gate(self, what: str, lap: int) -> None:
        """Raise what forbids `what` at this moment to code of call number `lap` of the program."""
        self.refuse_other_lap(lap)
        if self.fold.ledger.rollback is not None and not self.is_undoing:
            raise BranchLeft(self.task, self.fold.branch)
        if self.stop is not None:
            raise self.stop
        if (alarm := self.fold.ledger.alarm) is not None and self.is_alarmed and not self.has_effect_in_flight:
            raise Alarmed(self.task, alarm.error.message)
        if self.fold.ledger.status not in UNFINISHED:
            raise TaskFinished(self.task, self.fold.ledger.status)
        if (job := current_tool.get()) is not None:
            raise NestedAct(job.tool.name)
        if editing.get() == self.task:
            raise EditOpen(what)
        if self.sequencer.dead is not None:
            raise self.sequencer.dead

    @property
    def is_alarmed(self) -> bool:
        """Whether the program is to be left for something that was noticed."""
        return self.fold.ledger.alarm is not None and self.heeds_alarms and not self.is_undoing

    @property
    def has_effect_in_flight(self) -> bool:
        """Whether the tool of an effect runs: a task group that is left now would put it in doubt."""
        found = (self.fold.ledger.open.get(action) for action in self.running)
        return any(action is not None and not action.effect.is_free for action in found)

    def refuse_other_lap(self, lap: int) -> None:
        """Raise BranchLeft for code of a call of the program that is over."""
        if self.is_closed or self.lap != lap:
            raise BranchLeft(self.task, self.fold.branch)

    def refuse_left_behind(self, what: str, *, at_end: bool = False) -> None:
        """Raise ResumeDiverged where `what` would pass effects that the program has not asked for again."""
        left = resume.left_behind(self.fold.document, self.fold.ledger, self.claimed, at_end=at_end)
        if left:
            question = (
                f"the program came to {what} without making {len(left)} call(s) whose effects are on record: "
                f"{', '.join(left[:3])}; restore the code, or keep them as facts"
            )
            action = left[0].rpartition("(")[2].rstrip(")")
            name = self.fold.ledger.name
            raise ResumeDiverged(self.task, question, f"perdure settle {shlex.quote(name)} {action} --keep", name)

    def claim(self, action: str) -> None:
        """Note that this call of the program has made `action`, or been handed it.

        Whenever many have come together, those that nobody will ask about are forgotten.
        """
        self.claimed.add(action)
        if len(self.claimed) > self._claims_max:
            self.claimed &= self.running.keys() | resume.actions_in_question(self.fold.document, self.fold.ledger)
            self._claims_max = max(_CLAIMS_MIN, 2 * len(self.claimed))

    # --- writing ----------------------------------------------------------------------------------------------------
    def put(
        self, payload: e.Payload, *, operations: tuple[Op, ...] = (), blobs: dict[bytes, bytes] | None = None
    ) -> int:
        """Sequence `payload` behind what the program has drawn since the last entry."""
        if self.drawn:
            writer = LeafWriter()
            values = msgspec.Raw(leaves.encode(self.drawn, writer))
            self.drawn = []
            self.sequencer.put(e.ValuesDrawn(values=values), blobs=writer.blobs)
        return self.sequencer.put(payload, operations=operations, blobs=blobs)

    def put_patch(
        self, operations: tuple[Op, ...], *, action: str = "", by: str = "", counts: Mapping[str, int] = _NO_COUNTS
    ) -> int:
        """Sequence a StateEdited with `operations`, which the views have made."""
        writer = LeafWriter()
        patch = msgspec.Raw(leaves.encode_patch(operations, writer))
        edited = e.StateEdited(patch=patch, action=action, by=by, counts=dict(counts))
        return self.put(edited, operations=operations, blobs=writer.blobs)

    def put_state(self, state: dict[Any, Any], from_version: int, to_version: int) -> int:
        """Sequence a StateMigrated: `state`, which from now on belongs to the tree, is all of the state."""
        writer, state = LeafWriter(), redact(state)
        raw = msgspec.Raw(leaves.encode(state, writer))
        self.fold.tree = StateTree(state)
        migrated = e.StateMigrated(from_version=from_version, to_version=to_version, state=raw)
        return self.put(migrated, blobs=writer.blobs)

    async def commit(self, consumed: tuple[str, ...] = ()) -> None:
        """Wait until all that was put is durable. A cancellation of the caller does not take it back."""
        try:
            await self.sequencer.flush(consumed)
        except PerdureError as error:  # whatever it is: the fold is ahead of the store from here on
            self.sequencer.dead = error
            raise
        if self.after_commit is not None:
            self.after_commit()

    async def renew(self) -> None:
        """Renew the lease. An answer that is not a clear yes is a loss: nothing more is written or sent under it."""
        try:
            await self.world.store.renew(self.task, self.sequencer.epoch, self.tenure.term_s())
        except StoreError as lost:
            self.sequencer.dead = self.sequencer.dead or lost
            raise

    async def assure(self, action: str, timeout_s: float) -> None:
        """See to it that the lease outlives a call that goes out now: this process may have stood still until now."""
        if self.tenure.is_sure(timeout_s):
            return
        self.tenure.extend(action, timeout_s)
        await self.renew()
        if not self.tenure.is_sure(timeout_s):
            self.sequencer.dead = StoreBusy(self.world.store.place, None, LEASE_CALL_MARGIN_S)
            raise self.sequencer.dead

    async def until_durable(self, seq: int) -> None:
        """Wait until the store has entry `seq`: this process may have written it a moment ago."""
        await self.commit()
        for _ in range(int(STORE_BUSY_S / TICK_S)):
            if (await self.world.store.head(self.task))[0] >= seq:
                return
            await asyncio.sleep(TICK_S)
        raise StoreBroken(self.world.store.place, f"entry {seq} of task {self.task!r} does not arrive")

    def begin_edit(self) -> Edit:
        """Open the state for writing; synchronous callers finish or undo it before they await."""
        return self.fold.tree.begin()

    # --- telling ----------------------------------------------------------------------------------------------------
    def tell(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - plain values for people
        """Tell the hooks. They cannot change anything, and what they raise is logged."""
        if self.world.hooks:
            fields = redact(fields)
        for hook in self.world.hooks:
            call_hook(hook, self.task, event, fields)


def call_hook(hook: Hook, task: str, event: str, fields: Mapping[str, Any]) -> None:
    """Call one hook: a broken progress line must not end a task that runs for days."""
    with Boundary() as caught:
        hook(task, event, fields)
    if caught.error is not None:
        log.error("hook_failed event=%s task=%s", event, task, exc_info=caught.error)


async def deliver_last(hooks: Sequence[Hook]) -> None:
    """Wait, a bounded time, until the hooks that deliver beside the tasks have delivered: the runtime ends."""
    await asyncio.gather(*(_deliver_last(hook) for hook in hooks if isinstance(hook, Delivering)))


async def _deliver_last(hook: Delivering) -> None:
    with Boundary() as caught:
        await hook.delivered()
    if caught.error is not None:
        log.error("hook_failed event=delivered", exc_info=caught.error)
