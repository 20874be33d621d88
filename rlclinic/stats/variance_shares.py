"""What a stretch of transitions says about its environment: does the action matter, is reward late, is a velocity hidden?

Everything is a share of variance in one linear model, next to the same share for a shuffled control where chance alone would give one:
numbers without a unit, which mean the same in every environment. Arrays are those of one run, [T, N, ...]: T steps of N envs. Nothing
is kept between two calls and no random number is drawn.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Readings = dict[str, float]

MOST_ROWS: Final = 512
"""Transitions that a regression takes: enough to see an effect of 2 %, and little work."""
WIDEST: Final = 4096
"""Numbers in an observation above which it is taken for an image."""
MOST_COMPONENTS: Final = 12
"""Components of an observation that a regression takes; of more, some spread over all."""
MOST_PRODUCTS: Final = 24
"""Products of components with each other, or with actions, that it takes; where there are more, none, or only squares."""
FURTHEST: Final = 3.0
"""Standard deviations at which a component is cut where it is multiplied: one rare contact would outweigh all other rows."""
FEWEST_ROWS: Final = 48
ACTION_LAGS: Final = (1, 2, 3, 4, 5, 6, 7, 8)
REWARD_LAGS: Final = (1, 2, 3, 5, 8)
RIDGE: Final = 1e-6
LEAST_MOVES: Final = 0.05
"""Share of steps in which a component has to change for its changes to count: rare ones say nothing about every step."""
LEAST_LEFT: Final = 1e-4
"""Share of a variance below which what is left of it is rounding and curvature."""

OF_DYNAMICS: Final = (
    "action_effect", "action_effect_shuffled", "action_effect_lag1", "action_effect_lag2", "action_effect_past", "action_lag",
    "action_effect_reward", "action_effect_reward_shuffled", "reward_by_action", "obs_explained", "obs_memory", "obs_diff_autocorr",
)  # fmt: skip
OF_REWARDS: Final = (
    "reward_explained", "reward_explained_past", "reward_lag", "reward_common", "reward_common_share", "reward_time_corr",
    "reward_end_share", "reward_end_gap", "reward_gap", "reward_gap_spread",
)  # fmt: skip
OF_STARTS: Final = ("starts", "start_distinct")
OF_SCALES: Final = ("obs_std_median", "obs_std_max", "obs_offset_max", "obs_constant", "obs_at_bound")
OF_EPISODES: Final = ("return_length_corr", "return_length_share")
NAMES: Final = OF_DYNAMICS + OF_REWARDS + OF_STARTS + OF_SCALES + OF_EPISODES


def measure(
    obs: Array | None,
    actions: Array,
    rewards: Array,
    ended: Array,
    *,
    choices: int | None = None,
    terminated: Array | None = None,
    valid: Array | None = None,
    age: Array | None = None,
) -> Readings:
    """All that a stretch shows of dynamics, rewards and starts; names that it cannot tell are left out.

    obs [T, N, D]: as the env gave them, acted on at each step; None where they are images. actions: [T, N] choices of `choices`, or
    [T, N, A]. ended: where an episode was over after the step. valid: rows that are transitions. age: steps since the episode's start;
    without it, of episodes that begin within the stretch.
    """
    going = ~ended.astype(bool) if valid is None else ~ended.astype(bool) & valid.astype(bool)
    found = measure_reward_timing(rewards, ended, terminated, age, valid)
    if obs is None or not np.isfinite(rewards).all():
        return found
    obs = obs.reshape(*rewards.shape, -1)
    if not np.isfinite(obs).all() or obs.shape[2] == 0:
        return found
    found |= measure_starts(obs, ended, valid)
    acted = _encode(actions, rewards.shape, choices)
    obs, acted, rewards, going = _thin(obs, acted, rewards, going)
    found |= _measure_dynamics(obs, acted, rewards, going) | _measure_action_lags(obs, acted, going)
    return found | _measure_reward_lags(obs, acted, rewards, going)


def measure_reward_timing(
    rewards: Array, ended: Array, terminated: Array | None = None, age: Array | None = None, valid: Array | None = None
) -> Readings:
    """When rewards come: at every step the same, with time, or only at the end."""
    keep = np.ones(rewards.shape, dtype=bool) if valid is None else valid.astype(bool)
    paid = rewards[keep].astype(np.float64)
    if paid.size < 2 or not np.isfinite(paid).all():
        return {}
    middle = float(np.partition(paid, paid.size // 2)[paid.size // 2])
    found = {"reward_common": middle, "reward_common_share": float((paid == middle).mean())}
    spread = float(paid.std())
    last = ended.astype(bool)[keep]
    total = float(np.abs(paid).sum())
    if last.any() and total > 0:
        found["reward_end_share"] = float(np.abs(paid[last]).sum()) / total
    final = last if terminated is None else terminated.astype(bool)[keep]
    if final.any() and not final.all() and spread > 0:
        found["reward_end_gap"] = float(paid[final].mean() - paid[~final].mean()) / spread
    gaps = _find_gaps(rewards, ended, keep)
    if len(gaps) > 3:
        found["reward_gap"] = float(gaps.mean())
        found["reward_gap_spread"] = float(gaps.std() / gaps.mean())
    known = keep
    if age is None:
        age, seen = _count_ages(ended.astype(bool))
        known = keep & seen
    if known.sum() > 1:
        found["reward_time_corr"] = _correlate(age[known].astype(np.float64), rewards[known].astype(np.float64))
    return found


def measure_starts(obs: Array, ended: Array, valid: Array | None = None) -> Readings:
    """How many episodes began within the stretch, and which share of their first observations are different ones."""
    counts = np.ones(ended.shape, dtype=bool) if valid is None else valid.astype(bool)
    begins = np.zeros(ended.shape, dtype=bool)
    # A row that is no transition leads from an end to the next start.
    begins[1:] = (ended.astype(bool) | ~counts)[:-1] & counts[1:]
    first = np.ascontiguousarray(obs[begins])
    found = {"starts": float(len(first))}
    if len(first) > 1:
        found["start_distinct"] = len({row.tobytes() for row in first}) / len(first)
    return found


def measure_scales(shown: Array, raw: Array | None = None, low: Array | None = None, high: Array | None = None) -> Readings:
    """Spread and offset over components of what the networks are shown, [rows, D]; and how much of `raw` lies at its declared bounds."""
    table = shown.reshape(len(shown), -1)[-MOST_ROWS:].astype(np.float64)
    if len(table) < 2 or not np.isfinite(table).all():
        return {}
    deviation, mean = table.std(0), np.abs(table.mean(0))
    constant = deviation <= 1e-7 * np.maximum(mean, 1e-6)
    found = {"obs_std_median": float(np.median(deviation)), "obs_std_max": float(deviation.max()), "obs_constant": float(constant.mean())}
    if not constant.all():
        found["obs_offset_max"] = float((mean[~constant] / deviation[~constant]).max())
    if raw is not None and low is not None and high is not None and np.size(low) == table.shape[1]:
        low, high = (np.asarray(bound, dtype=np.float64).reshape(-1) for bound in (low, high))
        bounded = np.isfinite(low) & np.isfinite(high) & (high > low)
        seen = raw.reshape(len(raw), -1)[-MOST_ROWS:]
        # A component that takes two values only is a flag: it is at a bound all the time.
        varied = bounded & (deviation > 0)
        if varied.any():
            part = seen[:, varied]
            at = ((part <= low[varied]) | (part >= high[varied])).mean(0)
            found["obs_at_bound"] = float(at[at < 1].max(initial=0.0))
    return found


def measure_episodes(returns: Array, lengths: Array) -> Readings:
    """Whether an episode's return is its length times something, and with which sign."""
    if len(returns) < 8 or not (np.isfinite(returns).all() and np.isfinite(lengths).all()):
        return {}
    together = _correlate(np.asarray(lengths, dtype=np.float64), np.asarray(returns, dtype=np.float64))
    size = float(np.abs(returns).mean())
    rest = float(np.abs(returns - np.mean(returns) / max(float(np.mean(lengths)), 1e-9) * lengths).mean())
    return {"return_length_corr": together, "return_length_share": max(0.0, 1 - rest / size) if size > 0 else 1.0}


