"""The documentation, and what writes its generated pages."""

import os

# Environments of the examples are ours, also where they are put into a store without anybody typing their names.
os.environ.setdefault("RLCLINIC_TRUST", "all")
