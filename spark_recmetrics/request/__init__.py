"""The request: arguments of an evaluation, checked before any table is read."""