# ── inside ──


def _count_ages(ended: Array) -> tuple[Array, Array]:
    """Steps since the last end within the stretch, [T, N], and where there was one."""
    place = np.arange(len(ended))[:, None]
    last = np.maximum.accumulate(np.where(ended, place, -1), axis=0)
    before = np.concatenate([np.full_like(last[:1], -1), last[:-1]])
    return place - before - 1, before >= 0


def _find_gaps(rewards: Array, ended: Array, keep: Array) -> Array:
    """Steps between two rewards other than 0 of one episode."""
    found = []
    episode = np.cumsum(ended.astype(bool), axis=0) - ended.astype(bool)
    for env in range(rewards.shape[1]):
        paid = np.flatnonzero((rewards[:, env] != 0) & keep[:, env])
        same = episode[paid[1:], env] == episode[paid[:-1], env]
        found.append(np.diff(paid)[same])
    return np.concatenate(found) if found else np.zeros(0)


def _encode(actions: Array, shape: tuple[int, ...], choices: int | None) -> Array:
    """Actions as columns, [T, N, K]: a choice is one of K - 1 flags, the last one none of them."""
    if choices is None:
        return actions.reshape(*shape, -1).astype(np.float64)
    kinds = min(max(choices - 1, 1), MOST_COMPONENTS)
    return (actions.reshape(*shape, 1) == np.arange(kinds)).astype(np.float64)


