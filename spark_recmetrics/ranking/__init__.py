"""Lists in order."""
