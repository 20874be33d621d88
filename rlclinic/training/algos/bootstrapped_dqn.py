"""Bootstrapped DQN (Osband et al. 2016, arXiv:1602.04621) with randomized priors (Osband et al. 2018, arXiv:1806.03335).

K heads estimate Q, each from its own share of the data and on top of a random function that never learns: where there is no data they
disagree. One head acts for a whole episode, so that what it hopes for far ahead is followed to the end.

The prior lies beside what learns, as the second half of the network's copies, and its scale is multiplied into its last layer once.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import BootstrappedDQNConfig, Config
from rlclinic.training import rng
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, losses
from rlclinic.training.nets import layout, q_nets
from rlclinic.training.nets.q_nets import HEAD, Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "discrete"
ACTOR = "q"
TARGETS = ("q",)
COLUMNS = ("loss/td", "sentinel/head_disagreement", "sentinel/head_split")
DRIFTS = True
"""An episode keeps something from its first step on: which head acts, one more than its number; 0: not drawn yet."""


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """One network in copies: K that learn and K priors; with a shared trunk one of each, with the values of all heads side by side."""
    assert isinstance(config.algo, BootstrappedDQNConfig)
    actions, heads, shared = env.action.sizes[0], config.algo.n_heads, config.algo.shared_trunk
    outputs, copies = (heads * actions, 2) if shared else (actions, 2 * heads)
    return {"q": q_nets.build(config.net, obs_size, config.net.hidden, outputs, copies=copies, picture=env.picture)}


def learning_copies(net: Net) -> int:
    """How many of the network's copies learn: the first ones; the others are priors."""
    return net.copies // 2


def initialize(plan: "Plan", learner: "Learner") -> None:
    """Scale what the priors say; in place."""
    named = plan.nets["q"].params(learner.nets["q"])
    for part in ("weight", "bias"):
        _halves(plan.nets["q"], named[f"{HEAD}.{part}"])[:, 1].mul_(plan.config.prior_scale)
    learner.targets["q"].copy_(learner.nets["q"])


def _halves(net: Net, tensor: Tensor) -> Tensor:
    """[M * copies, ...] as [M, 2, copies / 2, ...]: what learns, and the priors."""
    return tensor.unflatten(0, (-1, 2, learning_copies(net)))


def values(config: BootstrappedDQNConfig, params: Networks, obs: Tensor) -> Tensor:
    """Q_k(s, a) = f_k(s, a) + prior_scale * p_k(s, a) of all heads and actions, [M, K, B, A]. The priors p_k have no gradient."""
    net, named = params.nets["q"], params.of("q")
    if torch.is_grad_enabled():
        half = {name: _halves(net, tensor)[:, 0].flatten(0, 1) for name, tensor in named.items()}
        learned = layout.narrow(half, HEAD, q_nets.layers(net, half, obs.repeat_interleave(learning_copies(net), 0))[-1])
        with torch.no_grad():
            rest = {name: _halves(net, tensor)[:, 1].flatten(0, 1) for name, tensor in named.items()}
            prior = layout.narrow(rest, HEAD, q_nets.layers(net, rest, obs.repeat_interleave(learning_copies(net), 0))[-1])
        out = (learned + prior).unflatten(0, (-1, learning_copies(net)))
    else:
        out = _halves(net, params("q", obs)).sum(1)
    return out.squeeze(1).unflatten(-1, (config.n_heads, -1)).transpose(1, 2) if config.shared_trunk else out


def vote(q: Tensor, action_mask: Tensor | None) -> Tensor:
    """The action [M, B] that most heads prefer; of equals the one that they value most on average. q is [M, K, B, A]."""
    preferred = exploration.greedy(q, None if action_mask is None else action_mask.unsqueeze(1))
    votes = torch.nn.functional.one_hot(preferred, q.shape[-1]).sum(1)  # [M, B, A]
    most = votes == votes.amax(-1, keepdim=True)
    return exploration.greedy(q.mean(1), most if action_mask is None else most & action_mask)


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What the episode's head would do, [M, N], and where that is not what most would; the head is drawn at an episode's first step."""
    assert drift is not None
    q, heads = values(plan.config, params, obs), plan.config.n_heads
    drawn = (noise[..., :1] * heads).floor().clamp(max=heads - 1) + 1.0
    drift = torch.where(drift > 0, drift, drawn)  # [M, N, 1]
    head = (drift.long() - 1).transpose(1, 2).unsqueeze(-1).expand(-1, -1, -1, q.shape[-1])
    action = exploration.greedy(q.gather(1, head).squeeze(1), action_mask)
    return action, action != vote(q, action_mask), drift


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """What most heads would do, [M, N]; with noise [M, N, 2], what any one of them would."""
    q = values(plan.config, params, obs)
    if noise is None:
        return vote(q, action_mask)
    head = (noise[..., 0] * plan.config.n_heads).long().clamp(max=plan.config.n_heads - 1)
    return exploration.greedy(q.gather(1, head[:, None, :, None].expand(-1, 1, -1, q.shape[-1])).squeeze(1), action_mask)


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor:
    """The members' seeds, [M, U, 1, 1]: which rows a head learns from is no new draw at each gradient step, but a property of the row."""
    return seed.view(-1, 1, 1, 1).expand(-1, updates, 1, 1)


