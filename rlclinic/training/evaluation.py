"""Evaluation: many episodes in parallel on environments of their own, from fixed start states, with frozen normalizers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.training import fingerprints
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
    normalizer: Tensor | None = None
    """Fingerprint of the normalizers that were used, [M]; None without any."""

    def row(self, member: int) -> dict[str, float | None]:
        """The val columns of a member."""
        known = self.success[member][~np.isnan(self.success[member])]
        returns = self.returns[member].copy()
        return {
            "train/sentinel/fingerprint_normalizer_eval": None if self.normalizer is None else float(self.normalizer[member]),
            "val/roll/ep_rew_mean": float(returns.mean()),
            "val/roll/ep_rew_std": float(returns.std()),
            "val/roll/ep_rew_min": float(returns.min()),
            "val/roll/ep_len_mean": float(self.lengths[member].copy().mean()),
            "val/roll/success_rate": float(known.mean()) if known.size else None,
        }


@torch.no_grad()
def evaluate(plan: Plan, learner: Learner, env: Any, *, deterministic: bool, seed: Tensor, wanted: list[bool]) -> Evaluation:
    """One episode in each of the env's N copies with the policies as they are."""
    params, distribution = plan.policy.layout.views(learner.flat), plan.policy.distribution
    env_index = torch.arange(env.n_envs, device=seed.device).view(1, -1)

    def act(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        dist = mlp.actor(plan.policy, params, on_policy.see(plan, learner, obs), mask)
        return distribution.mode(dist) if deterministic else distribution.sample(dist, distribution.noise(seed, t, env_index))

    return replace(play(env, act, wanted), normalizer=fingerprints.of_normalizers(learner))


def play(env: Any, act: Callable[[Tensor, Tensor | None, int], Tensor], wanted: list[bool], longest: int | None = None) -> Evaluation:
    """One episode in each of the env's N copies. Members not wanted are stepped along but do not delay the end.

    act: what to do at observations [M, N, ...] under an action mask, at the t-th step. longest: LONGEST, unless given.
    """
    obs, mask = env.reset(), env.action_mask
    returns = np.zeros((env.members, env.n_envs))
    lengths, success = np.zeros_like(returns), np.full_like(returns, np.nan)
    alive = np.ones_like(returns, dtype=bool) & np.array(wanted)[:, None]
    t, longest = 0, LONGEST if longest is None else longest
    while alive.any() and t < longest:
        step = env.step(act(obs, mask, t))
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
