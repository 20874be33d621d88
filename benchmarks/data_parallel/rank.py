"""A rank other than 0 with a planted fault: `python -m benchmarks.data_parallel.rank`."""

import os
import sys

from benchmarks.data_parallel import faults
from rlclinic.training.parallel import follower

if __name__ == "__main__":
    faults.plant(os.environ[faults.VARIABLE])
    sys.exit(follower.main())
