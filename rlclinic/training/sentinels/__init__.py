"""What training logs about itself, so that causes can be told apart from files alone."""
