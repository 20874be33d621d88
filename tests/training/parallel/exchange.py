"""Ranks that exchange numbers, in processes of their own: `python -m tests.training.parallel.exchange RANKS [different]`."""

import hashlib
import json
import os
import sys
from typing import Any

import torch

from rlclinic.training.parallel import ranks
from rlclinic.training.parallel.ranks import Ranks
from rlclinic.training.parallel.watch import RankLost

SIZES = (1, 5, 40_001)
"""The last one does not fit into the memory that ranks share at the start."""


def numbers(rank: int, size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(100 * rank + size % 97))


def hash_of(tensors: list[torch.Tensor]) -> str:
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in tensors)).hexdigest()


def exchange(here: Ranks) -> list[torch.Tensor]:
    """Sums, shares of sums, and what all ranks have."""
    found = []
    for size in (*SIZES, *SIZES):
        found.append(here.sum("sum", numbers(here.rank, size).view(1, -1)).flatten().clone())
        parts = here.scatter_sum("share", numbers(here.rank, size * here.world).view(here.world, size))
        found += [here.gather("shares", parts).flatten(), here.gather("own", numbers(here.rank, size)).flatten()]
    return found


def by_hand(world: int) -> list[torch.Tensor]:
    found = []
    for size in (*SIZES, *SIZES):
        for of in (size, size * world):
            total = numbers(0, of) + numbers(1, of)
            for rank in range(2, world):
                total = total + numbers(rank, of)
            found.append(total)
        found.append(torch.cat([numbers(rank, size) for rank in range(world)]))
    return found


def main() -> None:
    if ranks.is_launched():
        here = ranks.join()
    else:
        os.environ["EXCHANGED"] = " ".join(sys.argv[2:])
        starting: Any = ranks
        starting.FOLLOWER = "tests.training.parallel.exchange"
        here = ranks.begin(int(sys.argv[1]), torch.device("cpu"))
    world = here.world
    if os.environ["EXCHANGED"] == "different":
        try:
            here.sum("something else" if here.rank else "gradient", torch.ones(4))
        except RankLost as error:
            print(json.dumps({"error": str(error)}), flush=True)
        os._exit(0)
    found: dict[str, Any] = {"memory": hash_of(exchange(here)), "shared": here.memory is not None, "by hand": hash_of(by_hand(world))}
    here.memory = None
    found["network"] = hash_of(exchange(here))
    here.in_order = False
    found["ring close"] = all(torch.allclose(one, other, atol=1e-5) for one, other in zip(exchange(here), by_hand(world), strict=True))
    if here.rank == 0:
        print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
