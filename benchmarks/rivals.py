"""Time this project beside its rivals: the same work on the same files in one run, each in a process of its own.

    python benchmarks/rivals.py [--size M] [--only window lists sql] [--also NAME=COMMAND ...] [--page docs/performance.md]

The first run in a fresh process and the later, warm ones are told apart; figures are medians. Peak memory is that of all
processes of a contender together. A package gets an environment of its own under `.rivals`. `--also` times another command, in
which FOLDER stands for the data and ROUNDS for how often it has to run; of each line that says `1.5 s` the seconds are read.

Times of a machine drift and are only compared within one run. What is told is the ratio to this project's window.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

from contenders import CONTENDERS
from data import SIZES, folder_of

ROOT = Path(__file__).parents[1]
NEEDS = {
    "recommenders": ("recommenders==1.2.1", "pyspark==4.2.0", "pyarrow"),
    "replay": ("replay-rec[spark]==0.22.0", "pyspark==4.2.0"),
    "polars": ("polars==1.36.1", "numpy", "pyarrow"),
    "duckdb": ("duckdb==1.4.2", "numpy", "pyarrow"),
    "rectools": ("rectools==0.19.0", "pyarrow==18.1.0"),
    "ranx": ("ranx==0.3.21", "pandas<3", "pyarrow"),
}
"""What is installed for a contender, in an environment of its own; the others run in that of the project."""
LARGEST = {"recommenders": "M", "rectools": "M", "ranx": "S", "replay": "M"}
"""The largest size at which a contender fits into the memory, or the patience, of a small machine."""


@dataclass(frozen=True)
class Timed:
    """What a contender took.

    Args:
        name: Its name.
        first: Seconds of the first run in a fresh process, None where it did not finish.
        warm: Median of the seconds of the later ones.
        megabytes: Peak memory of all of its processes.
        n_values: How many values it computed.
        differs: Its values that are not those of the contender `window`, to 1e-9, where that was timed, too.
        why: Why it has no figures.
    """

    name: str
    first: float | None = None
    warm: float | None = None
    megabytes: float = 0.0
    n_values: int = 0
    differs: tuple[str, ...] = ()
    why: str = ""


def environment(name: str) -> Path:
    """The Python that a contender runs in."""
    if name not in NEEDS:
        return Path(sys.executable)
    folder = ROOT / ".rivals" / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDS[name]], check=True)
        ready.touch()
    return python


def processes_of(root: int) -> list[int]:
    """A process and all that it started, and so on."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            behind = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        children.setdefault(int(behind[1]), []).append(int(stat.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def memory_of(root: int) -> int:
    """Bytes of the memory that a process and all that it started hold, what they share counted once for each part of it."""
    total = 0
    for process in processes_of(root):
        try:
            told = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in told.splitlines() if line.startswith("Pss:"))
    return total


@contextmanager
def again_and_again(look: Callable[[], None], pause: float = 0.5) -> Iterator[None]:
    """Look, in a thread, until this is left.

    Args:
        look: What is done each time.
        pause: Seconds between two looks.
    """
    done = threading.Event()

    def loop() -> None:
        while not done.wait(pause):
            look()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def timed(name: str, command: list[str], limit: float) -> tuple[Timed, dict[str, float]]:
    """Run a command that prints seconds, and see how much memory it takes.

    Args:
        name: Name of the contender.
        command: The command. It prints lines of JSON, or lines with `1.5 s`.
        limit: Seconds until it is ended.
    """
    environ = {**os.environ, "PYSPARK_PYTHON": command[0], "PYTHONPATH": str(ROOT)}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environ, start_new_session=True, **piped) as process:
        peak = [0]

        def look() -> None:
            peak[0] = max(peak[0], memory_of(process.pid))

        with again_and_again(look):
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # what it has started, too
                out, err = process.communicate()
                err = f"not done after {limit:.0f} s"
    seconds, values = [], {}
    for line in out.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            seconds.append(told["seconds"])
            values = told["values"]
        elif found := re.search(r"\b(\d+\.\d+) s\b", line):
            seconds.append(float(found[1]))
    megabytes = peak[0] / 2**20
    if process.returncode or not seconds:
        lines = err.strip().splitlines() or ["it printed no seconds"]
        return Timed(name, megabytes=megabytes, why=f"did not finish: {lines[-1][:200]}"), {}
    warm = statistics.median(seconds[1:]) if len(seconds) > 1 else None
    return Timed(name, seconds[0], warm, megabytes, len(values)), values


def different(values: dict[str, float], ours: dict[str, float]) -> tuple[str, ...]:
    """The values that are not ours."""
    return tuple(
        name for name, value in values.items() if name in ours and (value is None or not abs(value - ours[name]) <= 1e-9)
    )


