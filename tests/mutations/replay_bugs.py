"""The planted bugs of learners with a replay, each with the cause that a diagnosis of a short run should name."""

from typing import Final, NamedTuple

from tests.mutations import broken_replay
from tests.mutations.bugs import Bug, Seam

GATHER = Seam("data.replay", "gather")
FOLLOW = Seam("loops.off_policy", "follow")


class Planted(NamedTuple):
    """A bug, where it is seen (a config of tests.mutations.replays), and what it should be called."""

    bug: Bug
    learner: str
    causes: tuple[str, ...]


PLANTED: Final = (
    Planted(
        Bug("replay-mask-inverted", "Only terminal states are bootstrapped from.", GATHER, broken_replay.mask_inverted),
        "dqn",
        ("episode-ends-ignored",),
    ),
    Planted(
        Bug("replay-mask-missing", "Values are bootstrapped through terminal states.", GATHER, broken_replay.no_mask),
        "dqn",
        ("episode-ends-ignored",),
    ),
    Planted(
        Bug("replay-limit-terminal", "A time limit counts as a terminal state.", GATHER, broken_replay.limit_is_the_end),
        "sac",
        ("time-limit-as-terminal",),
    ),
    Planted(Bug("replay-no-discount", "Targets are not discounted.", GATHER, broken_replay.discount_missing), "dqn", ("returns-wrong",)),
    Planted(
        Bug(
            "replay-reset-stored", "The next observation of an end is the reset's.", Seam("data.replay", "add"), broken_replay.reset_stored
        ),
        "dqn-cut",  # only a time limit looks at a final observation
        ("final-observation-overwritten",),
    ),
    Planted(
        Bug(
            "n-step-across-episodes",
            "n-step sums run into the next episode.",
            Seam("maths.returns", "n_step"),
            broken_replay.ends_not_looked_at,
        ),
        "dqn-steps",
        ("returns-wrong", "episode-ends-ignored"),
    ),
    Planted(
        Bug("weights-missing", "Prioritized rows all weigh the same.", Seam("data.replay", "by_priority"), broken_replay.weights_missing),
        "dqn-prioritized",
        ("importance-weights-missing",),
    ),
    Planted(
        Bug("target-never-follows", "The target network is never updated.", FOLLOW, broken_replay.never_follows),
        "dqn",
        ("target-update-wrong",),
    ),
    Planted(
        Bug(
            "target-every-step",
            "The Q-network is copied at every step.",
            Seam("algos.dqn", "follow_targets"),
            broken_replay.copied_at_every_step,
        ),
        "dqn",
        ("target-update-wrong",),
    ),
    Planted(Bug("target-tau-ignored", "tau is always 1.", FOLLOW, broken_replay.follows_at_once), "sac", ("target-update-wrong",)),
    Planted(
        Bug(
            "double-target-chooses",
            "The target network chooses and judges.",
            Seam("algos.dqn", "targets"),
            broken_replay.target_network_chooses,
        ),
        "dqn",
        ("returns-wrong",),
    ),
    Planted(
        Bug("critic-largest", "The most daring critic counts.", Seam("nets.q_nets", "critics"), broken_replay.largest_critic),
        "sac",
        ("returns-wrong",),
    ),
    Planted(
        Bug("soft-target-hard", "SAC's target leaves the entropy out.", Seam("algos.sac", "targets"), broken_replay.entropy_left_out),
        "sac",
        ("returns-wrong",),
    ),
    Planted(
        Bug("action-not-scaled", "Actions reach the env as -1 to 1.", Seam("loops.off_policy", "to_env"), broken_replay.not_scaled),
        "sac",
        ("action-bounds",),
    ),
    Planted(
        Bug(
            "epsilon-inverted",
            "Greedy with probability epsilon.",
            Seam("maths.exploration", "epsilon_greedy"),
            broken_replay.explores_when_it_should_not,
        ),
        "dqn",
        ("schedule-not-followed",),
    ),
    Planted(
        Bug(
            "temperature-sign",
            "The temperature's loss is negated.",
            Seam("fast.sac", "update_temperature"),
            broken_replay.temperature_upside_down,
        ),
        "sac",
        ("temperature-sign",),
    ),
    Planted(
        Bug("q-slope-sign", "The Huber loss is climbed.", Seam("fast.dqn", "huber_slope"), broken_replay.slope_negated),
        "dqn",
        ("values-run-away", "learning-rate-too-high", "not-finite"),
    ),
)
BUGS: Final = tuple(planted.bug for planted in PLANTED)
