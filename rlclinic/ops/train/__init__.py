"""Training: what is going to happen, doing it, and what the machine can do."""
