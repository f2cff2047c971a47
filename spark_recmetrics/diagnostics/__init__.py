"""Checks of a set-up: preflight, expected values, overlap, doctor."""
