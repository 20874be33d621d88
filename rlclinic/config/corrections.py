"""Corrections of the trainer: what it computes differently since a defect was repaired, by name.

A run keeps the meaning that it was begun under. Its config.json names the corrections that were made by then (`corrections`; where
there is no such list, none was), so that a resume, a fork or an extension either goes on in the old way or is refused with the reason.
Reading, listing, evaluating and diagnosing a run need nothing of this.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from rlclinic.actions import Action
from rlclinic.config.algorithms import OffPolicyConfig, ReinforceConfig
from rlclinic.config.experiment import Config
from rlclinic.config.off_policy import DQNConfig, SACConfig


@dataclass(frozen=True)
class Correction:
    """One repaired defect that changes what some runs compute."""

    before: str
    """What such a run computed before, to follow "it was begun when"."""
    touches: Callable[[Config, bool], bool]
    """Whether it makes a difference to a config, given whether the environments have steps that only reset (VecEnv.skips)."""
    goes_on: bool = False
    """Whether a run of before can go on as it began, because the trainer still knows the old way; else it is refused."""


CORRECTIONS: Final[dict[str, Correction]] = {
    "rmsprop_as_torch": Correction(
        before="RMSprop added epsilon inside the root instead of after it",
        touches=lambda config, skips: config.algo.optimizer == "rmsprop",
        goes_on=True,
    ),
    "equal_advantages_are_zero": Correction(
        before="advantages that were all equal were standardized to the rounding of their mean, as large as any others",
        touches=lambda config, skips: getattr(config.algo, "normalize_advantage", "off") != "off",
        goes_on=True,
    ),
    "reset_rows_under_wrappers": Correction(
        before="steps in which a vector environment only reset were learned from under env.frame_stack or env.time_in_obs",
        touches=lambda config, skips: skips and config.algo.loop == "off_policy" and (config.env.frame_stack > 1 or config.env.time_in_obs),
    ),
    "uncounted_rows_without_priority": Correction(
        before="rows that count nothing (resets of a vector environment, lost final observations) were drawn by priority, more and more",
        touches=lambda config, skips: (
            isinstance(config.algo, DQNConfig) and config.algo.prioritized and (skips or config.algo.optimize_memory_usage)
        ),
    ),
    "n_step_rewards_clipped_one_by_one": Correction(
        before="env.normalize_reward clipped the sum of algo.n_step rewards instead of each of them",
        touches=lambda config, skips: isinstance(config.algo, OffPolicyConfig) and config.algo.n_step > 1 and config.env.normalize_reward,
    ),
    "masked_q_targets": Correction(
        before="forbidden actions counted in what Q-values were learned towards (env.action_mask)",
        touches=lambda config, skips: config.env.action_mask and config.algo.name in ("dqn", "q_learning"),
    ),
    "reinforce_gae_lambda": Correction(
        before="algo.gae_lambda was ignored by reinforce",
        touches=lambda config, skips: isinstance(config.algo, ReinforceConfig) and config.algo.baseline and config.algo.gae_lambda != 1.0,
    ),
    "sac_action_noise": Correction(
        before="algo.action_noise was made of the very numbers that SAC's policy had drawn its action from",
        touches=lambda config, skips: isinstance(config.algo, SACConfig) and config.algo.action_noise != "none",
    ),
    "table_of_bonus_values": Correction(
        before="the value of a bonus by counts was learned by a network instead of a table over the cells that are counted",
        touches=lambda config, skips: (
            config.bonus is not None
            and config.bonus.kind in ("count", "episodic_count")
            and config.bonus.value_head != "shared"
            and config.algo.loop == "on_policy"
        ),
        goes_on=True,
    ),
    "bonus_critic_by_half_batches": Correction(
        before="the critic of a bonus learned from twice as many rows in each of its steps",
        touches=lambda config, skips: (
            config.bonus is not None
            and config.bonus.kind in ("rnd", "noveld", "icm")
            and config.bonus.value_head != "shared"
            and config.algo.loop == "on_policy"
        ),
        goes_on=True,
    ),
    "stages_by_their_own_arguments": Correction(
        before="stages of a curriculum were given the arguments that the last one alone names",
        touches=lambda config, skips: (
            config.curriculum is not None
            and any(config.curriculum.tasks[-1].kwargs.keys() - task.kwargs.keys() for task in config.curriculum.tasks)
        ),
    ),
    "ranks_summed_in_order": Correction(
        before="gradients of three ranks and more were summed in the order of the ring that carried them",
        touches=lambda config, skips: config.run.data_parallel > 2,
        goes_on=True,
    ),
}
"""Every correction so far. A name is never reused."""


def inherited(names: Collection[str], config: Config) -> list[str]:
    """The corrections that a child of a run computes by: all but those that the parent, with these `names`, was touched by and lacks."""
    return [name for name, correction in CORRECTIONS.items() if name in names or not correction.touches(config, True)]


def refusal(run_id: str, names: Collection[str], config: Config, *, skips: bool) -> tuple[str, ...] | None:
    """Why a run that was begun with only these corrections cannot go on, as the parts of an error; None if it can."""
    for name, correction in CORRECTIONS.items():
        if name not in names and not correction.goes_on and correction.touches(config, skips):
            return (
                f"{run_id} cannot go on: it was begun when {correction.before}, which is a corrected defect ({name}).\n"
                "  The rest of it would be computed differently from what it has learned so far, so its curve would have two meanings.\n"
                "  Train its settings anew: ",
                Action("train", run_id),
            )
    return None
