"""What other frameworks call our metrics, with sign, scale, estimator and aggregation: a rename alone would lie.

A line of a table is `canonical name | tag | more`, where more is any of

    x -1                multiply: SB3 logs minus the entropy, CleanRL half the squared error
    / algo.ent_coef     divide by this setting; the tag is left out if the setting is not known
    episodes            a value per episode: made into a running mean over the last tenth of them, 20 to 100
    unless 0            0 in every row, or no number in any, says that it was not computed: left out
    only ppo,trpo       other algorithms use the same tag for something else
    anything else       how it is estimated, where that differs from the metric dictionary

`*` in a tag stands for any part of it. Two lines for one canonical name: the first tag that the log has counts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from rlclinic import metrics
from rlclinic.runs.coerce import real


@dataclass(frozen=True, slots=True)
class Tag:
    """One line of a table."""

    canonical: str
    tag: str
    factor: float = 1.0
    divide_by: str = ""
    estimator: str = ""
    episodic: bool = False
    algos: frozenset[str] = frozenset()
    computed: bool = False
    """0 throughout is no measurement."""

    def scale(self, settings: Mapping[str, Any]) -> float | None:
        """What to multiply logged values with; None where that needs a setting that is not known."""
        if not self.divide_by:
            return self.factor
        weight = real(settings.get(self.divide_by))
        return self.factor / weight if weight else None


@dataclass(frozen=True)
class Framework:
    """Whose log it is: its tags, and what it counts on the axis."""

    name: str
    source: str
    tags: tuple[Tag, ...]
    axis: str = "env_steps"
    """env_steps, vec_steps (times n_envs) or iterations (times n_envs x n_steps)."""
    left_out: tuple[str, ...] = ()
    """Tags on another axis, of seconds or epochs."""

    @property
    def needs_settings(self) -> bool:
        """Whether its numbers say something only together with settings."""
        return self.axis != "env_steps" or any(tag.divide_by for tag in self.tags)

    def table(self, algo: str | None = None) -> list[Tag]:
        """The lines that hold for an algorithm, then our own names, which a callback may have written into any log."""
        chosen = [tag for tag in self.tags if not tag.algos or algo in tag.algos]
        return chosen + OWN


EPISODE_SERIES: Final = {
    "train/roll/ep_rew_mean": {
        "mean": "train/roll/ep_rew_mean",
        "std": "train/roll/ep_rew_std",
        "best": "train/roll/ep_rew_best",
        "count": "total_episodes",
    },
}
"""What single episodes' values say besides their mean."""


def find_matching(tag: Tag, names: Collection[str]) -> list[str]:
    """The names of a log that a line means."""
    if "*" not in tag.tag:
        return [tag.tag] if tag.tag in names else []
    return [name for name in names if fnmatchcase(name, tag.tag)]


def parse_table(text: str) -> tuple[Tag, ...]:
    """The lines of a table."""
    return tuple(_parse_line(line) for line in text.strip().splitlines())


def _parse_line(line: str) -> Tag:
    canonical, name, *more = (cell.strip() for cell in line.split("|"))
    if metrics.find(canonical) is None:
        raise ValueError(f"{canonical} is no metric")
    values: dict[str, Any] = {}
    for cell in more:
        if cell.startswith("x "):
            values["factor"] = float(cell[2:])
        elif cell.startswith("/ "):
            values["divide_by"] = cell[2:]
        elif cell.startswith("only "):
            values["algos"] = frozenset(cell[5:].split(","))
        elif cell in ("episodes", "unless 0"):
            values["episodic" if cell == "episodes" else "computed"] = True
        else:
            values["estimator"] = cell
    return Tag(canonical, name, **values)


ANY: Final = "tensorboard"
"""The source of tags that scripts of any kind use."""
OWN: Final = [Tag(name, name) for name in [*metrics.METRICS, *metrics.FOREIGN] if name not in ("time", "total_timesteps")]

