"""Deep Q-learning (Mnih et al. 2015), with double, dueling, n-step and prioritized replay as switches of their own."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import Config, DQNConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, losses
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "discrete"
ACTOR = "q"
TARGETS = ("q",)
COLUMNS = ("loss/td", "hp/epsilon")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """One network: observations in, a value for every action out (and the state's own, if dueling)."""
    assert isinstance(config.algo, DQNConfig)
    count = env.action.sizes[0] + config.algo.dueling
    return {"q": q_nets.build(config.net, obs_size, config.net.hidden, count, picture=env.picture)}


def values(config: DQNConfig, params: Networks, obs: Tensor) -> Tensor:
    """Q(s, .) of all actions, [M, B, A]."""
    out = params("q", obs)
    return q_nets.dueling(out) if config.dueling else out


def exploration_noise(plan: "Plan", seed: Tensor, step: Tensor, env: Tensor) -> Tensor | None:
    """Noise [M, T, N, width] for `explore`; None: two uniform numbers, which are there anyway."""
    if plan.config.exploration == "epsilon":
        return None
    return exploration.uniform_noise(seed, step, env, plan.action.sizes[0])


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What to do in training, [M, N], and which choices are not the best one."""
    q = values(plan.config, params, obs)
    if plan.config.exploration == "boltzmann":
        action = exploration.boltzmann(q, hp.exploration_temperature, noise, action_mask)
    else:
        action = exploration.epsilon_greedy(q, hp.epsilon, noise, action_mask)
    return action, action != exploration.greedy(q, action_mask), None


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The best action [M, N]; with noise [M, N, 2], sometimes any other one, as at the end of training."""
    q = values(plan.config, params, obs)
    if noise is None:
        return exploration.greedy(q, action_mask)
    return exploration.epsilon_greedy(q, exploration.final_epsilon(plan.config.exploration_final_eps, noise), noise, action_mask)


@torch.no_grad()
def targets(
    config: DQNConfig,
    params: Networks,
    target_params: Networks,
    batch: Batch,
    hp: Hyperparameters | None = None,
    noise: Tensor | None = None,
) -> Tensor:
    """y = r + discount * max_a Q'(s', a), [M, B]; double: Q'(s', argmax_a Q(s', a)). Over the actions that are allowed in s'.

    r holds n_step rewards; discount is gamma^n, and 0 only behind a terminal state.
    """
    next_q = batch.following
    if next_q is None:
        next_q = exploration.forbid(values(config, target_params, batch.next_obs), batch.next_mask)
    if config.double:
        # The network chooses, the target evaluates: an overestimate must be shared by both to count (arXiv:1509.06461).
        best = exploration.forbid(values(config, params, batch.next_obs), batch.next_mask).argmax(-1, keepdim=True)
        next_q = next_q.gather(-1, best).squeeze(-1)
    elif next_q.dim() == 3:
        next_q = next_q.amax(-1)
    return torch.addcmul(batch.reward, batch.discount, next_q)


@torch.no_grad()
def q_values(config: DQNConfig, params: Networks, batch: Batch) -> Tensor:
    """Q(s, a) of the batch's actions, [M, B]."""
    return values(config, params, batch.obs).gather(-1, batch.action).squeeze(-1)


def q_loss(config: DQNConfig, params: Networks, target_params: Networks, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """E[w huber(Q(s, a) - y)], [M, 1]; w corrects for how often prioritized replay draws a row (arXiv:1511.05952), else it is 1."""
    target = targets(config, params, target_params, batch)
    q = values(config, params, batch.obs).gather(-1, batch.action).squeeze(-1)
    error = q - target
    rows = losses.huber(error) if batch.weight is None else losses.huber(error) * batch.weight
    readings = {"q": q, "error": error, "target": target}
    return rows.mean(-1, keepdim=True), readings if batch.weight is None else readings | {"weight": batch.weight}


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One gradient step."""
    target_params = off_policy.target_networks(plan, learner)
    norm, readings = off_policy.minimize(plan, learner, "q", lambda params: q_loss(plan.config, params, target_params, batch), hp, active)
    return readings | {"norm": norm}


def follow_targets(plan: "Plan", learner: "Learner", hp: Hyperparameters, active: Tensor | None, before: int, now: int) -> None:
    """The target follows every target_update_interval env steps."""
    share = target_share(plan, hp, before, now)
    if share is not None:
        off_policy.follow(learner, TARGETS, share, active)


def target_share(plan: "Plan", hp: Hyperparameters, before: int, now: int) -> Tensor | None:
    """The share of the network that the target takes over on the way from one env step to another; None: it stands still."""
    interval = max(plan.config.target_update_interval, plan.memory.n_envs)
    times = now // interval - before // interval
    # Several times at once leave (1 - tau)^k of the old one.
    return None if not times else hp.tau if times == 1 else 1 - (1 - hp.tau) ** times


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, B] -> [U, M]."""
    rows = losses.huber(readings["error"])
    return {"loss/td": (rows * readings["weight"] if "weight" in readings else rows).mean(-1)}
