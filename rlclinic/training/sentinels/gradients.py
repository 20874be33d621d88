"""What a sentinel asks of gradients: which loss term pulls how hard on the hidden layers, and how much of the pull is noise."""

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch
from rlclinic.training.loops.on_policy import Learner, Plan
from rlclinic.training.maths import losses
from rlclinic.training.nets import mlp


def by_term(plan: Plan, learner: Learner, probe: Batch, hp: Hyperparameters) -> dict[str, Tensor]:
    """Do policy and value pull the trunk the same way, and who pulls harder?"""
    leaf = learner.flat.detach().requires_grad_()
    dist, value = mlp.actor_critic(plan.policy, plan.policy.layout.views(leaf), probe.obs, probe.action_mask)
    advantage = plan.standardize(probe.advantage, probe.weight)
    log_prob = plan.policy.distribution.log_prob(dist, probe.action)
    policy_loss = losses.policy_gradient(log_prob, advantage, probe.weight)
    value_loss = hp.vf_coef * losses.value_error(value, probe.returns, probe.weight)
    entropy_loss = -hp.ent_coef * losses.mean(plan.policy.distribution.entropy(dist), probe.weight)
    if plan.policy.net.shared:
        pulls = [_pull(plan, leaf, term) for term in (policy_loss, value_loss)]
    else:
        # Trunks of their own: one pass gives both, because neither loss reaches the other's.
        pulls = list(_pull(plan, leaf, policy_loss + value_loss).split(plan.policy.trunk_widths, 1))
    pulls.append(_pull(plan, leaf, entropy_loss) if hp.pays_entropy else torch.zeros_like(pulls[0]))
    norms = torch.stack([pull.norm(dim=1) for pull in pulls])  # [3, M]
    total = norms.sum(0).clamp(min=1e-20)
    found = {"grad_value_share": norms[1] / total, "grad_entropy_share": norms[2] / total}
    if plan.policy.net.shared:
        found["grad_cosine"] = (pulls[0] * pulls[1]).sum(1) / (norms[0] * norms[1]).clamp(min=1e-20)
    half = log_prob.shape[1] // 2
    if probe.weight is None and half:
        early = _pull(plan, leaf, losses.policy_gradient(log_prob[:, :half], advantage[:, :half]))[:, : pulls[0].shape[1]]
        found |= noise(early, pulls[0], half, log_prob.shape[1])
    return found


def noise(early: Tensor, whole: Tensor, half: int, count: int) -> dict[str, Tensor]:
    """Signal and noise of the policy's gradient, [M] each, from that of the first `half` of `count` rows and that of all of them.

    Two independent estimates g, h of G: their product is |G|² on average, and rows' gradients have the summed variance
    |g - h|² / (1 / half + 1 / rest). Their ratio is the gradient noise scale (arXiv:1812.06162, appendix A), but only of means
    over many readings: one product is mostly chance, and may be negative.
    """
    rest = count - half
    late = (count * whole - half * early) / max(rest, 1)
    return {"grad_signal": (early * late).sum(1), "grad_noise": (early - late).square().sum(1) / (1 / half + 1 / max(rest, 1))}


def _pull(plan: Plan, leaf: Tensor, term: Tensor) -> Tensor:
    """The gradient of a loss term on the hidden layers, [M, trunk parameters]."""
    (grad,) = torch.autograd.grad(term.sum(), leaf, retain_graph=True)
    return grad[:, : plan.policy.parts[0]]
