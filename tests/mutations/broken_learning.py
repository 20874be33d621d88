"""Broken versions of what turns a rollout into an update: stored rows, losses, minibatches, networks, numbers.

Every function here takes the original and returns what a bug would make of it. Signatures are the originals'.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from rlclinic.training.data.rollouts import Batch, Rollout, rows
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Learner, Plan
from rlclinic.training.maths import normalize
from rlclinic.training.nets import mlp

# ── what a rollout stores ──


def bootstrap_from_the_reset(stack: Any) -> Any:
    def broken(plan: Plan, learner: Learner, *rest: Any) -> Rollout:
        rollout = stack(plan, learner, *rest)
        return replace(rollout, net_next_obs=on_policy.normalize_obs(plan, learner, rollout.following))

    return broken


def log_prob_one_rollout_old(stack: Any) -> Any:
    last: dict[torch.Size, Tensor] = {}

    def broken(*arguments: Any) -> Rollout:
        rollout = stack(*arguments)
        old = last.get(rollout.log_prob.shape, rollout.log_prob)
        last[rollout.log_prob.shape] = rollout.log_prob
        return replace(rollout, log_prob=old)

    return broken


def log_prob_of_the_step_before(stack: Any) -> Any:
    def broken(*arguments: Any) -> Rollout:
        rollout = stack(*arguments)
        return replace(rollout, log_prob=rollout.log_prob.roll(1, 1))

    return broken


def clipped_action_stored(stack: Any) -> Any:
    def broken(*arguments: Any) -> Rollout:
        rollout = stack(*arguments)
        return replace(rollout, action=rollout.action.clamp(-1, 1)) if rollout.action.is_floating_point() else rollout

    return broken


def log_prob_of_the_clipped_action(stack: Any) -> Any:
    def broken(plan: Plan, *rest: Any) -> Rollout:
        rollout = stack(plan, *rest)
        if not rollout.action.is_floating_point():
            return rollout
        return replace(rollout, log_prob=plan.policy.distribution.log_prob(rollout.dist, rollout.action.clamp(-1, 1)))

    return broken


def statistics_move_within_the_rollout(see: Any) -> Any:
    def broken(plan: Plan, learner: Learner, obs: Tensor) -> Tensor:
        if learner.obs_stats is None:
            return obs
        stats = normalize.include(learner.obs_stats, obs.flatten(1, -2), torch.ones(obs.shape[0], 1, dtype=torch.bool))
        return normalize.observations(stats, obs, plan.env.clip_obs)

    return broken


def statistics_move_before_the_update(assess: Any) -> Any:
    def broken(plan: Plan, learner: Learner, rollout: Rollout, hp: SimpleNamespace) -> Any:
        if learner.obs_stats is not None:
            stats = normalize.include(learner.obs_stats, rows(rollout.obs), torch.ones(rollout.obs.shape[0], 1, dtype=torch.bool))
            rollout = replace(rollout, net_obs=normalize.observations(stats, rollout.obs, plan.env.clip_obs))
        return assess(plan, learner, rollout, hp)

    return broken


def same_noise_each_iteration(collect: Any) -> Any:
    return lambda plan, learner, env, position, seed, iteration, *rest: collect(plan, learner, env, position, seed, 0, *rest)


# ── the gradient, whichever engine computes it ──


def old_log_prob_recomputed(gradient: Any) -> Any:
    def broken(plan: Plan, flat: Tensor, batch: Batch, hp: SimpleNamespace) -> Any:
        with torch.no_grad():
            dist = mlp.actor(plan.policy, plan.policy.layout.views(flat), batch.obs, batch.action_mask)
            now = plan.policy.distribution.log_prob(dist, batch.action)
        return gradient(plan, flat, batch._replace(log_prob=now), hp)

    return broken


def coefficient_negated(name: str) -> Any:
    def breaks(gradient: Any) -> Any:
        def broken(plan: Plan, flat: Tensor, batch: Batch, hp: SimpleNamespace) -> Any:
            return gradient(plan, flat, batch, SimpleNamespace(**{**vars(hp), name: -getattr(hp, name)}))

        return broken

    return breaks


entropy_is_punished = coefficient_negated("ent_coef")
critic_is_driven_away = coefficient_negated("vf_coef")


def mask_is_ignored_in_the_update(gradient: Any) -> Any:
    return lambda plan, flat, batch, hp: gradient(plan, flat, batch._replace(action_mask=None), hp)


def no_gradient_for(part: str) -> Any:
    def breaks(gradient: Any) -> Any:
        def broken(plan: Plan, flat: Tensor, batch: Batch, hp: SimpleNamespace) -> Any:
            grad, readings = gradient(plan, flat, batch, hp)
            grad = grad.clone()
            for name in plan.policy.layout.shapes:
                if name.startswith(part):
                    grad[:, slice(*plan.policy.layout.span(name))] = 0.0
            return grad, readings

        return broken

    return breaks


actor_trunk_gets_no_gradient = no_gradient_for("actor.")
critic_trunk_gets_no_gradient = no_gradient_for("critic.")


# ── the gradient as it is written out ──


def slopes_beyond_the_clip(slopes: Any) -> Any:
    def broken(log_prob: Tensor, entropy: Tensor, value: Tensor, batch: Batch, hp: SimpleNamespace) -> Any:
        return slopes(log_prob, entropy, value, batch, SimpleNamespace(**{**vars(hp), "clip_range": hp.clip_range + 1e6}))

    return broken


def slopes_with_the_inverse_ratio(slopes: Any) -> Any:
    def broken(log_prob: Tensor, entropy: Tensor, value: Tensor, batch: Batch, hp: SimpleNamespace) -> Any:
        return slopes(batch.log_prob, entropy, value, batch._replace(log_prob=log_prob), hp)

    return broken


def slopes_without_value_clip(slopes: Any) -> Any:
    def broken(log_prob: Tensor, entropy: Tensor, value: Tensor, batch: Batch, hp: SimpleNamespace) -> Any:
        return slopes(log_prob, entropy, value, batch, SimpleNamespace(**{**vars(hp), "clip_range_vf": None}))

    return broken


def slopes_summed_over_rows(slopes: Any) -> Any:
    def broken(log_prob: Tensor, *rest: Any) -> Any:
        found, readings = slopes(log_prob, *rest)
        return found._replace(log_prob=found.log_prob * log_prob.shape[1]), readings

    return broken


def slope_of_the_chosen_logit_only(with_slope: Any) -> Any:
    def broken(self: Any, dist: Tensor, action: Tensor) -> Any:
        log_prob, entropy, back = with_slope(self, dist, action)

        def only_chosen(by_log_prob: Tensor, by_entropy: Tensor | None) -> Tensor:
            chosen = torch.nn.functional.one_hot(action, self.size)
            return back(torch.zeros_like(by_log_prob), by_entropy) + chosen * by_log_prob.unsqueeze(-1)

        return log_prob, entropy, only_chosen

    return broken


def slope_without_log_std(with_slope: Any) -> Any:
    def broken(self: Any, dist: Tensor, action: Tensor) -> Any:
        log_prob, entropy, back = with_slope(self, dist, action)

        def mean_only(by_log_prob: Tensor, by_entropy: Tensor | None) -> Tensor:
            mean, spread = back(by_log_prob, by_entropy).chunk(2, -1)
            return torch.cat([mean, torch.zeros_like(spread)], -1)

        return log_prob, entropy, mean_only

    return broken


def saturated_units_learn_like_others(_: Any) -> Any:
    def broken(_policy: Any, params: Any, trunk: str, layers: list[Tensor], grad: Tensor, grads: dict[str, Tensor]) -> None:
        for index in range(len(layers) - 2, -1, -1):
            grads[f"{trunk}.{index}.bias"] = grad.sum(1)
            grads[f"{trunk}.{index}.weight"] = torch.bmm(layers[index].transpose(1, 2), grad)
            grad = torch.bmm(grad, params[f"{trunk}.{index}.weight"].transpose(1, 2))

    return broken


# ── minibatches ──


def permutation_with_repeats(permutation: Any) -> Any:
    def broken(*arguments: Any) -> Tensor:
        order = permutation(*arguments)
        return order // 2 * 2

    return broken


def same_order_each_epoch(permutation: Any) -> Any:
    def broken(*arguments: Any) -> Tensor:
        order = permutation(*arguments)
        return order[:, :1].expand_as(order)

    return broken


def same_order_each_iteration(permutation: Any) -> Any:
    return lambda seed, stream, iteration, *rest: permutation(seed, stream, 0, *rest)


def every_other_minibatch(minibatches: Any) -> Any:
    def broken(*arguments: Any) -> Iterator[tuple[int, Batch]]:
        for number, pair in enumerate(minibatches(*arguments)):
            if number % 2 == 0:
                yield pair

    return broken


def advantages_stay_behind(minibatches: Any) -> Any:
    def broken(whole: Batch, batch_size: int, *rest: Any) -> Iterator[tuple[int, Batch]]:
        total = whole.advantage.shape[1]
        for number, (epoch, batch) in enumerate(minibatches(whole, batch_size, *rest)):
            start = number * batch_size % total
            yield epoch, batch._replace(advantage=whole.advantage[:, start : start + batch_size])

    return broken


# ── networks ──


def mask_is_ignored(finish: Any) -> Any:
    return lambda policy, head, log_std, action_mask: finish(policy, head, log_std, None)


def same_weights_for_every_seed(initialize: Any) -> Any:
    return lambda policy, seed: initialize(policy, 0)


def gain_is_ignored(orthogonal: Any) -> Any:
    return lambda shape, gain, generator: orthogonal(shape, 1.0, generator)


# ── numbers ──


def numbers_without_member_axis(hyperparameters: Any) -> Any:
    def broken(*arguments: Any) -> SimpleNamespace:
        hp = hyperparameters(*arguments)
        hp.vf_coef = hp.vf_coef.squeeze(1)
        return hp

    return broken


def first_members_numbers_for_all(hyperparameters: Any) -> Any:
    return lambda members, *rest: hyperparameters([members[0]] * len(members), *rest)


def no_parameter_is_the_critics(_: Any) -> Any:
    return lambda self: []


def budget_ten_times_too_long(value_at: Any) -> Any:
    return lambda number, env_steps, max_env_steps: value_at(number, env_steps, 10 * max_env_steps)
