"""Ids and names that are easily taken for each other, in every role, in frames of all libraries and files of all formats."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import cycle, product

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import ROLES, TEXTS

import spark_recmetrics as srm
from spark_recmetrics.errors import RecMetricsError
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.files.source import Source
from spark_recmetrics.job.preflight import common_arguments, evaluation_arguments
from spark_recmetrics.storage.credentials import Vault


def right(world, rows):
    assert world.found(rows) == {key: pytest.approx(value, abs=1e-12) for key, value in world.expected.items()}


# In memory ----------------------------------------------------------------------------------------------------------------


def arrow(columns, rows, kind=pa.string()):  # noqa: B008 - types of Arrow do not change
    arrays = [list(values) for values in zip(*rows, strict=True)]
    return pa.table(
        {name: pa.array(a, kind if isinstance(a[0], str) else None) for name, a in zip(columns, arrays, strict=True)}
    )


def polars(columns, rows):
    import polars as pl

    return pl.from_arrow(arrow(columns, rows))


def categorical(columns, rows):
    frame = pd.DataFrame(rows, columns=list(columns))
    return frame.astype({name: "category" for name in columns if name != "score"})


FRAMES = {
    "pandas": lambda columns, rows: pd.DataFrame(rows, columns=list(columns)),
    "pandas categories": categorical,
    "pyarrow": arrow,
    "large strings": lambda columns, rows: arrow(columns, rows, pa.large_string()),
    "dictionaries": lambda columns, rows: arrow(columns, rows, pa.dictionary(pa.int32(), pa.string())),
    "polars": polars,
}
IN_MEMORY = [
    pytest.param(kind, role, frames, id=f"{kind}, {role}, {frames}")
    for (kind, role), frames in zip(product(TEXTS, ROLES), cycle([*FRAMES, "pandas"]), strict=False)
]


@pytest.mark.parametrize(("kind", "role", "frames"), IN_MEMORY)
def test_in_memory_ids_and_names_are_as_they_are_written(kind, role, frames):
    world = ROLES[role](TEXTS[kind])
    tables = {name: FRAMES[frames](*table) for name, table in world.tables.items()}
    right(world, srm.evaluate(**tables, **world.options).rows)


# Files --------------------------------------------------------------------------------------------------------------------


def write_csv(path, columns, rows):
    pd.DataFrame(rows, columns=list(columns)).to_csv(path / "part-0.csv", index=False)


def write_json(path, columns, rows):
    text = "".join(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)
    (path / "part-0.json").write_text(text, encoding="utf-8")


def write_parquet(path, columns, rows):
    pq.write_table(arrow(columns, rows), path / "part-0.parquet")


def write_orc(path, columns, rows):
    from pyarrow import orc

    orc.write_table(arrow(columns, rows), str(path / "part-0.orc"))


def write_folders(path, columns, rows, by):
    """A folder for each value, as Spark writes them."""
    pq.write_to_dataset(arrow(columns, rows), path, partition_cols=[by])


WRITERS = {"csv": write_csv, "json": write_json, "parquet": write_parquet, "orc": write_orc}
REJECTED = {("csv", "quotes"), ("folders", "digits of another script")}
"""Formats and kinds that are rejected, since the format cannot hold these texts as they are."""

ON_SPARK = [
    pytest.param(kind, role, written, id=f"{kind}, {role}, {written}", marks=() if turn in (3, 40) else pytest.mark.heavy)
    for turn, ((kind, role), written) in enumerate(
        zip(
            ((kind, role) for number, kind in enumerate(TEXTS) for role in list(ROLES)[number % 3 :: 3]),
            cycle([*WRITERS, "folders", "csv"]),
            strict=False,
        )
    )
]


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(("kind", "role", "written"), ON_SPARK)
def test_in_files_ids_and_names_are_as_they_are_written_or_rejected(spark, tmp_path, kind, role, written):
    world, inputs = ROLES[role](TEXTS[kind]), {}
    for name, (columns, rows) in world.tables.items():
        path = tmp_path / name
        path.mkdir()
        if written == "folders" and world.hostile in columns and len(columns) > 1:
            write_folders(path, columns, rows, world.hostile)
            inputs[name] = {"path": str(path), "format": "parquet"}
        else:
            form = "parquet" if written == "folders" else written
            WRITERS[form](path, columns, rows)
            inputs[name] = {"path": str(path), "format": form}
    options = dict(world.options)
    evaluation = {"metrics": options["metrics"], "top_k": [options["k"]], "slices": options.get("slices", [])}
    text = json.dumps({"inputs": inputs, "evaluation": evaluation, "output": {"path": str(tmp_path / "out")}})
    (tmp_path / "conf.json").write_text(text)
    config = Config.read(Source(tmp_path / "conf.json"))
    with pytest.raises(RecMetricsError) if (written, kind) in REJECTED else nullcontext():
        result = srm.evaluate(**common_arguments(spark, config, Vault()), **evaluation_arguments(spark, config, Vault()))
        right(world, result.rows)
