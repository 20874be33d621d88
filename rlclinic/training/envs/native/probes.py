"""Probe environments: tiny tasks with known answers, each of which one more part of an algorithm must get right.

The first five are those of "Debugging RL, Without the Agonizing Pain" (Andy L. Jones, 2021). A learner that fails a probe but
passes the ones before it has its bug in the part that this probe adds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics


@dataclass(frozen=True)
class Answer:
    """What a correct learner ends with in one observation."""

    obs: float
    value: Callable[[float], float]
    """The optimal value as a function of gamma."""
    action: int | float | None
    """The best action; None where there is no choice."""


@dataclass(frozen=True)
class Probe:
    """One probe: how it behaves, what it isolates, and the known answers."""

    isolates: str
    actions: int | None
    """Number of discrete actions; None: one continuous action in [-1, 1]."""
    answers: tuple[Answer, ...]


def _constant(value: float) -> Callable[[float], float]:
    return lambda gamma: value


PROBES: dict[str, Probe] = {
    "probe:1": Probe(
        "the value loss and its optimizer: one action, observation 0, reward 1, one step",
        1,
        (Answer(0.0, _constant(1.0), None),),
    ),
    "probe:2": Probe(
        "backpropagation through the value network: the reward is the observation, -1 or 1",
        1,
        (Answer(-1.0, _constant(-1.0), None), Answer(1.0, _constant(1.0), None)),
    ),
    "probe:3": Probe(
        "discounting: observation 0, then 1; reward 1 at the end of the second step",
        1,
        (Answer(0.0, lambda gamma: gamma, None), Answer(1.0, _constant(1.0), None)),
    ),
    "probe:4": Probe("the policy's gradient: observation 0, action 1 pays 1 and action 0 pays -1", 2, (Answer(0.0, _constant(1.0), 1),)),
    "probe:5": Probe(
        "policy and value together: 1 where the action matches the observation's sign, else -1",
        2,
        (Answer(-1.0, _constant(1.0), 0), Answer(1.0, _constant(1.0), 1)),
    ),
    "probe:continuous": Probe(
        "the continuous policy: reward 1 - (action - observation / 2)^2, observation -1 or 1",
        None,
        (Answer(-1.0, _constant(1.0), -0.5), Answer(1.0, _constant(1.0), 0.5)),
    ),
}


def optimal_values(probe_id: str, gamma: float) -> dict[float, float]:
    """The optimal value of each observation of a probe."""
    return {answer.obs: answer.value(gamma) for answer in PROBES[probe_id].answers}


class ProbeEnv(Dynamics):
    """All probes in one: state [observation, steps taken]."""

    obs_shape = (1,)
    obs_low, obs_high = np.array([-1], np.float32), np.array([1], np.float32)
    noise = 1

    def __init__(self, probe_id: str) -> None:
        self._id = probe_id
        actions = PROBES[probe_id].actions
        if actions is None:
            self.action = ActionSpec("box", (1,), np.array([-1], np.float32), np.array([1], np.float32))
        else:
            self.action = ActionSpec("discrete", (actions,))
        self._signs = {answer.obs for answer in PROBES[probe_id].answers} == {-1.0, 1.0}

    def start(self, uniform: Tensor) -> Tensor:
        obs = torch.where(uniform < 0.5, -1.0, 1.0) if self._signs else torch.zeros_like(uniform)
        return torch.cat((obs, torch.zeros_like(obs)), -1)

    def observe(self, state: Tensor) -> Tensor:
        return state[..., :1].clone()

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        obs, taken = state.unbind(-1)
        reward = self._reward(obs, action)
        if self._id == "probe:3":
            return torch.stack((taken + 1, taken + 1), -1).clamp_(max=1), reward, taken > 0
        return torch.stack((obs, taken + 1), -1), reward, torch.ones_like(obs, dtype=torch.bool)

    def _reward(self, obs: Tensor, action: Tensor) -> Tensor:
        match self._id:
            case "probe:1":
                return torch.ones_like(obs)
            case "probe:2" | "probe:3":
                return obs.clone()
            case "probe:4":
                return action * 2.0 - 1.0
            case "probe:5":
                return (action * 2.0 - 1.0) * obs
            case _:
                return 1.0 - (action.squeeze(-1).clamp(-1, 1) - obs / 2).square()
