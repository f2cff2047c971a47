"""Split a table of interactions into train and test: by time, by the last rows of each user, or by a seeded hash.

Every row is on exactly one side. The result does not depend on the order and the partitions of the rows, the time zone and the
ANSI mode of the session, or the cluster: no random numbers are drawn, and every order is total.
"""

from spark_recmetrics.splits.methods_spark import k_fold, leave_n_out, leave_one_out, random, temporal
from spark_recmetrics.splits.split_spark import Folds, Split, SplitReport, publish

__all__ = ["Folds", "Split", "SplitReport", "k_fold", "leave_n_out", "leave_one_out", "publish", "random", "temporal"]
