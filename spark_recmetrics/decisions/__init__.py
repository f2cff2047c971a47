"""Comparisons of models, and gates."""
