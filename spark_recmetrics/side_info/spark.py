"""The side information of an evaluation on Spark, by small jobs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from spark_recmetrics.inputs.spark import Inputs
from spark_recmetrics.request.request import Request
from spark_recmetrics.side_info.bands_spark import learn_bands, learn_groups
from spark_recmetrics.side_info.items_spark import (
    kept_items,
    learn_descriptions,
    learn_popularity,
    parts_of_items,
    trained_items,
)
from spark_recmetrics.side_info.known import Known, catalog_size, item_summary, models_of
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.read import example_in_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGEST_TO_ALL = 2**26
"""The maximum size, in bytes, of the item properties that every bucket gets. Larger ones are joined to the rows of lists."""


def learn(inputs: Inputs, request: Request, resources: ExitStack) -> Known[DataFrame]:
    """The side information. `resources` releases what is kept. Nothing of the size of the catalog reaches the driver."""
    spark, needs = inputs.truth.sparkSession, request.needs.all
    with step(spark, "models and catalog"):
        with_model = [rows for rows in inputs.predicted.values() if "model" in rows.columns]
        models = models_of(request, with_model, actions.distinct_models)
        n_items = catalog_size(request, inputs.catalog, actions.count_distinct)
    with step(spark, "items and groups"), example_in_errors():
        trained = trained_items(inputs, needs, resources)
        groups, described, popularity, bands = actions.in_parallel(
            spark,
            lambda: learn_groups(inputs, request),
            lambda: learn_descriptions(inputs, needs, request.columns),
            lambda: learn_popularity(trained, inputs, needs),
            lambda: learn_bands(inputs, request.slices, request.columns),
        )
    items = kept_items(trained, described, groups, parts_of_items(request.n_buckets), resources)
    summary = item_summary(popularity, described, groups)
    # The tables have about the same items.
    n_popular = 0 if popularity is None else sum(popularity.n_items)
    n_described = 0 if described is None else described.n_items
    n_bytes = max(n_popular, n_described, groups.sizes.n_items) * 8 * (2 + summary.n_blocks + summary.n_features)
    return Known(
        models=models,
        n_items=n_items,
        summary=summary,
        items=items,
        items_to_all=n_bytes <= LARGEST_TO_ALL,
        group_sizes=groups.sizes,
        segments=groups.segments,
        bands=bands,
    )
