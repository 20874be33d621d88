"""metrics.csv: its rows as text (whole, from an offset on, the last ones), and its columns as numbers."""
