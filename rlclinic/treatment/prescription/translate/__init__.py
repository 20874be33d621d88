"""Prescriptions in the words of other frameworks."""