def _thin(obs: Array, acted: Array, rewards: Array, going: Array) -> tuple[Array, Array, Array, Array]:
    """Few rows, still side by side in time, and few components."""
    steps = min(len(obs), MOST_ROWS)
    envs = max(1, MOST_ROWS // steps)
    size = obs.shape[2]
    parts = slice(None) if size <= MOST_COMPONENTS else np.unique(np.linspace(0, size - 1, MOST_COMPONENTS).astype(int))
    window = (slice(len(obs) - steps, None), slice(0, envs))
    return (
        obs[window][:, :, parts].astype(np.float64),
        acted[window][:, :, :MOST_COMPONENTS],
        rewards[window].astype(np.float64),
        going[window],
    )


def _measure_dynamics(obs: Array, acted: Array, rewards: Array, going: Array) -> Readings:
    """Which part of the next change is the action's, and which part only the past explains."""
    inside = _find_rows(going, 2)
    count = int(inside.sum())
    if count < FEWEST_ROWS:
        return {}

    def take(table: Array, back: int = 0) -> Array:
        return np.roll(table, back, axis=0)[:-1][inside].reshape(count, -1)

    moved = obs[1:] - obs[:-1]
    now, action, change = take(obs), take(acted), moved[inside]
    scaled = np.clip(_standardize(now), -FURTHEST, FURTHEST)
    acting = np.concatenate([action, _multiply(scaled, action)], 1)
    model = _Model(
        {
            "obs": np.concatenate([now, _multiply(scaled)], 1),
            "action": acting,
            "shuffled": np.roll(acting, count // 2, axis=0),
            "lag1": take(acted, 1),
            "lag2": take(acted, 2),
            "before": take(obs, 1),
            "change": np.clip(_standardize(change), -FURTHEST, FURTHEST),
            "reward": take(rewards),
        }
    )
    found: Readings = {}
    moves = (model.spread("change") > 0) & ((change != 0).mean(0) >= LEAST_MOVES)
    if moves.any():
        for name, block in (("", "action"), ("_shuffled", "shuffled"), ("_lag1", "lag1"), ("_lag2", "lag2")):
            found[f"action_effect{name}"] = float(model.gain(["obs"], block, "change")[moves].max())
        found["obs_explained"] = float(np.median(model.explained(["obs", "action"], "change")[moves]))
        found["obs_memory"] = float(model.gain(["obs", "action"], "before", "change", of_all=True)[moves].max())
        earlier = np.roll(moved, 1, axis=0)[inside]
        found["obs_diff_autocorr"] = float(np.median((_standardize(change) * _standardize(earlier)).mean(0)[moves]))
    if model.spread("reward")[0] > 0:
        found["action_effect_reward"] = float(model.gain(["obs"], "action", "reward")[0])
        found["action_effect_reward_shuffled"] = float(model.gain(["obs"], "shuffled", "reward")[0])
        found["reward_by_action"] = _explain(np.concatenate([action, np.square(action)], 1), take(rewards)[:, 0])
    return found


def _measure_action_lags(obs: Array, acted: Array, going: Array) -> Readings:
    """Which action the next change answers to: the one just taken, or one of some steps before."""
    inside = _find_rows(going, max(ACTION_LAGS))
    count = int(inside.sum())
    if count < FEWEST_ROWS:
        return {}
    change, now = (obs[1:] - obs[:-1])[inside], obs[:-1][inside]
    blocks = {str(back): np.roll(acted, back, axis=0)[:-1][inside] for back in (0, *ACTION_LAGS)}
    model = _Model({"obs": now, **blocks, "change": np.clip(_standardize(change), -FURTHEST, FURTHEST)})
    moves = (model.spread("change") > 0) & ((change != 0).mean(0) >= LEAST_MOVES)
    if not moves.any():
        return {}
    shares = {back: float(model.gain(["obs"], str(back), "change")[moves].max()) for back in (0, *ACTION_LAGS)}
    best = max(ACTION_LAGS, key=lambda back: shares[back])
    # The best of several is larger than one by chance alone.
    chance = 3 * acted.shape[2] * len(ACTION_LAGS) / count
    late = shares[best] > 2 * shares[0] + chance
    return {"action_effect_past": shares[best], "action_lag": float(best if late else 0)}


def _measure_reward_lags(obs: Array, acted: Array, rewards: Array, going: Array) -> Readings:
    """How much of the reward the step itself explains, and how much a step some time ago."""
    inside = _find_rows(going, max(REWARD_LAGS))
    count = int(inside.sum())
    if count < FEWEST_ROWS:
        return {}
    reward = rewards[:-1][inside]
    if not reward.std() > 1e-9 * max(float(np.abs(reward).max()), 1e-30):
        return {}
    scaled = np.clip(_standardize(obs.reshape(-1, obs.shape[2])), -FURTHEST, FURTHEST).reshape(obs.shape)
    # What a step's reward is usually made of: where it began and led to, squares of both, and the action.
    places = np.concatenate([scaled, np.square(scaled)], 2)
    features = np.concatenate([places[1:], places[:-1], acted[:-1], np.square(acted[:-1])], 2)
    shares = {back: _explain(np.roll(features, back, axis=0)[inside], reward) for back in (0, *REWARD_LAGS)}
    best = max(REWARD_LAGS, key=lambda back: shares[back])
    chance = features.shape[2] / count
    late = shares[best] > shares[0] + chance / 2 and 1 - shares[best] < (1 - shares[0]) / 2
    return {"reward_explained": shares[0], "reward_explained_past": shares[best], "reward_lag": float(best if late else 0)}


def _find_rows(going: Array, lag: int) -> Array:
    """Steps [T - 1, N] which, like the `lag` steps before them, did not end an episode: their observations belong together."""
    inside = going[:-1].copy()
    for back in range(1, lag + 1):
        inside[back:] &= going[:-1][:-back]
    inside[:lag] = False
    return inside


def _multiply(scaled: Array, others: Array | None = None) -> Array:
    """Products [rows, K] of components with each other, or with other columns; where they are too many, squares or none."""
    rows, size = scaled.shape
    if others is None:
        left, right = np.triu_indices(size)
        if len(left) > MOST_PRODUCTS or len(left) * 8 > rows:
            left = right = np.arange(size)
        return scaled[:, left] * scaled[:, right]
    if size * others.shape[1] > MOST_PRODUCTS or size * others.shape[1] * 8 > rows:
        return np.zeros((rows, 0))
    return (scaled[:, :, None] * others[:, None, :]).reshape(rows, -1)


class _Model:
    """Correlations of named blocks of columns, from which every regression between them follows."""

    def __init__(self, blocks: dict[str, Array]) -> None:
        sizes = np.cumsum([0, *(block.shape[1] for block in blocks.values())])
        self._places = {name: np.arange(first, last) for name, first, last in zip(blocks, sizes, sizes[1:], strict=False)}
        table = _standardize(np.concatenate(list(blocks.values()), 1))
        self._gram = table.T @ table / len(table)

    def spread(self, target: str) -> Array:
        """1 for columns that vary, 0 for those that do not."""
        return np.diag(self._gram)[self._places[target]]

    def explained(self, base: list[str], target: str) -> Array:
        """R² of each column of the target by all columns of the base."""
        known = np.concatenate([self._places[name] for name in base])
        cross = self._gram[np.ix_(known, self._places[target])]
        return np.clip((cross * self._solve(self._gram[np.ix_(known, known)], cross)).sum(0), 0, 1)

    def gain(self, base: list[str], block: str, target: str, *, of_all: bool = False) -> Array:
        """Share of what the base leaves of each target column that the block explains; `of_all`: as a share of all of it."""
        known = np.concatenate([self._places[name] for name in base])
        rest = np.concatenate([self._places[block], self._places[target]])
        cross = self._gram[np.ix_(known, rest)]
        left = self._gram[np.ix_(rest, rest)] - cross.T @ self._solve(self._gram[np.ix_(known, known)], cross)
        size = len(self._places[block])
        inner, across = left[:size, :size], left[:size, size:]
        remaining = np.diag(left)[size:]
        share = (across * self._solve(inner, across)).sum(0)
        if of_all:
            return np.clip(share, 0, 1)
        return np.clip(np.where(remaining > LEAST_LEFT, share / np.maximum(remaining, LEAST_LEFT), 0.0), 0, 1)

    @staticmethod
    def _solve(square: Array, right: Array) -> Array:
        return np.linalg.solve(square + RIDGE * np.eye(len(square)), right)


def _explain(features: Array, target: Array) -> float:
    return float(_Model({"features": features, "target": target[:, None]}).explained(["features"], "target")[0])


def _standardize(table: Array) -> Array:
    """Columns with mean 0 and variance 1; of one that does not vary, zeros."""
    centred = table - table.mean(0)
    deviation = np.sqrt(np.square(centred).mean(0))
    size = np.abs(table).max(0, initial=0.0)
    return np.where(deviation > 1e-9 * np.maximum(size, 1e-30), centred / np.maximum(deviation, 1e-300), 0.0)


def _correlate(x: Array, y: Array) -> float:
    a, b = x - x.mean(), y - y.mean()
    scale = float(np.sqrt(np.square(a).sum() * np.square(b).sum()))
    return float((a * b).sum() / scale) if scale > 1e-20 else 0.0
