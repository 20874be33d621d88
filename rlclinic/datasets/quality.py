"""What is in a dataset, and what is wrong with it: returns, coverage, behaviour, ends. One pass in blocks, and the rest on samples."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from rlclinic.datasets.episodes import Dataset
from rlclinic.datasets.joints import find_joints

__all__ = ["Finding", "Quality", "Reference", "compare_coverage", "ends_at_longest", "examine"]

Floats = NDArray[np.float64]
BLOCK: Final = 100_000
"""Rows of one look at the arrays."""
SAMPLE: Final = 200_000
"""Transitions in which state-actions are counted."""
NEIGHBOURS: Final = 20_000
"""Transitions among which neighbours are searched."""
QUERIES: Final = 1_000
"""Transitions whose neighbours are searched."""
CLOSEST: Final = 5
"""Neighbours of each."""
BINS: Final = 100
"""A dimension, of at most four; of more dimensions four random directions are taken."""
MOST_DIMENSIONS: Final = 4
DETERMINISTIC: Final = 0.1
"""Below this share of the actions' own spread, neighbours act alike: the data shows nobody what another action would have done."""
AT_BOUND: Final = 1e-3
"""Distance from a bound, as a share of the range, within which an action touches it."""
FEWEST_ENDS: Final = 5
LIMITED: Final = 0.5
"""The share of terminated episodes with exactly the longest length from which they look cut by a time limit."""
MOST_WHOLE: Final = 20
"""So many different whole numbers, or fewer, are choices or flags rather than measurements."""
RECUR: Final = 0.9
"""Distinct states among those sampled, as a share, below which the same state in two datasets is no sign of the same episode."""
LEAKS: Final = 0.01
"""The share of states in both of two datasets from which on a split went through episodes."""
UNEQUAL: Final = 1e3
"""Largest to smallest spread of an observation's numbers above which a network sees only some of them."""


@dataclass(frozen=True)
class Reference:
    """What returns mean: of a random policy and of a good one."""

    random: float
    good: float


@dataclass(frozen=True)
class Finding:
    """Something that will matter to whoever learns from the data."""

    level: Literal["error", "warning", "note"]
    name: str
    what: str
    do: str


@dataclass(frozen=True)
class Quality:
    """What is in a dataset, in numbers."""

    transitions: int
    episodes: int
    return_mean: float
    return_std: float
    return_min: float
    return_max: float
    return_top_tenth: float
    """Mean return of the best tenth of the episodes."""
    length_mean: float
    length_min: int
    length_max: int
    terminated: float
    """Share of episodes that the task itself ended."""
    zero_rewards: float
    """Share of rewards that are exactly zero."""
    unique: float
    """Distinct state-actions among those sampled, as a share; state and action in bins."""
    state_coverage: int
    """Distinct states among those sampled, in bins."""
    action_spread: float | None
    """How differently neighbouring states are acted in, as a share of how actions differ at all: 0 one action a state, 1 at random."""
    at_bounds: float | None
    """Share of actions at a bound; None for choices and where no bounds are known."""
    trajectory_quality: float | None
    """(mean return − random) / (good − random), where both are known."""
    duplicates: int
    """Episodes that are there twice."""
    findings: tuple[Finding, ...]


