"""Values of an evaluation in MLflow: a run there for each model, with metrics under names that it accepts."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from spark_recmetrics.aggregation.means import Mean
from spark_recmetrics.errors import ConfigError, PublishError, without_extra
from spark_recmetrics.evaluation.result import Compared, Outcome, headline
from spark_recmetrics.reports.findings import gates_summary
from spark_recmetrics.reports.page import can_be_made
from spark_recmetrics.reports.tables import slice_table
from spark_recmetrics.request.slices import Slice, in_order
from spark_recmetrics.storage.credentials import without_password
from spark_recmetrics.text import brief, json_text, printable
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from spark_recmetrics.decisions.gates import GateResult


OWN = "recmetrics."
"""Parameters and tags begin with it, so that they never meet those of the caller's run."""

_PARENT = "mlflow.parentRunId"
_BATCH = 1000
"""How many metrics a tracking server takes at once."""

_NAMED = 5
"""How many metrics a warning names."""

_LONGEST_TAG, _LONGEST_PARAM = 5000, 500
"""What every tracking server takes."""


@dataclass(frozen=True)
class Mlflow:
    """What goes to MLflow, and where.

    Args:
        uri: Address of the tracking server, such as `https://mlflow.example.com`, or `databricks`. None: what MLflow takes by
            itself, MLFLOW_TRACKING_URI first.
        experiment: Name of the experiment, made if it is not there. None: MLFLOW_EXPERIMENT_ID, MLFLOW_EXPERIMENT_NAME, or the
            job.
        run_name: Name of the run in MLflow; of several models, the model is added. None: job, as_of and model.
        tags: Tags of the run, texts by name.
        prefix: Beginning of the names of metrics, such as `nightly/`.
        slices: Whether values of slices are logged, too, as `gender/F/ndcg_at_10`.
        on_error: What a job does if MLflow cannot be written: `warn` or `fail`, in both cases after everything is published.

    Raises:
        ConfigError: An address with a password, or what MLflow does not take as the name of a tag or metric.

    Example:
        >>> Mlflow(experiment="/Shared/recs", tags={"team": "search"}).on_error
        'warn'
        >>> Mlflow(prefix="nightly@")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: prefix: expected letters, digits and _ - . / space, found 'nightly@'
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
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or not given.strip()):
                raise ConfigError(f"{name}: expected a text, found {brief(given)}")
        if self.uri is not None and without_password(self.uri) != self.uri:
            raise ConfigError(
                "uri: expected an address without a password, found one, which is not shown here: give it to the driver as "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            )
        if not isinstance(self.prefix, str) or re.search(rf"{_FOREIGN}|^/|//|^ |(^|/)\.+(/|$)", self.prefix):
            raise ConfigError(f"prefix: expected letters, digits and _ - . / space, found {brief(self.prefix)}")
        if not isinstance(self.slices, bool):
            raise ConfigError(f"slices: expected true or false, found {brief(self.slices)}")
        if self.on_error not in get_args(Literal["warn", "fail"]):
            raise ConfigError(f"on_error: expected warn or fail, found {brief(self.on_error)}")
        if not isinstance(self.tags, Mapping):
            raise ConfigError(f"tags: expected a mapping of names to texts, found {brief(self.tags)}")
        named = [("prefix", self.prefix, 100), ("experiment", self.experiment or "", 500)]
        for name, text, longest in [*named, *(("tags", str(tag), 100) for tag in self.tags)]:
            if len(text) > longest:
                raise ConfigError(f"{name}: expected at most {longest} characters, found {len(text)}")
        for tag, value in self.tags.items():
            if not isinstance(tag, str) or not tag or re.search(_FOREIGN, tag) or tag.startswith((OWN, "mlflow.")):
                raise ConfigError(
                    f"tags: expected names of letters, digits and _ - . / space that do not begin with {OWN} or mlflow., "
                    f"found {brief(tag)}"
                )
            if not isinstance(value, str):
                quotes = ": write it in quotes" if isinstance(value, int | float) else ""
                raise ConfigError(f"tags.{tag}: expected a text, found {brief(value)}{quotes}")


_FOREIGN = r"[^A-Za-z0-9_\-./ ]"
"""A character that MLflow does not take in a name."""


class Tracked(NamedTuple):
    """What was logged.

    Args:
        runs: By model, the id of its run in MLflow.
        n_undefined: By model, how many values were left out.
        warnings: One line per model with values left out, and one if earlier runs of the night could not be deleted.
    """

    runs: dict[str, str]
    n_undefined: dict[str, int]
    warnings: list[str]


def log_to_mlflow(
    result: Outcome,
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
    """Log the values of an evaluation to MLflow: one run there for each model.

    Metrics have the names of the columns of PER_USER, `ndcg_at_10` for `ndcg@10`, since MLflow takes no `@`. What is undefined
    or infinite is left out, counted in the metric `n_undefined_metrics`, named in the tag `recmetrics.undefined`, and told in a
    warning. `n_users` is the number of users behind the first ranking metric that judges. Parameters are `recmetrics.job`,
    `.as_of`, `.convention`, `.threshold`, `.config_hash`, `.data_hash` and `.version`, as far as they are known; tags
    `recmetrics.model`, `.run_id`, `.status` and, where there are gates, `.gates`. Artefacts are `recmetrics/result.json`,
    with all rows of SUMMARY, DATA_REPORT, COMPARISON and GATES, `recmetrics/report.txt`, and where the extra `report` is
    installed `recmetrics/report.html`, the page of `to_html`.

    Inside `with mlflow.start_run():`, and with neither `uri` nor `experiment`, the only model is logged into that run, and
    several models become runs nested in it. Elsewhere each model has a run of its own, and earlier ones with the same
    `recmetrics.run_id`, that is of the same job, `as_of` and configuration, are deleted, so that a repeated night stands there
    once. MLflow can restore them.

    Args:
        result: What `evaluate` or `evaluate_in_memory` has found.
        uri: See `Mlflow` for this and the next five.
        experiment: As there.
        run_name: As there.
        tags: As there.
        prefix: As there.
        slices: As there.
        comparison: Of `compare`; see `to_html` for this and the next three.
        gates: As there.
        history: As there.
        configuration: As there.

    Returns:
        The ids of the runs in MLflow, and what was left out.

    Raises:
        ConfigError: MLflow is not installed, or an option is wrong.
        PublishError: MLflow could not be written. What was begun there is marked as failed.

    Example:
        >>> import pandas as pd
        >>> from spark_recmetrics.evaluation.memory import evaluate_in_memory
        >>> predictions = pd.DataFrame({"user_id": ["ann", "ann"], "item_id": ["x", "y"], "score": [0.9, 0.8]})
        >>> truth = pd.DataFrame({"user_id": ["ann", "bob"], "item_id": ["y", "y"]})
        >>> result = evaluate_in_memory(predictions, truth, metrics=["mrr", "recall"], k=2)
        >>> log_to_mlflow(result, experiment="recommendations", tags={"team": "search"}).n_undefined
        {'model': 0}
    """
    options, page = Mlflow(uri, experiment, run_name, {} if tags is None else tags, prefix, slices), None
    check_installed()
    if isinstance(result, Outcome) and can_be_made():
        page = result.as_html(comparison=comparison, gates=gates, history=history, configuration=configuration)
    gate_results = [row._asdict() for row in gates]
    found = {"gates": gate_results, "comparison": [] if comparison is None else comparison.rows}
    return track(result, options, page=page, more=found)


def track(
    result: Outcome,
    options: Mlflow,
    *,
    report: str | None = None,
    page: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> Tracked:
    """What `log_to_mlflow` does, for a job that knows more than the result.

    Args:
        result: What `evaluate` has found.
        options: What is logged, and where.
        report: The text for `report.txt`; None: the text of the result, and the warnings.
        page: The text for `report.html`; None: there is none.
        more: Fields that `result.json` has, too. The worst result of `gates` is a tag.

    Raises:
        ConfigError: MLflow is not installed.
        PublishError: MLflow could not be written.
    """
    if not isinstance(result, Outcome):
        raise ConfigError(f"result: expected what evaluate has found, found {brief(result)}")
    check_installed()
    texts = {"result.json": _as_json(result, more or {}), "report.txt": _report(result) if report is None else report}
    texts |= {} if page is None else {"report.html": page}
    gate_results = (more or {}).get("gates", ())
    tags = {"gates": gates_summary(gate_results)[0]} if gate_results else {}
    logs = {model: _Log.of(result, model, options, tags) for model in result.means}
    try:
        runs, kept = _written(result, logs, options, texts)
    except Exception as error:
        raise PublishError(f"mlflow: cannot write to {_place(options)}: {_reason(error)}") from error
    left_out = {model: log.left_out for model, log in logs.items() if log.left_out}
    warnings = [f"mlflow: model {printable(model)}: {_left_out(names)}" for model, names in left_out.items()]
    return Tracked(runs, {model: len(log.left_out) for model, log in logs.items()}, [*warnings, *kept])


def check_installed(key: str = "mlflow") -> None:
    """Raise where MLflow is missing, which a job asks before hours of work.

    Args:
        key: What asks for it, for the message.

    Raises:
        ConfigError: It is.
    """
    if find_spec("mlflow") is None:
        raise ConfigError(without_extra(f"{key}: expected the package mlflow or mlflow-skinny on the driver", "mlflow"))


# What is logged -----------------------------------------------------------------------------------------------------------


class _Log(NamedTuple):
    """What is logged of one model."""

    metrics: dict[str, float]
    left_out: list[str]
    params: dict[str, str]
    tags: dict[str, str]

    @classmethod
    def of(cls, result: Outcome, model: str, options: Mlflow, more: Mapping[str, str]) -> _Log:
        values = dict(_values(result, model, slices=options.slices))
        known = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        left_out = [name for name in values if name not in known]
        known |= {"n_undefined_metrics": float(len(left_out)), "n_users": float(result.n_users[model])}
        rules, run = result.convention, result.run
        params = {
            "job": run.job,
            "as_of": run.as_of,
            "convention": str(rules),
            "threshold": f"{rules.threshold:g}" if rules.relevance == "threshold" else None,
            "config_hash": run.config_hash,
            "data_hash": result.data_hash,
            "version": __version__,
        }
        tags = {"model": model, "run_id": run.run_id, "status": result.status, "undefined": ", ".join(left_out) or None, **more}
        return cls(
            {options.prefix + name: value for name, value in known.items()},
            left_out,
            _own(params, _LONGEST_PARAM),
            {**options.tags, **_own(tags, _LONGEST_TAG)},
        )


def _own(values: Mapping[str, str | None], longest: int) -> dict[str, str]:
    return {f"{OWN}{name}": value[:longest] for name, value in values.items() if value is not None}


def _values(result: Outcome, model: str, *, slices: bool) -> Iterator[tuple[str, float | None]]:
    """Names and values. Names of slices that MLflow could not tell apart get a number."""
    yield from _of_group("", result.means[model])
    if not slices:
        return
    taken: dict[str, int] = {}
    for text, value in in_order(result.slices, result.sliced):
        name = f"{_plain(Slice.parse(text).names)}/{_plain(value)}"
        # File systems that tell no cases apart hold the metrics of some servers.
        taken[name.lower()] = n = taken.get(name.lower(), 0) + 1
        yield from _of_group(f"{name}/" if n == 1 else f"{name}_{n}/", result.sliced[text, value].get(model, ()))


def _of_group(place: str, of_group: Iterable[Mean]) -> Iterator[tuple[str, float | None]]:
    return ((f"{place}{mean.metric.slug}", mean.value) for mean in of_group)


def _plain(text: str) -> str:
    """A text as one part of a name: `.` or `..` alone would be a folder."""
    return re.sub(rf"{_FOREIGN}|[/.]", "_", text)[:80].strip() or "_"


def _left_out(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"n_undefined_metrics = {len(names)}, left out: {', '.join(names[:_NAMED])}{more}"


def _as_json(result: Outcome, more: Mapping[str, Any]) -> str:
    run = result.run
    found = {
        "job": run.job,
        "as_of": run.as_of,
        "run_id": run.run_id,
        "config_hash": run.config_hash,
        "data_hash": result.data_hash,
        "convention": str(result.convention),
        "version": __version__,
        "status": result.status,
        "models": result.to_dict(),
        "warnings": list(result.warnings),
        **more,
        "summary": result.rows,
        "data_report": [fact._asdict() for fact in result.data_checks],
        "pareto": [standing._asdict() for standing in result.pareto()],
    }
    return json_text(found, indent=1)


def _report(result: Outcome) -> str:
    """The text of the result, with slices, and what is to be warned of."""
    named = ", as of ".join(printable(part) for part in (result.run.job or "evaluation", result.run.as_of) if part)
    blocks = [named, str(result)]
    if result.slices:
        blocks.append(slice_table(result.rows, str(headline(next(iter(result.means.values()))).metric)))
    return "\n\n".join([*blocks, "\n".join(f"warning: {printable(line)}" for line in result.warnings)])


# Into the tracking store --------------------------------------------------------------------------------------------------


def _written(
    result: Outcome, logs: Mapping[str, _Log], options: Mlflow, texts: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The ids of the runs in MLflow, by model, and a warning if earlier ones of the night had to stay."""
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=options.uri)
    active = mlflow.active_run() if options.uri is None and options.experiment is None else None
    if active is not None and len(logs) == 1:
        for log in logs.values():
            _fill(client, active.info.run_id, log, texts)
        return dict.fromkeys(logs, active.info.run_id), []
    experiment = active.info.experiment_id if active is not None else _experiment(client, result, options)
    began, runs = int(time.time() * 1000), dict[str, str]()
    for model, log in logs.items():
        parent = {_PARENT: active.info.run_id} if active is not None else {}
        name = _run_name(result, model, options)
        made = client.create_run(experiment, start_time=began, tags={**log.tags, **parent}, run_name=name).info.run_id
        try:
            _fill(client, made, log, texts)
        except BaseException:
            with suppress(Exception):  # a server that is down by now; the first failure is the one to tell
                client.set_terminated(made, "FAILED")
            raise
        client.set_terminated(made)
        runs[model] = made
    if active is not None or result.run.run_id is None:
        return runs, []
    try:
        _delete_earlier(client, experiment, result.run.run_id, before=began, but=set(runs.values()))
    except Exception as error:  # noqa: BLE001 - not everybody who may log may delete, and all is logged
        return runs, [f"mlflow: earlier runs with {OWN}run_id {result.run.run_id} are still there: {_reason(error)}"]
    return runs, []


