"""What jobs do with runs that are published: hold gates, compare models, and show the last nights.

The modules that need pyspark are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_recmetrics.errors import ConfigError, DataError, GateError
from spark_recmetrics.job.session_spark import session, tell
from spark_recmetrics.text import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.decisions.gates import GateResult
    from spark_recmetrics.job.files.config import Config, Published
    from spark_recmetrics.request.slices import Slice
    from spark_recmetrics.storage.credentials import Vault


def run_gates(config: Config, outcome: dict[str, Any], vault: Vault) -> None:
    """Hold the gates against a run that `evaluate` has published."""
    del vault  # no input is read
    if not config.gates:
        raise ConfigError("gates: expected at least one, found none")
    from spark_recmetrics.runs.history_spark import rows_of_run
    from spark_recmetrics.runs.identity import Run

    output = config.located(config.output)
    with session() as spark:
        published = earlier_rows(spark, config, every=True)
        rows = [row for row in published if (row["run_id"], row["as_of"]) == (config.run_id, config.as_of or "none")]
        if not rows:
            expected = f"run {config.run_id} as of {config.as_of or 'none'}"
            others = sorted({row["run_id"] for row in published if row["as_of"] == (config.as_of or "none")})
            found = f"{', '.join(others)} of another configuration" if others else "none"
            advice = "run evaluate first, with the same configuration but for gates"
            raise DataError(f"{output.table('summary')}: expected {expected}, found {found}: {advice}")
        per_user = rows_of_run(spark, output, Run(config.run_id, config.as_of), table="per_user")
        gate_results = judged(config, rows, published, per_user)
    outcome |= {"status": "ok", "gates": [row._asdict() for row in gate_results]}
    show_gates(gate_results)
    hold_gates(gate_results)


def run_comparison(config: Config, outcome: dict[str, Any], run_id: str | None) -> None:
    """Compare the models of a run that `evaluate` has published, by its PER_USER; nothing is written.

    The options of the comparison need not be those that the run was configured with. Slices of items are not in PER_USER.

    Args:
        config: The configuration.
        outcome: What is known so far for the result line; filled as the run goes on.
        run_id: The run; None: the newest of the job that has the same `as_of`.
    """
    from spark_recmetrics.decisions.comparison_spark import compared
    from spark_recmetrics.job.files.config import ComparisonOptions
    from spark_recmetrics.metrics.parsing import named_populations
    from spark_recmetrics.runs.history_spark import published_rows, rows_of_run
    from spark_recmetrics.runs.identity import Run

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
    from spark_recmetrics.request.slices import Slice, bands_of
    from spark_recmetrics.storage.actions import collect_rows

    texts = sorted({row["slice"] for row in collect_rows(summary.select("slice").distinct())} - {"all"})
    parsed = [Slice.parse(text) for text in texts]
    return [one for one in parsed if all(band.column in per_user.columns for band in bands_of([one]))]


def history_of(config: Published, metric: str, last: int) -> str:
    """The values of a metric in the last nights of a job, as text. It says so where their labels have no order.

    Raises:
        ConfigError: There is no such metric.
        DataError: The job has not published it.
    """
    from spark_recmetrics.metrics import parse
    from spark_recmetrics.reports.tables import history_table
    from spark_recmetrics.runs.history_spark import published_rows
    from spark_recmetrics.runs.order import label_format

    with session() as spark:
        rows = published_rows(spark, config.located(config.output), config.job, [str(parse(metric))])
    if not rows:
        where = config.located(config.output).table("summary")
        raise DataError(f"{where}: expected runs of job {config.job} with {parse(metric)}, found none: check --metric and job")
    of_form = {label_format(as_of): as_of for as_of in sorted({row["as_of"] for row in rows}, reverse=True)}
    text = f"{config.job}, {parse(metric)}\n\n{history_table(rows, last)}"
    if len(of_form) == 1:
        return text
    found = ", ".join(sorted(of_form.values()))
    return f"{text}\n\nwarning: as_of: expected labels of one form, found {found}: they are ordered as text"


def earlier_rows(spark: SparkSession, config: Config, *, every: bool = False) -> list[dict[str, Any]]:
    """What the runs of the job have published of the metrics of gates: those that need it, or all."""
    from spark_recmetrics.runs.history_spark import published_rows

    wanted = sorted({gate.metric for gate in config.gates if every or gate.needs_history})
    return published_rows(spark, config.located(config.output), config.job, wanted) if wanted else []


def judged(
    config: Config, rows: Sequence[dict[str, Any]], earlier: Sequence[dict[str, Any]], per_user: DataFrame
) -> list[GateResult]:
    """The results of the gates of the configuration.

    Args:
        config: The configuration.
        rows: The rows of SUMMARY of this run.
        earlier: Those of earlier runs.
        per_user: PER_USER of this run, for gates that pair users.
    """
    from spark_recmetrics.decisions.gates import check_gates

    return check_gates(config.gates, rows, earlier, _pairs(config, rows, per_user))


def _pairs(config: Config, rows: Sequence[dict[str, Any]], per_user: DataFrame) -> list[Mapping[str, Any]]:
    """COMPARISON of the models with the baselines of gates, by the paired t test."""
    from spark_recmetrics.decisions.comparison_spark import compared
    from spark_recmetrics.decisions.gates import ALPHA
    from spark_recmetrics.metrics import parse
    from spark_recmetrics.metrics.parsing import named_populations

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


def show_gates(gate_results: Sequence[GateResult]) -> None:
    """Print the result of every gate."""
    for row in gate_results:
        tell(row.line())


def hold_gates(gate_results: Sequence[GateResult]) -> None:
    """End the job where a gate failed.

    Raises:
        GateError: One did.
    """
    failed = [row.line() for row in gate_results if row.result == "fail"]
    if failed:
        raise GateError("\n".join(failed))
