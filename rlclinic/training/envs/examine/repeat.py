"""Doing the same again: whether seeds fix an episode, copies are apart, resets are whole, and actions have an effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from rlclinic.training.envs.examine.contract import Notes, OutOfTime, Probe, copy_of, same
from rlclinic.training.envs.examine.play import constants, features

SEED, STEPS, OTHER_SEEDS = 7, 40, (1, 2, 3, 4)
FORKS, FEWEST_FORKS = 36, 15
FORK_AFTER, FORK_LENGTH = 12, 10
"""An action is changed within so many steps of a start, and so many steps are looked at from there on."""
SELDOM, PLACES, MOST_CHOICES = 0.5, 10, 32
"""The share of single changes that count below which all choices are tried, at so many places, where there are no more of them."""
ENOUGH, MOST_STARTS = 30, 40
"""Steps in which actions must have made no difference, and starts from which that is tried."""
MOST_DIMENSIONS = 16
TRACED, MOST_NUMBERS = 24, 256
"""Steps and numbers of an observation that are written down."""

Trace = list[Any]


def trace(probe: Probe, actions: list[Any], seed: int) -> Trace:
    """Everything that an episode shows, until it ends or the actions are used up."""
    found = [copy_of(probe.reset(seed))]
    for action in actions:
        obs, reward, terminated, truncated, _ = probe.step(action)
        found.append((copy_of(obs), reward, terminated, truncated))
        if terminated or truncated:
            break
    return found


def drawn(space: Any, seed: int, count: int) -> list[Any]:
    """Random actions that can be repeated."""
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def length_for(limit: float, step_seconds: float) -> int:
    """How many steps an episode may have that is repeated about a dozen times: fewer where they take long."""
    return int(min(STEPS, max(5.0, 0.01 * limit / max(step_seconds, 1e-9))))


def seeding(probe: Probe, another: Callable[[], Probe] | None, notes: Notes) -> dict[str, Any]:
    """Whether reset(seed) repeats an episode, in this copy and in another, alone and side by side. `another` makes a new copy."""
    actions = drawn(probe.env.action_space, SEED, probe.length)
    first, again = trace(probe, actions, SEED), trace(probe, actions, SEED)
    repeats = same(first, again)
    if not repeats:
        # New copies that agree show that the seed is heard: something of the last episode was left.
        left = another is not None and same(trace(another(), actions, SEED), trace(another(), actions, SEED))
        kind = "reset-does-not-reset" if left else "reset-ignores-seed"
        _note(notes, kind, first, again, f"reset(seed={SEED}) twice, the same actions")
    others = [trace(probe, actions, seed) for seed in OTHER_SEEDS]
    found = {
        "repeats": repeats,
        **_compare(first, again),
        "trace": _write_down(probe, first),
        "traces": [_write_down(probe, each) for each in others],
        "start_varies": not all(same(first[0], each[0]) for each in others),
        "seed_matters": not all(same(first, each) for each in others),
    }
    if another is not None and repeats:
        fresh = another()
        other = trace(fresh, actions, SEED)
        found["copies_agree"] = same(first, other)
        if not found["copies_agree"]:
            _note(notes, "reset-ignores-seed", first, other, f"two copies, both reset(seed={SEED}), the same actions")
        else:
            _side_by_side(probe, fresh, actions, first, notes)
    return found


def _write_down(probe: Probe, first: Trace) -> dict[str, Any] | None:
    """The beginning of an episode in numbers, for a comparison with another environment; None where observations are none."""
    rows = _to_rows(probe, [first[0], *(step[0] for step in first[1:TRACED])])
    if rows is None:
        return None
    return {"observations": rows.tolist(), "rewards": [float(step[1]) for step in first[1:TRACED]]}


def _to_rows(probe: Probe, observations: list[Any]) -> Any:
    """Observations as rows of numbers; None for what cannot be written as such, and for what is too large."""
    try:
        rows = np.array([features(probe.env.observation_space, obs) for obs in observations], np.float64)
    except (TypeError, ValueError, AttributeError):
        return None
    return rows if rows.ndim == 2 and 0 < rows.shape[1] <= MOST_NUMBERS else None


def _compare(first: Trace, again: Trace) -> dict[str, Any]:
    """Which parts of an episode are the same when it is repeated: its start, its observations, its rewards."""
    steps = list(zip(first[1:], again[1:], strict=False))
    return {
        "start_repeats": same(first[0], again[0]),
        "observations_repeat": same(first[0], again[0]) and all(same(one[0], other[0]) for one, other in steps),
        "rewards_repeat": all(one[1] == other[1] for one, other in steps),
        "reward_noise": _find_noise(*(np.array([float(side[1]) for side in pair]) for pair in zip(*steps, strict=True))) if steps else 0.0,
    }


def _find_noise(rewards: Any, again: Any) -> float:
    """The share of what rewards vary by that is another one when the same episode is repeated."""
    both = float((rewards.var() + again.var()) / 2)
    return min(float((rewards - again).var()) / 2 / both, 1.0) if both > 0 else 0.0


def _side_by_side(probe: Probe, fresh: Probe, actions: list[Any], alone: Trace, notes: Notes) -> None:
    """Another copy that takes other actions in between must not change anything."""
    disturbing = drawn(fresh.env.action_space, SEED + 1, len(actions))
    beside = [copy_of(probe.reset(SEED))]
    fresh.reset(SEED + 1)
    over = False
    for action, other in zip(actions, disturbing, strict=True):
        obs, reward, terminated, truncated, _ = probe.step(action)
        beside.append((copy_of(obs), reward, terminated, truncated))
        if terminated or truncated:
            break
        if over:
            fresh.reset(SEED + 1)
        _, _, ended, cut, _ = fresh.step(other)
        over = ended or cut
    if same(alone, beside):
        return
    again = trace(probe, actions, SEED)
    if same(alone, again):
        _note(notes, "copies-share-state", alone, beside, "stepping a second copy in between changes the first")
    else:
        _note(notes, "reset-does-not-reset", alone, again, f"reset(seed={SEED}) at the start and after some episodes")


def resetting(probe: Probe, repeats: bool, notes: Notes) -> dict[str, Any]:
    """Whether an episode after an end is like one from a fresh start, and what stepping after an end does."""
    actions = drawn(probe.env.action_space, SEED, probe.length)
    before = trace(probe, actions, SEED)
    ended = _until_end(probe)
    found: dict[str, Any] = {"end_reached": ended}
    if ended:
        found["step_after_end"] = _after_end(probe)
        after = trace(probe, actions, SEED)
        if repeats and not same(before, after):
            _note(notes, "reset-does-not-reset", before, after, f"reset(seed={SEED}) before and after an episode")
        elif len(after) == 2 and len(before) > 2:
            notes.breach("reset-does-not-reset", "the first step after a reset ends the episode again")
    return found


def _until_end(probe: Probe, most: int = 5_000) -> bool:
    probe.reset(SEED)
    for _ in range(most):
        _, _, terminated, truncated, _ = probe.step(probe.env.action_space.sample())
        if terminated or truncated:
            return True
    return False


def _after_end(probe: Probe) -> str:
    """Nobody promises anything here; what happens is told, not judged."""
    try:
        result = probe.env.step(probe.env.action_space.sample())
    except Exception as reason:  # noqa: BLE001 — a user's environment may raise anything, and here it is right to
        return f"raises {type(reason).__name__}"
    ended = isinstance(result, tuple) and len(result) == 5 and (bool(result[2]) or bool(result[3]))
    return "goes on, still ended" if ended else "goes on as if nothing had happened"


def effects(probe: Probe, notes: Notes) -> dict[str, Any]:
    """Whether other actions give another episode: all of them, and for boxes each number of the action."""
    space = probe.env.action_space
    fixed = constants(space)
    tried = {name: [value] * probe.length for name, value in fixed.items()}
    tried |= {f"random {seed}": drawn(space, seed, probe.length) for seed in (11, 12)}
    alike, starts, steps = True, 0, 0
    # Where episodes are short, one start says little: whether an advertisement is clicked is chance, too.
    while alike and (starts == 0 or (steps < ENOUGH and starts < MOST_STARTS)):
        traces = {name: trace(probe, actions, SEED + starts) for name, actions in tried.items()}
        first = next(iter(traces.values()))
        alike = all(same(first, each) for each in traces.values())
        starts, steps = starts + 1, steps + len(first) - 1
    if alike and len(traces) > 1:
        where = "the same start" if starts == 1 else f"each of {starts} starts"
        notes.breach("actions-without-effect", f"{len(traces)} ways to act from {where} gave the same {steps} observations and rewards")
    found: dict[str, Any] = {"actions_matter": not alike, **_when_they_differ(probe, list(traces.values()))}
    found["forks_differ"] = forks = None if alike else _count_forks(probe)
    if forks is not None and forks < SELDOM and isinstance(space, spaces.Discrete) and space.n <= MOST_CHOICES:
        found["places_with_a_choice"] = _count_choices(probe, space)
    if not alike and isinstance(space, spaces.Box) and int(np.prod(space.shape)) <= MOST_DIMENSIONS and fixed:
        found |= _idle_dimensions(probe, space, traces["middle"])
    return found


def _when_they_differ(probe: Probe, traces: list[Trace]) -> dict[str, Any]:
    """From which step on observations and rewards of other actions differ, and how far apart observations come."""
    first = traces[0]
    seen, paid = [], []
    for other in traces[1:]:
        steps = list(zip(first[1:], other[1:], strict=False))
        seen += [next((place for place, (one, two) in enumerate(steps, 1) if not same(one[0], two[0])), None)]
        paid += [next((place for place, (one, two) in enumerate(steps, 1) if one[1] != two[1]), None)]
    return {
        "observations_differ_from": min((place for place in seen if place is not None), default=None),
        "rewards_differ_from": min((place for place in paid if place is not None), default=None),
        "apart": _apart(probe, traces),
        # As far as two of them go: one that meets the goal at once ends before anybody has come far.
        "steps": sorted(len(each) - 1 for each in traces)[-2:][0],
    }


def _count_forks(probe: Probe) -> float | None:
    """The share of single actions that count: the same episode again with one of them changed, and all that follow as they were.

    An action that is mostly replaced by chance counts as seldom as it is taken, however far the few that are carry an episode.
    """
    if probe.length < STEPS:
        # Steps take long.
        return None
    space, random = probe.env.action_space, np.random.default_rng(SEED)
    changed = list(constants(space).values()) or drawn(space, SEED + 2, 4)
    differ: list[bool] = []
    for number in range(FORKS):
        place = int(random.integers(FORK_AFTER))
        actions = drawn(space, SEED + 10 + number, place + FORK_LENGTH)
        other = [*actions[:place], changed[number % len(changed)], *actions[place + 1 :]]
        if same(actions[place], other[place]):
            continue
        with contextlib.suppress(OutOfTime):
            one = trace(probe, actions, SEED + number)
            if len(one) > place + 1:
                differ.append(not same(one, trace(probe, other, SEED + number)))
    return float(np.mean(differ)) if len(differ) >= FEWEST_FORKS else None


def _count_choices(probe: Probe, space: spaces.Discrete) -> float | None:
    """The share of places at which any choice leads elsewhere than the others, all that follow being as they were.

    Where most choices do nothing, as a key that fits no lock, one of them still does; where chance acts, none does mostly.
    """
    random = np.random.default_rng(SEED + 1)
    differ: list[bool] = []
    with contextlib.suppress(OutOfTime):
        for number in range(PLACES):
            place = int(random.integers(FORK_AFTER))
            actions = drawn(space, SEED + 50 + number, place + 1 + FORK_LENGTH // 2)
            first = trace(probe, actions, SEED + number)
            if len(first) > place + 1:
                others = (
                    trace(probe, [*actions[:place], space.start + choice, *actions[place + 1 :]], SEED + number)
                    for choice in range(space.n)
                )
                differ.append(any(not same(first, each) for each in others))
    return float(np.mean(differ)) if len(differ) >= PLACES // 2 else None


def _apart(probe: Probe, traces: list[Trace]) -> list[float]:
    """Of every number of the observation: the largest distance between two ways to act, at the same step, while both go on."""
    rows = [row for each in traces if (row := _to_rows(probe, [step[0] for step in each[1:]])) is not None]
    if len(rows) < len(traces):
        return []
    rows = [row for row in rows if len(row)]
    if len(rows) < 2:
        return []
    far = [
        np.nan_to_num(np.ptp(np.stack([row[step] for row in rows if len(row) > step]), axis=0))
        for step in range(sorted(map(len, rows))[-2])
    ]
    return [float(each) for each in np.stack(far).max(0)]


def _idle_dimensions(probe: Probe, space: spaces.Box, middle_trace: Trace) -> dict[str, list[int]]:
    """Numbers of the action that do nothing, and those of which one half does nothing: its end gives the same episode as its middle."""
    middle = constants(space)["middle"]
    idle, half_idle = [], []
    for place in range(int(np.prod(space.shape))):
        low, high = middle.copy(), middle.copy()
        low.reshape(-1)[place], high.reshape(-1)[place] = space.low.reshape(-1)[place], space.high.reshape(-1)[place]
        lowest, highest = trace(probe, [low] * probe.length, SEED), trace(probe, [high] * probe.length, SEED)
        if same(lowest, highest):
            idle.append(place)
        elif same(lowest, middle_trace) or same(highest, middle_trace):
            half_idle.append(place)
    return {"idle_dimensions": idle, "half_idle_dimensions": half_idle}


def _note(notes: Notes, kind: str, left: Trace, right: Trace, what: str) -> None:
    """Note that two episodes differ: from where on, and by how much at that place."""
    place = next((index for index, (one, other) in enumerate(zip(left, right, strict=False)) if not same(one, other)), None)
    if place is None:
        notes.breach(kind, f"{what}: one episode ends after {len(left) - 1} steps, the other after {len(right) - 1}", size=1.0)
        return
    size = distance(left[place], right[place])
    where = "the first observations differ" if place == 0 else f"the episodes differ from step {place} on"
    notes.breach(kind, f"{what}: {where}" + (f", by {size:.2g} at first" if size < 1 else ""), size=size)


def distance(one: Any, other: Any) -> float:
    """The largest difference between two values, on the scale of 1 for small numbers and relative for large ones."""
    if isinstance(one, dict) and isinstance(other, dict):
        return max((distance(one[key], other[key]) for key in one if key in other), default=1.0)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return max((distance(*pair) for pair in zip(one, other, strict=False)), default=1.0)
    left, right = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if left.shape != right.shape:
        return 1.0
    gap = np.abs(left - right) / (1 + np.maximum(np.abs(left), np.abs(right)))
    return float(np.nan_to_num(gap, nan=1.0).max(initial=0.0))
