"""Runs that are training: how they stand, what to expect, whom to tell."""
