"""Log the values of an evaluation to MLflow: one MLflow run per model, with metric names that MLflow accepts."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

from spark_recmetrics.decisions.gates import GateResult
from spark_recmetrics.errors import ConfigError, PublishError, check_argument, reason_of, without_extra
from spark_recmetrics.evaluation.result import Compared, Result, report_text
from spark_recmetrics.reports.findings import gates_summary
from spark_recmetrics.reports.page import can_be_made
from spark_recmetrics.request.slices import Slice, in_order
from spark_recmetrics.storage.credentials import CREDENTIALS_IN_ADDRESS, without_password
from spark_recmetrics.text import brief, json_text, printable
from spark_recmetrics.version import __version__

PREFIX = "recmetrics."
"""Prefix of parameters and tags, so that they do not collide with those of the caller's run."""

_BATCH = 1000  # number of metrics that a tracking server accepts in one request
_LONGEST_TAG, _LONGEST_PARAM = 5000, 500  # lengths that every tracking server accepts
_INVALID = r"[^A-Za-z0-9_\-./ ]"  # a character that MLflow rejects in a name


@dataclass(frozen=True)
class Mlflow:
    """What is logged to MLflow, and where.

    Args:
        uri: Address of the tracking server, such as `https://mlflow.example.com`, or `databricks`. None: the default of MLflow,
            which reads MLFLOW_TRACKING_URI first.
        experiment: Name of the experiment. It is created if it does not exist. None: MLFLOW_EXPERIMENT_ID,
            MLFLOW_EXPERIMENT_NAME, or the name of the job.
        run_name: Name of the MLflow run; with several models, the model is appended. None: job, as_of and model.
        tags: Tags of the MLflow run, strings by name.
        prefix: Prefix of the metric names, such as `nightly/`.
        slices: Whether values of slices are logged, too, such as `gender/F/ndcg_at_10`.
        on_error: What a job does if MLflow cannot be written: `warn` or `fail`. In both cases the tables are published.
    """

    uri: str | None = None
    experiment: str | None = None
    run_name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    prefix: str = ""
    slices: Literal[False, True] = False
    on_error: Literal["warn", "fail"] = "warn"

    def __post_init__(self) -> None:
        for name in ("uri", "experiment", "run_name"):
            value = getattr(self, name)
            check_argument(name, value, "a string", valid=value is None or (isinstance(value, str) and bool(value.strip())))
        if self.uri is not None and without_password(self.uri) != self.uri:
            raise ConfigError(f"uri: {CREDENTIALS_IN_ADDRESS}")
        if not isinstance(self.prefix, str) or re.search(rf"{_INVALID}|^/|//|^ |(^|/)\.+(/|$)", self.prefix):
            raise ConfigError(f"prefix: expected letters, digits and _ - . / space, found {brief(self.prefix)}")
        check_argument("slices", self.slices, "true or false", valid=isinstance(self.slices, bool))
        _check_tags(self.tags)
        for name, longest in (("prefix", 100), ("experiment", 500)):
            if (n := len(getattr(self, name) or "")) > longest:
                raise ConfigError(f"{name}: expected at most {longest} characters, found {n}")


def _check_tags(tags: object) -> None:
    if not isinstance(tags, Mapping):
        raise ConfigError(f"tags: expected a mapping of names to strings, found {brief(tags)}")
    for tag, value in tags.items():
        if not isinstance(tag, str) or not tag or re.search(_INVALID, tag) or tag.startswith((PREFIX, "mlflow.")):
            raise ConfigError(
                "tags: expected names of letters, digits and _ - . / space that do not begin with "
                f"{PREFIX} or mlflow., found {brief(tag)}"
            )
        if len(tag) > 100:
            raise ConfigError(f"tags: expected at most 100 characters, found {len(tag)}")
        if not isinstance(value, str):
            quotes = ": write it in quotes" if isinstance(value, int | float) else ""
            raise ConfigError(f"tags.{tag}: expected a string, found {brief(value)}{quotes}")


class Tracked(NamedTuple):
    """What was logged."""

    runs: dict[str, str]  # id of the MLflow run, by model
    n_undefined: dict[str, int]  # number of values that were not logged because they are undefined, by model
    warnings: list[str]  # one line per model with undefined values, and one if previous MLflow runs could not be deleted


