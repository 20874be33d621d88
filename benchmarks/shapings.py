"""Twenty shapings of other kinds than smooth potentials of vectors: rooms beside places, noise, what was done before, time.

Each is a term of a world of four rooms in a row, in which a point moves; it is judged by what `reward check` records of random play. They
were written down before the check saw any of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np

from rlclinic.rewards import check
from rlclinic.training.envs.examine import rewards

ROOMS: Final = 4
GAMMA: Final = 0.99


class State(NamedTuple):
    """What is there, whether it is seen or not."""

    room: int
    place: np.ndarray
    visited: int
    """Rooms that were entered in this episode."""
    step: int
    last: np.ndarray
    """The action before."""
    seen: np.ndarray
    """The place as it is observed."""


Phi = Callable[[State], float]
Term = Callable[[State, np.ndarray, State, bool, np.random.Generator], float]


@dataclass(frozen=True)
class Shaping:
    """A term, whether it leaves the best policy as it is, and what is seen beside the room and the place."""

    name: str
    safe: bool
    pay: Term
    noise: float = 0.0
    """The deviation of observed places from real ones."""
    shows: tuple[str, ...] = ()
    told: bool = True
    """Whether observations tell all that the potential depends on; where not, `undecided` is the best answer."""


class Rooms(gym.Env[dict[str, Any], np.ndarray]):
    """Four rooms in a row; an episode ends behind the last one, and where the point falls off a side."""

    def __init__(self, shaping: Shaping) -> None:
        self.shaping = shaping
        place = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        more = {"last": gym.spaces.Box(-1, 1, (2,), np.float32), "visited": gym.spaces.Box(0, ROOMS, (1,), np.float32)}
        self.observation_space = gym.spaces.Dict(
            {"room": gym.spaces.Discrete(ROOMS), "place": place} | {name: more[name] for name in shaping.shows}
        )
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        room = int(self.np_random.integers(ROOMS))
        place = self.np_random.uniform(-0.8, 0.8, 2)
        self.state, self.rooms = State(room, place, 1, 0, np.zeros(2), self._see(place)), {room}
        return self._show(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        before, action = self.state, np.clip(np.asarray(action, float), -1, 1)
        room, place = before.room, before.place + 0.25 * action + 0.03 * self.np_random.normal(size=2)
        done = room == ROOMS - 1 and place[0] > 1
        if not done and place[0] > 1:
            room, place = room + 1, place - np.array([2.0, 0.0])
        elif place[0] < -1:
            room, place = (room - 1, place + np.array([2.0, 0.0])) if room else (room, np.array([-2 - place[0], place[1]]))
        terminated = bool(done or abs(place[1]) > 1)
        self.rooms.add(room)
        self.state = State(room, place, len(self.rooms), before.step + 1, action, self._see(place))
        paid = self.shaping.pay(before, action, self.state, terminated, self.np_random)
        info = {"reward_terms": {"task": float(done), "shaping": paid}, "is_success": done}
        return self._show(), float(done) + paid, terminated, self.state.step >= 60, info

    def _see(self, place: np.ndarray) -> np.ndarray:
        return place + self.shaping.noise * self.np_random.normal(size=2)

    def _show(self) -> dict[str, Any]:
        more = {"last": self.state.last.astype(np.float32), "visited": np.array([self.state.visited], np.float32)}
        shown = {"room": self.state.room, "place": self.state.seen.astype(np.float32)}
        return shown | {name: more[name] for name in self.shaping.shows}


def potential(phi: Phi) -> Term:
    return lambda before, action, after, terminated, random: GAMMA * phi(after) * (not terminated) - phi(before)


def without_gamma(phi: Phi) -> Term:
    return lambda before, action, after, terminated, random: phi(after) * (not terminated) - phi(before)


def kept_at_the_end(phi: Phi) -> Term:
    return lambda before, action, after, terminated, random: GAMMA * phi(after) - phi(before)


def progress_only(phi: Phi) -> Term:
    return lambda before, action, after, terminated, random: max(phi(after) - phi(before), 0.0)


def list_shapings(seed: int = 0) -> list[Shaping]:
    """Twenty terms; a seed draws doors, slopes and directions."""
    draw = np.random.default_rng(seed)
    doors, slopes, way = draw.uniform(-1, 1, (ROOMS, 2)), draw.normal(size=(ROOMS, 2)), draw.normal(size=2)

    def door(state: State) -> float:
        return -float(np.linalg.norm(state.place - doors[state.room]))

    def sight(state: State) -> float:
        return float(np.cos(state.seen @ way) + state.room)

    def moved(state: State) -> float:
        return float(state.last @ way)

    return [
        Shaping("rooms", True, potential(lambda s: float(s.room))),
        Shaping("rooms, kept at the end", False, kept_at_the_end(lambda s: 1.0 + s.room)),
        Shaping("a door in each room", True, potential(door)),
        Shaping("a door in each room, without gamma", False, without_gamma(door)),
        Shaping("a door in each room, progress only", False, progress_only(door)),
        Shaping("a slope in each room", True, potential(lambda s: float(slopes[s.room] @ s.place))),
        Shaping("into the last room", False, lambda b, a, s, ended, _: float(s.room == ROOMS - 1 and b.room != ROOMS - 1)),
        Shaping("into the last room, taken back", True, potential(lambda s: float(s.room == ROOMS - 1))),
        Shaping("a hill in one room", True, potential(lambda s: float(np.exp(-4 * s.place @ s.place)) * (s.room == 1))),
        Shaping("stairs", True, potential(lambda s: s.room + np.floor(4 * float(s.place[0])) / 8)),
        Shaping("noisy sight, of what is seen", True, potential(sight), noise=0.2),
        Shaping("noisy sight, of what is there", True, potential(lambda s: float(np.cos(s.place @ way))), noise=0.2, told=False),
        Shaping("noisy sight, without gamma", False, without_gamma(sight), noise=0.2),
        Shaping(
            "noise in what is paid",
            True,
            lambda b, a, s, ended, r: potential(lambda x: float(np.cos(x.place @ way)))(b, a, s, ended, r) + 0.05 * r.normal(),
            told=False,
        ),
        Shaping("the last action, unseen", True, potential(moved), told=False),
        Shaping("the last action, seen", True, potential(moved), shows=("last",)),
        Shaping("a price of turning", False, lambda b, a, s, ended, _: -0.1 * float(np.abs(a - b.last).sum()), shows=("last",)),
        Shaping("a price of effort", False, lambda b, a, s, ended, _: -0.1 * float(a @ a)),
        Shaping("rooms visited", True, potential(lambda s: float(s.visited)), shows=("visited",)),
        Shaping("more worth later", True, potential(lambda s: s.step / 60 * float(s.place[0])), told=False),
    ]


def judge(steps: int, seed: int = 0) -> list[tuple[Shaping, str, float]]:
    """Each shaping, the answer, and what was left unexplained."""
    found: list[tuple[Shaping, str, float]] = []
    for shaping in list_shapings(seed):
        fit = check.check(rewards.record(Rooms(shaping), steps), GAMMA).potentials["shaping"]
        found.append((shaping, fit.answer, fit.residual))
    return found
