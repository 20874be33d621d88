"""What an environment keeps in its own attributes: what a reset leaves there, what is paid for and never shown, what is shown wrongly.

The environment is copied, one attribute of a copy is replaced by what it was at another time, and both go on with the same actions and
the same chance. What then differs says what the attribute is for. Environments that cannot be copied are left alone. Free of torch.
"""

from __future__ import annotations

import copy
import inspect
import logging
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from gymnasium import Space, spaces

from rlclinic.training.envs.examine import trees
from rlclinic.training.envs.examine.contract import Clock, copy_of, same
from rlclinic.training.envs.examine.play import features

SEEDS: Final = (1, 2, 3, 4, 5, 6)
LONG_PLAY, LONG_AFTER = 600, 150
"""Random steps before a reset is compared with that of a new copy, and steps that are looked at after it."""
ROLL: Final = 60
"""Steps that both copies take."""
LONG_BEFORE: Final = 8
"""Steps by which a reward must answer before any observation does."""
FEWEST: Final = 4
"""Exchanges that must have been tried, and that must have shown the same."""
MOST_ATTRIBUTES, MOST_DEPTH, MOST_ELEMENTS, MOST_COLUMNS = 24, 4, 96, 64
LONGEST_EPISODE: Final = 400
WATCHED: Final = 600
"""Steps in which observations are laid beside attributes."""
OTHERS, AFTER_OTHERS = 6, 4
"""Steps with other actions, and with the same ones after them."""
SHORT_EPISODE: Final = 10
CLOCK_EPISODES, SHORTEST_CLOCKED = 3, 8
"""Episodes whose counts are put forward, and how long they must be."""
FEW_STARTS: Final = 240
MOST_LAG: Final = 12
SELDOM: Final = 6.0
"""Steps between two readings from which on a sensor is more than slow."""
SOME_VALUES, MANY_VALUES = 8, 20
"""Different values from which on a number is no choice of a few."""
RESTLESS, FORGOTTEN = 0.5, 0.15
"""Of what is drawn anew: how often it must change, and how little of it may be foretold."""
SMALL: Final = 1e-9
SLOW_COPY: Final = 0.03
"""Seconds: an environment that takes longer to copy is left alone."""
GYMNASIUMS_OWN: Final = frozenset(
    {
        "spec",
        "metadata",
        "render_mode",
        "action_space",
        "observation_space",
        "np_random",
        "_np_random",
        "_np_random_seed",
        "window",
        "screen",
    }
)
IGNORED: Final = "…"
"""Stands for what is no state that can be compared: streams of chance, spaces, functions."""

Array = np.ndarray[Any, np.dtype[Any]]
Watched = tuple[Array, Array, Array, list[str]]
"""Observations and attributes side by side, the number of the episode of each, and the attributes' names."""


def look(make: Callable[[], Any], clock: Clock, found: dict[str, Any]) -> None:
    """Write down what is found, part by part; nothing for an environment that cannot be copied, or that keeps nothing in attributes."""
    env = make()
    env.reset(seed=SEEDS[0])
    before = clock.spent
    copy.deepcopy(env)
    if clock.spent - before > SLOW_COPY or not list(_states(env)):
        return
    found["attributes"] = [name for name, _ in _states(env)]
    parts = (
        _find_lines_that_run, _look_at_starts, _look_at_resets, _look_at_exchanges, _look_at_clocks, _look_at_what_is_shown, _look_twice,
        _look_at_parts, _look_at_what_is_carried,
    )  # fmt: skip
    for part in parts:
        clock.check()
        found |= part(make, clock)


# ── attributes ──


def _states(env: Any) -> Iterator[tuple[str, Any]]:
    """Attributes of the environment itself that hold numbers, by name, as they can be compared."""
    for name, value in list(vars(env.unwrapped).items())[: 4 * MOST_ATTRIBUTES]:
        if name not in GYMNASIUMS_OWN and (plain := _plain(value)) is not IGNORED:
            yield name, plain


