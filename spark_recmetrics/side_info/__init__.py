"""What is known besides lists and ground truth: items, groups, features and bands."""
