"""How much of what is reinforced comes from each term of the reward.

Advantages are linear in the reward: with values V_k of its own for each term, A is the sum of the terms' own advantages and of what the
critic says beyond all V_k. Without values of its own, a term that pays the same in every step would look like most of what is learned.
What is learned from may have more parts than those: of rewards that no term tells, of a bonus with a critic of its own, of costs that have
a limit, and of what is cut from rewards. With what the critic says beyond the terms' values they are one more part, `info_columns.BEYOND`.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import info_columns
from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Learner, Plan
from rlclinic.training.maths import normalize

STEPS_PER_FEATURE: Final = 8
"""Steps of a rollout that there have to be for each feature of a term's values: with fewer, they would explain chance."""
RIDGE: Final = 1e-6
"""Of the size of a feature: what is added where features say the same."""


@torch.no_grad()
def share_advantages(
    plan: Plan,
    learner: Learner,
    rollout: Rollout,
    learned: Tensor,
    hp: Hyperparameters,
    names: Sequence[str],
    factors: Tensor | None = None,
) -> dict[str, Tensor]:
    """Parts of the size of the advantages that are learned from, [M] by column: they sum to 1, and pull back below 0.

    learned: those advantages [M, T*N], before they are scaled; `names` are those of what steps tell (`rollout.said`). With a_t the learned
    advantage and a_kt the part of k, the part is sum_t a_kt sign(a_t) / sum_t |a_t|. What all steps have in common counts for nothing.
    """
    terms = [k for k, name in enumerate(names) if name.startswith(info_columns.TERM)]
    if not terms or rollout.said is None:
        return {}
    own, counts = split_advantages(plan, learner, rollout, hp, terms, factors)
    learned = learned.view_as(rollout.reward)
    parts = [part * _unit(plan, learner, rollout) for part in own.unbind(-1)]  # [M, T, N] each
    parts.append(learned - torch.stack(parts).sum(0))
    weight = torch.ones_like(rollout.reward) if counts is None else counts.float()
    centred = _centre(learned, weight)
    size = (centred.abs() * weight).flatten(1).sum(1)  # [M]
    shares = [(_centre(part, weight) * centred.sign() * weight).flatten(1).sum(1) / size.clamp(min=1e-30) for part in parts]
    columns = [*(f"train/terms/{names[k].removeprefix(info_columns.TERM)}/advantage" for k in terms), info_columns.BEYOND]
    return {column: torch.where(size > 0, share, torch.nan) for column, share in zip(columns, shares, strict=True)}


def _centre(rows: Tensor, weight: Tensor) -> Tensor:
    """[M, T, N] less its mean over the rows that count."""
    mean = (rows * weight).flatten(1).sum(1) / weight.flatten(1).sum(1).clamp(min=1.0)
    return rows - mean.view(-1, 1, 1)


def _unit(plan: Plan, learner: Learner, rollout: Rollout) -> Tensor:
    """What a unit of what steps tell is worth in the advantages that are learned from, [M, 1, 1]."""
    unit = torch.full_like(rollout.reward[:, :1, :1], plan.env.train_reward_scale)
    if learner.reward_stats is not None:
        unit = unit * normalize.scale(learner.reward_stats)
    return unit if rollout.weighed is None else unit / (1 + rollout.weighed.multiplier.unsqueeze(-1))


@torch.no_grad()
def split_advantages(
    plan: Plan, learner: Learner, rollout: Rollout, hp: Hyperparameters, terms: Sequence[int], factors: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Each term's own advantages [M, T, N, K], in units of the rewards as steps tell them, and which rows count (None: all).

    terms: their places in `rollout.said`. A term's values are a linear function of the critic's and of the observation, such that its
    advantages are as small as they can be. factors [M, 1, K]: the weights that terms are learned with, where they are not those of the
    environment.
    """
    assert rollout.said is not None
    said = rollout.said if factors is None else rollout.said * factors.unsqueeze(1).to(rollout.said.device)
    none = torch.zeros_like(rollout.reward)
    params = plan.policy.layout.views(learner.flat)
    present = (on_policy.log_ratio(plan, params, rollout),) if plan.corrects_for_age else ()

    def estimate(reward: Tensor, value: Tensor, next_value: Tensor) -> tuple[Tensor, Tensor | None]:
        advantage, _, counts = plan.algo.advantages(plan.config, rollout, reward, value, next_value, hp, *present)
        return advantage, counts

    paid = torch.stack([estimate(said[..., k], none, none)[0] for k in terms], -1)
    now, then = _features(plan, learner, rollout)
    of_features, counts = zip(*(estimate(none, now[..., k], then[..., k]) for k in range(now.shape[-1])), strict=True)
    counted = torch.ones_like(rollout.terminated) if counts[0] is None else counts[0]
    # One member after the other: products of stacked matrices have other last bits in a cohort than alone.
    own = [_take_off(*member) for member in zip(paid, torch.stack(of_features, -1), counted, strict=True)]
    return torch.stack(own), counts[0]


def _features(plan: Plan, learner: Learner, rollout: Rollout) -> tuple[Tensor, Tensor]:
    """What values are made of, at what was acted on and at what came of it, [M, T, N, F]: 1, the critic's value, a short observation."""
    value, next_value = on_policy.values(plan.policy, plan.policy.layout.views(learner.flat), rollout)
    features = 2 + rollout.net_obs[0, 0, 0].numel()
    short = plan.policy.picture is None and features * STEPS_PER_FEATURE <= rollout.reward[0].numel()

    def collect(of_critic: Tensor, obs: Tensor) -> Tensor:
        columns = torch.stack([torch.ones_like(of_critic), of_critic], -1)
        return torch.cat([columns, obs.float()], -1) if short else columns

    return collect(value, rollout.net_obs), collect(next_value, rollout.net_next_obs)


def _take_off(paid: Tensor, of_features: Tensor, counted: Tensor) -> Tensor:
    """One member's advantages [T, N, K] less what values explain of them: least squares over rows that count, [T, N, F] of features."""
    every, design, wanted = of_features.double(), of_features[counted].double(), paid[counted].double()
    gram = design.T @ design
    ridge = torch.diag(RIDGE * gram.diagonal().clamp(min=1e-12))
    return (paid.double() - every @ torch.linalg.solve(gram + ridge, design.T @ wanted)).float()