def table_of(found: list[Timed]) -> str:
    """The figures as a Markdown table."""
    one = next((timed.warm for timed in found if timed.name == "window"), None)
    lines = ["| who | first run, s | warm, s | ratio to `window` | peak memory, MB | values |", "|---|---|---|---|---|---|"]
    for own in found:
        if own.first is None:
            why = own.why.replace("|", r"\|")
            lines.append(f"| `{own.name}` | {why} | | | | |")
            continue
        ratio = f"{own.warm / one:.2f}" if own.warm and one else ""
        told = f"{own.n_values or ''}" + (f", {len(own.differs)} of them others than ours" if own.differs else "")
        warm = f"{own.warm:.1f}" if own.warm else ""
        lines.append(f"| `{own.name}` | {own.first:.1f} | {warm} | {ratio} | {own.megabytes:.0f} | {told} |")
    return "\n".join(lines)


def machine() -> str:
    """Where the figures were measured."""
    git = shutil.which("git") or "git"
    commit = subprocess.run([git, "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pandas", "numpy", "pyarrow"))
    where = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"{where}, {versions}, commit {commit.strip()}"


def into_page(page: Path, told: str, name: str = "figures") -> None:
    """Put a text between the marks of a page.

    Args:
        page: A page with the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
        told: What will stand there.
        name: Name of the marks.
    """
    marks = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(marks[0])
    _, _, after = rest.partition(marks[1])
    page.write_text(f"{before}{marks[0]}\n{told}\n{marks[1]}{after}")


def plot(found: list[Timed], path: Path) -> None:
    """Warm seconds as bars."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.fonttype"] = "none"
    done = sorted((own for own in found if own.warm), key=lambda own: own.warm or 0.0, reverse=True)
    figure, axes = plt.subplots(figsize=(7, 0.4 * len(done) + 0.8), layout="constrained")
    colours = ["#0072B2" if own.name in ("window", "lists") else "#999999" for own in done]
    bars = axes.barh([own.name for own in done], [own.warm or 0.0 for own in done], color=colours)
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set_xlabel("seconds, warm, median")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    """Time all, print the table, and put it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="M")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--also", nargs="*", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=1800, help="seconds until a contender is ended")
    parser.add_argument("--data", type=Path, help="default: a folder of the system's temporary one")
    parser.add_argument("--page", type=Path, help="the page that gets table and plot")
    parser.add_argument("--json", type=Path, help="a file that gets the figures")
    chosen = parser.parse_args()
    folder = folder_of(SIZES[chosen.size], chosen.data)
    rank = list(SIZES).index
    commands: dict[str, list[str]] = {}
    found: list[Timed] = []
    for name in chosen.only:
        if rank(chosen.size) > rank(LARGEST.get(name, "L")):
            found.append(Timed(name, why=f"runs up to size {LARGEST[name]} only"))
            continue
        commands[name] = [
            str(environment(name)),
            str(Path(__file__).with_name("contenders.py")),
            name,
            str(folder),
            str(chosen.rounds),
        ]
    for text in chosen.also:
        name, _, command = text.partition("=")
        told = command.replace("FOLDER", str(folder)).replace("ROUNDS", str(chosen.rounds + 1))
        commands[name] = shlex.split(told)
    values: dict[str, dict[str, float]] = {}
    for name, command in commands.items():
        start = time.perf_counter()
        own, values[name] = timed(name, command, chosen.limit)
        print(f"{name}: {own.first and round(own.first, 1)} s first, {own.warm and round(own.warm, 1)} s warm, "
              f"{own.megabytes:.0f} MB {own.why} ({time.perf_counter() - start:.0f} s in all)", flush=True)  # fmt: skip
        found.append(own)
    found = [replace(own, differs=different(values.get(own.name, {}), values.get("window", {}))) for own in found]
    users, items, length = SIZES[chosen.size]
    about = f"Size {chosen.size}: {users:,} users, {items:,} items, about {length} predictions for each user"
    told = f"{about}. {machine()}.\n\n{table_of(found)}"
    print(told)
    if chosen.json:
        chosen.json.write_text(
            json.dumps({"size": chosen.size, "machine": machine(), "found": [asdict(own) for own in found]}, indent=1)
        )
    if chosen.page:
        picture = chosen.page.parent / "pictures" / f"rivals-{chosen.size}.svg"
        picture.parent.mkdir(exist_ok=True)
        plot(found, picture)
        shown = f"![Warm seconds of every contender](pictures/{picture.name})"
        into_page(chosen.page, f"{told}\n\n{shown}")


if __name__ == "__main__":
    main()
