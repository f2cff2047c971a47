"""What the jobs do: from a configuration to published tables, printed tables, and the outcome for the result line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_recmetrics.errors import DataError, GateError, PublishError, RecMetricsError, reason_of
from spark_recmetrics.job.published import earlier_rows, hold_gates, judged, show_gates
from spark_recmetrics.job.session_spark import session, tell
from spark_recmetrics.reports.tables import metric_table, pareto_table, slice_table
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.progress import step
from spark_recmetrics.text import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.decisions.comparison_spark import Comparison
    from spark_recmetrics.decisions.gates import GateResult
    from spark_recmetrics.diagnostics.doctor_spark import Check
    from spark_recmetrics.evaluation.spark import Result
    from spark_recmetrics.job.files.config import Config
    from spark_recmetrics.job.files.split_config import SplitConfig
    from spark_recmetrics.splits import SplitReport
    from spark_recmetrics.storage.credentials import Vault


def run_evaluation(config: Config, outcome: dict[str, Any], user: str | None, vault: Vault, *, gated: bool) -> None:
    """Evaluate, publish, print, and judge the gates. Where the run has no values, its HTML report says so.

    Args:
        config: The configuration.
        outcome: What is known so far for the result line; filled as the run goes on.
        user: A user whose lists are printed, too.
        vault: The secrets of the inputs.
        gated: Whether a gate that fails ends the job; else that is left to the other job.

    Raises:
        DataError: The driver lacks a package, or a worker what the driver has; a check of the preflight fails, the data are
            refused, or there is nobody to average.
        GateError: A gate failed. Everything is written then.
        PublishError: The tables, or with `on_error: fail` the tracker, could not be written.
    """
    try:
        found = _evaluated(config, outcome, user, vault)
    except Exception as error:
        if outcome["report"] is None:
            _report_end(config, error, outcome, vault)
        raise
    lost = _track(config, found, outcome)
    try:
        _end(found.result, found.gate_results, gated=gated)
    except (DataError, GateError):
        if lost is not None:  # the job ends with one error, and this is not it
            tell(f"warning: {lost}")
            outcome["warnings"].append(str(lost))
        raise
    if lost is not None:
        raise lost


class _Evaluated(NamedTuple):
    """What a run has found, and shown: as text on stdout, and as a page."""

    result: Result
    gate_results: list[GateResult]
    comparison: Comparison | None
    told: str
    page: str | None


def _evaluated(config: Config, outcome: dict[str, Any], user: str | None, vault: Vault) -> _Evaluated:
    """Evaluate, publish, print and write the report."""
    from spark_recmetrics.evaluation.spark import evaluate as evaluate_frames
    from spark_recmetrics.job.mlflow import check_installed
    from spark_recmetrics.runs import history_spark as history
    from spark_recmetrics.runs.identity import Run
    from spark_recmetrics.storage.schemas import DATA_REPORT, GATES

    run, output = Run(config.run_id, config.as_of, config.hash, config.job), config.located(config.output)
    if config.tracking is not None:
        check_installed("tracking.mlflow")
    with _examined_session() as spark:
        with step(spark, "tables"):
            given, beside = _given(spark, config, vault), _sliced(spark, config, vault)
        known = given if config.evaluation.reads_train else {**given, "train": None}  # it is there for the preflight
        # What would be refused anyway is refused before the preflight, which takes minutes.
        before = None if config.preflight is None else partial(_proved, spark, config, given, outcome)
        try:
            result = evaluate_frames(**known, **beside, run=run, before=before)
        except DataError as error:
            if error.data_checks:
                report = spark.createDataFrame(list(error.data_checks), DATA_REPORT)
                outcome["tables"] = history.publish({"data_report": report}, output, run)
            raise
        try:
            gate_results: list[GateResult] = []
            if config.gates:
                with step(spark, "gates"):
                    gate_results = judged(config, result.rows, earlier_rows(spark, config), result.per_user)
            frames = {name: getattr(result, name) for name in ("data_report", "per_user", "summary")}
            if gate_results:
                frames["gates"] = spark.createDataFrame(gate_results, GATES)
            comparison = _compared(config, result, outcome)
            if comparison is not None:
                frames["comparison"] = comparison.to_spark(spark)
            outcome["tables"] = history.publish(frames, output, run)
        finally:
            result.release()
        outcome["gates"] = [row._asdict() for row in gate_results]
        outcome["pareto"] = [standing._asdict() for standing in result.pareto()]
        outcome |= {"status": result.status, "models": result.to_dict(), "n_users": result.n_users}
        # What is empty is the error that the job ends with.
        own = [line for line in result.warnings if line not in result.emptiness]
        outcome["warnings"] = [*own, *outcome["warnings"]]
        page = _report(spark, config, result, comparison, gate_results, outcome, vault)
        told = _told(config, result, outcome, comparison)
        tell(told)
        for name, place in outcome["tables"].items():
            tell(f"{name:<12} {place}  (as_of={outcome['as_of'] or 'none'}, run_id={outcome['run_id']})")
        if outcome["report"] is not None:
            _tell_report(outcome)
        if user is not None:
            with step(spark, "lists of a user"):
                _show_user(result, user)
    return _Evaluated(result, gate_results, comparison, told, page)


@contextmanager
def _examined_session() -> Iterator[SparkSession]:
    """A session on machines that have all packages: what one lacks would end a run later, when it has worked for long."""
    from spark_recmetrics.diagnostics.doctor_spark import examine_driver, examine_worker

    def refuse(side: Check) -> None:
        if side.level == "FAIL":
            raise DataError(f"{side}: nothing was read or written")

    refuse(examine_driver())
    with session() as spark:
        with step(spark, "workers"):
            refuse(examine_worker(spark))
        yield spark


def _end(result: Result, gate_results: Sequence[GateResult], *, gated: bool) -> None:
    """Show the results of the gates, and hold the gates unless that is left to the other job.

    Raises:
        DataError: There is nobody to average.
        GateError: A gate failed.
    """
    if result.status != "ok":
        raise DataError("\n".join(result.emptiness))
    show_gates(gate_results)
    if gated:
        hold_gates(gate_results)
    elif gate_results:
        tell("--no-gates: a gate that fails ends the command gate, and not this one")


def _track(config: Config, found: _Evaluated, outcome: dict[str, Any]) -> PublishError | None:
    """Log the run to MLflow if the configuration asks for it. Everything is published by now, and a tracker that fails is told.

    Returns:
        The failure, where the configuration says that it is one of the job.
    """
    if config.tracking is None:
        return None
    from spark_recmetrics.job.mlflow import track

    options = config.tracking.mlflow
    more = {key: outcome[key] for key in ("warnings", "gates", "tables", "preflight")}
    more["comparison"] = [] if found.comparison is None else found.comparison.rows
    try:
        told = track(found.result, options, report=found.told, page=found.page, more=more)
    except PublishError as error:
        outcome["tracking"] = {"mlflow": {}}
        if options.on_error == "fail":
            return error
        warnings = [f"{error}: the tables are published; log the run again by running the job again"]
    else:
        outcome["tracking"] = {"mlflow": told.runs}
        warnings = told.warnings
        tell(f"{'mlflow':<12} {', '.join(f'{printable(model)} {run_id}' for model, run_id in told.runs.items())}")
    for warning in warnings:
        tell(f"warning: {warning}")
    outcome["warnings"] += warnings
    return None


def run_preflight(config: Config, outcome: dict[str, Any], vault: Vault) -> None:
    """Prove that the evaluation would measure what it says, whether or not it is asked to do so itself.

    Raises:
        DataError: The driver lacks a package, or a worker what the driver has; or a check fails.
    """
    with _examined_session() as spark:
        with step(spark, "tables"):
            given = _given(spark, config, vault)
        _proved(spark, config, given, outcome)
    outcome["status"] = "ok"


def _proved(spark: SparkSession, config: Config, given: Mapping[str, Any], outcome: dict[str, Any]) -> None:
    """Print one line per check.

    Raises:
        DataError: One fails.
    """
    from spark_recmetrics.diagnostics.preflight_spark import prove

    options = {} if config.preflight is None else config.preflight.model_dump()
    with step(spark, "preflight"):
        for check in prove(**given, **options):
            tell(check)
            outcome["preflight"].append(asdict(check))
    failed = [check["name"] for check in outcome["preflight"] if check["level"] == "FAIL"]
    if failed:
        n = len(outcome["preflight"])
        raise DataError(f"preflight: {len(failed)} of {n} checks failed: {', '.join(failed)}: nothing was published")


def _compared(config: Config, result: Result, outcome: dict[str, Any]) -> Comparison | None:
    """The comparison that the configuration asks for, if its models are there tonight; else a warning of the run."""
    from spark_recmetrics.decisions.comparison_spark import compare

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


def _report(
    spark: SparkSession,
    config: Config,
    result: Result,
    comparison: Comparison | None,
    gate_results: Sequence[GateResult],
    outcome: dict[str, Any],
    vault: Vault,
) -> str | None:
    """The HTML report, for the file that the configuration names, and for MLflow; None: neither is to have one.

    All tables are there already, so what hinders it is a warning.
    """
    from spark_recmetrics.evaluation.result import write_whole
    from spark_recmetrics.job.files.source import as_yaml
    from spark_recmetrics.reports.page import can_be_made
    from spark_recmetrics.reports.selection import headline_of
    from spark_recmetrics.runs.history_spark import published_rows

    if config.report_path is None and (config.tracking is None or not can_be_made()):
        return None
    told = [headline_of(result.rows), *(gate.metric for gate in config.gates)]
    try:
        with step(spark, "report"):
            page = result.as_html(
                comparison=comparison,
                gates=gate_results,
                history=published_rows(spark, config.located(config.output), config.job, list(dict.fromkeys(told))),
                configuration=as_yaml(config.resolved()),
            )
    except Exception as error:  # noqa: BLE001 - it may not end a run whose numbers are there
        outcome["warnings"].append(_unwritten(error, vault))
        return None
    if config.report_path is not None:
        try:
            outcome["report"] = str(write_whole(config.report_path, page))
        except PublishError as error:
            outcome["warnings"].append(_unwritten(error, vault))
    return page


def _report_end(config: Config, error: Exception, outcome: dict[str, Any], vault: Vault) -> None:
    """Write the HTML report of a run that ended without values, so that no older page stands for it."""
    if config.report_path is None:
        return
    try:
        from spark_recmetrics.evaluation.result import write_whole
        from spark_recmetrics.inputs.data_report import DataCheck
        from spark_recmetrics.job.files.source import as_yaml
        from spark_recmetrics.reports.page import Page

        known = {key: getattr(config, key) for key in ("job", "as_of", "run_id")}
        is_ours = isinstance(error, RecMetricsError)
        why = vault.masked(str(error)) if is_ours else reason_of(error, vault.masked)
        page = Page(
            run={**known, "config_hash": config.hash, "data_hash": None, "computed_at": datetime.now(timezone.utc)},
            rows=(),
            data_checks=[DataCheck._make(fact) for fact in error.data_checks] if isinstance(error, DataError) else (),
            convention=config.evaluation.chosen_convention,
            warnings=outcome["warnings"],
            emptiness=[printable(line) for line in why.split("\n")],
            confidence=config.evaluation.intervals.chosen.confidence,
            configuration=as_yaml(config.resolved()),
            ended="the run was refused" if isinstance(error, DataError) else "the run failed",
        )
        outcome["report"] = str(write_whole(config.report_path, page.html()))
        _tell_report(outcome)
    except Exception as hindrance:  # noqa: BLE001 - the run has an error of its own, which is the one to tell
        outcome["warnings"].append(_unwritten(hindrance, vault))
        tell(f"warning: {printable(outcome['warnings'][-1])}")


def _tell_report(outcome: Mapping[str, Any]) -> None:
    tell(f"{'report':<12} {printable(outcome['report'])}")


def _unwritten(error: Exception, vault: Vault) -> str:
    return f"report: not written: {reason_of(error, vault.masked)}"


def run_split(config: SplitConfig, outcome: dict[str, Any], vault: Vault) -> None:
    """Split a table, publish the sides, and print the reports."""
    from spark_recmetrics import splits
    from spark_recmetrics.runs.identity import Run
    from spark_recmetrics.storage.read import read_table

    with session() as spark:
        with step(spark, "splitting"):
            rows = read_table(spark, config.located(config.input), "input", vault, (config.columns.user, config.columns.item))
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
    """What `evaluate` alone is told: slices and intervals, items, the baseline, and where lists are ranked."""
    read = _reader(spark, config, vault)
    named = {key: getattr(config.inputs, key) for key in ("user_segments", "item_groups", "item_features")}
    return {
        **{key: None if place is None else read(place, key) for key, place in named.items()},
        "baseline": config.evaluation.baseline,
        "objectives": config.evaluation.objectives,
        "slices": config.evaluation.slices,
        "min_users": config.evaluation.min_users,
        "intervals": config.evaluation.intervals.chosen,
        "ranking": config.evaluation.ranking,
        "max_per_user": config.evaluation.max_per_user,
    }


def _reader(spark: SparkSession, config: Config, vault: Vault) -> Callable[[Location, str], DataFrame]:
    from spark_recmetrics.storage.read import read_table

    ids = (config.columns.user, config.columns.item)
    return lambda place, key: read_table(spark, config.located(place), f"inputs.{key}", vault, ids)


def _inputs(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """The frames of the configuration."""
    from spark_recmetrics.inputs.spark import union_models
    from spark_recmetrics.storage.read import example_in_errors

    inputs, read = config.inputs, _reader(spark, config, vault)
    found: dict[str, Any] = {"model_name": config.model_name}

    def union(tables: dict[str, Location], key: str) -> DataFrame:
        frames = {model: read(place, f"models.{model}.{key}") for model, place in tables.items()}
        with example_in_errors():
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


def _told(config: Config, result: Result, outcome: dict[str, Any], comparison: Comparison | None) -> str:
    """The report for people: values, differences, and what is to be warned of."""
    from spark_recmetrics.evaluation.result import headline

    as_of = f", as of {config.as_of}" if config.as_of else ""
    users = ", ".join(f"{printable(model)} {n}" for model, n in outcome["n_users"].items())
    blocks = [
        f"{config.job}{as_of}, convention {result.convention}, users averaged: {users}",
        metric_table([row for row in result.rows if row["slice"] == "all"]),
        *(["* best value of the line"] if len(result.means) > 1 else []),
    ]
    if result.objectives:
        blocks.append(pareto_table(result.pareto()))
    of_model = next(iter(result.means.values()))
    sliced = [headline(of_model).metric] if result.slices else []
    sliced += [mean.metric for mean in of_model if mean.metric.definition.by_pair]
    blocks += [slice_table(result.rows, str(metric)) for metric in dict.fromkeys(sliced)]
    if comparison is not None:
        blocks.append(str(comparison))
    if outcome["warnings"]:
        blocks.append("\n".join(f"warning: {printable(warning)}" for warning in outcome["warnings"]))
    return "\n\n".join(blocks)


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
