"""From lists and ground truth to PER_USER."""
