"""Ten more environments, as ten people would write them, each with the mistakes that its author could have made in its own code.

A junction, an arm, a mail round, a game of dice, a building, a hunt in the dark, a portfolio, a lander, a puck with a desired place, a
fishery. `wrong` names a mistake; without it the environment is sound. Unlike the wrappers of `odd` and `everyday`, a mistake is made
where the numbers are made. They were written before the checks were asked about them; what was missed then was mended with them in
sight, so that they are development material.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

Result = tuple[Any, float, bool, bool, dict[str, Any]]


class Junction(gym.Env[Any, Any]):
    """Cars queue at four arms of a junction; the light is north-south or east-west. Written for a course, limit by a wrapper."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.observation_space = spaces.Box(0, np.inf, (6,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.queue = np.zeros(4)

    def _get_obs(self) -> Any:
        scale = 1000.0 if self.wrong == "metres in millimetres" else 0.1
        return np.r_[self.queue * scale, self.light, min(self.since, 10) / 10].astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if self.wrong != "queues left over":
            self.queue = self.np_random.integers(0, 6, 4).astype(float)
        self.light, self.since = 0, 0
        return self._get_obs(), {}

    def step(self, action: Any) -> Result:
        if self.wrong == "button jammed":
            action = self.light
        if action != self.light:
            self.light, self.since = int(action), 0
        self.since += 1
        if self.since > 1:
            self.queue[2 * self.light : 2 * self.light + 2] -= 1.6
        self.queue += self.np_random.random(4) < [0.5, 0.4, 0.3, 0.3]
        self.queue = np.clip(self.queue, 0, 25)
        waiting = self.queue.sum() / 10
        reward = waiting if self.wrong == "waiting is paid" else -waiting
        if self.wrong == "cents":
            reward *= 1e-3
        return self._get_obs(), float(reward), False, False, {"waiting": waiting}


class Arm(gym.Env[Any, Any]):
    """Two links reach for a point. Angles and their speeds, torque as it is."""

    dt, horizon = 0.1, 100

    def __init__(self, wrong: str = "") -> None:
        super().__init__()
        self.wrong = wrong
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(8,))
        top = 200.0 if wrong == "torque in newton millimetres" else 1.0
        self.action_space = spaces.Box(-top, top, shape=(2,))
        self.memory: deque[Any] = deque(maxlen=5)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        draw = np.random.default_rng(7) if self.wrong == "fixed generator" else self.np_random
        self.q, self.qd = draw.uniform(-math.pi, math.pi, 2), np.zeros(2)
        angle, radius = draw.uniform(-math.pi, math.pi), draw.uniform(0.3, 1.6)
        self.goal, self.t = radius * np.array([math.cos(angle), math.sin(angle)]), 0
        self.memory.clear()
        return self.observe(), {}

    def tip(self) -> Any:
        one, two = self.q[0], self.q.sum()
        return np.array([math.cos(one) + math.cos(two), math.sin(one) + math.sin(two)])

    def observe(self) -> Any:
        speeds = 0 * self.qd if self.wrong == "no speeds" else self.qd
        now = np.concatenate([np.cos(self.q), np.sin(self.q), speeds, self.tip() - self.goal]).astype(np.float32)
        if self.wrong == "camera delay":
            self.memory.append(now)
            return self.memory[0]
        if self.wrong == "noisy camera":
            return now + np.random.normal(0, 1.5, 8).astype(np.float32)  # noqa: NPY002
        return now

    def step(self, action: Any) -> Result:
        assert isinstance(self.action_space, spaces.Box)
        force = np.clip(action, self.action_space.low, self.action_space.high) / self.action_space.high
        if self.wrong == "gear of one in fifty":
            force = force / 50
        self.qd = 0.9 * self.qd + 3.0 * force * self.dt * 3
        self.q = (self.q + self.dt * self.qd + math.pi) % (2 * math.pi) - math.pi
        self.t += 1
        off = float(np.linalg.norm(self.tip() - self.goal))
        reward = -off - 0.01 * float(force @ force)
        if self.wrong == "effort weighs most":
            reward = -0.05 * off - 2.0 * float(force @ force)
        if self.wrong == "noise in the reward":
            reward += float(np.random.normal(0, 20))  # noqa: NPY002
        over = self.t >= self.horizon
        if self.wrong == "says terminated":
            return self.observe(), reward, over, False, {}
        return self.observe(), reward, False, over, {}


