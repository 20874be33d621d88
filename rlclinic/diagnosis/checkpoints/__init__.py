"""What the checkpoints of a run say."""
