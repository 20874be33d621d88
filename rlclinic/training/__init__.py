"""Training: the only package that imports torch. `python -m rlclinic.training RUN [RUN ...]` trains run folders."""

import os

# Before MKL is used for the first time: without it the last bits of a matrix product depend on where its operands happen to
# lie in memory, and a member of a cohort would not learn quite what it learns alone.
os.environ.setdefault("MKL_CBWR", "AUTO")
