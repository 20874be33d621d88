"""DAgger and its relatives: a policy, or several side by side, that do what an expert said (arXiv:1011.0686).

The loop and the rules that say when to ask are `training.imitation`; here are the networks and what each is trained to do.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import Config
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.nets import mlp, q_nets
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTOR = "actor"
TARGETS = ("critic",)
COLUMNS = (
    *("imitation/round", "imitation/queries", "imitation/labels", "imitation/unanswered", "imitation/expert_share"),
    *("imitation/asked_share", "imitation/disagreement", "imitation/disagreement_p95", "imitation/policy_state_error"),
    *("imitation/first_round_error", "imitation/label_is_executed", "imitation/passes", "imitation/label_noise", "imitation/doubt"),
    *("imitation/unsafe_share", "imitation/missed_share", "imitation/label_altered", "imitation/learned_share"),
)
RISK_TAU = 0.01
"""Share of the critic that its target takes over at every gradient step."""


class Labelled(NamedTuple):
    """Rows to imitate."""

    obs: Tensor
    """[M, B, ...]"""
    label: Tensor
    """[M, B] choices, or [M, B, K] actions between -1 and 1."""
    weight: Tensor
    """[M, C, B]: which of the policies learns from a row."""


class Transition(NamedTuple):
    """Rows to estimate by what the policy earns."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    """[M, B], scaled."""
    next_obs: Tensor
    terminated: Tensor


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """The policies; a classifier of what they get wrong (`safe`); a critic of what they earn (`thrifty`)."""
    algo, net, size = config.algo, config.net, env.action.sizes[0]
    found = {"actor": q_nets.build(net, obs_size, net.hidden, size, copies=algo.ensemble)}  # type: ignore[union-attr]
    if algo.select == "safe":  # type: ignore[union-attr]
        found["safety"] = q_nets.build(net, obs_size, net.hidden, 1)
    if algo.select == "thrifty":  # type: ignore[union-attr]
        found["critic"] = q_nets.build(net, obs_size + size, net.hidden, 1, beside=size)
    return found


def policies(plan: "Plan", params: Networks, obs: Tensor) -> Tensor:
    """What each policy does, [M, C, B, K]: actions between -1 and 1, or log-probabilities of the choices."""
    out = params("actor", obs).unflatten(0, (-1, plan.nets["actor"].copies))
    return out.log_softmax(-1) if plan.action.kind == "discrete" else mlp.tanh(out)


def combine(plan: "Plan", each: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """What they do together: the mean action [M, B, K], or the choice [M, B] that is likeliest on the average."""
    if plan.action.kind == "discrete":
        return exploration.greedy(each.logsumexp(1), action_mask)
    return each.mean(1)


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """What the policies do together; nothing is drawn."""
    return combine(plan, policies(plan, params, obs), action_mask)


def acting_noise(plan: "Plan", seed: Tensor, step: int, env: Tensor) -> None:
    """None is needed."""


def disagree(plan: "Plan", each: Tensor) -> Tensor:
    """How far the policies are from each other, [M, B].

    Actions: the root of their mean variance over components. Choices: the mutual information of choice and policy (Houlsby et al. 2011),
    as a share of the most possible: entropy of the mean minus mean entropy. The spread of the choices' numbers would mean nothing.
    """
    if plan.action.kind != "discrete":
        return each.var(1, unbiased=False).mean(-1).sqrt()
    mean = each.logsumexp(1) - torch.log(torch.tensor(float(each.shape[1])))
    entropy = -(mean.exp() * mean).sum(-1)
    own = -(each.exp() * each).sum(-1).mean(1)
    return (entropy - own).clamp(min=0.0) / torch.log(torch.tensor(float(min(each.shape[1], each.shape[-1]))))


def distance(plan: "Plan", action: Tensor, label: Tensor) -> Tensor:
    """How far actions are from labels, [M, B]: the root mean square over components, or whether it is another choice."""
    if plan.action.kind == "discrete":
        return (action != label).float()
    return (action - label).square().mean(-1).sqrt()


def imitation_loss(plan: "Plan", params: Networks, batch: Labelled) -> tuple[Tensor, dict[str, Tensor]]:
    """E[(pi(s) - a*)^2], or -E[log pi(a*|s)] of choices, summed over the policies, [M, 1]."""
    each = policies(plan, params, batch.obs)
    if plan.action.kind == "discrete":
        rows = -each.gather(-1, batch.label[:, None, :, None].expand(-1, each.shape[1], -1, 1)).squeeze(-1)
    else:
        rows = (each - batch.label.unsqueeze(1)).square().mean(-1)  # [M, C, B]
    means = (rows * batch.weight).sum(-1) / batch.weight.sum(-1).clamp(min=1.0)
    return means.sum(1, keepdim=True), {"imitation": means.mean(1, keepdim=True)}


def safety_loss(params: Networks, obs: Tensor, unsafe: Tensor, weight: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The cross-entropy of whether the policy is unsafe [M, B], rows weighted [M, B], [M, 1]."""
    rows = functional.binary_cross_entropy_with_logits(params("safety", obs).squeeze(-1), unsafe, reduction="none")
    loss = (rows * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True).clamp(min=1e-6)
    return loss, {"safety": loss}