def examine(data: Dataset, reference: Reference | None = None, seed: int = 0, beside: Dataset | None = None) -> Quality:
    """Look at all of it once, and closely at samples that the seed draws; beside: other data, for what is in both."""
    draw = np.random.default_rng(seed)
    returns = data.returns[np.isfinite(data.returns)]
    if not len(returns):
        returns = np.full(1, np.nan)
    best = np.sort(returns)[-max(1, len(returns) // 10) :]
    stats = _statistics(data)
    rows = np.sort(draw.choice(len(data), min(len(data), SAMPLE), replace=False))
    batch = data.transitions(rows)
    states = _flatten(batch.observations)
    finite = np.isfinite(states).all(1) & np.isfinite(_flatten(batch.actions)).all(1)
    scaled, acted = ((states - stats.mean) / np.where(stats.std > 0, stats.std, 1.0))[finite], batch.actions[finite]
    unique, covered = _count_distinct(scaled, acted, data, draw) if len(scaled) else (0.0, 0)
    spread = _action_spread(scaled, acted, data, draw)
    bounds = _at_bounds(data, acted) if len(scaled) else None
    twice = _find_twice(data)
    duplicates, recur = int(twice.sum()), _states_recur(batch.observations[~twice[data.episode_of(rows)]])
    quality = (
        None
        if reference is None or reference.good == reference.random
        else (returns.mean() - reference.random) / (reference.good - reference.random)
    )
    found = [
        *_ends(data),
        *_jumps(data),
        *_values(data, stats),
        *_behaviour(data, returns, spread, bounds, duplicates, recur=recur),
        *([] if beside is None else _leaks(data, beside, rows)),
    ]
    return Quality(
        transitions=len(data),
        episodes=data.n_episodes,
        return_mean=float(returns.mean()),
        return_std=float(returns.std()),
        return_min=float(returns.min()),
        return_max=float(returns.max()),
        return_top_tenth=float(best.mean()),
        length_mean=float(data.lengths.mean()),
        length_min=int(data.lengths.min()),
        length_max=int(data.lengths.max()),
        terminated=float(data.terminated.mean()),
        zero_rewards=stats.zero_rewards,
        unique=unique,
        state_coverage=covered,
        action_spread=spread,
        at_bounds=bounds,
        trajectory_quality=None if quality is None else float(quality),
        duplicates=duplicates,
        findings=tuple(sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.level))),
    )


@dataclass(frozen=True)
class _Statistics:
    mean: Floats
    std: Floats
    low: Floats
    high: Floats
    zero_rewards: float
    reward_low: float
    reward_high: float
    bad_rows: int
    """Observations, actions or rewards that are not finite."""


def _blocks(values: Any) -> Iterator[NDArray[Any]]:
    return (np.asarray(values[start : start + BLOCK]) for start in range(0, len(values), BLOCK))


def _flatten(values: NDArray[Any]) -> Floats:
    return np.asarray(values, np.float64).reshape(len(values), -1)


def _statistics(data: Dataset) -> _Statistics:
    """One pass. Means and spreads are joined block by block (Chan et al. 1983), so that large means cost no digits."""
    count, bad = 0, 0
    mean = square = low = high = None
    for block in _blocks(data.observations):
        rows = _flatten(block)
        finite = np.isfinite(rows).all(1)
        bad += int((~finite).sum())
        rows = rows[finite]
        if not len(rows):
            continue
        own_mean = rows.mean(0)
        own_square = ((rows - own_mean) ** 2).sum(0)
        if mean is None or square is None or low is None or high is None:
            mean, square, low, high = own_mean, own_square, rows.min(0), rows.max(0)
        else:
            shift = own_mean - mean
            mean = mean + shift * len(rows) / (count + len(rows))
            square = square + own_square + shift**2 * count * len(rows) / (count + len(rows))
            low, high = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        count += len(rows)
    zero, reward_low, reward_high = 0, np.inf, -np.inf
    for rewards in _blocks(data.rewards):
        finite = np.isfinite(rewards)
        bad += int((~finite).sum())
        rewards = rewards[finite]
        if not len(rewards):
            continue
        zero += int((rewards == 0).sum())
        reward_low, reward_high = min(reward_low, float(rewards.min())), max(reward_high, float(rewards.max()))
    if data.action_space.kind == "box":
        bad += sum(int((~np.isfinite(actions)).any(axis=tuple(range(1, actions.ndim))).sum()) for actions in _blocks(data.actions))
    width = int(np.prod(data.observations.shape[1:]))
    if mean is None or square is None or low is None or high is None:
        mean = square = low = high = np.full(width, np.nan)
    return _Statistics(mean, np.sqrt(square / max(count, 1)), low, high, zero / len(data), reward_low, reward_high, bad)


