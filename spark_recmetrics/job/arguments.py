"""The configuration of an evaluation as arguments of `evaluate` and `prove`. Reads the input tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_recmetrics.storage.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.job.files.config import Config
    from spark_recmetrics.storage.credentials import Vault


def common_arguments(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """The arguments that `evaluate` and `prove` share."""
    return {
        **_tables(spark, config, vault),
        "metrics": config.evaluation.expanded,
        "k": None,  # the metrics have their cut-offs; one without is computed over the full list
        "threshold": config.evaluation.threshold,
        "convention": config.evaluation.convention,
        "columns": config.columns,
        "checks": config.checks,
        "cast_ids": config.inputs.cast_ids,
        "n_buckets": config.evaluation.n_buckets,
    }


def evaluation_arguments(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    """The arguments that only `evaluate` has."""
    read, evaluation = _reader(spark, config, vault), config.evaluation
    side_information = {key: getattr(config.inputs, key) for key in ("user_segments", "item_groups", "item_features")}
    return {
        **{key: None if location is None else read(location, key) for key, location in side_information.items()},
        "baseline": evaluation.baseline,
        "objectives": evaluation.objectives,
        "slices": evaluation.slices,
        "min_users": evaluation.min_users,
        "intervals": evaluation.intervals.chosen,
        "ranking": evaluation.ranking,
        "max_per_user": evaluation.max_per_user,
    }


def _reader(spark: SparkSession, config: Config, vault: Vault) -> Callable[[Location, str], DataFrame]:
    from spark_recmetrics.storage.read import read_table

    id_columns = (config.columns.user, config.columns.item)
    return lambda location, key: read_table(spark, config.located(location), f"inputs.{key}", vault, id_columns)


def _tables(spark: SparkSession, config: Config, vault: Vault) -> dict[str, Any]:
    from spark_recmetrics.inputs.spark import union_models
    from spark_recmetrics.storage.read import example_in_errors

    inputs, read = config.inputs, _reader(spark, config, vault)
    tables: dict[str, Any] = {"model_name": config.model_name}

    def union(locations: dict[str, Location], key: str) -> DataFrame:
        frames = {model: read(location, f"models.{model}.{key}") for model, location in locations.items()}
        with example_in_errors():
            return union_models(key, frames, config.columns, inputs.cast_ids)

    for key in ("predictions", "rating_predictions", "truth", "train", "catalog"):
        value = getattr(inputs, key)
        tables[key] = read(value, key) if isinstance(value, Location) else value
    if inputs.models is None:
        return tables
    tables["models"] = list(inputs.models)
    tables["predictions"] = union({name: model.predictions for name, model in inputs.models.items()}, "predictions")
    if any(model.rating_predictions for model in inputs.models.values()):
        ratings = {name: model.rating_predictions or model.predictions for name, model in inputs.models.items()}
        tables["rating_predictions"] = union(ratings, "rating_predictions")
    return tables
