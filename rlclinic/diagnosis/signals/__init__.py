"""What series did: signals that rules ask for."""
