"""How runs, groups and configs differ: settings with what they usually do, curves, outcomes with intervals and tests, and a gate.

`sides` holds what is compared; `compare.compare` puts the parts together; `regression` judges a candidate against a baseline.
Nothing here reads other frameworks' folders or trains: operations hand in histories and settings.
"""
