"""Doses of the terms that a policy and a critic learn from: clip range, entropy bonus, value loss, discount."""

import math
from typing import Any

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.signals.off_policy import OFF_POLICY
from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.formulas.learning_rate import SAFE_RATE_STEPS, falling, rounded
from rlclinic.treatment.prescription.group_numbers import Chart


@dose
def usual_clip(chart: Chart) -> Dose | None:
    """The clip range of the paper."""
    clip = chart.real("algo.clip_range")
    if chart.algo != "ppo" or (clip is not None and 0.1 <= clip <= 0.3):
        return None
    return Dose(
        {"algo.clip_range": 0.2}, "an update may move a probability by a fifth", "larger steps: watch KL" if (clip or 0) < 0.2 else ""
    )


@dose
def looser_kl_stop(chart: Chart) -> Dose | None:
    """No KL limit where the learning rate is a plausible one, else that of a usual update, so that most epochs run."""
    limit, rate = chart.real("algo.target_kl"), chart.real("algo.learning_rate")
    if chart.algo != "ppo" or limit is None or limit >= 0.01:
        return None
    plausible = rate is not None and rate * chart.updates <= SAFE_RATE_STEPS
    why = f"{limit:g} ends almost every rollout's epochs at once; "
    why += f"{chart.updates} gradient steps at {rate:g} need no limit" if plausible else "0.02 is a usual update"
    return Dose({"algo.target_kl": None if plausible else 0.02}, why, "larger steps: watch KL")


@dose
def other_kl_stop(chart: Chart) -> Dose | None:
    """A KL limit where none was proposed; none, at a plausible rate, where one was."""
    first = looser_kl_stop(chart)
    if first is None:
        return None
    if first.changes["algo.target_kl"] is None:
        return Dose({"algo.target_kl": 0.02}, "0.02 is a usual update: should the steps be too long without a limit", "may waste data")
    rate = rounded(SAFE_RATE_STEPS / 2 / chart.updates)
    changes = {"algo.target_kl": None, "algo.learning_rate": falling(rate)}
    return Dose(changes, f"no limit, at a rate that {chart.updates} gradient steps allow", "watch KL")


@dose
def usual_gradient_limit(chart: Chart) -> Dose | None:
    """A gradient limit that cuts only the outliers."""
    limit, usual = chart.real("algo.max_grad_norm"), chart.level(columns.GRAD_P50)
    if limit is not None and 0.3 <= limit <= 5:
        return None
    seen = f"; the median gradient is {usual:.2g}" if usual == usual else ""
    return Dose({"algo.max_grad_norm": 0.5}, f"0.5 cuts outliers only{seen}")


@dose
def less_entropy(chart: Chart) -> Dose | None:
    """An entropy bonus that pulls a tenth as hard as the advantages."""
    coefficient = chart.real("algo.ent_coef") or 0.0
    if coefficient <= 0 or chart.algo in OFF_POLICY:
        return None
    share, value = chart.sentinel("grad_entropy_share"), chart.sentinel("grad_value_share")
    rest = 1.0 - (value if value == value and chart.setting("net.shared") else 0.0) - share
    against = share / max(rest, 1e-6) if share == share else math.nan
    new = coefficient * min(0.1 / max(against, 1e-9), 0.1) if against == against else coefficient / 10
    new = rounded(min(new, 1e-3 if chart.continuous else 1e-2))
    pulls = f"the bonus pulls {against:.2g}x as hard as the advantages" if against == against else f"{coefficient:g} is far above the usual"
    return Dose({"algo.ent_coef": new}, f"{pulls}; {new:g} makes it a tenth or less", "explores less")


@dose
def no_entropy(chart: Chart) -> Dose | None:
    """No bonus at all."""
    coefficient = chart.real("algo.ent_coef") or 0.0
    if coefficient <= 0 or chart.algo in OFF_POLICY:
        return None
    return Dose({"algo.ent_coef": 0.0}, "no bonus: should even a small one be too much", "explores less")


@dose
def more_entropy(chart: Chart) -> Dose | None:
    """An entropy bonus that keeps the policy trying, in units of the advantages that it competes with."""
    coefficient, spread = chart.real("algo.ent_coef") or 0.0, chart.sentinel("adv_std")
    unit = spread if chart.setting("algo.normalize_advantage") == "off" and spread == spread and spread > 0 else 1.0
    new = rounded(max(3 * coefficient, (0.003 if chart.continuous else 0.01) * unit))
    # SAC's temperature is another thing: it is learned, and has cures of its own.
    if new > 0.1 * unit or chart.algo in OFF_POLICY:
        return None
    seen = f"entropy fell to {100 * chart.entropy_share:.0f} % of its maximum; " if chart.entropy_share == chart.entropy_share else ""
    return Dose({"algo.ent_coef": new}, f"{seen}{new:g} per nat against advantages of about {unit:.2g}", "too much keeps the policy random")


@dose
def entropy_that_falls(chart: Chart) -> Dose | None:
    """A bonus for looking around first and settling later."""
    coefficient = chart.real("algo.ent_coef") or 0.0
    new = rounded(max(3 * coefficient, 0.005 if chart.continuous else 0.03))
    if new > 0.1 or chart.algo in OFF_POLICY:
        return None
    value = {"start": new, "end": 0.0, "schedule": "linear"}
    return Dose({"algo.ent_coef": value}, f"{new:g} per nat at first, nothing at the end: look around, then settle", "slower first steps")


