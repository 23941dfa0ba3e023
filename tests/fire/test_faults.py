"""The n-th operation of the store fails, for every n: nothing acknowledged is lost, nothing is done twice."""

import asyncio
from typing import Any

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.engine.loading import load_fold
from perdure.errors import StoreBroken, StoreBusy, StoreFull, TaskUnknown
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing.faults import FaultyStore
from perdure.views.verifying import verify
from tests.fire import acting
from tests.fire.children import doubled, settle_as_person

COUNT = 5
OPERATIONS_MAX = 500
ENDS = {"broken": {StoreBroken}, "full": {StoreFull, perdure.TaskPaused}, "busy": {StoreBusy}}


class Case:
    """One world in memory, one fault in it."""

    def __init__(self, folder, monkeypatch) -> None:
        self.memory = MemoryWorld()
        self.folder = folder
        self.acks: list[int] = []
        folder.mkdir()
        monkeypatch.setattr(acting, "ORDER", {"world": str(folder)})
        monkeypatch.setattr(acting, "_say", lambda word, *rest: self.acks.append(rest[0]) if word == "ack" else None)

    def store(self) -> MemoryStore:
        """Return a handle without faults."""
        return MemoryStore(self.memory, SystemClock())

    async def run(self, store: Any, times: int = 1) -> list[Any]:
        """Run in one runtime on `store`, `times` times or until there is a result; return what each run came to."""
        ends: list[Any] = []
        async with perdure.open(store) as runtime:
            while len(ends) < times and not (ends and isinstance(ends[-1], int)):
                try:
                    ends.append(await runtime.run(acting.everything, "job", args={"count": COUNT}))
                except perdure.PerdureError as error:
                    ends.append(error)
        return ends

    async def state(self) -> dict[Any, Any]:
        """Return the state as the journal tells it."""
        try:
            return (await load_fold(self.store(), (await self.store().find("job")).task)).tree.root
        except TaskUnknown:
            return {"sent": []}

    async def go_on(self) -> int:
        """Run on without faults until the end, a person settling what nobody can know; return the result."""
        for _ in range(4):
            (end,) = await self.run(self.store())
            if isinstance(end, int):
                return end
            if not isinstance(end, perdure.NeedsHuman):
                raise end
            async with perdure.open(self.store()) as runtime:
                await settle_as_person(runtime, self.folder)
        raise AssertionError("it asks again and again")


@pytest.mark.parametrize("begun", [False, True], ids=["from the start", "resumed"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", ["broken", "full", "busy"])
def test_any_operation_may_fail(error, when, begun, tmp_path, monkeypatch):
    """Whichever operation fails, with its work done or not: the run ends with the store's error or goes by it.

    A broken store stays broken for the runtime; a full one lets the same runtime go on. Then the task is brought to its
    end, which is that of the undisturbed run, and no answer that was lost is taken for a conflict.
    """
    faults = 0
    for number in range(1, OPERATIONS_MAX):
        case = Case(tmp_path / str(number), monkeypatch)
        if begun:
            asyncio.run(case.run(FaultyStore(case.store(), fail_at=10)))
        store = FaultyStore(case.store(), fail_at=number, error=error, when=when)
        ends = asyncio.run(case.run(store, times=3))
        place = f"operation {number}: {store.calls[number - 1] if number <= len(store.calls) else 'none'}"
        if number > len(store.calls):
            break
        faults += 1
        failed = [end for end in ends if not isinstance(end, int)]
        assert {type(end) for end in failed} <= ENDS[error] | {perdure.NeedsHuman}, place
        if error == "broken" and failed:
            assert [StoreBroken] * 3 == [type(end) for end in ends], place
        if error == "full":
            assert len(failed) <= 1 or isinstance(ends[-1], perdure.NeedsHuman), place
        assert set(case.acks) <= set(asyncio.run(case.state())["sent"]), place
        assert COUNT == asyncio.run(case.go_on()), place
        assert {"sent": list(range(COUNT)), "seen": COUNT} == asyncio.run(case.state()), place
        assert [] == doubled(case.folder), place
        assert () == asyncio.run(verify(case.store(), "job")).findings, place
    print(f"faults: {faults} ({error}, {when})")
    assert 25 < faults < OPERATIONS_MAX - 2
