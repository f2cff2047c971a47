"""Cut a stream of rows, or of arrays of rows, between users, and separate the source tables of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from spark_recmetrics.columns import KIND, KIND_LIST, KIND_TRUTH, rows_of_kind

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def users_together(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Tables that end with a user, at `size` rows or more, from rows sorted by `user`, those without a user first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A session may send a partition in a single batch.
    pieces = (batch.slice(start, size) for batch in batches for start in range(0, len(batch), size))
    waiting, n = list[pa.RecordBatch](), 0
    for batch in pieces:
        users = batch.column("user")
        n += len(batch)
        # The rows of the last user may continue in the next batch, and may have begun in an earlier one.
        start = len(batch) - (pc.sum(pc.equal(users, users[-1])).as_py() or 0)
        continues = not start and waiting and waiting[-1].column("user")[-1].equals(users[-1])
        if n < size or not users[-1].is_valid or continues:
            waiting.append(batch)
            continue
        waiting += [batch.slice(0, start)] if start else []
        if waiting:
            yield pa.Table.from_batches(waiting)
        waiting, n = [batch.slice(start)], len(batch) - start
    if n:
        yield pa.Table.from_batches(waiting)


def frames_of(rows: pa.Table, names: Mapping[int, Sequence[str]]) -> dict[int, pd.DataFrame]:
    """The rows of each kind with its columns, from `plan_spark.mixed`. Only lists and ground truth may have no rows."""
    import pyarrow.compute as pc

    return _frames({kind: rows.select(columns).filter(pc.equal(rows[KIND], kind)) for kind, columns in names.items()})


def arrays_together(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Tables that end when their arrays have `size` rows or more, from a row for each user, by `plan_spark.gathered`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    waiting, n = list[pa.RecordBatch](), 0
    for batch in batches:
        arrays = (array for array in batch.columns if pa.types.is_list(array.type))
        up_to = np.cumsum(sum(pc.list_value_length(array).to_numpy() for array in arrays))
        start, before = 0, 0
        while start < len(batch):
            stop = int(np.searchsorted(up_to, before + size - n)) + 1
            waiting.append(batch.slice(start, stop - start))
            if stop > len(batch):
                n += int(up_to[-1]) - before
                break
            yield pa.Table.from_batches(waiting)
            waiting, n, start, before = [], 0, stop, int(up_to[stop - 1])
    if waiting:
        yield pa.Table.from_batches(waiting)


def frames_of_arrays(users: pa.Table, names: Mapping[int, Sequence[str]]) -> dict[int, pd.DataFrame]:
    """The rows of each kind, like `frames_of`, from `plan_spark.gathered`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    user, tables = users["user"].combine_chunks(), {}
    for kind, kept in names.items():
        array = users[rows_of_kind(kind)].combine_chunks()
        rows = array.flatten()
        columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
        columns["user"] = user.take(pc.list_parent_indices(array))
        tables[kind] = pa.table({name: columns[name] for name in kept})
    return _frames(tables)


def _frames(tables: Mapping[int, pa.Table]) -> dict[int, pd.DataFrame]:
    # Integers in a column with a null would become doubles, in which close integers are equal.
    return {
        kind: table.to_pandas(integer_object_nulls=True)
        for kind, table in tables.items()
        if len(table) or kind in (KIND_LIST, KIND_TRUTH)
    }
