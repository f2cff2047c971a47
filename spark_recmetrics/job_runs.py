"""What the jobs do: from a configuration to published tables, printed tables, and the outcome for the result line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spark_recmetrics.errors import ConfigError, DataError, GateError, printable
from spark_recmetrics.report import metric_table, slice_table, unmarked
from spark_recmetrics.schema import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.comparison import Comparison
    from spark_recmetrics.config import Config, Published
    from spark_recmetrics.credentials import Vault
    from spark_recmetrics.gates import Verdict
    from spark_recmetrics.pipeline import Result
    from spark_recmetrics.sides import SplitReport
    from spark_recmetrics.slices import Slice
    from spark_recmetrics.split_config import SplitConfig


def tell(text: object = "") -> None:
    """Print for people. No line begins with the mark of the result line, which is for programs."""
    print(unmarked(str(text)), flush=True)


def run_evaluation(config: Config, outcome: dict[str, Any], user: str | None, vault: Vault, *, gated: bool) -> None:
    """Evaluate, publish, print, and hold the gates unless that is left to the other job.

    Args:
        config: The configuration.
        outcome: What is known so far for the result line; filled as the run goes on.
        user: A user whose lists are printed, too.
        vault: The secrets of the inputs.
        gated: Whether the gates are held.

    Raises:
        DataError: A worker lacks what the driver has, a check of the preflight fails, the data are refused, or there is nobody
            to average.
        GateError: A gate failed. Everything is written then.
    """
    from spark_recmetrics import history
    from spark_recmetrics.doctor import examine_worker
    from spark_recmetrics.outcome import Run
    from spark_recmetrics.pipeline import evaluate as evaluate_frames
    from spark_recmetrics.schema import DATA_REPORT, GATES

    run, output = Run(config.run_id, config.as_of, config.hash, config.job), config.located(config.output)
    with session() as spark:
        worker = examine_worker(spark)
        if worker.level == "FAIL":
            raise DataError(f"{worker}: nothing was read or written")
        given = _given(spark, config, vault)
        if config.preflight is not None:
            _proved(config, given, outcome)
            given["train"] = given["train"] if config.evaluation.reads_train else None  # it was there for the preflight
        try:
            result = evaluate_frames(**given, **_sliced(spark, config, vault), run=run)
        except DataError as error:
            if error.facts:
                report = spark.createDataFrame(list(error.facts), DATA_REPORT)
                outcome["tables"] = history.publish({"data_report": report}, output, run)
            raise
        try:
            held = gated and bool(config.gates)
            verdicts = _judged(config, result.rows, _earlier(spark, config), result.per_user) if held else []
            frames = {name: getattr(result, name) for name in ("data_report", "per_user", "summary")}
            if verdicts:
                frames["gates"] = spark.createDataFrame(verdicts, GATES)
            comparison = _compared(config, result, outcome)
            if comparison is not None:
                frames["comparison"] = comparison.to_spark(spark)
            outcome["tables"] = history.publish(frames, output, run)
        finally:
            result.release()
        outcome["gates"] = [verdict._asdict() for verdict in verdicts]
        outcome |= {"status": result.status, "models": result.to_dict(), "n_users": result.n_users}
        # What is empty is the error that the job ends with.
        own = [line for line in result.warnings if line not in result.emptiness]
        outcome["warnings"] = [*own, *outcome["warnings"]]
        outcome["report"] = _report(spark, config, result, comparison, verdicts, outcome, vault)
        _show(config, result, outcome, comparison)
        if user is not None:
            _show_user(result, user)
    if result.status != "ok":
        raise DataError("\n".join(result.emptiness))
    _show_gates(verdicts)


def run_preflight(config: Config, outcome: dict[str, Any], vault: Vault) -> None:
    """Prove that the evaluation would measure what it says, whether or not it is asked to do so itself.

    Raises:
        DataError: A check fails.
    """
    with session() as spark:
        _proved(config, _given(spark, config, vault), outcome)
    outcome["status"] = "ok"


def _proved(config: Config, given: Mapping[str, Any], outcome: dict[str, Any]) -> None:
    """Print one line per check.

    Raises:
        DataError: One fails.
    """
    from spark_recmetrics.preflight import prove

    options = {} if config.preflight is None else config.preflight.model_dump()
    for check in prove(**given, **options):
        tell(check)
        outcome["preflight"].append(asdict(check))
    failed = [check["name"] for check in outcome["preflight"] if check["level"] == "FAIL"]
    if failed:
        n = len(outcome["preflight"])
        raise DataError(f"preflight: {len(failed)} of {n} checks failed: {', '.join(failed)}: nothing was published")


def run_gates(config: Config, outcome: dict[str, Any], vault: Vault) -> None:
    """Hold the gates against a run that `evaluate` has published."""
    del vault  # no input is read
    if not config.gates:
        raise ConfigError("gates: expected at least one, found none")
    from spark_recmetrics.history import rows_of_run
    from spark_recmetrics.outcome import Run

    output = config.located(config.output)
    with session() as spark:
        published = _earlier(spark, config, every=True)
        rows = [row for row in published if (row["run_id"], row["as_of"]) == (config.run_id, config.as_of or "none")]
        if not rows:
            where = output.table("summary")
            raise DataError(f"{where}: expected run {config.run_id} as of {config.as_of}, found none: run evaluate first")
        per_user = rows_of_run(spark, output, Run(config.run_id, config.as_of), table="per_user")
        verdicts = _judged(config, rows, published, per_user)
    outcome |= {"status": "ok", "gates": [verdict._asdict() for verdict in verdicts]}
    _show_gates(verdicts)


def run_comparison(config: Config, outcome: dict[str, Any], run_id: str | None) -> None:
    """Compare the models of a run that `evaluate` has published, by its PER_USER; nothing is written.

    The options of the comparison need not be those that the run was configured with. Slices of items are not in PER_USER.

    Args:
        config: The configuration.
        outcome: What is known so far for the result line; filled as the run goes on.
        run_id: The run; None: the newest of the job that has the same `as_of`.
    """
    from spark_recmetrics.comparison import compared
    from spark_recmetrics.config import ComparisonOptions
    from spark_recmetrics.history import published_rows, rows_of_run
    from spark_recmetrics.metrics.text import named_populations
    from spark_recmetrics.outcome import Run

    output, as_of = config.located(config.output), config.as_of or "none"
    metrics = [metric for metric in config.evaluation.expanded if metric.has_users]
    options = config.comparison or ComparisonOptions()
    if not metrics:
        found = ", ".join(map(str, config.evaluation.expanded))
        raise ConfigError(f"evaluation.metrics: expected at least one with a value for each user, found {found}")
    with session() as spark:
        rows = published_rows(spark, output, config.job, list(map(str, metrics)))
        rows = [row for row in rows if row["as_of"] == as_of and run_id in (None, row["run_id"])]
        if not rows:
            named = f"run {run_id}" if run_id else f"a run of job {config.job}"
            expected = f"{named} as of {as_of} with {', '.join(map(str, metrics))}"
            raise DataError(f"{output.table('summary')}: expected {expected}, found none: run evaluate first")
        chosen = max(rows, key=lambda row: row["computed_at"])["run_id"]
        rows = [row for row in rows if row["run_id"] == chosen]
        rules, run = named_populations(config.evaluation.chosen_convention), Run(chosen, config.as_of)
        if others := {row["convention"] for row in rows} - {str(rules)}:
            found = printable(", ".join(sorted(others)))
            raise DataError(f"run {chosen}: expected convention {rules}, which the configuration has, found {found}")
        per_user = rows_of_run(spark, output, run, table="per_user")
        names, known = {row["model"] for row in rows}, {row["metric"] for row in rows}
        if options.baseline is not None and options.baseline not in names:
            found = printable(", ".join(sorted(names)))
            raise DataError(f"run {chosen}: expected the baseline {options.baseline!r} among its models, found {found}")
        comparison = compared(
            per_user,
            [name for name in config.inputs.models or sorted(names) if name in names],
            [metric for metric in metrics if str(metric) in known],
            rules,
            **options.model_dump(),
            slices=_slices_of(rows_of_run(spark, output, run, table="summary"), per_user),
            min_users=config.evaluation.min_users,
            n_parts=config.evaluation.n_buckets,
        )
    tell(f"{config.job}, run {chosen} as of {as_of}\n\n{comparison}")
    outcome |= {"status": "ok", "run_id": chosen, "comparison": [dict(row) for row in comparison.rows]}


def _slices_of(summary: DataFrame, per_user: DataFrame) -> list[Slice]:
    """The slices of users that a published run has values of."""
    from spark_recmetrics.slices import Slice, bands_of
    from spark_recmetrics.tables import collect_rows

    texts = sorted({row["slice"] for row in collect_rows(summary.select("slice").distinct())} - {"all"})
    parsed = [Slice.parse(text) for text in texts]
    return [one for one in parsed if all(band.column in per_user.columns for band in bands_of([one]))]


def history_of(config: Published, metric: str, last: int) -> str:
    """The values of a metric in the last nights of a job, as text. It says so where their labels have no order.

    Raises:
        ConfigError: There is no such metric.
        DataError: The job has not published it.
    """
    from spark_recmetrics.history import published_rows
    from spark_recmetrics.metrics import parse
    from spark_recmetrics.nights import form_of
    from spark_recmetrics.report import history_table

    with session() as spark:
        rows = published_rows(spark, config.located(config.output), config.job, [str(parse(metric))])
    if not rows:
        where = config.located(config.output).table("summary")
        raise DataError(f"{where}: expected runs of job {config.job} with {parse(metric)}, found none: check --metric and job")
    of_form = {form_of(as_of): as_of for as_of in sorted({row["as_of"] for row in rows}, reverse=True)}
    text = f"{config.job}, {parse(metric)}\n\n{history_table(rows, last)}"
    if len(of_form) == 1:
        return text
    found = ", ".join(sorted(of_form.values()))
    return f"{text}\n\nwarning: as_of: expected labels of one form, found {found}: they are ordered as text"


def _earlier(spark: SparkSession, config: Config, *, every: bool = False) -> list[dict[str, Any]]:
    """What the runs of the job have published of the metrics of gates: those that need it, or all."""
    from spark_recmetrics.history import published_rows

    wanted = sorted({gate.metric for gate in config.gates if every or gate.needs_history})
    return published_rows(spark, config.located(config.output), config.job, wanted) if wanted else []


def _compared(config: Config, result: Result, outcome: dict[str, Any]) -> Comparison | None:
    """The comparison that the configuration asks for, if its models are there tonight; else a warning of the run."""
    from spark_recmetrics.comparison import compare

    if config.comparison is None:
        return None
    models, baseline = result.plan.models, config.comparison.baseline
    if len(models) < 2:
        outcome["warnings"].append("comparison: expected at least two models, found one")
        return None
    if baseline is not None and baseline not in models:
        known = printable(", ".join(models))
        outcome["warnings"].append(f"comparison: expected baseline {baseline!r} among the models, found {known}: not compared")
        return None
    return compare(result, **config.comparison.model_dump())


def _judged(
    config: Config, rows: Sequence[dict[str, Any]], earlier: Sequence[dict[str, Any]], per_user: DataFrame
) -> list[Verdict]:
    from spark_recmetrics.gates import judge

    return judge(config.gates, rows, earlier, _pairs(config, rows, per_user))


def _pairs(config: Config, rows: Sequence[dict[str, Any]], per_user: DataFrame) -> list[Mapping[str, Any]]:
    """COMPARISON of the models with the baselines of gates, by the paired t test."""
    from spark_recmetrics.comparison import compared
    from spark_recmetrics.gates import ALPHA
    from spark_recmetrics.metrics import parse
    from spark_recmetrics.metrics.text import named_populations

    rules = named_populations(config.evaluation.chosen_convention)
    models, wanted = {row["model"] for row in rows}, dict[str, set[str]]()
    # Without a test, the differences of users say something of means over users alone.
    of_users = {row["metric"] for row in rows if row["std"] is not None}
    for gate in config.gates:
        asked = gate.needs_pairs and (gate.significant or gate.metric in of_users)
        if asked and gate.baseline is not None and gate.baseline in models and len(models) > 1:
            wanted.setdefault(gate.baseline, set()).add(gate.metric)
    found: list[Mapping[str, Any]] = []
    for baseline, texts in wanted.items():
        found += compared(
            per_user,
            sorted(models),
            [parse(text) for text in sorted(texts)],
            rules,
            baseline=baseline,
            correction="none",
            alpha=ALPHA,
            n_parts=config.evaluation.n_buckets,
        ).rows
    return found


def _report(
    spark: SparkSession,
    config: Config,
    result: Result,
    comparison: Comparison | None,
    verdicts: Sequence[Verdict],
    outcome: dict[str, Any],
    vault: Vault,
) -> str | None:
    """Write the HTML report that the configuration asks for. All tables are there already, so what hinders it is a warning."""
    from spark_recmetrics.history import published_rows
    from spark_recmetrics.report import headline_of
    from spark_recmetrics.source import as_yaml

    if config.report_path is None:
        return None
    told = [headline_of(result.rows), *(gate.metric for gate in config.gates)]
    try:
        path = result.to_html(
            config.report_path,
            comparison=comparison,
            gates=verdicts,
            history=published_rows(spark, config.located(config.output), config.job, list(dict.fromkeys(told))),
            configuration=as_yaml(config.resolved()),
        )
    except Exception as error:  # noqa: BLE001 - it may not end a run whose numbers are there
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        outcome["warnings"].append(f"report: not written: {vault.covered(reason)}")
        return None
    return str(path)


def _show_gates(verdicts: Sequence[Verdict]) -> None:
    """Print every verdict.

    Raises:
        GateError: One failed.
    """
    for verdict in verdicts:
        tell(verdict.line())
    failed = [verdict.line() for verdict in verdicts if verdict.verdict == "fail"]
    if failed:
        raise GateError("\n".join(failed))


def run_split(config: SplitConfig, outcome: dict[str, Any], vault: Vault) -> None:
    """Split a table, publish the sides, and print the reports."""
    from spark_recmetrics import splits
    from spark_recmetrics.outcome import Run
    from spark_recmetrics.tables import read_table

    with session() as spark:
        rows = read_table(spark, config.located(config.input), "input", vault)
        found = getattr(splits, config.split.method)(rows, **config.arguments)
        run = Run(config.run_id, config.as_of, config.hash, config.job)
        outcome["tables"] = splits.publish(found, config.located(config.output), run)
        outcome |= {"status": "ok", "reports": [report.to_dict() for report in found.reports]}
        outcome["warnings"] = [line for report in found.reports for line in report.warnings]
    _show_split(config, found.reports, outcome)


def _given(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """The configuration as arguments of `evaluate`, and of `prove`."""
    return {
        **_inputs(spark, config, vault),
        "metrics": config.evaluation.expanded,
        "k": None,  # where they have none, it is the whole list
        "threshold": config.evaluation.threshold,
        "convention": config.evaluation.convention,
        "columns": config.columns,
        "checks": config.checks,
        "cast_ids": config.inputs.cast_ids,
        "n_buckets": config.evaluation.n_buckets,
    }


def _sliced(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """What `evaluate` is told of slices and intervals, of items, and of the baseline."""
    read = _reader(spark, config, vault)
    named = {key: getattr(config.inputs, key) for key in ("user_segments", "item_groups", "item_features")}
    return {
        **{key: None if place is None else read(place, key) for key, place in named.items()},
        "baseline": config.evaluation.baseline,
        "slices": config.evaluation.slices,
        "min_users": config.evaluation.min_users,
        "intervals": config.evaluation.intervals.chosen,
    }


def _reader(spark: SparkSession, config: Config, vault: Vault) -> Callable[[Location, str], DataFrame]:
    from spark_recmetrics.tables import read_table

    return lambda place, key: read_table(spark, config.located(place), f"inputs.{key}", vault)


def _inputs(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """The frames of the configuration."""
    from spark_recmetrics.inputs import union_models

    inputs, read = config.inputs, _reader(spark, config, vault)
    found: dict[str, Any] = {"model_name": config.model_name}

    def union(tables: dict[str, Location], key: str) -> DataFrame:
        frames = {model: read(place, f"models.{model}.{key}") for model, place in tables.items()}
        return union_models(key, frames, config.columns, config.inputs.cast_ids)

    for key in ("predictions", "rating_predictions", "truth", "train", "catalog"):
        given = getattr(inputs, key)
        found[key] = read(given, key) if isinstance(given, Location) else given
    if inputs.models is None:
        return found
    found["models"] = list(inputs.models)
    found["predictions"] = union({model: own.predictions for model, own in inputs.models.items()}, "predictions")
    if any(own.rating_predictions for own in inputs.models.values()):
        rated = {model: own.rating_predictions or own.predictions for model, own in inputs.models.items()}
        found["rating_predictions"] = union(rated, "rating_predictions")
    return found


@contextmanager
def session() -> Iterator[SparkSession]:
    """The session that is there, or a new one, which is stopped at the end."""
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # No spark-submit has chosen a Python for the workers, and theirs would be the python3 of the path.
        os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    own = SparkSession.builder.appName("spark-recmetrics").getOrCreate()
    try:
        yield own
    finally:
        own.stop()


def _show(config: Config, result: Result, outcome: dict[str, Any], comparison: Comparison | None) -> None:
    from spark_recmetrics.outcome import headline

    as_of = f", as of {config.as_of}" if config.as_of else ""
    users = ", ".join(f"{printable(model)} {n}" for model, n in outcome["n_users"].items())
    tell(f"{config.job}{as_of}, convention {result.convention}, users averaged: {users}\n")
    tell(metric_table([row for row in result.rows if row["slice"] == "all"]))
    tell("\n* best value of the line\n")
    of_model = next(iter(result.means.values()))
    sliced = [headline(of_model).metric] if result.slices else []
    sliced += [mean.metric for mean in of_model if mean.metric.definition.by_pair]
    for metric in dict.fromkeys(sliced):
        tell(f"{slice_table(result.rows, str(metric))}\n")
    if comparison is not None:
        tell(f"{comparison}\n")
    for warning in outcome["warnings"]:
        tell(f"warning: {printable(warning)}")
    for name, place in outcome["tables"].items():
        tell(f"{name:<12} {place}  (as_of={outcome['as_of'] or 'none'}, run_id={outcome['run_id']})")
    if outcome["report"] is not None:
        tell(f"{'report':<12} {printable(outcome['report'])}")


def _show_split(config: SplitConfig, reports: Sequence[SplitReport], outcome: dict[str, Any]) -> None:
    tell(f"{config.job}{f', as of {config.as_of}' if config.as_of else ''}, {reports[0].method}\n")
    for report in reports:
        tell(report)
    tell()
    for warning in outcome["warnings"]:
        tell(f"warning: {printable(warning)}")
    for name, place in outcome["tables"].items():
        tell(f"{name:<12} {place}  (as_of={outcome['as_of'] or 'none'}, run_id={outcome['run_id']})")


def _show_user(result: Result, user: str) -> None:
    """The lists of one user. That there is no such user is no reason to fail: all tables are written."""
    try:
        tell(f"\n{result.explain(user)}\n")
    except DataError as error:
        tell(f"warning: --explain-user: {printable(str(error))}")
