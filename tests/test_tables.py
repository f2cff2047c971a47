"""Looks at several tables at once."""

import threading

import pytest

from spark_recmetrics import tables

pytestmark = pytest.mark.spark


def test_looks_have_the_order_they_were_given_in(spark):
    def look(n):
        return lambda: spark.range(n).count()

    assert tables.at_once(spark, *map(look, [5, 3, 9])) == [5, 3, 9]
    assert tables.at_once(spark) == []


def test_looks_are_at_once(spark):
    # Each waits for the other one, which would take for ever one behind the other.
    both = threading.Barrier(2, timeout=60)
    assert sorted(tables.at_once(spark, both.wait, both.wait)) == [0, 1]


def test_the_first_error_is_raised_when_all_have_ended(spark):
    ended = []

    def fail(text):
        ended.append(text)
        raise ValueError(text)

    with pytest.raises(ValueError, match=r"^one$"):
        tables.at_once(spark, lambda: spark.range(3).count(), lambda: fail("one"), lambda: fail("two"))
    assert sorted(ended) == ["one", "two"]


def test_a_thread_that_does_not_begin_is_an_error(spark, monkeypatch):
    class Dead(tables.InheritableThread):
        def run(self):
            """Not even begun."""

    monkeypatch.setattr(tables, "InheritableThread", Dead)
    with pytest.raises(RuntimeError, match="did not begin"):
        tables.at_once(spark, lambda: 1)


@pytest.mark.once
def test_looks_belong_to_the_job_group_of_the_caller(spark):
    context = spark.sparkContext
    context.setJobGroup("mine", "told")
    try:
        found = tables.at_once(spark, lambda: (spark.range(3).count(), context.getLocalProperty("spark.jobGroup.id")))
        assert found == [(3, "mine")]
        assert context.statusTracker().getJobIdsForGroup("mine")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


def test_without_threads_that_know_the_session_looks_are_one_behind_the_other(spark, monkeypatch):
    monkeypatch.setattr(tables, "_THREADS_HAVE_SESSION", False)
    own = threading.current_thread()
    assert tables.at_once(spark, threading.current_thread, lambda: spark.range(4).count()) == [own, 4]
