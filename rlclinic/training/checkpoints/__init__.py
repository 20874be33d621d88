"""A member's state on disk: written, read, resumed."""
