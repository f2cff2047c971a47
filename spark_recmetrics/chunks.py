"""Cut a stream of rows between users, and take its kinds apart. No Spark is needed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_recmetrics.columns import KIND, KIND_LIST, KIND_TRUTH

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

    found = {}
    for kind, own in names.items():
        table = rows.select(own).filter(pc.equal(rows[KIND], kind))
        if len(table) or kind in (KIND_LIST, KIND_TRUTH):
            # Whole numbers beside a null would become doubles, in which close ones are equal.
            found[kind] = table.to_pandas(integer_object_nulls=True)
    return found
