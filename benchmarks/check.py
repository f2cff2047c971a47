"""Fail where an evaluation has become slower beside the same work as one query of Spark SQL.

    python benchmarks/check.py [--rounds 7]

All contenders take turns in one session, so that what else the machine does slows all of them. What is looked at is the ratio
of seconds, ours to those of the query, in each round, and of these the median; no time is.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from contenders import CONTENDERS
from data import folder_of

SIZE = (30_000, 10_000, 100)
"""Three million predictions: seconds for a run, of which starting jobs is the smaller part."""
STORED = {"window": 0.0, "lists": 0.0}
ALLOWED = 1.15
"""A ratio may be so many times the stored one."""


def main() -> int:
    """Run all by turns, print the ratios, and say whether one is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    folder = folder_of(SIZE)
    runs = {name: CONTENDERS[name](folder) for name in ("sql", *STORED)}
    rounds: list[dict[str, float]] = []
    for turn in range(chosen.rounds + 1):
        seconds, values = {}, {}
        for name, run in runs.items():
            start = time.perf_counter()
            values[name] = run()
            seconds[name] = time.perf_counter() - start
        print(turn or "warm-up", *(f"{name} {taken:.2f} s" for name, taken in seconds.items()), flush=True)
        if turn:
            rounds.append(seconds)
        for name in STORED:
            if any(abs(values[name][key] - value) > 1e-9 for key, value in values["sql"].items()):
                raise SystemExit(f"{name}: other values than those of the query")
    too_slow = False
    for name, stored in STORED.items():
        ratios = sorted(seconds[name] / seconds["sql"] for seconds in rounds)
        ratio = statistics.median(ratios)
        slow = ratio > stored * ALLOWED
        too_slow |= slow
        told = f"{ratio:.2f} times the seconds of sql ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"{'FAIL' if slow else 'ok':<5} {name}: {told}; stored {stored:.2f}, allowed {stored * ALLOWED:.2f}")
    return int(too_slow)


if __name__ == "__main__":
    sys.exit(main())