def log_to_mlflow(  # noqa: PLR0913 - public entry point
    result: Result,
    *,
    uri: str | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    tags: Mapping[str, str] | None = None,
    prefix: str = "",
    slices: bool = False,
    comparison: Compared | None = None,
    gates: Sequence[GateResult] = (),
    history: Sequence[Mapping[str, Any]] = (),
    configuration: str | None = None,
) -> Tracked:
    """Log the values of an evaluation to MLflow, one MLflow run per model.

    Metrics are named like the columns of PER_USER, such as `ndcg_at_10` for `ndcg@10`, because MLflow rejects `@`. Undefined
    and infinite values are not logged: the metric `n_undefined_metrics` counts them, the tag `recmetrics.undefined` lists them,
    and a warning names them. The metric `n_users` is the number of evaluated users of the first accuracy metric.

    Parameters are `recmetrics.job`, `.as_of`, `.convention`, `.threshold`, `.config_hash`, `.data_hash` and `.version`, if
    they are known. Tags are `recmetrics.model`, `.run_id`, `.status` and, with gates, `.gates`. Artifacts are
    `recmetrics/result.json` with all rows of SUMMARY, DATA_REPORT, COMPARISON and GATES, `recmetrics/report.txt`, and, if the
    extra `report` is installed, `recmetrics/report.html`, the page of `to_html`.

    Inside `with mlflow.start_run():`, without `uri` and `experiment`, a single model is logged into the active run, and several
    models are logged into nested runs. Otherwise each model has its own MLflow run, and previous MLflow runs with the same
    `recmetrics.run_id` (the same job, `as_of` and configuration) are deleted, so a repeated evaluation is logged once. MLflow
    can restore deleted runs.

    Args:
        result: Result of `evaluate`.
        uri: See `Mlflow` for this and the next five arguments.
        experiment: See `Mlflow`.
        run_name: See `Mlflow`.
        tags: See `Mlflow`.
        prefix: See `Mlflow`.
        slices: See `Mlflow`.
        comparison: Result of `compare`; see `to_html` for this and the next three arguments.
        gates: See `to_html`.
        history: See `to_html`.
        configuration: See `to_html`.

    Returns:
        The ids of the MLflow runs, and what was not logged.

    Raises:
        ConfigError: MLflow is not installed, or an option is wrong.
        PublishError: MLflow could not be written. The unfinished MLflow run is marked as failed.

    Example:
        >>> import pandas as pd
        >>> from spark_recmetrics.evaluation.stages import evaluate
        >>> predictions = pd.DataFrame({"user_id": ["ann", "ann"], "item_id": ["x", "y"], "score": [0.9, 0.8]})
        >>> truth = pd.DataFrame({"user_id": ["ann", "bob"], "item_id": ["y", "y"]})
        >>> result = evaluate(predictions, truth, metrics=["mrr", "recall"], k=2)
        >>> log_to_mlflow(result, experiment="recommendations", tags={"team": "search"}).n_undefined
        {'model': 0}
    """
    options, page = Mlflow(uri, experiment, run_name, {} if tags is None else tags, prefix, slices), None
    check_installed()
    check_argument("result", result, "the result of evaluate", valid=isinstance(result, Result))
    if can_be_made():
        page = result.as_html(comparison=comparison, gates=gates, history=history, configuration=configuration)
    fields = {"gates": [row._asdict() for row in gates], "comparison": [] if comparison is None else comparison.rows}
    title = ", as of ".join(printable(part) for part in (result.run.job or "evaluation", result.run.as_of) if part)
    report = report_text(result, title, comparison=comparison, warnings=result.warnings)
    return track(result, options, report=report, page=page, fields=fields)


def track(result: Result, options: Mlflow, *, fields: Mapping[str, Any], page: str | None, report: str) -> Tracked:
    """Log a result with further `fields` of `result.json`. `page` is `report.html`, `report` is `report.txt`."""
    content = {**_identity(result), "run_id": result.run.run_id, "models": result.to_dict(), **result.content(**fields)}
    artifacts = {"result.json": json_text(content, indent=1), "report.txt": report}
    artifacts |= {} if page is None else {"report.html": page}
    tags = {"gates": gates_summary(fields["gates"])[0]} if fields["gates"] else {}
    logs = {model: _Log.of(result, model, options, tags) for model in result.means}
    try:
        runs, delete_warnings = _write(result, logs, options, artifacts)
    except Exception as error:
        address = options.uri or without_password(os.environ.get("MLFLOW_TRACKING_URI", "the tracking store of MLflow"))
        raise PublishError(f"mlflow: cannot write to {address}: {printable(reason_of(error, without_password))}") from error
    undefined = {model: log.undefined for model, log in logs.items()}
    warnings = [f"mlflow: model {printable(model)}: {_undefined_text(names)}" for model, names in undefined.items() if names]
    return Tracked(runs, {model: len(names) for model, names in undefined.items()}, warnings + delete_warnings)


def check_installed(key: str = "mlflow") -> None:
    """Raise `ConfigError` if MLflow is not installed. `key` is the option of the message."""
    if find_spec("mlflow") is None:
        raise ConfigError(without_extra(f"{key}: expected the package mlflow or mlflow-skinny on the driver", "mlflow"))


class _Log(NamedTuple):
    """What is logged for one model."""

    metrics: dict[str, float]
    undefined: list[str]
    params: dict[str, str]
    tags: dict[str, str]

    @classmethod
    def of(cls, result: Result, model: str, options: Mlflow, further_tags: Mapping[str, str]) -> _Log:
        values = dict(_values(result, model, slices=options.slices))
        metrics = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        undefined = [name for name in values if name not in metrics]
        metrics |= {"n_undefined_metrics": float(len(undefined)), "n_users": float(result.n_users[model])}
        convention = result.convention
        params = _identity(result)
        params["threshold"] = f"{convention.threshold:g}" if convention.relevance == "threshold" else None
        tags = {"model": model, "run_id": result.run.run_id, "status": result.status, "undefined": ", ".join(undefined) or None}
        return cls(
            {options.prefix + name: value for name, value in metrics.items()},
            undefined,
            _prefixed(params, _LONGEST_PARAM),
            {**options.tags, **_prefixed({**tags, **further_tags}, _LONGEST_TAG)},
        )


