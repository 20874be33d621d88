"""The planted bugs: one list for the mutation suite and for everything else that needs training which is wrong in a known way.

A bug replaces one function through its module, so training itself has no switch for it. Nothing raises: these are the silent
ones, which train on and write plausible numbers.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.mutations import broken_learning, broken_maths, broken_running, broken_sentinels


class Seam(NamedTuple):
    """A function of `rlclinic.training.<module>`, or a Class.method there, that all callers look up by name."""

    module: str
    attribute: str

    def find(self) -> tuple[Any, str]:
        """The object that holds it, and its name there."""
        holder: Any = importlib.import_module(f"rlclinic.training.{self.module}")
        *path, name = self.attribute.split(".")
        for part in path:
            holder = getattr(holder, part)
        return holder, name


@dataclass(frozen=True)
class Bug:
    """One replacement: what lies at the seam becomes `breaks(what lies there)`."""

    id: str
    what: str
    """What the broken code does, in a sentence."""
    seam: Seam
    breaks: Callable[[Any], Any]
    engine: str | None = None
    """The `run.engine` that it takes effect in; None: in every one."""


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Training with the bug in it, inside the block."""
    holder, name = bug.seam.find()
    original = vars(holder)[name]
    setattr(holder, name, bug.breaks(original))
    try:
        yield
    finally:
        setattr(holder, name, original)


GAE = Seam("maths.returns", "gae")
STACK = Seam("loops.on_policy", "stack")
GAUSSIAN_LOG_PROB = Seam("maths.distributions", "Gaussian.log_prob")
GRADIENT = Seam("fast.gradients", "gradient")
PPO_SLOPES = Seam("fast.ppo", "slopes")
SURROGATE = Seam("maths.losses", "clipped_surrogate")
VALUE_CLIP = Seam("maths.losses", "clipped_value_error")
CATEGORICAL_SLOPE = Seam("maths.distributions", "Categorical.with_slope")
GAUSSIAN_SLOPE = Seam("maths.distributions", "Gaussian.with_slope")
BACKWARD = Seam("fast.actor_critic_backward", "_through_layers")
MEAN = Seam("maths.losses", "mean")
HYPERPARAMETERS = Seam("members", "hyperparameters")
OPTIMIZER_STEP = Seam("optim", "step")
PERMUTATION = Seam("rng", "permutation")
MINIBATCHES = Seam("data.rollouts", "minibatches")
ENV_DRAWS = Seam("envs.native.engine", "_Draws.uniform")
ENV_STEP = Seam("envs.native.engine", "NativeEnv.step")
EVALUATE = Seam("evaluation", "evaluate")
WEIGHTS = Seam("checkpoints.snapshot", "weights")

