"""Environments that play several tasks: native ones as one batch, Gymnasium's by changing places, and what becomes of episodes."""