def _fill(client: Any, run_id: str, log: _Log, texts: Mapping[str, str]) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, 0) for name, value in log.metrics.items()]
    params = [Param(name, value) for name, value in log.params.items()]
    client.log_batch(run_id, params=params, tags=[RunTag(name, value) for name, value in log.tags.items()])
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _BATCH])
    for name, text in texts.items():
        client.log_text(run_id, text, f"recmetrics/{name}")


def _experiment(client: Any, result: Outcome, options: Mlflow) -> str:
    given = options.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if options.experiment is None and os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return os.environ["MLFLOW_EXPERIMENT_ID"]
    name = given or result.run.job or "spark-recmetrics"
    there = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if there is None else there.experiment_id)


def _run_name(result: Outcome, model: str, options: Mlflow) -> str:
    """A name of one line: MLflow prints it where its server is."""
    if options.run_name is None:
        parts = [result.run.job, result.run.as_of, model]
    else:
        parts = [options.run_name, model if len(result.means) > 1 else None]
    return printable(" ".join(part for part in parts if part))


def _delete_earlier(client: Any, experiment: str, run_id: str, *, before: int, but: set[str]) -> None:
    earlier, token = list[str](), None
    while True:
        found = client.search_runs([experiment], f"tags.`{OWN}run_id` = '{run_id}'", page_token=token)
        # A run that began later is another attempt of this night, which is the one to stay.
        earlier += [old.info.run_id for old in found if old.info.run_id not in but and old.info.start_time <= before]
        token = found.token
        if not token:
            break
    for old in earlier:
        client.delete_run(old)


def _reason(error: Exception) -> str:
    return printable(without_password(str(error)).strip().partition("\n")[0]) or type(error).__name__


def _place(options: Mlflow) -> str:
    return options.uri or without_password(os.environ.get("MLFLOW_TRACKING_URI", "the tracking store of MLflow"))
