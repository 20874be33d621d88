"""What users can do: one typed function per operation, and one room per capability.

`operations` is the table of all of them; the command line, the servers and the tools for agents are made from it. Rooms import each
other in one direction: jobs, treat, compare, train, status, diagnose, runs.
"""
