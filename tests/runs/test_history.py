"""Publishing runs and reading their history."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
from chispa_rows import assert_rows
from published_runs import NUMBER, RUN, attempts, complete, frames_of, numbers

from spark_recmetrics import ConfigError, DataError, Output, PublishError, Run, read_history
from spark_recmetrics.runs import history_spark as history
from spark_recmetrics.runs.history_spark import publish
from spark_recmetrics.storage import actions, write


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("format_", ["parquet", pytest.param("orc", marks=pytest.mark.heavy)])
def test_a_run_published_again_replaces_its_own_rows_and_no_others(spark, tmp_path, format_):
    output = Output(path=str(tmp_path / "out"), format=format_)
    other = Run(run_id="r1", as_of="2026-11-27")
    publish(frames_of(spark, 7), output, other)
    for value in (1, 2):
        tables = publish(frames_of(spark, value, n_users=2 * value), output, RUN)
    assert tables == {table: f"{tmp_path}/out/{table}" for table in NUMBER}
    expected = {table: rows + complete(2, 4)[table] for table, rows in complete(7, run=other).items()}
    assert numbers(spark, output) == expected
    for table in NUMBER:
        assert len(attempts(tmp_path / "out", table)) == 2, "one for each run"
    rows = [("als", "hit@1", 7, "2026-11-27", "r1"), ("als", "hit@1", 2, "2026-11-28", "r1")]
    assert_rows(read_history(spark, output), rows, "model string, metric string, n_users long, as_of string, run_id string")


@pytest.mark.heavy
@pytest.mark.spark
def test_a_run_that_later_loses_rows_is_left_out(spark, tmp_path):
    folder, other = str(tmp_path), Run(run_id="r1", as_of="2026-11-27")
    publish(frames_of(spark, 1), Output(path=folder), other)
    publish(frames_of(spark, 2), Output(path=folder), RUN)
    next((tmp_path / "per_user" / "as_of=2026-11-28").rglob("part-*")).unlink()
    assert numbers(spark, folder)["per_user"] == complete(1, run=other)["per_user"]
    shutil.rmtree(tmp_path / "per_user")
    frame = read_history(spark, folder, table="per_user")
    assert (frame.columns, frame.count()) == (["model", "user", "n_relevant", "as_of", "run_id"], 0)


@pytest.mark.heavy
@pytest.mark.spark
def test_a_run_whose_rows_are_missing_is_not_published(spark, tmp_path, monkeypatch):
    folder = str(tmp_path)
    publish(frames_of(spark, 1), Output(path=folder), RUN)
    monkeypatch.setattr(actions.RowCounts, "observed_counts", lambda *_: {"rows": 4})
    with pytest.raises(PublishError, match=f"{folder}/data_report: expected 4 rows of this run, found 2 after") as caught:
        publish(frames_of(spark, 2), Output(path=folder), RUN)
    assert "nothing was published" in str(caught.value)
    assert numbers(spark, folder) == complete(1)


@pytest.mark.spark
def test_a_missing_commit_is_an_error(spark, tmp_path, monkeypatch):
    folder, add = str(tmp_path), write.add_partitions
    monkeypatch.setattr(write, "add_partitions", lambda *given: None if given[2] == "runs" else add(*given))
    with pytest.raises(PublishError, match=f"{folder}/runs: the entry of this run disappeared after it was written: nothing "):
        publish(frames_of(spark, 1), Output(path=folder), RUN)


@pytest.mark.spark
@pytest.mark.heavy
def test_the_report_of_a_run_with_rejected_rows_does_not_replace_results(spark, tmp_path):
    folder = str(tmp_path)
    report = {"data_report": frames_of(spark, 5)["data_report"]}
    publish(report, Output(path=folder), RUN)
    assert read_history(spark, folder, table="data_report").count() == 2, "it can be read"
    with pytest.raises(DataError, match="summary: expected published runs, found none"):
        read_history(spark, folder)
    publish(frames_of(spark, 1), Output(path=folder), RUN)
    publish(report, Output(path=folder), RUN)
    assert numbers(spark, folder) == complete(1)
    assert len(attempts(folder, "data_report")) == 2
    publish(frames_of(spark, 2), Output(path=folder), RUN)
    assert numbers(spark, folder) == complete(2)
    assert [len(attempts(folder, table)) for table in NUMBER] == [1] * 3


@pytest.mark.spark
@pytest.mark.heavy
def test_a_clean_up_that_fails_is_a_warning(spark, tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError("read only")

    monkeypatch.setattr(history, "_remove", fail)
    for value in (1, 2):
        publish(frames_of(spark, value), Output(path=str(tmp_path)), RUN)
    assert "readers ignore earlier attempts of this run left in" in caplog.text
    assert numbers(spark, tmp_path) == complete(2)


@pytest.mark.heavy
@pytest.mark.spark
def test_names_of_runs_cannot_leave_their_folder(spark, tmp_path):
    folder = tmp_path / "out"
    run = Run(run_id="../../x=1", as_of="a/b:c %25 *ü")
    for value in (1, 2):
        publish(frames_of(spark, value), Output(path=str(folder)), run)
    assert numbers(spark, folder) == complete(2, run=run)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(attempts(folder, "summary")) == 1, "the older attempt was removed"


# Columns ------------------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.core
def test_columns_of_other_runs_are_null(spark, tmp_path):
    folder = str(tmp_path)
    wide = spark.createDataFrame([("als", "hit@1", 1, 0.5)], "model string, metric string, n_users long, value double")
    narrow = spark.createDataFrame([("als", "hit@1")], "model string, metric string")
    for as_of, summary in (("1", narrow), ("2", wide), ("3", narrow)):
        publish({"summary": summary}, Output(path=folder), Run(as_of=as_of))
    null = ("als", "hit@1", None, None)
    rows = [(*null, "1", "none"), ("als", "hit@1", 1, 0.5, "2", "none"), (*null, "3", "none")]
    columns = "model string, metric string, n_users long, value double, as_of string, run_id string"
    assert_rows(read_history(spark, folder), rows, columns)


@pytest.mark.heavy
@pytest.mark.spark
def test_a_column_with_another_type_is_rejected(spark, tmp_path):
    folder = str(tmp_path)
    publish(frames_of(spark, 1), Output(path=folder), RUN)
    other = frames_of(spark, 2) | {
        "per_user": spark.createDataFrame([("als", 7, 2)], "model string, user int, n_relevant long")
    }
    with pytest.raises(PublishError) as caught:
        publish(other, Output(path=folder), Run(run_id="r2"))
    assert str(caught.value) == (
        f"{folder}/per_user: column user: expected string, as in the published runs, found int: "
        "write runs with other types to another output.path"
    )
    assert numbers(spark, folder) == complete(1)
    assert len(attempts(folder, "data_report")) == 1, "nothing was written"


@pytest.mark.spark
def test_a_table_without_rows(spark, tmp_path):
    frames = frames_of(spark, 1)
    publish(frames | {"per_user": frames["per_user"].limit(0)}, Output(path=str(tmp_path)), RUN)
    assert numbers(spark, tmp_path) == complete(1, n_users=0)


# Outputs ------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("table", ["summary", "runs"])
def test_a_folder_with_another_table_is_rejected(spark, tmp_path, table):
    folder = str(tmp_path)
    spark.range(3).write.parquet(f"{folder}/{table}")
    with pytest.raises(PublishError) as caught:
        publish(frames_of(spark, 1), Output(path=folder), RUN)
    assert str(caught.value) == (
        f"{folder}/{table}: expected a table that this package has published, with the columns as_of, run_id, attempt, "
        "found the columns id: use another output.path"
    )
    assert [path.name for path in tmp_path.iterdir()] == [table], "nothing was written"
    with pytest.raises(PublishError if table == "runs" else DataError):
        read_history(spark, folder)


@pytest.mark.spark
def test_a_folder_without_a_table_is_rejected(spark, tmp_path):
    (tmp_path / "summary").mkdir()
    (tmp_path / "summary" / "notes.txt").write_text("mine")
    with pytest.raises(PublishError, match=f"{tmp_path}/summary: expected a table of spark-recmetrics in format parquet"):
        publish(frames_of(spark, 1), Output(path=str(tmp_path)), RUN)


def test_unknown_names_of_tables_are_rejected():
    with pytest.raises(ConfigError, match=r"table 'sumary': expected the name of a published table; did you mean 'summary'\?"):
        read_history(None, "out", table="sumary")
    with pytest.raises(ConfigError, match="table 'runs'"):
        publish({"runs": None}, Output(path="out"), RUN)


def test_what_is_no_session_or_place_is_rejected():
    with pytest.raises(ConfigError, match="spark: expected a Spark session, found None"):
        read_history(None, "out")
    with pytest.raises(ConfigError, match=r"output: expected srm.Output\(...\), or the path of parquet tables, found 5"):
        read_history(SimpleNamespace(createDataFrame=None), 5)


@pytest.fixture
def catalog(spark):
    """Catalog tables that do not exist before and after a test."""

    def drop():
        for table in (*NUMBER, "runs"):
            spark.sql(f"drop table if exists `to_publish_{table}`")

    drop()
    yield Output(table_prefix="default.to_publish_")
    drop()


@pytest.mark.spark
@pytest.mark.heavy
def test_catalog_tables(spark, catalog):
    for value in (1, 2):
        tables = publish(frames_of(spark, value), catalog, RUN)
    assert tables["summary"] == "`default`.`to_publish_summary`"
    assert numbers(spark, catalog) == complete(2)
    narrow = spark.createDataFrame([("hit@1", "als")], "metric string, model string")
    publish({"summary": narrow}, catalog, Run(run_id="r2", as_of="2026-11-29"))
    rows = [("als", "hit@1", 2, "2026-11-28", "r1"), ("als", "hit@1", None, "2026-11-29", "r2")]
    assert_rows(read_history(spark, catalog), rows, "model string, metric string, n_users long, as_of string, run_id string")


@pytest.mark.spark
@pytest.mark.heavy
def test_catalog_tables_take_no_new_columns(spark, catalog):
    publish(frames_of(spark, 1), catalog, RUN)
    wide = spark.createDataFrame([("als", "hit@1", 0.5)], "model string, metric string, value double")
    with pytest.raises(PublishError) as caught:
        publish({"summary": wide}, catalog, RUN)
    assert str(caught.value) == (
        "`default`.`to_publish_summary`: expected the columns model, metric, n_users, as_of, run_id, attempt, "
        "found also value double: add them with ALTER TABLE, or write runs with other metrics to another "
        "output.table_prefix"
    )
    other = spark.createDataFrame([("als", 1)], "model string, metric int")
    with pytest.raises(PublishError, match="column metric: expected string, as in the published runs, found int"):
        publish({"summary": other}, catalog, RUN)
    assert numbers(spark, catalog) == complete(1)


@pytest.mark.spark
def test_another_catalog_table_is_rejected(spark, catalog):
    spark.range(3).write.saveAsTable("`to_publish_runs`")
    with pytest.raises(PublishError, match=r"found the columns id: use another output\.table_prefix"):
        publish(frames_of(spark, 1), catalog, RUN)
    with pytest.raises(PublishError, match=r"found the columns id: use another output\.table_prefix"):
        read_history(spark, catalog)