def _identity(result: Result) -> dict[str, str | None]:
    run = result.run
    hashes = {"config_hash": run.config_hash, "data_hash": result.data_hash}
    return {"job": run.job, "as_of": run.as_of, **hashes, "convention": str(result.convention), "version": __version__}


def _prefixed(values: Mapping[str, str | None], longest: int) -> dict[str, str]:
    return {f"{PREFIX}{name}": value[:longest] for name, value in values.items() if value is not None}


def _values(result: Result, model: str, *, slices: bool) -> Iterator[tuple[str, float | None]]:
    """Metric names and values. If slices have the same name in MLflow, a number is appended."""
    for mean in result.means[model]:
        yield mean.metric.slug, mean.value
    counts: dict[str, int] = {}
    for text, value in in_order(result.slices, result.sliced) if slices else ():
        name = f"{_name_part(Slice.parse(text).names)}/{_name_part(value)}"
        # Some servers store metrics in a file system that ignores case.
        counts[name.lower()] = n = counts.get(name.lower(), 0) + 1
        for mean in result.sliced[text, value].get(model, ()):
            yield f"{name if n == 1 else f'{name}_{n}'}/{mean.metric.slug}", mean.value


def _name_part(text: str) -> str:
    """The string as one part of a name. Dots are replaced, because `.` and `..` would be folders."""
    return re.sub(rf"{_INVALID}|[/.]", "_", text)[:80].strip() or "_"


def _undefined_text(names: Sequence[str]) -> str:
    others = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{len(names)} undefined and not logged: {', '.join(names[:5])}{others}"


def _write(
    result: Result, logs: Mapping[str, _Log], options: Mlflow, artifacts: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Create the MLflow runs. Returns their ids by model, and a warning if previous runs could not be deleted."""
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=options.uri)
    active = mlflow.active_run() if options.uri is None and options.experiment is None else None
    if active is not None and len(logs) == 1:
        for log in logs.values():
            _fill(client, active.info.run_id, log, artifacts)
        return dict.fromkeys(logs, active.info.run_id), []
    experiment = active.info.experiment_id if active is not None else _experiment(client, result, options)
    start_time, runs = int(time.time() * 1000), dict[str, str]()
    for model, log in logs.items():
        tags = log.tags if active is None else {**log.tags, "mlflow.parentRunId": active.info.run_id}
        name = _run_name(result, model, options)
        run = client.create_run(experiment, start_time=start_time, tags=tags, run_name=name).info.run_id
        try:
            _fill(client, run, log, artifacts)
        except BaseException:
            with suppress(Exception):  # the server may be down; the first error is the one to report
                client.set_terminated(run, "FAILED")
            raise
        client.set_terminated(run)
        runs[model] = run
    if active is not None or result.run.run_id is None:
        return runs, []
    try:
        _delete_previous(client, experiment, result.run.run_id, before=start_time, keep=set(runs.values()))
    except Exception as error:  # noqa: BLE001 - the user may lack the permission to delete, and everything is logged
        reason = printable(reason_of(error, without_password))
        return runs, [f"mlflow: previous runs with {PREFIX}run_id {result.run.run_id} were not deleted: {reason}"]
    return runs, []


def _fill(client: Any, run_id: str, log: _Log, artifacts: Mapping[str, str]) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, 0) for name, value in log.metrics.items()]
    params = [Param(name, value) for name, value in log.params.items()]
    client.log_batch(run_id, params=params, tags=[RunTag(name, value) for name, value in log.tags.items()])
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _BATCH])
    for name, text in artifacts.items():
        client.log_text(run_id, text, f"recmetrics/{name}")


def _experiment(client: Any, result: Result, options: Mlflow) -> str:
    if options.experiment is None and os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return os.environ["MLFLOW_EXPERIMENT_ID"]
    name = options.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or result.run.job or "spark-recmetrics"
    experiment = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if experiment is None else experiment.experiment_id)


def _run_name(result: Result, model: str, options: Mlflow) -> str:
    """The name on one line, because MLflow prints it to the log of its server."""
    if options.run_name is None:
        parts = [result.run.job, result.run.as_of, model]
    else:
        parts = [options.run_name, model if len(result.means) > 1 else None]
    return printable(" ".join(part for part in parts if part))


def _delete_previous(client: Any, experiment: str, run_id: str, *, before: int, keep: set[str]) -> None:
    previous, token = list[str](), None
    while True:
        page = client.search_runs([experiment], f"tags.`{PREFIX}run_id` = '{run_id}'", page_token=token)
        # A run that started later is a newer attempt, which stays.
        previous += [run.info.run_id for run in page if run.info.run_id not in keep and run.info.start_time <= before]
        token = page.token
        if not token:
            break
    for each in previous:
        client.delete_run(each)
