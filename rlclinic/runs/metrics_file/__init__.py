"""metrics.csv: read whole, by column, from the end, or while it grows."""
