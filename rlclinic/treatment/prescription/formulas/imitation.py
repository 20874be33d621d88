"""Doses for imitation: who acts, what is learned from, when to ask."""

from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.group_numbers import Chart

SHAREHOLDERS = {"safe_dagger": "algo.unsafe_error", "ensemble_dagger": "algo.doubt"}
"""What decides how often each asks; ask_share of the others."""


@dose
def let_the_policy_drive(chart: Chart) -> Dose | None:
    """The policy acts from the second round on, and the expert labels."""
    if chart.algo != "dagger" or not chart.setting("algo.beta"):
        return None
    return Dose({"algo.beta": 0.0}, "the policy acts in every step after the first round, and the expert labels them all")


@dose
def keep_all_rounds(chart: Chart) -> Dose | None:
    """All labels are learned from."""
    kept = chart.real("algo.keep_rounds")
    return Dose({"algo.keep_rounds": 0}, f"all rounds are learned from in place of the newest {kept:g}") if kept else None


@dose
def more_passes(chart: Chart) -> Dose | None:
    """As many passes in every round, however many labels there are."""
    passes = chart.real("algo.n_epochs")
    if passes is None or passes >= 50:
        return None
    return Dose({"algo.n_epochs": 50}, f"50 passes over all labels in every round in place of {passes:g}", "takes longer, round by round")


@dose
def less_policy_noise(chart: Chart) -> Dose | None:
    """The policy collects nearly as it will act."""
    noise = chart.real("algo.policy_noise")
    return Dose({"algo.policy_noise": 0.05}, f"noise of 0.05 in place of {noise:g}") if noise is not None and noise > 0.1 else None


@dose
def evaluate_the_policy(chart: Chart) -> Dose | None:
    """The policy is scored alone."""
    return None if chart.setting("run.eval_episodes") else Dose({"run.eval_episodes": 20}, "20 episodes of the policy alone")


@dose
def more_rounds(chart: Chart) -> Dose | None:
    """Twice as many rounds of half the steps: the same labels, from a policy that is up to date."""
    steps = chart.real("algo.train_freq")
    if steps is None or steps < 50:
        return None
    return Dose({"algo.train_freq": int(steps // 2)}, f"rounds of {int(steps // 2)} steps in place of {steps:g}", "trains twice as often")


@dose
def ask_twice(chart: Chart) -> Dose | None:
    """Every question twice: the mean of two answers has half of the variance."""
    share = chart.real("algo.repeat_queries")
    if share is None or share >= 1:
        return None
    return Dose({"algo.repeat_queries": 1.0}, "each question is asked twice and the mean is learned", "takes twice as many questions")


@dose
def ask_less(chart: Chart) -> Dose | None:
    """A threshold three times as high, or half of the share."""
    return _change_share(chart, 3.0, 0.5, "asks where it matters more")


@dose
def ask_more(chart: Chart) -> Dose | None:
    """A threshold a third as high, or twice the share."""
    return _change_share(chart, 1 / 3, 2.0, "asks earlier")


def _change_share(chart: Chart, threshold: float, share: float, why: str) -> Dose | None:
    setting = SHAREHOLDERS.get(chart.algo, "algo.ask_share")
    now = chart.real(setting)
    if now is None:
        return None
    new = min(now * share, 1.0) if setting == "algo.ask_share" else now * threshold
    return Dose({setting: float(f"{new:.2g}")}, f"{why}: {new:.2g} in place of {now:g}")


@dose
def weaker_discriminator(chart: Chart) -> Dose | None:
    """A tenth of its learning rate, and a slope that is held to 1."""
    rate, penalty = chart.real("algo.reward_lr"), chart.real("algo.gradient_penalty")
    if rate is None or penalty is None:
        return None
    changes: dict[str, object] = {"algo.reward_lr": float(f"{rate / 10:.2g}")}
    if penalty < 1:
        changes["algo.gradient_penalty"] = 1.0
    return Dose(changes, f"a discriminator that learns at {rate / 10:.2g} in place of {rate:g}, slowly enough to be followed")


@dose
def absorbing_horizon(chart: Chart) -> Dose | None:
    """What lies behind a terminal state is judged, too."""
    if chart.setting("algo.horizon") != "ignore":
        return None
    return Dose({"algo.horizon": "absorbing"}, "terminal states lead to one that the discriminator sees and that goes on paying")
