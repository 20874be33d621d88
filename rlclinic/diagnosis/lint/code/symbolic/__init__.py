"""What a script computes, followed through its functions without running it: symbols in place of numbers."""
