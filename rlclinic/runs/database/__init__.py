"""An index over the run folders, and the queue of jobs, in SQLite."""
