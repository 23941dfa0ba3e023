"""The page of results, from first to last line made of the records: docs/reference/recovery-benchmark.md and its plots.

Nothing on it is typed in by hand but the sentences below. Called by `__main__.py` and by tests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.recbench import arms, plots, truth
from benchmarks.recbench.measuring import Record
from benchmarks.recbench.running import ALONE_ARMS
from benchmarks.recbench.statistics import Share, f1_by_class, gap_closed, gap_interval, median, share_of

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reference" / "recovery-benchmark.md"
PLOTS: Final = "recovery-benchmark"  # folder beside the page
THEORY_ONE: Final = 0.8**6
THEORY_ANY: Final = (1 - 0.2 * 0.4 * 0.4) ** 6
WORLDS: Final = ("desk", "maze", "files")
_WORLD: Final = {"desk": "desk (W2)", "maze": "maze (W3)", "files": "files (W1)"}

_INTRO: Final = """\
# Recovery benchmark: what comes back of what faults destroy

Made by `make recbench`, which plays everything again and writes this page; do not edit it. The engine, its store, the
classifier, the detector of loops and the rules of recovery are the real ones. The model and the tools are stand-ins,
drawn from seeds: every arm meets the same truth and the same faults. The program (`benchmarks/recbench/agent.py`) is an
agent loop as a user would write it: ask the model for a call, make the call, have the result checked.
"""
_SET_UP: Final = """\
## What is played

A task has six sub-goals. What the agent cannot see: which of its three strategies can solve which sub-goal (with
probability {able}), and how the others fail: a check that fails, a tool that refuses, a refusal of the provider,
garbage, a loop. The stand-in of the model reads the strategy from prompt, model, source and tools of the request;
where these do not fit each other, it can solve nothing. A loop ends by a hint, by a fresh context, or only by another
strategy, as drawn.

- **Desk (W2)**: orders and money. Reading is pure, a reservation has a key and is taken back by a function, a charge
  has a key and cannot be taken back, a mail has no key and cannot be taken back. Memory store, virtual time.
- **Maze (W3)**: three readers of which a strategy prefers one; where the strategy is wrong the reader refuses for ever
  (404) or lies. A door is turned without a key, but one can look. All is taken back by functions. Memory store, virtual
  time.
- **Files (W1)**: parts in a real folder, published under keys. SQLite, real time at a hundredth, every crash a real
  `SIGKILL`. Without quotas, hanging calls and polling, which would take real hours.

A task is **completed** when it has ended as succeeded and the world's own books are right to the last row: each effect
once, with the right value, nothing left over. The books know nothing of perdure. Where the outcome of a mail is in
doubt the task asks a person, as it should; a stand-in looks into the books and settles.
"""


class Cells:
    """The records, by world, scenario and arm."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.all = list(records)
        self._by: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
        for record in self.all:
            self._by[record.world, record.scenario, record.arm].append(record)
        for cell in self._by.values():
            cell.sort(key=lambda record: record.seed)

    def of(self, scenario: str, arm: str, worlds: Sequence[str] = WORLDS) -> list[Record]:
        """Return the runs of an arm under a scenario, world by world, in the order of their seeds."""
        return [record for world in worlds for record in self._by.get((world, scenario, arm), ())]

    def completed(self, scenario: str, arm: str, worlds: Sequence[str] = WORLDS) -> list[bool]:
        """Return of each such run whether it was completed."""
        return [record.completed for record in self.of(scenario, arm, worlds)]

    def gap(self, scenario: str, arm: str, worlds: Sequence[str] = WORLDS) -> tuple[float, float, float]:
        """Return the part of the gap that an arm closes over the seeds that all three have played, and its interval."""
        played = [
            {(record.world, record.seed): record.completed for record in self.of(scenario, name, worlds)}
            for name in ("nothing", arm, "oracle")
        ]
        common = [key for key in played[0] if all(key in one for one in played)]
        three = [[one[key] for key in common] for one in played]
        return (gap_closed(*three), *gap_interval(*three))


