"""What treatment is worth: searches beside blind ones, and the table of recorded outcomes."""
