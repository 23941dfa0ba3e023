"""One seed: a task, its lives and what disturbs them, until it has ended. Judges nothing (`judging.py`).

A life is a process: a runtime on a handle of its own, killed between any two steps or at a crash point, fenced by a
rival, cut off by its store, stopped by a person. Between lives a person looks into the world and settles what nobody
else can know. The last lives are left alone, so that whatever happened before must come to an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

import perdure
from perdure.codec.entries import first_prev, unpack_all
from perdure.core import snapshots
from perdure.core.fold import Fold
from perdure.core.recovery import Rules
from perdure.core.resume import rule_for
from perdure.core.retrying import Patience
from perdure.engine import crashpoints, leases
from perdure.engine.loading import load_fold
from perdure.errors import NotTakenOver, PerdureError, RollbackUnderWay
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import OpenAction
from perdure.model.outcome import Failed, Succeeded
from perdure.ports import Message
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing.clock import FakeClock
from perdure.testing.faults import Fault, FaultyStore, When
from perdure.testing.points import Killed, crash_points
from perdure.testing.simulation.chance import Chance, ChanceIds
from perdure.testing.simulation.loop import Process, VirtualLoop
from perdure.testing.simulation.outside import Outside, current_action
from perdure.testing.simulation.plan import ACTIONS_MIN, draw_neighbour, draw_program
from perdure.testing.simulation.store import Books, SeededStore

TASK: Final = "job"
NEIGHBOUR: Final = "next door"
LIVES_MAX: Final = 40
RIVALS: Final = 1000  # numbers of their lives begin here
_RECOVERY: Final = Rules(patience=Patience(outage_s=60.0))  # so that a person is asked in the end
_PATIENCE_S: Final = 3.0  # by then every request has arrived
_AUDITS_MAX: Final = 2
_UNRECORDED_MAX: Final = 10  # free calls whose intents died with their process
_RARE: Final = frozenset({"after_checkpoint", "during_rollback", "during_recovery"})
_ENDED: Final = ("succeeded", "failed", "cancelled")


Rivalry = Literal["", "robs", "meets", "takes"]  # who takes: a person, from a process that lives


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """What befalls one life."""

    step: int = 0  # killed before this step of its loop
    point: str = ""  # killed at this crash point, the `number`-th time
    number: int = 0
    fault: Fault | None = None
    fault_at: int = 0
    when: When = "before"
    says: tuple[str, ...] = ()  # pause, cancel, tell, stop, interrupt
    says_at_s: float = 0.0
    rival: Rivalry = ""
    rival_at_s: float = 0.0


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How one life ended."""

    number: int
    what: str  # "killed", "returned", or the name of an exception's class
    text: str = ""
    neighbour: str = ""
    result: Any = None
    disturbance: Disturbance = Disturbance()


class Audit(msgspec.Struct, frozen=True):
    """The live fold of a task at some moment."""

    task: str
    seq: int
    digest: bytes
    folded: bytes
    counters: tuple[int, ...]


