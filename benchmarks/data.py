"""The tables that speed is measured on: random, and the same for the same size."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CUTS = (5, 10, 20, 50)
THRESHOLD = 4.0
RATINGS, SHARES = (1, 2, 3, 4, 5), (0.06, 0.11, 0.27, 0.35, 0.21)
USERS_A_FILE = 20_000
TABLES = ("predictions", "truth", "train", "items", "item_groups", "user_segments")
SIZES = {"XS": (1_000, 1_000, 50), "S": (10_000, 5_000, 50), "M": (138_000, 27_000, 100), "L": (1_000_000, 100_000, 100)}
"""Users, items, and the length of a list."""


def write_data(folder: Path, n_users: int, n_items: int, length: int) -> None:
    """Predictions (user_id, item_id, score), truth (user_id, item_id, rating, propensity) and the other tables as parquet."""
    rng = np.random.default_rng(1)
    for table in TABLES:
        (folder / table).mkdir(parents=True, exist_ok=True)

    def pairs(users: np.ndarray, lengths: np.ndarray | int) -> np.ndarray:
        owner = np.repeat(users, lengths)
        return np.unique(owner * n_items + (n_items * rng.random(owner.size) ** 3).astype(np.int64))

    def write(table: str, first: int, keys: np.ndarray, **columns: np.ndarray) -> None:
        ids = {"user_id": keys // n_items, "item_id": keys % n_items}
        pq.write_table(pa.table({**ids, **columns}), folder / table / f"{first}.parquet")

    for first in range(0, n_users, USERS_A_FILE):
        users = np.arange(first, min(n_users, first + USERS_A_FILE), dtype=np.int64)
        true = pairs(users, np.clip(rng.lognormal(2.7, 1.0, users.size).astype(int), 1, 500))
        rating = rng.choice(RATINGS, p=SHARES, size=true.size).astype(np.float32)
        write("truth", first, true, rating=rating, propensity=rng.choice([0.1, 0.2, 0.5], size=true.size))
        write("train", first, pairs(users, np.clip(rng.lognormal(2.7, 1.0, users.size).astype(int), 1, 500)))
        listed = rng.permutation(np.union1d(pairs(users, length), true[rng.random(true.size) < 0.3]))
        write("predictions", first, listed, score=rng.random(listed.size))
    items = {"item_id": np.arange(n_items), "features": list(rng.normal(size=(n_items, 16)).astype(np.float32))}
    kinds = [[name] for name in rng.choice(["a", "b", "c"], size=n_items)]
    pq.write_table(pa.table({**items, "categories": kinds}), folder / "items" / "0.parquet")
    for table, key, n in (("item_groups", "item_id", n_items), ("user_segments", "user_id", n_users)):
        groups = {key: np.arange(n), key.replace("_id", "_group"): rng.choice(["a", "b", "c"], size=n)}
        pq.write_table(pa.table(groups), folder / table / "0.parquet")


def folder_of(size: tuple[int, int, int], parent: Path | None = None) -> Path:
    """The folder with the tables of a size, written if they are not there.

    Args:
        size: Users, items, and the length of a list.
        parent: Where it lies; None: the system's temporary folder.
    """
    folder = (parent or Path(tempfile.gettempdir())) / "-".join(["recmetrics-grouped", *map(str, size)])
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        write_data(part, *size)
        part.rename(folder)
    return folder
