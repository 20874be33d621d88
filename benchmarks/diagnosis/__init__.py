"""How well does the diagnosis find what is wrong? A corpus of runs with planted faults, a fit, baselines, and the measurement."""
