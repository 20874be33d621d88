"""Spaces: what the environment says that it takes and gives, against what was seen."""

from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.env.examination import Examination, Remark
from rlclinic.diagnosis.registry import say

FAR, NEAR = 100.0, 0.05
"""Half-widths of action bounds beyond which a policy that starts with deviation 1 cannot find its way."""
SLIGHT_SHARE = 0.05
TRAINABLE = frozenset({"Discrete", "MultiDiscrete", "MultiBinary", "Box", "none"})


@check("ENV106", Severity.MEDIUM, ["towers2024gymnasium"])
def observation_out_of_bounds(examination: Examination) -> Iterator[Remark]:
    """Observations leave the bounds that the space declares.

    ## Why it hurts
    Whoever rescales by the bounds (or clips to them) shows the agent something else than there is.

    ## When it is fine
    Where nothing uses the bounds; slightly out and seldom is common, and weighs little.

    ## Fix
    Widen the space's bounds, or clip the observation.
    """
    noted = examination.breach("observation-out-of-bounds")
    if noted is None:
        return
    steps = examination.random.get("steps") or 0
    # Seldom out, under random actions, is how many published environments are; it hurts only where bounds are used to rescale.
    slight = steps > 0 and examination.random.get("out_of_bounds", steps) / steps < SLIGHT_SHARE
    yield Remark(f"{noted['text']} ({noted['count']} times)", strength=0.3 if slight else 1.0, numbers={"count": float(noted["count"])})


@check("ENV112", Severity.MEDIUM, ["raffin2021sb3"])
def action_space_not_trainable(examination: Examination) -> Iterator[Remark]:
    """The action space is nested, or of a kind that few algorithms know.

    ## Why it hurts
    Most libraries choose from Discrete, MultiDiscrete, MultiBinary and Box only, and refuse the rest.

    ## When it is fine
    With an algorithm made for it.

    ## Fix
    Flatten it in a wrapper: one MultiDiscrete or one Box.
    """
    space = examination.action
    if space.get("kind") and space["kind"] not in TRAINABLE:
        yield Remark(f"the action space is {space['text']}; most libraries choose from Discrete, MultiDiscrete, MultiBinary and Box only")


@check("ENV113", Severity.HIGH, ["raffin2021sb3"])
def action_bounds_infinite(examination: Examination) -> Iterator[Remark]:
    """Actions have no finite bounds.

    ## Why it hurts
    There is nothing to rescale or squash by; samples of the space are Gaussian, and policies drift to values that the task never meant.

    ## When it is fine
    Where the environment itself squashes.

    ## Fix
    spaces.Box(-1, 1, …), scaled inside step().
    """
    for place, low, high in examination.bounds():
        clipped = "ClipAction" in (examination.facts.get("wrappers") or ())  # which takes any action, and cuts it to the box inside
        if not clipped and (abs(low) == float("inf") or abs(high) == float("inf")):
            yield Remark(f"action[{place}] goes from {low:g} to {high:g}: there is nothing to scale actions by")
            return


@check("ENV114", Severity.HIGH, ["raffin2021sb3"])
def action_bounds_equal(examination: Examination) -> Iterator[Remark]:
    """The lowest action is not below the highest.

    ## Why it hurts
    Nothing can be chosen: every action is clipped to one value.

    ## When it is fine
    Never.

    ## Fix
    Correct low and high of the Box.
    """
    for place, low, high in examination.bounds():
        if low >= high:
            yield Remark(f"action[{place}] goes from {low:g} to {high:g}: nothing can be chosen")
            return


@check("ENV115", Severity.MEDIUM, ["raffin2021sb3"])
def action_bounds_far_from_one(examination: Examination) -> Iterator[Remark]:
    """Actions live on a scale far from that of a fresh policy.

    ## Why it hurts
    Gaussian policies start near 0 with deviation 1. In bounds of ±1000 they hardly act; in ±0.01, or in [0, 1000], they sit at a
    bound from the start.

    ## When it is fine
    With a policy that rescales to the bounds (squashing SAC, RescaleAction).

    ## Fix
    spaces.Box(-1, 1, …), scaled inside step(); or gymnasium.wrappers.RescaleAction(env, -1, 1).
    """
    for place, low, high in examination.bounds():
        half, centre = (high - low) / 2, (high + low) / 2
        if not half > 0 or half == float("inf"):
            continue
        if half > FAR or half < NEAR:
            share = f"{say(100 / half)} %" if half > FAR else "nearly all"
            yield Remark(f"action[{place}] goes from {low:g} to {high:g}; a policy that starts near 0 with deviation 1 uses {share} of it")
            return
        if abs(centre) > 2 * half or (low >= 0 and half > 2):
            # From 0 to a few: half of what a fresh policy draws is cut off there, and the rest still acts.
            mild = half <= 2 or (low == 0 and half <= 5)
            yield Remark(f"action[{place}] goes from {low:g} to {high:g}, far from 0, where policies start", strength=0.3 if mild else 1.0)
            return


