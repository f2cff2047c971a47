"""Evaluate recommender systems on Spark."""
