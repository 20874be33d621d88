"""Doses for learners with a replay: targets, gradient steps, exploration, temperature."""

from rlclinic.diagnosis.signals import off_policy
from rlclinic.diagnosis.signals.off_policy import ACTORS, OFF_POLICY, Q_LEARNERS, SOFT
from rlclinic.plain_text import figure
from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.formulas.learning_rate import rounded
from rlclinic.treatment.prescription.group_numbers import Chart

RENEWALS = 200
"""Copies of a Q-network to its target in a run: tuned settings lie between 100 and 5,000."""
BATCH = 64
"""Transitions per gradient step: the least that most tuned settings have."""


def _lag(chart: Chart) -> float:
    """Gradient steps that the target lies behind, as the settings ask for."""
    tau, every = chart.real("algo.tau") or 1.0, chart.real("algo.target_update_interval") or 1.0
    return every / tau if chart.algo in Q_LEARNERS else 1 / tau


@dose
def renew_the_target(chart: Chart) -> Dose | None:
    """A target that follows in time: copied a few hundred times in the run, or averaged over 200 gradient steps."""
    if chart.algo not in OFF_POLICY:
        return None
    if chart.algo in Q_LEARNERS and (chart.real("algo.tau") or 1.0) >= 0.5:
        every = int(min(max((chart.budget or 100_000) / RENEWALS, 10), 10_000))
        return Dose({"algo.target_update_interval": every}, f"about {RENEWALS} copies in the run")
    return Dose({"algo.tau": 0.005}, f"{_lag(chart):.2g} gradient steps behind becomes 200")


@dose
def soft_target(chart: Chart) -> Dose | None:
    """A target that follows a little at every step."""
    if chart.algo not in Q_LEARNERS:
        return None
    return Dose({"algo.tau": 0.01, "algo.target_update_interval": 1}, "a moving average in place of copies")


@dose
def larger_replay(chart: Chart) -> Dose | None:
    """Room for most of the run."""
    size, budget = chart.count("algo.buffer_size"), chart.budget or 100_000
    wanted = max(min(budget, 100_000), 10_000)
    if chart.algo not in OFF_POLICY or size is None or size >= wanted:
        return None
    return Dose({"algo.buffer_size": wanted}, f"{wanted / budget:.0%} of the run in place of {size / budget:.1%}", "more memory")


@dose
def usual_minibatches(chart: Chart) -> Dose | None:
    """As many transitions per gradient step as tuned settings have."""
    size = chart.real("algo.batch_size")
    if chart.algo not in OFF_POLICY or size is None or size >= BATCH:
        return None
    return Dose(
        {"algo.batch_size": BATCH}, f"the errors of {BATCH} transitions average out, in place of {size:g}", "slower per gradient step"
    )


@dose
def learn_sooner(chart: Chart) -> Dose | None:
    """The first gradient step after 2 % of the run."""
    start, wanted = chart.real("algo.learning_starts"), int(max(100, 0.02 * (chart.budget or 10_000)))
    if start is not None and chart.cases:
        start = max(start, off_policy.learning_starts(chart.cases[0]))  # as it was logged
    if chart.algo not in OFF_POLICY or start is None or start <= wanted:
        return None
    return Dose({"algo.learning_starts": wanted}, f"after {wanted} env steps in place of {start:g}")


@dose
def learn_at_every_step(chart: Chart) -> Dose | None:
    """As many gradient steps as env steps are taken; every fourth step at most in between."""
    if chart.algo not in OFF_POLICY:
        return None
    every, steps = chart.count("algo.train_freq") or 1, chart.real("algo.gradient_steps")
    changes = ({"algo.gradient_steps": -1} if steps != -1 else {}) | ({"algo.train_freq": 4} if every > 64 else {})
    return Dose(changes, "one gradient step per env step", "more time per env step, where there were fewer") if changes else None


@dose
def explore_less(chart: Chart) -> Dose | None:
    """One action in twenty stays random."""
    last = chart.real("algo.exploration_final_eps")
    if chart.algo not in Q_LEARNERS or last is None or last <= 0.1:
        return None
    return Dose({"algo.exploration_final_eps": 0.05}, f"5 % of the actions stay random in place of {last:.0%}")


