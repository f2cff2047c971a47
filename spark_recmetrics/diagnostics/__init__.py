"""Checks of a setup: preflight, expected values, doctor."""
