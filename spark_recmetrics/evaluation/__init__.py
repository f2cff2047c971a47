"""The evaluation, on Spark and in memory."""
