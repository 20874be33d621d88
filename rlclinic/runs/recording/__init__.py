"""Files of what is recorded beside the rows: episodes as films and numbers, and histograms. Free of torch."""
