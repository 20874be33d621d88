"""What operations return, and how it is said: models, documents, charts. Nothing here reads a store or writes a file."""
