"""Data parallelism: how much faster several ranks are, and whether planted faults of synchronization are named."""
