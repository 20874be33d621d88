"""Doses: how much of a setting, computed from the run's own numbers."""
