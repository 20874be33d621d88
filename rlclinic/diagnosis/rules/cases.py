"""Runs that rules are shown: four healthy ones, made up from a few points of each series, and ways to change one thing about them.

A rule's bad case is such a run with the fault that the rule is about; its good cases are runs that look alike and have not got it.
They are what tests put to the rule, and what its page shows as an example.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.runs.history import History, Series, make_series

OUT_OF_REACH: Final = 2000.0
"""A threshold that no healthy run gets to."""
RETURN: Final = "train/roll/ep_rew_mean"

Shape = float | Callable[[NDArray[np.float64]], Any] | None
"""What a series is changed to: a constant, a function of the share of the run (0 to 1) at each of its rows, or None to remove it."""


# ── healthy runs ──


@cache
def base(name: str) -> tuple[History, ...]:
    """The seeds of a healthy group: cp-healthy (PPO on CartPole), pd-healthy (Pendulum), dqn-healthy, sac-healthy."""
    row = json.loads((files("rlclinic.diagnosis") / "rules" / "healthy_runs.json").read_text("utf-8"))["runs"][name]
    return tuple(_seed(name, row, seed) for seed in range(3))


def _seed(name: str, row: Mapping[str, Any], seed: int) -> History:
    series = {}
    for table in row["tables"]:
        steps = np.linspace(*table["steps"])
        share = np.linspace(0.0, 1.0, len(steps))
        for column, points in table["series"].items():
            values = np.interp(share, np.linspace(0.0, 1.0, len(points)), points)
            # Seeds differ a little, the more the later.
            series[column] = make(steps, values * (1 - 0.004 * seed * share), column)
    return History(
        **row["fields"], id=f"{name}-s{seed}", source="rlclinic", seed=seed, state="finished", settings=row["settings"], series=series
    )


def solved(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """A run of PPO on CartPole that got to its threshold. Changes are as for `changed`."""
    return changed(base("cp-healthy")[0], series, **changes)


def unsolved(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """The same run, judged by a threshold that it misses: nothing else about it is wrong."""
    free = {"spec.return_range": None, "spec.max_episode_steps": None}
    return changed(changed(base("cp-healthy")[0], settings=free, threshold=OUT_OF_REACH), series, **changes)


def continuous(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """An unsolved run of PPO with continuous actions."""
    return changed(replace(base("pd-healthy")[0], threshold=-1.0), series, **changes)


def q_learner(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """An unsolved run of DQN."""
    free = {"spec.return_range": None, "spec.max_episode_steps": None, "env.max_episode_steps": None}
    return changed(changed(base("dqn-healthy")[0], settings=free, threshold=OUT_OF_REACH), series, **changes)


def soft_actor(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """An unsolved run of SAC."""
    return changed(changed(base("sac-healthy")[0], settings={"spec.return_range": None}, threshold=-1.0), series, **changes)


def imitator(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """An unsolved run of DAgger on Pendulum: eight rounds of 200 steps, as they went, but for a threshold that it misses."""
    run, steps = base("pd-healthy")[0], np.arange(200.0, 1601.0, 200.0)
    rounds = {
        RETURN: [-1100.0, -1250.0, -900.0, -600.0, -350.0, -200.0, -170.0, -160.0],
        "val/roll/ep_rew_mean": [-1450.0, -920.0, -760.0, -550.0, -300.0, -190.0, -165.0, -155.0],
        "train/loss/imitation": [0.007, 0.047, 0.058, 0.069, 0.066, 0.06, 0.055, 0.05],
        "train/imitation/queries": [200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0, 1600.0],
        "train/imitation/unanswered": [0.0] * 8,
        "train/imitation/expert_share": [1.0] + [0.0] * 7,
        "train/imitation/asked_share": [1.0] * 8,
        "train/imitation/disagreement": [0.25, 1.0, 0.7, 0.5, 0.3, 0.15, 0.1, 0.08],
        "train/imitation/policy_state_error": [1.0, 1.0, 0.7, 0.5, 0.3, 0.15, 0.1, 0.08],
        "train/imitation/first_round_error": [0.01, 0.03, 0.03, 0.04, 0.04, 0.04, 0.04, 0.04],
        "train/imitation/label_is_executed": [0.0] * 8,
        "train/imitation/passes": [320.0, 160.0, 107.0, 80.0, 64.0, 53.0, 50.0, 50.0],
        "train/hp/policy_noise": [0.0] * 8,
    }
    settings = {"algo.name": "dagger", "algo.beta": 0.0, "algo.policy_noise": 0.0, "algo.n_epochs": 50, "run.eval_episodes": 20}
    made = {name: make(steps, values, name) for name, values in rounds.items()}
    whole = replace(run, series=made, settings=settings, algo="dagger", threshold=-1.0, env_steps=1600, max_env_steps=1600)
    return changed(whole, series, **changes)


def adversarial(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """A run of GAIL whose policy comes to pass for the demonstrations, but for a threshold that it misses."""
    run, steps = base("cp-healthy")[0], np.linspace(2_000.0, 40_000.0, 20)
    share = np.linspace(0.0, 1.0, 20)
    columns = {
        RETURN: 20.0 + 400.0 * share,
        "val/roll/ep_rew_mean": 20.0 + 450.0 * share,
        "train/adversary/loss": 0.45 + 0.24 * share,
        "train/adversary/expert_accuracy": 1.0 - 0.45 * share,
        "train/adversary/policy_accuracy": 0.9 - 0.35 * share,
        "train/adversary/reward_std": 5.0 - 4.9 * share,
        "train/adversary/absorbing_share": 0.8 * (1.0 - share),
        "train/adversary/absorbing_shown": np.zeros(20),
    }
    settings = {"algo.name": "gail", "algo.horizon": "absorbing", "algo.reward_lr": 1e-3, "algo.gradient_penalty": 1.0}
    made = {name: make(steps, values, name) for name, values in columns.items()}
    whole = replace(run, series=made, settings=settings, algo="gail", threshold=OUT_OF_REACH, env_steps=40_000, max_env_steps=40_000)
    return changed(whole, series, **changes)


def recorded(series: Mapping[str, Shape] | None = None, *, algo: str = "iql", threshold: float = -1.0, **changes: Any) -> History:
    """A run of IQL on recorded data of Pendulum that misses its threshold; with another algorithm, one of that."""
    run = base("pd-healthy")[0]
    steps = np.linspace(500.0, 10_000.0, 20)
    share = np.linspace(0.0, 1.0, 20)
    columns = {
        "val/roll/ep_rew_mean": -900.0 + 700.0 * np.minimum(2 * share, 1.0),
        "train/sentinel/q_bias": 30.0 * (1.0 - share),
        "train/sentinel/data_value": np.full(20, -80.0),
        "train/sentinel/loss_data": 0.4 - 0.2 * share,
        "train/sentinel/loss_held_out": 0.42 - 0.2 * share,
        "train/metrics/weight_capped": np.full(20, 0.01),
        "train/metrics/weight_ess": np.full(20, 0.4),
    }
    settings = {
        "algo.name": algo,
        "algo.beta": 3.0,
        "algo.awac_lambda": 1.0,
        "algo.cql_alpha": 5.0,
        "algo.bc_alpha": 2.5,
        "algo.expectile": 0.7,
        "algo.learning_rate": 3e-4,
        "run.eval_episodes": 20,
    }
    made = {name: make(steps, values, name) for name, values in columns.items()}
    whole = replace(run, series=made, settings=settings, algo=algo, threshold=threshold, env_steps=10_000, max_env_steps=10_000)
    return changed(whole, series, **changes)


def foreign(series: Mapping[str, Shape] | None = None, **changes: Any) -> History:
    """`unsolved` as another framework would have logged it: without sentinels."""
    run = unsolved()
    kept = {name: each for name, each in run.series.items() if not name.startswith("train/sentinel/")}
    return changed(replace(run, series=kept, source="sb3"), series, **changes)


def failed(reason: str) -> History:
    """`unsolved`, ended by an error."""
    return unsolved(state="failed", reason=reason)


# ── changes ──


def changed(
    run: History,
    series: Mapping[str, Shape] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    scaled: Mapping[str, float] | None = None,
    **fields: Any,
) -> History:
    """A run with other series, other settings by dotted name (None: off), series times a number, or other fields of History."""
    columns = dict(run.series)
    for name, shape in (series or {}).items():
        if shape is None:
            columns.pop(name, None)
            continue
        like = columns.get(name) or run.series.get(RETURN) or next(iter(run.series.values()))  # of recorded data there is no RETURN
        steps = like.steps
        share = (steps - steps[0]) / (steps[-1] - steps[0])
        columns[name] = make(steps, shape(share) if callable(shape) else np.full(len(steps), float(shape)), name)
    for name, factor in (scaled or {}).items():
        columns[name] = make(columns[name].steps, factor * columns[name].values, name)
    return replace(run, series=columns, settings={**run.settings, **(settings or {})}, **fields)


def make(steps: Any, values: Any, name: str) -> Series:
    """A series of numbers, some of which may be NaN."""
    series = make_series(steps, np.asarray(values, dtype=float), name)
    if series is None:
        raise ValueError(f"{name}: a series needs a row")
    return series


def flat_returns(level: float) -> dict[str, Shape]:
    """Every episode earns the same."""
    return {RETURN: level, "val/roll/ep_rew_mean": level, "train/roll/ep_rew_std": 0.0}


def saw_tooth(share: NDArray[np.float64]) -> Any:
    """Up and down, all the time."""
    return 100 + 90 * np.sign(np.sin(60 * share))


def rise_and_fall(share: NDArray[np.float64]) -> Any:
    """Up to half time, then down to where it began."""
    return np.where(share < 0.5, 20 + 400 * share, 30.0)


def falls(at: float, high: float, low: float) -> Callable[[NDArray[np.float64]], Any]:
    """High up to a share of the run, then low."""
    return lambda share: np.where(share < at, high, low)


def copies(run: History, other: History) -> Sequence[History]:
    """Two seeds with the same numbers."""
    return [run, replace(run, id=other.id, seed=other.seed)]
