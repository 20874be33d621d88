"""Broken versions of what learners with a replay do: memory, targets, exploration, temperature.

Each takes the function as it is and gives the broken one.
"""

from typing import Any

import torch

from rlclinic.training.algos import dqn
from rlclinic.training.loops import off_policy
from rlclinic.training.nets.q_nets import Networks

# ── memory ──


def mask_inverted(gather: Any) -> Any:
    def broken(memory: Any, index: Any, n_step: int, gamma: Any, *more: Any) -> Any:
        batch = gather(memory, index, n_step, gamma, *more)
        return batch._replace(discount=torch.where(batch.discount > 0, 0.0, gamma.expand_as(batch.discount)))

    return broken


def no_mask(gather: Any) -> Any:
    def broken(memory: Any, index: Any, n_step: int, gamma: Any, *more: Any) -> Any:
        batch = gather(memory, index, n_step, gamma, *more)
        return batch._replace(discount=torch.where(batch.discount > 0, batch.discount, gamma.expand_as(batch.discount)))

    return broken


def limit_is_the_end(gather: Any) -> Any:
    def broken(memory: Any, index: Any, n_step: int, gamma: Any, *more: Any) -> Any:
        batch = gather(memory, index, n_step, gamma, *more)
        cut = memory.table[..., memory.cells["truncated"].start].gather(1, index) > 0
        return batch._replace(discount=batch.discount * ~cut)

    return broken


def discount_missing(gather: Any) -> Any:
    def broken(memory: Any, index: Any, n_step: int, gamma: Any, *more: Any) -> Any:
        batch = gather(memory, index, n_step, gamma, *more)
        return batch._replace(discount=(batch.discount > 0).float())

    return broken


def reset_stored(add: Any) -> Any:
    def broken(memory: Any, steps: Any) -> None:
        add(memory, steps._replace(next_obs=steps.following))

    return broken


def ends_not_looked_at(n_step: Any) -> Any:
    def broken(reward: Any, terminated: Any, truncated: Any, gamma: Any, available: Any = None) -> Any:
        # Only the window's last row is asked whether it is terminal.
        only_last = terminated & (torch.arange(terminated.shape[-1]) == terminated.shape[-1] - 1)
        return n_step(reward, only_last, torch.zeros_like(truncated), gamma, available)

    return broken


def weights_missing(by_priority: Any) -> Any:
    def broken(*given: Any) -> Any:
        index, weight = by_priority(*given)
        return index, torch.ones_like(weight)

    return broken


# ── targets ──


def never_follows(follow: Any) -> Any:
    return lambda learner, names, tau, active: None


def follows_at_once(follow: Any) -> Any:
    return lambda learner, names, tau, active: follow(learner, names, torch.ones_like(tau), active)


def copied_at_every_step(follow_targets: Any) -> Any:
    def broken(plan: Any, learner: Any, hp: Any, active: Any, before: int, now: int) -> None:
        off_policy.follow(learner, dqn.TARGETS, torch.ones_like(hp.tau), active)

    return broken


def target_network_chooses(targets: Any) -> Any:
    """Both networks are asked, but the target is asked first."""

    def broken(config: Any, *given: Any) -> Any:
        return targets(config.model_copy(update={"double": False}), *given)

    return broken


def largest_critic(critics: Any) -> Any:
    """Critics in reversed order of caution: what is taken as the lowest is the highest."""

    def broken(params: Any, obs: Any, action: Any) -> Any:
        values = critics(params, obs, action)
        return values.amax(1, keepdim=True).expand_as(values)

    return broken


def entropy_left_out(targets: Any) -> Any:
    def broken(config: Any, params: Any, *given: Any) -> Any:
        cold = {**params, "log_alpha": torch.full_like(params["log_alpha"], -40.0)}
        return targets(config, Networks(params.nets, cold), *given)

    return broken


# ── actions, exploration, temperature ──


def not_scaled(to_env: Any) -> Any:
    return lambda plan, action: action


def explores_when_it_should_not(epsilon_greedy: Any) -> Any:
    return lambda q, epsilon, noise, action_mask=None: epsilon_greedy(q, 1.0 - epsilon, noise, action_mask)


def temperature_upside_down(update_temperature: Any) -> Any:
    def broken(plan: Any, learner: Any, log_prob: Any, hp: Any, active: Any) -> Any:
        return update_temperature(plan, learner, -log_prob - 2 * hp.target_entropy, hp, active)

    return broken


def slope_negated(huber_slope: Any) -> Any:
    return lambda error: -huber_slope(error)
