"""Publishing: one complete set of rows of each run, wherever a publishing was interrupted, and whoever else published it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.fs
import pytest

from spark_recmetrics import ConfigError, DataError, Output, PublishError, Run, read_history
from spark_recmetrics.runs import history_spark as history
from spark_recmetrics.runs.history_spark import publish
from spark_recmetrics.storage import actions, write

RUN = Run(run_id="r1", as_of="2026-11-28", config_hash="c1")
STAGED, COMMITTED = 3, 4
"""After how many writes of a publishing all rows are staged, and the run is committed."""
N_CYCLES = int(os.environ.get("RECMETRICS_CYCLES", "40"))
"""How often a run is published and perhaps killed; a cycle takes seconds."""


def frames_of(spark, value, n_users=3):
    """The tables of a run, small, with one number in all rows."""
    users = [("als", f"u{n}", value) for n in range(n_users)]
    return {
        "data_report": spark.createDataFrame([("rows", value), ("users", value)], "check string, n_rows long"),
        "per_user": spark.createDataFrame(users, "model string, user string, n_relevant long"),
        "summary": spark.createDataFrame([("als", "hit@1", value)], "model string, metric string, n_users long"),
    }


NUMBER = {"data_report": "n_rows", "per_user": "n_relevant", "summary": "n_users"}


def numbers(spark, output):
    """What the history shows of each table: as_of, run and number of all rows, sorted."""
    found = {}
    for table, column in NUMBER.items():
        rows = read_history(spark, output, table=table).collect()
        found[table] = sorted((row["as_of"], row["run_id"], row[column]) for row in rows)
    return found


def complete(value, n_users=3, run=RUN):
    row = (run.as_of, run.run_id, value)
    return {"data_report": [row] * 2, "per_user": [row] * n_users, "summary": [row]}


def attempts(place, table):
    return sorted(path.name for path in (Path(place) / table).glob("as_of=*/run_id=*/attempt=*"))


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


class Steps:
    """Counts what a publishing does, and ends it at a step. A step is one write or one removal, before it or behind it."""

    def __init__(self, monkeypatch):
        self.left = None
        self.taken = 0
        add, system = write.add_partitions, pyarrow.fs.FileSystem
        steps = self

        class Watched:
            def __init__(self, files):
                self.get_file_info = files.get_file_info
                self.delete_dir = steps.watched(files.delete_dir)

            @staticmethod
            def from_uri(uri):
                files, root = system.from_uri(uri)
                return Watched(files), root

        monkeypatch.setattr(write, "add_partitions", self.watched(add))
        monkeypatch.setattr(pyarrow.fs, "FileSystem", Watched)

    def watched(self, function):
        def call(*arguments):
            self.step()
            function(*arguments)
            self.step()

        return call

    def step(self):
        self.taken += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def publish(self, *arguments, until=None):
        """Whether it was committed: the step behind the fourth write was reached."""
        self.left, self.taken = until, 0
        try:
            publish(*arguments)
        except Killed:
            pass
        finally:
            self.left = None
        return self.taken >= 2 * COMMITTED


@pytest.fixture
def steps(monkeypatch):
    return Steps(monkeypatch)


@pytest.mark.spark
@pytest.mark.parametrize("format_", ["parquet", pytest.param("orc", marks=pytest.mark.heavy)])
def test_a_run_published_again_replaces_its_own_rows_and_no_others(spark, tmp_path, format_):
    output = Output(path=str(tmp_path / "out"), format=format_)
    other = Run(run_id="r1", as_of="2026-11-27")
    publish(frames_of(spark, 7), output, other)
    for value in (1, 2):
        places = publish(frames_of(spark, value, n_users=2 * value), output, RUN)
    assert places == {table: f"{tmp_path}/out/{table}" for table in NUMBER}
    expected = {table: rows + complete(2, 4)[table] for table, rows in complete(7, run=other).items()}
    assert numbers(spark, output) == expected
    for table in NUMBER:
        assert len(attempts(tmp_path / "out", table)) == 2, "one for each run"
    assert read_history(spark, output).columns == ["model", "metric", "n_users", "as_of", "run_id"]
    assert dict(read_history(spark, output).dtypes)["as_of"] == "string"


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_killed_at_every_step_and_run_again(spark, tmp_path, steps):
    """Before the commit the run is what it was, behind it what it has become."""
    place = str(tmp_path)
    publish(frames_of(spark, 0), Output(path=place), RUN)
    shown, n_committed, last = 0, 0, 2 * (COMMITTED + len(NUMBER))
    for until in range(last):
        committed = steps.publish(frames_of(spark, until + 1), Output(path=place), RUN, until=until)
        assert committed == (until >= 2 * COMMITTED - 1)
        shown, n_committed = (until + 1, n_committed + 1) if committed else (shown, n_committed)
        assert numbers(spark, place) == complete(shown), f"killed at step {until}"
    assert steps.publish(frames_of(spark, 99), Output(path=place), RUN)
    assert numbers(spark, place) == complete(99)
    assert len(attempts(place, "runs")) == n_committed + 2


@pytest.mark.spark
@pytest.mark.heavy
def test_a_first_run_that_is_killed_is_no_run(spark, tmp_path, steps):
    place = str(tmp_path)
    for until in (1, 2 * STAGED):
        assert not steps.publish(frames_of(spark, 1), Output(path=place), RUN, until=until)
        with pytest.raises(DataError, match=f"{place}/summary: expected published runs, found none: check the output"):
            read_history(spark, place)
    assert steps.publish(frames_of(spark, 2), Output(path=place), RUN)
    assert numbers(spark, place) == complete(2)


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_cycles_with_a_kill_at_a_random_step(spark, tmp_path, steps):
    place, chance, shown, n_killed = str(tmp_path), random.Random(4), {}, 0
    runs = [RUN, Run(run_id="r2", as_of="2026-11-28")]
    for run in runs:
        publish(frames_of(spark, 0), Output(path=place), run)
        shown[run] = (0, 3)
    for cycle in range(1, N_CYCLES + 1):
        run, n_users = chance.choice(runs), chance.randint(1, 4)
        until = chance.randrange(2 * (COMMITTED + len(NUMBER)))
        if steps.publish(frames_of(spark, cycle, n_users), Output(path=place), run, until=until):
            shown[run] = (cycle, n_users)
        else:
            n_killed += 1
        both = [complete(*shown[run], run=run) for run in runs]
        assert numbers(spark, place) == {table: both[0][table] + both[1][table] for table in NUMBER}, f"cycle {cycle}"
    assert N_CYCLES / 4 < n_killed < N_CYCLES * 3 / 4, "as many before the commit as behind it"


PUBLISHES = """
import sys
sys.path.insert(0, sys.argv[2])
from pyspark.sql import SparkSession
from spark_recmetrics import Output
from spark_recmetrics.runs.history_spark import publish
from runs.test_history import RUN, frames_of

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
for value in range(1, 1000):
    publish(frames_of(spark, value), Output(path=sys.argv[1]), RUN)
    print(value, flush=True)
