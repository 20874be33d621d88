"""Resetting and stepping a user's environment with an eye on its contract: every breach is noted with where it happened."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rlclinic import core_time

SLACK = 1e-4
"""Share of a bound by which rounding may pass it."""
LONGEST_TEXT = 160


class Broken(Exception):
    """The environment raised, or returned something that nothing can go on with; it is noted already."""


class OutOfTime(Exception):
    """The time of a phase is over."""


@dataclass
class Notes:
    """What was noticed, in the order it was noticed, each kind once with how often."""

    breaches: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: int = 0
    """Taken in all phases together."""

    def breach(self, kind: str, text: str, **numbers: float) -> None:
        """Note a breach of the contract; `kind` is the name of the check that speaks about it."""
        known = self.breaches.setdefault(kind, {"kind": kind, "text": text[: 4 * LONGEST_TEXT], "count": 0, "numbers": numbers})
        known["count"] += 1
        known["numbers"] = {key: max(value, known["numbers"].get(key, value)) for key, value in numbers.items()}

    def counted(self, kind: str) -> int:
        """How often a breach was seen so far."""
        return int(self.breaches[kind]["count"]) if kind in self.breaches else 0


MOST_WAITED = 3.0
"""How many times the whole time an examination may wait for a core besides."""


class Clock:
    """Time that is left: for the whole examination, and for the phase that is running. Waiting for a core does not count."""

    def __init__(self, seconds: float) -> None:
        self._watch = core_time.Stopwatch(MOST_WAITED * seconds)
        self.end = self.phase_end = seconds

    def phase(self, share: float) -> None:
        """Give the next phase a share of the whole time, or what is left."""
        self.phase_end = min(self.spent + share * self.end, self.end)

    @property
    def spent(self) -> float:
        return self._watch.seconds

    def check(self) -> None:
        """OutOfTime if the phase has used its share."""
        if self.spent > self.phase_end:
            raise OutOfTime


class Probe:
    """One environment under examination."""

    def __init__(self, env: Any, notes: Notes, clock: Clock) -> None:
        self.env, self.notes, self.clock = env, notes, clock
        self.steps = 0
        self.length = 40
        """Steps of an episode that is repeated."""
        self.seen: list[np.ndarray] = []
        """Observations of random episodes, as rows."""
        self._shown: list[tuple[Any, Any]] = []

    def reset(self, seed: int | None = None) -> Any:
        """The first observation; Broken if there is none."""
        self.clock.check()
        self.steps = 0
        result = self._call("reset()" if seed is None else f"reset(seed={seed})", self._reset, seed)
        if not isinstance(result, tuple) or len(result) != 2:
            self.notes.breach("reset-signature", f"reset() returned {_kind(result)}, not the pair (obs, info)")
            result = (result, {})
        obs, info = result
        if not isinstance(info, dict):
            self.notes.breach("info-not-a-dict", f"reset() returned {_kind(info)} as info")
        self._look(obs, "reset()")
        return obs

    def _reset(self, seed: int | None) -> Any:
        try:
            return self.env.reset() if seed is None else self.env.reset(seed=seed)
        except TypeError as reason:
            if seed is None or "seed" not in str(reason):
                raise
            self.notes.breach("reset-signature", f"reset(seed=…) is refused: {reason}")
            return self.env.reset()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step, every part checked; Broken if it cannot be used."""
        self.clock.check()
        self.steps += 1
        self.notes.steps += 1
        where = f"step {self.steps} with action {shown(action)}"
        result = self._call(where, self.env.step, action)
        if not isinstance(result, tuple) or len(result) != 5:
            self.notes.breach("step-signature", f"step() returned {_kind(result)}, not (obs, reward, terminated, truncated, info)")
            raise Broken
        obs, reward, terminated, truncated, info = result
        self._look(obs, where)
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_):
                self.notes.breach("flags-not-boolean", f"{name} is {flag!r}, {_kind(flag)}, at {where}")
        if not isinstance(info, dict):
            self.notes.breach("info-not-a-dict", f"step() returned {_kind(info)} as info")
            info = {}
        return obs, self._reward(reward, where), bool(terminated), bool(truncated), info

    def _reward(self, reward: Any, where: str) -> float:
        if isinstance(reward, np.ndarray) and reward.shape != ():
            self.notes.breach("reward-not-a-number", f"the reward is an array of shape {list(reward.shape)} at {where}")
        try:
            value = float(np.asarray(reward, dtype=np.float64).reshape(-1)[0])
        except (TypeError, ValueError, IndexError):
            self.notes.breach("reward-not-a-number", f"the reward is {shown(reward)}, {_kind(reward)}, at {where}")
            raise Broken from None
        if not np.isfinite(value):
            self.notes.breach("not-finite", f"the reward is {value} at {where}")
            return 0.0
        return value

    def _call(self, where: str, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except (Broken, OutOfTime):
            raise
        except Exception as reason:
            frames = traceback.extract_tb(reason.__traceback__)[1:]
            place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
            self.notes.breach(
                "raises", f"{where} raised {type(reason).__name__}: {str(reason).strip()[:LONGEST_TEXT]}{place}", step=float(self.steps)
            )
            raise Broken from reason

    def _look(self, obs: Any, where: str) -> None:
        for known, copied in self._shown:
            if not same(known, copied):
                self.notes.breach(
                    "observation-aliased", f"the array that was returned before {where} has changed since: step() writes into it"
                )
        self._shown = [(obs, copy_of(obs))]
        for path, space, value in leaves(self.env.observation_space, obs):
            look_at(space, value, path, where, self.notes)


def look_at(space: Space[Any], value: Any, path: str, where: str, notes: Notes) -> None:
    """Whether a value is in its space; what is wrong with it if not."""
    name = f"observation{path}"
    if isinstance(space, spaces.Box):
        if not isinstance(value, np.ndarray | np.generic | float | int):
            notes.breach(
                "observation-shape-or-type", f"{name} is {_kind(value)} at {where}; the space says an array of shape {list(space.shape)}"
            )
            return
        array = np.asarray(value)
        if array.shape != space.shape or array.dtype.kind not in "fiub":
            notes.breach(
                "observation-shape-or-type",
                f"{name} has shape {list(array.shape)} and type {array.dtype} at {where}; the space says {space}",
            )
            return
        if array.dtype != space.dtype and not np.can_cast(array.dtype, space.dtype):
            notes.breach("observation-of-another-type", f"{name} has type {array.dtype}; the space says {space.dtype}")
        _look_at_numbers(space, array, name, where, notes)
    elif not space.contains(value):
        notes.breach("observation-shape-or-type", f"{name} is {shown(value)} at {where}, which is not in {space}")


def widened(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """The bounds with room for rounding, computed once for each space."""
    if not hasattr(space, "_rlclinic_bounds"):
        with np.errstate(all="ignore"):
            low, high = space.low - SLACK * (1 + np.abs(space.low)), space.high + SLACK * (1 + np.abs(space.high))
        space._rlclinic_bounds = (low, high)  # type: ignore[attr-defined]
    found: tuple[np.ndarray, np.ndarray] = space._rlclinic_bounds  # type: ignore[attr-defined]
    return found


def _look_at_numbers(space: spaces.Box, array: np.ndarray, name: str, where: str, notes: Notes) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        notes.breach("not-finite", f"{name} holds {'NaN' if np.isnan(array).any() else 'infinity'} at {where}")
        return
    low, high = widened(space)
    outside = (array < low) | (array > high)
    if outside.any():
        index = tuple(int(each) for each in np.argwhere(outside)[0])
        at = f"[{', '.join(map(str, index))}]" if index else ""
        bounds = f"[{space.low[index]:.4g}, {space.high[index]:.4g}]"
        width = np.where(np.isfinite(space.high - space.low), space.high.astype(np.float64) - space.low, 1.0)
        excess = float(np.max(np.maximum(space.low - array, array - space.high)[outside] / np.maximum(width[outside], 1e-9)))
        notes.breach("observation-out-of-bounds", f"{name}{at} is {array[index]:.4g} at {where}; the space says {bounds}", excess=excess)


# ── values of any space ──


def leaves(space: Space[Any], value: Any, path: str = "") -> Iterator[tuple[str, Space[Any], Any]]:
    """The parts of a nested observation with their spaces."""
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from leaves(inner, value.get(key) if isinstance(value, dict) else None, f"{path}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for place, inner in enumerate(space.spaces):
            held = value[place] if isinstance(value, tuple | list) and place < len(value) else None
            yield from leaves(inner, held, f"{path}[{place}]")
    else:
        yield path, space, value


def copy_of(value: Any) -> Any:
    """A copy that later changes cannot reach."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: copy_of(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(copy_of(each) for each in value)
    return value


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, NaN included."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    try:
        return bool(np.array_equal(np.asarray(left), np.asarray(right), equal_nan=np.asarray(left).dtype.kind == "f"))
    except (TypeError, ValueError):
        return False


def shown(value: Any) -> str:
    """A value in a few characters."""
    if isinstance(value, np.ndarray):
        return (
            "["
            + ", ".join(f"{each:.3g}" if value.dtype.kind == "f" else str(each) for each in value.ravel()[:6])
            + (", …]" if value.size > 6 else "]")
        )
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "…"


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} values"
    if isinstance(value, np.ndarray):
        return f"an array of shape {list(value.shape)}"
    return f"a {type(value).__name__}"
