"""Recorded data: collecting it, looking at it, converting it."""
