"""Tables in and out: the only package that starts Spark jobs."""
