"""The result of an evaluation, on Spark or in memory: the values of SUMMARY, and warnings about the input."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

from spark_recmetrics.aggregation.means import Mean
from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import ConfigError, DataError, PublishError, check_argument
from spark_recmetrics.evaluation.calibration import Against, calibrate
from spark_recmetrics.evaluation.engine import Evaluated
from spark_recmetrics.evaluation.explain import Explanation, explain_user
from spark_recmetrics.inputs.data_report import EMPTINESS, DataCheck
from spark_recmetrics.metrics import COMBINED, Metric
from spark_recmetrics.metrics.objectives import Objectives, Standing
from spark_recmetrics.reports.markdown import as_markdown
from spark_recmetrics.reports.selection import headline_metric, of_all_users
from spark_recmetrics.reports.tables import comparison_table, metric_table, pareto_table, slice_table
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.slices import MIN_USERS, Slice, in_order
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.text import brief, counted, json_text, printable
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.reports.page import Page


@runtime_checkable
class Compared(Protocol):
    """What a report shows of a `Comparison`."""

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of COMPARISON."""

    @property
    def alpha(self) -> float:
        """The level of the tests."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The values of an evaluation. Its text is the table that a job prints.

    Args:
        means: The values of SUMMARY, by model.
        data_checks: The rows of DATA_REPORT.
        convention: The definitions of the metrics.
        run: Identity of the run.
        data_hash: Hash of the ground truth. It does not depend on the order of the rows.
        warnings: One line for each warning, including those in `emptiness`.
        slices: The slices.
        sliced: The values of slices, and of pairs of groups, by slice and value, then by model.
        min_users: Values of slices over fewer users are marked as small.
        objectives: Metrics that are combined. Their `euc_distance` and `hypervolume` are added to `means`.
        confidence: Confidence level of the confidence intervals.
        evaluated: What the stages of the evaluation returned; None for a result that is made from values.

    Example:
        >>> import pandas as pd
        >>> from spark_recmetrics.evaluation.stages import evaluate
        >>> predictions = pd.DataFrame({"user_id": [1, 1, 2], "item_id": [7, 8, 8], "score": [0.9, 0.8, 0.7]})
        >>> truth = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [8, 8, 9]})
        >>> evaluate(predictions, truth, metrics=["mrr", "hit"], k=[1, 2])
        convention default, evaluated users: model 3; 1 warning
        <BLANKLINE>
        metric  k   model
        mrr     1  0.3333
        mrr     2  0.5000
        hit     1  0.3333
        hit     2  0.6667
    """

    means: Mapping[str, Sequence[Mean]]
    data_checks: Sequence[DataCheck]
    convention: Convention
    run: Run
    data_hash: str | None
    warnings: Sequence[str]
    slices: Sequence[Slice] = ()
    sliced: Mapping[tuple[str, str], Mapping[str, Sequence[Mean]]] = field(default_factory=dict)
    min_users: int = MIN_USERS
    objectives: Sequence[Objectives] = ()
    confidence: float = Intervals.confidence
    evaluated: Evaluated | None = None

    @property
    def _stages(self) -> Evaluated:
        if self.evaluated is None:
            raise ValueError("this result has no tables: it is made from values")
        return self.evaluated

    @property
    def per_user(self) -> Any:
        """PER_USER: one row per model and user of ground truth or predictions, a column per metric; null is undefined."""
        return self._stages.scored.per_user

    @property
    def summary(self) -> Any:
        """SUMMARY as a frame of the engine: one row per model, slice and metric."""
        return self._stages.engine.frame("summary", self.rows)

    @property
    def data_report(self) -> Any:
        """DATA_REPORT as a frame of the engine: one row per check of the input."""
        return self._stages.engine.frame("data_report", [check._asdict() for check in self.data_checks])

    def explain(self, user: Any, model: str | None = None) -> Explanation:
        """The lists of one user, row by row, with what each row adds to each metric. Its `str` is a table.

        Args:
            user: The user; ids are compared as strings.
            model: The model, None for all.

        Raises:
            ConfigError: There is no such model.
            DataError: The user is in neither the ground truth nor the predictions.

        Example:
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> lists = [("ann", "x", 0.9), ("ann", "y", 0.8), ("bob", "y", 0.7), ("cid", "x", 0.1)]
            >>> predictions = spark.createDataFrame(lists, "user_id string, item_id string, score double")
            >>> truth = spark.createDataFrame([("ann", "y"), ("bob", "y"), ("cid", "z")], "user_id string, item_id string")
            >>> print(evaluate(predictions, truth, metrics=["mrr", "recall"], k=2).explain("ann"))
            user ann, model model, convention default
            list of 2, ground truth 1, relevant 1
            <BLANKLINE>
            rank   item  score  tied  judged  rating  hit  gain    mrr@2  recall@2
            1      x       0.9     0                          0        .         .
            2      y       0.8     0     yes          yes     1  +0.5000   +1.0000
            value                                                 0.5000    1.0000
        """
        return explain_user(self._stages, user, model)

    def score_calibration(self, n_bins: int = 20, *, against: Against | None = None) -> list[dict[str, Any]]:
        """How often rows with similar scores are relevant, or how they are rated: a reliability diagram in numbers.

        The scores of a model are cut at their quantiles into bins B with about the same number of rows. The value of a bin is

            share of relevant rows = n_relevant(B) / n_rows(B),  or  mean rating = sum of true ratings(B) / n_rows(B)

        If scores are probabilities or ratings, the values of a calibrated model equal `mean_score`. For other scores, they
        rise with the bins. Against relevance, all rows of users with ground truth count, at any rank. An item without ground
        truth is not relevant. Against ratings, only pairs with a rating count. Missing and infinite scores are left out. Equal
        scores are in one bin, so there may be fewer bins. Scores are not clipped. In large tables, edges are approximate, by a
        few rows. Starts one Spark job.

        Args:
            n_bins: Number of bins, up to 1000.
            against: `relevance` or `rating`. None: `rating` if the evaluation has only rating metrics.

        Returns:
            A row for each model and bin: `model, against, bin` from 1, `score_low, score_high, mean_score, n_rows, value`.

        Raises:
            ConfigError: An argument is wrong.
            DataError: There are only ranks and no scores, or no ratings.

        Example:
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> lists = [("ann", "x", 0.9), ("ann", "y", 0.8), ("bob", "y", 0.2), ("bob", "x", 0.1)]
            >>> predictions = spark.createDataFrame(lists, "user_id string, item_id string, score double")
            >>> truth = spark.createDataFrame([("ann", "x"), ("ann", "y"), ("bob", "x")], "user_id string, item_id string")
            >>> for row in evaluate(predictions, truth, metrics="mrr", k=2).score_calibration(2):
            ...     print(row["bin"], round(row["mean_score"], 2), row["n_rows"], row["value"])
            1 0.15 2 0.5
            2 0.85 2 1.0
        """
        return calibrate(self._stages, n_bins, against)

    def release(self) -> None:
        """Release the memory that PER_USER holds. Spark computes its values again if it is read later."""
        self._stages.engine.release(self._stages.scored)

    def __post_init__(self) -> None:
        # `dataclasses.replace` passes means that include the combined metrics.
        if self.objectives and not any(mean.metric.name in COMBINED for means in self.means.values() for mean in means):
            # The values of pairs of groups are biases, which have no better direction.
            for_slices = [goals for goals in self.objectives if not any(g.metric.definition.by_pair for g in goals.goals)]
            sliced = {value: _with_combined(by_model, for_slices) for value, by_model in self.sliced.items()}
            object.__setattr__(self, "means", _with_combined(self.means, self.objectives))
            object.__setattr__(self, "sliced", sliced)
        object.__setattr__(self, "warnings", list(dict.fromkeys([*self.warnings, *self._unknown_standings, *self.emptiness])))

    def __str__(self) -> str:
        header, *tables = _first_blocks(self)
        warnings = f"; {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return "\n\n".join([f"{header}{warnings}", *tables])

    __repr__ = __str__

    @property
    def n_users(self) -> dict[str, int]:
        """By model, the number of evaluated users: those of its headline."""
        return {model: headline(means).n_users for model, means in self.means.items()}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of SUMMARY, on the driver: all users first, then the slices."""
        computed_at = datetime.now(timezone.utc)
        groups = {("all", "all"): self.means} | {key: self.sliced[key] for key in in_order(self.slices, self.sliced)}
        return [
            {
                "run_id": self.run.run_id,
                "as_of": self.run.as_of,
                "model": model,
                "slice": slice_text,
                "slice_value": value,
                "metric": str(mean.metric),
                "k": mean.metric.k,
                "convention": str(self.convention),
                "value": mean.value,
                "n_users": mean.n_users,
                "n_undefined": mean.n_undefined,
                "std": mean.std,
                "ci_low": mean.ci_low,
                "ci_high": mean.ci_high,
                "ci_method": mean.ci_method,
                "higher_is_better": mean.metric.definition.higher_is_better,
                "config_hash": self.run.config_hash,
                "data_hash": self.data_hash,
                "version": __version__,
                "computed_at": computed_at,
                "job": self.run.job,
                "small": slice_text != "all" and mean.n_users < self.min_users,
            }
            for (slice_text, value), by_model in groups.items()
            for model, means in by_model.items()
            for mean in means
        ]

    @property
    def status(self) -> str:
        """`ok`, or `undefined` if a table is empty or a metric has no users to average."""
        return "undefined" if self.emptiness else "ok"

    @property
    def emptiness(self) -> list[str]:
        """One line for each table that is empty and each model without users to average. These lines are warnings, too."""
        lines = [check.line() for check in self.data_checks if check.level == "error"]
        for model, means in self.means.items():
            empty = [str(mean.metric) for mean in means if not mean.n_users and mean.metric.definition.kind != "objective"]
            lines += [f"model {printable(model)}: no users to average for {', '.join(empty)}"] if empty else []
        return lines

    def pareto(self) -> list[Standing]:
        """The Pareto-optimal models over the objectives, and which models dominate the others, at each cut-off.

        Returns:
            A row for each cut-off and model; none without objectives.

        Example:
            >>> import pandas as pd
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> rows = [("als", 1, "a"), ("als", 2, "a"), ("pop", 1, "b"), ("pop", 2, "b"), ("rnd", 1, "b"), ("rnd", 2, "c")]
            >>> lists = pd.DataFrame(rows, columns=["model", "user_id", "item_id"]).assign(score=1.0)
            >>> truth = pd.DataFrame({"user_id": [1, 2, 3], "item_id": ["a", "x", "b"]})
            >>> objectives = {"hit": {}, "item_coverage(measure=count)": {"nadir": 0}}
            >>> result = evaluate(lists, truth, metrics=list(objectives), k=1, objectives=objectives)
            >>> [(standing.model, standing.optimal, standing.dominated_by) for standing in result.pareto()]
            [('als', True, ()), ('pop', False, ('als', 'rnd')), ('rnd', True, ())]
        """
        values = {model: _values(means) for model, means in self.means.items()}
        return [standing for objectives in self.objectives for standing in objectives.standings(values)]

    @property
    def _unknown_standings(self) -> list[str]:
        return [
            f"model {printable(standing.model)}: no Pareto front{'' if standing.k is None else f' at {standing.k}'}, "
            f"distance or volume: {standing.reason}"
            for standing in self.pareto()
            if standing.reason is not None
        ]

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """Values by model and metric; undefined is None."""
        return {model: {str(mean.metric): mean.value for mean in means} for model, means in self.means.items()}

    def to_pandas(self) -> pd.DataFrame:
        """SUMMARY as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        comparison: Compared | None = None,
        gates: Sequence[NamedTuple] = (),
        history: Sequence[Mapping[str, Any]] | pd.DataFrame = (),
        configuration: str | None = None,
    ) -> Path:
        """Write the report: a single HTML file, see docs/report.md.

        Args:
            path: The file. Missing folders are created, and an existing file is replaced in one step.
            comparison: The result of `compare`.
            gates: The results of `gates.check_gates`.
            history: Rows of `read_history` for this job, `.collect()` or `.toPandas()` of the frame: this and previous runs.
            configuration: Text about the run, such as its configuration.

        Returns:
            The file.

        Raises:
            ConfigError: jinja2 or matplotlib is not installed.
            PublishError: The file cannot be written.

        Example:
            >>> import pandas as pd, tempfile
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> predictions = pd.DataFrame({"user_id": [1, 1, 2], "item_id": [7, 8, 8], "score": [0.9, 0.8, 0.7]})
            >>> truth = pd.DataFrame({"user_id": [1, 2], "item_id": [8, 8]})
            >>> result = evaluate(predictions, truth, metrics="mrr", k=[1, 2])
            >>> result.to_html(f"{tempfile.mkdtemp()}/report.html").name
            'report.html'
        """
        return write_whole(path, self.as_html(comparison=comparison, gates=gates, history=history, configuration=configuration))

    def as_html(
        self,
        *,
        comparison: Compared | None = None,
        gates: Sequence[NamedTuple] = (),
        history: Sequence[Mapping[str, Any]] | pd.DataFrame = (),
        configuration: str | None = None,
    ) -> str:
        """The report of `to_html` as a string, with the same arguments."""
        from spark_recmetrics.reports.plots import history_rows

        rows = [] if hasattr(history, "__len__") and not len(history) else history_rows(history)
        return self._page(**_decisions(comparison, gates), history=rows, configuration=configuration).html()

    def to_markdown(self, *, comparison: Compared | None = None, gates: Sequence[NamedTuple] = ()) -> str:
        """The values over all users as Markdown, for a pull request: gates first, then values, differences and warnings.

        Args:
            comparison: The result of `compare`.
            gates: The results of `gates.check_gates`.

        Example:
            >>> import pandas as pd
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> predictions = pd.DataFrame({"user_id": [1, 1, 2], "item_id": [7, 8, 8], "score": [0.9, 0.8, 0.7]})
            >>> truth = pd.DataFrame({"user_id": [1, 2], "item_id": [8, 8]})
            >>> print(evaluate(predictions, truth, metrics="mrr", k=2).to_markdown(), end="")
            - mrr@2: model has 0.7500 (95 % confidence interval [0.2600, 1.2400], 2 evaluated users).
            <BLANKLINE>
            | metric | users | model |
            | --- | ---: | ---: |
            | mrr@2 | 2 | 0.7500 [0.2600, 1.2400] |
        """
        return as_markdown(
            self.rows,
            **_decisions(comparison, gates),
            standings=self.pareto(),
            warnings=self.warnings,
            confidence=self.confidence,
        )

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write SUMMARY as CSV with a header. Undefined values are empty.

        Strings that a spreadsheet would take for a formula, such as a model `=1+1`, get a `'` in front, so that they are shown
        and not computed. They begin with `=`, `+`, `-`, `@`, a tab, a line break or a null character, as OWASP lists them (CSV
        injection). The same holds after `;`, a tab or a line break inside a string, where some spreadsheets begin a cell.
        Numbers stay. Lines end in CR LF (RFC 4180).

        Args:
            path: The file. Missing folders are created, and an existing file is replaced in one step.

        Returns:
            The file.

        Raises:
            ConfigError: The path has a wrong type.
            PublishError: The file cannot be written.

        Example:
            >>> import pandas as pd, tempfile
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> predictions = pd.DataFrame({"user_id": [1, 1, 2], "item_id": [7, 8, 8], "score": [0.9, 0.8, 0.7]})
            >>> truth = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [8, 8, 9]})
            >>> result = evaluate(predictions, truth, metrics="mrr", k=2, model_name="=1+1")
            >>> file = result.to_csv(f"{tempfile.mkdtemp()}/summary.csv")
            >>> file.read_text().splitlines()[1].split(",")[2:9]
            ["'=1+1", 'all', 'all', 'mrr@2', '2', 'default', '0.5']
        """
        out = io.StringIO()
        table = csv.DictWriter(out, list(self.rows[0]))  # CR LF as line end makes it quote names with either character
        table.writeheader()
        table.writerows({key: _inert(value) for key, value in row.items()} for row in self.rows)
        return write_whole(path, out.getvalue())

    def to_json(
        self, path: str | os.PathLike[str], *, comparison: Compared | None = None, gates: Sequence[NamedTuple] = ()
    ) -> Path:
        """Write all values on the driver as one JSON object.

        It has `status` and `warnings`, and as rows `summary`, `data_report`, `pareto`, `comparison` and `gates`. Undefined and
        infinite values are null.

        Args:
            path: The file. Missing folders are created, and an existing file is replaced in one step.
            comparison: The result of `compare`.
            gates: The results of `gates.check_gates`.

        Raises:
            PublishError: The file cannot be written.
        """
        decisions = _decisions(comparison, gates)
        content = self.content(comparison=decisions["comparison"], gates=decisions["gate_results"])
        return write_whole(path, json_text(content, indent=1) + "\n")

    def content(self, **fields: Any) -> dict[str, Any]:
        """The object of `to_json`, with further fields."""
        return {
            "status": self.status,
            "warnings": self.warnings,
            "summary": self.rows,
            "data_report": [check._asdict() for check in self.data_checks],
            "pareto": [standing._asdict() for standing in self.pareto()],
            **fields,
        }

    def _repr_html_(self) -> str | None:
        """The values with confidence intervals and the warnings, for a notebook. Without jinja2, notebooks show the text."""
        try:
            return self._page().fragment()
        except ConfigError:
            return None

    def _page(self, **options: Any) -> Page:
        from spark_recmetrics.reports.page import Page

        return Page(
            run=self.rows[0],
            rows=self.rows,
            data_checks=self.data_checks,
            convention=self.convention,
            warnings=[line for line in self.warnings if line not in self.emptiness],
            emptiness=self.emptiness,
            confidence=self.confidence,
            standings=self.pareto(),
            **options,
        )


def _first_blocks(result: Result) -> list[str]:
    """The evaluated users, the values over all users, and with objectives the Pareto fronts."""
    users = ", ".join(f"{printable(model)} {n}" for model, n in result.n_users.items())
    fronts = [pareto_table(result.pareto())] if result.objectives else []
    return [f"convention {result.convention}, evaluated users: {users}", metric_table(of_all_users(result.rows)), *fronts]


def report_text(result: Result, title: str, *, warnings: Sequence[str], comparison: Compared | None = None) -> str:
    """Values, slices, comparison and warnings as text."""
    header, table, *fronts = _first_blocks(result)
    note = ["* best value in the row"] if len(result.n_users) > 1 else []
    means = next(iter(result.means.values()))
    sliced_metrics = [headline(means).metric] if result.slices else []
    sliced_metrics += [mean.metric for mean in means if mean.metric.definition.by_pair]
    blocks = [f"{title}, {header}", table, *note, *fronts]
    blocks += [slice_table(result.rows, str(metric)) for metric in dict.fromkeys(sliced_metrics)]
    blocks += [] if comparison is None else [comparison_table(comparison.rows, comparison.alpha)]
    blocks += ["\n".join(f"warning: {printable(warning)}" for warning in warnings)] if warnings else []
    return "\n\n".join(blocks)


def _decisions(comparison: Compared | None, gates: Sequence[NamedTuple]) -> dict[str, Any]:
    """The arguments of reports for a comparison and gates."""
    is_comparison = comparison is None or isinstance(comparison, Compared)
    check_argument("comparison", comparison, "the result of srm.compare", valid=is_comparison)
    are_results = isinstance(gates, list | tuple) and all(hasattr(row, "gate") and hasattr(row, "_asdict") for row in gates)
    check_argument("gates", gates, "a list of results of check_gates", valid=are_results)
    return {
        "gate_results": [row._asdict() for row in gates],
        "comparison": () if comparison is None else comparison.rows,
        "alpha": 0.05 if comparison is None else comparison.alpha,
    }


def _inert(value: Any) -> Any:
    """The value as a cell that no spreadsheet computes."""
    return re.sub(r"(^|[;\t\r\n])(?=[=+\-@\t\r\n\0])", r"\1'", value) if isinstance(value, str) else value


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Write a file in one step, so that a reader never sees a partial file. Raises `PublishError` if this is not possible."""
    try:
        file = Path(path)
    except TypeError as error:
        raise ConfigError(f"path: expected the path of a file, found {brief(path)}") from error
    try:
        temporary = file.with_name(f".{uuid4().hex}")
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path, or a path without a file name
        reason = getattr(error, "strerror", None) or error
        raise PublishError(f"{file}: cannot be written: {reason}: give the path of a file in a folder of yours") from error
    return file


