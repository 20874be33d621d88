"""Scales: of observations and rewards, and how much of the reward can be found by chance."""

import math
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.env.examination import Examination, Remark
from rlclinic.diagnosis.registry import say

ENOUGH = 200
"""Random steps below which nothing is said about scales."""
LARGE, HUGE, TINY = 50.0, 1_000.0, 1e-3
LARGE_REWARD, TINY_REWARD = 200.0, 1e-3
SPREAD = 1_000.0
ROUNDING = 1e-9
OFTEN, SHORT_EPISODE = 0.2, 100
"""The share of random episodes that meet a goal which is thereby no matter of exploration, and how long they may last."""
STILL = 1e-7
"""Deviations below this are rounding, whatever an observation is measured in."""


def _looked(examination: Examination) -> bool:
    return (examination.random.get("steps") or 0) >= ENOUGH


@check("ENV301", Severity.HIGH, ["nikanjam2022faults"])
def observation_never_changes(examination: Examination) -> Iterator[Remark]:
    """The observation is always the same.

    ## Why it hurts
    The agent cannot tell one state from another.

    ## When it is fine
    Never, but for bandits.

    ## Fix
    Return the current state, not the one of reset().
    """
    moving = [each for each in examination.facts.get("dimensions") or [] if each["std"] > STILL]
    if _looked(examination) and examination.facts.get("dimensions") and not moving:
        steps = examination.random["steps"]
        yield Remark(f"all {len(examination.facts['dimensions'])} numbers of the observation stayed the same for {steps} random steps")


@check("ENV302", Severity.LOW, ["andrychowicz2021matters"])
def constant_dimension(examination: Examination) -> Iterator[Remark]:
    """Some numbers of the observation never change.

    ## Why it hurts
    They carry nothing; normalizers divide by their deviation of 0.

    ## When it is fine
    Goals that stay within an episode, and events that random actions never meet.

    ## Fix
    Leave them out, or look whether their sensor works.
    """
    fixed = [place for place, each in enumerate(examination.dimensions) if each["std"] == 0]
    if _looked(examination) and fixed and len(fixed) < len(examination.dimensions):
        shown = ", ".join(map(str, fixed[:8])) + (", …" if len(fixed) > 8 else "")
        share = f"{len(fixed)} of {len(examination.dimensions)} numbers"
        # Parts of a picture may stay dark, as long as actions show in the rest of it.
        picture = len(examination.observation.get("shape") or []) == 3
        moves = examination.facts.get("transitions") or {}
        gain = moves.get("action_gain", moves.get("direct_gain", 1.0))
        strength = 0.3 if picture and (gain > 0.1 or len(fixed) < 0.05 * len(examination.dimensions)) else 1.0
        yield Remark(f"observation[{shown}] never changed in {examination.random['steps']} random steps: {share}", strength=strength)


@check("ENV303", Severity.MEDIUM, ["andrychowicz2021matters"])
def observation_scale(examination: Examination) -> Iterator[Remark]:
    """Some numbers of the observation are large.

    ## Why it hurts
    They drown the others and saturate tanh units from the start.

    ## When it is fine
    With normalized observations.

    ## Fix
    Scale by known ranges, or normalize: env.normalize_obs=true, VecNormalize, NormalizeObservation.
    """
    if not _looked(examination) or examination.observation.get("dtype") == "uint8" or examination.is_normalized("Observation"):
        return
    sizes = [max(abs(dimension["min"]), abs(dimension["max"])) for dimension in examination.dimensions]
    large = [place for place, size in enumerate(sizes) if size > LARGE]
    if large:
        worst = max(large, key=lambda place: sizes[place])
        share = f"{len(large)} of {len(sizes)} numbers are larger than {LARGE:g}" if len(large) > 1 else "the others are smaller"
        yield Remark(f"observation[{worst}] reaches {say(sizes[worst])}; {share}", strength=1.0 if sizes[worst] > HUGE / 5 else 0.3)


@check("ENV304", Severity.LOW, ["andrychowicz2021matters"])
def scales_differ(examination: Examination) -> Iterator[Remark]:
    """The numbers of the observation differ in scale by more than a thousand.

    ## Why it hurts
    Small ones are invisible to a fresh network.

    ## When it is fine
    With normalized observations.

    ## Fix
    Normalize: env.normalize_obs=true, VecNormalize, NormalizeObservation.
    """
    spreads = [dimension["std"] for dimension in examination.dimensions if dimension["std"] > ROUNDING]
    if examination.is_normalized("Observation"):
        return
    if _looked(examination) and len(spreads) > 1 and max(spreads) / min(spreads) > SPREAD and max(spreads) <= LARGE:
        yield Remark(f"deviations of the observation's numbers go from {say(min(spreads))} to {say(max(spreads))}")


@check("ENV305", Severity.MEDIUM, ["raffin2021sb3"])
def image_as_numbers(examination: Examination) -> Iterator[Remark]:
    """An image is given as floating-point numbers that are not scaled to 0..1.

    ## Why it hurts
    Libraries divide uint8 by 255 and leave floats alone: activations are hundreds of times too large.

    ## When it is fine
    Where the network scales them.

    ## Fix
    Box(0, 255, shape, np.uint8)
    """
    shape = examination.observation.get("shape") or []
    highest = max((each["max"] for each in examination.facts.get("dimensions") or []), default=0.0)
    if len(shape) == 3 and examination.observation.get("dtype", "").startswith("float") and highest > 2:
        yield Remark(f"the observation looks like an image of shape {shape}, as {examination.observation['dtype']} up to {say(highest)}")


