"""Controlled experiments: arms, looks, verdicts."""
