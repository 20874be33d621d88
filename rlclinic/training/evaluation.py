"""Evaluation: many episodes in parallel on environments of their own, from fixed start states, with frozen normalizers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.training.engines import captured_evaluation
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy, on_policy
from rlclinic.training.loops.kinds import AnyLearner, AnyPlan
from rlclinic.training.nets import mlp
from rlclinic.training.sentinels import fingerprints

Floats = NDArray[np.float64]
Actor = Callable[[Tensor, Tensor | None, Any], Tensor]
"""What to do at observations under a mask, at the t-th step."""
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
    by_task: list[dict[str, float | None]] | None = None
    """By member, success in each task of a curriculum, by column; None without one."""

    def success_rate(self, member: int) -> float | None:
        """The share of a member's episodes that the env called a success; None if it says nothing.

        Some envs report only that an episode succeeded: where any of them was reported, one that ended without a word did not.
        """
        success = self.success[member]
        return None if np.isnan(success).all() else float(np.nansum(success) / len(success))

    def row(self, member: int) -> dict[str, float | None]:
        """The val columns of a member."""
        returns = self.returns[member].copy()
        return {
            "train/sentinel/fingerprint_normalizer_eval": None if self.normalizer is None else float(self.normalizer[member]),
            "val/roll/ep_rew_mean": float(returns.mean()),
            "val/roll/ep_rew_std": float(returns.std()),
            "val/roll/ep_rew_min": float(returns.min()),
            "val/roll/ep_len_mean": float(self.lengths[member].copy().mean()),
            "val/roll/success_rate": self.success_rate(member),
            **(self.by_task[member] if self.by_task is not None else {}),
        }


@torch.no_grad()
def evaluate(plan: AnyPlan, learner: AnyLearner, env: VecEnv, *, deterministic: bool, seed: Tensor, wanted: list[bool]) -> Evaluation:
    """One episode in each of the env's N copies with the policies as they are."""

    def made(of: AnyLearner, own_seed: Tensor) -> Actor:
        return actor(plan, of, env.n_envs, deterministic=deterministic, seed=own_seed)

    if captured_evaluation.covers(env) and not sees_episodes(plan):
        found = captured_evaluation.play(plan, learner, env, made, seed, torch.tensor(wanted, device=seed.device), LONGEST)
        returns, lengths, success = (each.cpu().numpy() for each in found)
        played = Evaluation(returns, lengths, success)
    else:
        played = play(env, made(learner, seed), wanted)
    return replace(played, normalizer=fingerprints.of_normalizers(learner))


def actor(plan: AnyPlan, learner: AnyLearner, n_envs: int, *, deterministic: bool, seed: Tensor) -> Actor:
    """What to do at observations [M, N, ...] under an action mask at the t-th step, as the env takes it; seed is [M, 1]."""
    env_index = torch.arange(n_envs, device=seed.device).view(1, -1)
    if isinstance(plan, off_policy.Plan):
        assert isinstance(learner, off_policy.Learner)
        if sees_episodes(plan):
            return EpisodeActor(plan, learner, env_index, None if deterministic else seed)
        return _replay_actor(plan, learner, env_index, None if deterministic else seed)
    assert isinstance(learner, on_policy.Learner)
    params, distribution = plan.policy.layout.views(learner.flat), plan.policy.distribution

    def act(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        dist = mlp.actor(plan.policy, params, on_policy.normalize_obs(plan, learner, obs), mask)
        chosen: Tensor = distribution.mode(dist) if deterministic else distribution.sample(dist, distribution.noise(seed, t, env_index))
        return chosen

    return act


def _replay_actor(plan: off_policy.Plan, learner: off_policy.Learner, env_index: Tensor, seed: Tensor | None) -> Actor:
    params = off_policy.acting_networks(plan, learner)

    def act(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        noise = None if seed is None else off_policy.acting_noise(plan, seed, t, env_index)
        return off_policy.to_env(plan, plan.algo.act(plan, params, off_policy.normalize_obs(plan, learner, obs), mask, noise))

    return act


def sees_episodes(plan: AnyPlan) -> bool:
    """Whether the policy acts by more of its episode than the present observation."""
    return isinstance(plan, off_policy.Plan) and hasattr(plan.algo, "begin")


class EpisodeActor:
    """A policy that acts by the last steps of its episode and by what they paid: one episode in each copy, from step 0 on."""

    def __init__(self, plan: off_policy.Plan, learner: off_policy.Learner, env_index: Tensor, seed: Tensor | None) -> None:
        self._plan, self._learner, self._env, self._seed = plan, learner, env_index, seed
        self._algo: Any = plan.algo
        self._past: Any = None

    def __call__(self, obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        plan, learner = self._plan, self._learner
        if t == 0 or self._past is None:
            self._past = self._algo.begin(plan, learner, obs)
        self._past = self._algo.meet(plan, self._past, off_policy.normalize_obs(plan, learner, obs), t)
        noise = None if self._seed is None else off_policy.acting_noise(plan, self._seed, t, self._env)
        action = self._algo.act(plan, off_policy.acting_networks(plan, learner), self._past.windows, mask, noise)
        self._past = self._algo.remember(plan, self._past, action)
        return off_policy.to_env(plan, action)

    def observe(self, reward: Tensor) -> None:
        """What the last actions were paid, [M, N]."""
        self._past = self._algo.earn(self._past, reward)


def play(
    env: VecEnv, act: Actor, wanted: list[bool], longest: int | None = None, observe: Callable[[Tensor], None] | None = None
) -> Evaluation:
    """One episode in each of the env's N copies. Members not wanted are stepped along but do not delay the end.

    act: what to do at observations [M, N, ...] under an action mask, at the t-th step. longest: LONGEST, unless given. observe: who is told
    each step's reward [M, N]; the actor, where it wants to know.
    """
    observe = observe or getattr(act, "observe", None)
    obs, mask = env.reset(), env.action_mask
    returns = np.zeros((env.members, env.n_envs))
    lengths, success = np.zeros_like(returns), np.full_like(returns, np.nan)
    alive = np.ones_like(returns, dtype=bool) & np.array(wanted)[:, None]
    t, longest = 0, LONGEST if longest is None else longest
    while alive.any() and t < longest:
        step = env.step(act(obs, mask, t))
        if observe is not None:
            observe(step.reward)
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
