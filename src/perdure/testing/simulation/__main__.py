"""`python -m perdure.testing.simulation --seeds 10000`: ends with 1 where a seed complains or something is never met.

Called by people and by `make simulate` and `make soak`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from perdure.testing.simulation.campaign import Campaign, run

_ALL_MET_FROM = 2_000  # seeds; fewer may well miss something


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them; a seed that failed, with --seeds 1")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    began = time.monotonic()
    told: set[int] = set()

    def tell(campaign: Campaign) -> None:
        for seed in sorted(campaign.failed.keys() - told):
            told.add(seed)
            sys.stdout.write(f"seed {seed}: {campaign.failed[seed][0]}\n")
        if campaign.seeds % 1_000 == 0:
            sys.stdout.write(f"{campaign.seeds} seeds, {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()

    campaign = run(range(given.first, given.first + given.seeds), given.processes, tell)
    missed = campaign.missed() if given.seeds >= _ALL_MET_FROM else []
    lines = [*campaign.lines(), *(f"never met: {what}" for what in missed), f"{time.monotonic() - began:.0f} s"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if campaign.failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
