"""Writing published tables; what needs Spark or Delta is in `runs/test_history.py` and `test_delta.py`."""

from __future__ import annotations

import pytest

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
