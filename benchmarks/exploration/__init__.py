"""Exploration: what a bonus finds (`__main__`), and whether `explore` knows when one is needed (`assessment`, `worlds`)."""
