"""Twenty shapings more, of another world: written down before the check saw any of them.

A depot: a point that carries a parcel or not, between a place to pick up and one to drop, with a battery that empties. Observations tell
the place, the battery and whether it carries; never the action before, the time, or how often something was dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np

from rlclinic.rewards import check
from rlclinic.training.envs.examine import rewards

GAMMA: Final = 0.99
PICK, DROP, CHARGER = np.array([-0.6, 0.5]), np.array([0.55, -0.35]), np.array([0.1, 0.8])


class State(NamedTuple):
    """What is there, whether it is seen or not."""

    place: np.ndarray
    battery: float
    carries: bool
    dropped: int
    step: int
    last: np.ndarray


Phi = Callable[[State], float]
Term = Callable[[State, np.ndarray, State, bool], float]


@dataclass(frozen=True)
class Shaping:
    """A term, whether it leaves the best policy as it is, and how well the battery is seen."""

    name: str
    safe: bool
    pay: Term
    noise: float = 0.0


class Depot(gym.Env[dict[str, Any], np.ndarray]):
    """Pick up, drop, three times; the battery and the edge of the floor end it early."""

    def __init__(self, shaping: Shaping) -> None:
        self.shaping = shaping
        box = gym.spaces.Box
        self.observation_space = gym.spaces.Dict(
            {"battery": box(-1, 2, (1,), np.float32), "carries": gym.spaces.Discrete(2), "place": box(-np.inf, np.inf, (2,), np.float32)}
        )
        self.action_space = box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        start, battery = self.np_random.uniform(-0.8, 0.8, 2), float(self.np_random.uniform(0.5, 1.0))
        self.state = State(start, battery, bool(self.np_random.random() < 0.5), 0, 0, np.zeros(2))
        return self._show(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        before, action = self.state, np.clip(np.asarray(action, float), -1, 1)
        place = before.place + 0.3 * action + 0.02 * self.np_random.normal(size=2)
        battery = min(1.0, before.battery - 0.01 - 0.01 * float(action @ action) + 0.1 * bool(np.linalg.norm(place - CHARGER) < 0.3))
        dropped = before.carries and bool(np.linalg.norm(place - DROP) < 0.35)
        carries = (before.carries or bool(np.linalg.norm(place - PICK) < 0.35)) and not dropped
        self.state = State(place, battery, carries, before.dropped + dropped, before.step + 1, action)
        done = self.state.dropped >= 3
        terminated = bool(done or battery <= 0 or np.abs(place).max() > 1.3)
        paid = self.shaping.pay(before, action, self.state, terminated)
        info = {"reward_terms": {"task": float(dropped), "shaping": paid}, "is_success": done}
        return self._show(), float(dropped) + paid, terminated, self.state.step >= 60, info

    def _show(self) -> dict[str, Any]:
        battery = self.state.battery + self.shaping.noise * float(self.np_random.normal())
        return {
            "battery": np.array([battery], np.float32),
            "carries": int(self.state.carries),
            "place": self.state.place.astype(np.float32),
        }


def potential(phi: Phi) -> Term:
    return lambda before, action, after, terminated: GAMMA * phi(after) * (not terminated) - phi(before)


def list_shapings() -> list[Shaping]:
    """Twenty terms."""

    def errand(state: State) -> float:
        return -float(np.linalg.norm(state.place - (DROP if state.carries else PICK)))

    def ramp(state: State) -> float:
        return max(0.0, float(state.place[0] + 0.5 * state.place[1]) - 0.1)

    def charge(state: State) -> float:
        return -(1 - state.battery) * float(np.linalg.norm(state.place - CHARGER))

    def right(state: State) -> float:
        return float(np.sin(2 * state.place[0]))

    return [
        Shaping("the battery", True, potential(lambda s: s.battery)),
        Shaping("the errand", True, potential(errand)),
        Shaping("the errand, without gamma", False, lambda b, a, s, ended: errand(s) * (not ended) - errand(b)),
        Shaping("the errand, kept at the end", False, lambda b, a, s, ended: GAMMA * errand(s) - errand(b)),
        Shaping("the errand, progress only", False, lambda b, a, s, ended: max(errand(s) - errand(b), 0.0)),
        Shaping("carrying", True, potential(lambda s: float(s.carries))),
        Shaping("picking up", False, lambda b, a, s, ended: float(s.carries and not b.carries)),
        Shaping("near the drop while it carries", True, potential(lambda s: s.carries * float(np.exp(-6 * np.sum((s.place - DROP) ** 2))))),
        Shaping("a ramp", True, potential(ramp)),
        Shaping("a ramp, without gamma", False, lambda b, a, s, ended: ramp(s) * (not ended) - ramp(b)),
        Shaping("the action before", True, potential(lambda s: float(s.last[0] - s.last[1]))),
        Shaping("more worth later", True, potential(lambda s: s.step / 60 * float(np.cos(s.place[1])))),
        Shaping("the action before, by place", True, potential(lambda s: float(s.last @ s.place))),
        Shaping("a price of turning", False, lambda b, a, s, ended: -0.1 * float(np.abs(a - b.last).sum())),
        Shaping("a price that rises with time", False, lambda b, a, s, ended: -0.001 * s.step),
        Shaping("a potential and a price of each step", False, lambda b, a, s, ended: potential(right)(b, a, s, ended) - 0.05),
        Shaping("the battery, seen through noise", True, potential(lambda s: s.battery), noise=0.1),
        Shaping("far from the charger with little left", True, potential(charge)),
        Shaping("a price of effort", False, lambda b, a, s, ended: -0.1 * float(a @ a)),
        Shaping("what was dropped", True, potential(lambda s: float(s.dropped))),
    ]  # fmt: skip


def judge(steps: int) -> list[tuple[Shaping, str, float]]:
    """Each shaping, the answer, and what was left unexplained."""
    found: list[tuple[Shaping, str, float]] = []
    for shaping in list_shapings():
        fit = check.check(rewards.record(Depot(shaping), steps), GAMMA).potentials["shaping"]
        found.append((shaping, fit.answer, fit.residual))
    return found
