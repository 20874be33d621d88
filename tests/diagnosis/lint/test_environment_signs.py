"""Signs of a fault that one environment shows to whoever can play it: forks of an episode, days of payment, names of terms, hidden states.

Each has a sound environment beside it that looks alike, and must not be blamed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlclinic.diagnosis import environment_evidence
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.lint.env import lint_facts
from rlclinic.training.envs.examine import farming, play, trees
from rlclinic.training.envs.examine.environment import examine
from tests.diagnosis.examined_envs import Walk
from tests.diagnosis.test_environment_evidence import sick

Facts = dict[str, Any]


@pytest.fixture
def signs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, float]]:
    """By cause, how certain what is seen of an environment makes it."""
    monkeypatch.setattr(play, "RANDOM_STEPS", 1_500)
    monkeypatch.setattr(play, "CONSTANT_STEPS", 120)
    monkeypatch.setattr(play, "speed", lambda env: {"steps": 1_000.0, "seconds": 0.1})
    monkeypatch.setattr(farming, "measure", lambda probe: {})

    def look(kind: type[Any], *, searches: bool = False) -> dict[str, float]:
        facts = examine(kind, kind.__name__, 20.0, searches=searches)
        return {one.cause: one.certainty for one in environment_evidence.find_signs(lint_facts(facts), facts, [Case(sick())])}

    return look


# ── forks ──


class Lame(Walk):
    """What is chosen is done once in twelve steps; the seed decides when."""

    def step(self, action: Any) -> Any:
        return super().step(action if self.np_random.random() < 0.08 else self.np_random.integers(3))


def test_actions_that_are_mostly_replaced_are_seen_by_changing_one_at_a_time(signs: Callable[..., dict[str, float]]):
    assert signs(Lame)["actions-without-effect"] > 0.8
    assert "actions-without-effect" not in signs(Walk)


class Keys(Walk):
    """Nine keys, of which one fits: it is shown which, and the others do nothing."""

    chance = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.observation_space: Any = spaces.Box(0.0, 40.0, (2,), np.float32)
        self.action_space: Any = spaces.Discrete(9)
        self.door = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.door = int(self.np_random.integers(9))
        return self.look(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        opened = int(action) == self.door and self.np_random.random() < self.chance
        self.door = (self.door + 4 * opened) % 9
        return self.look(), 1.0 * opened, False, self.steps >= 40, {}

    def look(self) -> Any:
        return np.array([self.door, self.steps], np.float32)


class RustyKeys(Keys):
    """The key that fits hardly ever turns."""

    chance = 0.05


def test_most_choices_may_do_nothing_where_one_of_them_always_does(signs: Callable[..., dict[str, float]]):
    assert signs(RustyKeys)["actions-without-effect"] > 0.8
    assert "actions-without-effect" not in signs(Keys)


# ── what is hidden ──


class Dark(Walk):
    """The place is not shown, and every place is paid for."""

    def look(self) -> Any:
        return np.array([0.0, self.steps / 40], np.float32)


class Machines(Walk):
    """Three machines: what they pay is shown, and no action changes what is shown. Nothing is hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space: Any = spaces.Box(-4.0, 4.0, (3,), np.float32)

    def step(self, action: Any) -> Any:
        self.steps += 1
        paid = float(self.odds[int(action)])
        return self.look(), paid, False, self.steps >= 40, {}

    def look(self) -> Any:
        self.odds = self.np_random.uniform(-1, 1, 3)
        return self.odds.astype(np.float32)


def test_actions_that_are_paid_for_and_not_shown_are_no_idle_actions(signs: Callable[..., dict[str, float]]):
    found = signs(Dark)
    assert found["observation-partial"] > 0.9 > found.get("actions-without-effect", 0.0)
    assert not {"observation-partial", "actions-without-effect", "observation-noise"} & set(signs(Machines))


class Picture(Walk):
    """A picture of the walk with a colour that nothing has."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space: Any = spaces.Box(0, 255, (2, 1, 12), np.uint8)

    def look(self) -> Any:
        image = np.zeros((2, 1, 12), np.uint8)
        image[0, 0, int(np.clip(6 * self.place + 6, 0, 11))] = 255
        return image


def test_dark_parts_of_a_picture_are_no_dead_sensors(signs: Callable[..., dict[str, float]]):
    assert "observation-partial" not in signs(Picture)


# ── when rewards come ──


class Falling(Walk):
    """Something falls in every five steps, and is caught or not: what pays is seen to happen."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space: Any = spaces.Box(-2.0, 2.0, (3,), np.float32)

    def step(self, action: Any) -> Any:
        self.place = float(np.clip(self.place + 0.3 * (int(action) - 1), -1, 1))
        self.steps += 1
        down = self.steps % 5 == 0
        paid = (1.0 if abs(self.place - self.target) < 0.4 else -0.5) if down else 0.0
        if down:
            self.target = float(self.np_random.uniform(-1, 1))
        return self.look(), paid, False, self.steps >= 40, {}

    def look(self) -> Any:
        if self.steps == 0:
            self.target = float(self.np_random.uniform(-1, 1))
        return np.array([self.place, self.target, 1 - self.steps % 5 / 2], np.float32)