def _actions(actions: NDArray[Any], data: Dataset) -> Floats:
    """Actions as points: choices one-hot."""
    if data.action_space.kind == "discrete":
        return np.eye(data.action_space.n)[np.clip(actions, 0, data.action_space.n - 1)]
    return _flatten(actions)


def _count_distinct(states: Floats, actions: NDArray[Any], data: Dataset, draw: np.random.Generator) -> tuple[float, int]:
    """The share of distinct state-actions, and the number of distinct states, both in bins."""
    projected = (
        states
        if states.shape[1] <= MOST_DIMENSIONS
        else states @ draw.standard_normal((states.shape[1], MOST_DIMENSIONS)) / np.sqrt(states.shape[1])
    )
    cells = [_bin(projected)]
    acted = np.asarray(actions)[:, None] if data.action_space.kind == "discrete" else _bin(_flatten(actions)[:, :MOST_DIMENSIONS])
    states_seen = len(np.unique(_hash(cells[0])))
    both = len(np.unique(_hash(np.concatenate([cells[0], acted], axis=1))))
    return both / len(states), states_seen


def compare_coverage(data: Dataset, other: Dataset, seed: int = 0) -> float:
    """SACo (Schweighofer et al. 2022): distinct state-actions of data, as a share of those in as many transitions of other data.

    Bins reach over the other data's range, so that one number compares two sets; of more than four dimensions four random directions
    are taken, the same of both.
    """
    draw = np.random.default_rng(seed)
    size = min(len(data), len(other), SAMPLE)

    def points(which: Dataset) -> Floats:
        batch = which.transitions(np.sort(draw.choice(len(which), size, replace=False)))
        return np.concatenate([_flatten(batch.observations), _actions(batch.actions, data)], axis=1)

    own, reference = points(data), points(other)
    low, high = np.nanmin(reference, 0), np.nanmax(reference, 0)
    width = np.where(high > low, high - low, 1.0)
    own, reference = (own - low) / width, (reference - low) / width
    acted = _actions(np.asarray(data.actions[:1]), data).shape[1]
    if own.shape[1] - acted > MOST_DIMENSIONS:
        directions = draw.standard_normal((own.shape[1] - acted, MOST_DIMENSIONS)) / np.sqrt(own.shape[1] - acted)
        own, reference = (np.concatenate([each[:, :-acted] @ directions, each[:, -acted:]], axis=1) for each in (own, reference))
    found, wanted = (len(np.unique(_hash(np.floor(np.clip(each, -1.0, 2.0) * BINS).astype(np.int64)))) for each in (own, reference))
    return found / wanted


def _bin(values: Floats) -> NDArray[np.int64]:
    low, high = values.min(0), values.max(0)
    return np.clip((values - low) / np.where(high > low, high - low, 1.0) * BINS, 0, BINS - 1).astype(np.int64)


