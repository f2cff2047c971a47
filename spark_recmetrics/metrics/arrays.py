"""What comes to a bucket of users beside lists and truth: training rows, groups of users, and what is known of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.metrics.batch import Ints

if TYPE_CHECKING:
    import pandas as pd


def places_of(wanted: Ints, keys: Ints) -> Ints:
    """(L,) the place of each number among the keys, which ascend; -1 where it is none of them."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.searchsorted(keys, wanted)
    place[place == len(keys)] = 0
    return np.where(keys[place] == wanted, place, -1)


def numbered(*columns: pd.Series[Any]) -> tuple[list[Any], Any]:
    """Numbers from 0 for the ids of all columns together: the numbers of each column, and the ids by number.

    Those that come first have the lower numbers.
    """
    import pandas as pd
    import pyarrow as pa

    # An empty side has no type of its own and would turn the other side's ids into objects.
    values = [column.to_numpy() for column in columns]
    filled = [value for value in values if len(value)] or values[:1]
    joined = np.concatenate(filled)
    if joined.dtype == object:
        # pandas tells texts apart only up to a NUL character.
        encoded = pa.array(joined).dictionary_encode()
        codes, ids = encoded.indices.to_numpy(), encoded.dictionary.to_numpy(zero_copy_only=False)
    else:
        codes, ids = pd.factorize(joined)
    ends = np.cumsum([len(value) for value in values])
    return np.split(codes.astype(np.int64), ends[:-1]), ids
