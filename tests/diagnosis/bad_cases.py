"""For every rule, a group that it must find something in: a healthy recorded run with one thing changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rlclinic.runs.history import History
from tests.diagnosis.builders import continuous, healthy, made, q_learner, scaled, series, setting, soft_actor, unsolved
from tests.diagnosis.recorded import histories

S = "train/sentinel/"
KL, CLIP, EV = "train/metrics/kl_divergence", "train/metrics/clip_fraction", "train/metrics/explained_variance"
RETURN, RETURN_STD, LENGTH, EVAL = "train/roll/ep_rew_mean", "train/roll/ep_rew_std", "train/roll/ep_len_mean", "val/roll/ep_rew_mean"
VALUE_LOSS, RATE = "train/loss/value", "train/hp/learning_rate"

Group = list[History]


def one(history: History) -> Group:
    return [history]


def _saw(share: np.ndarray) -> Any:
    return 100 + 90 * np.sign(np.sin(60 * share))


def _rise_and_fall(share: np.ndarray) -> Any:
    return np.where(share < 0.5, 20 + 400 * share, 30.0)


def _falls_at(at: float, high: float, low: float) -> Callable[[np.ndarray], Any]:
    return lambda share: np.where(share < at, high, low)


def _flat_returns(history: History, level: float) -> History:
    return series(history, {RETURN: level, EVAL: level, RETURN_STD: 0.0})


def _late_schedule() -> Group:
    """Applied as planned, but made for a tenth of the budget."""
    plan = {"start": 1e-3, "end": 0.0, "schedule": "linear", "to": 0.1}
    return one(setting(series(unsolved(), {RATE: lambda share: np.maximum(1e-3 * (1 - 10 * share), 0)}), algo__learning_rate=plan))


def _few_steps() -> Group:
    return one(setting(unsolved(), algo__n_steps=1024, algo__batch_size=8192, algo__n_epochs=1))


def _resumed(change: dict[str, Any]) -> Group:
    return one(replace(series(unsolved(), change), segments=(25_000.0,)))


def _failed(reason: str) -> Group:
    return one(replace(unsolved(), state="failed", reason=reason))


def _table() -> History:
    return replace(q_learner(), algo="q_learning")


def _broken() -> Group:
    base = unsolved()
    old = base.series["train/loss/policy"]
    values = np.where(old.steps > 30_000, np.nan, old.values)
    return one(replace(base, series={**base.series, "train/loss/policy": made(old.steps, values, "train/loss/policy")}))


def _copies() -> Group:
    first, second, *_ = histories("cp-healthy")
    return [first, replace(first, id=second.id, seed=second.seed)]


def _luck() -> Group:
    good = histories("cp-healthy")
    bad = series(good[0], {EVAL: 100.0, RETURN: 60.0})
    return [*good, replace(bad, id="unlucky", seed=99)]


def _slow_evaluation() -> Group:
    return one(series(setting(unsolved(), run__eval_every_env_steps=1000), {"time/eval": 9.0, "time/learn": 1.0, "time/env": 1.0}))


def _resigned(value: float = 1.0, entropy: float = 1.0) -> History:
    """A run whose total loss has a term with another sign, at weights that make both terms count."""
    weighed = series(unsolved(), {"train/hp/vf_coef": 0.5, "train/hp/ent_coef": 0.1})
    rows = weighed.series["train/loss/total"].steps
    policy, critic, noise = (weighed.series[f"train/loss/{name}"].values for name in ("policy", "value", "entropy"))
    total = made(rows, policy + value * 0.5 * critic + entropy * 0.1 * noise, "train/loss/total")
    return replace(weighed, series={**weighed.series, "train/loss/total": total})


def _plain(history: History) -> History:
    """As another framework would have logged it: without sentinels."""
    kept = {name: series for name, series in history.series.items() if not name.startswith(S)}
    return replace(history, series=kept, source="sb3")


BAD: dict[str, Callable[[], Group]] = {
    # ── learning rate ──
    "LRN101": lambda: one(setting(unsolved(), algo__learning_rate=0.05)),
    "LRN102": lambda: one(setting(unsolved(), algo__learning_rate=1e-7)),
    "LRN103": lambda: one(scaled(unsolved(), KL, 1e-3)),
    "LRN104": _late_schedule,
    "LRN105": lambda: one(series(unsolved(), {RATE: 1e-3})),
    "LRN106": lambda: one(setting(unsolved(), algo__optimizer="sgd")),
    "LRN107": lambda: one(series(setting(unsolved(), algo__learning_rate=3e-3), {EVAL: _saw, RETURN: _saw, KL: 0.02})),
    # ── rollouts and minibatches ──
    "BAT101": _few_steps,
    "BAT102": lambda: one(setting(unsolved(), env__n_envs=1, algo__n_steps=16, algo__batch_size=16)),
    "BAT103": lambda: one(setting(unsolved(), algo__n_epochs=80)),
    "BAT104": lambda: one(series(unsolved(), {S + "updates": 10.0})),
    "BAT105": lambda: one(setting(unsolved(), algo__clip_range=0.004)),
    "BAT106": lambda: one(setting(unsolved(), algo__target_kl=1e-5)),
    "BAT107": lambda: one(series(unsolved(), {"train/hp/max_grad_norm": 1e-5})),
    "BAT108": lambda: one(setting(unsolved(), net__policy_gain=30.0)),
    "BAT109": lambda: one(series(setting(unsolved(), algo__target_kl=0.01), {S + "updates": 8.0})),
    # ── policy ──
    "POL101": lambda: one(series(unsolved(), {KL: 0.1})),
    "POL102": lambda: one(scaled(unsolved(), KL, 1e-3)),
    "POL103": lambda: one(series(unsolved(), {KL: 1e-5, CLIP: 0.6})),
    "POL104": lambda: one(series(unsolved(), {KL: 0.3, CLIP: 0.01})),
    "POL105": lambda: one(series(setting(unsolved(), algo__target_kl=1e-5), {S + "updates": 1.0, KL: 1e-5, "train/hp/target_kl": 1e-5})),
    "POL106": lambda: one(series(unsolved(), {S + "ratio_first_dev": 0.3})),
    "POL107": lambda: one(series(unsolved(), {S + "adv_logp_corr": -0.15})),
    "POL108": lambda: one(series(unsolved(), {KL: 0.0, S + "kl_exact": 0.01})),
    "POL109": lambda: one(series(unsolved(), {S + "adv_logp_corr": lambda share: 0.005 * np.sign(np.sin(500 * share))})),
    "POL110": lambda: one(scaled(unsolved(), S + "adv_mean", -1.0)),
    "POL111": lambda: one(series(unsolved(), {KL: 0.5})),
    # ── value ──
    "VAL201": lambda: one(series(unsolved(), {EV: 0.01, S + "return_std": 5.0})),
    "VAL202": lambda: one(series(unsolved(), {"train/hp/vf_coef": 0.0})),
    "VAL203": lambda: one(series(unsolved(), {S + "value_mean": 1.0, S + "return_mean": 40.0})),
    "VAL204": lambda: one(series(setting(unsolved(), algo__clip_range_vf=0.001), {"train/hp/clip_range_vf": 0.001})),
    "VAL205": lambda: one(series(setting(unsolved(), net__shared=True), {S + "grad_value_share": 0.99})),
    "VAL206": lambda: one(series(unsolved(), {VALUE_LOSS: lambda share: 10 ** (1 + 6 * share), EV: -1000.0, S + "return_std": 5.0})),
    "VAL207": lambda: one(series(unsolved(), {"train/metrics/grad_norm/critic_head": 0.0})),
    "VAL208": lambda: one(series(unsolved(), {"train/hp/gamma": 0.5})),
    "VAL209": lambda: one(series(unsolved(), {"train/hp/gamma": 1.0, S + "truncated": 2.0, S + "terminated": 1.0})),
    "VAL210": lambda: one(setting(unsolved(), algo__gae_lambda=0.0)),
    "VAL211": lambda: one(series(unsolved(), {S + "ev_early": 0.9, S + "ev_late": 0.1})),
    "VAL213": lambda: one(series(unsolved(), {S + "target_error": 0.4})),
    "VAL214": lambda: one(series(unsolved(), {S + "target_error": 1e-7, S + "target_error_ends": 0.4})),
    "VAL212": lambda: one(series(unsolved(), {S + "return_mean": 48.0, LENGTH: 15.0, S + "truncated": 0.0})),
    # ── entropy ──
    "ENT301": lambda: one(series(unsolved(), {S + "entropy_relative": 0.99})),
    "ENT302": lambda: one(series(unsolved(), {S + "entropy_relative": _falls_at(0.05, 0.9, 0.01)})),
    "ENT303": lambda: one(series(unsolved(), {S + "entropy_relative": 0.3})),
    "ENT304": lambda: one(
        series(
            unsolved(), {S + "grad_entropy_share": 0.5, S + "grad_value_share": 0.4, "train/hp/ent_coef": 0.5, S + "entropy_relative": 0.98}
        )
    ),
    "ENT305": lambda: one(series(continuous(), {S + "action_std_max": lambda share: 1 + 5 * share})),
    "ENT306": lambda: one(series(unsolved(), {"train/hp/ent_coef": 0.5})),
    "ENT307": lambda: one(series(continuous(), {S + "action_std_max": 0.02})),
    "ENT308": lambda: one(setting(continuous(), net__log_std_init=2.5)),
    "ENT309": lambda: one(setting(continuous(), net__log_std_init=-5.0)),
    # ── gradients ──
    "GRD401": lambda: one(series(unsolved(), {"train/hp/max_grad_norm": 1e-5, KL: 1e-6})),
    "GRD402": lambda: one(
        series(
            unsolved(),
            {
                "train/hp/max_grad_norm": 1000.0,
                "train/metrics/grad_norm/max": lambda share: np.where(np.abs(share - 0.45) < 0.01, 500.0, 1.0 + 0.1 * np.sin(40 * share)),
                RETURN: _rise_and_fall,
            },
        )
    ),
    "GRD403": lambda: one(series(unsolved(), {S + "update_ratio_min": 0.0})),
    "GRD404": lambda: one(series(unsolved(), {S + "dormant_actor": 0.9})),
    "GRD405": lambda: one(series(unsolved(), {S + "saturated_critic": 0.8})),
    "GRD406": lambda: one(series(unsolved(), {S + "weight_norm": lambda share: 16 * (1 + 10 * share)})),
    "GRD407": lambda: one(series(unsolved(), {"train/metrics/grad_norm/actor_head": 0.0})),
    "GRD408": _broken,
    "GRD409": lambda: one(setting(unsolved(), net__activation="sigmoid")),
    "GRD410": lambda: one(setting(unsolved(), net__hidden=[2])),
    # ── reward ──
    "REW501": lambda: one(_flat_returns(unsolved(), -200.0)),
    "REW502": lambda: one(series(unsolved(), {S + "return_abs_p95": 20_000.0})),
    "REW503": lambda: one(series(unsolved(), {S + "return_abs_p95": 0.002})),
    "REW504": lambda: one(series(unsolved(), {RETURN: _falls_at(0.1, 22.0, 9.0), EVAL: 9.0})),
    "REW505": lambda: one(series(unsolved(), {S + "reward_nonzero": 0.0})),
    "REW506": lambda: one(
        series(
            unsolved(),
            {
                S + "reward_std": 20.0,
                S + "reward_min": -60.0,
                S + "reward_max": 60.0,
                S + "reward_mean": 1.0,
                EV: 0.0,
                S + "return_std": 60.0,
            },
        )
    ),
    "REW507": lambda: one(
        replace(series(continuous(), {RETURN: _falls_at(0.2, -40.0, -0.5), EVAL: -0.4, S + "reward_max": 0.0}), threshold=90.0)
    ),
    "REW508": lambda: one(setting(unsolved(), env__normalize_reward=True, env__clip_reward=0.5)),
    "REW509": lambda: one(series(unsolved(), {RETURN: 5000.0})),
    "REW510": lambda: one(series(unsolved(), {S + "reward_max": -1.0, S + "reward_min": -1.0})),
    # ── environment ──
    "REW511": lambda: one(
        series(unsolved(), {S + "random_return": -20.0, S + "random_return_std": 5.0, EVAL: -60.0, RETURN: lambda share: 20 + 40 * share})
    ),
    "ENV601": lambda: one(series(unsolved(), {S + "obs_std_min": 0.0, S + "obs_repeat": 1.0, S + "obs_abs_max": 1.0})),
    "ENV602": lambda: one(series(unsolved(), {S + "obs_repeat": 0.99})),
    "ENV603": lambda: one(series(unsolved(), {S + "obs_abs_max": 2000.0})),
    "ENV604": lambda: one(series(unsolved(), {S + "obs_std_min": 0.0})),
    "ENV605": lambda: one(series(unsolved(), {S + "obs_out_of_bounds": 0.5})),
    "ENV608": lambda: _failed("the environment gave an observation that is not finite at step 20005"),
    "ENV609": lambda: one(series(continuous(), {S + "action_at_bound": 0.99})),
    "ENV610": lambda: one(series(_flat_returns(continuous(), -1200.0), {S + "action_at_bound": 0.0})),
    "ENV611": lambda: one(
        series(
            unsolved(),
            {RETURN: _falls_at(0.5, 400.0, 10.0), EV: _falls_at(0.5, 0.9, -2.0), KL: 0.005}
            | {RETURN: lambda share: np.where(share < 0.5, 20 + 700 * share, 10.0)},
        )
    ),
    "ENV616": lambda: one(
        series(
            _flat_returns(unsolved(), 22.0),
            {
                RETURN: lambda share: 22 + 0.5 * np.sin(300 * share),
                EV: 0.8,
                S + "return_std": 5.0,
                KL: 0.005,
                S + "entropy_relative": lambda share: 1 - 0.6 * share,
                RETURN_STD: 5.0,
            },
        )
    ),
    # ── episodes ──
    "ENV606": lambda: one(series(unsolved(), {LENGTH: _falls_at(0.1, 20.0, 1.0)})),
    "ENV607": lambda: one(series(unsolved(), {S + "next_obs_is_reset": 1.0})),
    "ENV612": lambda: one(
        series(
            _flat_returns(setting(unsolved(), env__max_episode_steps=50), -50.0),
            {S + "truncated": 4.0, S + "terminated": 0.0, LENGTH: 50.0},
        )
    ),
    "ENV613": lambda: one(
        series(setting(unsolved(), env__max_episode_steps=500), {LENGTH: 500.0, S + "truncated": 0.0, S + "terminated": 3.0})
    ),
    "ENV614": lambda: one(series(setting(unsolved(), env__max_episode_steps=500), {LENGTH: 900.0})),
    "ENV615": lambda: one(series(unsolved(), {S + "bootstrap_mass": 0.0, S + "truncated": 2.0})),
    "ENV617": lambda: one(
        series(
            setting(replace(healthy(), threshold=-110.0), env__max_episode_steps=50, spec__max_episode_steps=200),
            {RETURN: -50.0, EVAL: -50.0, S + "truncated": 5.0, S + "terminated": 0.0},
        )
    ),
    "ENV618": lambda: one(series(unsolved(), {"total_episodes": 0.0})),
    # ── normalization ──
    "NRM701": lambda: one(series(setting(unsolved(), env__normalize_obs=True), {S + "ratio_first_dev": lambda share: 0.5 * 0.01**share})),
    "NRM702": lambda: one(series(setting(unsolved(), env__normalize_obs=True), {EVAL: 15.0})),
    "NRM703": lambda: one(series(unsolved(), {S + "obs_std_min": 0.001, S + "obs_abs_max": 5.0})),
    "NRM704": lambda: one(series(setting(unsolved(), algo__normalize_advantage="off"), {S + "adv_std": 500.0})),
    # ── evaluation ──
    "EVA801": lambda: one(series(unsolved(), {EVAL: 15.0})),
    "EVA802": lambda: one(series(unsolved(), {EVAL: _rise_and_fall, RETURN: _rise_and_fall})),
    "EVA803": lambda: one(
        replace(series(setting(unsolved(), run__eval_episodes=2), {EVAL: 480.0, "val/roll/ep_rew_std": 300.0}), threshold=500.0)
    ),
    "EVA804": lambda: one(setting(unsolved(), spec__return_range=[0, 500])),
    "EVA805": lambda: one(series(unsolved(), {EVAL: None})),
    "EVA806": lambda: one(
        series(
            setting(unsolved(), env__max_episode_steps=500), {LENGTH: 500.0, "val/roll/ep_len_mean": 1000.0, RETURN: 500.0, EVAL: 1000.0}
        )
    ),
    # ── resume ──
    "RES901": lambda: _resumed({S + "optimizer_steps": lambda share: 4000 * np.where(share < 0.5, share, share - 0.5)}),
    "RES902": lambda: one(series(unsolved(), {S + "optimizer_steps": lambda share: 50_000 * share})),
    "RES903": lambda: _resumed({RETURN: lambda share: np.where(share < 0.5, 20 + 600 * share, 30.0)}),
    # ── throughput ──
    "THR101": _slow_evaluation,
    "THR102": lambda: one(series(unsolved(), {"time/fps": _falls_at(0.5, 5000.0, 900.0)})),
    "THR103": lambda: one(series(setting(unsolved(), env__workers=4), {"time/env": 0.2, "time/learn": 0.05})),
    # ── budget and luck ──
    "BUD101": lambda: one(
        replace(series(unsolved(), {RETURN: lambda share: 20 + 300 * share, EVAL: lambda share: 20 + 300 * share}), threshold=475.0)
    ),
    "BUD102": lambda: one(replace(unsolved(), state="stopped", env_steps=20_000)),
    "BUD103": _luck,
    "BUD104": lambda: one(replace(series(unsolved(), {LENGTH: 200.0}), max_env_steps=2000)),
    "BUD105": lambda: one(replace(setting(unsolved(), env__n_envs=8, algo__n_steps=128), max_env_steps=10_000)),
    # ── replay, targets, exploration ──
    "RPL101": lambda: one(setting(q_learner(), algo__target_update_interval=6000)),
    "RPL102": lambda: one(setting(soft_actor(), algo__tau=1.0)),
    "RPL103": lambda: one(series(q_learner(), {S + "target_updates": 1.0})),
    "RPL104": lambda: one(setting(q_learner(), algo__buffer_size=200)),
    "RPL105": lambda: one(setting(q_learner(), algo__learning_starts=4500)),
    "RPL106": lambda: one(series(q_learner(), {S + "updates_per_step": 0.005})),
    "RPL107": lambda: one(series(q_learner(), {S + "updates_per_step": 16.0})),
    "RPL108": lambda: one(series(q_learner(), {"train/hp/epsilon": 0.8})),
    "RPL109": lambda: one(series(setting(q_learner(), algo__learning_starts=10), {"train/hp/epsilon": 0.01})),
    "RPL110": lambda: one(series(setting(q_learner(), algo__prioritized=True), {S + "is_weight_min": 1.0})),
    "RPL111": lambda: one(setting(soft_actor(), algo__action_noise="gaussian", algo__action_noise_std=2.0)),
    "RPL112": lambda: one(setting(replace(soft_actor(), algo="td3"), algo__action_noise="none", algo__learning_starts=100)),
    "RPL113": lambda: one(series(q_learner(), {S + "epsilon_actual": 0.9})),
    "RPL114": lambda: one(setting(q_learner(), algo__batch_size=2)),
    # ── Q-values ──
    "QVL101": lambda: one(series(q_learner(), {S + "q_abs_max": 500.0})),
    "QVL102": lambda: one(series(q_learner(), {S + "q_bias": 80.0, S + "value_mean": 100.0})),
    "QVL103": lambda: one(series(q_learner(), {S + "target_error_ends": 0.5})),
    "QVL104": lambda: one(series(soft_actor(), {S + "target_error_cuts": 0.5})),
    "QVL105": lambda: one(series(q_learner(), {S + "target_error": 0.5})),
    "QVL106": lambda: one(setting(q_learner(), algo__learning_rate=0.1)),
    "QVL107": lambda: one(setting(q_learner(), algo__learning_rate=1e-7)),
    "QVL108": lambda: one(series(q_learner(), {S + "q_bias": -40.0, S + "value_mean": 0.5})),
    "QVL109": lambda: one(series(q_learner(), {"train/loss/td": lambda share: 10 ** (5 * share)})),
    "QVL110": lambda: one(series(q_learner(), {S + "reward_std": 2000.0})),
    "QVL111": lambda: one(series(q_learner(), {S + "reward_min": 1e-4, S + "reward_max": 1e-4})),
    "QVL112": lambda: one(
        series(q_learner(), {S + "reward_std": 20.0, S + "reward_min": -60.0, S + "reward_max": 60.0, S + "td_error": 18.0})
    ),
    # ── tables ──
    "TAB101": lambda: one(setting(_table(), algo__learning_rate=1e-5, about__obs_flags=16.0)),
    "TAB102": lambda: one(series(setting(_table(), algo__exploration_initial_eps=0.01), {"train/hp/epsilon": 0.01})),
    # ── actors ──
    "ACT101": lambda: one(series(soft_actor(), {S + "action_reach": 0.5})),
    "ACT102": lambda: one(series(soft_actor(), {S + "action_at_bound": 0.99})),
    "ACT103": lambda: one(series(soft_actor(), {"train/hp/alpha": lambda share: 10 ** (4 * share), "train/metrics/entropy": 0.6})),
    "ACT104": lambda: one(series(soft_actor(), {"train/hp/alpha": 50.0, "train/metrics/entropy": 0.65})),
    "ACT105": lambda: one(series(soft_actor(), {"train/metrics/entropy": -6.0})),
    "ACT106": lambda: one(
        series(
            q_learner(),
            {RETURN: lambda share: 22 + np.sin(99 * share), EVAL: 23.0, S + "random_return": 22.0, S + "random_return_std": 9.0}
            | {S + "q_bias": 0.5, S + "value_mean": 15.0},
        )
    ),
    # ── families ──
    "FAM101": lambda: one(scaled(_plain(unsolved()), KL, 1e-3)),
    "FAM102": lambda: one(series(_plain(unsolved()), {EV: 0.01})),
    "FAM103": lambda: one(series(_flat_returns(_plain(unsolved()), 20.0), {EV: 0.8, KL: 0.02})),
    # ── folder and config ──
    "CFG108": lambda: one(_resigned(value=-1.0)),
    "CFG109": lambda: one(_resigned(entropy=-1.0)),
    "CFG101": lambda: one(scaled(unsolved(), "train/loss/total", 1.5)),
    "CFG102": lambda: one(scaled(unsolved(), KL, -1.0)),
    "CFG103": _copies,
    "CFG105": lambda: [healthy(), setting(healthy(), algo__gamma=0.5)],
    "CFG106": lambda: one(replace(unsolved(), notes=("3 damaged lines of metrics.csv were left out",))),
    "CFG107": lambda: _failed("out of memory"),
}