class Bar:
    """One thing that is to be reached."""

    def __init__(self, name: str, wanted: str, reached: str, *, is_met: bool) -> None:
        self.name, self.wanted, self.reached, self.is_met = name, wanted, reached, is_met


def write(records: Sequence[Record], page: Path = PAGE) -> list[Bar]:
    """Write page and plots; return the bars. Raises ValueError where there is nothing to show."""
    if not records:
        raise ValueError("no runs, no page: nothing was measured")
    cells = Cells(records)
    bars = judge(cells)
    folder = page.parent / PLOTS
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _plots(cells).items():
        (folder / name).write_text(text, "utf-8")
    page.write_text(render(cells, bars), "utf-8")
    return bars


def render(cells: Cells, bars: Sequence[Bar]) -> str:
    """Return the page."""
    parts = [
        _INTRO,
        _bars(bars),
        *said_by_code(),
        _under_all(cells),
        _alone(cells),
        _costs(cells),
        _times(cells),
        _classes(cells),
        _loops(cells),
        _theory(cells),
        _limits(cells),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def said_by_code() -> list[str]:
    """Return the parts of the page that do not depend on what was measured."""
    able = ", ".join(f"{able:g}" for able in truth.ALL.able)
    return [_SET_UP.format(able=f"({able})"), _arms(), _faults()]


# --- bars -----------------------------------------------------------------------------------------------------------
def judge(cells: Cells) -> list[Bar]:
    """Return what was to be reached, and what was."""
    name = truth.ALL.name
    ours = [record for record in cells.all if record.arm == "perdure"]
    gap, low, high = cells.gap(name, "perdure")
    waste, best = waste_of(cells.of(name, "perdure")), waste_of(cells.of(name, "oracle"))
    doubled, lost = sum(r.doubles for r in ours), sum(r.lost for r in ours)
    false_stops = sum(record.false_stops for record in ours)
    hopeless = [record for record in ours if not record.is_solvable]
    handed = share_of(record.handed_over for record in hopeless)
    scores = f1_by_class(pair for record in ours for pair in record.told)
    macro = sum(score for score, _ in scores.values()) / len(scores) if scores else 0.0
    return [
        Bar("gap closed under all faults", "≥ 0.95", f"{gap:.3f} ({low:.3f} to {high:.3f})", is_met=gap >= 0.95),
        Bar(
            "calls too many of a completed task, beside the oracle's",
            "≤ 2 ×",
            f"{waste:.0f} beside {best:.0f}",
            is_met=waste <= 2 * best,
        ),
        Bar("effects in the world twice", "0", f"{doubled} in {len(ours):,} runs", is_met=doubled == 0),
        Bar("effects acknowledged and lost", "0", f"{lost} in {len(ours):,} runs", is_met=lost == 0),
        Bar("false stops on polling, batches and the rest", "0", str(false_stops), is_met=false_stops == 0),
        Bar("unsolvable tasks handed over", "≥ 0.95", _of(handed), is_met=handed.value >= 0.95),
        Bar("classes of faults, macro-F1", "≥ 0.95", f"{macro:.3f}", is_met=macro >= 0.95),
        *_theory_bars(cells),
    ]


def _theory_bars(cells: Cells) -> list[Bar]:
    rows = (("nothing", "one strategy", THEORY_ONE), ("perdure", "any of three", THEORY_ANY))
    bars: list[Bar] = []
    for arm, what, expected in rows:
        share = share_of(cells.completed(truth.ONLY_TRUTH.name, arm))
        name = f"the bench itself: {what}, nothing else wrong"
        bars.append(Bar(name, f"{expected:.3f}", str(share), is_met=share.holds(expected)))
    return bars


def waste_of(records: Sequence[Record]) -> float:
    """Return how many calls too many a completed task took: calls that no undisturbed run would make."""
    excess = [record.calls - record.needed for record in records if record.completed]
    return sum(excess) / len(excess) if excess else math.inf


def cost_of(records: Sequence[Record]) -> float:
    """Return how many calls were made for each completed task, those of tasks that came to nothing included."""
    done = sum(record.completed for record in records)
    return sum(record.calls for record in records) / done if done else math.inf


def _bars(bars: Sequence[Bar]) -> str:
    rows = [
        f"| {bar.name} | {bar.wanted} | {bar.reached} | {'reached' if bar.is_met else '**missed**'} |" for bar in bars
    ]
    return "\n".join(["## The bars", "", "| what | wanted | reached | |", "|---|---|---|---|", *rows])


# --- tables ---------------------------------------------------------------------------------------------------------
def _arms() -> str:
    rows = [f"| {arm.name} | {arm.about} |" for arm in arms.ARMS]
    head = "The same engine and the same agent; what an arm may do is said by `Rules` and by who starts it again."
    return "\n".join(["## The arms", "", head, "", "| arm | |", "|---|---|", *rows])


def _faults() -> str:
    fields = (
        ("crash", "crash"), ("interrupted", "429, 5xx, time-outs"), ("garbage", "garbage"), ("loop", "loop"),
        ("quota", "quota"), ("poison", "poison"), ("stale", "stale"), ("overflow", "overflow"),
        ("overrun", "goes on"), ("polls", "looks"), ("batch", "batch"), ("unsolvable", "unsolvable"),
    )  # fmt: skip
    rows = []
    for scenario in truth.SCENARIOS.values():
        values = [getattr(scenario, field) for field, _ in fields]
        rows.append(f"| {scenario.name} | {' | '.join(f'{value:g}' if value else '' for value in values)} |")
    head = """\
## The faults

Rates per call (crash, 429 and time-outs, garbage, loop), shares of tasks (quota, poison, overflow, goes on,
unsolvable), share of sub-goals (stale), numbers (looks until something is ready; calls of a batch). A time-out comes
before or after the effect, each as often. Errors have the bodies and headers of three providers, of HTTP, of sockets.
"""
    titles = f"| scenario | {' | '.join(title for _, title in fields)} |"
    return "\n".join([head, titles, "|---" * (len(fields) + 1) + "|", *rows])


def _under_all(cells: Cells) -> str:
    rows = []
    for arm in arms.BY_NAME:
        columns = [_share(cells.completed(truth.ALL.name, arm, [world])) for world in WORLDS]
        gap, low, high = cells.gap(truth.ALL.name, arm)
        rows.append(f"| {arm} | {' | '.join(columns)} | {gap:.3f} ({low:.3f} to {high:.3f}) |")
    titles = f"| arm | {' | '.join(_WORLD[world] for world in WORLDS)} | gap closed, all worlds |"
    return "\n".join(
        [
            "## Under all faults at once",
            "",
            "Completed, with 95 % intervals (Wilson). The gap is the way from *nothing* to the *oracle*; its interval",
            "is drawn from the seeds again and again (bootstrap).",
            "",
            titles,
            "|---" * 5 + "|",
            *rows,
            "",
            f"![completed, by arm]({PLOTS}/completed.svg)",
        ]
    )


def _alone(cells: Cells) -> str:
    rows = []
    for scenario in truth.ALONE:
        shares = [f"{share_of(cells.completed(scenario.name, arm)).value:.2f}" for arm in ALONE_ARMS]
        gap = cells.gap(scenario.name, "perdure")[0]
        runs = len(cells.of(scenario.name, "perdure"))
        shown = "–" if math.isnan(gap) else f"{gap:.2f}"
        rows.append(f"| {scenario.name} | {runs} | {' | '.join(shares)} | {shown} |")
    titles = f"| fault alone | runs | {' | '.join(ALONE_ARMS)} | gap closed |"
    return "\n".join(
        [
            "## Each fault alone, at a higher rate",
            "",
            "Completed, desk and maze together. In *unsolvable* there is nothing to complete; to hand over is right.",
            "",
            titles,
            "|---" * (len(ALONE_ARMS) + 3) + "|",
            *rows,
            "",
            f"![completed, each fault alone]({PLOTS}/alone.svg)",
        ]
    )


def _costs(cells: Cells) -> str:
    rows = []
    for arm in arms.BY_NAME:
        records = cells.of(truth.ALL.name, arm)
        hopeless = [record.calls for record in records if not record.is_solvable]
        by_hand = sum(record.settled_by_hand for record in records) / len(records)
        back = sum(record.rollbacks for record in records) / len(records)
        lives = sum(record.lives for record in records) / len(records)
        given_up = f"{sum(hopeless) / len(hopeless):.0f}" if hopeless else "–"
        figures = (
            _number(cost_of(records)),
            _number(waste_of(records)),
            given_up,
            f"{back:.1f}",
            f"{lives:.1f}",
            f"{by_hand:.2f}",
        )
        rows.append(f"| {arm} | {' | '.join(figures)} |")
    return "\n".join(
        [
            "## What it costs",
            "",
            "Under all faults, calls of model and tools. *Made*: for each completed task, those of tasks that came to",
            "nothing included. *Too many*: those that a run which nothing disturbs would not have made, of a completed",
            "task. *Given up*: calls of a task that no strategy can solve; the oracle knows at once. *Settled*: by a",
            "person, since nobody else could know whether a mail was sent.",
            "",
            "| arm | made | too many | given up | rollbacks a task | lives a task | settled a task |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"![calls too many]({PLOTS}/waste.svg)",
        ]
    )


def _times(cells: Cells) -> str:
    ours, best = (_recovered(cells.of(truth.ALL.name, arm, ("desk", "maze"))) for arm in ("perdure", "oracle"))
    rows = [
        f"| {what} | {len(times)} | {median(times):.0f} s | {_last(times):.0f} s | {_seconds(best.get(what, []))} |"
        for what, times in sorted(ours.items())
    ]
    return "\n".join(
        [
            "## Time to recover",
            "",
            "From a fault until the agent is further than it ever was, in virtual time, under all faults: other faults",
            "that come in between count too.",
            "",
            "| fault | cases | median | 9 of 10 within | median of the oracle |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"![time to recover]({PLOTS}/times.svg)",
        ]
    )


def _classes(cells: Cells) -> str:
    ours = [record for record in cells.all if record.arm == "perdure"]
    scores = f1_by_class(pair for record in ours for pair in record.told)
    rows = [f"| `{name}` | {count:,} | {score:.3f} |" for name, (score, count) in scores.items()]
    head = [
        "## Faults told apart",
        "",
        "The class on record beside the class of the fault that was drawn, for each fault that came to the agent.",
        "",
        "| class | cases | F1 |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def _loops(cells: Cells) -> str:
    rows = []
    for scenario in truth.SCENARIOS:
        records = cells.of(scenario, "perdure")
        loops, noticed = sum(r.loops for r in records), sum(r.noticed for r in records)
        rows.append(f"| {scenario} | {len(records):,} | {loops} | {noticed} | {sum(r.false_stops for r in records)} |")
    head = [
        "## Loops",
        "",
        "Loops are those that were noticed, and those of eight turns and more that were not; a shorter one that ends",
        "by itself need not be. A false stop is a loop that was seen where the model did not repeat itself and its",
        "strategy did not lead into the same dead end again: in polling, batches, retries or work.",
        "",
        "| scenario | runs | loops | noticed | false stops |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def _theory(cells: Cells) -> str:
    rows = []
    for arm, expected in (("nothing", THEORY_ONE), ("perdure", THEORY_ANY), ("oracle", THEORY_ANY)):
        columns = [_share(cells.completed(truth.ONLY_TRUTH.name, arm, [world])) for world in ("desk", "maze")]
        rows.append(f"| {arm} | {expected:.3f} | {' | '.join(columns)} |")
    head = [
        "## The bench checks itself",
        "",
        "With nothing wrong but the hidden truth, an arm that never changes its strategy completes a task with",
        f"probability 0.8⁶ = {THEORY_ONE:.3f}, one that finds the right one of three with",
        f"(1 − 0.2·0.4·0.4)⁶ = {THEORY_ANY:.3f}.",
        "",
        "| arm | expected | desk | maze |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def _limits(cells: Cells) -> str:
    return f"""\
## What these figures are not

{len(cells.all):,} runs of stand-ins. Rates, symptoms and the grip of loops are choices of this bench
(`benchmarks/recbench/truth.py`), not measurements of models; with others the figures are others. No model was asked.
The oracle knows the strategy and the loop, and meets all other faults like everybody. Seeds are 0, 1, 2, …; the worlds
in memory give the same figures on every machine, the files nearly so.
"""


# --- plots ----------------------------------------------------------------------------------------------------------
def _plots(cells: Cells) -> dict[str, str]:
    name = truth.ALL.name
    completed = [
        plots.Group(arm, tuple(_plotted(world, cells.completed(name, arm, [world])) for world in _played(cells)))
        for arm in arms.BY_NAME
    ]
    alone = [
        plots.Group(
            scenario.name,
            tuple(_plotted(arm, cells.completed(scenario.name, arm)) for arm in ("resume only", "perdure", "oracle")),
        )
        for scenario in truth.ALONE
    ]
    wastes = {arm: waste_of(cells.of(name, arm)) for arm in arms.BY_NAME}
    finite = {arm: value for arm, value in wastes.items() if math.isfinite(value)}
    ceiling = max(finite.values(), default=1.0)
    waste = [
        plots.Group(arm, (plots.Bar("calls", value if math.isfinite(value) else 0.0, 0, 0, _calls(value)),))
        for arm, value in wastes.items()
    ]
    return {
        "completed.svg": plots.draw("Completed under all faults", completed, 1.0),
        "alone.svg": plots.draw("Completed, each fault alone", alone, 1.0),
        "waste.svg": plots.draw("Calls too many per completed task, all faults", waste, ceiling),
        "times.svg": _plot_times(cells),
    }


def _plot_times(cells: Cells) -> str:
    found = {arm: _recovered(cells.of(truth.ALL.name, arm, ("desk", "maze"))) for arm in ("perdure", "oracle")}
    kinds = [what for what in sorted(found["perdure"]) if what != "quota"]  # hours beside seconds would hide the rest
    medians = {(what, arm): median(found[arm].get(what, [])) for what in kinds for arm in found}
    ceiling = max((value for value in medians.values() if not math.isnan(value)), default=1.0)
    groups = [
        plots.Group(
            what,
            tuple(
                plots.Bar(arm, medians[what, arm], 0, 0, f"{medians[what, arm]:.0f} s")
                for arm in found
                if not math.isnan(medians[what, arm])
            ),
        )
        for what in kinds
    ]
    return plots.draw("Time to recover, median, all faults (without quotas)", groups, ceiling)


def _played(cells: Cells) -> list[str]:
    return [world for world in WORLDS if cells.of(truth.ALL.name, "perdure", [world])]


def _plotted(series: str, completed: Sequence[bool]) -> plots.Bar:
    share = share_of(completed)
    return plots.Bar(series, share.value, *share.interval, f"{share.value:.2f}")


# --- figures as text ------------------------------------------------------------------------------------------------
def _recovered(records: Iterable[Record]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for what, lasted_s in record.recovered:
            found[what].append(lasted_s)
    return found


def _share(completed: Sequence[bool]) -> str:
    return str(share_of(completed)) if completed else "–"


def _of(share: Share) -> str:
    return f"{share} of {share.count}"


def _last(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.9)]


def _number(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "–"


def _seconds(times: Sequence[float]) -> str:
    return f"{median(times):.0f} s" if times else "–"


def _calls(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "none completed"
