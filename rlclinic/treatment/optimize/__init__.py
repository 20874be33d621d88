"""A search that diagnoses."""
