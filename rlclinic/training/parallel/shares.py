"""Which environments, and which rows of a minibatch, are a rank's own."""


def envs(n_envs: int, rank: int, world: int) -> slice:
    """Of every member's environments: neighbours, as many for each rank. Random numbers depend on an environment's number among all."""
    size = n_envs // world
    return slice(rank * size, (rank + 1) * size)


def rows(batch: int, rank: int, world: int) -> slice:
    """Of a minibatch."""
    return slice(rank * batch // world, (rank + 1) * batch // world)


def weights(width: int, rank: int, world: int) -> slice:
    """Of a member's weights [P], where each rank keeps the optimizer's state of some; the last share may reach beyond them."""
    size = -(-width // world)
    return slice(rank * size, (rank + 1) * size)
