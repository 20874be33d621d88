"""The engine of runs with actors: learns from the next rollout that has arrived, whose weights may be older than its own."""

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TypeVar

import torch
from torch import Tensor

from rlclinic.training.actors.pool import Actors, Arrived
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.bonuses import pay
from rlclinic.training.constraints import lagrangian
from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Iteration, IterationInputs, Learner, Plan
from rlclinic.training.maths import losses
from rlclinic.training.sentinels import on_policy_sentinels

Advantage = TypeVar("Advantage", Tensor, Tensor | None)


class Asynchronous:
    """Eager arithmetic on rollouts of actors."""

    def iterate(self, inputs: IterationInputs) -> Iteration:
        """One rollout, and what is learned from it."""
        plan, learner, env, position, hp, active, seed, iteration, clock = inputs
        assert isinstance(env, Actors)
        assert isinstance(iteration, int)
        started = perf_counter()
        arrived = env.collect(plan, learner, iteration)
        position.obs, position.action_mask = env.obs(), env.action_mask
        collected = perf_counter()
        clock["env"] += collected - started  # waiting for it; actors play while this process learns
        before, rollout, bonus = learner, arrived.rollout, None
        if plan.bonus is not None and learner.bonus is not None:
            paid, state, bonus = pay.pay_some(plan.bonus, learner.bonus, rollout, arrived.first_env, seed, iteration, active)
            learner, rollout = (
                replace(learner, bonus=state),
                replace(rollout, paid=paid._replace(advantage=_correct(plan, learner, rollout, paid.advantage, hp))),
            )
        if plan.constraint is not None and learner.constraint is not None and rollout.said is not None:
            weighed, state, spent = lagrangian.weigh_some(
                plan.constraint, learner.constraint, rollout, rollout.said[..., 0], arrived.first_env, hp, seed, iteration, active
            )
            learner, bonus = replace(learner, constraint=state), (bonus or {}) | spent
            advantage = _correct(plan, learner, rollout, weighed.advantage, hp)
            rollout = replace(rollout, weighed=weighed._replace(advantage=advantage))
        at, step = learner, None
        if getattr(plan.algo, "AT_ACTORS_WEIGHTS", False):
            at = Learner(arrived.actor.flat, learner.optimizer, learner.obs_stats, learner.reward_stats, learner.reward_carry)
            step = partial(on_policy.update_step, at=arrived.actor.flat)
        whole, raw = on_policy.estimate_advantages(plan, at, rollout, hp)
        after, readings, last_minibatch = on_policy.learn(plan, learner, whole, hp, active, seed, iteration, rollout, step)
        clock["learn"] += perf_counter() - collected
        return Iteration(before, rollout, whole, raw, after, readings, last_minibatch, bonus=bonus, arrived=arrived)


@torch.no_grad()
def _correct(plan: Plan, learner: Learner, rollout: Rollout, advantage: Advantage, hp: Hyperparameters) -> Advantage:
    """Advantages of another critic (of a bonus, of costs), as V-trace weighs those of the task: by how likely each step is now."""
    if advantage is None or not plan.corrects_for_age or not getattr(plan.algo, "WEIGHS_ADVANTAGES", False):
        return advantage
    ratio = on_policy.log_ratio(plan, plan.policy.layout.views(learner.flat), rollout).exp()
    return advantage * ratio.minimum(hp.rho_clip.unsqueeze(-1))


@torch.no_grad()
def sentinels(plan: Plan, env: Actors, before: Learner, arrived: Arrived) -> dict[str, Tensor]:
    """How far actors are behind, in updates and in what the policy does, [M] each. Also whether their log-probabilities are right."""
    views, rollout = plan.policy.layout.views, arrived.rollout
    members = len(before.flat)
    now = on_policy.log_ratio(plan, views(before.flat), rollout).flatten(1)  # [M, T*N]
    then = on_policy.log_ratio(plan, views(arrived.actor.flat), rollout).flatten(1)
    mean, most = env.lags.take()
    return {
        "policy_lag": torch.full((members,), mean, device=now.device),
        "policy_lag_max": torch.full((members,), most, device=now.device),
        "time/actors_replaced": torch.full((members,), float(env.replaced), device=now.device),
        "actor_kl": losses.kl_k3(now, None).flatten(),
        "actor_ess": on_policy_sentinels.effective_sample_size(now, None),
        # Under the weights that acted the ratio is 1; that it is not under newer ones is what V-trace is for.
        "ratio_first_dev": torch.expm1(then).abs().amax(1),
    }
