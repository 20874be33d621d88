"""What an environment keeps in its own attributes: each fault is seen, and its sound neighbour says nothing."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlclinic.training.envs.examine import inside
from rlclinic.training.envs.examine.contract import Clock


class Courier(gym.Env[Any, Any]):
    """Carries a parcel along a line to a door; what was burnt on the way is known to the bookkeeper alone."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-3.0, 3.0, (2,), np.float64)
        self.action_space: Any = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.tank, self.journeys = 1.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.place, self.door = (float(each) for each in self.np_random.uniform(-1.0, 1.0, 2))
        self.tank, self.steps, self.burnt = 1.0, 0, 0.0
        self.journeys += 1
        return self.look(), {}

    def look(self) -> Any:
        return np.array([self.place, self.door])

    def move(self, action: Any) -> float:
        return float(action[0] + 0.5 * action[1])

    def step(self, action: Any) -> Any:
        moved = 0.1 * self.move(action) * self.tank
        self.place = float(np.clip(self.place + moved, -2.0, 2.0))
        self.tank *= 0.999
        self.burnt += abs(moved)
        self.steps += 1
        return self.look(), self.pay(), False, self.steps >= 30, {}

    def pay(self) -> float:
        return -abs(self.place - self.door)


class NeverFilled(Courier):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        tank = self.tank
        found = super().reset(seed=seed)
        self.tank = tank
        return found


class NoDoor(Courier):
    def look(self) -> Any:
        return np.array([self.place, 0.5 * self.place])


class OneWheel(Courier):
    def move(self, action: Any) -> float:
        return float(action[0])


class Billed(Courier):
    def pay(self) -> float:
        return -self.burnt if self.steps == 30 else 0.0


class Late(Courier):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.trail: list[float] = []
        return super().reset(seed=seed)

    def look(self) -> Any:
        self.trail = [*self.trail, self.place][-4:]
        return np.array([self.trail[0], self.door])


class Sideless(Courier):
    def look(self) -> Any:
        return np.abs(super().look())


class HalfBlind(Courier):
    def look(self) -> Any:
        return np.clip(super().look(), 0.0, 3.0)


class Misty(Courier):
    def look(self) -> Any:
        return super().look() + self.np_random.normal(0.0, 1.0, 2)

    def step(self, action: Any) -> Any:
        _, *others = super().step(action)
        return self.look(), *others


class Remembered(Courier):
    """The door is shown at the start, and only there: a task for a memory, and a sound one."""

    def look(self) -> Any:
        return np.array([self.place, self.door if self.steps == 0 else 0.0])


def look_into(kind: Callable[[], Any]) -> dict[str, Any]:
    clock = Clock(60.0)
    clock.phase(1.0)
    found: dict[str, Any] = {}
    inside.look(kind, clock, found)
    return found


def hidden(found: dict[str, Any]) -> set[str]:
    return {name for name, each in found["exchanged"].items() if each["paid"] and not each["shown"] and found["told"].get(name, 0.0) < 0.5}


def test_a_sound_environment_leaves_nothing_hides_nothing_and_uses_every_part_of_its_action() -> None:
    found = look_into(Courier)
    # A count of journeys outlives resets, and nothing that is seen depends on it.
    assert (found["left_by_resets"], found["left_that_matter"]) == (["journeys"], [])
    assert hidden(found) == set()
    assert min(found["parts"]) == found["parts_tried"] > 10
    assert found["shown"] == []
    assert found["clocks"] == ["steps"]


class Falling(gym.Env[Any, Any]):
    """Something falls and is broken after eleven steps, whatever is done: an event, and no clock."""

    observation_space, action_space = spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.frames, self.height, self.speed = 0, 1.0, 0.0
        return np.array([self.height], np.float32), {}

    def step(self, action: Any) -> Any:
        self.frames += 1
        self.speed += 0.015
        self.height -= self.speed
        return np.array([max(self.height, -1.0)], np.float32), 0.0, self.is_over(), False, {}

    def is_over(self) -> bool:
        return self.height <= 0


class Dated(Falling):
    def is_over(self) -> bool:
        return self.frames >= 20


def test_a_count_that_ends_episodes_is_told_from_one_that_only_counts() -> None:
    clock = Clock(60.0)
    clock.phase(1.0)
    fallen, dated = (inside._look_at_clocks(kind, clock) for kind in (Falling, Dated))
    assert (fallen["ended"], fallen["by_clock"]["frames"]) == (3, [0, 0])
    assert (dated["ended"], dated["by_clock"]["frames"]) == (3, [3, 3])
    cut = inside._look_at_clocks(lambda: gym.wrappers.TimeLimit(Dated(), 12), clock)
    assert (cut["by_clock"]["_elapsed_steps"], cut["by_clock"]["frames"]) == ([3, 0], [0, 0])


def test_what_a_reset_leaves_behind_is_named_where_episodes_differ_for_it() -> None:
    assert look_into(NeverFilled)["left_that_matter"] == ["tank"]


def test_what_is_paid_for_and_never_shown_is_named() -> None:
    assert hidden(look_into(NoDoor)) == {"door"}


def test_what_is_shown_at_the_start_alone_is_for_a_memory_and_not_hidden() -> None:
    assert hidden(look_into(Remembered)) == set()


def test_a_part_of_the_action_that_does_nothing_is_seen_from_every_state() -> None:
    found = look_into(OneWheel)
    assert found["parts"][0] == found["parts_tried"]
    assert found["parts"][1] == 0


def test_a_sum_that_is_paid_later_is_owed() -> None:
    found = look_into(Billed)["exchanged"]
    assert found["burnt"]["owed"] == found["burnt"]["tried"] > 3
    assert found["door"]["owed"] == 0


@pytest.mark.parametrize(("kind", "how", "columns"), [(Late, "late", [0]), (Sideless, "size", [0, 1]), (HalfBlind, "cut", [0, 1])])
def test_an_observed_number_that_is_an_attribute_of_before_or_a_part_of_it_is_recognized(kind: Any, how: str, columns: list[int]) -> None:
    assert [(each["column"], each["as"]) for each in look_into(kind)["shown"]] == [(column, how) for column in columns]


def test_noise_is_what_differs_when_the_same_state_is_looked_at_twice() -> None:
    assert look_into(Misty)["drawn_anew"] > 0.3
    assert look_into(Courier).get("drawn_anew", 0.0) == 0.0


def test_an_environment_that_cannot_be_copied_is_left_alone() -> None:
    class Locked(Courier):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("it holds a device")

    with pytest.raises(TypeError):
        look_into(Locked)


def test_lines_that_episodes_run_are_told_from_those_that_none_runs() -> None:
    lines = set(look_into(Courier)["lines_run"])
    first = Courier.pay.__code__.co_firstlineno
    assert first + 1 in lines
    assert Billed.pay.__code__.co_firstlineno + 1 not in lines
