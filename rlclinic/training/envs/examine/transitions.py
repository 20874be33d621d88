"""What random transitions show: whether observations move, lag or are noise, whether actions count, and what the reward is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rlclinic.training.envs.examine import trees
from rlclinic.training.envs.examine.play import Episodes

FEWEST = 200
MOST = 4_000
MOST_CHOICES = 16
MOST_PRODUCTS = 64
MOST_STATE, MOST_FEATURES, MOST_STARTS = 48, 256, 200
MOST_LAG = 10
FEWEST_ENDS, LEAST_MOVE = 5, 0.05
MOST_PAIRS = 2_000
RESTLESS = 0.15
SMALL = 1e-12
OWN = 0.2
"""The share of an observation that an action explains from which on it is the action's own."""
PLAIN, FEW = 0.8, 0.01
"""The share that is explained plainly enough not to look for other forms, and the share of steps that is too few to say which they are."""
MOST_APART = 5
"""Numbers of an observation of which every two are compared."""
MOST_NEAR, MOST_ASKED, NEIGHBOURS = 24, 500, 5

Array = np.ndarray[Any, np.dtype[Any]]


def describe(space: Space[Any], episodes: Episodes) -> dict[str, Any]:
    """Numbers about the transitions of some episodes with random actions; {} where there are too few to say anything."""
    number = np.array(episodes.episode[:MOST])
    sizes = {row.size for row in (*episodes.features[:MOST], *episodes.start_features)}
    if len(number) < FEWEST or len(sizes) > 1:
        return {}
    firsts = np.flatnonzero(np.diff(number, prepend=-1))
    rewards, actions = np.array(episodes.rewards[:MOST]), _action_features(space, episodes.actions[:MOST])
    found = describe_rewards(rewards, number, firsts, episodes)
    before, after = _pairs(episodes.features, episodes.start_features, number, firsts)
    if after.shape[1]:
        found |= _describe_motion(before, after, number, firsts) | _describe_ends(before, after, number, firsts, episodes)
        if after.shape[1] <= MOST_STATE:
            found |= _describe_effects(before, after, actions, rewards, number)
        else:
            found |= _describe_late_effects(before, after, actions, number)
    before, after = _pairs(episodes.rows, episodes.starts, number, firsts)
    if after.shape[1]:
        found |= _describe_numbers(before, after, number, actions)
    return found


def _pairs(rows: list[Array], starts: list[Array], number: Array, firsts: Array) -> tuple[Array, Array]:
    """Observations before and after every step."""
    after = np.array(rows[: len(number)])
    before = np.vstack([after[:1], after[:-1]])
    before[firsts] = np.array([starts[number[place]] for place in firsts])
    return before, after


def _action_features(space: Space[Any], actions: list[Any]) -> Array | None:
    """What a linear model is told of an action: which of a few, or its numbers and their squares; None for other spaces."""
    if not actions:
        return None
    if isinstance(space, spaces.Discrete) and space.n <= MOST_CHOICES:
        return np.eye(int(space.n))[np.array(actions, np.int64) - int(space.start)][:, 1:]
    if isinstance(space, spaces.Box):
        flat = np.array([np.asarray(action, np.float64).ravel() for action in actions])
        flat = flat / np.maximum(flat.std(0), SMALL)
        return np.hstack([flat, flat**2])
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return np.array([np.asarray(action, np.float64).ravel() for action in actions])
    return None


# ── observations ──


def _describe_numbers(before: Array, after: Array, number: Array, actions: Array | None) -> dict[str, Any]:
    """Sizes of the numbers of an observation, and how much of them is noise."""
    spread, mean = after.std(0), after.mean(0)
    steps = after - before
    later = number[1:] == number[:-1]
    # A switch that is thrown by chance is no noise.
    live = (spread > SMALL) & np.array([len(np.unique(column[:200])) > 2 for column in after.T])
    if actions is not None:
        # What an action sets directly alternates with it.
        live &= np.array([one <= SMALL or _explain([actions], column / one) < OWN for column, one in zip(after.T, spread, strict=True)])
    cov = np.mean(steps[1:][later] * steps[:-1][later], axis=0) if later.sum() > 50 else np.zeros_like(spread)
    # Noise that is drawn anew at every step makes differences alternate: their covariance is minus its variance.
    # What stays for most steps and then leaps is an event, even if it alternates.
    restless = np.median(np.abs(steps), axis=0)[live] > RESTLESS * spread[live]
    noise = np.clip(-cov[live] / np.maximum(spread[live] ** 2, SMALL), 0.0, 1.0) * restless
    return {
        "largest": float(np.abs(after).max()),
        "spread": float(spread.max()),
        "spreads": [float(each) for each in spread[:64]],
        "means": [float(each) for each in mean[:64]],
        "noise": float(np.median(noise)) if live.any() else 0.0,
    }


