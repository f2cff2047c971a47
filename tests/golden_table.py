"""A small input, and the values that the systems behind the conventions give for it: checked against the systems themselves."""

from __future__ import annotations

GOLDEN_K = 3
GOLDEN_LISTS = {"A": "abcd", "B": "abc", "C": "xc", "E": "abc"}
GOLDEN_PREDICTIONS = [
    {"model": "model", "user": user, "item": item, "score": 1.0 / rank}
    for user, items in GOLDEN_LISTS.items()
    for rank, item in enumerate(items, 1)
]
GOLDEN_TRUTH = [
    {"user": user, "item": item, "rating": float(rating)}
    for user, item, rating in [
        ("A", "a", 1), ("A", "c", 5), ("A", "d", 4), ("A", "z", 3), ("B", "a", 0), ("C", "c", 4), ("D", "a", 5),
    ]
]  # fmt: skip
GOLDEN_METRICS = ("precision", "recall", "f1", "hit", "mrr", "map", "mar", "ndcg")
GOLDEN: dict[str, dict[str, float]] = {
    name: dict(zip(GOLDEN_METRICS, map(float, values.split()), strict=True))
    for name, values in {
        "standard": "0.333333 0.500000 0.400000 0.666667 0.500000 0.351852 0.416667 0.339599",
        "threshold": "0.333333 0.666667 0.433333 0.666667 0.500000 0.527778 0.583333 0.564475",
        "threshold_skip": "0.333333 1.000000 0.650000 0.666667 0.500000 0.791667 0.875000 0.846713",
        "warprec": "0.333333 0.500000 0.214286 0.666667 0.500000 0.351852 0.416667 0.338004",
        "warprec_doc": "0.333333 0.500000 0.357143 0.666667 0.500000 0.351852 0.416667 0.335412",
        "laikallm": "0.333333 0.625000 0.392857 0.750000 0.625000 0.583333 0.593750 0.637663",
        "laikallm_doc": "0.333333 0.625000 0.392857 0.750000 0.625000 0.479167 0.546875 0.637663",
        "jurity": "0.583333 0.500000 0.412698 0.666667 0.500000 0.527778 0.416667 0.405500",
        "jurity_doc": "0.583333 0.500000 0.412698 0.666667 0.500000 0.351852 0.416667 0.405500",
        "recommenders": "0.444444 0.833333 0.523810 1.000000 0.833333 0.685185 0.750000 0.583712",
        "mllib": "0.444444 0.833333 0.523810 1.000000 0.833333 0.685185 0.750000 0.778283",
        "replay": "0.333333 0.625000 0.392857 0.750000 0.625000 0.513889 0.562500 0.583712",
        "rectools": "0.333333 0.625000 0.392857 0.750000 0.625000 0.479167 0.546875 0.367320",
        "recbole": "0.250000 0.375000 0.267857 0.500000 0.375000 0.263889 0.312500 0.333712",
        "ranx": "0.250000 0.375000 0.267857 0.500000 0.375000 0.229167 0.296875 0.254699",
        "trec_eval": "0.333333 0.500000 0.357143 0.666667 0.500000 0.305556 0.395833 0.339599",
        "lenskit": "0.375000 0.888889 0.611111 0.750000 0.625000 0.685185 0.750000 0.873302",
        "torchmetrics": "0.444444 0.666667 0.500000 0.666667 0.666667 0.666667 0.555556 0.589019",
    }.items()
}
"""Convention to metric to value at k = 3, rounded to six digits."""
