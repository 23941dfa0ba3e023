"""A program with a milestone of each kind, run once by `python -m tests.crash.milestones PLACE`; prints its marks.

Called by `test_milestones.py`, which kills it.
"""

import asyncio
import json
import sys

import perdure
from perdure.engine.loading import load_fold


@perdure.tool(effect="pure", source=True)
async def search(query: str) -> str:
    """Bring information."""
    await asyncio.sleep(0)
    return f"{query} falls mainly on the plain."


@perdure.tool(effect="idempotent", quick=True)
def export(text: str, key: perdure.EffectKey) -> str:
    """Have an effect, and ask for a checkpoint with it."""
    del key  # nobody outside drops a second call: there is nobody
    perdure.request_checkpoint("exported")
    return text


@perdure.milestone
def snow_found(view: perdure.MilestoneView) -> str | None:
    """Look at what was found."""
    return "snow found" if view.result == "snow falls mainly on the plain." else None


@perdure.program
async def weather(task):
    """Come by each rule once, and by most of them twice."""
    await task.adopt(["find", "write"])
    await task.begin_step("find")
    rain = await task.act(search, "rain")
    await task.check("find", bool(rain))
    await task.begin_step("write")
    snow = await task.act(search, "snow")
    await task.using(key="export").act(export, rain + snow)
    await task.checkpoint("end")
    return rain + snow


async def main(place: str) -> None:
    """Start the task or go on with it, then say what is marked."""
    async with perdure.open(place) as runtime:
        await runtime.run(weather, "weather")
        fold = await load_fold(runtime.store, (await runtime.store.find("weather")).task)
    print(json.dumps([mark.name for mark in fold.document.checkpoints]))


if __name__ == "__main__":
    from tests.crash import milestones  # so that the program is found by the name of its module

    asyncio.run(milestones.main(sys.argv[1]))