class Story:
    """All that happened under one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = FakeClock()
        self.memory = MemoryWorld()
        self.books = Books()
        self.outside = Outside(self.clock, self.memory, Chance(seed, "outside"))
        chance = Chance(seed, "plan")
        self.program = draw_program(chance, self.outside)
        self.neighbour = draw_neighbour(chance, self.outside)
        self.is_unattended = chance.holds(0.08)
        self.allowance = chance.pick((0, 0, 15, 40))  # tokens, 0: no budget
        self.is_lazy = chance.holds(0.05)  # a person who does not answer
        self.endings: list[Ending] = []
        self.audits: list[Audit] = []
        self.told: list[tuple[str, str, int]] = []  # (task, action, seq) that a program was told
        self.said: list[str] = []  # ids of messages left
        self.copies: list[MemoryWorld] = []  # of the store right after a death
        self.points: Counter[str] = Counter()  # crash points come by
        self.killed_at: Counter[str] = Counter()
        self.digest = hashlib.blake2b(digest_size=16)

    def note(self, *what: object) -> None:
        """Let the trace digest depend on `what`."""
        self.digest.update(repr(what).encode())

    @property
    def task(self) -> str:
        """The id of the task, "" before it began."""
        return next((task for task, stored in self.memory.tasks.items() if stored.summary.name == TASK), "")

    @property
    def has_enough(self) -> bool:
        """Whether so much has happened that the task may end before its program does."""
        calls = sum(request.task == self.task for request in self.outside.begun)
        return calls >= ACTIONS_MIN + _UNRECORDED_MAX and bool(self.killed_at)

    @property
    def status(self) -> str:
        """How the task stands by its summary."""
        return self.memory.tasks[self.task].summary.status if self.task else ""


class Life:
    """One process on the story's world."""

    def __init__(self, story: Story, number: int, disturbance: Disturbance) -> None:
        self.number = number
        self.disturbance = disturbance
        self.is_over = False
        self._story = story
        self._chance = Chance(story.seed, "life", number)
        self._ids = ChanceIds(Chance(story.seed, "ids", number))
        self._left = disturbance.number
        self.process = Process(f"life {number}")
        self.process.dies_at = disturbance.step
        store = SeededStore(story.memory, story.clock, self.process, self._chance, story.books)
        self.store = FaultyStore(
            store, fail_at=disturbance.fault_at, error=disturbance.fault or "broken", when=disturbance.when
        )
        self.runtime: perdure.Runtime | None = None
        self.runner: asyncio.Task[Any] | None = None
        self.neighbour = ""

    def forget(self) -> None:
        """The process is gone: nobody takes its runtime for alive."""
        for token in self._ids.tokens:
            leases.lose_sight(token)

    def meet(self, point: str) -> None:
        """Come by a crash point."""
        story, disturbance = self._story, self.disturbance
        story.points[point] += 1
        if disturbance.point not in {point, "any"}:
            return
        self._left -= 1
        if self._left == 0:
            story.killed_at[point] += 1
            self.die()
            raise Killed

    def die(self) -> None:
        """End here."""
        loop = asyncio.get_running_loop()
        assert_virtual(loop).kill(self.process)

    async def live(self, *, by_hand: bool) -> Any:
        """Settle what a person can settle, then run or resume the task, with its neighbour beside it."""
        story = self._story
        self.runner = asyncio.current_task()
        async with perdure.open(
            self.store,
            clock=story.clock,
            ids=self._ids,
            hooks=[self._hear],
            rules=_RECOVERY,
            unattended=story.is_unattended,
        ) as runtime:
            self.runtime = runtime
            beside = asyncio.create_task(self._live_beside(runtime))
            watcher = asyncio.create_task(self._audit(runtime))
            try:
                return await self._work(runtime, by_hand=by_hand)
            finally:
                self.is_over = True
                watcher.cancel()
                await asyncio.gather(beside, watcher, return_exceptions=True)

    async def _work(self, runtime: perdure.Runtime, *, by_hand: bool) -> Any:
        story = self._story
        if self.number >= RIVALS and self.disturbance.rival == "takes":
            await self._have_it_for_a_while(runtime)  # and go on without waiting for what the robbed has sent
        elif not by_hand:
            budget = perdure.Budget(tokens=story.allowance) if story.allowance else None
            return await runtime.run(story.program, TASK, budget=budget)
        else:
            await asyncio.sleep(_PATIENCE_S)
        task = (await self.store.find(TASK)).task
        fold = await load_fold(self.store, task)
        for action in list(fold.ledger.open.values()):
            if rule_for(action) == "doubt":
                await self._settle(runtime, fold, action)
        if fold.ledger.takeover is not None:  # whoever took it was busy elsewhere before it was given back
            await runtime.hand_back(task)
        story.outside.answered.update(_questions_in(fold.ledger.reason))
        more = fold.ledger.budget_asked or None
        return await runtime.resume(task, story.program, again=True, budget=more)

    async def _have_it_for_a_while(self, runtime: perdure.Runtime) -> None:
        """Be the person who takes the task over, whoever has it."""
        await runtime.take_over(TASK, by="a person")
        await asyncio.sleep(self._chance.pick((0.0, 0.0, 1.0)) * self._chance.share())
        if self._chance.holds(0.5):
            with contextlib.suppress(RollbackUnderWay, NotTakenOver):
                await runtime.adopt_plan(TASK, ["by hand"])
        with contextlib.suppress(NotTakenOver):  # somebody else has given it back meanwhile
            await runtime.hand_back(TASK, say="go on")

    async def _settle(self, runtime: perdure.Runtime, fold: Fold, action: OpenAction) -> None:
        """Be the person: look whether it happened."""
        item = item_of(self._story.memory, fold.task, action.intent)
        if self._story.outside.happened(item, action.action):
            await runtime.settle(fold.task, action.action, Succeeded(f"{action.tool} {item}"))
        elif self._chance.holds(0.5):
            await runtime.settle(fold.task, action.action, None)
        else:
            gone = ErrorRecord(type="person", message="it did not happen")
            await runtime.settle(fold.task, action.action, Failed(gone))

    async def _live_beside(self, runtime: perdure.Runtime) -> None:
        is_robbed = self.disturbance.rival == "robs"
        if self.number >= RIVALS or (self._chance.holds(0.5) and not is_robbed):
            return  # a rival takes the task only, so the neighbour must not notice him
        begins_s = self.disturbance.rival_at_s - 0.2 if is_robbed else 1.0
        await asyncio.sleep(self._chance.share() * max(0.0, begins_s))
        try:
            await runtime.run(self._story.neighbour, NEIGHBOUR, new=is_robbed)
            self.neighbour = "returned"
        except (PerdureError, asyncio.CancelledError) as ended:
            self.neighbour = f"{type(ended).__name__}: {ended}"

    async def _audit(self, runtime: perdure.Runtime) -> None:
        """Note the live fold now and then."""
        story = self._story
        await asyncio.sleep(self._chance.share() * self._chance.share() * 8)
        fold = runtime.fold_of(story.task)
        if fold is not None and not fold.tree.is_open:
            story.audits.append(Audit(fold.task, fold.seq, fold.digest, snapshots.encode_fold(fold), counters_of(fold)))
            del story.audits[:-_AUDITS_MAX]

    def _hear(self, task: str, event: str, fields: Mapping[str, Any]) -> None:
        if event == "action_started":
            current_action.set((task, fields["action"]))
        elif event == "action_settled":
            self._story.told.append((task, fields["action"], fields["seq"]))
        self._story.note(round(self._story.clock.monotonic(), 6), self.number, event, fields.get("seq", 0))


