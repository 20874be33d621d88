"""Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779), CQL(H): on SAC for vectors, on double DQN for choices.

The critics pay for valuing actions that nobody tried: log of the integral of exp Q(s, .) minus Q(s, a) of the recorded action.

Cal-QL (Nakamoto et al. 2023, arXiv:2303.05479) is the same with a floor: values of the policy's actions pay only for what lies above the
value of the data's own policy. The paper takes that from the returns that followed. Here a network learns it from single steps: most
recorded episodes are cut by a time limit, and their returns with them.
"""

import math
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from rlclinic.config import CalQLConfig, Config, CQLConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, squashed
from rlclinic.training.nets import q_nets, recorded_critics
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

Settings = CQLConfig | CalQLConfig
ACTIONS = "any"
ACTOR = "actor"
"""Choices have none: the largest value decides."""
TARGETS = ("critic", "value")
COLUMNS = (
    "loss/actor",
    "loss/critic",
    "loss/alpha",
    "loss/value",
    "metrics/entropy",
    "metrics/cql_gap",
    "metrics/at_floor",
    "grad_norm/actor",
    "hp/alpha",
    "hp/cql_multiplier",
)
EPSILON: Final = 0.05
"""The share of random choices in the environment."""
LARGEST: Final = 1e6
"""Of the multiplier that cql_lagrange learns."""


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """Critics side by side; for vectors an actor that gives means and log standard deviations, too; for Cal-QL the data's own value."""
    made = {"critic": recorded_critics.build(config, obs_size, env)}
    if env.action.kind == "box":
        made = {"actor": q_nets.build_actor(config, obs_size, 2 * env.action.sizes[0]), **made}
    return made | ({"value": recorded_critics.build_value(config, obs_size)} if config.algo.calibrated else {})  # type: ignore[union-attr]


def vectors(config: Config, action: ActionSpec, members: int, device: torch.device) -> dict[str, Tensor]:
    """Learned as their logarithms, [M, 1]: the temperature of the policy of vectors, and the penalty's multiplier."""
    algo = config.algo
    assert isinstance(algo, CQLConfig | CalQLConfig)

    def start(value: float) -> Tensor:
        return torch.full((members, 1), math.log(value), device=device)

    found = {"log_alpha": start(algo.ent_coef_init)} if action.kind == "box" else {}
    return found | ({"log_multiplier": start(1.0)} if algo.cql_lagrange else {})


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The action of the mean, or the choice of the largest value; with noise, a sample of the policy of vectors."""
    if plan.action.kind == "discrete":
        return exploration.greedy(recorded_critics.every_value(params, obs).mean(1), action_mask)
    dist, limits = params("actor", obs), params.nets["actor"].net
    return squashed.mode(dist) if noise is None else squashed.draw(dist, noise, limits.log_std_min, limits.log_std_max)


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """A sample of the policy of vectors; of choices the best one, and now and then any."""
    if plan.action.kind == "box":
        return act(plan, params, obs, action_mask, noise), None, drift
    q = recorded_critics.every_value(params, obs).mean(1)
    chosen = exploration.epsilon_greedy(q, torch.full_like(hp.gamma, EPSILON), noise, action_mask)
    return chosen, chosen != exploration.greedy(q, action_mask), drift


def exploration_noise(plan: "Plan", seed: Tensor, step: Tensor, env: Tensor) -> Tensor:
    """Noise for `explore`: normal for vectors, two uniform numbers for choices."""
    if plan.action.kind == "box":
        return exploration.normal_noise(seed, step, env, plan.memory.action_size)
    return exploration.uniform_noise(seed, step, env, 2)


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor | None:
    """[M, U, 1 + 3N, B, K]: normal for the actor and for N actions of the policy here and there; the last N are made uniform."""
    if plan.action.kind == "discrete":
        return None
    kinds = 1 + 3 * plan.config.cql_actions
    return exploration.update_noise(seed, first, updates, kinds, plan.config.batch_size, plan.memory.action_size)


def sample(params: Networks, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions a = tanh(mean + std * noise) [M, B, K] and their log-probabilities [M, B]."""
    limits = params.nets["actor"].net
    return squashed.sample(params("actor", obs), noise, limits.log_std_min, limits.log_std_max)


