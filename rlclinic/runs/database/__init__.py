"""An index over the run folders in SQLite."""
