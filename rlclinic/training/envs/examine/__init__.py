"""A few seconds with a user's environment: what it does, written down as facts. Free of torch."""
