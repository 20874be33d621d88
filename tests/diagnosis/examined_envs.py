"""Small environments with one fault each, and the check that must notice it; `Walk` itself has none."""

import random
import time
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Walk(gym.Env[Any, Any]):
    """Walk to the right end of a line within forty steps."""

    def __init__(self) -> None:
        self.observation_space: Any = spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.action_space: Any = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.uniform(-0.1, 0.1)), 0
        return self.look(), {}

    def step(self, action: Any) -> Any:
        self.place += 0.15 * (int(action) - 1) + float(self.np_random.normal(0, 0.01))
        self.steps += 1
        return self.look(), self.reward(), abs(self.place) > 1, self.steps >= 40, {}

    def look(self) -> Any:
        return np.array([np.clip(self.place, -2, 2), self.steps / 40], np.float32)

    def reward(self) -> Any:
        return self.place


class NoSpaces(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = None


class OldReset(Walk):
    def reset(self, **ignored: Any) -> Any:  # type: ignore[override]
        return super().reset(**ignored)[0]


class UnseededReset(Walk):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class OldStep(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class WrongShape(Walk):
    def look(self) -> Any:
        return np.full(3, self.place, np.float32)


class ListObservation(Walk):
    def look(self) -> Any:
        return [0.0, self.place]


class Doubles(Walk):
    def look(self) -> Any:
        return super().look().astype(np.float64)


class OutOfBounds(Walk):
    def look(self) -> Any:
        return super().look() + np.float32(5)


class NotANumber(Walk):
    def look(self) -> Any:
        return super().look() * np.float32("nan") if self.steps == 7 else super().look()


class InfiniteReward(Walk):
    def reward(self) -> Any:
        return float("inf") if self.steps == 5 else self.place


class WholeFlags(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, int(terminated), truncated, info


class ArrayReward(Walk):
    def reward(self) -> Any:
        return np.array([self.place])


class TextReward(Walk):
    def reward(self) -> Any:
        return "good"


class NoInfo(Walk):
    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], None)


class SameArray(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.shown = np.zeros(2, np.float32)

    def look(self) -> Any:
        self.shown[:] = super().look()
        return self.shown


class Nested(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Dict({"move": spaces.Discrete(3)})

    def step(self, action: Any) -> Any:
        return super().step(action["move"])


class Pushed(Walk):
    """Continuous actions between two bounds."""

    low: Any = -1.0
    high: Any = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(np.float32(self.low), np.float32(self.high), (2,), np.float32)

    def step(self, action: Any) -> Any:
        self.place += 0.05 * float(np.tanh(action[1]))
        return super().step(1 + np.sign(action[0]))


class Unbounded(Pushed):
    low, high = -np.inf, np.inf


class OneValue(Pushed):
    low, high = 1.0, 1.0


class Thousands(Pushed):
    low, high = -1000.0, 1000.0


class FarFromZero(Pushed):
    low, high = 0.0, 1000.0


class HalfIdle(Pushed):
    def step(self, action: Any) -> Any:
        return super().step(np.array([action[0], 0.0]))


class CutOff(Pushed):
    def step(self, action: Any) -> Any:
        return super().step(np.maximum(action, 0.0))


class Raises(Walk):
    def step(self, action: Any) -> Any:
        if self.steps == 11:
            raise ZeroDivisionError("the wall is too near")
        return super().step(action)


class Blocks(Walk):
    def step(self, action: Any) -> Any:
        time.sleep(60)
        return super().step(action)


class OwnRandom(Walk):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.place = random.uniform(-0.5, 0.5)
        return self.look(), {}


class SharedState(Walk):
    visits: ClassVar[list[int]] = []

    def step(self, action: Any) -> Any:
        self.visits.append(1)
        return super().step(action)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.visits.clear()
        return super().reset(seed=seed)

    def look(self) -> Any:
        return np.array([np.clip(self.place, -2, 2), len(self.visits) % 40 / 40], np.float32)


class NoChance(Walk):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=0)
        return self.look(), {}


class Remembers(Walk):
    total = 0

    def step(self, action: Any) -> Any:
        self.total += 1
        return super().step(action)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        started = super().reset(seed=seed)
        if self.total > 60:
            self.place += 0.5
            return self.look(), {}
        return started


class NoEffect(Walk):
    def step(self, action: Any) -> Any:
        return super().step(2)


class Endless(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        self.place, self.steps = float(np.clip(self.place, -1, 1)), self.steps % 40
        return obs, reward, False, False, info


class EndsAtOnce(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.steps >= 1 + int(self.np_random.integers(2)), False, info


class Clock(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        self.place = float(np.clip(self.place, -0.9, 0.9))
        return obs, reward, self.steps >= 40, False, info


class ClockOrWall(Walk):
    """Ends early by itself now and then; otherwise a clock ends it, and says terminated."""

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        self.place = float(np.clip(self.place, -0.9, 0.9))
        return obs, reward, self.steps >= 40 or bool(self.np_random.random() < 0.02), False, info


class Drifts(Walk):
    episodes = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.episodes += 1
        return super().reset(seed=seed)

    def reward(self) -> Any:
        return 1.0 + 0.05 * self.episodes


class Slow(Walk):
    def step(self, action: Any) -> Any:
        time.sleep(0.02)
        return super().step(action)


class Frozen(Walk):
    def look(self) -> Any:
        return np.ones(2, np.float32)


class DeadSensor(Walk):
    def look(self) -> Any:
        return np.array([np.clip(self.place, -2, 2), 0.5], np.float32)


class Huge(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)

    def look(self) -> Any:
        return super().look() * np.array([1.0, 1e5], np.float32)


class FloatImage(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0.0, 255.0, (16, 16, 3), np.float32)

    def look(self) -> Any:
        return np.full((16, 16, 3), 100 + 50 * np.clip(self.place, -2, 2), np.float32)


class StateNumber(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0.0, 40.0, (1,), np.float32)

    def look(self) -> Any:
        return np.array([round(20 + 10 * np.clip(self.place, -2, 2))], np.float32)


class NoReward(Walk):
    def reward(self) -> Any:
        return 0.0


class SameReturn(Walk):
    def step(self, action: Any) -> Any:
        obs, _, _, truncated, info = super().step(action)
        return obs, -1.0, False, truncated, info


class LargeReward(Walk):
    def reward(self) -> Any:
        return 1e4 * self.place


class TinyReward(Walk):
    def reward(self) -> Any:
        return 1e-5 * self.place


class AtTheEnd(Walk):
    def reward(self) -> Any:
        return float(self.place > 1)


class Costly(Pushed):
    """Acting costs, standing still does not."""

    def step(self, action: Any) -> Any:
        obs, _, _, truncated, info = super().step(action)
        return obs, -float(np.abs(action).sum()), False, truncated, info


class FailingSaves(Walk):
    """The line is a beam to balance on: each step costs the distance to its middle, and whoever falls off pays no more for the rest."""

    def step(self, action: Any) -> Any:
        obs, _, fallen, truncated, info = super().step(action)
        return obs, -abs(self.place), fallen, truncated, info


class FailingCosts(FailingSaves):
    """The same, where falling costs more than all steps would."""

    def step(self, action: Any) -> Any:
        obs, reward, fallen, truncated, info = super().step(action)
        return obs, reward - 40 * fallen, fallen, truncated, info


class GoalSaves(Walk):
    """Each step costs the distance to a goal, which ends the episode."""

    def step(self, action: Any) -> Any:
        obs, _, there, truncated, info = super().step(action)
        return obs, abs(self.place) - 1.2, there, truncated, info


class Waiting(Walk):
    """Every step pays, and so does the goal: less than waiting."""

    def step(self, action: Any) -> Any:
        obs, _, _, truncated, info = super().step(action)
        done = self.place > 1
        return obs, 3.0 if done else 1.0 + 0.1 * self.place, done, truncated, info | {"is_success": done}


class AlwaysSucceeds(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, info | {"is_success": True}


class LateReturn(Walk):
    """Tells the return before the reward of the step is added."""

    def reset(self, **given: Any) -> Any:
        self.total = 0.0
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        told, self.total = self.total, self.total + reward
        return obs, reward, terminated, truncated, info | {"episode_return": told}


FAULTS: dict[str, tuple[str, type[Walk]]] = {
    "the return is told too early": ("ENV418", LateReturn),
    "every episode succeeds": ("ENV417", AlwaysSucceeds),
    "no space": ("ENV101", NoSpaces),
    "reset returns the observation alone": ("ENV102", OldReset),
    "reset takes no seed": ("ENV102", UnseededReset),
    "step returns four": ("ENV103", OldStep),
    "another shape": ("ENV104", WrongShape),
    "a list": ("ENV104", ListObservation),
    "doubles": ("ENV105", Doubles),
    "out of bounds": ("ENV106", OutOfBounds),
    "NaN": ("ENV107", NotANumber),
    "infinite reward": ("ENV107", InfiniteReward),
    "flags are numbers": ("ENV108", WholeFlags),
    "reward is an array": ("ENV109", ArrayReward),
    "reward is text": ("ENV109", TextReward),
    "no info": ("ENV110", NoInfo),
    "one array for all": ("ENV111", SameArray),
    "nested actions": ("ENV112", Nested),
    "unbounded actions": ("ENV113", Unbounded),
    "one possible action": ("ENV114", OneValue),
    "actions of thousands": ("ENV115", Thousands),
    "actions far from zero": ("ENV115", FarFromZero),
    "raises": ("ENV201", Raises),
    "a random of its own": ("ENV203", OwnRandom),
    "copies share a list": ("ENV204", SharedState),
    "no chance": ("ENV205", NoChance),
    "remembers the last episode": ("ENV206", Remembers),
    "actions do nothing": ("ENV207", NoEffect),
    "half of the action does nothing": ("ENV208", HalfIdle),
    "one half of every action does nothing": ("ENV208", CutOff),
    "never ends": ("ENV209", Endless),
    "ends at once": ("ENV210", EndsAtOnce),
    "a clock says terminated": ("ENV211", Clock),
    "a clock or a wall says terminated": ("ENV211", ClockOrWall),
    "rewards drift": ("ENV212", Drifts),
    "slow": ("ENV213", Slow),
    "waiting pays more than finishing": ("ENV214", Waiting),
    "failing saves costs": ("ENV419", FailingSaves),
    "nothing changes": ("ENV301", Frozen),
    "a dead sensor": ("ENV302", DeadSensor),
    "huge numbers": ("ENV303", Huge),
    "differing scales": ("ENV304", Walk),
    "an image of floats": ("ENV305", FloatImage),
    "a state's number": ("ENV306", StateNumber),
    "no reward": ("ENV307", NoReward),
    "always the same return": ("ENV308", SameReturn),
    "large rewards": ("ENV309", LargeReward),
    "tiny rewards": ("ENV310", TinyReward),
    "standing still pays": ("ENV311", Costly),
    "reward at the end": ("ENV312", AtTheEnd),
}


# ── what transitions show ──


class StuckInEpisode(Walk):
    def reset(self, **more: Any) -> Any:
        self.first = super().reset(**more)[0]
        return self.first, {}

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return self.first, *rest


class Late(Walk):
    def reset(self, **more: Any) -> Any:
        first, info = super().reset(**more)
        self.past = [first] * 5
        return first, info

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        self.past = [*self.past[1:], obs]
        return self.past[0], *rest


class BlurredEyes(Walk):
    def look(self) -> Any:
        self.random = getattr(self, "random", None) or np.random.default_rng()
        return (super().look() + self.random.normal(0, 0.6, 2)).clip(-2, 2).astype(np.float32)


class TinyNumbers(Walk):
    def look(self) -> Any:
        return super().look() * np.float32(0.001)


class Shifted(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-20.0, 20.0, (2,), np.float32)

    def look(self) -> Any:
        return super().look() * np.float32(0.02) + np.float32(10)


class Slips(Walk):
    def step(self, action: Any) -> Any:
        self.random = getattr(self, "random", None) or np.random.default_rng()
        return super().step(int(self.random.integers(3)))


class SavedUp(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        self.owed = (0.0 if self.steps == 1 else self.owed) + reward
        due = terminated or truncated or self.steps % 8 == 0
        paid, self.owed = (self.owed, 0.0) if due else (0.0, self.owed)
        return obs, paid, terminated, truncated, info


class Lottery(Walk):
    def reward(self) -> Any:
        self.random = getattr(self, "random", None) or np.random.default_rng()
        return self.place if self.random.random() < 0.06 else 0.0


class NoisyReward(Walk):
    def reward(self) -> Any:
        self.random = getattr(self, "random", None) or np.random.default_rng()
        return self.place + 20 * float(self.random.standard_normal())


class ClippedReward(Walk):
    def reward(self) -> Any:
        return float(np.clip(0.1 * self.place, -0.02, 0.02))


class PunishesSuccess(Walk):
    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, _ = super().step(action)
        return obs, -1.0 if self.place > 1 else 0.01, terminated, truncated, {"is_success": self.place > 1}


class ActionsCost(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, 0.1 * reward - 3.0 * (int(action) != 0), terminated, truncated, info


class SameStart(Walk):
    def reset(self, **more: Any) -> Any:
        super().reset(**more)
        self.place = 0.0
        return self.look(), {}


class FewSteps(Walk):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, self.steps >= 10, info


class ResetsItself(Walk):
    """Shows the next episode's first observation as the last of this one."""

    def reset(self, **more: Any) -> Any:
        kept, self.kept = getattr(self, "kept", None), None
        return (kept, {}) if kept is not None and more.get("seed") is None else super().reset(**more)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            obs = self.kept = super().reset()[0]
        return obs, reward, terminated, truncated, info


class GoesOn(Walk):
    """Begins where the last episode ended."""

    def reset(self, **more: Any) -> Any:
        place = getattr(self, "place", None)
        super().reset(**more)
        self.place = self.place if place is None else place
        return self.look(), {}

    def step(self, action: Any) -> Any:
        super().step(action)
        self.place = float(np.clip(self.place, -1, 1))
        return self.look(), self.place, False, self.steps >= 40, {}

    def look(self) -> Any:
        return np.full(2, self.place, np.float32)


OF_TRANSITIONS: dict[str, tuple[str, type[Walk], str]] = {
    "the start is shown for ever": ("ENV401", StuckInEpisode, "observation-not-updated"),
    "observations four steps old": ("ENV402", Late, "observation-late"),
    "blurred observations": ("ENV403", BlurredEyes, "observation-noise"),
    "tiny observations": ("ENV404", TinyNumbers, "observation-scale"),
    "observations around ten": ("ENV405", Shifted, "observation-scale"),
    "actions are replaced": ("ENV406", Slips, "actions-without-effect"),
    "rewards are saved up": ("ENV407", SavedUp, "reward-delayed"),
    "rewards by lot": ("ENV408", Lottery, "reward-sparse"),
    "rewards of noise": ("ENV409", NoisyReward, "reward-noise"),
    "rewards cut off": ("ENV410", ClippedReward, "reward-clipped"),
    "success is punished": ("ENV411", PunishesSuccess, "reward-sign"),
    "acting costs": ("ENV412", ActionsCost, "deceptive-reward"),
    "one start": ("ENV413", SameStart, "starts-identical"),
    "ten steps": ("ENV414", FewSteps, "episode-too-short"),
    "the last observation is the next first": ("ENV415", ResetsItself, "final-observation-overwritten"),
    "a reset that goes on": ("ENV416", GoesOn, "never-reset"),
}
"""Faults that only transitions show: the check, and the cause that it testifies to."""
