"""Configuration files of jobs."""
