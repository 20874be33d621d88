"""How an iteration is carried out: eager, compiled, captured."""
