"""What an evaluation found, on Spark or in memory: the values of SUMMARY, and what is to be said about the input."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from spark_recmetrics.aggregation.means import Mean
from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import ConfigError, DataError, PublishError
from spark_recmetrics.evaluation.calibration import Against, calibrate
from spark_recmetrics.evaluation.engine import Evaluated
from spark_recmetrics.evaluation.explain import Explanation, explain_user
from spark_recmetrics.inputs.data_report import EMPTINESS, DataCheck
from spark_recmetrics.metrics import COMBINED
from spark_recmetrics.metrics.objectives import Objectives, Standing
from spark_recmetrics.reports.markdown import as_markdown
from spark_recmetrics.reports.selection import headline_metric
from spark_recmetrics.reports.tables import metric_table, pareto_table
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.slices import MIN_USERS, Slice, in_order
from spark_recmetrics.text import brief, counted, json_text, printable
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.aggregation.values import Values
    from spark_recmetrics.metrics import Metric
    from spark_recmetrics.reports.page import Page

from spark_recmetrics.runs.identity import Run


class Compared(Protocol):
    """What a report shows of a `Comparison`."""

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of COMPARISON."""

    @property
    def alpha(self) -> float:
        """The level of the tests."""


class Checked(Protocol):
    """What a report shows of the result of a gate, a `decisions.gates.GateResult`."""

    def _asdict(self) -> dict[str, Any]:
        """The columns of GATES."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The values of an evaluation. Its text is the table that a job prints.

    Args:
        means: The values of SUMMARY, by model.
        data_checks: The rows of DATA_REPORT.
        convention: The definitions that were used.
        run: Identity of the run.
        data_hash: Hash of the truth, whatever the order of its rows.
        warnings: One line per thing worth knowing, also of what is empty.
        slices: The slices.
        sliced: The values of slices, and of pairs of groups, by slice and value, then by model.
        min_users: Values of slices over fewer users are marked as small.
        objectives: What `euc_distance`, `hypervolume` and the Pareto front are made of; the first two are added to the means.
        confidence: Of the confidence intervals.
        evaluated: What the stages of the evaluation have returned; None for a result made of values alone.

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

    @classmethod
    def of(cls, evaluated: Evaluated, values: Values, checks: Sequence[DataCheck], truth: Mapping[str, Any]) -> Result:
        """The result of the last stage.

        Args:
            evaluated: What the stages before it have returned.
            values: The values.
            checks: The rows of DATA_REPORT.
            truth: What was counted of the ground truth.
        """
        request = evaluated.request
        return cls(
            means=values.means,
            sliced=values.sliced,
            data_checks=checks,
            convention=request.convention,
            run=request.run,
            data_hash=_data_hash(truth),
            warnings=[*request.warnings, *(check.line() for check in checks if check.level == "warn")],
            slices=request.slices.slices,
            min_users=request.min_users,
            objectives=request.objectives,
            confidence=request.intervals.confidence,
            evaluated=evaluated,
        )

    @property
    def _stages(self) -> Evaluated:
        if self.evaluated is None:
            raise ValueError("this result has no tables: it was made of values alone")
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
        """The lists of one user, row by row, with what each row adds to each metric. `str` of it is a table.

        Args:
            user: The user; ids are compared as text.
            model: The model, None for all.

        Raises:
            ConfigError: There is no such model.
            DataError: The user stands neither in truth nor in predictions.

        Example:
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> predictions = spark.createDataFrame(
            ...     [("ann", "x", 0.9), ("ann", "y", 0.8), ("bob", "y", 0.7), ("cid", "x", 0.1)],
            ...     "user_id string, item_id string, score double",
            ... )
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
        """How often rows with about the same score are relevant, or what they are rated: a reliability diagram in numbers.

        The scores of a model are cut at their quantiles into bins B of about as many rows each. The value of a bin is

            share of relevant rows = n_relevant(B) / n_rows(B),  or  mean rating = sum of true ratings(B) / n_rows(B)

        and a calibrated model has a value equal to `mean_score`, where its scores are probabilities or ratings; where they
        are any numbers, the values rise with the bins. The first counts all rows of users who stand in truth, wherever in
        the list: what truth lacks is not relevant. The second looks at the pairs that have a rating. Missing and infinite
        scores are left out, equal scores are in one bin, so that there may be fewer bins. Scores are not clipped. In large
        tables an edge is approximate, by a few rows. Starts one Spark job.

        Args:
            n_bins: How many bins, up to 1000.
            against: `relevance` or `rating`. None: ratings where the evaluation has rating metrics alone.

        Returns:
            A row for each model and bin: `model, against, bin` from 1, `score_low, score_high, mean_score, n_rows, value`.

        Raises:
            ConfigError: An argument is wrong.
            DataError: There are no scores, only ranks; or no ratings.

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
        """Give back the memory that PER_USER holds. Spark computes its values again if it is read later."""
        self._stages.engine.release(self._stages.scored)

    def __post_init__(self) -> None:
        # `dataclasses.replace` gives what was added here before.
        if self.objectives and not any(mean.metric.name in COMBINED for own in self.means.values() for mean in own):
            whole = {model: [*own, *combined_means(own, self.objectives)] for model, own in self.means.items()}
            # What is known of pairs of groups is a bias to one side or the other, which has no direction.
            of_slices = [one for one in self.objectives if not any(goal.metric.definition.by_pair for goal in one.goals)]
            sliced = {
                value: {model: [*own, *combined_means(own, of_slices)] for model, own in of_value.items()}
                for value, of_value in self.sliced.items()
            }
            object.__setattr__(self, "means", whole)
            object.__setattr__(self, "sliced", sliced)
        object.__setattr__(self, "warnings", list(dict.fromkeys([*self.warnings, *self._unknown_standings, *self.emptiness])))

    def __str__(self) -> str:
        users = ", ".join(f"{printable(model)} {n}" for model, n in self.n_users.items())
        told = f"; {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        table = metric_table([row for row in self.rows if row["slice"] == "all"])
        front = f"\n\n{pareto_table(self.pareto())}" if self.objectives else ""
        return f"convention {self.convention}, evaluated users: {users}{told}\n\n{table}{front}"

    __repr__ = __str__

    @property
    def n_users(self) -> dict[str, int]:
        """By model, how many users its headline is the mean of."""
        return {model: headline(of_model).n_users for model, of_model in self.means.items()}

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
            for (slice_text, value), of_group in groups.items()
            for model, of_model in of_group.items()
            for mean in of_model
        ]

    @property
    def status(self) -> str:
        """`ok`, or `undefined` where a table is empty or a metric has nobody to average."""
        return "undefined" if self.emptiness else "ok"

    @property
    def emptiness(self) -> list[str]:
        """What is empty and must not be, one line each; empty itself if all is well. These lines are warnings, too."""
        nobody = {
            model: [str(m.metric) for m in of_model if m.n_users == 0 and m.metric.definition.kind != "objective"]
            for model, of_model in self.means.items()
        }
        return [
            *(fact.line() for fact in self.data_checks if fact.level == "error"),
            *(
                f"model {printable(model)}: nobody to average for {', '.join(metrics)}"
                for model, metrics in nobody.items()
                if metrics
            ),
        ]

    def pareto(self) -> list[Standing]:
        """Which models are Pareto-optimal over the objectives, and which ones dominate the others, at each of their cut-offs.

        Returns:
            A row for each cut-off and model; none without objectives.

        Example:
            >>> import pandas as pd
            >>> from spark_recmetrics.evaluation.stages import evaluate
            >>> rows = [("als", 1, "a"), ("als", 2, "a"), ("pop", 1, "b"), ("pop", 2, "b"), ("rnd", 1, "b"), ("rnd", 2, "c")]
            >>> lists = pd.DataFrame(rows, columns=["model", "user_id", "item_id"]).assign(score=1.0)
            >>> truth = pd.DataFrame({"user_id": [1, 2, 3], "item_id": ["a", "x", "b"]})
            >>> wanted = {"hit": {}, "item_coverage(measure=count)": {"nadir": 0}}
            >>> result = evaluate(lists, truth, metrics=list(wanted), k=1, objectives=wanted)
            >>> [(one.model, one.optimal, one.dominated_by) for one in result.pareto()]
            [('als', True, ()), ('pop', False, ('als', 'rnd')), ('rnd', True, ())]
        """
        values = {model: _values(own) for model, own in self.means.items()}
        return [standing for one in self.objectives for standing in one.standings(values)]

    @property
    def _unknown_standings(self) -> list[str]:
        """A line for each model of which a metric of objectives cannot be told."""
        return [
            f"model {printable(one.model)}: no Pareto front"
            + ("" if one.k is None else f" at {one.k}")
            + f", distance or volume: {one.reason}"
            for one in self.pareto()
            if one.reason is not None
        ]

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """Values by model and metric; undefined is None."""
        return {model: {str(mean.metric): mean.value for mean in of_model} for model, of_model in self.means.items()}

    def to_pandas(self) -> pd.DataFrame:
        """SUMMARY as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        comparison: Compared | None = None,
        gates: Sequence[Checked] = (),
        history: Sequence[Mapping[str, Any]] = (),
        configuration: str | None = None,
    ) -> Path:
        """Write the report: one file of HTML that needs nothing else. See docs/report.md for what is in it.

        Args:
            path: The file; folders are made, and a file that is there is replaced as a whole.
            comparison: Of `compare`.
            gates: Of `gates.check_gates`.
            history: Rows of `read_history` of this job, `.collect()` of the frame: this run and earlier ones.
            configuration: What else a reader should know of the run, as text.

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
        gates: Sequence[Checked] = (),
        history: Sequence[Mapping[str, Any]] = (),
        configuration: str | None = None,
    ) -> str:
        """The report that `to_html` writes, as a text. See there."""
        earlier = [dict(row.asDict() if hasattr(row, "asDict") else row) for row in history]
        return self._page(comparison, gates, [row for row in earlier if row["slice"] == "all"], configuration).html()

    def to_markdown(self, *, comparison: Compared | None = None, gates: Sequence[Checked] = ()) -> str:
        """The values over all users as Markdown, for a pull request: gates first, then values, differences and warnings.

        Args:
            comparison: Of `compare`.
            gates: Of `gates.check_gates`.

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
            gate_results=[row._asdict() for row in gates],
            comparison=() if comparison is None else comparison.rows,
            standings=self.pareto(),
            warnings=self.warnings,
            confidence=self.confidence,
            alpha=0.05 if comparison is None else comparison.alpha,
        )

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write SUMMARY as CSV, its header first; what is undefined is empty.

        A text that a spreadsheet would take for a formula, such as a model `=1+1`, gets a `'` before it, so that it is shown
        and not computed. These are texts that begin with `=`, `+`, `-`, `@`, a tab, a line break or a null character, as OWASP
        lists them (CSV injection), and the same behind `;`, a tab or a line break inside a text, where some spreadsheets begin
        a cell. Numbers stay. Lines end in CR LF (RFC 4180).

        Args:
            path: The file; folders are made, and a file that is there is replaced as a whole.

        Returns:
            The file.

        Raises:
            ConfigError: The path is none.
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
        table = csv.DictWriter(out, list(self.rows[0]))  # its line ends have it quote names with either of theirs
        table.writeheader()
        table.writerows({key: _inert(value) for key, value in row.items()} for row in self.rows)
        return write_whole(path, out.getvalue())

    def to_json(
        self, path: str | os.PathLike[str], *, comparison: Compared | None = None, gates: Sequence[Checked] = ()
    ) -> Path:
        """Write all that is on the driver as one object.

        It has `status` and `warnings`, and as rows `summary`, `data_report`, `pareto`, `comparison` and `gates`. What is
        undefined or infinite is null.

        Args:
            path: The file; folders are made, and a file that is there is replaced as a whole.
            comparison: Of `compare`.
            gates: Of `gates.check_gates`.

        Raises:
            PublishError: The file cannot be written.
        """
        found = {
            "status": self.status,
            "warnings": self.warnings,
            "summary": self.rows,
            "data_report": [fact._asdict() for fact in self.data_checks],
            "pareto": [standing._asdict() for standing in self.pareto()],
            "comparison": () if comparison is None else comparison.rows,
            "gates": [row._asdict() for row in gates],
        }
        return write_whole(path, json_text(found, indent=1) + "\n")

    def _repr_html_(self) -> str | None:
        """How a notebook shows the result: values with intervals, and warnings. Without jinja2 it is the text."""
        try:
            return self._page().fragment()
        except ConfigError:
            return None

    def _page(
        self,
        comparison: Compared | None = None,
        gates: Sequence[Checked] = (),
        history: Sequence[Mapping[str, Any]] = (),
        configuration: str | None = None,
    ) -> Page:
        from spark_recmetrics.reports.page import Page

        return Page(
            run=self.rows[0],
            rows=self.rows,
            data_checks=self.data_checks,
            convention=self.convention,
            warnings=[line for line in self.warnings if line not in self.emptiness],
            emptiness=self.emptiness,
            confidence=self.confidence,
            gate_results=[row._asdict() for row in gates],
            comparison=() if comparison is None else comparison.rows,
            alpha=0.05 if comparison is None else comparison.alpha,
            standings=self.pareto(),
            history=history,
            configuration=configuration,
        )


