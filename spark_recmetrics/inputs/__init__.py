"""From the caller's tables to canonical rows, and the data report."""
