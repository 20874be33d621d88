"""Spaces: what the environment says that it takes and gives, against what was seen."""

from collections.abc import Iterator

from rlclinic.diagnosis.lint.env.seen import Remark, Seen
from rlclinic.diagnosis.registry import say

FAR, NEAR = 100.0, 0.05
"""Half-widths of action bounds beyond which a policy that starts with deviation 1 cannot find its way."""
SLIGHT_SHARE = 0.05
TRAINABLE = frozenset({"Discrete", "MultiDiscrete", "MultiBinary", "Box", "none"})


def observation_out_of_bounds(seen: Seen) -> Iterator[Remark]:
    noted = seen.breach("observation-out-of-bounds")
    if noted is None:
        return
    steps = seen.random.get("steps") or 0
    # Seldom out, under random actions, is how many published environments are; it hurts only where bounds are used to rescale.
    slight = steps > 0 and seen.random.get("out_of_bounds", steps) / steps < SLIGHT_SHARE
    yield Remark(f"{noted['text']} ({noted['count']} times)", strength=0.3 if slight else 1.0, numbers={"count": float(noted["count"])})


def action_space_not_trainable(seen: Seen) -> Iterator[Remark]:
    if seen.action.get("kind") and seen.action["kind"] not in TRAINABLE:
        yield Remark(
            f"the action space is {seen.action['text']}; most libraries choose from Discrete, MultiDiscrete, MultiBinary and Box only"
        )


def action_bounds_infinite(seen: Seen) -> Iterator[Remark]:
    for place, low, high in seen.bounds():
        if abs(low) == float("inf") or abs(high) == float("inf"):
            yield Remark(f"action[{place}] goes from {low:g} to {high:g}: there is nothing to scale actions by")
            return


def action_bounds_equal(seen: Seen) -> Iterator[Remark]:
    for place, low, high in seen.bounds():
        if low >= high:
            yield Remark(f"action[{place}] goes from {low:g} to {high:g}: nothing can be chosen")
            return


def action_bounds_far_from_one(seen: Seen) -> Iterator[Remark]:
    for place, low, high in seen.bounds():
        half, centre = (high - low) / 2, (high + low) / 2
        if not half > 0 or half == float("inf"):
            continue
        if half > FAR or half < NEAR:
            share = f"{say(100 / half)} %" if half > FAR else "nearly all"
            yield Remark(f"action[{place}] goes from {low:g} to {high:g}; a policy that starts near 0 with deviation 1 uses {share} of it")
            return
        if abs(centre) > 2 * half or (low >= 0 and half > 2):
            yield Remark(
                f"action[{place}] goes from {low:g} to {high:g}, far from 0, where policies start", strength=0.3 if half <= 2 else 1.0
            )
            return