def _describe_motion(before: Array, after: Array, number: Array, firsts: Array) -> dict[str, Any]:
    """Whether and when observations move at all."""
    within = np.sqrt(np.mean([after[number == each].var(0) for each in np.unique(number)], axis=0))
    moves = np.abs(after - before).max(1) > 0
    # Of every episode that is long enough: how many steps its first observation stays.
    stays = []
    for place, end in zip(firsts, [*firsts[1:], len(after)], strict=True):
        moved = np.flatnonzero(moves[place:end])
        if end - place >= 3:
            stays.append(int(moved[0]) if len(moved) else int(end - place))
    spread = after.std(0)
    return {
        "within": float(within.max()),
        "stays": int(min(stays)) if len(stays) >= 5 else 0,
        "still": float(1.0 - moves.mean()),
        "varies": float(spread.max()),
        "extent": float(np.abs(after).max()),
        "feature_spreads": [float(each) for each in spread[:MOST_FEATURES]],
    }


def _describe_ends(before: Array, after: Array, number: Array, firsts: Array, episodes: Episodes) -> dict[str, Any]:
    """What an episode's last observation has to do with the episode, and with the start of the next one."""
    ends = firsts[1:] - 1
    if len(ends) < FEWEST_ENDS:
        return {}
    spread = np.maximum(after.std(0), SMALL)
    moves = np.abs(after - before) / spread
    usual = np.quantile(np.delete(moves, ends, axis=0), 0.9, axis=0) if len(moves) > len(ends) else np.zeros_like(spread)
    # What stays within episodes, such as a goal, tells most.
    jumps = (moves[ends] / np.maximum(usual, LEAST_MOVE)).max(1)
    starts = np.array([episodes.start_features[number[place]] for place in firsts])
    last, previous = after[ends], before[ends]

    def away(points: Array) -> Array:
        """How far the nearest start of another episode is."""
        gaps = np.abs((points[:, None] - starts[None, :MOST_STARTS]) / spread).mean(2)
        own = np.arange(min(len(points), gaps.shape[1]))
        gaps[own, own] = np.inf
        return np.asarray(gaps.min(1))

    return {
        "last_is_next_start": float((last == starts[1 : len(ends) + 1]).all(1).mean()),
        "starts_alike": float((starts[1:] == starts[:-1]).all(1).mean()),
        "end_jump": float(np.median(jumps)),
        "end_unseen": _find_unseen(np.hstack([before, after]) / np.tile(spread, 2), ends),
        "last_like_start": float((away(last) < 0.5 * away(previous)).mean()),
    }


