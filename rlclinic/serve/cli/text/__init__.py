"""Results as text for people. Nothing here decides anything."""
