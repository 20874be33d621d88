"""Which of many arms is best: seeds go where they matter, and a ranking says what was shown."""