@check("ENV101", Severity.HIGH, ["towers2024gymnasium"])
def space_missing(examination: Examination) -> Iterator[Remark]:
    """observation_space or action_space is missing, or is no Gymnasium space.

    ## Why it hurts
    Training builds its networks from the spaces; without them it cannot begin.

    ## When it is fine
    Never.

    ## Fix
    Set both in __init__: self.action_space = gymnasium.spaces.Discrete(2).
    """
    yield from examination.noted("space-missing")


@check("ENV102", Severity.HIGH, ["towers2024gymnasium"])
def reset_signature(examination: Examination) -> Iterator[Remark]:
    """reset does not take a seed, or does not return (obs, info).

    ## Why it hurts
    Callers unpack two values and pass seed=: they raise, or split the observation in two.

    ## When it is fine
    Never with Gymnasium.

    ## Fix
    def reset(self, *, seed=None, options=None): super().reset(seed=seed); …; return obs, {}
    """
    yield from examination.noted("reset-signature")


@check("ENV103", Severity.HIGH, ["towers2024gymnasium"])
def step_signature(examination: Examination) -> Iterator[Remark]:
    """step does not return five values.

    ## Why it hurts
    Nothing can train on it; with four, a time limit cannot be told from an end.

    ## When it is fine
    Never with Gymnasium.

    ## Fix
    return obs, reward, terminated, truncated, info
    """
    yield from examination.noted("step-signature")


@check("ENV104", Severity.HIGH, ["towers2024gymnasium"])
def observation_shape_or_type(examination: Examination) -> Iterator[Remark]:
    """Observations do not have the shape or kind that the space declares.

    ## Why it hurts
    Networks are built for the declared shape: training raises at the first batch, or broadcasts silently.

    ## When it is fine
    Never.

    ## Fix
    Return np.array(…, dtype=self.observation_space.dtype) of the declared shape.
    """
    yield from examination.noted("observation-shape-or-type")


@check("ENV105", Severity.LOW, ["towers2024gymnasium"])
def observation_of_another_type(examination: Examination) -> Iterator[Remark]:
    """Observations have another number type than the space declares.

    ## Why it hurts
    float64 in place of float32 costs a conversion at every step, and strict checkers refuse it.

    ## When it is fine
    Nearly always; most libraries convert.

    ## Fix
    obs.astype(np.float32)
    """
    yield from examination.noted("observation-of-another-type")


@check("ENV107", Severity.HIGH, ["jones2021debugging"])
def not_finite(examination: Examination) -> Iterator[Remark]:
    """An observation or a reward is NaN or infinite.

    ## Why it hurts
    One NaN spreads through the first gradient step to every weight; the error appears far from its cause.

    ## When it is fine
    Never.

    ## Fix
    Find the division or the square root in step(), and guard it; check with np.isfinite before returning.
    """
    yield from examination.noted("not-finite")


@check("ENV108", Severity.MEDIUM, ["towers2024gymnasium"])
def flags_not_boolean(examination: Examination) -> Iterator[Remark]:
    """terminated or truncated is not a bool.

    ## Why it hurts
    Masks computed from it take the wrong type: ~1 is -2, and an array where a flag is meant has no truth value.

    ## When it is fine
    np.bool_ counts as bool.

    ## Fix
    bool(…) around both.
    """
    yield from examination.noted("flags-not-boolean")


@check("ENV109", Severity.HIGH, ["towers2024gymnasium"])
def reward_not_a_number(examination: Examination) -> Iterator[Remark]:
    """The reward is not a single number.

    ## Why it hurts
    Arrays of shape [1] broadcast into returns of the wrong shape; None and text raise later.

    ## When it is fine
    Vector rewards for algorithms made for them.

    ## Fix
    float(reward)
    """
    yield from examination.noted("reward-not-a-number")


@check("ENV110", Severity.MEDIUM, ["towers2024gymnasium"])
def info_not_a_dict(examination: Examination) -> Iterator[Remark]:
    """info is not a dict.

    ## Why it hurts
    Wrappers write into it (episode statistics, final observations) and raise.

    ## When it is fine
    Never with Gymnasium.

    ## Fix
    return obs, reward, terminated, truncated, {}
    """
    yield from examination.noted("info-not-a-dict")


@check("ENV111", Severity.HIGH, ["towers2024gymnasium"])
def observation_aliased(examination: Examination) -> Iterator[Remark]:
    """A returned observation changes afterwards: step writes into the same array.

    ## Why it hurts
    Every stored observation becomes the latest one: the buffer holds one state many times, and nothing can be learned from it.

    ## When it is fine
    Where every caller copies at once.

    ## Fix
    return self.state.copy()
    """
    yield from examination.noted("observation-aliased")
