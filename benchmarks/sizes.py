"""What an evaluation needs as it grows: seconds, bytes shuffled, tasks and memory at the sizes of `data.py`.

    python benchmarks/sizes.py [--sizes S M L] [--rankings window lists] [--masters local cluster] [--memory 4g]

Every size, ranking and master has a process of its own. `local` is Spark in one process with two threads, for seconds: of S and
M the median of warm runs, of L the first run. `cluster` is a driver and two executors of one core, each of them a process
(`local-cluster`), so that the memory of the driver is its own: its heap is collected every few seconds and what is left is
looked at, and so there are no seconds. What is counted (bytes, tasks, failed tasks) comes from the event log of Spark.
`--page docs/sizing.md` puts the tables into that page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from contenders import ours, session
from data import CUTS, SIZES, folder_of
from rivals import again_and_again, into_page, machine, memory_of, processes_of

from spark_recmetrics.scoring.pandas_udfs_spark import ROWS_AT_ONCE

WARM = {"XS": 1, "S": 3, "M": 3, "L": 0}
"""How many runs follow the first one, with the local master."""
PART = 128 * 2**20
"""What Spark reads in one task, in bytes."""


@dataclass(frozen=True)
class Sized:
    """What the runs of one process needed; counts are those of the last one.

    Args:
        size: Name of the size.
        ranking: Where lists are ranked.
        master: `local` or `cluster`.
        n_buckets: Buckets of users.
        n_predictions: Rows of predictions.
        n_truth: Rows of truth.
        n_users: Users.
        n_bytes: Size of both on disk.
        first: Seconds of the first run.
        warm: Median of the seconds of the later ones, None where there is none.
        core_seconds: Seconds that tasks ran, all together.
        n_tasks: Tasks that ended.
        n_failed: Those of all runs that ended otherwise than in success.
        shuffled: Bytes written for a shuffle.
        stages: For each stage that wrote for a shuffle: rows and bytes.
        spilled: Bytes spilled to disk.
        heap: Largest heap of the driver behind a collection, bytes; None in `local`, where it is everybody's.
        driver: Peak memory of the driver's Python, bytes.
        worker: Peak memory of a Python worker, bytes.
        total: Peak of the memory of all processes together, bytes.
    """

    size: str
    ranking: str
    master: str
    n_buckets: int
    n_predictions: int
    n_truth: int
    n_users: int
    n_bytes: int
    first: float
    warm: float | None
    core_seconds: float
    n_tasks: int
    n_failed: int
    shuffled: int
    stages: list[tuple[int, int]]
    spilled: int
    heap: int | None
    driver: int
    worker: int
    total: int

    @property
    def at_once(self) -> float:
        """Rows that a Python worker holds at once: those of a bucket up to the largest cut-off, or of whole lists."""
        if self.ranking == "lists":
            return min(ROWS_AT_ONCE, (self.n_predictions + self.n_truth) / self.n_buckets)
        return (min(self.n_predictions, self.n_users * max(CUTS)) + self.n_truth) / self.n_buckets

    def at(self, n_times: float, n_buckets: int) -> Sized:
        """The same with so many times the users."""
        names = ("n_users", "n_predictions", "n_truth", "n_bytes")
        return replace(self, n_buckets=n_buckets, **{name: round(getattr(self, name) * n_times) for name in names})

    @property
    def name(self) -> str:
        """What was measured."""
        return f"{self.size} {self.ranking} {self.master}"


def buckets_of(n_users: float) -> int:
    """How many buckets docs/running.md advises."""
    return max(32, round(n_users * max(CUTS) / 1_000_000))


def settings_of(master: str, memory: str, events: Path) -> dict[str, str]:
    """The session of a master, with all that a machine of two cores has."""
    found = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    if master == "local":
        return found | {"spark.master": "local[2]", "spark.driver.memory": memory}
    number, unit = re.fullmatch(r"(\d+)([gm])", memory).groups()
    each = int(number) * (1024 if unit == "g" else 1) // 2
    return found | {
        "spark.master": f"local-cluster[2,1,{each}]",
        "spark.executor.memory": f"{each}m",
        "spark.driver.memory": "1g",
    }


def run(size: str, ranking: str, master: str, memory: str, buckets: int, parent: Path | None) -> Sized:
    """All runs of one process, which is this one."""
    import pyarrow.parquet as pq

    folder = folder_of(SIZES[size], parent)
    with tempfile.TemporaryDirectory() as events:
        spark = session(settings_of(master, memory, Path(events)))
        java = spark.sparkContext._jvm.java.lang  # noqa: SLF001 - the way to the driver's own heap
        heaps: list[int] = []

        def look() -> None:
            java.System.gc()
            heaps.append(java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed())

        evaluate = ours(folder, ranking=ranking, n_buckets=buckets)
        spans = []
        for _ in range(1 + (WARM[size] if master == "local" else 0)):
            start = time.time()
            if master == "cluster":
                with again_and_again(look, pause=2.0):
                    evaluate()
                look()
            else:
                evaluate()
            spans.append((start, time.time()))
        spark.stop()
        counted = read_events(next(Path(events).glob("[!.]*")), spans[-1])
    seconds = [end - start for start, end in spans]
    files = {name: list((folder / name).iterdir()) for name in ("predictions", "truth")}
    rows = [sum(pq.read_metadata(file).num_rows for file in own) for own in files.values()]
    return Sized(
        size,
        ranking,
        master,
        buckets,
        *rows,
        n_users=SIZES[size][0],
        n_bytes=sum(file.stat().st_size for own in files.values() for file in own),
        first=seconds[0],
        warm=statistics.median(seconds[1:]) if len(seconds) > 1 else None,
        heap=max(heaps, default=None),
        driver=peak_of(os.getpid()),
        worker=0,
        total=0,
        **counted,
    )


def read_events(log: Path, span: tuple[float, float]) -> dict[str, Any]:
    """What the tasks of a run did, by the event log.

    Args:
        log: The file.
        span: When the run began and ended. Failed tasks are counted whenever they were.
    """
    stages: dict[int, list[int]] = {}
    found = {"n_tasks": 0, "n_failed": 0, "shuffled": 0, "spilled": 0, "core_seconds": 0.0}
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith('{"Event":"SparkListenerTaskEnd"'):
                continue
            event = json.loads(line)
            found["n_failed"] += event["Task End Reason"]["Reason"] != "Success"
            ended = event["Task Info"]["Finish Time"] / 1000
            if not span[0] <= ended <= span[1] + 1 or not event.get("Task Metrics"):
                continue
            metrics = event["Task Metrics"]
            written = metrics["Shuffle Write Metrics"]
            found["n_tasks"] += 1
            found["core_seconds"] += metrics["Executor Run Time"] / 1000
            found["spilled"] += metrics["Disk Bytes Spilled"]
            found["shuffled"] += written["Shuffle Bytes Written"]
            rows_and_bytes = stages.setdefault(event["Stage ID"], [0, 0])
            rows_and_bytes[0] += written["Shuffle Records Written"]
            rows_and_bytes[1] += written["Shuffle Bytes Written"]
    return {**found, "stages": sorted((tuple(both) for both in stages.values() if both[0]), reverse=True)}


def peak_of(process: int) -> int:
    """The most bytes that a process has held so far."""
    # getrusage may tell those of the process that started it.
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(peak[1]) * 1024 if peak else 0


def peak_of_worker(process: int) -> int:
    """The same, and 0 if it is no Python worker, or has ended."""
    try:
        return peak_of(process) if b"pyspark.daemon" in Path(f"/proc/{process}/cmdline").read_bytes() else 0
    except OSError:
        return 0


def measured(arguments: list[str]) -> Sized:
    """Run in a process of its own, and look at the memory of what it starts."""
    workers, total = [0], [0]
    with subprocess.Popen([sys.executable, __file__, "--own", *arguments], stdout=subprocess.PIPE, text=True) as process:

        def look() -> None:
            total[0] = max(total[0], memory_of(process.pid))
            workers[0] = max(workers[0], *map(peak_of_worker, processes_of(process.pid)))

        with again_and_again(look):
            out, _ = process.communicate()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        raise SystemExit(f"{' '.join(arguments)}: did not finish")
    return Sized(**{**json.loads(lines[-1]), "worker": workers[0], "total": total[0]})


def table(columns: dict[str, Callable[[Sized], object]], found: list[Sized]) -> str:
    """A row for each, of what the columns tell of it."""
    rows = [list(columns), ["---"] * len(columns), *([tell(own) for tell in columns.values()] for own in found)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


NAMES: dict[str, Callable[[Sized], object]] = {"size": lambda own: own.size, "ranking": lambda own: f"`{own.ranking}`"}
COUNTS: dict[str, Callable[[Sized], object]] = {
    **NAMES,
    "buckets": lambda own: own.n_buckets,
    "predictions, truth": lambda own: f"{own.n_predictions / 1e6:.2f} M, {own.n_truth / 1e6:.2f} M",
    "seconds": lambda own: f"{own.warm:.1f}" if own.warm else f"{own.first:.1f} (first run)",
    "core seconds": lambda own: f"{own.core_seconds:.0f}",
    "tasks": lambda own: own.n_tasks,
    "failed": lambda own: own.n_failed,
    "shuffled, MB": lambda own: f"{own.shuffled / 1e6:.1f}",
    "rows of a shuffle, bytes a row": lambda own: "; ".join(
        f"{rows / 1e6:.2f} M, {written / rows:.1f}" for rows, written in own.stages if written > own.shuffled / 100
    ),
    "spilled, MB": lambda own: f"{own.spilled / 1e6:.0f}",
    "all processes, MB": lambda own: f"{own.total / 2**20:.0f}",
}
MEMORY: dict[str, Callable[[Sized], object]] = {
    **NAMES,
    "failed": lambda own: own.n_failed,
    "driver heap, MB": lambda own: f"{(own.heap or 0) / 2**20:.0f}",
    "driver Python, MB": lambda own: f"{own.driver / 2**20:.0f}",
    "largest Python worker, MB": lambda own: f"{own.worker / 2**20:.0f}",
    "all processes, MB": lambda own: f"{own.total / 2**20:.0f}",
}


def growth(found: list[Sized]) -> Iterator[str]:
    """How a size compares with another one, where both are there."""
    by = {own.name: own for own in found}
    for own in found:
        less = by.get(f"M {own.ranking} {own.master}")
        least = by.get(f"S {own.ranking} {own.master}")
        if own.size == "L" and own.master == "local" and less:
            linear = (own.first / own.n_predictions) / ((less.warm or less.first) / less.n_predictions)
            yield f"* L, `{own.ranking}`: {linear:.2f} times the seconds that M has for a prediction (wanted: at most 1.15)."
        if own.size != "S" and own.heap and least and least.heap:
            both = (own.heap + own.driver) / (least.heap + least.driver)
            yield f"* {own.size}, `{own.ranking}`: {both:.2f} times the driver's memory of S (wanted for L: 0.8 to 1.2)."


def modelled(found: list[Sized]) -> Iterator[str]:
    """What the largest size needed for each row; and what that says of the others, and of many more rows."""
    for ranking in dict.fromkeys(own.ranking for own in found):
        local = [own for own in found if (own.ranking, own.master) == (ranking, "local")]
        cluster = [own for own in found if (own.ranking, own.master) == (ranking, "cluster")]
        if min(len(local), len(cluster)) < 2:
            continue
        most, small, large = local[-1], min(cluster, key=lambda own: own.at_once), max(cluster, key=lambda own: own.at_once)
        moved, work = most.shuffled / most.n_predictions, most.core_seconds / most.n_predictions
        held = (large.worker - small.worker) / (large.at_once - small.at_once)
        floor = small.worker - held * small.at_once
        yield (
            f"`{ranking}`: c = {moved:.1f} bytes and s = {work * 1e6:.2f} core seconds for a million, both from {most.size}; "
            f"w = {held:.0f} bytes and w0 = {floor / 2**20:.0f} MB, from {small.size} and {large.size}. "
            "In brackets: measured."
        )
        lines = [
            "| predictions | buckets | tasks | shuffled, GB | core hours | Python worker, MB |",
            "|---|---|---|---|---|---|",
        ]
        for own in local:
            worker = next((one.worker for one in cluster if one.size == own.size), 0)
            cells = [
                f"{own.n_predictions:,}",
                own.n_buckets,
                f"{2 * own.n_buckets + own.n_bytes // PART + 1} ({own.n_tasks})",
                f"{own.n_predictions * moved / 1e9:.3f} ({own.shuffled / 1e9:.3f})",
                f"{own.n_predictions * work / 3600:.4f} ({own.core_seconds / 3600:.4f})",
                f"{(floor + held * own.at_once) / 2**20:.0f} ({worker / 2**20:.0f})",
            ]
            lines.append(f"| {' | '.join(map(str, cells))} |")
        for n_predictions in (10**9, 10**11):
            n_times = n_predictions / most.n_predictions
            asked = most.at(n_times, buckets_of(SIZES[most.size][0] * n_times))
            cells = [
                f"{n_predictions:,}",
                f"{asked.n_buckets:,}",
                f"{2 * asked.n_buckets + asked.n_bytes // PART + 1:,}",
                f"{n_predictions * moved / 1e9:,.0f}",
                f"{n_predictions * work / 3600:,.1f}",
                f"{(floor + held * asked.at_once) / 2**20:.0f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        yield "\n".join(lines)


def main() -> None:
    """Measure all, print the table, and put it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["S", "M", "L"])
    parser.add_argument("--rankings", nargs="+", choices=["window", "lists"], default=["window", "lists"])
    parser.add_argument("--masters", nargs="+", choices=["local", "cluster"], default=["local", "cluster"])
    parser.add_argument("--memory", default="4g", help="of the driver, or of both executors together")
    parser.add_argument("--buckets", type=int, help="default: users * largest k / 1,000,000, at least 32")
    parser.add_argument("--data", type=Path, help="default: a folder of the system's temporary one")
    parser.add_argument("--page", type=Path, help="the page that gets the table")
    parser.add_argument("--json", type=Path, help="a file that gets the figures, beside those of this commit that it has")
    parser.add_argument("--own", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if not re.fullmatch(r"\d+[gm]", chosen.memory):
        parser.error(f"--memory: expected such as 4g or 4096m, found {chosen.memory}")
    if chosen.own:
        (size,), (ranking,), (master,) = chosen.sizes, chosen.rankings, chosen.masters
        print(json.dumps(asdict(run(size, ranking, master, chosen.memory, chosen.buckets, chosen.data))), flush=True)
        return
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    by_name: dict[str, Sized] = {}
    if chosen.json and chosen.json.exists():
        kept = json.loads(chosen.json.read_text())
        by_name = {own.name: own for own in (Sized(**own) for own in kept["found"])} if kept["machine"] == machine() else {}
    for size in chosen.sizes:
        buckets = chosen.buckets or buckets_of(SIZES[size][0])
        folder_of(SIZES[size], chosen.data)
        for ranking in chosen.rankings:
            for master in chosen.masters:
                named = ["--sizes", size, "--rankings", ranking, "--masters", master, "--memory", chosen.memory]
                named += ["--buckets", str(buckets), *(["--data", str(chosen.data)] if chosen.data else [])]
                own = measured(named)
                print(f"{own.name}: first {own.first:.1f} s, {own.n_failed} failed tasks", flush=True)
                by_name[own.name] = own
                if chosen.json:
                    told = {"machine": machine(), "found": [asdict(one) for one in by_name.values()]}
                    chosen.json.write_text(json.dumps(told, indent=1))
    found = sorted(by_name.values(), key=lambda own: (own.ranking != "window", list(SIZES).index(own.size), own.master))
    parts = [f"{machine()}; {chosen.memory} of memory for the driver, or for both executors together."]
    for master, columns in (("local", COUNTS), ("cluster", MEMORY)):
        if those := [own for own in found if own.master == master]:
            parts += [f"Master `{master}`:", table(columns, those)]
    parts += ["\n".join(growth(found)), *modelled(found)]
    told = "\n\n".join(part for part in parts if part)
    print(told)
    if chosen.page:
        into_page(chosen.page, told)


if __name__ == "__main__":
    main()