def _plain(value: Any, depth: int = 0) -> Any:
    if isinstance(value, bool | int | float | str | np.generic) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return value.copy() if value.dtype.kind in "fiub" else IGNORED
    streams = np.random.Generator | np.random.RandomState | np.random.BitGenerator
    if depth >= MOST_DEPTH or isinstance(value, Space | streams | logging.Logger | type) or callable(value):
        return IGNORED
    if isinstance(value, list | tuple | deque | set | frozenset):
        parts = [_plain(each, depth + 1) for each in list(value)[:MOST_ELEMENTS]]
        return IGNORED if any(each is IGNORED for each in parts) else parts
    if isinstance(value, dict):
        return {str(key): plain for key, each in value.items() if (plain := _plain(each, depth + 1)) is not IGNORED}
    held = getattr(value, "__dict__", None)
    if not held:
        return IGNORED
    return {key: plain for key, each in held.items() if (plain := _plain(each, depth + 1)) is not IGNORED} or IGNORED


def _differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name, value in one.items() if name in other and not same(value, other[name])]


# ── starts and resets ──


def _look_at_starts(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """Which attributes differ between starts of different seeds."""
    env = make()
    starts = []
    for seed in SEEDS:
        env.reset(seed=seed)
        starts.append(dict(_states(env)))
    return {"differ_at_starts": sorted({name for each in starts[1:] for name in _differing(starts[0], each)})}


def _look_at_resets(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """Attributes that a reset leaves as the last episodes left them, and whether what follows is another episode for it."""
    fresh, second, used = make(), make(), make()
    actions = _draw(fresh.action_space, 7, LONG_AFTER)
    _play_on(used, LONG_PLAY, clock)
    runs, states = [], []
    for env in (fresh, second, used):
        obs = env.reset(seed=7)[0]
        states.append(dict(_states(env)))
        kept = copy.deepcopy(env)
        runs.append([copy_of(obs), *_roll(env, actions)])
    seeded = same(runs[0], runs[1])
    left = [name for name in _differing(states[0], states[2]) if same(states[0][name], states[1].get(name))]
    matter = []
    for name in left[:MOST_ATTRIBUTES]:
        first, other = make(), make()
        for env in (first, other):
            env.reset(seed=7)
        if seeded and _put(other, name, getattr(kept.unwrapped, name)):
            one, two = _roll(first, actions), _roll(other, actions)
            matter += [] if same(one, two) else [name]
    return {
        "left_by_resets": left,
        "left_that_matter": matter,
        "episode_differs_after_use": seeded and not same(runs[0], runs[2]),
    }


def _play_on(env: Any, steps: int, clock: Clock) -> None:
    env.action_space.seed(3)
    env.reset(seed=3)
    for _ in range(steps):
        clock.check()
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()


def _draw(space: Any, seed: int, count: int) -> list[Any]:
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def _roll(env: Any, actions: list[Any]) -> list[Any]:
    found = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        found.append((copy_of(obs), float(reward), bool(terminated), bool(truncated)))
        if terminated or truncated:
            break
    return found


def _put(env: Any, name: str, value: Any) -> bool:
    """Whether an attribute of the environment itself could be replaced."""
    try:
        setattr(env.unwrapped, name, copy.deepcopy(value))
    except Exception:  # noqa: BLE001 — a property, a slot, something that cannot be copied: it stays as it is
        return False
    return True


# ── actions ──


def _snapshots(make: Callable[[], Any], clock: Clock, most: int) -> list[Any]:
    """Copies of the environment at different times of different random episodes."""
    found: list[Any] = []
    env = make()
    env.action_space.seed(5)
    for seed in SEEDS:
        env.reset(seed=seed)
        taken = [copy.deepcopy(env)]
        for step in range(LONGEST_EPISODE):
            clock.check()
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
            if step % 7 == 3 and len(taken) < 40:
                taken.append(copy.deepcopy(env))
        # The start, the middle, and near the end.
        places = sorted({round(share * (len(taken) - 1)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
        found += [taken[place] for place in places]
        if len(found) >= most:
            break
    return found


def _look_at_parts(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """Parts of a composed action that never make a difference, from many states."""
    space = make().action_space
    if isinstance(space, spaces.MultiDiscrete) and space.shape and 1 < int(np.prod(space.shape)) <= 12:
        ends = [
            (np.asarray(space.start).ravel()[place], np.asarray(space.start + space.nvec - 1).ravel()[place])
            for place in range(int(np.prod(space.shape)))
        ]
    elif (
        isinstance(space, spaces.Box)
        and 1 < int(np.prod(space.shape)) <= 12
        and np.isfinite(space.low).all()
        and np.isfinite(space.high).all()
    ):
        ends = list(zip(space.low.ravel(), space.high.ravel(), strict=True))
    else:
        return {}
    states = _snapshots(make, clock, 20)
    actions = _draw(space, 9, len(states) + 6)
    effects = [0] * len(ends)
    for number, state in enumerate(states):
        for place, (low, high) in enumerate(ends):
            clock.check()
            outcomes = []
            for value in (low, high):
                first = np.array(actions[number], copy=True)
                first.reshape(-1)[place] = value
                rest = [np.array(each, copy=True) for each in actions[number + 1 : number + 6]]
                for each in rest:
                    each.reshape(-1)[place] = value
                outcomes.append(_try_roll(copy.deepcopy(state), [first, *rest]))
            effects[place] += outcomes[0] is not None and outcomes[1] is not None and not same(outcomes[0], outcomes[1])
    return {"parts": effects, "parts_tried": len(states)} if len(states) >= 8 else {}


def _try_roll(env: Any, actions: list[Any]) -> list[Any] | None:
    try:
        return _roll(env, actions)
    except Exception:  # noqa: BLE001 — a state that was put together may be none of the environment's
        return None


def _look_at_what_is_carried(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """Attributes that remember what was done before: other actions, then the same ones, and how far apart they are left by that.

    In units of what an attribute varies by. What only echoes the last action, or forgets within a few, is not far apart.
    """
    states = _snapshots(make, clock, 16)
    if len(states) < FEWEST:
        return {}
    space = states[0].action_space
    common = _draw(space, 31, AFTER_OTHERS)
    apart: dict[str, list[float]] = {}
    usual = [dict(_flatten(state)) for state in states]
    for number, state in enumerate(states):
        clock.check()
        ends = []
        for draw in (0, 1):
            env = copy.deepcopy(state)
            actions = [*_draw(space, 100 + 2 * number + draw, OTHERS), *common]
            if len(_try_roll(env, actions) or []) == len(actions):
                ends.append(dict(_flatten(env)))
        if len(ends) < 2 or ends[0].keys() != ends[1].keys():
            continue
        for name, value in ends[0].items():
            apart.setdefault(name, []).append(abs(value - ends[1][name]))
    carried: dict[str, float] = {}
    for name, gaps in apart.items():
        spread = float(np.std([each[name] for each in usual if name in each]))
        if len(gaps) >= FEWEST and spread > SMALL:
            whole = name.partition("[")[0]
            carried[whole] = max(carried.get(whole, 0.0), float(np.mean(gaps)) / spread)
    return {"carried": carried}


# ── exchanges ──


def _look_at_exchanges(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """Attributes that decide what is paid or when it is over, and that no observation ever answers to; and sums that are paid later."""
    states = _snapshots(make, clock, 14)
    if len(states) < FEWEST:
        return {}
    known = [dict(_states(each)) for each in states]
    clocks = _find_clocks(make)
    names = [name for name in known[0] if name not in clocks][:MOST_ATTRIBUTES]
    actions = _draw(states[0].action_space, 13, ROLL)
    hidden: dict[str, dict[str, float]] = {}
    observer = _find_observer(states[0])
    bases = [_try_roll(copy.deepcopy(state), actions) for state in states]
    for name in names:
        tried = paid = shown = ended = owed = ahead = now = 0
        for place, state in enumerate(states):
            clock.check()
            base = bases[place]
            donor = next(
                (
                    other
                    for step in range(1, len(states))
                    if _may_stand_for(known[place], known[other := (place + 5 * step) % len(states)], name)
                ),
                None,
            )
            if base is None or donor is None:
                continue
            changed = copy.deepcopy(state)
            if not _put(changed, name, getattr(states[donor].unwrapped, name)):
                continue
            if observer is not None:
                looks = [copy_of(getattr(copy.deepcopy(each).unwrapped, observer)()) for each in (state, changed)]
                now += not same(*looks)
            if (rolled := _try_roll(changed, actions)) is None:
                continue
            tried += 1
            steps = list(zip(base, rolled, strict=False))
            seen_at = next((step for step, (one, other) in enumerate(steps) if not same(one[0], other[0])), None)
            gaps = [float(np.nan_to_num(other[1] - one[1])) for one, other in steps]
            paid_at = next((step for step, gap in enumerate(gaps) if gap != 0), None)
            shown += seen_at is not None
            paid += paid_at is not None
            ahead += paid_at is not None and (seen_at is None or seen_at >= paid_at + LONG_BEFORE)
            ended += any(one[2] != other[2] for one, other in steps)
            owed += _is_owed(gaps, known[place][name], known[donor][name])
        if tried:
            hidden[name] = {"tried": tried, "paid": paid, "shown": shown, "ended": ended, "owed": owed, "ahead": ahead, "now": now}
    return {"exchanged": hidden, "clocks": clocks, "looked_at_once": observer is not None}


def _may_stand_for(one: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    """Whether an attribute has another value of the same kind at another time."""
    if name not in other or same(one[name], other[name]) or type(one[name]) is not type(other[name]):
        return False
    return not isinstance(one[name], np.ndarray) or one[name].shape == other[name].shape


def _is_owed(gaps: list[float], mine: Any, given: Any) -> bool:
    """Whether one later reward, and no other, differs by as much as the attribute does."""
    if not isinstance(mine, int | float | np.number) or isinstance(mine, bool):
        return False
    changed = [gap for gap in gaps[2:] if abs(gap) > 1e-12]
    if any(gap != 0 for gap in gaps[:2]):
        return False
    size = abs(float(given) - float(mine))
    return len(changed) == 1 and size > 0 and abs(abs(changed[0]) - size) < 1e-6 * (1 + size)


def _find_clocks(make: Callable[[], Any]) -> list[str]:
    """Attributes that every step counts up or down by the same amount."""
    env = make()
    env.reset(seed=1)
    env.action_space.seed(1)
    rows = [dict(_states(env))]
    for _ in range(25):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            break
        rows.append(dict(_states(env)))
    if len(rows) < 4:
        return []
    found = []
    for name, value in rows[0].items():
        if isinstance(value, int | float | np.number) and not isinstance(value, bool):
            moves = np.diff([float(row.get(name, np.nan)) for row in rows])
            if np.isfinite(moves).all() and abs(moves[0]) > 0 and np.allclose(moves, moves[0], rtol=1e-6):
                found.append(name)
    return found


def _look_at_clocks(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """Whether a count of steps decides when it is over: put forward by some steps, it ends the same episode that much earlier.

    Counts of wrappers are put forward as well. `ended`: episodes that came to an end by themselves and of which that was tried;
    `by_clock`: by count, how many of them it ended, and how many of those ends were said to be `terminated`.
    """
    ended, by_clock = 0, dict[str, list[int]]()
    for seed in SEEDS[:CLOCK_EPISODES]:
        first = make()
        actions = _draw(first.action_space, 40 + seed, LONGEST_EPISODE)
        first.reset(seed=seed)
        whole = _roll(first, actions)
        clock.check()
        length, ahead = len(whole), max(1, len(whole) // 4)
        if length < SHORTEST_CLOCKED or not (whole[-1][2] or whole[-1][3]):
            continue
        ended += 1
        half = make()
        half.reset(seed=seed)
        rows = [_list_counts(half)]
        for action in actions[: length // 2]:
            half.step(action)
            rows.append(_list_counts(half))
        for key, value in rows[-1].items():
            moves = np.diff([row.get(key, np.nan) for row in rows])
            if not (np.isfinite(moves).all() and abs(moves[0]) > 0 and np.allclose(moves, moves[0], rtol=1e-6)):
                continue
            clock.check()
            changed = copy.deepcopy(half)
            layer, name = key
            setattr(_list_layers(changed)[layer], name, type(getattr(_list_layers(changed)[layer], name))(value + ahead * moves[0]))
            rest = _try_roll(changed, actions[length // 2 :])
            found = by_clock.setdefault(name, [0, 0])
            if rest is not None and len(rest) == length - length // 2 - ahead and (rest[-1][2] or rest[-1][3]):
                found[0] += 1
                found[1] += rest[-1][2]
    return {"ended": ended, "by_clock": by_clock} if ended else {}


def _list_layers(env: Any) -> list[Any]:
    layers = [env]
    while (inner := vars(layers[-1]).get("env")) is not None:
        layers.append(inner)
    return layers


def _list_counts(env: Any) -> dict[tuple[int, str], float]:
    """Numbers of the environment and of its wrappers, by layer and name."""
    return {
        (place, name): float(value)
        for place, layer in enumerate(_list_layers(env))
        for name, value in vars(layer).items()
        if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool) and name not in GYMNASIUMS_OWN
    }


# ── what is shown ──


def _look_at_what_is_shown(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """How well observations tell attributes; and observed numbers that are an attribute of some steps before, its size without its sign,
    or what a cut has left of it."""
    long = _watch(make, clock, LONGEST_EPISODE)
    # What stays for an episode is told only if it is told in episodes that were not seen before: many short ones are looked at.
    short = _watch(make, clock, SHORT_EPISODE)
    if long is None or short is None:
        return {}
    told = _tell_all(short)
    if (starts := _watch(make, clock, 0)) is not None:
        # What is shown at the start, and only there, is for a memory.
        at_starts, stays = _tell_all(starts), _find_what_stays(long)
        told = {name: max(share, at_starts.get(name, 0.0) if name in stays else 0.0) for name, share in told.items()}
    return {"told": told, "shown": _match(*long), "drawn_again": sorted(_find_what_is_drawn_again(long))}


def _find_what_is_drawn_again(watched: Watched) -> set[str]:
    """Attributes that nearly every step draws anew: nothing that is kept says what they will be, as a card that is dealt face down."""
    _, values, number, names = watched
    inside = number[1:] == number[:-1]
    before, after = values[:-1][inside], values[1:][inside]
    if len(after) < MOST_COLUMNS:
        return set()
    memory: dict[str, float] = {}
    for name, old, new in zip(names, before.T, after.T, strict=True):
        restless = float((np.abs(new - old) > SMALL).mean())
        known = 1.0 if restless < RESTLESS or new.std() <= SMALL else trees.explain(before, new)
        whole = name.partition("[")[0]
        memory[whole] = max(memory.get(whole, 0.0), known)
    return {name for name, known in memory.items() if known < FORGOTTEN}


def _find_what_stays(watched: Watched) -> set[str]:
    """Attributes that are drawn at a start and stay for the episode."""
    _, values, number, names = watched
    inside = number[1:] == number[:-1]
    moves = {
        name.partition("[")[0] for name, column in zip(names, values.T, strict=True) if (np.abs(np.diff(column)) > SMALL)[inside].any()
    }
    return {name.partition("[")[0] for name in names} - moves


def _tell_all(watched: Watched) -> dict[str, float]:
    """By attribute: how well the observation tells it, by the worst of its numbers."""
    rows, values, _, names = watched
    told: dict[str, float] = {}
    for place, name in enumerate(names):
        if values[:, place].std() > SMALL:
            whole = name.partition("[")[0]
            told[whole] = min(told.get(whole, 1.0), _tell(rows, values[:, place]))
    return told


def _watch(make: Callable[[], Any], clock: Clock, longest: int) -> Watched | None:
    """Random episodes of at most so many steps; None where observations are no rows of numbers."""
    env = make()
    env.action_space.seed(17)
    seen: list[Array] = []
    held: list[dict[str, float]] = []
    number: list[int] = []
    age = longest
    while len(seen) < (WATCHED if longest else FEW_STARTS):
        clock.check()
        if age >= longest:
            obs = env.reset(seed=len(seen))[0]
            age = 0
        else:
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            age = longest if terminated or truncated else age + 1
        seen.append(features(env.observation_space, obs))
        held.append(dict(_flatten(env)))
        number.append((number[-1] + (age == 0)) if number else 0)
    # Lists that grow are left out.
    first = list(held[0])
    changing = {name.partition("[")[0] for flat in held for name in flat.keys() ^ held[0].keys()}
    names = [name for name in first if name.partition("[")[0] not in changing]
    if len({len(row) for row in seen}) > 1 or not names or not 0 < len(seen[0]) <= MOST_COLUMNS:
        return None
    return np.array(seen), np.array([[flat[name] for name in names] for flat in held]), np.array(number), names


def _tell(rows: Array, value: Array) -> float:
    if any(_is_line(value, column) for column in rows.T if column.std() > SMALL):
        return 1.0
    return trees.explain(rows, value)


def _flatten(env: Any) -> Iterator[tuple[str, float]]:
    """Numbers of attributes, by name and place."""
    left = MOST_ELEMENTS
    for name, value in _states(env):
        if isinstance(value, str) or value is None:
            continue
        try:
            numbers = np.asarray(value, np.float64).ravel()
        except (TypeError, ValueError):
            continue
        if numbers.size > left:
            continue
        left -= numbers.size
        yield from ((name if numbers.size == 1 else f"{name}[{place}]", float(each)) for place, each in enumerate(numbers))


def _match(seen: Array, held: Array, number: Array, names: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    live = [place for place in range(held.shape[1]) if held[:, place].std() > SMALL and len(np.unique(held[:, place])) > 2]
    columns = [column for column in range(seen.shape[1]) if seen[:, column].std() > SMALL]
    exact = {column: [place for place in live if _is_line(held[:, place], seen[:, column])] for column in columns}
    plain = {place for places in exact.values() for place in places}
    for column in columns:
        shown, values = seen[:, column], len(np.unique(seen[:, column]))
        readings = [(place, _is_held(held[:, place], shown, number)) for place in live if place not in plain and values >= SOME_VALUES]
        rare = [(place, every) for place, every in readings if every][:1]
        found += [{"column": column, "name": names[place], "as": "held", "share": every} for place, every in rare]
        if exact[column]:
            continue
        for place in (place for place in live if place not in plain):
            value = held[:, place]
            room = 1e-4 * (1e-9 + np.ptp(value))
            sign = min((value > room).mean(), (value < -room).mean())
            if sign > 0.05 and _is_line(np.abs(value), shown):
                found.append({"column": column, "name": names[place], "as": "size", "share": float(sign)})
                break
            lowest, highest = shown.min(), shown.max()
            cut = np.clip(value, lowest, highest)
            beyond = float((np.abs(cut - value) > room).mean())
            if values >= SOME_VALUES and 0.15 < beyond < 0.95 and np.abs(cut - shown).max() <= room:
                found.append({"column": column, "name": names[place], "as": "cut", "share": beyond})
                break
            lag = next((lag for lag in range(1, MOST_LAG + 1) if _lags(value, shown, number, lag)), 0) if values >= MANY_VALUES else 0
            if lag:
                found.append({"column": column, "name": names[place], "as": "late", "share": float(lag)})
                break
    return found


def _find_observer(env: Any) -> str | None:
    """The method without arguments whose answer step() returns as the observation."""
    try:
        named = re.search(r"return\s*\(?\s*self\.(\w+)\(\)\s*,", inspect.getsource(type(env.unwrapped).step))
    except (OSError, TypeError):
        return None
    return named[1] if named is not None and callable(getattr(env.unwrapped, named[1], None)) else None


def _look_twice(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """What is drawn anew each time the same state is looked at, as a share of what observations vary by."""
    env = make()
    env.reset(seed=1)
    named = _find_observer(env)
    if named is None:
        return {}
    gaps, rows = [], []
    for state in _snapshots(make, clock, 24):
        if _is_paid_by_what_it_draws(state, named):
            return {}
        first, second = (features(env.observation_space, copy_of(getattr(state.unwrapped, named)())) for _ in range(2))
        gaps.append(second - first)
        rows.append(first)
    spread = np.array(rows).var(0)
    live = spread > SMALL
    if len(rows) < FEWEST or not live.any():
        return {}
    return {"drawn_anew": float(np.median(np.minimum(np.array(gaps).var(0)[live] / 2 / spread[live], 1.0))), "observer": named}


def _is_paid_by_what_it_draws(state: Any, observer: str) -> bool:
    """Whether looking draws what the next step pays by: then it is a new state that is seen, and no noise."""
    action, looked = _draw(state.action_space, 5, 1)[0], copy.deepcopy(state)
    before = {name: copy.deepcopy(value) for name, value in vars(state.unwrapped).items() if name in dict(_states(state))}
    getattr(looked.unwrapped, observer)()
    drawn = _differing(dict(_states(state)), dict(_states(looked)))
    paid = _try_roll(copy.deepcopy(looked), [action])
    for name in drawn:
        other = copy.deepcopy(looked)
        outcome = _try_roll(other, [action]) if _put(other, name, before[name]) else None
        if paid is not None and outcome is not None and paid[0][1] != outcome[0][1]:
            return True
    return False


def _find_lines_that_run(make: Callable[[], Any], clock: Clock) -> dict[str, Any]:
    """Lines of the environment's own file that random episodes run: what none of them runs says nothing of what was seen."""
    env = make()
    code = type(env.unwrapped).step.__code__ if hasattr(type(env.unwrapped).step, "__code__") else None
    if code is None or sys.gettrace() is not None:
        return {}
    lines: set[int] = set()

    def watch_line(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            lines.add(frame.f_lineno)
        return watch_line

    def watch_call(frame: Any, event: str, argument: Any) -> Any:
        return watch_line if frame.f_code.co_filename == code.co_filename else None

    sys.settrace(watch_call)
    try:
        _play_on(env, LONG_PLAY, clock)
    finally:
        sys.settrace(None)
    return {"lines_run": sorted(lines)}


def _is_line(value: Array, shown: Array) -> bool:
    """Whether one is the other times a factor plus a constant."""
    one, two = value - value.mean(), shown - shown.mean()
    scale = float(one @ one)
    if scale <= 0:
        return False
    left = two - (float(one @ two) / scale) * one
    return float(np.abs(left).max()) <= 1e-4 * float(np.abs(two).max())


def _is_held(value: Array, shown: Array, number: Array) -> float:
    """Every how many steps a number is made anew from an attribute that changes in between; 0 where it is not."""
    inside = number[1:] == number[:-1]
    renewed = np.flatnonzero((np.abs(np.diff(shown)) > SMALL) & inside) + 1
    moved = float((np.abs(np.diff(value)) > SMALL)[inside].mean())
    if len(renewed) < SOME_VALUES or moved < 0.5 or not _is_line(value[renewed], shown[renewed]):
        return 0.0
    every = float(inside.sum()) / len(renewed)
    return every if every >= SELDOM else 0.0


def _lags(value: Array, shown: Array, number: Array, lag: int) -> bool:
    inside = number[lag:] == number[:-lag]
    return bool(inside.sum() > 40) and value[:-lag][inside].std() > 1e-9 and _is_line(value[:-lag][inside], shown[lag:][inside])
