"""Split a table of interactions into train and test: by time, by the last rows of each user, or by a seeded hash.

Every row lands on exactly one side, and on the same one whatever the order and the partitions of the rows, the time zone and
the ANSI mode of the session, the run and the cluster: nothing is drawn, and every order is total.
"""

from spark_recmetrics.splits.methods_spark import (
    Folds,
    Split,
    SplitReport,
    k_fold,
    leave_n_out,
    leave_one_out,
    publish,
    random,
    temporal,
)

__all__ = ["Folds", "Split", "SplitReport", "k_fold", "leave_n_out", "leave_one_out", "publish", "random", "temporal"]
