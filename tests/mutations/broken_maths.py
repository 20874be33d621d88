"""Broken versions of the maths: advantages, losses, distributions, normalizers, the optimizer.

Every function here takes the original and returns what a bug would make of it. Signatures are the originals'.
"""

from typing import Any

import torch
from torch import Tensor

from rlclinic.training import optim
from rlclinic.training.maths import losses, normalize, returns
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.optim import OptimizerState

# ── returns ──


def negated_advantage(gae: Any) -> Any:
    def broken(*arguments: Tensor) -> tuple[Tensor, Tensor]:
        advantage, target = gae(*arguments)
        return -advantage, target

    return broken


def truncation_is_termination(gae: Any) -> Any:
    def broken(reward: Tensor, value: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, *rest: Tensor) -> Any:
        return gae(reward, value, next_value, terminated | truncated, truncated, *rest)

    return broken


def termination_is_ignored(gae: Any) -> Any:
    def broken(reward: Tensor, value: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, *rest: Tensor) -> Any:
        return gae(reward, value, next_value, torch.zeros_like(terminated), terminated | truncated, *rest)

    return broken


def trace_runs_across_episodes(gae: Any) -> Any:
    def broken(
        reward: Tensor, value: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, gamma: Tensor, gae_lambda: Tensor
    ) -> tuple[Tensor, Tensor]:
        delta = reward + gamma.unsqueeze(-1) * next_value * ~terminated - value
        advantage = returns._discounted_sum(delta, (gamma * gae_lambda).unsqueeze(-1).expand_as(delta))
        return advantage, advantage + value

    return broken


def sums_run_forwards(discounted_sum: Any) -> Any:
    return lambda term, decay: discounted_sum(term.flip(1), decay.flip(1)).flip(1)


def no_discount(gae: Any) -> Any:
    return lambda *arguments: gae(*arguments[:5], torch.ones_like(arguments[5]), arguments[6])


def no_lambda(gae: Any) -> Any:
    return lambda *arguments: gae(*arguments[:6], torch.ones_like(arguments[6]))


def bootstrap_from_own_value(gae: Any) -> Any:
    return lambda reward, value, next_value, *rest: gae(reward, value, value, *rest)


def unfinished_episodes_count(rewards_to_go: Any) -> Any:
    def broken(*arguments: Any) -> tuple[Tensor, Tensor]:
        total, complete = rewards_to_go(*arguments)
        return total, torch.ones_like(complete)

    return broken


# ── losses ──


def mean_drops_the_axis(mean: Any) -> Any:
    return lambda rows, weight=None: mean(rows, weight).squeeze(-1)


def mean_counts_every_row(mean: Any) -> Any:
    return lambda rows, weight=None: mean(rows)


def negated(function: Any) -> Any:
    return lambda *arguments: -function(*arguments)


def optimistic_value_clip(_: Any) -> Any:
    def broken(value: Tensor, old_value: Tensor, target: Tensor, clip_range: Tensor, weight: Tensor | None = None) -> Tensor:
        near = old_value + torch.maximum(torch.minimum(value - old_value, clip_range), -clip_range)
        return losses.mean(torch.minimum((value - target).square(), (near - target).square()), weight)

    return broken


def optimistic_surrogate(_: Any) -> Any:
    def broken(ratio: Tensor, advantage: Tensor, clip_range: Tensor, weight: Tensor | None = None) -> Tensor:
        clipped = torch.maximum(torch.minimum(ratio, 1 + clip_range), 1 - clip_range)
        return -losses.mean(torch.maximum(ratio * advantage, clipped * advantage), weight)

    return broken


def unclipped_surrogate(_: Any) -> Any:
    return lambda ratio, advantage, clip_range, weight=None: -losses.mean(ratio * advantage, weight)


def inverted_ratio(surrogate: Any) -> Any:
    return lambda ratio, *rest: surrogate(1 / ratio, *rest)


# ── distributions ──


def log_prob_without_log_std(_: Any) -> Any:
    def broken(self: Any, dist: Tensor, action: Tensor) -> Tensor:
        mean, log_std = dist.chunk(2, -1)
        return (-0.5 * ((action - mean) * torch.exp(-log_std)).square() - 0.5 * 1.8378770664093453).sum(-1)

    return broken


def log_prob_without_constant(_: Any) -> Any:
    def broken(self: Any, dist: Tensor, action: Tensor) -> Tensor:
        mean, log_std = dist.chunk(2, -1)
        return (-0.5 * ((action - mean) * torch.exp(-log_std)).square() - log_std).sum(-1)

    return broken


def variance_for_deviation(_: Any) -> Any:
    def broken(self: Any, dist: Tensor, noise: Tensor) -> Tensor:
        mean, log_std = dist.chunk(2, -1)
        return mean + (2 * log_std).exp() * noise

    return broken


def first_component_only(_: Any) -> Any:
    return lambda self, dist, action: self.parts[0].log_prob(dist.split(self.sizes, -1)[0], action[..., 0])


# ── normalizers ──


def standardized_over_the_cohort(_: Any) -> Any:
    return lambda advantage, weight=None: (advantage - advantage.mean()) / (advantage.std() + normalize.EPSILON)


def reward_mean_subtracted(_: Any) -> Any:
    def broken(stats: Moments, reward: Tensor, clip: float) -> Tensor:
        mean, scale = (x.float().view(-1, 1, 1) for x in (stats.mean, torch.rsqrt(stats.var + normalize.EPSILON)))
        return ((reward - mean) * scale).clamp(-clip, clip)

    return broken


def carry_survives_the_end(discounted_returns: Any) -> Any:
    return lambda reward, end, *rest: discounted_returns(reward, torch.zeros_like(end), *rest)


def only_the_last_batch_counts(include: Any) -> Any:
    def broken(stats: Moments, *rest: Any) -> Moments:
        return include(Moments(torch.zeros_like(stats.count), torch.zeros_like(stats.mean), stats.var), *rest)

    return broken


def observations_not_clipped(observations: Any) -> Any:
    return lambda stats, obs, _: observations(stats, obs, float("inf"))


# ── optimizer ──


def clipped_jointly(clip_by_norm: Any) -> Any:
    return lambda grad, norm, bound: clip_by_norm(grad, norm.square().sum().sqrt().expand_as(norm), bound)


def no_bias_correction(_: Any) -> Any:
    def broken(optimizer: optim.Optimizer, grad: Tensor, state: OptimizerState) -> tuple[Tensor, OptimizerState]:
        mean = state.mean.lerp(grad, 1 - optim.BETA1)
        square = state.square * optim.BETA2 + (1 - optim.BETA2) * grad * grad
        return mean / (square.sqrt() + optimizer.eps), OptimizerState(mean, square, state.steps + 1)

    return broken


def one_step_count_for_all(step: Any) -> Any:
    def broken(*arguments: Any) -> tuple[Tensor, OptimizerState]:
        flat, state = step(*arguments)
        return flat, state._replace(steps=state.steps.max().expand_as(state.steps).clone())

    return broken


def frozen_members_move(step: Any) -> Any:
    return lambda optimizer, flat, grad, state, learning_rate, active: step(optimizer, flat, grad, state, learning_rate, None)


def frozen_moments_move(step: Any) -> Any:
    def broken(
        optimizer: optim.Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, rate: Tensor, active: Tensor | None
    ) -> tuple[Tensor, OptimizerState]:
        return step(optimizer, flat, grad, state, rate, active)[0], step(optimizer, flat, grad, state, rate, None)[1]

    return broken