SB3: Final = Framework("Stable-Baselines3", "sb3", parse_table("""
    train/adversary/expert_accuracy | mean/disc/disc_acc_expert
    train/adversary/policy_accuracy | mean/disc/disc_acc_gen
    train/roll/ep_rew_mean | rollout/ep_rew_mean
    train/roll/ep_len_mean | rollout/ep_len_mean
    train/roll/success_rate | rollout/success_rate
    total_episodes | time/episodes
    epoch | time/iterations
    val/roll/ep_rew_mean | eval/mean_reward
    val/roll/ep_len_mean | eval/mean_ep_length
    val/roll/success_rate | eval/success_rate
    train/loss/policy | train/policy_gradient_loss
    train/loss/policy | train/policy_loss | one gradient step
    train/loss/policy | train/pg_loss
    train/loss/policy | train/policy_objective | x -1
    train/loss/value | train/value_loss
    train/loss/entropy | train/entropy_loss
    train/metrics/entropy | train/entropy_loss | x -1
    train/loss/total | train/loss | last minibatch | only ppo,recurrent_ppo,maskable_ppo,ppo_mask,ppo_lstm
    train/loss/td | train/loss | Huber | only dqn,qrdqn
    train/loss/actor | train/actor_loss
    train/loss/critic | train/critic_loss | half the sum over critics
    train/loss/alpha | train/ent_coef_loss
    train/metrics/kl_divergence | train/approx_kl
    train/metrics/kl_divergence | train/kl_divergence_loss | exact
    train/metrics/clip_fraction | train/clip_fraction
    train/metrics/explained_variance | train/explained_variance
    train/metrics/action_std | train/std
    train/metrics/q_mean | train/qf_mean_value
    train/sentinel/optimizer_steps | train/n_updates | only a2c,dqn,qrdqn,sac,td3,ddpg,tqc,crossq
    train/hp/learning_rate | train/learning_rate
    train/hp/clip_range | train/clip_range
    train/hp/clip_range_vf | train/clip_range_vf
    train/hp/alpha | train/ent_coef
    train/hp/epsilon | rollout/exploration_rate
    time/fps | time/fps | since the start of learn()
"""))  # fmt: skip

BASELINES: Final = Framework("OpenAI Baselines and Stable Baselines 2", "console", parse_table("""
    train/roll/ep_rew_mean | ep_reward_mean
    train/roll/ep_rew_mean | eprewmean
    train/roll/ep_rew_mean | mean 100 episode reward
    train/roll/ep_len_mean | ep_len_mean
    train/roll/ep_len_mean | eplenmean
    total_episodes | episodes
    train/loss/policy | policy_loss
    train/loss/policy | loss/policy_loss
    train/loss/value | value_loss | x 2
    train/loss/value | loss/value_loss | x 2
    train/metrics/entropy | policy_entropy
    train/metrics/entropy | loss/policy_entropy
    train/metrics/kl_divergence | approxkl | half the mean squared log-ratio
    train/metrics/kl_divergence | loss/approxkl | half the mean squared log-ratio
    train/metrics/clip_fraction | clipfrac
    train/metrics/clip_fraction | loss/clipfrac
    train/metrics/explained_variance | explained_variance
    train/metrics/explained_variance | misc/explained_variance
    train/hp/epsilon | % time spent exploring | x 0.01
    time/fps | fps
"""))  # fmt: skip

CLEANRL: Final = Framework("CleanRL", "cleanrl", parse_table("""
    train/roll/ep_rew_mean | charts/episodic_return | episodes
    train/roll/ep_len_mean | charts/episodic_length | episodes
    val/roll/ep_rew_mean | eval/episodic_return | one episode each
    train/loss/policy | losses/policy_loss | last minibatch
    train/loss/value | losses/value_loss | x 2 | last minibatch
    train/loss/entropy | losses/entropy | x -1 | last minibatch
    train/metrics/entropy | losses/entropy | last minibatch
    train/loss/td | losses/td_loss | mean squared
    train/loss/td | losses/loss
    train/loss/actor | losses/actor_loss
    train/loss/critic | losses/qf_loss | mean over critics
    train/loss/critic | losses/qf1_loss
    train/loss/alpha | losses/alpha_loss
    train/metrics/kl_divergence | losses/approx_kl | k3, last minibatch
    train/metrics/kl_signed | losses/old_approx_kl | k1, last minibatch
    train/metrics/clip_fraction | losses/clipfrac
    train/metrics/explained_variance | losses/explained_variance
    train/metrics/q_mean | losses/q_values
    train/metrics/q_mean | losses/qf1_values
    train/metrics/q2_mean | losses/qf2_values
    train/hp/alpha | losses/alpha
    train/hp/learning_rate | charts/learning_rate
    train/hp/epsilon | charts/epsilon
    time/fps | charts/SPS | since the start
"""))  # fmt: skip

PUFFERLIB: Final = Framework("PufferLib", "pufferlib", parse_table("""
    train/roll/ep_rew_mean | environment/episode_return
    train/roll/ep_len_mean | environment/episode_length
    train/loss/policy | losses/policy_loss
    train/loss/value | losses/value_loss | x 2
    train/loss/entropy | losses/entropy | x -1
    train/metrics/entropy | losses/entropy
    train/metrics/kl_divergence | losses/approx_kl
    train/metrics/kl_signed | losses/old_approx_kl | k1
    train/metrics/clip_fraction | losses/clipfrac
    train/metrics/explained_variance | losses/explained_variance
    train/hp/learning_rate | charts/learning_rate
    time/fps | performance/SPS
    time/fps | SPS
"""))  # fmt: skip

