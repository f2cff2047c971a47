"""From PER_USER to values: means, slices, intervals."""
