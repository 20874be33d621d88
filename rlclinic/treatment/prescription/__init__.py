"""What to change, and how much of it."""