RLLIB: Final = Framework("RLlib", "rllib", parse_table("""
    train/roll/ep_rew_mean | env_runners/episode_return_mean
    train/roll/ep_rew_mean | episode_reward_mean
    train/roll/ep_len_mean | env_runners/episode_len_mean
    train/roll/ep_len_mean | episode_len_mean
    total_episodes | env_runners/num_episodes_lifetime
    total_episodes | episodes_total
    val/roll/ep_rew_mean | evaluation/env_runners/episode_return_mean
    val/roll/ep_rew_mean | evaluation/episode_reward_mean
    train/loss/policy | learners/default_policy/policy_loss
    train/loss/policy | info/learner/*/learner_stats/policy_loss
    train/loss/value | learners/default_policy/vf_loss_unclipped
    train/loss/value | learners/default_policy/vf_loss | clamped at vf_clip_param
    train/loss/value | info/learner/*/learner_stats/vf_loss | clamped at vf_clip_param
    train/loss/total | learners/default_policy/total_loss
    train/loss/total | info/learner/*/learner_stats/total_loss
    train/loss/td | learners/default_policy/qf_loss | only dqn
    train/loss/actor | learners/default_policy/policy_loss | only sac
    train/loss/critic | learners/default_policy/qf_loss | only sac
    train/metrics/q_mean | learners/default_policy/qf_mean
    train/loss/alpha | learners/default_policy/alpha_loss
    train/metrics/entropy | learners/default_policy/entropy
    train/metrics/entropy | info/learner/*/learner_stats/entropy
    train/metrics/kl_divergence | learners/default_policy/mean_kl_loss | exact | unless 0
    train/metrics/kl_divergence | info/learner/*/learner_stats/kl | exact | unless 0
    train/metrics/explained_variance | learners/default_policy/vf_explained_var
    train/metrics/explained_variance | info/learner/*/learner_stats/vf_explained_var
    train/metrics/grad_norm/all | learners/default_policy/gradients_*_global_norm
    train/hp/alpha | learners/default_policy/alpha_value
    train/hp/learning_rate | learners/default_policy/*_learning_rate
    train/hp/learning_rate | info/learner/*/learner_stats/cur_lr
""") + tuple(
    # What rlclinic's callback logs in the env runners.
    Tag(name, name.replace("train/", "env_runners/", 1)) for name in metrics.METRICS if name.startswith("train/sentinel/")
))  # fmt: skip

TIANSHOU: Final = Framework("Tianshou", "tianshou", parse_table("""
    train/roll/ep_rew_mean | training/returns_stat/mean
    train/roll/ep_len_mean | training/lens_stat/mean | only dqn,qrdqn,c51,rainbow,sac,td3,ddpg
    train/roll/ep_rew_std | training/returns_stat/std
    val/roll/ep_rew_mean | test/returns_stat/mean
    val/roll/ep_rew_std | test/returns_stat/std
    val/roll/ep_len_mean | test/lens_stat/mean
    train/loss/policy | update/actor_loss/mean
    train/loss/value | update/vf_loss/mean
    train/loss/entropy | update/ent_loss/mean | x -1
    train/metrics/entropy | update/ent_loss/mean
    train/loss/total | update/loss/mean
    train/loss/td | update/loss | only dqn,qrdqn,c51,rainbow
    train/loss/actor | update/actor_loss
    train/loss/critic | update/critic1_loss
    train/loss/critic | update/critic_loss
    train/loss/alpha | update/alpha_loss
    train/hp/alpha | update/alpha
    time/fps | training/collect_speed
"""), left_out=("info/*",))  # fmt: skip
"""Its on-policy collections count the length of an episode from their own beginning, and its return from the episode's."""

SKRL: Final = Framework("skrl", "skrl", parse_table("""
    train/roll/ep_rew_mean | Reward / Total reward (mean)
    train/roll/ep_len_mean | Episode / Total timesteps (mean)
    train/loss/policy | Loss / Policy loss
    train/loss/value | Loss / Value loss | / algo.vf_coef
    train/loss/entropy | Loss / Entropy loss | / algo.ent_coef
    train/metrics/entropy | Loss / Entropy loss | x -1 | / algo.ent_coef
    train/loss/actor | Loss / Policy loss | only sac,td3,ddpg
    train/loss/critic | Loss / Critic loss
    train/loss/td | Loss / Q-network loss
    train/metrics/q_mean | Q-network / Q1 (mean)
    train/metrics/q2_mean | Q-network / Q2 (mean)
    train/metrics/q_mean | Target / Target (mean)
    train/metrics/action_std | Policy / Standard deviation | unless 0
    train/hp/alpha | Coefficient / Entropy coefficient
    train/hp/epsilon | Exploration / Exploration epsilon
    train/hp/learning_rate | Learning / Learning rate
    train/hp/learning_rate | Learning / Policy learning rate
"""), axis="vec_steps")  # fmt: skip

