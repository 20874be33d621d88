"""Whether a question in words finds its answer."""