class SavedUp(Walk):
    """What every step earned is paid at every tenth."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        self.owed = (self.owed if self.steps > 1 else 0.0) + reward
        paid, self.owed = (self.owed, 0.0) if self.steps % 10 == 0 or terminated else (0.0, self.owed)
        return obs, paid, terminated, truncated, info


def test_an_event_that_comes_regularly_is_no_reward_that_is_saved_up(signs: Callable[..., dict[str, float]]):
    assert signs(SavedUp)["reward-delayed"] > 0.8
    assert "reward-delayed" not in signs(Falling)


class Cut(Walk):
    def reward(self) -> Any:
        return float(np.clip(self.place - 0.1 * self.np_random.random(), -0.02, 0.02))


def test_rewards_that_pile_up_at_both_ends_are_cut(signs: Callable[..., dict[str, float]]):
    assert signs(Cut)["reward-clipped"] > 0.8


def test_chance_explains_nothing_and_the_right_one_of_three_bins_explains_all():
    random = np.random.default_rng(0)
    seen, chosen = random.random((1_800, 4)), random.integers(0, 3, 1_800)
    right = np.where(seen[:, 0] > 0.5, 2, seen[:, 1] > 0.4)
    points = np.hstack([seen, np.eye(3)[chosen]])
    assert trees.explain(points, 1.0 * (right == chosen)) > 0.85
    assert trees.explain(points, random.standard_normal(1_800)) < 0.05
    assert trees.explain(points, np.ones(1_800)) == trees.explain(points[:, :0], 1.0 * (right == chosen)) == 0.0


# ── signs ──


class Terms(Walk):
    """Caught is good and a miss costs, and that is what is paid."""

    sign, told = 1.0, 1.0

    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, info = super().step(action)
        near = abs(self.place) < 0.3
        terms = {"caught": 1.0 * near, "missPenalty": -0.5 * (not near)}
        paid = self.sign * sum(terms.values())
        told = {name: self.sign * (abs(value) if self.told < 0 else value) for name, value in terms.items()}
        return obs, paid, terminated, truncated, info | {"reward_terms": told}


class Opposite(Terms):
    sign = -1.0


class Sizes(Terms):
    """The penalty is told as a size, and taken off: its sign means nothing."""

    told = -1.0


def test_terms_whose_names_say_the_opposite_of_what_they_pay(signs: Callable[..., dict[str, float]]):
    assert signs(Opposite)["reward-sign"] > 0.9
    assert "reward-sign" not in signs(Terms)
    assert "reward-sign" not in signs(Sizes)


class Punished(Walk):
    """Being at the right end is what it is for, and what is punished."""

    sign = -1.0

    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, info = super().step(action)
        there = terminated and self.place > 0
        return obs, self.sign * (10.0 * there - 0.1), terminated, truncated, info | {"is_success": there}


class Praised(Punished):
    sign = 1.0


def test_the_policy_that_is_paid_most_never_does_what_it_is_for(signs: Callable[..., dict[str, float]]):
    assert signs(Punished, searches=True)["reward-sign"] > 0.8
    assert "reward-sign" not in signs(Praised, searches=True)


def test_a_threshold_beyond_the_largest_reward_of_every_step_that_the_opposite_reward_would_reach():
    facts: Facts = {
        "name": "Belt",
        "time_limit": 36,
        "search": {"best": 23.0, "worst": -58.0, "solved": False},
        "rewards": {"min": -2.1, "max": 0.8, "mean": -0.2, "std": 1.3, "nonzero": 1.0, "distinct": 4.0},
    }
    case = Case(sick())

    def judge(**changed: Any) -> list[str]:
        told = facts | {name: facts[name] | value for name, value in changed.items()}
        return [sign.cause for sign in environment_evidence._judge_sign(told, [case])]

    assert case.threshold == 10.0
    assert judge() == []
    case = Case(sick_with(50.0))
    assert judge() == ["reward-sign"]
    # A goal that chance has not met yet may pay more; and what no simple policy loses, the opposite reward would not pay either.
    assert judge(rewards={"nonzero": 0.1}) == []
    assert judge(search={"worst": -30.0}) == []


def sick_with(threshold: float) -> Any:
    return replace(sick(), threshold=threshold)
