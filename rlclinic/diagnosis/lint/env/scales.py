"""Scales: of observations and rewards, and how much of the reward can be found by chance."""

import math
from collections.abc import Iterator

from rlclinic.diagnosis.lint.env.seen import Remark, Seen
from rlclinic.diagnosis.registry import say

ENOUGH = 200
"""Random steps below which nothing is said about scales."""
LARGE, HUGE, TINY = 50.0, 1_000.0, 1e-3
LARGE_REWARD, TINY_REWARD = 200.0, 1e-3
SPREAD = 1_000.0
ROUNDING = 1e-9


def _looked(seen: Seen) -> bool:
    return (seen.random.get("steps") or 0) >= ENOUGH


def observation_never_changes(seen: Seen) -> Iterator[Remark]:
    moving = [each for each in seen.facts.get("dimensions") or [] if each["std"] > 0]
    if _looked(seen) and seen.facts.get("dimensions") and not moving:
        yield Remark(
            f"all {len(seen.facts['dimensions'])} numbers of the observation stayed the same for {seen.random['steps']} random steps"
        )


def constant_dimension(seen: Seen) -> Iterator[Remark]:
    fixed = [place for place, each in enumerate(seen.dimensions) if each["std"] == 0]
    if _looked(seen) and fixed and len(fixed) < len(seen.dimensions):
        shown = ", ".join(map(str, fixed[:8])) + (", …" if len(fixed) > 8 else "")
        yield Remark(
            f"observation[{shown}] never changed in {seen.random['steps']} random steps: {len(fixed)} of {len(seen.dimensions)} numbers"
        )


def observation_scale(seen: Seen) -> Iterator[Remark]:
    if not _looked(seen) or seen.observation.get("dtype") == "uint8":
        return
    sizes = [max(abs(each["min"]), abs(each["max"])) for each in seen.dimensions]
    large = [place for place, size in enumerate(sizes) if size > LARGE]
    if large:
        worst = max(large, key=lambda place: sizes[place])
        share = f"{len(large)} of {len(sizes)} numbers are larger than {LARGE:g}" if len(large) > 1 else "the others are smaller"
        yield Remark(f"observation[{worst}] reaches {say(sizes[worst])}; {share}", strength=1.0 if sizes[worst] > HUGE / 5 else 0.3)


def scales_differ(seen: Seen) -> Iterator[Remark]:
    spreads = [each["std"] for each in seen.dimensions if each["std"] > ROUNDING]
    if _looked(seen) and len(spreads) > 1 and max(spreads) / min(spreads) > SPREAD and max(spreads) <= LARGE:
        yield Remark(f"deviations of the observation's numbers go from {say(min(spreads))} to {say(max(spreads))}")


def image_as_numbers(seen: Seen) -> Iterator[Remark]:
    shape = seen.observation.get("shape") or []
    highest = max((each["max"] for each in seen.facts.get("dimensions") or []), default=0.0)
    if len(shape) == 3 and seen.observation.get("dtype", "").startswith("float") and highest > 2:
        yield Remark(f"the observation looks like an image of shape {shape}, as {seen.observation['dtype']} up to {say(highest)}")


def state_number_as_quantity(seen: Seen) -> Iterator[Remark]:
    for place, each in enumerate(seen.dimensions):
        if _looked(seen) and each["whole"] and each["max"] - each["min"] >= 8 and len(seen.dimensions) <= 2:
            text = f"observation[{place}] is always a whole number, {each['min']:g} to {each['max']:g}"
            yield Remark(f"{text}: if it numbers states, neighbours mean nothing")
            return


# ── rewards ──


def reward_never_seen(seen: Seen) -> Iterator[Remark]:
    found = seen.rewards
    if _looked(seen) and found and found["min"] == found["max"] == 0:
        yield Remark(f"{seen.random['steps']} random steps brought no reward at all")


def return_never_varies(seen: Seen) -> Iterator[Remark]:
    returns = seen.random.get("returns") or []
    rewarded = seen.rewards and not seen.rewards["min"] == seen.rewards["max"] == 0
    if len(returns) >= 8 and max(returns) - min(returns) < 1e-9 and rewarded:
        yield Remark(f"all {len(returns)} random episodes returned {say(returns[0])}: chance never finds anything better")


def reward_scale(seen: Seen) -> Iterator[Remark]:
    found = seen.rewards
    if not _looked(seen) or not found:
        return
    size = max(abs(found["min"]), abs(found["max"]))
    typical = math.sqrt(found["mean"] ** 2 + found["std"] ** 2)
    if size > 10 * LARGE_REWARD or typical > LARGE_REWARD:
        yield Remark(f"rewards go from {say(found['min'])} to {say(found['max'])} (typically {say(typical)} a step)")


def reward_tiny(seen: Seen) -> Iterator[Remark]:
    found = seen.rewards
    size = max(abs(found["min"]), abs(found["max"])) if found else 0.0
    if _looked(seen) and 0 < size < TINY_REWARD:
        yield Remark(f"no reward is larger than {say(size)}")


def reward_at_the_end_only(seen: Seen) -> Iterator[Remark]:
    found = seen.rewards
    lengths = seen.random.get("lengths") or []
    if _looked(seen) and found and found["nonzero"] > 0 and found["at_ends"] > 0.999 and lengths and sum(lengths) / len(lengths) > 5:
        share = found["nonzero"] * sum(lengths) / len(lengths)
        yield Remark(f"a reward comes at the end of an episode only, in {min(share, 1):.0%} of the random ones")


def doing_nothing_pays(seen: Seen) -> Iterator[Remark]:
    by = {each.label: each for each in seen.played}
    random = by.get("random")
    idle = by.get("middle")
    if idle is None or random is None or idle.mean is None or random.mean is None or random.high is None or random.low is None:
        return
    longer = idle.length is not None and random.length is not None and idle.length > 1.02 * random.length
    if not longer and idle.mean > random.high + (random.high - random.low) and abs(idle.mean - random.mean) > 0.1 * abs(random.mean):
        text = f"repeating the middle action returns {say(idle.mean)}, random actions {say(random.mean)}"
        yield Remark(f"{text}: the first thing learned is to do nothing")
