"""Why does this run not learn? Files in, ranked causes with evidence out: no torch, no network, the same bytes every time.

signals   what a series did: trend, plateau, collapse, change point, what moved first
case      one run as rules see it: resampled series, settings, how far it got
rule      the registry of checks; rules/<family>.py hold them
lint      faults visible in the config alone
causes    findings -> ranked causes, with what was ruled out and why
engine    diagnose(histories) -> Diagnosis
"""
