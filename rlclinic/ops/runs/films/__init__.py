"""Episodes as films: recorded now, while a run trained, or by training it again; and those that show how a reward is gamed."""
