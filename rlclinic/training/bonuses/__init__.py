"""Bonuses for what is new: how new a state is (`counts`, `curiosity`), and what that pays (`pay`). Free of the loops, which call it."""
