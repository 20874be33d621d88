"""What outlives whoever starts it: jobs, their queue, budget and audit log."""
