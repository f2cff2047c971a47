"""Learn what metrics and slices need to know besides lists and ground truth: small jobs on Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from spark_recmetrics.errors import DataError
from spark_recmetrics.side_info.bands_spark import know_bands
from spark_recmetrics.side_info.groups_spark import know_groups
from spark_recmetrics.side_info.items_spark import (
    LARGEST_BESIDE,
    kept_items,
    kept_training,
    know_descriptions,
    know_popularity,
    parts_of_items,
)
from spark_recmetrics.side_info.known import Known, item_summary, models_of
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.read import example_in_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_recmetrics.inputs.spark import Inputs
    from spark_recmetrics.request.request import Request


def learn(inputs: Inputs, request: Request, resources: ExitStack) -> Known[DataFrame]:
    """What is known of models, items, groups and slices. Nothing of the size of the catalog reaches the driver.

    Args:
        inputs: The caller's tables.
        request: What is asked.
        resources: Releases what is kept in the cluster.

    Raises:
        ConfigError: The baseline is none of the models.
        DataError: The catalog is empty, or a table of users or items cannot be used.
    """
    spark, needs = inputs.truth.sparkSession, request.needs.all
    with step(spark, "models and catalog"):
        models = models_of(request, _models_in(inputs))
        n_items = request.catalog_size
        if request.needs.first_with("catalog") and inputs.catalog is not None:
            n_items = actions.count_distinct(inputs.catalog)
    if n_items == 0:
        raise DataError("catalog: expected rows with an item, found none: check its location and filters")
    with step(spark, "items and groups"), example_in_errors():
        trained = kept_training(inputs, needs, resources)
        groups, described, popularity, bands = actions.in_parallel(
            spark,
            lambda: know_groups(inputs, request),
            lambda: know_descriptions(inputs, needs, request.columns),
            lambda: know_popularity(trained, inputs, needs),
            lambda: know_bands(inputs, request.slices, request.columns),
        )
    items = kept_items(trained, described, groups, parts_of_items(request.n_buckets), resources)
    summary = item_summary(popularity, described, groups)
    # The tables are about the same items, more or less.
    n_popular = 0 if popularity is None else sum(popularity.n_items)
    n_described = 0 if described is None else described.n_items
    size = max(n_popular, n_described, groups.sizes.n_items) * 8 * (2 + summary.n_blocks + summary.n_features)
    return Known(
        models=models,
        n_items=n_items,
        summary=summary,
        items=items,
        items_to_all=size <= LARGEST_BESIDE,
        group_sizes=groups.sizes,
        segments=groups.segments,
        bands=bands,
    )


def _models_in(inputs: Inputs) -> Callable[[], list[str]] | None:
    """Looks up the models in the tables, by a job each; None where they have no column of models."""
    tables = [rows for rows in inputs.predicted.values() if "model" in rows.columns]
    if not tables:
        return None
    return lambda: sorted({name for rows in tables for name in actions.distinct_models(rows)})
