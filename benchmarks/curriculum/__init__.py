"""Curricula: how often promotion errs, and whether growing mazes teach faster than the largest one alone."""
