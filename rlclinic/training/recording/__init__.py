"""What is recorded of a run beside its rows, on request: episodes as films and numbers, and histograms."""
