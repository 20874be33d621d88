"""`reward check` of environments inside of wrappers: which of them undo what makes shaping harmless, and what Rewards knows of its Phi."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

from rlclinic.rewards import Rewards, check
from rlclinic.rewards.check import Checked
from rlclinic.training.envs.examine import rewards

GAMMA = 0.99


class Line(gym.Env[Any, Any]):
    """A point on a line, whose potential has a kink that no smooth function follows."""

    observation_space = gym.spaces.Box(-2, 2, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, gamma: float = GAMMA, told: bool = True) -> None:
        self.rewards = Rewards(gamma, {"goal": 1.0}, {"near": lambda obs: -3 * abs(float(obs[0]) - 0.2)})
        self.told = told

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.taken = float(self.np_random.uniform(-0.5, 0.5)), 0
        self.rewards.reset(self._see())
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.place, self.taken = self.place + 0.1 * (2 * int(action) - 1), self.taken + 1
        over = abs(self.place) >= 1
        reward, info = self.rewards.step({"goal": float(self.place >= 1)}, self._see(), over)
        return self._see(), reward, bool(over), self.taken >= 50, info if self.told else {}

    def _see(self) -> Any:
        return np.array([self.place, 0], np.float32)


class Skipping(gym.Wrapper[Any, Any, Any, Any]):
    """Each action four times."""

    def step(self, action: Any) -> Any:
        paid = 0.0
        for _ in range(4):
            obs, reward, terminated, truncated, info = self.env.step(action)
            paid += float(reward)
            if terminated or truncated:
                break
        return obs, paid, terminated, truncated, info


class Careful(gym.Wrapper[Any, Any, Any, Any]):
    """Pays for more than the environment inside, and says so."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(reward) - 0.1, terminated, truncated, {**info, "reward_terms": {**info["reward_terms"], "effort": -0.1}}


class Own(gym.Wrapper[Any, Any, Any, Any]):
    """Pays something else, in terms of its own."""

    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, _ = self.env.step(action)
        return obs, float(obs[0]), terminated, truncated, {"reward_terms": {"task": float(obs[0]), "rest": 0.0}}


def check_rewards(make: Callable[[], Any]) -> Checked:
    return check.check(rewards.record(make(), 2_000), GAMMA)


WRONG: list[tuple[str, Callable[[], Any], str, str]] = [
    ("scaled by what was seen", lambda: wrappers.NormalizeReward(Line()), "warning", "divides by what it has seen so far"),
    ("clipped", lambda: wrappers.ClipReward(Line(), -0.2, 0.2), "warning", "cuts the reward in"),
    ("turned around", lambda: wrappers.TransformReward(Line(), lambda reward: -reward), "error", "-1 times the reward"),
    ("in other units", lambda: wrappers.TransformReward(Line(), lambda reward: 0.1 * reward), "note", "0.1 times the reward"),
    ("paid for being alive", lambda: wrappers.TransformReward(Line(), lambda reward: reward + 1), "warning", "whoever never ends"),
    ("made to pay for time", lambda: wrappers.TransformReward(Line(), lambda reward: reward - 1), "warning", "whoever ends early"),
    ("only its sign", lambda: wrappers.TransformReward(Line(), np.sign), "warning", "makes another reward of it"),
    ("several steps in one", lambda: Skipping(Line()), "warning", "takes up to 4 steps in one"),
    ("inside of harmless ones", lambda: wrappers.TimeLimit(wrappers.ClipReward(Line(), -0.2, 0.2), 20), "warning", "ClipReward"),
]


@pytest.mark.parametrize(("name", "make", "level", "words"), WRONG, ids=[case[0] for case in WRONG])
def test_a_wrapper_that_makes_another_reward_of_the_terms_is_named(name: str, make: Any, level: str, words: str) -> None:
    (remark,) = [each for each in check_rewards(make).remarks if each.name == "wrapper-order"]
    assert (remark.level, words in remark.what) == (level, True), remark
    assert not [each for each in check_rewards(make).remarks if each.name == "terms-do-not-add-up"]


SOUND: list[tuple[str, Callable[[], Any]]] = [
    ("no wrapper", Line),
    ("a time limit", lambda: wrappers.TimeLimit(wrappers.OrderEnforcing(Line()), 20)),
    ("other observations", lambda: wrappers.RescaleObservation(wrappers.RecordEpisodeStatistics(Line()), np.float32(0), np.float32(1))),
    ("stacked frames", lambda: wrappers.FlattenObservation(wrappers.FrameStackObservation(Line(), 3))),
    ("a wrapper with a term of its own", lambda: Careful(Line())),
    ("a wrapper with terms of its own", lambda: Own(Line())),
    ("no terms", lambda: wrappers.NormalizeReward(Line(told=False))),
]


@pytest.mark.parametrize(("name", "make"), SOUND, ids=[case[0] for case in SOUND])
def test_wrappers_that_leave_the_terms_as_they_are_are_not(name: str, make: Any) -> None:
    assert not [each for each in check_rewards(make).remarks if each.name in ("wrapper-order", "terms-do-not-add-up")]


def test_terms_that_are_not_all_are_still_named_inside_of_wrappers() -> None:
    class Silent(Line):
        def step(self, action: Any) -> Any:
            obs, reward, *rest = super().step(action)
            return obs, reward + self.place, *rest

    names = {each.name for each in check_rewards(lambda: wrappers.ClipReward(Silent(), -0.2, 0.2)).remarks}
    assert {"wrapper-order", "terms-do-not-add-up"} <= names


def test_what_is_listened_to_is_left_as_it_was() -> None:
    env = wrappers.TimeLimit(Line(), 20)
    rewards.record(env, 200)
    assert "step" not in vars(env.env)


def test_the_potential_that_rewards_was_given_is_judged_itself() -> None:
    """A kink that no smooth function follows, and a discount that is not the learner's."""
    right = check_rewards(Line).potentials["near"]
    assert (right.answer, right.residual < 1e-9) == ("yes", True)
    other = check_rewards(lambda: Line(gamma=0.9)).potentials["near"]
    assert other.answer == "no"
    assert "discounted by 0.9, where the learner discounts by 0.99" in other.why


def test_a_potential_that_is_paid_with_something_else_is_not_taken_for_it() -> None:
    class Farmed(Line):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            info["reward_terms"]["near"] += 0.3 * float(action)
            return obs, reward + 0.3 * float(action), terminated, truncated, info

    assert check_rewards(Farmed).potentials["near"].answer != "yes"


def test_an_environment_that_cannot_be_listened_to_is_judged_all_the_same() -> None:
    class Bare:
        __slots__ = ("action_space", "line", "observation_space", "unwrapped")

        def __init__(self) -> None:
            self.line = Line()
            self.unwrapped = self
            self.observation_space, self.action_space = self.line.observation_space, self.line.action_space

        def reset(self, **given: Any) -> Any:
            return self.line.reset(**given)

        def step(self, action: Any) -> Any:
            return self.line.step(action)

    assert check_rewards(Bare).potentials["near"].answer != "no"
