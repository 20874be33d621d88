"""Runs in an object store, for machines that share no file system."""
