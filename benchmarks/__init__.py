"""Side by side with peers, and what rlclinic itself costs. Results with provenance in results/, tables in docs/benchmarks.md."""

import os

# What is trained here is ours, also where it is put into a store without anybody typing its name.
os.environ.setdefault("RLCLINIC_TRUST", "all")
