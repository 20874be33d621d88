"""Proving a change: trials, adoption, searches, sensitivity studies, probes."""
