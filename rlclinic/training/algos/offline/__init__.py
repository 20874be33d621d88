"""Algorithms that learn from recorded data, one file each; some of them go on in the environment."""
