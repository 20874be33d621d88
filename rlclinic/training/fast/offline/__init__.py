"""Gradients by hand of algorithms that learn from recorded data."""