def _with_combined(by_model: Mapping[str, Sequence[Mean]], objectives: Sequence[Objectives]) -> dict[str, list[Mean]]:
    """The values by model, with the metrics that combine objectives. These have no spread, because their parts are means."""
    with_combined = {}
    for model, means in by_model.items():
        values, n_users = _values(means), {mean.metric: mean.n_users for mean in means}
        combined = [
            Mean(metric, combination.value(metric, values), min(n_users[goal.metric] for goal in combination.goals), 0)
            for combination in objectives
            if all(goal.metric in values for goal in combination.goals)
            for metric in combination.metrics
        ]
        with_combined[model] = [*means, *sorted(combined, key=lambda mean: mean.metric.name)]
    return with_combined


def _values(means: Sequence[Mean]) -> dict[Metric, float | None]:
    return {mean.metric: mean.value for mean in means}


def headline(means: Sequence[Mean]) -> Mean:
    """The value that represents a model in summaries."""
    metric = headline_metric([mean.metric for mean in means])
    return next(mean for mean in means if mean.metric == metric)


def reject(data_checks: Sequence[DataCheck]) -> None:
    """Raise `DataError` for rows that would corrupt a value. If there is nothing to average, the value is undefined instead."""
    errors = [check.line() for check in data_checks if check.level == "error" and check.check not in EMPTINESS]
    if errors:
        raise DataError("\n".join(errors), data_checks)