def bootstrap_mask(config: BootstrappedDQNConfig, seed: Tensor, places: Tensor) -> Tensor:
    """Which heads learn from which rows, [M, K, B], each with mask_probability: drawn once for a place in the replay. seed is [M, 1, 1]."""
    head = torch.arange(config.n_heads, device=places.device).view(1, -1, 1)
    return (rng.uniform(seed, rng.BOOTSTRAP, places.unsqueeze(1), head) < config.mask_probability).float()


@torch.no_grad()
def head_targets(config: BootstrappedDQNConfig, params: Networks, target_params: Networks, batch: Batch) -> Tensor:
    """y_k = r + discount * max_a Q'_k(s', a), [M, K, B]: every head by its own target; double: Q'_k(s', argmax_a Q_k(s', a))."""
    mask = None if batch.next_mask is None else batch.next_mask.unsqueeze(1)
    next_q = exploration.forbid(values(config, target_params, batch.next_obs), mask)
    if config.double:
        best = exploration.forbid(values(config, params, batch.next_obs), mask).argmax(-1, keepdim=True)
        next_q = next_q.gather(-1, best).squeeze(-1)
    else:
        next_q = next_q.amax(-1)
    return torch.addcmul(batch.reward.unsqueeze(1), batch.discount.unsqueeze(1), next_q)


def of_actions(q: Tensor, action: Tensor) -> Tensor:
    """Q_k(s, a) [M, K, B] of the actions [M, B, 1] that were taken."""
    return q.gather(-1, action.unsqueeze(1).expand(-1, q.shape[1], -1, -1)).squeeze(-1)


def q_loss(
    config: BootstrappedDQNConfig, params: Networks, target_params: Networks, batch: Batch, mask: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum over heads of E[m_k huber(Q_k(s, a) - y_k)], [M, 1]; a shared trunk takes their mean, or it would learn K times as fast."""
    target = head_targets(config, params, target_params, batch)
    every = values(config, params, batch.obs)
    q = of_actions(every, batch.action)
    error = q - target
    rows = losses.huber(error) * mask
    if batch.weight is not None:
        rows = rows * batch.weight.unsqueeze(1)
    by_head = rows.mean(-1)  # [M, K]
    loss = by_head.mean(1, keepdim=True) if config.shared_trunk else by_head.sum(1, keepdim=True)
    votes = torch.nn.functional.one_hot(every.detach().argmax(-1), every.shape[-1]).sum(1)  # [M, B, A]
    readings = {
        "q": q.mean(1),
        "error": error.mean(1),
        "target": target.mean(1),
        "loss": by_head.mean(1, keepdim=True),
        "disagreement": q.std(1),
        "split": 1.0 - votes.amax(-1) / config.n_heads,
    }
    return loss, readings


@torch.no_grad()
def targets(
    config: BootstrappedDQNConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor | None
) -> Tensor:
    """What Q-values should be on average over the heads, [M, B]."""
    return head_targets(config, params, target_params, batch).mean(1)


@torch.no_grad()
def q_values(config: BootstrappedDQNConfig, params: Networks, batch: Batch) -> Tensor:
    """Q(s, a) of the batch's actions, on average over the heads, [M, B]."""
    return of_actions(values(config, params, batch.obs), batch.action).mean(1)


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One gradient step of all heads."""
    assert noise is not None
    assert batch.places is not None
    mask = bootstrap_mask(plan.config, noise, batch.places)
    target_params = off_policy.target_networks(plan, learner)
    norm, readings = off_policy.minimize(
        plan, learner, "q", lambda params: q_loss(plan.config, params, target_params, batch, mask), hp, active
    )
    return readings | {"norm": norm}


def follow_targets(plan: "Plan", learner: "Learner", hp: Hyperparameters, active: Tensor | None, before: int, now: int) -> None:
    """The target follows every target_update_interval env steps."""
    interval = max(plan.config.target_update_interval, plan.memory.n_envs)
    times = now // interval - before // interval
    if times:
        # Several times at once leave (1 - tau)^k of the old one.
        off_policy.follow(learner, TARGETS, hp.tau if times == 1 else 1 - (1 - hp.tau) ** times, active)


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, B] -> [U, M]."""
    return {
        "loss/td": readings["loss"].squeeze(-1),
        "sentinel/head_disagreement": readings["disagreement"].mean(-1),
        "sentinel/head_split": readings["split"].mean(-1),
    }
