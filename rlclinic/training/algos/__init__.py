"""Algorithms, one file each. An on-policy one offers `advantages` and `loss`."""

from types import ModuleType

from rlclinic.training.algos import a2c, ppo, reinforce

ALGORITHMS: dict[str, ModuleType] = {"ppo": ppo, "a2c": a2c, "reinforce": reinforce}
