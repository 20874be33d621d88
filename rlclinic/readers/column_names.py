"""Which metric a column of an unknown log is, by its name.

Names are compared after spelling them alike: "Train/AverageEpRet" is `train_average_ep_ret`. Words such as eval, test or val
in front make it an evaluation.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rlclinic import metrics
from rlclinic.readers.metric_aliases import Tag

_EVALUATION: Final = frozenset({"eval", "evaluation", "evaluator", "test", "testing", "val", "validation"})


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TRAINING: Final = frozenset(_words("""
    train training rollout rollouts charts losses loss metrics metric stats info log agent time sys performance overview
"""))  # fmt: skip

# Best first: of two columns that fit, the earlier name counts.
STEPS: Final = _words("""
    total_timesteps total_timestep timesteps_total num_env_steps_sampled_lifetime num_timesteps global_step global_steps total_env_steps
    env_steps env_step num_env_steps environment_steps total_env_interacts agent_steps agent_step timesteps timestep total_steps total_step
    num_steps frames frame total_frames num_frames steps step steps_done t x
""")  # fmt: skip
_ROWS: Final = _words("iteration iterations training_iteration update updates epoch epochs episode episodes episode_num i")
_EPISODE_COUNTS: Final = frozenset(_words("episode episodes episode_num ep"))
_COUNTERS: Final = ("time", "total_timesteps")

_MEAN_RETURN: Final = _words("""
    ep_rew_mean episode_reward_mean mean_episode_reward episode_return_mean mean_episode_return ep_return_mean ep_reward_mean
    mean_ep_reward mean_ep_return average_ep_ret mean_return return_mean mean_returns mean_reward reward_mean mean_rewards avg_reward
    average_reward avg_return average_return avg_episode_reward average_episode_reward avg_score mean_score average_score
    moving_average running_reward running_return last_100_average mean_last_100 reward_100 avg_reward_100 mean_100_episode_reward eprewmean
""")  # fmt: skip
_EPISODE_RETURN: Final = _words("""
    episodic_return episode_return episode_reward ep_return ep_reward ep_ret ep_rew total_reward cumulative_reward episode_score
    score return returns reward rewards r
""")  # fmt: skip
_LENGTH: Final = _words("""
    ep_len_mean episode_len_mean episode_length_mean mean_episode_length mean_ep_length average_episode_length avg_episode_length
    ep_len ep_length episode_length episode_len episodic_length length l
""")  # fmt: skip
_LEARNING: Final = {
    name: _words(words)
    for name, words in {
        "train/roll/ep_rew_std": "std_ep_ret reward_std std_reward return_std std_return ep_rew_std episode_reward_std",
        "train/roll/ep_rew_best": "best_reward best_score best_return ep_rew_best",
        "train/roll/success_rate": "success_rate success is_success win_rate winrate solved_rate",
        "train/loss/policy": "policy_loss policy_gradient_loss pg_loss loss_policy loss_pi pi_loss surrogate_loss surr_loss loss_clip "
        "loss_objective clip_loss",
        "train/loss/value": "value_loss vf_loss v_loss loss_value loss_v loss_vf value_function_loss baseline_loss",
        "train/loss/actor": "actor_loss loss_actor",
        "train/loss/critic": "critic_loss loss_critic qf_loss q_loss loss_q qf1_loss critic1_loss",
        "train/loss/td": "td_loss td_error dqn_loss huber_loss",
        "train/loss/alpha": "alpha_loss ent_coef_loss temperature_loss",
        "train/loss/total": "loss total_loss loss_total",
        "train/metrics/entropy": "entropy policy_entropy mean_entropy ent action_entropy",
        "train/loss/entropy": "entropy_loss loss_entropy ent_loss",
        "train/metrics/kl_divergence": "approx_kl kl_divergence approxkl kl_approx mean_kl kl_mean kl_div approx_kl_divergence kl "
        "mean_kl_loss kl_loss",
        "train/metrics/clip_fraction": "clip_fraction clipfrac clip_frac fraction_clipped clipfraction clip_ratio_fraction",
        "train/metrics/explained_variance": "explained_variance explained_var vf_explained_var ev value_explained_variance",
        "train/metrics/grad_norm/all": "grad_norm gradient_norm grad_norm_total total_grad_norm global_grad_norm gradnorm",
        "train/metrics/q_mean": "q_mean mean_q q_value q_values avg_q average_q qf1_values mean_q_value average_q_vals q1",
        "train/metrics/q2_mean": "qf2_values q2",
        "train/metrics/action_std": "action_std policy_std std mean_std mean_noise_std mean_action_noise_std action_noise_std",
        "train/hp/learning_rate": "learning_rate lr policy_lr actor_lr cur_lr",
        "train/hp/epsilon": "epsilon eps exploration_rate exploration_epsilon",
        "train/hp/alpha": "alpha temperature ent_coef_value",
        "train/hp/ent_coef": "ent_coef entropy_coef entropy_coefficient",
        "train/hp/clip_range": "clip_range clip_coef clip_epsilon",
        "time/fps": "fps sps steps_per_second throughput env_steps_per_second",
        "total_episodes": "total_episodes num_episodes episodes_total episodes_completed",
    }.items()
}
_EVALUATED: Final = {
    "train/roll/ep_rew_mean": "val/roll/ep_rew_mean",
    "train/roll/ep_rew_std": "val/roll/ep_rew_std",
    "train/roll/ep_len_mean": "val/roll/ep_len_mean",
    "train/roll/success_rate": "val/roll/success_rate",
}


@dataclass(frozen=True)
class Columns:
    """What the columns of a log seem to be."""

    tags: tuple[Tag, ...]
    step: str | None
    """The column that counts env steps."""
    rows: str | None
    """The column that counts iterations or episodes, where no column counts env steps."""
    lengths: str | None
    """The column with the length of each row's episode: summed up, it counts env steps."""

    @property
    def episodic(self) -> frozenset[str]:
        return frozenset(tag.tag for tag in self.tags if tag.episodic)


