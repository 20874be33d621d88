"""Recorded data: how long a look at it takes, and whether it ranks policies as playing them does."""
