"""The tools for coding agents."""