RSL_RL: Final = Framework("rsl_rl", "rsl_rl", parse_table("""
    train/roll/ep_rew_mean | Train/mean_reward
    train/roll/ep_len_mean | Train/mean_episode_length
    train/loss/policy | Loss/surrogate
    train/loss/value | Loss/value
    train/loss/value | Loss/value_function
    train/metrics/entropy | Loss/entropy
    train/metrics/action_std | Policy/mean_std
    train/metrics/action_std | Policy/mean_noise_std
    train/hp/learning_rate | Loss/learning_rate
    time/fps | Perf/total_fps | all envs
"""), axis="iterations", left_out=("*/time",))  # fmt: skip

SAMPLE_FACTORY: Final = Framework("Sample Factory", "sample_factory", parse_table("""
    train/roll/ep_rew_mean | reward/reward
    train/roll/ep_len_mean | len/len
    train/loss/policy | train/policy_loss
    train/loss/value | train/value_loss | / algo.vf_coef
    train/loss/total | train/loss
    train/metrics/entropy | train/entropy
    train/metrics/kl_divergence | train/kl_divergence
    train/metrics/clip_fraction | train/fraction_clipped
    train/metrics/grad_norm/all | train/grad_norm
    train/hp/learning_rate | train/lr
    time/fps | perf/_fps
"""))  # fmt: skip

TORCHRL: Final = Framework("TorchRL", ANY, parse_table("""
    train/roll/ep_rew_mean | train/reward
    train/roll/ep_len_mean | train/episode_length
    val/roll/ep_rew_mean | eval/reward
    train/loss/policy | train/loss_objective
    train/loss/value | train/loss_critic | / algo.vf_coef | smooth L1
    train/metrics/entropy | train/entropy
    train/metrics/kl_signed | train/kl_approx | k1
    train/metrics/clip_fraction | train/clip_fraction
    train/metrics/explained_variance | train/explained_variance
    train/metrics/grad_norm/all | train/grad_norm
    train/loss/td | train/q_loss
    train/metrics/q_mean | train/q_values
    train/loss/actor | train/actor_loss
    train/loss/alpha | train/alpha_loss
    train/hp/alpha | train/alpha
    train/hp/epsilon | train/epsilon
    train/hp/learning_rate | train/lr
"""))  # fmt: skip

D3RLPY: Final = Framework("d3rlpy", "d3rlpy", parse_table("""
    train/roll/ep_rew_mean | rollout_return
    val/roll/ep_rew_mean | evaluation
    val/roll/ep_rew_mean | environment
    train/loss/td | loss | only dqn
    train/loss/actor | actor_loss
    train/loss/critic | critic_loss
    train/loss/alpha | temp_loss
    train/hp/alpha | temp
    train/metrics/q_mean | average_value
    train/loss/value | v_loss | only iql
    train/loss/critic | q_loss | only iql
    train/loss/actor | loss | only bc,dt
"""))  # fmt: skip
"""Told by its folder's params.json: its names are anybody's."""

IMITATION: Final = Framework("imitation", "imitation", parse_table("""
    train/roll/ep_rew_mean | rollout/return_mean
    train/roll/ep_rew_std | rollout/return_std
    train/loss/actor | bc/loss
    train/metrics/entropy | bc/entropy
"""))  # fmt: skip
"""What the library imitation clones; what it trains against a discriminator has the tags of SB3."""

FRAMEWORKS: Final = (SB3, CLEANRL, PUFFERLIB, RLLIB, TIANSHOU, SKRL, RSL_RL, SAMPLE_FACTORY, TORCHRL, IMITATION)

EPISODIC: Final = frozenset(tag.tag for framework in FRAMEWORKS for tag in framework.tags if tag.episodic)


def recognize(names: Iterable[str]) -> Framework | None:
    """The framework that most tags of a log belong to; None if fewer than two do."""
    known = set(names)
    best, most = None, 1
    for framework in FRAMEWORKS:
        hits = sum(bool(find_matching(tag, known)) for tag in {tag.tag: tag for tag in framework.tags}.values())
        if hits > most:
            best, most = framework, hits
    return best
