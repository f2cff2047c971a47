"""Ids and names that are easily taken for each other, in every role, in frames of all libraries and files of all formats."""

from __future__ import annotations

import json

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


IN_MEMORY = [(role, list(FRAMES)[(3 * place + turn) % 6]) for turn, role in enumerate(ROLES) for place in range(2)]


@pytest.mark.parametrize(("role", "frames"), IN_MEMORY)
def test_in_memory_ids_and_names_are_as_they_are_written(role, frames):
    world = ROLES[role](list(TEXTS.values()))
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
REJECTED = {"csv": ["quotes"], "folders": ["long", *(kind for kind, three in TEXTS.items() if not "".join(three).isascii())]}
"""By format, kinds that it cannot hold: pyarrow writes other letters in names of folders as bytes, which Spark misreads."""

LIGHT = [("csv", "users"), ("folders", "models")]
HEAVY = [
    ("csv", "segments"),
    ("json", "items"),
    ("parquet", "users"),
    ("orc", "items"),
    ("folders", "users"),
    ("table", "segments"),
]
SLOW = [
    *(("csv", "models"), ("csv", "features"), ("json", "groups"), ("json", "train"), ("parquet", "models")),
    *(("parquet", "catalog"), ("orc", "segments"), ("folders", "groups"), ("table", "train")),
]


def found_in_files(spark, folder, world, written):
    """The rows of an evaluation of tables in files, in the catalog, or in folders that hold the hostile column."""
    inputs = {}
    for name, (columns, rows) in world.tables.items():
        form = written if written in WRITERS else "parquet"
        path = folder / name
        path.mkdir(parents=True)
        inputs[name] = {"path": str(path), "format": form}
        if written == "folders" and world.hostile in columns and len(columns) > 1:
            write_folders(path, columns, rows, world.hostile)
        else:
            WRITERS[form](path, columns, rows)
        if written == "table":
            spark.read.parquet(str(path)).write.mode("overwrite").saveAsTable(f"hostile_{name}")
            inputs[name] = {"table": f"hostile_{name}"}
    options = world.options
    evaluation = {"metrics": options["metrics"], "top_k": [options["k"]], "slices": options.get("slices", [])}
    text = json.dumps({"inputs": inputs, "evaluation": evaluation, "output": {"path": str(folder / "out")}})
    (folder / "conf.json").write_text(text)
    config = Config.read(Source(folder / "conf.json"))
    return srm.evaluate(**common_arguments(spark, config, Vault()), **evaluation_arguments(spark, config, Vault())).rows


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(
    ("written", "role"),
    [
        *LIGHT,
        *(pytest.param(*pair, marks=pytest.mark.heavy) for pair in HEAVY),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW),
    ],
)
def test_in_files_ids_and_names_are_as_they_are_written(spark, tmp_path, written, role):
    world = ROLES[role]([three for kind, three in TEXTS.items() if kind not in REJECTED.get(written, ())])
    right(world, found_in_files(spark, tmp_path, world, written))


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(("written", "kind"), [("csv", "quotes"), ("folders", "digits of another script")])
def test_what_a_format_cannot_hold_is_rejected(spark, tmp_path, written, kind):
    with pytest.raises(RecMetricsError, match=r"found .*: "):
        found_in_files(spark, tmp_path, ROLES["users"]([TEXTS[kind]]), written)


def test_no_text_is_in_two_kinds():
    texts = [text for three in TEXTS.values() for text in three]
    assert len(set(texts)) == len(texts)
