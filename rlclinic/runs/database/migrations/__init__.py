"""How the index's tables came to be what they are, one step at a time (Alembic)."""
