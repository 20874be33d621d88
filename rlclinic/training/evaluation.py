"""Evaluation: many episodes in parallel on environments of their own, from fixed start states, with frozen normalizers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Learner, Plan
from rlclinic.training.nets import mlp

Floats = NDArray[np.float64]
LONGEST = 50_000
"""Steps after which an evaluation episode of an env without a time limit counts as it stands."""


@dataclass(frozen=True)
class Evaluation:
    """Returns, lengths and success (nan: not reported) of one evaluation, [M, episodes]."""

    returns: Floats
    lengths: Floats
    success: Floats

    def row(self, member: int) -> dict[str, float | None]:
        """The val columns of a member."""
        known = self.success[member][~np.isnan(self.success[member])]
        returns = self.returns[member].copy()
        return {
            "val/roll/ep_rew_mean": float(returns.mean()),
            "val/roll/ep_rew_std": float(returns.std()),
            "val/roll/ep_rew_min": float(returns.min()),
            "val/roll/ep_len_mean": float(self.lengths[member].copy().mean()),
            "val/roll/success_rate": float(known.mean()) if known.size else None,
        }


@torch.no_grad()
def evaluate(plan: Plan, learner: Learner, env: Any, *, deterministic: bool, seed: Tensor, wanted: list[bool]) -> Evaluation:
    """One episode in each of the env's N copies. Members not wanted are stepped along but do not delay the end."""
    params = plan.policy.layout.views(learner.flat)
    obs, mask = env.reset(), env.action_mask
    returns = np.zeros((env.members, env.n_envs))
    lengths, success = np.zeros_like(returns), np.full_like(returns, np.nan)
    alive = np.ones_like(returns, dtype=bool) & np.array(wanted)[:, None]
    env_index, t = torch.arange(env.n_envs, device=obs.device).view(1, -1), 0
    while alive.any() and t < LONGEST:
        dist = mlp.actor(plan.policy, params, on_policy.see(plan, learner, obs), mask)
        if deterministic:
            action = plan.policy.distribution.mode(dist)
        else:
            action = plan.policy.distribution.sample(dist, plan.policy.distribution.noise(seed, t, env_index))
        step = env.step(action)
        returns += np.where(alive, step.reward.cpu().numpy(), 0.0)
        lengths += alive
        end = (step.terminated | step.truncated).cpu().numpy()
        if step.success is not None:
            success = np.where(alive & end, step.success.cpu().numpy(), success)
        alive &= ~end
        for failed in env.failures:
            alive[failed] = False
        obs, mask, t = step.obs, step.action_mask, t + 1
    return Evaluation(returns, lengths, success)