"""


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_process_that_is_really_killed(spark, tmp_path):
    """Python and the JVM get SIGKILL at some moment of the third publishing or later."""
    place, tests = str(tmp_path / "out"), Path(__file__).parents[1]
    command = [sys.executable, "-c", PUBLISHES, place, str(tests)]
    environment = {**os.environ, "PYTHONPATH": str(tests.parent)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=environment
    ) as process:
        try:
            done = [int(process.stdout.readline()) for _ in range(2)]
            time.sleep(random.random())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        done += [int(line) for line in process.stdout.read().split()]
    value = numbers(spark, place)["summary"][0][2]
    assert value in (done[-1], done[-1] + 1)
    assert numbers(spark, place) == complete(value)
    publish(frames_of(spark, 0), Output(path=place), RUN)
    assert numbers(spark, place) == complete(0)


@pytest.mark.spark
@pytest.mark.heavy
def test_two_at_once(spark, tmp_path):
    place = str(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        for first in (1, 3):
            list(pool.map(lambda value: publish(frames_of(spark, value, value), Output(path=place), RUN), (first, first + 1)))
            found = numbers(spark, place)
            assert found in [complete(first, first), complete(first + 1, first + 1)]
    publish(frames_of(spark, 9), Output(path=place), RUN)
    assert [len(attempts(place, table)) for table in NUMBER] == [1] * 3


@pytest.mark.spark
def test_rows_that_are_lost_later_take_the_run_with_them(spark, tmp_path):
    place, other = str(tmp_path), Run(run_id="r1", as_of="2026-11-27")
    publish(frames_of(spark, 1), Output(path=place), other)
    publish(frames_of(spark, 2), Output(path=place), RUN)
    next((tmp_path / "per_user" / "as_of=2026-11-28").rglob("part-*")).unlink()
    assert numbers(spark, place)["per_user"] == complete(1, run=other)["per_user"]
    shutil.rmtree(tmp_path / "per_user")
    frame = read_history(spark, place, table="per_user")
    assert (frame.columns, frame.count()) == (["model", "user", "n_relevant", "as_of", "run_id"], 0)


@pytest.mark.spark
def test_rows_that_do_not_arrive_are_not_published(spark, tmp_path, monkeypatch):
    place = str(tmp_path)
    publish(frames_of(spark, 1), Output(path=place), RUN)
    monkeypatch.setattr(actions, "observed_counts", lambda *_: {"rows": 4})
    with pytest.raises(PublishError, match=f"{place}/data_report: expected 4 rows of this run, found 2 after") as caught:
        publish(frames_of(spark, 2), Output(path=place), RUN)
    assert "nothing was published" in str(caught.value)
    assert numbers(spark, place) == complete(1)


@pytest.mark.spark
def test_a_commit_that_does_not_arrive_is_told(spark, tmp_path, monkeypatch):
    place, add = str(tmp_path), write.add_partitions
    monkeypatch.setattr(write, "add_partitions", lambda *given: None if given[2] == "runs" else add(*given))
    with pytest.raises(PublishError, match=f"{place}/runs: expected the entry of this run, found none after"):
        publish(frames_of(spark, 1), Output(path=place), RUN)


@pytest.mark.spark
@pytest.mark.heavy
def test_the_report_of_a_refused_run_does_not_replace_a_complete_run(spark, tmp_path):
    place = str(tmp_path)
    report = {"data_report": frames_of(spark, 5)["data_report"]}
    publish(report, Output(path=place), RUN)
    assert read_history(spark, place, table="data_report").count() == 2, "it is there to be looked into"
    with pytest.raises(DataError, match="summary: expected published runs, found none"):
        read_history(spark, place)
    publish(frames_of(spark, 1), Output(path=place), RUN)
    publish(report, Output(path=place), RUN)
    assert numbers(spark, place) == complete(1)
    assert len(attempts(place, "data_report")) == 2
    publish(frames_of(spark, 2), Output(path=place), RUN)
    assert numbers(spark, place) == complete(2)
    assert [len(attempts(place, table)) for table in NUMBER] == [1] * 3


@pytest.mark.spark
@pytest.mark.heavy
def test_what_a_killed_run_left_is_removed_when_it_is_old(spark, tmp_path, steps):
    place = str(tmp_path)
    assert not steps.publish(frames_of(spark, 1), Output(path=place), RUN, until=2 * STAGED)
    (left,) = attempts(place, "summary")
    publish(frames_of(spark, 2), Output(path=place), RUN)
    assert left in attempts(place, "summary"), "it may belong to a run that still writes"
    old = time.time() - 8 * 24 * 3600
    staging = tmp_path / "summary" / ".spark-staging-1"
    staging.mkdir()
    for folder in (*tmp_path.rglob("attempt=*"), staging):
        os.utime(folder, (old, old))
    publish(frames_of(spark, 3), Output(path=place), RUN)
    assert [len(attempts(place, table)) for table in NUMBER] == [1] * 3
    assert not staging.exists()
    assert numbers(spark, place) == complete(3)


@pytest.mark.spark
@pytest.mark.heavy
def test_a_clean_up_that_fails_is_a_warning(spark, tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError("read only")

    monkeypatch.setattr(history, "_remove", refuse)
    for value in (1, 2):
        publish(frames_of(spark, value), Output(path=str(tmp_path)), RUN)
    assert "older attempts of this run stay" in caplog.text
    assert numbers(spark, tmp_path) == complete(2)


@pytest.mark.spark
def test_names_of_runs_cannot_leave_their_folder(spark, tmp_path):
    place = tmp_path / "out"
    run = Run(run_id="../../x=1", as_of="a/b:c %25 *ü")
    for value in (1, 2):
        publish(frames_of(spark, value), Output(path=str(place)), run)
    assert numbers(spark, place) == complete(2, run=run)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(attempts(place, "summary")) == 1, "its older attempt was found"


# Columns ------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.core
def test_a_column_more_or_less_is_null_elsewhere(spark, tmp_path):
    place = str(tmp_path)
    wide = spark.createDataFrame([("als", "hit@1", 1, 0.5)], "model string, metric string, n_users long, value double")
    narrow = spark.createDataFrame([("als", "hit@1")], "model string, metric string")
    for as_of, summary in (("1", narrow), ("2", wide), ("3", narrow)):
        publish({"summary": summary}, Output(path=place), Run(as_of=as_of))
    found = read_history(spark, place)
    assert found.columns == ["model", "metric", "n_users", "value", "as_of", "run_id"]
    rows = [tuple(row) for row in found.orderBy("as_of").collect()]
    none = ("als", "hit@1", None, None)
    assert rows == [(*none, "1", "none"), ("als", "hit@1", 1, 0.5, "2", "none"), (*none, "3", "none")]


@pytest.mark.spark
def test_a_column_of_another_type_is_refused(spark, tmp_path):
    place = str(tmp_path)
    publish(frames_of(spark, 1), Output(path=place), RUN)
    other = frames_of(spark, 2) | {
        "per_user": spark.createDataFrame([("als", 7, 2)], "model string, user int, n_relevant long")
    }
    with pytest.raises(PublishError) as caught:
        publish(other, Output(path=place), Run(run_id="r2"))
    assert str(caught.value) == (
        f"{place}/per_user: column user: expected string, as in the runs there, found int: "
        "write runs with other types to another output.path"
    )
    assert numbers(spark, place) == complete(1)
    assert len(attempts(place, "data_report")) == 1, "nothing was written"


@pytest.mark.spark
def test_a_table_without_rows(spark, tmp_path):
    frames = frames_of(spark, 1)
    publish(frames | {"per_user": frames["per_user"].limit(0)}, Output(path=str(tmp_path)), RUN)
    assert numbers(spark, tmp_path) == complete(1, n_users=0)


# Places ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("table", ["summary", "runs"])
def test_a_foreign_folder_is_refused(spark, tmp_path, table):
    place = str(tmp_path)
    spark.range(3).write.parquet(f"{place}/{table}")
    with pytest.raises(PublishError) as caught:
        publish(frames_of(spark, 1), Output(path=place), RUN)
    assert str(caught.value) == (
        f"{place}/{table}: expected a table that this package has published, with the columns as_of, run_id, attempt, "
        "found the columns id: give another output.path"
    )
    assert [path.name for path in tmp_path.iterdir()] == [table], "nothing was written"
    with pytest.raises(PublishError if table == "runs" else DataError):
        read_history(spark, place)


@pytest.mark.spark
def test_a_folder_that_is_no_table_is_refused(spark, tmp_path):
    (tmp_path / "summary").mkdir()
    (tmp_path / "summary" / "notes.txt").write_text("mine")
    with pytest.raises(PublishError, match=f"{tmp_path}/summary: expected a table of spark-recmetrics in format parquet"):
        publish(frames_of(spark, 1), Output(path=str(tmp_path)), RUN)


def test_an_unknown_table_is_refused():
    with pytest.raises(ConfigError, match=r"table 'sumary': expected the name of a table of a run; did you mean 'summary'\?"):
        read_history(None, "out", table="sumary")
    with pytest.raises(ConfigError, match="table 'runs'"):
        publish({"runs": None}, Output(path="out"), RUN)


@pytest.fixture
def catalog(spark):
    """Tables of the catalog that are not there before and behind a test."""

    def drop():
        for table in (*NUMBER, "runs"):
            spark.sql(f"drop table if exists `to_publish_{table}`")

    drop()
    yield Output(table_prefix="default.to_publish_")
    drop()


@pytest.mark.spark
@pytest.mark.heavy
def test_tables_of_the_catalog(spark, catalog):
    for value in (1, 2):
        places = publish(frames_of(spark, value), catalog, RUN)
    assert places["summary"] == "`default`.`to_publish_summary`"
    assert numbers(spark, catalog) == complete(2)
    narrow = spark.createDataFrame([("hit@1", "als")], "metric string, model string")
    publish({"summary": narrow}, catalog, Run(run_id="r2", as_of="2026-11-29"))
    rows = [tuple(row) for row in read_history(spark, catalog).orderBy("run_id").collect()]
    assert rows == [("als", "hit@1", 2, "2026-11-28", "r1"), ("als", "hit@1", None, "2026-11-29", "r2")]


@pytest.mark.spark
@pytest.mark.heavy
def test_other_columns_for_a_table_of_the_catalog(spark, catalog):
    publish(frames_of(spark, 1), catalog, RUN)
    wide = spark.createDataFrame([("als", "hit@1", 0.5)], "model string, metric string, value double")
    with pytest.raises(PublishError) as caught:
        publish({"summary": wide}, catalog, RUN)
    assert str(caught.value) == (
        "`default`.`to_publish_summary`: expected the columns model, metric, n_users, as_of, run_id, attempt, "
        "found value double beside them: add them with ALTER TABLE, or write runs with other metrics to another "
        "output.table_prefix"
    )
    other = spark.createDataFrame([("als", 1)], "model string, metric int")
    with pytest.raises(PublishError, match="column metric: expected string, as in the runs there, found int"):
        publish({"summary": other}, catalog, RUN)
    assert numbers(spark, catalog) == complete(1)


@pytest.mark.spark
def test_a_foreign_table_of_the_catalog_is_refused(spark, catalog):
    spark.range(3).write.saveAsTable("`to_publish_runs`")
    with pytest.raises(PublishError, match=r"found the columns id: give another output\.table_prefix"):
        publish(frames_of(spark, 1), catalog, RUN)
    with pytest.raises(PublishError, match=r"found the columns id: give another output\.table_prefix"):
        read_history(spark, catalog)
