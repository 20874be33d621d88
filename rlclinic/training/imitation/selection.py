"""Where the expert is asked: one rule per algorithm, each a function of what the policies say in a state.

A rule answers with `Chosen`: where to ask, and where the expert acts. What a rule needs to know beside the networks (`prepare`) is worked
out when a round begins, from the labels so far, so that nothing of it has to be saved.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.algos import dagger
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.loops import off_policy
from rlclinic.training.nets.q_nets import Networks

if TYPE_CHECKING:
    from rlclinic.training.imitation.labels import Labels
    from rlclinic.training.loops.off_policy import Learner, Plan

AUDIT: Final = {"safe": 0.2, "ensemble": 0.05, "thrifty": 0.05}
"""Share of the steps in which a rule that sees no need asks all the same, and lets the policy act: without them nobody would learn where
the rule is wrong, neither the classifier nor the person who reads the log. A classifier knows of no mistake that it was never told, where
policies side by side disagree in a state that is new to them: it needs more."""
SURE: Final = 0.3
"""The classifier's probability of a mistake from which on the expert is asked: to miss one costs more than to ask in vain."""
CALMEST: Final = 0.05
"""Nearer to the expert than this the policy need never be before it gets the reins back; actions reach from -1 to 1."""
FEWEST: Final = 25
"""Steps of the policy's own that quantiles are taken of; before that there is nothing to compare with."""


@dataclass(frozen=True)
class Thresholds:
    """What a rule compares with in a round, [M, 1] each."""

    doubt: Tensor | None = None
    """Disagreement above which the expert takes over."""
    value: Tensor | None = None
    """Expected earnings below which it takes over."""
    calm: Tensor | None = None
    """How near the policy must be to what the expert does for it to hand back."""


class Chosen(NamedTuple):
    """[M, N] bool each."""

    asks: Tensor
    expert_acts: Tensor
    audited: Tensor
    """Asked although the rule saw no need."""


def prepare(plan: "Plan", learner: "Learner", params: Networks, labels: "Labels") -> Thresholds:
    """The thresholds of the round that begins."""
    if plan.config.select != "thrifty":
        return Thresholds()
    obs = labels.shown(plan, learner)
    own_action = dagger.act(plan, params, obs, None, None)
    value = dagger.critic_value(plan, params, obs, own_action)
    error = dagger.distance(plan, own_action, off_policy.from_env(plan, labels.label[:, : labels.rows]))
    # Disagreement as it was before anything was learned from a state: afterwards all look certain. Of the newest steps that the policy
    # was alone with, where there are some; states of the expert's own rounds say nothing about it.
    later = torch.arange(labels.rows, device=obs.device) >= plan.config.expert_rounds * labels.round_size
    counted = later.expand(len(obs), -1)
    enough = counted.sum(1, keepdim=True) >= FEWEST
    counted = torch.where(enough, counted, torch.ones_like(counted))
    # Either reason is to account for half of what is asked.
    share = plan.config.ask_share / 2

    def quantile(values: Tensor, at: float) -> Tensor:
        return torch.nanquantile(values.masked_fill(~counted, float("nan")), at, dim=1, keepdim=True)

    answered = labels.answered[:, : labels.rows]
    calm = error.masked_fill(~answered, 0.0).sum(1, keepdim=True) / answered.sum(1, keepdim=True).clamp(min=1)
    return Thresholds(quantile(labels.doubt[:, : labels.rows], 1 - share), quantile(value, share), calm.clamp(min=CALMEST))


def choose(
    plan: "Plan",
    params: Networks,
    obs: Tensor,
    each: Tensor,
    policy_action: Tensor,
    hp: Hyperparameters,
    thresholds: Thresholds,
    in_charge: Tensor,
    noise: Tensor,
) -> Chosen:
    """Where to ask. each [M, C, N, K]: what the policies do; in_charge [M, N]: where the expert goes on; noise [M, N, 2] in (0, 1)."""
    if plan.config.select == "all":
        asks = torch.ones_like(in_charge)
        return Chosen(asks, noise[..., 0] < hp.beta, torch.zeros_like(asks))
    if plan.config.select == "safe":
        asks = torch.sigmoid(params("safety", obs).squeeze(-1)) > SURE
    elif plan.config.select == "ensemble":
        asks = dagger.disagree(plan, each) > hp.doubt
    else:
        doubt, value = dagger.disagree(plan, each), dagger.critic_value(plan, params, obs, policy_action)
        assert thresholds.doubt is not None
        assert thresholds.value is not None
        # The expert keeps what it has taken over until the policy would do the same: people do not like to be called every other step.
        asks = in_charge | (doubt > thresholds.doubt) | (value < thresholds.value)
    audited = ~asks & (noise[..., 1] < AUDIT[plan.config.select])
    return Chosen(asks | audited, asks, audited)