@check("ENV306", Severity.LOW, ["sutton2018book"])
def state_number_as_quantity(examination: Examination) -> Iterator[Remark]:
    """The observation is a whole number that may be the number of a state.

    ## Why it hurts
    A network takes 7 for something between 6 and 8.

    ## When it is fine
    Real counts and positions.

    ## Fix
    spaces.Discrete(n), which libraries show as one-hot.
    """
    for place, each in enumerate(examination.dimensions):
        if _looked(examination) and each["whole"] and each["max"] - each["min"] >= 8 and len(examination.dimensions) <= 2:
            text = f"observation[{place}] is always a whole number, {each['min']:g} to {each['max']:g}"
            yield Remark(f"{text}: if it numbers states, neighbours mean nothing")
            return


# ── rewards ──


@check("ENV307", Severity.MEDIUM, ["schulman2016nuts"])
def reward_never_seen(examination: Examination) -> Iterator[Remark]:
    """Random actions never bring a reward.

    ## Why it hurts
    Nothing tells the agent what to repeat: the gradient is 0 until chance finds the goal.

    ## When it is fine
    Tasks with demonstrations, curiosity or a curriculum.

    ## Fix
    Shape the reward by a potential, start closer to the goal, or explore on purpose.
    """
    rewards = examination.rewards
    if _looked(examination) and rewards and rewards["min"] == rewards["max"] == 0:
        yield Remark(f"{examination.random['steps']} random steps brought no reward at all")


@check("ENV308", Severity.LOW, ["schulman2016nuts"])
def return_never_varies(examination: Examination) -> Iterator[Remark]:
    """Every random episode returns the same.

    ## Why it hurts
    All advantages are 0 until chance finds something better.

    ## When it is fine
    Tasks with large exploration (MountainCar).

    ## Fix
    More exploration, a shaped reward, or a longer time limit.
    """
    returns = examination.random.get("returns") or []
    rewarded = examination.rewards and not examination.rewards["min"] == examination.rewards["max"] == 0
    if len(returns) >= 8 and max(returns) - min(returns) < 1e-9 and rewarded:
        yield Remark(f"all {len(returns)} random episodes returned {say(returns[0])}: chance never finds anything better")


@check("ENV309", Severity.MEDIUM, ["jones2021debugging"])
def reward_scale(examination: Examination) -> Iterator[Remark]:
    """Rewards are large.

    ## Why it hurts
    Value targets in the thousands: the value loss drowns the policy's, and gradients are always clipped.

    ## When it is fine
    With normalized rewards.

    ## Fix
    Divide the reward by a constant, or normalize it: env.normalize_reward=true, VecNormalize.
    """
    rewards = examination.rewards
    if not _looked(examination) or not rewards or examination.is_normalized("Reward"):
        return
    size = max(abs(rewards["min"]), abs(rewards["max"]))
    typical = math.sqrt(rewards["mean"] ** 2 + rewards["std"] ** 2)
    if size > 10 * LARGE_REWARD or typical > LARGE_REWARD:
        yield Remark(f"rewards go from {say(rewards['min'])} to {say(rewards['max'])} (typically {say(typical)} a step)")


@check("ENV310", Severity.MEDIUM, ["jones2021debugging"])
def reward_tiny(examination: Examination) -> Iterator[Remark]:
    """Rewards are tiny.

    ## Why it hurts
    The entropy bonus and the noise of the value function are larger than what is to be learned.

    ## When it is fine
    With normalized rewards.

    ## Fix
    Multiply the reward by a constant, or normalize it.
    """
    rewards = examination.rewards
    size = max(abs(rewards["min"]), abs(rewards["max"])) if rewards else 0.0
    if _looked(examination) and 0 < size < TINY_REWARD and not examination.is_normalized("Reward"):
        yield Remark(f"no reward is larger than {say(size)}")


@check("ENV312", Severity.LOW, ["sutton2018book"])
def reward_at_the_end_only(examination: Examination) -> Iterator[Remark]:
    """The only reward comes at the end of an episode.

    ## Why it hurts
    Credit must travel back over the whole episode: gamma and lambda decide whether it arrives.

    ## When it is fine
    Games and goals; they are like that. Not said where the environment reports success and random play has it soon and often.

    ## Fix
    gamma with 1/(1-gamma) above the episode's length; potential-based shaping.
    """
    rewards = examination.rewards
    lengths = examination.random.get("lengths") or []
    usual = sum(lengths) / len(lengths) if lengths else 0.0
    if _looked(examination) and rewards and rewards["nonzero"] > 0 and rewards["at_ends"] > 0.999 and usual > 5:
        share = rewards["nonzero"] * usual
        if min(share, examination.random.get("success") or 0.0) >= OFTEN and usual <= SHORT_EPISODE:
            return
        yield Remark(f"a reward comes at the end of an episode only, in {min(share, 1):.0%} of the random ones")


@check("ENV311", Severity.LOW, ["schulman2016nuts"])
def doing_nothing_pays(examination: Examination) -> Iterator[Remark]:
    """Doing nothing earns more than acting at random.

    ## Why it hurts
    The first thing an agent learns is to stand still, and then it explores no more.

    ## When it is fine
    Where standing still is right.

    ## Fix
    More exploration noise at the start, a reward for progress, a smaller cost of actions.
    """
    by = {each.label: each for each in examination.played}
    random = by.get("random")
    idle = by.get("middle")
    if idle is None or random is None or idle.mean is None or random.mean is None or random.high is None or random.low is None:
        return
    longer = idle.length is not None and random.length is not None and idle.length > 1.02 * random.length
    if not longer and idle.mean > random.high + (random.high - random.low) and abs(idle.mean - random.mean) > 0.1 * abs(random.mean):
        text = f"repeating the middle action returns {say(idle.mean)}, random actions {say(random.mean)}"
        yield Remark(f"{text}: the first thing learned is to do nothing")