def _inert(value: Any) -> Any:
    """The value as a cell that no spreadsheet computes."""
    return re.sub(r"(^|[;\t\r\n])(?=[=+\-@\t\r\n\0])", r"\1'", value) if isinstance(value, str) else value


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Write a file in one step: a reader meets the old one or the new one, and no half of either.

    Raises:
        PublishError: It cannot be written.
    """
    try:
        place = Path(path)
    except TypeError as error:
        raise ConfigError(f"path: expected the path of a file, found {brief(path)}") from error
    try:
        half = place.with_name(f".{uuid4().hex}")
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            half.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
            half.replace(place)
        finally:
            half.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path, or no name of a file
        reason = getattr(error, "strerror", None) or error
        raise PublishError(f"{place}: cannot be written: {reason}: give the path of a file in a folder of yours") from error
    return place


def combined_means(of_model: Sequence[Mean], objectives: Sequence[Objectives]) -> list[Mean]:
    """The metrics that are made of objectives, where the model has a value, known or undefined, of each of these.

    They have no spread: what they are made of are values of models, of different users perhaps.

    Args:
        of_model: The values of the model.
        objectives: The objectives.
    """
    values, n_users = _values(of_model), {mean.metric: mean.n_users for mean in of_model}
    found = [
        Mean(metric, one.value(metric, values), min(n_users[goal.metric] for goal in one.goals), 0)
        for one in objectives
        if all(goal.metric in values for goal in one.goals)
        for metric in one.metrics
    ]
    return sorted(found, key=lambda mean: mean.metric.name)


def _values(of_model: Sequence[Mean]) -> dict[Metric, float | None]:
    return {mean.metric: mean.value for mean in of_model}


def headline(of_model: Sequence[Mean]) -> Mean:
    """The value that stands for a model: of the metric that stands for a result."""
    metric = headline_metric([mean.metric for mean in of_model])
    return next(mean for mean in of_model if mean.metric == metric)


def reject(data_checks: Sequence[DataCheck]) -> None:
    """Raise for rows that would corrupt a value. If there is nothing to average, the value is undefined instead.

    Raises:
        DataError: A check is an error. The message lists all of these.
    """
    errors = [check.line() for check in data_checks if check.level == "error" and check.check not in EMPTINESS]
    if errors:
        raise DataError("\n".join(errors), data_checks)


def _data_hash(truth: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{truth.get('rows', 0)} {truth.get('hash')}".encode()).hexdigest()[:16]
