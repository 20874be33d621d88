"""Limits that learning keeps, beside the reward."""
