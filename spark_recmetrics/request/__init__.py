"""What is asked of an evaluation, from its arguments alone: checked before any table is read."""
