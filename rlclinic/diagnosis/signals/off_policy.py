"""Quantities of learners with a replay that several rules share: gradient steps, lag of the target, exploration, size of Q-values."""

import math
from typing import Final

import numpy as np

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.signals import detect
from rlclinic.diagnosis.signals.detect import Signal

Q_LEARNERS: Final = columns.Q_LEARNERS
ACTORS: Final = columns.ACTORS
OFF_POLICY: Final = columns.OFF_POLICY
SOFT: Final = ("sac", "tqc", "crossq")

EPSILON: Final = columns.applied("epsilon")
ALPHA: Final = columns.applied("alpha")
DISTANCE: Final = columns.sentinel("target_distance")
Q_TOP: Final = columns.sentinel("q_abs_max")
Q_BOUND: Final = columns.sentinel("q_bound")
Q_BIAS: Final = columns.sentinel("q_bias")
Q_MEAN: Final = columns.sentinel("value_mean")
TD_ERROR: Final = columns.sentinel("td_error")
STEPS: Final = "optimizer_steps"
LOSSES: Final = ("train/loss/td", "train/loss/critic")
HIGHEST_RATE: Final = 6e-3
"""Learning rate above every tuned setting of DQN, SAC and TD3 that we know of: rl-zoo3's lie between 1e-4 and 4e-3 for small networks."""
RARE: Final = 0.2
"""Gradient steps per env step below which they are rare: tuned settings have a quarter or more."""


def updates_per_step(case: Case) -> float:
    """Gradient steps per env step: what was counted once learning had begun, else what the settings ask for; NaN if unknown."""
    counted = case.sentinel("updates_per_step")
    taken = counted.values[counted.values > 0]
    if len(taken):
        return float(np.median(taken))
    if (rate := _counted_rate(case)) is not None:
        return rate
    every, steps = case.real("algo.train_freq"), case.real("algo.gradient_steps")
    if every is None or steps is None or every <= 0:
        return math.nan
    return 1.0 if steps < 0 else steps / (every * (case.count("env.n_envs") or 1))


def _counted_rate(case: Case) -> float | None:
    """Gradient steps per env step by the optimizer's own count, which other frameworks log; None where it does not grow."""
    total = case.sentinel(STEPS)
    if len(total) < 2 or not total.last > total.first:
        return None
    return float((total.last - total.first) / (total.steps[-1] - total.steps[0]))


def learning_starts(case: Case) -> float:
    """Env steps before the first gradient step: as set, as the optimizer's count leads back to, or before the first loss; 0 if unknown."""
    configured, total, rate = case.real("algo.learning_starts"), case.sentinel(STEPS), _counted_rate(case)
    if configured is not None:
        return configured
    if rate is not None:
        return max(0.0, float(total.steps[0] - total.first / rate))
    losses = next((case.history.series[name].steps for name in LOSSES if case.has(name)), np.empty(0))
    # The first row with a loss comes up to one interval of rows later.
    return max(0.0, float(losses[0] - np.median(np.diff(losses)))) if len(losses) > 1 else 0.0


def never_learned(case: Case) -> bool:
    """Whether the run ended before its first gradient step was due: then no other setting of learning can be what is wrong."""
    return 0 < case.trained <= learning_starts(case)


def gradient_steps(case: Case) -> float:
    """Gradient steps in the whole budget, or up to the last row where nobody knows that; NaN if unknown."""
    return updates_per_step(case) * max((case.budget or case.trained) - learning_starts(case), 0.0)


SB3_DQN_TRAIN_FREQ = 4.0
SB3_DQN_COPIES_EVERY = 10_000.0
"""Env steps between copies to the target that SB3's DQN makes unless it is told otherwise."""


def target_lag(case: Case) -> float:
    """Gradient steps that the target network lies behind, about: the interval between copies, or 1 / tau; NaN if unknown."""
    tau, every, rate = case.real("algo.tau"), case.real("algo.target_update_interval"), updates_per_step(case)
    if tau is None and every is None:
        return math.nan
    # DQN counts env steps between updates of its target, once a cycle; SAC counts gradient steps; TD3 moves it with the actor.
    apart = max(every or 1.0, cycle_size(case)) * rate if case.algo in Q_LEARNERS else every or 1.0
    if case.algo in ("td3", "ddpg"):
        apart = case.real("algo.policy_delay") or 1.0
    return apart / min(max(tau or 1.0, 1e-9), 1.0)