def _find_unseen(pairs: Array, ends: Array) -> float:
    """The share of last steps that are like no other step: farther from all of them than nearly every other step is."""
    others = np.delete(pairs, ends, axis=0)[:MOST_PAIRS]
    if len(others) < FEWEST:
        return 0.0

    def nearest(points: Array, *, skip: bool) -> Array:
        gaps = (points**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2 * points @ others.T
        return np.asarray(np.partition(gaps, 1, axis=1)[:, 1 if skip else 0])

    usual = float(np.quantile(nearest(others[:MOST_ASKED], skip=True), 0.95))
    return float((nearest(pairs[ends[:MOST_ASKED]], skip=False) > usual + 1e-6).mean())


# ── actions ──


def _describe_effects(before: Array, after: Array, actions: Array | None, rewards: Array, number: Array) -> dict[str, Any]:
    """How much of what happens next, and of the reward, is the action's doing; and how much of the reward can be explained at all."""
    live, spread = _find_live(before, after)
    scaled = (before[:, live] - before[:, live].mean(0)) / spread[live]
    nexts = (after[:, live] - before[:, live].mean(0)) / spread[live]
    state = np.hstack([scaled, scaled**2])
    # A goal that is met once in a thousand steps would be all of the variance.
    usual = np.clip(rewards, *np.quantile(rewards, (0.02, 0.98)))
    reward = (usual - usual.mean()) / max(float(usual.std()), SMALL)
    found: dict[str, Any] = {}
    everything = [state, nexts, nexts**2] if actions is None else [state, nexts, nexts**2, actions]
    found["reward_explained"] = max(_explain(everything, reward), _explain_by_neighbours(np.hstack(everything[:2]), actions, reward))
    # Many rewards are for a distance: what is here less what is there, in the units that both are shown in.
    near = range(int(live.sum()) if live.sum() <= MOST_APART else 0)
    here, there = before[:, live], after[:, live]
    gaps = [there[:, [one]] - here[:, [other]] for one in near for other in near if one != other]
    seen = np.hstack([scaled, nexts, *gaps] if actions is None else [scaled, nexts, *gaps, actions])
    if found["reward_explained"] < PLAIN:
        found["reward_explained"] = max(found["reward_explained"], trees.explain(seen, reward))
    # Of the steps on the way: what is owed is paid at an end, too, and an end is often seen.
    on_the_way = np.append(number[1:] == number[:-1], False)
    paid = (rewards != 0).astype(float)[on_the_way]
    if len(paid) >= FEWEST and FEW < paid.mean() < 1 - FEW:
        # Whether what is seen tells which steps pay: an event does, a date of payment does not.
        tells_time = _find_clocks(before[:, live], number)
        shown = np.delete(seen, np.flatnonzero(np.r_[tells_time, tells_time]), axis=1)
        found["payday_seen"] = trees.explain(shown[on_the_way], paid)
    if actions is None:
        return found
    products = [actions * scaled[:, [place]] for place in range(scaled.shape[1])]
    extended = [actions, *products] if sum(product.shape[1] for product in products) <= MOST_PRODUCTS else [actions]
    targets = [*(nexts - scaled).T, reward] if usual.std() > 0 else [*(nexts - scaled).T]
    gains, sizes = [0.0], [0.0]
    for place, target in enumerate(targets):
        rest = _residual([state], target)
        left = _residual([state, *extended], target)
        gain = 1.0 - left.var() * _degrees([state, *extended], len(target)) / max(rest.var() * _degrees([state], len(target)), SMALL)
        gains.append(float(gain) if rest.var() > SMALL else 0.0)
        if place < int(live.sum()):
            sizes.append(float(np.sqrt(max(rest.var() - left.var(), 0.0))))
    if max(gains) < OWN and usual.std() > 0:
        # What is paid for the right one of several actions is paid for none of them on the whole.
        without = trees.explain(np.hstack([scaled, nexts, *gaps]), reward)
        gains.append((trees.explain(seen, reward) - without) / (1.0 - without) if without < PLAIN else 0.0)
    found["action_gain"] = max(gains)
    found["action_size"] = max(sizes)
    varies = usual.std() > 1e-9 * max(float(np.abs(rewards).max()), SMALL)
    found["reward_by_action"] = _explain([actions], reward) if varies else 0.0
    return found | _describe_late_effects(before, after, actions, number)


def _find_clocks(before: Array, number: Array) -> Array:
    """Which columns count an episode's steps: they go one way, and are the same at the same step of every episode."""
    age = np.arange(len(number)) - np.searchsorted(number, number)
    longest = before[number == number[age.argmax()]]
    alike = np.abs(before - longest[age]).max(0) <= 1e-6 * (1e-9 + np.ptp(before, axis=0))
    one_way = np.abs(np.sign(np.diff(longest, axis=0)).sum(0)) == len(longest) - 1
    found: Array = alike & one_way
    return found


def _find_live(before: Array, after: Array) -> tuple[Array, Array]:
    """Which numbers vary at all, and the spread of each."""
    spread = np.maximum(after.std(0), before.std(0))
    return spread > SMALL * (1 + np.abs(after).max()), spread


def _describe_late_effects(before: Array, after: Array, actions: Array | None, number: Array) -> dict[str, Any]:
    """By how many steps an action lies back: the share of what changes that it explains, at once and with the lag that explains most."""
    live, spread = _find_live(before, after)
    if actions is None or not live.any():
        return {}
    changes = ((after - before) / np.maximum(spread, SMALL))[:, live]
    state = ((before - before.mean(0)) / np.maximum(spread, SMALL))[:, live]
    gains = []
    for lag in range(MOST_LAG + 1):
        rows = np.flatnonzero(number[lag:] == number[: len(number) - lag]) + lag
        if len(rows) < FEWEST:
            break
        rest = _residual([state[rows]], changes[rows])
        # A model of what is left, which the state has no part in any more.
        gain = 1.0 - _residual([actions[rows - lag]], rest).var(0) * _degrees([actions], len(rows)) / np.maximum(rest.var(0), SMALL)
        gains.append(float(gain[rest.var(0) > 1e-6].max(initial=0.0)))
    best = int(np.argmax(gains)) if gains else 0
    return {"lag": best, "lag_gain": gains[best], "direct_gain": gains[0]} if gains else {}


def _degrees(parts: list[Array], rows: int) -> float:
    """What a residual variance is multiplied with, so that useless columns explain nothing."""
    return rows / max(rows - 1 - sum(part.shape[1] for part in parts), 1)


def _residual(parts: list[Array], target: Array) -> Array:
    columns = np.hstack([np.ones((len(target), 1)), *parts])
    weights = np.linalg.lstsq(columns, target, rcond=1e-10)[0]
    left: Array = target - columns @ weights
    return left


def _explain(parts: list[Array], target: Array) -> float:
    """Share of a target's variance that a linear model of the parts explains, corrected for their number."""
    if not target.var() > SMALL:
        return 1.0
    left = _residual(parts, target)
    return float(1.0 - left.var() * _degrees(parts, len(target)) / target.var())


def _explain_by_neighbours(points: Array, actions: Array | None, target: Array) -> float:
    """The same, predicted from the transitions that are most alike: for rewards that are no polynomial of the state."""
    if points.shape[1] > MOST_NEAR or not target.var() > SMALL:
        return 0.0
    points = points if actions is None else np.hstack([points, actions])
    asked, known = points[::4][:MOST_ASKED], np.delete(points, np.s_[::4], axis=0)
    answers = np.delete(target, np.s_[::4])
    distances = (asked**2).sum(1)[:, None] + (known**2).sum(1)[None] - 2 * asked @ known.T
    nearest = np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    wanted = target[::4][:MOST_ASKED]
    return float(1.0 - np.mean((wanted - answers[nearest].mean(1)) ** 2) / max(float(wanted.var()), SMALL))


# ── rewards ──


def describe_rewards(rewards: Array, number: Array, firsts: Array, episodes: Episodes) -> dict[str, Any]:
    """When rewards come, how many sit at their largest size, and what success pays."""
    age = np.arange(len(rewards)) - firsts[np.searchsorted(firsts, np.arange(len(rewards)), side="right") - 1] + 1
    ends = np.flatnonzero(np.append(number[1:] != number[:-1], True))
    last = np.zeros(len(rewards), bool)
    last[ends] = True
    size = np.abs(rewards).max()
    paid = np.abs(rewards) > 0
    between = age[paid & ~last]
    period = int(np.gcd.reduce(between)) if len(between) >= 5 else 0
    finished = ends[: len(episodes.terminated)]
    cut = [place for place, terminated in zip(finished, episodes.terminated, strict=False) if not terminated]
    over = [place for place, terminated in zip(finished, episodes.terminated, strict=False) if terminated]
    won = [episodes.rewards[step] for step, flag in episodes.flags if flag]
    lost = [episodes.rewards[step] for step, flag in episodes.flags if not flag]
    failed = [episodes.rewards[step] for step, flag in episodes.flags if not flag and step in set(over)]
    totals = np.array(episodes.returns) if len(episodes.successes) == len(episodes.returns) else np.zeros(0)
    reached = np.array(episodes.successes[: len(totals)], bool)
    told = {}
    if min(reached.sum(), (~reached).sum()) >= FEWEST_ENDS and totals.std() > SMALL:
        # In units of what returns vary by.
        told["success_returns"] = float((totals[reached].mean() - totals[~reached].mean()) / totals.std())
    return {
        **told,
        "period": period,
        "paid": float(paid.mean()),
        "paid_cut": float(paid[cut].mean()) if cut else None,
        "paid_over": float(paid[over].mean()) if over else None,
        "at_most": float((np.abs(rewards) >= size * (1 - 1e-6)).mean()) if size > 0 else 0.0,
        "both_signs": bool((rewards >= size * (1 - 1e-6)).any() and (rewards <= -size * (1 - 1e-6)).any()) if size > 0 else False,
        "distinct": float(len(np.unique(rewards)) / len(rewards)),
        "success_pays": float(np.mean(won)) if won else None,
        "else_pays": float(np.mean(lost)) if lost else None,
        "successes": len(won),
        "failed_pays": float(np.mean(failed)) if len(failed) >= FEWEST_ENDS else None,
    }
