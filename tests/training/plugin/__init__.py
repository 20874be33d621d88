"""A package as somebody else would write it: two algorithms with losses only."""
