"""Writing published tables; what needs Spark or Delta is in `runs/test_history.py` and `test_delta.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa_rows import assert_rows
from pyspark.ml.linalg import Vectors

from spark_recmetrics import Output, PublishError
from spark_recmetrics.storage import write


@pytest.mark.parametrize(("n_conflicts", "n_attempts", "written"), [(2, 3, True), (9, 4, False)])
def test_a_write_is_repeated_three_times_after_conflicts_of_delta(monkeypatch, caplog, n_conflicts, n_attempts, written):
    """The error is one of Delta, the writer is a stand-in."""
    attempts = []

    def append(*_):
        attempts.append(1)
        if len(attempts) <= n_conflicts:
            raise RuntimeError("[DELTA_METADATA_CHANGED] MetadataChangedException: The metadata has been changed")

    monkeypatch.setattr(write, "_append_to_delta", append)
    output = Output(path="/out", format="delta")
    if written:
        write.add_partitions(None, output, "summary", ("as_of",))
    else:
        with pytest.raises(PublishError, match=r"cannot write '/out/summary': \[DELTA_METADATA_CHANGED\]"):
            write.add_partitions(None, output, "summary", ("as_of",))
    assert len(attempts) == n_attempts
    assert "/out/summary: concurrent write, trying again: [DELTA_METADATA_CHANGED]" in caplog.text


@pytest.mark.parametrize(("n_removed", "n_reads"), [(2, 3), (9, 4)])
def test_a_table_is_read_again_when_files_are_removed(monkeypatch, caplog, n_removed, n_reads):
    reads = []

    def read(*_):
        reads.append(1)
        if len(reads) <= n_removed:
            raise PublishError("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file")

    monkeypatch.setattr(write, "published_table", read)
    if n_removed < n_reads:
        assert write.collect_published(None, Output(path="/out"), "runs", None, None) == []
    else:
        with pytest.raises(PublishError, match="FILE_NOT_EXIST"):
            write.collect_published(None, Output(path="/out"), "runs", None, None)
    assert len(reads) == n_reads
    assert "files were removed while they were read, trying again: [FAILED_READ_FILE" in caplog.text


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("java.io.IOException: No space left on device", ": No space left on device: check "),
        (
            "org.apache.hadoop.security.AccessControlException: Permission denied: user=ann",
            ": Permission denied: user=ann: check ",
        ),
        (
            "java.lang.RuntimeException: Task failed while writing rows",
            "Task failed while writing rows. SQLSTATE: 58030: check ",
        ),
    ],
)
def test_the_cause_of_a_failed_write_is_in_the_error(monkeypatch, cause, expected):
    """The error is one of Spark, the writer is a stand-in."""
    lines = ["[TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030", "\tat x", "Caused by: a.B: close", "\tat y"]

    def write_partitions(*_):
        raise RuntimeError("\n".join([*lines, f"\tCaused by: {cause}", "\tat z"]))

    monkeypatch.setattr(write, "_write_partitions", write_partitions)
    with pytest.raises(PublishError) as caught:
        write.add_partitions(None, Output(path="/out"), "summary", ("as_of",))
    message = str(caught.value)
    assert message.startswith(
        "cannot write '/out/summary': [TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030"
    )
    assert expected in message
    assert "\n" not in message


@pytest.mark.spark
def test_a_folder_that_cannot_be_created_is_named(spark):
    """Nobody can create a folder in /proc, not even root."""
    with pytest.raises(
        PublishError, match=r"^cannot write '/proc/out/summary': .*Mkdirs failed to create file:/proc/out/summary"
    ):
        write.add_partitions(spark.range(1).selectExpr("id", "'x' as part"), Output(path="/proc/out"), "summary", ("part",))


@pytest.mark.spark
def test_a_name_that_the_catalog_rejects_leaves_no_folder(spark):
    rows = spark.sql("select 1 as `a b`, named_struct('c d', array(map('k', 1.5))) as `s``t`, 'x' as part")
    folder = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    for _ in range(2):
        with pytest.raises(PublishError, match="`my-summary` is not a valid name"):
            write.add_partitions(rows, Output(table_prefix="default.my-"), "summary", ("part",))
        assert not (folder / "my-summary").exists()
    write.add_partitions(rows, Output(table_prefix="default.my_", format="orc"), "summary", ("part",))  # the advice
    try:
        table = spark.table("default.my_summary")
        assert_rows(table.select("`a b`", "part"), [(1, "x")])
        assert table.schema["s`t"].dataType.simpleString() == rows.schema["s`t"].dataType.simpleString()
    finally:
        spark.sql("DROP TABLE default.my_summary")


@pytest.mark.spark
@pytest.mark.heavy
def test_vectors_are_structs_in_a_catalog_table(spark):
    rows = spark.createDataFrame([(Vectors.dense([1.0, 2.0]), "x")], ["features", "part"])
    write.add_partitions(rows, Output(table_prefix="default.vectors_"), "summary", ("part",))
    try:
        assert_rows(spark.table("default.vectors_summary").select("features.values", "part"), [([1.0, 2.0], "x")])
    finally:
        spark.sql("DROP TABLE default.vectors_summary")
