"""Makes the pictures of docs/gallery.md from the demo on MovieLens 100K. `make pictures` runs it after the demo.

The history has six simulated runs: the first trains its models on half of the ratings, each later run on a tenth more.
"""

from __future__ import annotations

import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "jobs"), str(ROOT / "tests")]

import browser as chromium  # noqa: E402 - found through the line above
import prepare_demo  # noqa: E402

import spark_recmetrics as srm  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEMO, PICTURES = ROOT / ".demo" / "ml-100k", ROOT / "docs" / "pictures"
MODELS = ("als", "popularity", "random")
OPTIONS: dict[str, Any] = {"threshold": 4.0}
SEED = 17


def main() -> None:
    """Evaluate, draw, and take pictures of the report."""
    spark = SparkSession.builder.appName("make_pictures").getOrCreate()
    try:
        for name, figure in figures(spark).items():
            save(figure, PICTURES / f"{name}.svg")
    finally:
        spark.stop()
    screenshots(DEMO / "report.html")


def figures(spark: SparkSession) -> dict[str, Figure]:
    """The figures, by the name of their file."""

    def table(name: str) -> DataFrame:
        return spark.read.parquet((DEMO / name).as_uri())

    def of_models(name: str) -> DataFrame:
        return _union({model: table(f"{model}/{name}") for model in MODELS})

    truth, train = table("truth"), table("train")
    result = srm.evaluate(
        of_models("predictions"),
        truth,
        metrics=["ndcg", "recall"],
        k=[1, 3, 5, 10, 20, 50],
        user_segments=table("users"),
        slices=["gender", "age(18, 25, 35, 45, 56)"],
        min_users=20,
        **OPTIONS,
    )
    rated = srm.evaluate(of_models("rating_predictions"), truth, metrics="rmse", **OPTIONS)
    compared = srm.compare(result, baseline="popularity")
    return {
        "metric-by-k": srm.plots.metric_by_k(result),
        "differences": srm.plots.differences(compared, [f"{name}@{k}" for name in ("ndcg", "recall") for k in (5, 10, 20)]),
        "slices": srm.plots.slices(result, "ndcg@10"),
        "score-calibration": srm.plots.score_calibration(result),
        "rating-calibration": srm.plots.score_calibration(rated),
        "history": srm.plots.history([row for n in range(6) for row in rows_of_run(train, truth, n)]),
    }


def rows_of_run(train: DataFrame, truth: DataFrame, n: int) -> list[dict[str, Any]]:
    """The rows of SUMMARY of the n-th run."""
    share = F.pmod(F.xxhash64("user_id", "item_id", F.lit(SEED)), F.lit(10))
    frames = prepare_demo.predict(train.where(share < 5 + n), truth, implicit=True, seed=SEED)
    lists = _union({model: frames[f"{model}/predictions"] for model in MODELS[:2]})
    run = srm.Run(run_id=f"run {n}", as_of=f"2026-01-{n + 1:02}")
    return srm.evaluate(lists, truth, metrics="ndcg", k=10, run=run, **OPTIONS).rows


def _union(frames: dict[str, DataFrame]) -> DataFrame:
    named = (frame.select(F.lit(model).alias("model"), "user_id", "item_id", "score") for model, frame in frames.items())
    return reduce(DataFrame.unionByName, named)


def save(figure: Figure, path: Path) -> None:
    """Write an SVG with text as text, identical for identical figures."""
    import matplotlib as mpl

    # White, because text is dark and the page may be dark, too.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


def screenshots(report: Path) -> None:
    """Pictures of the top of the report, on a desktop and a phone, and of its main sections."""
    if not (chromium.DRIVER and chromium.CHROMIUM):
        print(f"no pictures of the report: {chromium.WHY_NOT}")
        return
    if not report.is_file():  # a browser would take a picture of its error message
        raise SystemExit(f"make_pictures: expected {report}, found none: run make demo DATA=ml-100k")
    views = {"desk": (1100, 1000, "light"), "phone": (390, 844, "dark")}
    with chromium.browser() as browser:
        for name, (width, height, scheme) in views.items():
            path = PICTURES / f"report-{name}.png"
            browser.open(report.as_uri(), width=width, height=height, scheme=scheme)
            browser.screenshot(path)
            crop(path, 0, height)
        browser.open(report.as_uri(), width=1100, height=1000, scheme="light")
        for name in ("values", "differences", "slices"):
            path = PICTURES / f"report-{name}.png"
            box = f"document.getElementById('{name}').closest('section').getBoundingClientRect()"
            top, height = browser.run(f"const box = {box}; return [box.top + scrollY, box.height]")
            browser.screenshot(path)
            crop(path, int(top), min(int(height), 1210))  # the section of slices is longer


def crop(path: Path, top: int, height: int) -> None:
    """Crop a picture of a page to a band, with few colors."""
    from PIL import Image

    with Image.open(path) as whole:
        small = whole.convert("RGB").crop((0, top, whole.width, min(top + height, whole.height))).quantize(64)
    small.save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
