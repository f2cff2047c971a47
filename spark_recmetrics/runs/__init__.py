"""Runs: their identity, how they are published, and their order."""
