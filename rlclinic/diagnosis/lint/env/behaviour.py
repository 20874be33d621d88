"""Behaviour: ends, seeds, effects, changes with time, speed."""

import math
from collections import Counter
from collections.abc import Iterator

from rlclinic.diagnosis.lint.env.seen import Remark, Seen
from rlclinic.diagnosis.registry import say

LONG, SHORT, MANY = 2_000, 2.5, 8
WALL, FEWEST_STEPS = 6, 10
SLOW, VERY_SLOW = 200.0, 20.0
HAIR = 0.03
SHIFT = 5.0
"""How many standard errors two halves of the episodes must differ by."""


def every_seed_is_the_same(seen: Seen) -> Iterator[Remark]:
    found = seen.facts.get("seeding") or {}
    if found.get("repeats") and not found.get("seed_matters", True):
        yield Remark("five seeds with the same actions gave the same episode: there is no chance in it")


def reset_does_not_reset(seen: Seen) -> Iterator[Remark]:
    yield from _by_size(seen, "reset-does-not-reset")


def reset_ignores_seed(seen: Seen) -> Iterator[Remark]:
    yield from _by_size(seen, "reset-ignores-seed")


def _by_size(seen: Seen, kind: str) -> Iterator[Remark]:
    """Physics engines keep the state of their solvers: episodes that differ by a hair are worth knowing, and no more."""
    noted = seen.breach(kind)
    if noted is not None:
        size = noted["numbers"].get("size", 1.0)
        yield Remark(noted["text"], strength=1.0 if size > HAIR else 0.1, numbers={"size": size})


def action_dimension_without_effect(seen: Seen) -> Iterator[Remark]:
    idle = (seen.facts.get("effects") or {}).get("idle_dimensions") or []
    if idle:
        yield Remark(f"action{idle if len(idle) > 1 else [idle[0]]}: its lowest and its highest value gave the same episode")


def no_end_seen(seen: Seen) -> Iterator[Remark]:
    steps = seen.random.get("steps") or 0
    if steps < LONG or seen.random.get("returns"):
        return
    limit = seen.facts.get("time_limit")
    if limit is not None and limit > steps:
        yield Remark(f"no episode ended in {steps} random steps; the time limit is {limit}", "a shorter max_episode_steps", 0.3)
    elif limit is None:
        yield Remark(f"no episode ended in {steps} random steps, and there is no time limit", strength=0.3 if seen.ends else 1.0)


def ends_at_once(seen: Seen) -> Iterator[Remark]:
    lengths = seen.random.get("lengths") or []
    if len(lengths) >= MANY and sum(lengths) / len(lengths) < SHORT and max(lengths) < 10 and set(lengths) != {1}:
        yield Remark(f"random episodes last {sum(lengths) / len(lengths):.1f} steps: there is hardly anything to learn from")


def clock_reported_as_terminated(seen: Seen) -> Iterator[Remark]:
    lengths, terminated = seen.random.get("lengths") or [], seen.random.get("terminated") or 0
    if len(lengths) >= MANY and len(set(lengths)) == 1 and lengths[0] > 3 and terminated == len(lengths):
        yield Remark(f"all {len(lengths)} random episodes ended after exactly {lengths[0]} steps, as `terminated`: that is a clock")
    elif lengths and terminated == len(lengths) and _is_a_wall(lengths):
        last, count = max(lengths), lengths.count(max(lengths))
        text = f"none of {len(lengths)} random episodes is longer than {last} steps, and {count} end exactly there, as `terminated`"
        yield Remark(f"{text}: that is a clock")


def _is_a_wall(lengths: list[int]) -> bool:
    """Whether the greatest length is where a limit cuts: many episodes share it, and other lengths are spread out."""
    counts = Counter(lengths)
    last = max(lengths)
    others = [count for length, count in counts.items() if length != last]
    return last > FEWEST_STEPS and counts[last] >= WALL and counts[last] >= WALL * max(others, default=0) / 2 and len(others) >= WALL


def changes_over_time(seen: Seen) -> Iterator[Remark]:
    returns = seen.random.get("returns") or []
    lengths = seen.random.get("lengths") or []
    if len(returns) < 20:
        return
    rates = [total / length for total, length in zip(returns, lengths, strict=True)]
    half = len(rates) // 2
    (first, first_var), (second, second_var) = _moments(rates[:half]), _moments(rates[half:])
    error = math.sqrt(first_var / half + second_var / (len(rates) - half))
    gap = abs(second - first)
    if gap > max(SHIFT * error, 1e-9) and gap > 0.2 * max(abs(first), abs(second)):
        text = f"the reward per step is {say(first)} in the first half of the episodes and {say(second)} in the second"
        yield Remark(f"with the same random policy, {text}")


def _moments(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, sum((each - mean) ** 2 for each in values) / max(len(values) - 1, 1)


def slow(seen: Seen) -> Iterator[Remark]:
    rate = seen.steps_per_second
    if rate is not None and rate < SLOW:
        hours = 1e6 / rate / 3600
        yield Remark(
            f"{say(rate)} steps/s: a million steps take {say(hours)} hours in one process", strength=1.0 if rate < VERY_SLOW else 0.3
        )


def blocks(seen: Seen) -> Iterator[Remark]:
    where = seen.facts.get("blocked_in")
    if where:
        text = f"the environment did not come back within {seen.facts.get('limit', 0):g} s, while {where} was looked at"
        yield Remark(text, "If it only starts slowly: a larger --seconds. Else make it without rendering, and give every wait a limit.")