@torch.no_grad()
def targets(config: Settings, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor | None) -> Tensor:
    """r + discount * min_i Q'_i(s', a'), [M, B]; a' is the policy's mean action, or the choice that the critics prefer.

    Without SAC's bonus for entropy: it would be paid for actions that the penalty speaks against.
    """
    if noise is None:
        best = recorded_critics.every_value(params, batch.next_obs).mean(1).argmax(-1, keepdim=True)
        following = recorded_critics.values(target_params, batch.next_obs, best).amin(1)
    else:
        following = q_nets.critics(target_params, batch.next_obs, squashed.mode(params("actor", batch.next_obs))).amin(1)
    return torch.addcmul(batch.reward, batch.discount, following)


@torch.no_grad()
def q_values(config: Settings, params: Networks, batch: Batch) -> Tensor:
    """min_i Q_i(s, a) of the batch's actions, [M, B]."""
    return recorded_critics.values(params, batch.obs, batch.action).amin(1)


def soft_maximum(params: Networks, batch: Batch, count: int, noise: Tensor, floor: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """log of the integral over actions of exp Q_i(s, a), [M, C, B], by importance sampling (appendix F).

    N actions drawn evenly, N of the policy at s and N of the policy at s', all of them valued at s: the mean of exp(Q - log density).
    floor [M, B]: the policy's actions are worth at least that (Cal-QL); then also the share of them at it, [M, 1].
    """
    members, rows, size = batch.action.shape
    normal, even = noise[:, 1 : 1 + 2 * count], noise[:, 1 + 2 * count :]

    def own(obs: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """[M, N, B, K] and [M, N, B]"""
        flat = draws.flatten(1, 2)
        action, log_prob = sample(params, obs.repeat(1, count, 1), flat)
        return action.view(members, count, rows, size), log_prob.view(members, count, rows)

    with torch.no_grad():
        here, log_here = own(batch.obs, normal[:, :count])
        there, log_there = own(batch.next_obs, normal[:, count:])
        # The normal's distribution function makes uniform numbers of normal ones; on [-1, 1] their density is 1/2 a component.
        random = torch.erf(even * math.sqrt(0.5))
        log_random = torch.full_like(log_here, -size * math.log(2.0))
        actions = torch.cat([random, here, there], 1).flatten(1, 2)  # [M, 3N * B, K]
        log_density = torch.cat([log_random, log_here, log_there], 1)  # [M, 3N, B]
    q = q_nets.critics(params, batch.obs.repeat(1, 3 * count, 1), actions).unflatten(-1, (3 * count, rows))  # [M, C, 3N, B]
    at_floor = None
    if floor is not None:
        own_q, least = q[:, :, count:], floor[:, None, None]
        at_floor = (own_q < least).float().flatten(1).mean(1, keepdim=True)
        q = torch.cat([q[:, :, :count], torch.maximum(own_q, least)], 2)
    return (q - log_density.unsqueeze(1)).logsumexp(2) - math.log(3 * count), at_floor


def penalty(
    config: Settings, params: Networks, batch: Batch, q: Tensor, noise: Tensor | None, floor: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """E[log sum_a exp Q_i(s, a) - Q_i(s, a_data)] of each critic (eq. 4), [M, C]; a constant added to all values changes nothing.

    floor [M, B]: what the policy's actions, or choices, are worth at least (Cal-QL, eq. 5); then also the share of them at it, [M, 1].
    """
    if noise is not None:
        soft, at_floor = soft_maximum(params, batch, config.cql_actions, noise, floor)
    else:
        every, at_floor = recorded_critics.every_value(params, batch.obs), None
        if floor is not None:
            least = floor[:, None, :, None]
            at_floor, every = (every < least).float().flatten(1).mean(1, keepdim=True), torch.maximum(every, least)
        soft = every.logsumexp(-1)
    return (soft - q).mean(-1), at_floor


def multiplier(config: Settings, params: Networks, hp: Hyperparameters) -> Tensor:
    """What a unit of the gap costs, [M, 1]: cql_alpha, times what is learned where the gap is held at a threshold."""
    return hp.cql_alpha * params["log_multiplier"].exp().clamp(max=LARGEST) if config.cql_lagrange else hp.cql_alpha


def critic_loss(
    config: Settings,
    params: Networks,
    target: Tensor,
    batch: Batch,
    hp: Hyperparameters,
    noise: Tensor | None,
    floor: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """sum_i 1/2 E[(Q_i(s, a) - y)^2] + multiplier * (gap_i - threshold), [M, 1]; without cql_lagrange the threshold is 0."""
    q = recorded_critics.values(params, batch.obs, batch.action)  # [M, C, B]
    error = q - target.unsqueeze(1)
    gap, at_floor = penalty(config, params, batch, q, noise, floor)
    charged = gap - hp.cql_threshold if config.cql_lagrange else gap
    loss = 0.5 * error.square().mean(-1) + multiplier(config, params, hp).detach() * charged
    readings = {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target, "gap": gap}
    return loss.sum(1, keepdim=True), readings | ({} if at_floor is None else {"at_floor": at_floor})


def value_loss(params: Networks, target_params: Networks, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """E[(V(s) - r - discount V'(s'))^2], [M, 1]: what whoever collected the batch earns from here on, whatever he does."""
    with torch.no_grad():
        target = torch.addcmul(batch.reward, batch.discount, target_params("value", batch.next_obs).squeeze(-1))
    loss = (params("value", batch.obs).squeeze(-1) - target).square().mean(-1, keepdim=True)
    return loss, {"value_loss": loss}


def multiplier_loss(params: Networks, gap: Tensor, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """-multiplier * (gap - threshold), [M, 1]: up while the gap is above its threshold, down below it (eq. 30)."""
    return -(params["log_multiplier"].exp().clamp(max=LARGEST) * (gap - hp.cql_threshold)).sum(1, keepdim=True), {}


def actor_loss(params: Networks, batch: Batch, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """E[alpha log pi(a|s) - min_i Q_i(s, a)], a ~ pi(.|s): SAC's (arXiv:1812.05905, eq. 7), [M, 1]."""
    action, log_prob = sample(params, batch.obs, noise[:, 0])
    rows = params["log_alpha"].exp() * log_prob - q_nets.critics(params, batch.obs, action).amin(1)
    return rows.mean(-1, keepdim=True), {"actor": rows, "log_prob": log_prob}


def temperature_loss(params: Networks, log_prob: Tensor, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """-log alpha E[log pi(a|s) + target entropy] (arXiv:1812.05905, eq. 18), [M, 1]."""
    loss = -params["log_alpha"] * (log_prob + hp.target_entropy).mean(-1, keepdim=True)
    return loss, {"alpha_loss": loss}


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One step of the critics and of the penalty's multiplier, then of the actor and its temperature; targets follow.

    Cal-QL first takes one of the data's own value, which is the floor.
    """
    config, before, target_params = plan.config, off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    target, floor = targets(config, before, target_params, batch, hp, noise), None
    of_value: dict[str, Tensor] = {}
    if config.calibrated:
        floor = before("value", batch.obs).squeeze(-1)
        _, of_value = off_policy.minimize(plan, learner, "value", lambda params: value_loss(params, target_params, batch), hp, active)
    cost = multiplier(config, before, hp)
    norm, readings = off_policy.minimize(
        plan, learner, "critic", lambda params: critic_loss(config, params, target, batch, hp, noise, floor), hp, active
    )
    readings |= of_value | {"norm": norm, "multiplier": cost}
    if config.cql_lagrange:
        off_policy.minimize(plan, learner, "log_multiplier", lambda params: multiplier_loss(params, readings["gap"], hp), hp, active)
    if noise is not None:
        actor_norm, of_actor = off_policy.minimize(plan, learner, "actor", lambda params: actor_loss(params, batch, noise), hp, active)
        log_prob = of_actor["log_prob"]
        _, of_alpha = off_policy.minimize(plan, learner, "log_alpha", lambda params: temperature_loss(params, log_prob, hp), hp, active)
        readings |= of_actor | of_alpha | {"actor_norm": actor_norm, "alpha": learner.nets["log_alpha"].exp()}
    off_policy.follow(learner, TARGETS, hp.tau, active)
    return readings


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    columns = {
        "loss/critic": 0.5 * readings["errors"].square().mean(-1).sum(-1),
        "metrics/cql_gap": readings["gap"].mean(-1),
        "hp/cql_multiplier": readings["multiplier"].squeeze(-1),
    }
    if "value_loss" in readings:
        columns |= {"loss/value": readings["value_loss"].squeeze(-1), "metrics/at_floor": readings["at_floor"].squeeze(-1)}
    if "actor" in readings:
        columns |= {
            "loss/actor": readings["actor"].mean(-1),
            "loss/alpha": readings["alpha_loss"].squeeze(-1),
            "metrics/entropy": -readings["log_prob"].mean(-1),
            "grad_norm/actor": readings["actor_norm"].squeeze(-1),
            "hp/alpha": readings["alpha"].squeeze(-1),
        }
    return columns