def cycle_size(case: Case) -> float:
    """Env steps between trainings."""
    # SB3's DQN trains at every fourth step unless it is told otherwise; its logs rarely say.
    usual = SB3_DQN_TRAIN_FREQ if case.history.source == "sb3" and case.algo == "dqn" else 1.0
    return (case.real("algo.train_freq") or usual) * (case.count("env.n_envs") or 1)


def planned_renewals(case: Case) -> float:
    """Share of cycles after which the settings renew the target; NaN if unknown."""
    cycle, updates = cycle_size(case), updates_per_step(case)
    every = case.real("algo.target_update_interval") or 1.0
    if case.algo in Q_LEARNERS:
        return min(cycle / every, 1.0)
    if case.algo in ("td3", "ddpg"):
        every = case.real("algo.policy_delay") or 1.0
    return min(updates * cycle / every, 1.0)


def epsilon(case: Case) -> Signal:
    """The share of random actions: as applied, else as the settings plan it; empty if neither is known."""
    known = case.signal(EPSILON)
    share, first, last = (case.real(f"algo.exploration_{name}") for name in ("fraction", "initial_eps", "final_eps"))
    if len(known) >= 4 or case.budget is None or share is None or last is None:
        return known
    steps = np.linspace(0.0, float(case.budget), 101)
    first = 1.0 if first is None else first
    values = last + (first - last) * np.clip(1 - steps / max(share * case.budget, 1.0), 0, 1)
    return Signal(steps, values, values, values, EPSILON)


def returns_of_states(case: Case) -> float:
    """The discounted return that really came, on average: Q-values less their bias; NaN if it was not measured."""
    bias, mean = case.learning(Q_BIAS).share(0.4), case.learning(Q_MEAN).share(0.4)
    return mean.median - bias.median if len(bias) and len(mean) else math.nan


def reward_size(case: Case) -> float:
    """Rewards per step, by size: as they vary and as they are on average; where only returns are logged, the latter; NaN if unknown."""
    if case.has(columns.sentinel("reward_std")):
        return max(case.learning(columns.sentinel("reward_std")).median, abs(case.learning(columns.sentinel("reward_mean")).median))
    returns, length = case.signal(columns.RETURN), case.signal(columns.LENGTH)
    return abs(returns.median) / max(length.median, 1.0) if len(returns) and len(length) else math.nan


def reward_spread(case: Case) -> float:
    """How much rewards vary from step to step; where only returns are logged, the most that these leave room for."""
    if case.has(columns.sentinel("reward_std")):
        return max(case.learning(columns.sentinel("reward_std")).median, 1e-9)
    length, spread = case.signal(columns.LENGTH), case.signal(columns.RETURN_STD)
    steps = max(length.median, 1.0) if len(length) else 1.0
    return max(abs(case.signal(columns.RETURN).median) / steps, spread.median / math.sqrt(steps) if len(spread) else 0.0, 1e-9)


def seen_ahead(case: Case) -> float:
    """The share of an episode that the discount looks ahead: 1 / (1 - gamma) of its steps; 1 if its length is unknown."""
    length, gamma = case.signal(columns.LENGTH), case.number("gamma")
    if not len(length) or gamma is None or gamma >= 1:
        return 1.0
    return min(1.0, 1 / (1 - gamma) / max(length.median, 1.0))


def critic_loss(case: Case) -> Signal:
    """The loss that the Q-values are trained by."""
    return next((case.signal(name) for name in LOSSES if case.has(name)), case.signal(LOSSES[0]))


def entropy(case: Case) -> Signal:
    """SAC's entropy in nats, for actions from -1 to 1."""
    return case.learning(columns.ENTROPY)


def target_entropy(case: Case) -> float | None:
    """The entropy that the temperature aims at; None if unknown or of no effect."""
    logged = case.signal(columns.applied("target_entropy"))
    if len(logged):
        return logged.median
    return case.real("algo.target_entropy")


def late_rise(signal: Signal) -> float:
    """Decades by which a series of sizes grew from its first to its last fifth; NaN if it is too short."""
    if len(signal) < detect.SHORTEST:
        return math.nan
    first, last = signal.share(0.0, 0.2).median, signal.share(0.8).median
    return math.log10(max(last, 1e-12) / max(first, 1e-12))
