"""What to expect of a run, from its first part."""