@dose
def critic_weight(chart: Chart) -> Dose | None:
    """A critic that is trained at all."""
    weight = chart.real("algo.vf_coef")
    if weight is None or weight > 0.01:
        return None
    return Dose({"algo.vf_coef": 0.5}, f"at {weight:g} the critic learns nothing, and advantages are plain returns")


@dose
def equal_shares(chart: Chart) -> Dose | None:
    """A weight of the value loss at which both terms pull equally on the shared network."""
    weight, share = chart.real("algo.vf_coef"), chart.sentinel("grad_value_share")
    if not weight or not share > 0.5 or chart.setting("net.shared") is not True:
        return None
    new = rounded(max(weight * (1 - share) / share, 1e-6))
    return Dose({"algo.vf_coef": new}, f"the value term is {100 * share:.0f} % of the shared network's gradient; {new:g} makes it half")


@dose
def own_networks(chart: Chart) -> Dose | None:
    """A network each: the critic can take nothing away."""
    if chart.setting("net.shared") is not True:
        return None
    changes: dict[str, Any] = {"net.shared": False}
    if (chart.real("algo.vf_coef") or 0.5) > 1:
        changes["algo.vf_coef"] = 0.5
    return Dose(changes, "with a network each, the value loss cannot drown the policy", "a second network to train")


@dose
def no_value_clip(chart: Chart) -> Dose | None:
    """Values may move as far as their targets are."""
    if chart.algo != "ppo" or chart.setting("algo.clip_range_vf") is None:
        return None
    reach = f" against targets of {chart.targets:.2g}" if chart.targets == chart.targets else ""
    return Dose({"algo.clip_range_vf": None}, f"{chart.real('algo.clip_range_vf'):g} per update{reach} never gets there")


@dose
def discount_for_the_episode(chart: Chart) -> Dose | None:
    """A discount that sees as far as the task needs: a quarter of an episode where rewards come late, a fifth where they come at once."""
    length = chart.task_length
    if not length > 1:
        length = 400.0
    late = chart.late_reward or chart.rare_reward
    ahead = min(max(length / 4, 80.0), 1000.0) if late else min(max(length / 5, 15.0), 100.0)
    ahead = min(max(length / 2, 80.0), 1000.0) if chart.rare_reward else ahead
    new = 1 - rounded(1 / ahead)
    kind = "little is told before the end" if late else "rewards come at once"
    why = f"episodes of up to {length:.0f} steps, and {kind}: {new:g} looks {1 / (1 - new):.0f} steps ahead"
    return Dose({"algo.gamma": float(f"{new:.6g}")}, why, "larger values: the critic needs longer")


@dose
def other_discount(chart: Chart) -> Dose | None:
    """Three times as far ahead where rewards come late, else a third as far."""
    first = discount_for_the_episode(chart)
    if first is None:
        return None
    late = chart.late_reward or chart.rare_reward
    ahead = 1 / (1 - first.changes["algo.gamma"]) * (3 if late else 1 / 3)
    new = float(f"{1 - rounded(1 / min(max(ahead, 10.0), 1000.0)):.6g}")
    return Dose({"algo.gamma": new}, f"should that look too {'near' if late else 'far'}: {1 / (1 - new):.0f} steps ahead")


@dose
def longer_advantages(chart: Chart) -> Dose | None:
    """Advantages over many steps."""
    new, old = trace_for(chart.real("algo.gamma") or 0.99), chart.real("algo.gae_lambda")
    if old is not None and old >= new - 0.05:
        return None
    return Dose({"algo.gae_lambda": new}, f"about {1 / (1 - new):.0f} steps of real rewards before the critic's opinion", "noisier")


@dose
def longest_advantages(chart: Chart) -> Dose | None:
    """Advantages over as many steps as are ever usual."""
    first = longer_advantages(chart)
    if first is None or first.changes["algo.gae_lambda"] >= 0.98:
        return None
    return Dose({"algo.gae_lambda": 0.98}, "should that be too short: about 50 steps of real rewards", "noisier")


def trace_for(gamma: float) -> float:
    """The lambda that suits a discount: past a third of its horizon a longer trace adds mostly noise."""
    ahead = 1 / max(1 - gamma, 1e-3)
    return float(f"{1 - rounded(1 / min(max(ahead / 3, 5.0), 20.0)):.6g}")


@dose
def whole_episode(chart: Chart) -> Dose | None:
    """A discount that sees the end of an episode from its start: what pays comes last, and everything before it costs."""
    length = chart.task_length
    ahead = min(max(length, 100.0), 1000.0) if length > 1 else 400.0
    new = float(f"{1 - rounded(1 / ahead):.6g}")
    if (chart.real("algo.gamma") or 0.0) >= new - 1e-4:
        return None
    return Dose(
        {"algo.gamma": new},
        f"what pays comes at the end of up to {length:.0f} steps; {new:g} still sees it",
        "larger values: the critic needs longer",
    )
