"""`python -m rlclinic.training.parallel`: a rank other than 0, as RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say."""

import sys

from rlclinic.training.parallel import follower

if __name__ == "__main__":
    sys.exit(follower.main())
