"""Runs as other programs keep them: one module for each program, each writes a folder that it can open. Nothing is sent anywhere."""