@dose
def explore_longer(chart: Chart) -> Dose | None:
    """Random actions over a fifth of the run; noise, where actions are continuous."""
    if chart.algo in ACTORS:
        return _more_noise(chart)
    share = chart.real("algo.exploration_fraction")
    if chart.algo not in (*Q_LEARNERS, "q_learning") or share is None:
        return None
    longer = 0.2 if share < 0.1 else max(min(2 * share, 0.5), share)
    changes = {"algo.exploration_fraction": longer} if longer > share else {}
    first = chart.real("algo.exploration_initial_eps")
    if first is None or first < 0.5:
        changes["algo.exploration_initial_eps"] = 1.0
    if not changes:
        return None
    why = f"epsilon falls over {longer:.0%} of the run" + (f" in place of {share:.1%}" if longer > share else ", and from 1")
    return Dose(changes, why)


def _more_noise(chart: Chart) -> Dose | None:
    """Noise on actions: some where there was none, drifting for SAC, whose own is independent from step to step; else twice as much."""
    if chart.setting("algo.action_noise") in (None, "none"):
        if chart.algo in SOFT:
            return Dose(
                {"algo.action_noise": "ou", "algo.action_noise_std": 0.5},
                "noise that pushes one way for a while gets further than the policy's own, which cancels out",
                "acts worse while it trains",
            )
        return Dose({"algo.action_noise": "gaussian"}, "noise on every action, so that something new is tried")
    std = chart.real("algo.action_noise_std") or 0.1
    new = rounded(min(max(2 * std, 0.2), 0.5))
    return Dose({"algo.action_noise_std": new}, f"{new:g} in place of {std:g}, for actions from -1 to 1") if new > std else None


@dose
def usual_noise(chart: Chart) -> Dose | None:
    """Noise of a tenth of the half box."""
    std = chart.real("algo.action_noise_std")
    if chart.algo not in ACTORS or std is None or chart.setting("algo.action_noise") in (None, "none") or 0.05 <= std <= 0.2:
        return None
    return Dose({"algo.action_noise_std": 0.1}, f"0.1 in place of {std:g}, for actions from -1 to 1")


@dose
def learned_temperature(chart: Chart) -> Dose | None:
    """Let SAC find what entropy is worth."""
    if chart.algo not in SOFT or chart.setting("algo.ent_coef") == "auto":
        return None
    return Dose({"algo.ent_coef": "auto"}, "the temperature follows the entropy; no value suits every reward scale")


@dose
def usual_target_entropy(chart: Chart) -> Dose | None:
    """Minus the number of action components."""
    if chart.algo not in SOFT or chart.setting("algo.target_entropy") in (None, "auto"):
        return None
    return Dose({"algo.target_entropy": "auto"}, "minus the number of action components")


@dose
def cautious_values(chart: Chart) -> Dose | None:
    """Double Q-learning, or the lower of two critics."""
    if chart.algo == "dqn" and chart.setting("algo.double") is not True:
        return Dose({"algo.double": True}, "one network chooses, the other judges")
    if chart.algo in ACTORS and (chart.count("algo.n_critics") or 2) < 2:
        return Dose({"algo.n_critics": 2}, "the lower of two critics counts")
    return None


@dose
def third_of_the_rate(chart: Chart) -> Dose | None:
    """Steps a third as long, for values that run away at a usual rate."""
    rate = chart.real("algo.learning_rate")
    if chart.algo not in OFF_POLICY or rate is None:
        return None
    return Dose({"algo.learning_rate": rounded(rate / 3)}, f"a third of {figure(rate)}", "slower")


@dose
def td3_instead(chart: Chart) -> Dose | None:
    """TD3, which was made to cure what DDPG's values suffer from."""
    if chart.algo != "ddpg":
        return None
    return Dose({"algo.name": "td3"}, "the lower of two critics, smoothed targets and a policy that waits for them: DDPG's values run away")


@dose
def larger_prior(chart: Chart) -> Dose | None:
    """Random functions that count three times as much."""
    scale = chart.real("algo.prior_scale")
    if scale is None:
        return None
    return Dose({"algo.prior_scale": rounded(max(3.0, 3.0 * scale))}, "heads disagree for longer where there is no data")


@dose
def smaller_prior(chart: Chart) -> Dose | None:
    """Random functions that count a tenth as much."""
    scale = chart.real("algo.prior_scale")
    if not scale:
        return None
    return Dose({"algo.prior_scale": rounded(scale / 10)}, "the reward decides sooner", "explores less")