def critic_value(plan: "Plan", params: Networks, obs: Tensor, action: Tensor) -> Tensor:
    """Q(s, a) [M, B] of choices [M, B] or actions [M, B, K]."""
    if plan.action.kind == "discrete":
        action = functional.one_hot(action, plan.action.sizes[0]).float()
    return params("critic", torch.cat([obs, action], -1)).squeeze(-1)


def critic_loss(
    plan: "Plan", params: Networks, target_params: Networks, next_action: Tensor, batch: Transition, gamma: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """E[(Q(s, a) - r - gamma Q'(s', pi(s')))^2], [M, 1]: what the policy as it is will earn; nothing follows a terminal state."""
    with torch.no_grad():
        future = critic_value(plan, target_params, batch.next_obs, next_action).masked_fill(batch.terminated, 0.0)
        target = batch.reward + gamma * future
    loss = (critic_value(plan, params, batch.obs, batch.action) - target).square().mean(-1, keepdim=True)
    return loss, {"critic": loss}


def imitate(plan: "Plan", learner: "Learner", batch: Labelled, hp: Hyperparameters, active: Tensor | None) -> dict[str, Tensor]:
    """One gradient step of the policies, in place."""
    norm, readings = off_policy.minimize(plan, learner, "actor", lambda params: imitation_loss(plan, params, batch), hp, active)
    return readings | {"norm": norm}


def classify(
    plan: "Plan", learner: "Learner", obs: Tensor, unsafe: Tensor, weight: Tensor, hp: Hyperparameters, active: Tensor | None
) -> dict[str, Tensor]:
    """One gradient step of the classifier, in place."""
    return off_policy.minimize(plan, learner, "safety", lambda params: safety_loss(params, obs, unsafe, weight), hp, active)[1]


def evaluate(plan: "Plan", learner: "Learner", batch: Transition, hp: Hyperparameters, active: Tensor | None) -> dict[str, Tensor]:
    """One gradient step of the critic and of its target, in place."""
    params, target_params = off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    with torch.no_grad():
        next_action = act(plan, params, batch.next_obs, None, None)

    def loss(moving: Networks) -> tuple[Tensor, dict[str, Tensor]]:
        return critic_loss(plan, moving, target_params, next_action, batch, plan.config.gamma)

    readings = off_policy.minimize(plan, learner, "critic", loss, hp, active)[1]
    off_policy.follow(learner, ("critic",), hp.learning_rate.new_full(hp.learning_rate.shape, RISK_TAU), active)
    return readings