def _hash(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number a row; wraps around, which two rows hardly ever do to the same number."""
    with np.errstate(over="ignore"):
        total = np.zeros(len(cells), np.int64)
        for column in cells.T:
            total = total * np.int64(1_000_003) + column
    return total


def _action_spread(states: Floats, actions: NDArray[Any], data: Dataset, draw: np.random.Generator) -> float | None:
    """How much neighbours' actions differ, as a share of how much any two actions do."""
    if len(states) < 10 * CLOSEST:
        return None
    chosen = draw.choice(len(states), min(len(states), NEIGHBOURS), replace=False)
    points, acted = states[chosen].astype(np.float32), _actions(actions[chosen], data)
    total = acted.var(0).sum()
    if total == 0:
        return 0.0
    queries = points[:QUERIES]
    squares = (points**2).sum(1)
    distance = squares[None] - 2 * queries @ points.T + squares[:QUERIES, None]
    distance[np.arange(len(queries)), np.arange(len(queries))] = np.inf
    nearest = np.argpartition(distance, CLOSEST, axis=1)[:, :CLOSEST]
    around = acted[nearest]
    return float(np.clip(around.var(1, ddof=1).sum(-1).mean() / total, 0.0, None))


def _at_bounds(data: Dataset, actions: NDArray[Any]) -> float | None:
    low, high = data.action_space.low, data.action_space.high
    if data.action_space.kind == "discrete" or low is None or high is None:
        return None
    bottom, top = np.array(low), np.array(high)
    if not np.isfinite(bottom).all() or not np.isfinite(top).all():
        return None
    near = AT_BOUND * (top - bottom)
    flat = _flatten(actions)
    return float(((flat <= bottom + near) | (flat >= top - near)).mean())


def _fingerprints(data: Dataset) -> Iterator[bytes]:
    """Of each episode, by where it began and what was done in it."""
    for index, end in enumerate(data.ends.tolist()):
        start = end - int(data.lengths[index])
        digest = hashlib.blake2b(np.ascontiguousarray(data.actions[start:end]).tobytes(), digest_size=16)
        digest.update(np.ascontiguousarray(data.observations[start + index]).tobytes())
        yield digest.digest()


def _find_twice(data: Dataset) -> NDArray[np.bool_]:
    """Which episodes [E] have occurred before."""
    seen: set[bytes] = set()
    found = np.zeros(data.n_episodes, np.bool_)
    for index, each in enumerate(_fingerprints(data)):
        found[index] = each in seen
        seen.add(each)
    return found


def _states_recur(states: NDArray[Any]) -> bool:
    """Whether the same states, bit for bit, come up again and again, as in a maze."""
    return len(np.unique(_hash_bits(states))) < RECUR * len(states)


def _leaks(data: Dataset, other: Dataset, rows: NDArray[np.int64]) -> Iterator[Finding]:
    """What is in both of two datasets, of which one may be kept apart to judge by: whole episodes, or single steps of the same ones.

    States are compared bit for bit. Where the data's own recur, as in a maze, they say nothing, and only episodes are compared.
    """
    known = set(_fingerprints(other))
    both = sum(each in known for each in _fingerprints(data))
    if both:
        yield Finding(
            "warning",
            "episodes-in-both",
            f"{both:,} of {data.n_episodes:,} episodes are in the other data, too",
            "if one is kept apart to judge what was learned from the other, leave them out of it",
        )
        return
    reached = data.transitions(rows).next_observations
    if _states_recur(reached):
        return
    states = _hash_bits(reached)
    shared = np.zeros(len(states), np.bool_)
    for block in _blocks(other.observations):
        shared |= np.isin(states, _hash_bits(block))
    if shared.mean() > LEAKS:
        text = f"{shared.mean():.0%} of the steps lead to a state that is in the other data bit for bit, in an episode that differs"
        yield Finding("warning", "steps-in-both", text, "the split went through episodes: split by whole episodes")


def _hash_bits(states: NDArray[Any]) -> NDArray[np.int64]:
    """One number a state, of all its bits."""
    flat = np.ascontiguousarray(states.reshape(len(states), -1).astype(np.float32) + 0.0)
    return _hash(flat.view(np.int32).astype(np.int64))


def ends_at_longest(data: Dataset) -> float:
    """The share of terminated episodes that have exactly the longest length, for no reason that anybody could see; 0 where hardly any
    says terminated."""
    ended, longest = data.lengths[data.terminated & ~data.truncated], int(data.lengths.max())
    share = float((ended == longest).mean()) if len(ended) >= FEWEST_ENDS and longest > 1 else 0.0
    return 0.0 if share >= LIMITED and _show_their_ends(data) else share


def _show_their_ends(data: Dataset) -> bool:
    """Whether most of the terminated episodes of the longest length end in states that say so, as a goal does or the number of steps left.

    Such a state lies beyond what is met on the way, in one of its numbers, or it is met at several ends and never on the way. What a time
    limit cuts ends anywhere.
    """
    ended = data.terminated & ~data.truncated
    # Where the last observation is not known, the one before it stands in twice.
    last = data.ends + np.arange(data.n_episodes) - (0 if data.final_known else 1)
    finals = last[ended & (data.lengths == data.lengths.max())]
    passed_over = np.concatenate([last[ended], np.zeros(0, np.int64) if data.final_known else last + 1])
    reached = _flatten(data.observations[finals])
    names, first, counts = np.unique(_hash_bits(data.observations[finals]), return_inverse=True, return_counts=True)
    low, high = np.full(reached.shape[1], np.inf), np.full(reached.shape[1], -np.inf)
    met = np.zeros(len(names), np.bool_)
    for start in range(0, len(data.observations), BLOCK):
        block = np.asarray(data.observations[start : start + BLOCK])
        block = block[~np.isin(np.arange(start, start + len(block)), passed_over)]
        rows = _flatten(block)
        low, high = np.fmin(low, np.fmin.reduce(rows, 0, initial=np.inf)), np.fmax(high, np.fmax.reduce(rows, 0, initial=-np.inf))
        met |= np.isin(names, _hash_bits(block))
    beyond = ((reached < low) | (reached > high)).any(1)
    return float((beyond | ((counts > 1) & ~met)[first]).mean()) >= LIMITED


def _ends(data: Dataset) -> Iterator[Finding]:
    """Ends that are not what they say."""
    longest, at_limit = int(data.lengths.max()), ends_at_longest(data)
    if at_limit >= LIMITED:
        yield Finding(
            "error" if at_limit > 0.95 else "warning",
            "limit-as-end",
            f"{at_limit:.0%} of the terminated episodes have exactly the longest length, {longest:,} steps: they look cut by a time limit",
            "mark them as truncated (timeouts), or the value of every late state is learned as if nothing came after it",
        )
    if not data.final_known:
        yield Finding(
            "note",
            "final-observation-unknown",
            "the observation after the last action of terminated episodes was not recorded",
            "nothing is learned from it; record T + 1 observations next time",
        )
    both = int((data.terminated & data.truncated).sum())
    if both:
        yield Finding("note", "both-ends", f"{both:,} episodes say terminated and truncated", "the task ended, so they count as terminated")
    for note in data.notes:
        yield Finding(
            "warning" if "too low" in note or "run on" in note else "note",
            "reading",
            note,
            "see docs/datasets.md for what each format has to say",
        )


def _jumps(data: Dataset) -> Iterator[Finding]:
    """Steps inside episodes that look like the joint of two."""
    found = find_joints(data)
    if found is None:
        return
    what = "lead to where episodes begin by a step that the others do not explain" if found.to_starts else "jump far beyond all other steps"
    yield Finding(
        "warning",
        "episodes-joined",
        f"{len(found.episodes)} of {found.looked_at} episodes {what} (first: {found.episodes[0]})",
        "look whether two episodes were written as one, or an observation is damaged there",
    )


def _values(data: Dataset, stats: _Statistics) -> Iterator[Finding]:
    if stats.bad_rows:
        yield Finding(
            "error",
            "not-finite",
            f"{stats.bad_rows:,} rows hold numbers that are not finite",
            "leave those episodes out: data convert says which",
        )
    constant = np.flatnonzero(stats.std == 0)
    if len(constant) and len(constant) < len(stats.std):
        named = ", ".join(map(str, constant[:8].tolist()))
        yield Finding(
            "note",
            "constant-observation",
            f"numbers {named} of the observation never change",
            "they tell a policy nothing; look whether a sensor was off",
        )
    spreads = stats.std[stats.std > 0]
    if len(spreads) > 1 and spreads.max() / spreads.min() > UNEQUAL:
        yield Finding(
            "note",
            "unequal-scales",
            f"the spread of the observation's numbers differs by a factor of {spreads.max() / spreads.min():.0f}",
            "observations are normalized with the data's own mean and spread, which is kept in the policy",
        )
    for name, space, values in (("observation", data.observation_space, None), ("action", data.action_space, data.actions)):
        if space.low is None or space.high is None or space.kind == "discrete":
            continue
        low, high = np.array(space.low), np.array(space.high)
        if values is None:
            least, most = stats.low, stats.high
        else:
            extremes = [(_flatten(block).min(0), _flatten(block).max(0)) for block in _blocks(values)]
            least, most = np.min([low for low, _ in extremes], 0), np.max([high for _, high in extremes], 0)
        slack = 1e-4 * np.where(np.isfinite(high - low), high - low, 1.0) + 1e-6
        outside = np.flatnonzero((least < low - slack) | (most > high + slack))
        if len(outside):
            dim = int(outside[0])
            yield Finding(
                "error" if name == "action" else "warning",
                f"{name}-out-of-bounds",
                f"{name} {dim} goes from {least[dim]:.4g} to {most[dim]:.4g}, and its space from {low[dim]:.4g} to {high[dim]:.4g}",
                "the data is in other units than the environment, or of another environment",
            )
    if data.action_space.kind == "box" and data.action_space.low is None and data.actions.size == len(data):
        used = np.unique(np.concatenate([np.unique(block) for block in _blocks(data.actions)]))
        if len(used) <= MOST_WHOLE and used.min() >= 0 and (used == np.round(used)).all():
            yield Finding(
                "warning",
                "choices-as-numbers",
                f"every action is one of {', '.join(f'{value:g}' for value in used)}: choices that were stored as floating-point numbers",
                "store them as whole numbers; an environment that takes choices learns from them as they are",
            )
    if data.action_space.kind == "discrete":
        used = np.unique(np.concatenate([np.unique(block) for block in _blocks(data.actions)]))
        choices = set(range(data.action_space.n))
        if strangers := sorted(set(used.tolist()) - choices):
            yield Finding(
                "error",
                "action-out-of-bounds",
                f"action {strangers[0]} occurs, and the choices are 0 to {data.action_space.n - 1}",
                "the data is of another environment, or its actions count from another number than 0",
            )
        if unused := sorted(choices - set(used.tolist())):
            yield Finding(
                "warning",
                "action-never-tried",
                f"choices {', '.join(map(str, unused[:8]))} never occur",
                "what they are worth cannot be learned from this data",
            )
    if stats.reward_low == stats.reward_high:
        yield Finding(
            "note" if stats.reward_low else "warning",
            "constant-reward",
            f"every reward is {stats.reward_low:g}",
            "only how long episodes last tells good from bad"
            if stats.reward_low
            else "there is nothing to learn a value from: only imitation can use this data",
        )


def _behaviour(
    data: Dataset, returns: Floats, spread: float | None, bounds: float | None, duplicates: int, *, recur: bool
) -> Iterator[Finding]:
    if data.n_episodes < 5:
        yield Finding(
            "warning",
            "few-episodes",
            f"{data.n_episodes} episodes",
            "neither a split for validation nor an interval can be had from so few; collect 20 or more",
        )
    if spread is not None and spread < DETERMINISTIC:
        yield Finding(
            "warning",
            "one-action-a-state",
            f"neighbouring states are acted in alike (spread {spread:.2f} of what it could be)",
            "offline RL cannot do much better than imitation on such data: collect with some noise",
        )
    if bounds is not None and bounds > 0.5:
        yield Finding(
            "note",
            "actions-at-bounds",
            f"{bounds:.0%} of the actions lie at a bound",
            "a squashed Gaussian cannot be fitted there: data actions are drawn in by 1e-5",
        )
    if duplicates:
        yield Finding(
            "note" if recur else "warning",
            "episodes-twice",
            f"{duplicates:,} of {data.n_episodes:,} episodes are there twice",
            "a split by episodes would leak: the same episode in training and validation"
            if not recur
            else "states recur in this task, and so may whole episodes; a split by episodes has some of them on both sides",
        )
    if data.n_episodes >= 10 and float(np.std(returns)) == 0 and float(np.ptp(data.lengths)) == 0:
        yield Finding("note", "equal-returns", "all episodes have the same return", "no filter by return can choose among them")
