"""The five expert roles as files for coding agents: what each does, which tools it may use, and what the checks hold against."""
