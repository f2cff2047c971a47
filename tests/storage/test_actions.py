"""Jobs in parallel, and repeated attempts."""

from __future__ import annotations

import logging
import re
import threading

import pytest

from spark_recmetrics.storage import actions


@pytest.mark.spark
def test_results_are_in_the_order_of_the_functions(spark):
    def count(n):
        return lambda: spark.range(n).count()

    assert actions.in_parallel(spark, *map(count, [5, 3, 9])) == [5, 3, 9]
    assert actions.in_parallel(spark) == []


@pytest.mark.spark
def test_functions_run_at_the_same_time(spark):
    # Each waits for the other one, which would never end if they ran one after the other.
    both = threading.Barrier(2, timeout=60)
    assert sorted(actions.in_parallel(spark, both.wait, both.wait)) == [0, 1]


@pytest.mark.spark
def test_the_first_error_is_raised_when_all_have_ended(spark):
    ended = []

    def fail(text):
        ended.append(text)
        raise ValueError(text)

    with pytest.raises(ValueError, match=r"^one$"):
        actions.in_parallel(spark, lambda: spark.range(3).count(), lambda: fail("one"), lambda: fail("two"))
    assert sorted(ended) == ["one", "two"]


@pytest.mark.spark
def test_a_thread_that_does_not_begin_is_an_error(spark, monkeypatch):
    class Dead(actions.InheritableThread):
        def run(self):
            """Does not call the function."""

    monkeypatch.setattr(actions, "InheritableThread", Dead)
    with pytest.raises(RuntimeError, match="did not begin"):
        actions.in_parallel(spark, lambda: 1)


@pytest.mark.spark
@pytest.mark.once
def test_jobs_belong_to_the_job_group_of_the_caller(spark):
    context = spark.sparkContext
    context.setJobGroup("mine", "description")
    try:
        results = actions.in_parallel(spark, lambda: (spark.range(3).count(), context.getLocalProperty("spark.jobGroup.id")))
        assert results == [(3, "mine")]
        assert context.statusTracker().getJobIdsForGroup("mine")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


@pytest.mark.spark
def test_functions_run_one_after_the_other_if_threads_lack_the_session(spark, monkeypatch):
    monkeypatch.setattr(actions, "_THREADS_HAVE_SESSION", False)
    thread = threading.current_thread()
    assert actions.in_parallel(spark, threading.current_thread, lambda: spark.range(4).count()) == [thread, 4]


def test_other_errors_are_raised_at_once(caplog):
    attempts = []

    def fail():
        attempts.append(1)
        raise ValueError("no such column")

    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError, match="no such column"):
        actions.with_retries(fail, re.compile("CONFLICT"), "concurrent write")
    assert (len(attempts), caplog.text) == (1, "")
