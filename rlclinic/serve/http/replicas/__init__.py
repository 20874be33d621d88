"""Several servers over one store: what they tell each other, and what they count together."""
