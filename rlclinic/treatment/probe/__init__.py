"""Experiments that tell two causes apart."""