BUGS: tuple[Bug, ...] = (
    # ── advantages and returns ──
    Bug("advantage-sign", "Advantages have the wrong sign: bad actions are reinforced.", GAE, broken_maths.negated_advantage),
    Bug("truncation-as-termination", "A time limit counts as a terminal state.", GAE, broken_maths.truncation_is_termination),
    Bug("termination-ignored", "Values are bootstrapped through terminal states.", GAE, broken_maths.termination_is_ignored),
    Bug("gae-across-episodes", "The GAE trace runs into the next episode.", GAE, broken_maths.trace_runs_across_episodes),
    Bug(
        "returns-not-reversed",
        "Discounted sums run forwards in time.",
        Seam("maths.returns", "_discounted_sum"),
        broken_maths.sums_run_forwards,
    ),
    Bug("gamma-missing", "Rewards are not discounted.", GAE, broken_maths.no_discount),
    Bug("lambda-ignored", "gae_lambda is always 1.", GAE, broken_maths.no_lambda),
    Bug("bootstrap-own-value", "Steps bootstrap from V(s) in place of V(s').", GAE, broken_maths.bootstrap_from_own_value),
    Bug("bootstrap-from-reset", "Ends bootstrap from the next episode's start.", STACK, broken_learning.bootstrap_from_the_reset),
    Bug(
        "unfinished-count",
        "REINFORCE learns from returns that were cut off.",
        Seam("maths.returns", "rewards_to_go"),
        broken_maths.unfinished_episodes_count,
    ),
    # ── log-probabilities and actions ──
    Bug("log-prob-stale", "Old log-probabilities are one rollout old.", STACK, broken_learning.log_prob_one_rollout_old),
    Bug("log-prob-shifted", "Old log-probabilities belong to the step before.", STACK, broken_learning.log_prob_of_the_step_before),
    Bug(
        "clipped-action-stored",
        "The clipped action is stored, the raw one's log-probability.",
        STACK,
        broken_learning.clipped_action_stored,
    ),
    Bug(
        "clipped-action-log-prob", "The clipped action's log-probability is stored.", STACK, broken_learning.log_prob_of_the_clipped_action
    ),
    Bug("gaussian-no-log-std", "A Gaussian's log-probability lacks log_std.", GAUSSIAN_LOG_PROB, broken_maths.log_prob_without_log_std),
    Bug(
        "gaussian-no-constant", "A Gaussian's log-probability is not normalized.", GAUSSIAN_LOG_PROB, broken_maths.log_prob_without_constant
    ),
    Bug(
        "gaussian-variance",
        "Noise is scaled by the variance.",
        Seam("maths.distributions", "Gaussian.sample"),
        broken_maths.variance_for_deviation,
    ),
    Bug(
        "multi-first-only",
        "Only the first of several choices has a log-probability.",
        Seam("maths.distributions", "MultiCategorical.log_prob"),
        broken_maths.first_component_only,
    ),
    Bug("gumbel-sign", "Gumbel noise has the wrong sign (invisible with two actions).", Seam("rng", "gumbel"), broken_running.negated),
    Bug("mask-ignored", "Forbidden actions are chosen.", Seam("nets.mlp", "finish"), broken_learning.mask_is_ignored),
    Bug(
        "mask-ignored-in-update",
        "The update forgets which actions were forbidden.",
        GRADIENT,
        broken_learning.mask_is_ignored_in_the_update,
    ),
    # ── losses and their gradients ──
    Bug("entropy-sign", "Entropy is punished.", GRADIENT, broken_learning.entropy_is_punished),
    Bug("value-loss-sign", "The critic is driven away from its targets.", GRADIENT, broken_learning.critic_is_driven_away),
    Bug("value-error-negated", "The value loss has the wrong sign.", Seam("maths.losses", "value_error"), broken_maths.negated, "autograd"),
    Bug("value-clip-optimistic", "Value clipping takes the smaller error.", VALUE_CLIP, broken_maths.optimistic_value_clip, "autograd"),
    Bug("dead-surrogate", "The old log-probability is recomputed, so the ratio is 1.", GRADIENT, broken_learning.old_log_prob_recomputed),
    Bug("surrogate-max", "The surrogate takes the larger of the two terms.", SURROGATE, broken_maths.optimistic_surrogate, "autograd"),
    Bug("surrogate-unclipped", "The ratio is not clipped.", SURROGATE, broken_maths.unclipped_surrogate, "autograd"),
    Bug("ratio-inverted", "The ratio is old over new.", SURROGATE, broken_maths.inverted_ratio, "autograd"),
    Bug("slopes-unclipped", "The gradient goes on beyond the clip.", PPO_SLOPES, broken_learning.slopes_beyond_the_clip, "eager"),
    Bug("slopes-inverted", "The gradient is weighed by old over new.", PPO_SLOPES, broken_learning.slopes_with_the_inverse_ratio, "eager"),
    Bug("slopes-no-value-clip", "The gradient ignores value clipping.", PPO_SLOPES, broken_learning.slopes_without_value_clip, "eager"),
    Bug("slopes-summed", "The policy's gradient is a sum, not a mean.", PPO_SLOPES, broken_learning.slopes_summed_over_rows, "eager"),
    Bug(
        "slope-chosen-only",
        "Only the chosen action's logit is pushed.",
        CATEGORICAL_SLOPE,
        broken_learning.slope_of_the_chosen_logit_only,
        "eager",
    ),
    Bug("slope-no-log-std", "A Gaussian's deviation gets no gradient.", GAUSSIAN_SLOPE, broken_learning.slope_without_log_std, "eager"),
    Bug("slope-no-tanh", "The gradient ignores that units saturate.", BACKWARD, broken_learning.saturated_units_learn_like_others, "eager"),
    Bug("kl-sign", "The KL estimate is negative, so target_kl never stops.", Seam("maths.losses", "kl_k3"), broken_maths.negated),
    Bug("invalid-rows-count", "Rows of weight 0 are averaged in.", MEAN, broken_maths.mean_counts_every_row),
    # ── members of a cohort ──
    Bug("mean-without-axis", "Losses are [M] against numbers [M, 1]: members mix.", MEAN, broken_maths.mean_drops_the_axis, "autograd"),
    Bug(
        "number-without-axis",
        "vf_coef is [M] against losses [M, 1].",
        HYPERPARAMETERS,
        broken_learning.numbers_without_member_axis,
        "autograd",
    ),
    Bug(
        "first-members-numbers",
        "All members train with the first one's numbers.",
        HYPERPARAMETERS,
        broken_learning.first_members_numbers_for_all,
    ),
    Bug(
        "advantage-over-cohort",
        "Advantages are scaled over all members together.",
        Seam("maths.normalize", "standardize"),
        broken_maths.standardized_over_the_cohort,
    ),
    Bug(
        "clip-jointly",
        "Gradients are clipped by the norm of all members together.",
        Seam("optim", "clip_by_norm"),
        broken_maths.clipped_jointly,
    ),
    Bug(
        "same-weights",
        "Every seed starts from the same weights.",
        Seam("nets.mlp", "initialize"),
        broken_learning.same_weights_for_every_seed,
    ),
    Bug("seed-ignored", "Every seed draws the same numbers.", Seam("rng", "bits"), broken_running.seed_is_ignored),
    # ── optimizer, networks, numbers ──
    Bug(
        "adam-no-correction",
        "Adam's moments are not corrected for their start at zero.",
        Seam("optim", "_adam_direction"),
        broken_maths.no_bias_correction,
    ),
    Bug("adam-shared-count", "All members share Adam's step count.", OPTIMIZER_STEP, broken_maths.one_step_count_for_all),
    Bug("frozen-move", "Frozen members are updated.", OPTIMIZER_STEP, broken_maths.frozen_members_move),
    Bug(
        "frozen-moments-move", "Frozen members keep their weights but not their moments.", OPTIMIZER_STEP, broken_maths.frozen_moments_move
    ),
    Bug(
        "schedule-budget",
        "Schedules run over ten times the budget.",
        Seam("members", "value_at"),
        broken_learning.budget_ten_times_too_long,
    ),
    Bug(
        "value-lr-ignored",
        "value_lr governs no parameter.",
        Seam("nets.mlp", "ActorCritic.critic_names"),
        broken_learning.no_parameter_is_the_critics,
    ),
    Bug("actor-trunk-frozen", "The policy's hidden layers get no gradient.", GRADIENT, broken_learning.actor_trunk_gets_no_gradient),
    Bug("critic-trunk-frozen", "The value's hidden layers get no gradient.", GRADIENT, broken_learning.critic_trunk_gets_no_gradient),
    Bug("gain-ignored", "All layers start with gain 1.", Seam("nets.layout", "orthogonal"), broken_learning.gain_is_ignored),
    # ── normalizers ──
    Bug(
        "statistics-in-rollout",
        "The normalizer moves while the rollout is collected.",
        Seam("loops.on_policy", "normalize_obs"),
        broken_learning.statistics_move_within_the_rollout,
    ),
    Bug(
        "statistics-before-update",
        "The update sees other statistics than the rollout.",
        Seam("loops.on_policy", "estimate_advantages"),
        broken_learning.statistics_move_before_the_update,
    ),
    Bug(
        "statistics-forgotten",
        "The normalizer knows the last batch only.",
        Seam("maths.normalize", "include"),
        broken_maths.only_the_last_batch_counts,
    ),
    Bug(
        "observations-unclipped",
        "Normalized observations are not clipped.",
        Seam("maths.normalize", "observations"),
        broken_maths.observations_not_clipped,
    ),
    Bug(
        "reward-mean-subtracted",
        "The reward normalizer subtracts the mean.",
        Seam("maths.normalize", "rewards"),
        broken_maths.reward_mean_subtracted,
    ),
    Bug(
        "reward-carry-leaks",
        "The reward normalizer sums across episodes.",
        Seam("maths.normalize", "discounted_returns"),
        broken_maths.carry_survives_the_end,
    ),
    # ── minibatches and noise ──
    Bug("permutation-repeats", "Minibatches repeat some rows and miss others.", PERMUTATION, broken_learning.permutation_with_repeats),
    Bug("same-order-each-epoch", "Every epoch uses the same order.", PERMUTATION, broken_learning.same_order_each_epoch),
    Bug("same-order-each-iteration", "Every rollout is shuffled alike.", PERMUTATION, broken_learning.same_order_each_iteration),
    Bug("rows-dropped", "Every other minibatch is skipped.", MINIBATCHES, broken_learning.every_other_minibatch),
    Bug("rows-misaligned", "Advantages are not shuffled along with their rows.", MINIBATCHES, broken_learning.advantages_stay_behind),
    Bug(
        "noise-reused",
        "Every rollout draws the same action noise.",
        Seam("loops.on_policy", "collect"),
        broken_learning.same_noise_each_iteration,
    ),
    # ── environments ──
    Bug("same-start-all-envs", "All envs of a member start alike.", ENV_DRAWS, broken_running.same_draws_in_every_env),
    Bug("same-start-all-episodes", "Every episode starts alike.", ENV_DRAWS, broken_running.same_start_every_episode),
    Bug("no-time-limit", "Native envs have no time limit.", Seam("envs.native.engine", "NativeEnv.__init__"), broken_running.no_time_limit),
    Bug(
        "pole-bound",
        "CartPole ends at twice the angle and distance.",
        Seam("envs.native.cartpole", "CartPole.advance"),
        broken_running.pole_may_fall_twice_as_far,
    ),
    Bug(
        "final-obs-overwritten",
        "The final observation is the next episode's first.",
        ENV_STEP,
        broken_running.final_observation_overwritten,
    ),
    Bug(
        "limit-reported-terminal",
        "The env reports its time limit as termination.",
        ENV_STEP,
        broken_running.time_limit_reported_as_termination,
    ),
    Bug("observation-late", "The agent sees the observation of the step before.", ENV_STEP, broken_running.observation_one_step_late),
    Bug("never-reset", "Envs go on after an episode's end.", Seam("envs.native.engine", "NativeEnv._restart"), broken_running.never_reset),
    # ── evaluation, statistics, checkpoints ──
    Bug(
        "evaluation-samples",
        "Evaluation samples where the mode was asked for.",
        EVALUATE,
        broken_running.samples_where_the_mode_was_asked_for,
    ),
    Bug(
        "evaluation-mode",
        "Evaluation takes the mode where samples were asked for.",
        EVALUATE,
        broken_running.mode_where_samples_were_asked_for,
    ),
    Bug("evaluation-raw", "Evaluation shows the policy unnormalized observations.", EVALUATE, broken_running.evaluation_without_normalizer),
    Bug(
        "returns-add-up",
        "An episode's return is not reset at its end.",
        Seam("data.episodes", "Episodes._finish"),
        broken_running.returns_keep_adding_up,
    ),
    Bug(
        "best-is-last",
        "@best is the last checkpoint, not the best.",
        Seam("checkpoints.files", "write"),
        broken_running.every_checkpoint_is_the_best,
    ),
    Bug("resume-no-moments", "A resume starts with fresh optimizer moments.", WEIGHTS, broken_running.optimizer_state_lost),
    Bug("resume-no-normalizer", "A resume starts with a fresh normalizer.", WEIGHTS, broken_running.normalizer_lost),
    Bug(
        "resume-new-episodes",
        "A resume starts new episodes.",
        Seam("checkpoints.snapshot", "place"),
        broken_running.environments_start_anew,
    ),
    Bug("nan-applied", "An update that is not finite is applied.", Seam("failures", "keep_finite"), broken_running.broken_update_applied),
    # ── what training says about itself ──
    Bug(
        "kl-counts-resets",
        "KL is averaged over rows that are no transition.",
        Seam("maths.losses", "kl_k3"),
        broken_sentinels.kl_of_every_row,
    ),
    Bug(
        "readings-count-resets",
        "Clip fraction and ratios include rows that are no transition.",
        Seam("loops.on_policy", "_reduce"),
        broken_sentinels.readings_of_every_row,
    ),
    Bug(
        "sentinels-count-resets",
        "Sentinels include rows that are no transition.",
        Seam("sentinels.on_policy_sentinels", "_one_by_one"),
        broken_sentinels.sentinels_look_at_every_row,
    ),
    Bug(
        "reset-row-as-start",
        "The row of a reset is taken for the start that follows it.",
        Seam("sentinels.on_policy_sentinels", "after_resets"),
        broken_sentinels.resets_count_as_what_followed,
    ),
    Bug(
        "fingerprint-no-order",
        "A fingerprint ignores the order.",
        Seam("sentinels.fingerprints", "_weights"),
        broken_sentinels.places_weigh_the_same,
    ),
    Bug(
        "fingerprint-rounded",
        "A fingerprint misses small changes.",
        Seam("sentinels.fingerprints", "_bits"),
        broken_sentinels.rounded_before_hashing,
    ),
    Bug(
        "fingerprint-no-moments",
        "The optimizer's fingerprint is of its step count alone.",
        Seam("sentinels.fingerprints", "of_state"),
        broken_sentinels.moments_left_out,
    ),
    Bug(
        "baseline-not-random",
        "The random baseline repeats one action.",
        Seam("sentinels.random_policy", "uniform"),
        broken_sentinels.first_action_always,
    ),
    Bug(
        "left-but-stepped",
        "Members that have left are still stepped.",
        Seam("assembly", "Cohort.retire"),
        broken_sentinels.everybody_is_stepped,
    ),
)
