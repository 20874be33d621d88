"""How runs and configs differ, and whether a candidate got worse."""
