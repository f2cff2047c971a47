"""Cut a stream of rows, or of arrays of them, between users, and take its kinds apart. No Spark is needed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from spark_recmetrics.columns import KIND, KIND_LIST, KIND_TRUTH, rows_of_kind

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def users_together(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Tables of whole users, of about so many rows; of more where one user has more.

    Args:
        batches: Rows with `user`, those of a user one behind the other, and those without one at the beginning.
        size: From how many rows on a table ends with the next user.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # A session may send a whole partition in one batch.
    pieces = (batch.slice(start, size) for batch in batches for start in range(0, len(batch), size))
    waiting, n = list[pa.RecordBatch](), 0
    for batch in pieces:
        users = batch.column("user")
        n += len(batch)
        # The last user may go on in the next batch, and have begun in one before.
        begun = len(batch) - (pc.sum(pc.equal(users, users[-1])).as_py() or 0)
        goes_on = not begun and waiting and waiting[-1].column("user")[-1].equals(users[-1])
        if n < size or not users[-1].is_valid or goes_on:
            waiting.append(batch)
            continue
        waiting += [batch.slice(0, begun)] if begun else []
        if waiting:
            yield pa.Table.from_batches(waiting)
        waiting, n = [batch.slice(begun)], len(batch) - begun
    if n:
        yield pa.Table.from_batches(waiting)


def frames_of(rows: pa.Table, names: Mapping[int, Sequence[str]]) -> dict[int, pd.DataFrame]:
    """The rows of each kind; a kind without a row is left out, but for lists and truth.

    Args:
        rows: Rows of several kinds, by `match.mixed`.
        names: The columns of each kind.
    """
    import pyarrow.compute as pc

    return _frames({kind: rows.select(own).filter(pc.equal(rows[KIND], kind)) for kind, own in names.items()})


def arrays_together(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Tables of about so many rows, each of which is all of a user; of more where one user has more.

    Args:
        batches: A row for each user, by `match.gathered`.
        size: From how many rows in its arrays on a table ends.
    """
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
    """As `frames_of`, of a row for each user.

    Args:
        users: Rows by `match.gathered`.
        names: The columns of each kind.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    user, found = users["user"].combine_chunks(), {}
    for kind, own in names.items():
        array = users[rows_of_kind(kind)].combine_chunks()
        rows = array.flatten()
        columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
        columns["user"] = user.take(pc.list_parent_indices(array))
        found[kind] = pa.table({name: columns[name] for name in own})
    return _frames(found)


def _frames(tables: Mapping[int, pa.Table]) -> dict[int, pd.DataFrame]:
    # Whole numbers beside a null would become doubles, in which close ones are equal.
    return {
        kind: table.to_pandas(integer_object_nulls=True)
        for kind, table in tables.items()
        if len(table) or kind in (KIND_LIST, KIND_TRUTH)
    }
