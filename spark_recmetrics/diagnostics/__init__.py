"""Checks of a set-up: preflight, expected values, doctor."""
