"""The columns that rules read, by short names."""

from typing import Final

EVAL_RETURN: Final = "val/roll/ep_rew_mean"
EVAL_STD: Final = "val/roll/ep_rew_std"
EVAL_LENGTH: Final = "val/roll/ep_len_mean"
RETURN: Final = "train/roll/ep_rew_mean"
RETURN_STD: Final = "train/roll/ep_rew_std"
BEST_RETURN: Final = "train/roll/ep_rew_best"
LENGTH: Final = "train/roll/ep_len_mean"
SUCCESS: Final = "train/roll/success_rate"
EVAL_SUCCESS: Final = "val/roll/success_rate"
EPISODES: Final = "total_episodes"

POLICY_LOSS: Final = "train/loss/policy"
VALUE_LOSS: Final = "train/loss/value"
ENTROPY_LOSS: Final = "train/loss/entropy"
TOTAL_LOSS: Final = "train/loss/total"

KL: Final = "train/metrics/kl_divergence"
CLIP_FRACTION: Final = "train/metrics/clip_fraction"
EXPLAINED_VARIANCE: Final = "train/metrics/explained_variance"
ENTROPY: Final = "train/metrics/entropy"
ACTION_STD: Final = "train/metrics/action_std"
"""Mean deviation of continuous actions, as other frameworks log it."""

GRAD_NORM: Final = "train/metrics/grad_norm/all"
GRAD_ACTOR: Final = "train/metrics/grad_norm/actor_head"
GRAD_CRITIC: Final = "train/metrics/grad_norm/critic_head"
GRAD_TRUNK: Final = "train/metrics/grad_norm/trunk"
GRAD_P50: Final = "train/metrics/grad_norm/p50"
GRAD_P95: Final = "train/metrics/grad_norm/p95"
GRAD_MAX: Final = "train/metrics/grad_norm/max"
GRAD_CLIPPED: Final = "train/metrics/grad_norm/clipped"

FPS: Final = "time/fps"


def sentinel(name: str) -> str:
    """The column of a sentinel."""
    return f"train/sentinel/{name}"


def applied(name: str) -> str:
    """The column with the value of a hyperparameter that was really used."""
    return f"train/hp/{name}"


Q_LEARNERS: Final = ("dqn", "qrdqn", "c51", "rainbow")
ACTORS: Final = ("sac", "td3", "ddpg", "tqc", "crossq")
OFF_POLICY: Final = (*Q_LEARNERS, *ACTORS)
"""Algorithms that learn from a replay."""
OFFLINE: Final = ("bc", "td3_bc", "iql", "awac", "cql", "cal_ql", "rlpd", "dt")
"""Algorithms that learn from recorded data: nobody acts, or only after a while, and evaluations are what has returns throughout."""
UNREWARDED: Final = ("bc", "dagger", "safe_dagger", "ensemble_dagger", "gail", "airl")
"""Algorithms that the environment's reward teaches nothing: they imitate, and returns are a report."""
ONLINE, SWITCH_DIP = "train/sentinel/online", "train/sentinel/switch_dip"
"""Whether a run that began on recorded data acts by now, and what the first steps of acting cost it."""