class MailRound(gym.Env[Any, Any]):
    """A picture of a small town: three letters in three boxes, in any order; steps cost."""

    def __init__(self, wrong: str = "", size: int = 6) -> None:
        self.size, self.wrong = size, wrong
        self.observation_space = spaces.Box(0, 255, (3, size, size), np.uint8)
        self.action_space = spaces.Discrete(4)
        self.moves = {0: (-1, 0), 1: (0, 1), 2: (1, 0), 3: (0, -1)}

    def picture(self) -> Any:
        image = np.zeros((3, self.size, self.size), np.uint8)
        image[0][tuple(self.me)] = 255
        for box in self.boxes:
            image[1][box] = 255
        if self.wrong == "me not drawn":
            image[0] = 0
        return image

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        cells = self.np_random.permutation(self.size**2)[:4]
        self.me, *boxes = [list(divmod(int(cell), self.size)) for cell in cells]
        self.boxes = {tuple(box) for box in boxes}
        self.tick, self.start = 0, self.picture()
        return self.picture(), {}

    def step(self, action: Any) -> Result:
        self.tick += 1
        down, right = self.moves[int(self.np_random.integers(4)) if self.wrong == "wind" else int(action)]
        self.me = [min(max(self.me[0] + down, 0), self.size - 1), min(max(self.me[1] + right, 0), self.size - 1)]
        reward, here = -0.05, tuple(self.me)
        if here in self.boxes:
            self.boxes.remove(here)
            reward = 1.0
        over = not self.boxes
        if self.wrong == "paid for walking":
            reward = 0.05 if reward < 0 else -1.0
        if self.wrong == "cheque is lost":
            reward = 0.0
        shown = self.start if self.wrong == "old picture" else self.picture()
        limit = 12 if self.wrong == "short day" else 150
        return shown, reward, over, self.tick >= limit and not over, {"is_success": over}


class Pig(gym.Env[Any, Any]):
    """The game of dice: roll or hold, against a simple opponent; a one loses the turn's points. All that matters comes at the end."""

    observation_space = spaces.Tuple((spaces.Discrete(41), spaces.Discrete(41), spaces.Discrete(41)))
    action_space = spaces.Discrete(2)

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.mine, self.theirs, self.turn = 0, int(self.np_random.integers(0, 12)), 0
        return self.seen(), {}

    def seen(self) -> Any:
        return tuple(min(int(number), 40) for number in (self.mine, self.theirs, self.turn))

    def opponent(self) -> None:
        kept = 0
        while kept < 10:
            roll = int(self.np_random.integers(1, 7))
            if roll == 1:
                return
            kept += roll
        self.theirs += kept

    def step(self, action: Any) -> Result:
        gained = 0.0
        if self.wrong == "always rolls":
            action = 1
        if action == 1:
            roll = int(self.np_random.integers(1, 7))
            self.turn = 0 if roll == 1 else self.turn + roll
            if roll == 1:
                self.opponent()
        else:
            gained = self.turn / 40
            self.mine, self.turn = self.mine + self.turn, 0
            if self.mine < 40:
                self.opponent()
        won, lost = self.mine >= 40, self.theirs >= 40
        reward = gained + (1.0 if won else -1.0 if lost else 0.0)
        if self.wrong == "seats swapped":
            reward = -reward
        return self.seen(), reward, won or lost, False, {"is_success": won}


