"""What tools say, in few words."""