def normalize_name(name: str) -> str:
    """A name in one spelling: lower case, words joined by one underscore."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def find_metric(name: str) -> Tag | None:
    """The metric that a column's name means; None if it says nothing to us."""
    if metrics.find(name) is not None:
        return Tag(name, name)
    words = normalize_name(name).split("_")
    evaluated = any(word in _EVALUATION for word in words[:-1])
    while len(words) > 1 and (words[0] in _TRAINING or words[0] in _EVALUATION):
        short = "_".join(words)
        if not evaluated and (found := _look_up(short)) is not None:
            return Tag(found[0], name, episodic=found[1])
        words = words[1:]
    found = _look_up("_".join(word for word in words if not (evaluated and word in _EVALUATION)))
    found = found or _look_up(normalize_name(re.split(r"[/.]", name)[-1]))
    if found is None:
        return None
    meant, episodic = found
    if not evaluated:
        return Tag(meant, name, episodic=episodic)
    return Tag(_EVALUATED[meant], name) if meant in _EVALUATED else None


_WINDOW: Final = re.compile(r"(?:_over)?(?:_the)?(?:_last|_past)?_\d+(?:_ep\w*)?$")
"""What says that a value is a mean: `avg_return_100`, `reward_over_last_100_episodes`."""


def _look_up(short: str) -> tuple[str, bool] | None:
    return _look_up_exact(short) or ((found[0], False) if (found := _look_up_exact(_WINDOW.sub("", short))) is not None else None)


def _look_up_exact(short: str) -> tuple[str, bool] | None:
    if short in _MEAN_RETURN:
        return "train/roll/ep_rew_mean", False
    if short in _EPISODE_RETURN:
        return "train/roll/ep_rew_mean", True
    if short in _LENGTH:
        return "train/roll/ep_len_mean", short in ("episodic_length", "l")
    return next(((name, False) for name, words in _LEARNING.items() if short in words), None)


def guess_columns(names: Sequence[str]) -> Columns:
    """What the columns of a log seem to be: the best name for each metric, and the axis."""
    tags: dict[str, list[Tag]] = {}
    for name in names:
        if (tag := find_metric(name)) is not None and tag.canonical not in _COUNTERS:
            tags.setdefault(tag.canonical, []).append(tag)
    # A mean that the log has itself is better than one made of single episodes.
    chosen = [sorted(group, key=lambda tag: (tag.episodic, _rank_name(tag)))[0] for group in tags.values()]
    short = {_strip_prefixes(name): name for name in reversed(names)}
    step = next((short[word] for word in STEPS if word in short), None)
    rows = next((short[word] for word in _ROWS if word in short), None)
    per_episode = any(word in short for word in _EPISODE_COUNTS) or "r" in short
    lengths = next((short[word] for word in _LENGTH if word in short and "mean" not in word), None) if per_episode else None
    if not per_episode:
        chosen = [Tag(tag.canonical, tag.tag, episodic=tag.episodic and "episodic" in normalize_name(tag.tag)) for tag in chosen]
    elif lengths is not None:
        chosen = [Tag(tag.canonical, tag.tag, episodic=tag.episodic or tag.tag == lengths) for tag in chosen]
    used = {step, rows if step is None else None}
    return Columns(tuple(tag for tag in chosen if tag.tag not in used), step, rows, lengths)


def _rank_name(tag: Tag) -> int:
    words = (*_MEAN_RETURN, *_EPISODE_RETURN, *_LENGTH, *(word for group in _LEARNING.values() for word in group))
    short = _strip_prefixes(tag.tag)
    return words.index(short) if short in words else len(words)


def _strip_prefixes(name: str) -> str:
    words = normalize_name(name).split("_")
    while len(words) > 1 and words[0] in _TRAINING:
        words = words[1:]
    return "_".join(words)