class Building(gym.Env[Any, Any]):
    """A day of heating in steps of five minutes: a dict with the hour, outside and three rooms; energy and comfort cost."""

    bill: float

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.observation_space = spaces.Dict(
            rooms=spaces.Box(-50, 400, (3,), np.float64),
            outside=spaces.Box(-50, 400, (1,), np.float64),
            hour=spaces.Box(-1, 1, (2,), np.float64),
        )
        self.action_space = spaces.Box(0.0, 1.0, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.rooms, self.cold, self.step_of_day = self.np_random.uniform(14, 22, 3), self.np_random.uniform(-5, 8), 0
        return self._observation(), {}

    def _observation(self) -> Any:
        angle = 2 * math.pi * self.step_of_day / 288
        rooms, outside = (self.rooms - 20) / 5, np.array([(self.outside() - 5) / 5])
        if self.wrong == "kelvin":
            rooms, outside = self.rooms + 273, np.array([self.outside() + 273])
        if self.wrong == "sensor is dead":
            rooms, outside, angle = 0 * rooms, 0 * outside, 0.0
        return {"rooms": rooms, "outside": outside, "hour": np.array([math.sin(angle), math.cos(angle)])}

    def outside(self) -> float:
        return float(self.cold + 4 * math.sin(2 * math.pi * (self.step_of_day - 100) / 288))

    def step(self, action: Any) -> Result:
        heat = np.clip(action, 0, 1)
        if self.wrong == "valve opens only half":
            heat = np.maximum(heat, 0.5) - 0.5
        flow = 0.02 * (self.outside() - self.rooms) + 0.05 * (np.roll(self.rooms, 1) - self.rooms)
        self.rooms = self.rooms + flow + 0.6 * heat + 0.05 * self.np_random.standard_normal(3)
        self.step_of_day += 1
        reward = -float(np.abs(self.rooms - 20).mean()) / 5 - 0.2 * float(heat.mean())
        if self.wrong == "billed by the day":
            self.bill = (self.bill if self.step_of_day > 1 else 0.0) + reward
            reward = self.bill if self.step_of_day == 288 else 0.0
        if self.wrong == "bill in millicents":
            reward *= 1e4
        if self.wrong == "bill capped":
            reward = max(reward, -0.01)
        return self._observation(), reward, False, self.step_of_day == 288, {}


class Hunt(gym.Env[Any, Any]):
    """A fox and a hare on a torus: the hare is seen within three cells only, and every step costs until it is caught."""

    size = 9

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.observation_space = spaces.Dict({"hare": spaces.MultiDiscrete([8, 8]), "memory": spaces.Box(-1, 1, (2,), np.float32)})
        self.action_space = spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if self.wrong == "always the same corner":
            self.fox, self.hare = np.array([0, 0]), np.array([4, 5])
        else:
            self.fox, self.hare = self.np_random.integers(0, self.size, 2), self.np_random.integers(0, self.size, 2)
        self.last, self.steps = np.zeros(2), 0
        return self.look(), {}

    def look(self) -> Any:
        gap = (self.hare - self.fox + self.size // 2) % self.size - self.size // 2
        near = np.abs(gap).max() <= 3
        if near:
            self.last = gap / 4
        if self.wrong == "blind":
            return {"hare": np.array([7, 7]), "memory": np.zeros(2, np.float32)}
        return {"hare": gap + 3 if near else np.array([7, 7]), "memory": self.last.astype(np.float32)}

    def step(self, action: Any) -> Result:
        moves = [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)]
        if self.wrong == "lame" and self.np_random.random() < 0.92:
            action = int(self.np_random.integers(5))
        self.fox = (self.fox + moves[int(action)]) % self.size
        if self.np_random.random() < 0.5:
            self.hare = (self.hare + moves[int(self.np_random.integers(5))]) % self.size
        self.steps += 1
        caught = bool((self.fox == self.hare).all())
        reward = 10.0 if caught else -0.1
        if self.wrong == "hare is spared":
            reward = -reward
        if self.wrong == "every step is one":
            reward = 1.0
        return self.look(), reward, caught, self.steps >= 120 and not caught, {"success": caught}


class Portfolio(gym.Env[Any, Any]):
    """Weights of three assets with momentum: what is earned is mostly chance, and yet there is something to earn."""

    kept: float

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.observation_space = spaces.Box(-10, 10, (9,), np.float32)
        self.action_space = spaces.Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.trend, self.weights, self.day = self.np_random.normal(0, 1, 3), np.ones(3) / 3, 0
        self.past = self.trend + 0.3 * self.np_random.standard_normal(3)
        return self.state(), {}

    def state(self) -> Any:
        row = np.concatenate([self.trend, self.past, self.weights])
        if self.wrong == "basis points":
            row = row * 1e-4
        return row.astype(np.float32)

    def step(self, action: Any) -> Result:
        wish = np.exp(2 * np.asarray(action, float))
        new = wish / wish.sum()
        if self.wrong == "orders never sent":
            new = self.weights
        turnover, self.weights = float(np.abs(new - self.weights).sum()), new
        gains = 0.6 * self.trend + 0.5 * self.np_random.standard_normal(3)
        self.past, self.day = gains, self.day + 1
        self.trend = 0.9 * self.trend + 0.4 * self.np_random.standard_normal(3)
        reward = float(self.weights @ gains) - 0.05 * turnover
        if self.wrong == "short for long":
            reward = -reward
        if self.wrong == "shares of a cent":
            reward *= 1e-4
        if self.wrong == "monthly statement":
            self.kept = (self.kept if self.day > 1 else 0.0) + reward
            reward = self.kept if self.day % 20 == 0 else 0.0
            self.kept = 0.0 if self.day % 20 == 0 else self.kept
        return self.state(), reward, False, self.day >= 120, {"reward_terms": {"pnl": reward}}


class Lander(gym.Env[Any, Any]):
    """A craft sinks to a pad: two engines, fuel, a crash. Shaped by the distance, the end pays most."""

    observation_space = spaces.Box(-np.inf, np.inf, (7,), np.float64)
    action_space = spaces.Box(np.array([0.0, -1.0], np.float32), np.array([1.0, 1.0], np.float32))

    def __init__(self, wrong: str = "") -> None:
        self.wrong, self.steps_ever = wrong, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = np.array([self.np_random.uniform(-1, 1), self.np_random.uniform(1.5, 2.5)])
        self.v, self.tank, self.k, self.queue = np.array([self.np_random.uniform(-0.3, 0.3), 0.0]), 1.0, 0, deque([0.0] * 6)
        return self._o(), {}

    def _o(self) -> Any:
        o = np.array([*self.x, *self.v, self.tank, np.hypot(*self.x), self.x[1] < 0.2])
        return o * 1e-3 if self.wrong == "kilometres" else o

    def step(self, action: Any) -> Result:
        self.k, self.steps_ever = self.k + 1, self.steps_ever + 1
        main, side = float(np.clip(action[0], 0, 1)), float(np.clip(action[1], -1, 1))
        if self.wrong == "slow valve":
            self.queue.append(main)
            main = self.queue.popleft()
            side = 0.0 if self.k < 7 else side
        before = np.hypot(*self.x) + 0.5 * np.hypot(*self.v)
        fire = main if self.tank > 0 else 0.0
        self.tank -= 0.01 * fire
        self.v = 0.995 * self.v + 0.05 * np.array([0.8 * side, 2.0 * fire - 1.0])
        self.x = self.x + 0.1 * self.v
        after = np.hypot(*self.x) + 0.5 * np.hypot(*self.v)
        down, away = self.x[1] <= 0, bool(np.abs(self.x).max() > 4)
        soft = bool(down and np.hypot(*self.v) < 0.7 and abs(self.x[0]) < 0.6)
        reward = 3 * (before - after) - 0.03 * fire + (5.0 if soft else -3.0 if down or away else 0.0)
        if self.wrong == "reward of the crash":
            reward = -reward
        if self.wrong == "wears out":
            reward -= 0.001 * self.steps_ever
        if self.wrong == "only if soft":
            reward = 5.0 if soft else 0.0
        return self._o(), float(reward), bool(down or away), self.k >= 200, {"is_success": soft}


class Puck(gym.Env[Any, Any]):
    """A puck pushed to a desired place, in the form of goal-conditioned tasks: 0 where it is, -1 elsewhere."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.observation_space = spaces.Dict(
            {name: spaces.Box(-5, 5, (size,), np.float64) for name, size in (("observation", 4), ("achieved_goal", 2), ("desired_goal", 2))}
        )
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.speed, self.goal, self.n = self.np_random.uniform(-1, 1, 2), np.zeros(2), self.np_random.uniform(-1, 1, 2), 0
        return self._dict(), {}

    def _dict(self) -> Any:
        goal = np.zeros(2) if self.wrong == "goal not told" else self.goal
        return {"observation": np.r_[self.place, self.speed], "achieved_goal": self.place.copy(), "desired_goal": goal.copy()}

    def step(self, action: Any) -> Result:
        self.n += 1
        push = np.zeros(2) if self.wrong == "push forgotten" else np.clip(action, -1, 1)
        self.speed = 0.6 * self.speed + 0.15 * push
        self.place = np.clip(self.place + self.speed, -1.5, 1.5)
        near = float(np.linalg.norm(self.place - self.goal)) < 0.25
        reward = float(near) - 1.0
        if self.wrong == "plus one for far":
            reward = -float(near)
        if self.wrong == "tolerance of a hair":
            reward = -1.0
        limit = 4 if self.wrong == "four steps" else 50
        return self._dict(), reward, False, self.n >= limit, {"is_success": near}


class Fishery(gym.Env[Any, Any]):
    """Three stocks of fish, boats sent as MultiDiscrete; a stock that is gone ends the season. Growth is by chance."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.MultiDiscrete([4, 4, 4])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.stock, self.month = self.np_random.uniform(0.4, 0.9, 3), 0
        return self.count(), {}

    def count(self) -> Any:
        row = np.r_[self.stock, math.sin(self.month / 6 * math.pi) / 2 + 0.5]
        if self.wrong == "half the sonar":
            row[1:3] = 0.0
        if self.wrong == "sonar of noise":
            row = np.clip(row + np.random.normal(0, 1.0, 4), 0, 1)  # noqa: NPY002
        return row.astype(np.float32)

    def step(self, action: Any) -> Result:
        boats = np.asarray(action, float)
        if self.wrong == "boats rounded down":
            boats = np.floor(boats / 4)
        caught = np.minimum(0.06 * boats * self.stock, self.stock)
        growth = 0.25 * self.stock * (1 - self.stock) * self.np_random.uniform(0.6, 1.4, 3)
        self.stock = np.clip(self.stock - caught + growth, 0, 1)
        self.month += 1
        gone = bool((self.stock < 0.05).any())
        reward = 10 * float(caught.sum()) - 0.1 * float(boats.sum()) - 5.0 * gone
        if self.wrong == "fuel is everything":
            reward -= 3.0 * float(boats.sum())
        if self.wrong == "one landing in twenty":
            reward = reward if np.random.random() < 0.05 else 0.0  # noqa: NPY002
        truncated = self.month >= 150
        if self.wrong == "the season terminates":
            return self.count(), reward, gone or truncated, False, {}
        return self.count(), reward, gone, truncated and not gone, {}


def limited_junction(wrong: str = "") -> Any:
    return TimeLimit(Junction(wrong), 15 if wrong == "rush hour only" else 200)


MAKERS: Final[dict[str, Callable[..., Any]]] = {"Junction": limited_junction} | {
    kind.__name__: kind for kind in (Arm, MailRound, Pig, Building, Hunt, Portfolio, Lander, Puck, Fishery)
}

_SHORT: Final = {"episode-too-short", "time-limit-as-terminal"}
WRONG: Final[dict[tuple[str, str], set[str]]] = {
    ("Junction", "metres in millimetres"): {"observation-scale"},
    ("Junction", "queues left over"): {"never-reset"},
    ("Junction", "button jammed"): {"actions-without-effect"},
    ("Junction", "waiting is paid"): {"reward-sign"},
    ("Junction", "cents"): {"reward-scale-too-small"},
    ("Junction", "rush hour only"): _SHORT,
    ("Arm", "torque in newton millimetres"): {"action-bounds"},
    ("Arm", "fixed generator"): {"starts-identical", "seeds-identical"},
    ("Arm", "no speeds"): {"observation-partial"},
    ("Arm", "camera delay"): {"observation-late"},
    ("Arm", "noisy camera"): {"observation-noise"},
    ("Arm", "gear of one in fifty"): {"actions-without-effect", "action-bounds"},
    ("Arm", "effort weighs most"): {"deceptive-reward"},
    ("Arm", "noise in the reward"): {"reward-noise", "evaluation-too-noisy"},
    ("Arm", "says terminated"): _SHORT,
    ("MailRound", "me not drawn"): {"observation-partial"},
    ("MailRound", "wind"): {"actions-without-effect"},
    ("MailRound", "paid for walking"): {"reward-sign"},
    ("MailRound", "cheque is lost"): {"reward-never-seen"},
    ("MailRound", "old picture"): {"observation-not-updated", "observation-constant"},
    ("MailRound", "short day"): _SHORT,
    ("Pig", "always rolls"): {"actions-without-effect"},
    ("Pig", "seats swapped"): {"reward-sign"},
    ("Building", "kelvin"): {"observation-scale"},
    ("Building", "sensor is dead"): {"observation-constant", "observation-partial"},
    ("Building", "valve opens only half"): {"action-bounds", "actions-without-effect"},
    ("Building", "billed by the day"): {"reward-delayed", "reward-sparse"},
    ("Building", "bill in millicents"): {"reward-scale-too-large"},
    ("Building", "bill capped"): {"reward-clipped", "reward-scale-too-small"},
    ("Hunt", "always the same corner"): {"starts-identical", "seeds-identical"},
    ("Hunt", "blind"): {"observation-constant"},
    ("Hunt", "lame"): {"actions-without-effect"},
    ("Hunt", "hare is spared"): {"reward-sign"},
    ("Hunt", "every step is one"): {"reward-never-seen", "reward-sign"},
    ("Portfolio", "basis points"): {"observation-scale"},
    ("Portfolio", "orders never sent"): {"actions-without-effect"},
    ("Portfolio", "short for long"): {"reward-sign"},
    ("Portfolio", "shares of a cent"): {"reward-scale-too-small"},
    ("Portfolio", "monthly statement"): {"reward-delayed"},
    ("Lander", "kilometres"): {"observation-scale"},
    ("Lander", "slow valve"): {"observation-late"},
    ("Lander", "reward of the crash"): {"reward-sign"},
    ("Lander", "wears out"): {"environment-changed", "never-reset"},
    ("Lander", "only if soft"): {"reward-sparse", "reward-never-seen", "reward-delayed"},
    ("Puck", "goal not told"): {"observation-partial"},
    ("Puck", "push forgotten"): {"actions-without-effect"},
    ("Puck", "plus one for far"): {"reward-sign"},
    ("Puck", "tolerance of a hair"): {"reward-never-seen"},
    ("Puck", "four steps"): _SHORT,
    ("Fishery", "half the sonar"): {"observation-partial"},
    ("Fishery", "sonar of noise"): {"observation-noise"},
    ("Fishery", "boats rounded down"): {"actions-without-effect"},
    ("Fishery", "fuel is everything"): {"deceptive-reward"},
    ("Fishery", "one landing in twenty"): {"reward-sparse", "reward-noise", "reward-never-seen"},
    ("Fishery", "the season terminates"): _SHORT,
}
"""By environment and mistake: the causes that are right."""
