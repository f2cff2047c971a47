"""The preflight job, and the input tables of a configuration as arguments of `prove` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spark_recmetrics.columns import TABLE_OF
from spark_recmetrics.diagnostics.doctor_spark import failures
from spark_recmetrics.diagnostics.preflight_spark import prove
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.spark import union_models
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.outcome import JobOutcome, print_text
from spark_recmetrics.job.session_spark import checked_session
from spark_recmetrics.request.slices import bands_of
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.read import example_in_errors, read_table
from spark_recmetrics.storage.text_files import Roles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_preflight(config: Config, outcome: JobOutcome, vault: Vault) -> None:
    """Run the checks, whether or not the configuration has `preflight: true`."""
    with checked_session() as spark:
        with step(spark, "tables"):
            arguments = common_arguments(spark, config, vault)
        check_inputs(spark, config, arguments, outcome)
    outcome.status = "ok"


def check_inputs(spark: SparkSession, config: Config, arguments: Mapping[str, Any], outcome: JobOutcome) -> None:
    """Run the checks of `prove` and print one line per check. Raises `DataError` if one fails."""
    options = {} if config.preflight is None else config.preflight.model_dump()
    checks = []
    with step(spark, "preflight"):
        for check in prove(**arguments, **options):
            print_text(check)
            checks.append(check)
            outcome.preflight.append({key: getattr(check, key) for key in ("level", "name", "finding", "advice")})
    if failed := failures(checks):
        raise DataError(f"preflight: {failed}: nothing was published")


def common_arguments(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """The arguments that `evaluate` and `prove` share."""
    evaluation = config.evaluation
    return {
        **_tables(spark, config, vault),
        "metrics": evaluation.expanded,
        "k": None,  # the metrics have their cut-offs; one without is computed over the full list
        "threshold": evaluation.threshold,
        "convention": evaluation.convention,
        "columns": config.columns,
        "checks": config.checks,
        "cast_ids": config.inputs.cast_ids,
        "n_buckets": evaluation.n_buckets,
    }


def evaluation_arguments(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """The arguments that only `evaluate` has."""
    read, evaluation = _reader(spark, config, vault), config.evaluation
    return {
        **{key: read(getattr(config.inputs, key), key) for key in ("user_segments", "item_groups", "item_features")},
        "baseline": evaluation.baseline,
        "objectives": evaluation.objectives,
        "slices": evaluation.slices,
        "min_users": evaluation.min_users,
        "intervals": evaluation.intervals.chosen,
        "ranking": evaluation.ranking,
        "max_per_user": evaluation.max_per_user,
    }


def _reader(spark: SparkSession, config: Config, vault: Vault) -> Callable[[Any, str], Any]:
    """A function that reads the table at a location. Other values, such as the number of items, stay."""

    def read(value: Any, key: str) -> Any:
        if not isinstance(value, Location):
            return value
        return read_table(spark, config.located(value), f"inputs.{key}", vault, _roles(config, key))

    return read


def _roles(config: Config, key: str) -> Roles:
    """What the columns of an input are used for."""
    columns = config.columns
    if key not in (*TABLE_OF.values(), "item_features"):
        numbers = [columns.score, columns.rating, columns.propensity, *([columns.rank] if columns.rank else [])]
        return Roles(ids=(columns.user, columns.item, columns.items), names=(columns.model,), numbers=numbers)
    with_edges = [band.name for band in bands_of(config.evaluation.slices) if band.edges]
    ids = columns.user if key == TABLE_OF["user"] else columns.item
    return Roles(ids=(ids,), numbers=with_edges, rest="name")


def _tables(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    inputs, read = config.inputs, _reader(spark, config, vault)

    def union(locations: Mapping[str, Location], key: str) -> DataFrame:
        frames = {model: read(location, f"models.{model}.{key}") for model, location in locations.items()}
        with example_in_errors():
            return union_models(key, frames, config.columns, inputs.cast_ids)

    tables = {
        key: read(getattr(inputs, key), key) for key in ("predictions", "rating_predictions", "truth", "train", "catalog")
    }
    if inputs.models:
        tables["models"] = list(inputs.models)
        tables["predictions"] = union({name: model.predictions for name, model in inputs.models.items()}, "predictions")
        if any(model.rating_predictions for model in inputs.models.values()):
            ratings = {name: model.rating_predictions or model.predictions for name, model in inputs.models.items()}
            tables["rating_predictions"] = union(ratings, "rating_predictions")
    return {"model_name": config.model_name, **tables}
