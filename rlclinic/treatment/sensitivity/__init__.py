"""How much each number matters."""