class Stage:
    """Plays one story to its end."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self._chance = Chance(story.seed, "stage")
        self._lives: list[Life] = []
        self.loop = VirtualLoop(story.clock, self._choose, self._thread_s)

    def meet(self, point: str) -> None:
        """Tell the life whose step this is that it comes by a crash point."""
        task = asyncio.current_task()
        for life in self._lives:
            if task in life.process.tasks:
                life.meet(point)
                return

    async def play(self) -> None:
        """Play until the task has ended, or stands and nobody answers."""
        story, chance = self.story, self._chance
        disturbed = chance.between(1, 5)
        by_hand = False
        for number in range(LIVES_MAX):
            crashes = not story.killed_at
            disturbance = self._draw(crashes=crashes) if crashes or number < disturbed else Disturbance()
            ending = await self._live(number, disturbance, by_hand=by_hand)
            story.endings.append(ending)
            story.note(ending.what, ending.text, ending.neighbour)
            waits = story.status == "needs_human"
            if story.status in _ENDED and not self._is_to_be_opened_again():
                return
            if waits and story.is_lazy and story.has_enough:
                return
            by_hand = waits or story.status == "failed"
            story.clock.advance(chance.pick((0.0, 0.01, 1.0, 20.0, 3600.0)))

    def _is_to_be_opened_again(self) -> bool:
        """A task that gave up until somebody answers: it is opened again, once."""
        story = self.story
        asked = _questions_in(story.memory.tasks[story.task].summary.reason)
        return story.status == "failed" and (bool(asked - story.outside.answered) or not story.has_enough)

    async def _live(self, number: int, disturbance: Disturbance, *, by_hand: bool) -> Ending:
        life = Life(self.story, number, disturbance)
        of_rival = Disturbance(rival="takes") if disturbance.rival == "takes" else Disturbance()
        rival = Life(self.story, number + RIVALS, of_rival) if disturbance.rival else None
        self._lives = [life] if rival is None else [life, rival]
        for word in disturbance.says:
            self.loop.call_later(disturbance.says_at_s, self._say, life, word)
        second: asyncio.Future[Ending] | None = None
        first = self._begin(life, by_hand=by_hand)
        if rival is not None:
            await asyncio.sleep(disturbance.rival_at_s)
            if disturbance.rival == "robs":
                life.forget()
            second = self._begin(rival, by_hand=False)
        ending = await first
        if second is not None:
            self.story.endings.append(ending)
            ending = await second
        return ending

    def _begin(self, life: Life, *, by_hand: bool) -> asyncio.Future[Ending]:
        """Let `life` begin; the future has how it ended."""
        ended: asyncio.Future[Ending] = self.loop.create_future()
        task = self.loop.spawn(life.process, life.live(by_hand=by_hand))
        process_of_stage = asyncio.current_task()
        del process_of_stage

        def end(ending: Ending) -> None:
            life.forget()
            if not ended.done():
                ended.set_result(ending)

        def done(task: asyncio.Task[Any]) -> None:
            end(_ending_of(life, task))

        def dead() -> None:
            if life.disturbance.step and not life.disturbance.point:
                self.story.killed_at["any await"] += 1
            if self._chance.holds(0.2):
                self.story.copies = [copy_world(self.story.memory)]
            end(Ending(number=life.number, what="killed", disturbance=life.disturbance))

        task.add_done_callback(done)
        life.process.at_death = dead
        return ended

    # --- disturbing -------------------------------------------------------------------------------------------------
    def _draw(self, *, crashes: bool) -> Disturbance:
        chance = self._chance
        others = () if crashes else (("fault", 3), ("says", 2), ("rival", 3))
        kind = chance.weighted((("step", 5), ("point", 5), *others))
        says: tuple[str, ...] = ("tell",) if chance.holds(0.1) else ()
        at_s = chance.share() * 3
        match kind:
            case "step":
                return Disturbance(
                    step=chance.between(1, chance.pick((60, 150) if crashes else (60, 300, 900))),
                    says=says,
                    says_at_s=at_s,
                )
            case "point":
                name = "any" if crashes or chance.holds(0.3) else chance.pick(crash_points())
                highest = (25 if crashes else 60) if name == "any" else 2 if name in _RARE else 12
                return Disturbance(point=name, number=chance.between(1, highest), says=says, says_at_s=at_s)
            case "fault":
                fault: Fault = chance.pick(("broken", "full", "busy"))
                when: When = chance.pick(("before", "after"))
                return Disturbance(fault=fault, fault_at=chance.between(1, 80), when=when)
            case "says":
                word = chance.weighted((("pause", 4), ("cancel", 3), ("stop", 4), ("interrupt", 4)))
                return Disturbance(says=(*says, word), says_at_s=at_s)
            case _:
                rival: Rivalry = chance.weighted((("robs", 6), ("takes", 3), ("meets", 1)))
                return Disturbance(rival=rival, rival_at_s=at_s)

    def _say(self, life: Life, word: str) -> None:
        """Say to a life what it is to hear, unless it is over."""
        story, runtime = self.story, life.runtime
        if life.is_over or life.process.is_dead or runtime is None or not story.task:
            return
        if word == "stop":
            life.process.context.run(runtime.request_stop)
        elif word == "interrupt" and life.runner is not None:
            life.process.context.run(life.runner.cancel)
        elif word == "cancel" and not story.has_enough:
            self.loop.call_later(_PATIENCE_S / 4, self._say, life, word)
        else:
            message = Message(id=f"message {len(story.said)}", what=word, text="by the way")
            story.said.append(message.id)
            poster = MemoryStore(story.memory, story.clock)
            self.loop.create_task(poster.post(story.task, message))

    def _choose(self, number: int) -> int:
        """Most of the time the step that is ready longest, as in asyncio."""
        return self._chance.below(number) if self._chance.bits() & 7 == 0 else 0

    def _thread_s(self) -> float:
        draw = self._chance.share()
        return 0.0 if draw < 0.6 else 1.6 * draw if draw > 0.97 else 0.01 * draw  # noqa: PLR2004 - shares


def play(story: Story) -> None:
    """Play `story` to its end."""
    stage = Stage(story)
    with crashpoints.watched(stage.meet):
        stage.loop.run_until_complete(stage.play())


def counters_of(fold: Fold) -> tuple[int, ...]:
    """Return what may never fall."""
    ledger = fold.ledger
    told = len(ledger.facts), len(ledger.lessons), ledger.tokens_out, sum(ledger.counts.values())
    return ledger.attempt, ledger.actions, ledger.failed_actions, ledger.rollbacks, *told, fold.epoch


def entries_of(memory: MemoryWorld, task: str) -> list[e.Entry]:
    """Return the journal of a task."""
    found: list[e.Entry] = []
    for append in memory.tasks[task].appends:
        prev = first_prev(append.frames)
        found.extend(unpack_all(append.frames, task, first_seq=append.first_seq, prev=prev))
    return found


def item_of(memory: MemoryWorld, task: str, seq: int) -> str:
    """Return the argument of the intent at `seq`."""
    for append in memory.tasks[task].appends:
        if append.first_seq <= seq <= append.last_seq:
            prev = first_prev(append.frames)
            entries = unpack_all(append.frames, task, first_seq=append.first_seq, prev=prev)
            payload = next(entry.payload for entry in entries if entry.header.seq == seq)
            return argument_of(payload) if isinstance(payload, e.ActionIntended) else ""
    return ""


def argument_of(intent: e.ActionIntended) -> str:
    """Return the item of an intent."""
    return str(msgspec.json.decode(bytes(intent.arguments))["item"])


def copy_world(memory: MemoryWorld) -> MemoryWorld:
    """Return a store that goes its own way from here on."""
    copied = MemoryWorld()
    copied.blobs = dict(memory.blobs)
    for name, stored in memory.tasks.items():
        task = copied.tasks[name] = type(stored)(stored.summary, stored.lease)
        task.appends, task.digests = list(stored.appends), dict(stored.digests)
        task.blobs, task.snapshots, task.messages = set(stored.blobs), dict(stored.snapshots), dict(stored.messages)
    return copied


def assert_virtual(loop: asyncio.AbstractEventLoop) -> VirtualLoop:
    """Return `loop` as what it must be here."""
    if not isinstance(loop, VirtualLoop):
        raise TypeError("a simulation runs in a VirtualLoop")
    return loop


def _ending_of(life: Life, task: asyncio.Task[Any]) -> Ending:
    what, text, result = "returned", "", None
    if task.cancelled():
        what = "CancelledError"
    elif (error := task.exception()) is not None:
        what, text = type(error).__name__, str(error)
    else:
        result = task.result()
    return Ending(
        number=life.number, what=what, text=text, neighbour=life.neighbour, result=result, disturbance=life.disturbance
    )


def _questions_in(reason: str) -> set[str]:
    """Return the names of the steps that asked, or gave up."""
    words = reason.replace("?", " ").split()
    return {word for word in words if word.startswith("s") and word[1:].isdigit()}
