"""Algorithms, one file each. An on-policy one offers `advantages` and `loss`; one with a replay `explore`, `targets` and `update`."""

from types import ModuleType

from rlclinic.training.algos import a2c, dqn, ppo, q_learning, reinforce, sac, td3

ALGORITHMS: dict[str, ModuleType] = {
    "ppo": ppo,
    "a2c": a2c,
    "reinforce": reinforce,
    "dqn": dqn,
    "td3": td3,
    "ddpg": td3,
    "sac": sac,
    "q_learning": q_learning,
}
