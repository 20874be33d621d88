"""`reward check`: the faults of rewards that people write, each by its name, and a sound one that passes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rlclinic.rewards import Shaped, fit_potential
from rlclinic.serve.cli.app import app

ENVIRONMENTS = '''
import gymnasium
import numpy as np
from rlclinic.rewards import Rewards


class Corridor(gymnasium.Env):
    """Nine places in a row; the first kills, the last is the goal."""

    def __init__(self, fault=""):
        self.fault = fault
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(3)
        weights = {"goal": 1.0, "time": -0.2 if fault == "cost" else 0.0, "wait": 0.3 if fault == "wait" else 0.0}
        weights["right"] = 0.1 if fault == "farm" else 0.0
        if fault == "crash":
            weights |= {"goal": 0.0, "time": -10.0, "right": 0.25}
        self.rewards = Rewards(0.99, weights, {"near": lambda place: place / 8 - (3 if fault == "below" else 0)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.taken = 4, 0
        self.rewards.reset(self.place)
        return self.place, {}

    def step(self, action):
        before, self.taken = self.place, self.taken + 1
        self.place = int(np.clip(self.place + (int(action) - 1), 0, 8))
        terminated = self.place in (0, 8)
        values = {"goal": float(self.place == 8), "time": 1.0, "wait": float(action == 1), "right": float(self.place > before)}
        reward, info = self.rewards.step(values, self.place, terminated)
        if self.fault == "sum":
            reward += 0.5
        return self.place, reward, terminated, self.taken >= 60, {**info, "is_success": self.place == 8}
'''


@pytest.fixture
def corridor(tmp_path: Path) -> str:
    (tmp_path / "corridor.py").write_text(ENVIRONMENTS)
    return f"{tmp_path / 'corridor.py'}:Corridor"


def check(env: str, *more: str) -> tuple[int, dict[str, Any]]:
    answer = CliRunner().invoke(app, ["reward", "check", env, "--steps", "3000", "--json", *more])
    assert answer.exit_code in (0, 5), answer.output
    return answer.exit_code, json.loads(answer.stdout)


def test_a_sound_reward_passes_and_its_potential_is_found(corridor: str) -> None:
    code, report = check(corridor)
    assert code == 0
    assert {term["name"]: term["potential"] for term in report["terms"]}["near"] == "yes"
    assert not [remark for remark in report["remarks"] if remark["level"] != "note"]


def test_a_potential_below_zero_pays_for_nothing_else_either(corridor: str) -> None:
    """It pays for staying and for ending, and takes that back: only sums that are not discounted look as if it could be farmed."""
    code, report = check(corridor, "--env-arg", "fault=below")
    assert code == 0
    assert not [remark for remark in report["remarks"] if remark["level"] != "note"]


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("cost", "changes-the-objective"),
        ("cost", "dying-pays"),
        ("wait", "idling-pays"),
        ("farm", "loop-pays"),
        ("sum", "terms-do-not-add-up"),
        ("crash", "one-term-decides"),
    ],
)
def test_a_fault_is_named(corridor: str, fault: str, name: str) -> None:
    _, report = check(corridor, "--env-arg", f"fault={fault}")
    assert name in {remark["name"] for remark in report["remarks"] if remark["level"] != "note"}


def test_what_makes_up_for_what_is_said_in_the_units_that_terms_are_measured_in(corridor: str) -> None:
    _, report = check(corridor, "--env-arg", "fault=crash")
    said = {remark["name"]: remark["what"] for remark in report["remarks"]}
    assert said["indifference"] == "1 of time = 40 of right; 1 of near = 4 of right"
    assert "a usual time = " in said["worth"]  # and what steps paid, whatever they measured


def test_a_reward_that_pays_for_what_is_new_is_told_from_one_that_does_not(tmp_path: Path, corridor: str) -> None:
    curious = """
import corridor

class Curious(corridor.Corridor):
    visits = {}

    def step(self, action):
        place, reward, terminated, truncated, info = super().step(action)
        self.visits[place] = self.visits.get(place, 0) + 1
        info["reward_terms"]["curiosity"] = 0.05 * self.visits[place] ** -0.5
        return place, reward + info["reward_terms"]["curiosity"], terminated, truncated, info
"""
    (tmp_path / "curious.py").write_text(curious)
    _, report = check(f"{tmp_path / 'curious.py'}:Curious")
    assert [remark["what"].split(" pays less")[0] for remark in report["remarks"] if remark["name"] == "fades"] == ["curiosity"]
    assert "fades" not in {remark["name"] for remark in check(corridor)[1]["remarks"]}


def test_one_term_that_is_all_that_is_paid_is_the_task_and_no_shaping(tmp_path: Path, corridor: str) -> None:
    alone = """
import corridor

class Alone(corridor.Corridor):
    share = 1.0

    def step(self, action):
        place, reward, terminated, truncated, info = super().step(action)
        return place, info["is_success"] + 0.0, terminated, truncated, {**info, "reward_terms": {"goal": self.share * info["is_success"]}}

class Rest(Alone):
    share = 0.5
"""
    (tmp_path / "alone.py").write_text(alone)
    assert not check(f"{tmp_path / 'alone.py'}:Alone")[1]["terms"]
    assert [term["name"] for term in check(f"{tmp_path / 'alone.py'}:Rest")[1]["terms"]] == ["goal"]


def test_a_farmable_delivery_is_found_and_its_mended_version_is_not() -> None:
    names = [{remark["name"] for remark in check("Delivery-v0", *more)[1]["remarks"]} for more in ((), ("--env-arg", "farmable=false"))]
    assert ["loop-pays" in each for each in names] == [True, False]


def test_a_reward_that_chance_never_meets_is_bounded() -> None:
    _, report = check("SparseMountainCar-v0")
    assert [remark["name"] for remark in report["remarks"]] == ["never-paid"]


def test_a_term_that_the_environment_does_not_report_is_refused(corridor: str) -> None:
    answer = CliRunner().invoke(app, ["reward", "check", corridor, "--task", "gaol", "--steps", "200"])
    assert answer.exit_code == 2
    assert "goal" in str(answer.exception) + answer.output


ODD = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Odd(gymnasium.Env):
    action_space = spaces.MultiDiscrete([3, 2])
    observation_space = spaces.Dict({"place": spaces.Box(-1, 1, (2,), np.float32), "room": spaces.Discrete(3)})

    def __init__(self, said="fine"):
        self.said = said

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = 0
        return self._see(), {}

    def _see(self):
        return {"place": self.np_random.uniform(-1, 1, 2).astype(np.float32), "room": int(self.np_random.integers(3))}

    def step(self, action):
        self.taken += 1
        goal = {"shape": np.array([1.0, 2.0]), "nan": float("nan"), "word": "much"}.get(self.said, np.array([1.0]))
        terms = [1, 2] if self.said == "list" else {"goal": goal, "help": np.float32(0.25)}
        if self.said == "raise":
            raise RuntimeError("the wheel came off")
        if self.said == "four":
            return self._see(), 1.25, False, {}
        reward = float("inf") if self.said == "inf" else 1.25
        return self._see(), reward, False, self.taken >= 30, {"reward_terms": terms}


class Pictures(Odd):
    observation_space = spaces.Box(0, 255, (24, 24, 3), np.uint8)

    def _see(self):
        return self.np_random.integers(0, 255, (24, 24, 3)).astype(np.uint8)
"""


@pytest.fixture
def odd(tmp_path: Path) -> str:
    (tmp_path / "odd.py").write_text(ODD)
    return f"{tmp_path / 'odd.py'}:"


@pytest.mark.parametrize("name", ["Odd", "Pictures"])
def test_dicts_pictures_and_several_choices_are_judged(odd: str, name: str) -> None:
    _, report = check(odd + name)
    assert [term["name"] for term in report["terms"]] == ["help"]
    assert report["steps"] == 3000


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("shape", "the term goal is of shape (2,), where one finite number is needed"),
        ("nan", "the term goal is nan"),
        ("word", "the term goal is 'much'"),
        ("list", 'info["reward_terms"] is [1, 2]'),
        ("inf", "the reward is inf"),
        ("raise", "step() of Odd cannot be followed: RuntimeError: the wheel came off"),
        ("four", "step() of Odd cannot be followed: ValueError"),
    ],
)
def test_what_is_no_reward_is_refused_by_name(odd: str, said: str, words: str) -> None:
    answer = CliRunner().invoke(app, ["reward", "check", f"{odd}Odd", "--env-arg", f"said={said}", "--steps", "200"])
    assert answer.exit_code == 2
    assert words in str(answer.exception) + answer.output


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "Old has no observation_space, which every Gymnasium environment has"),
        (
            "    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)",
            "reset() of Old cannot be followed",
        ),
    ],
)
def test_an_environment_without_a_base_class_is_refused_by_what_it_lacks(tmp_path: Path, given: str, words: str) -> None:
    """It has no close() either: what is said must not be lost in that."""
    old = [
        "import gymnasium",
        "class Old:",
        given or "    pass",
        "    def reset(self): return 0",
        "    def step(self, action): return 0, 1.0, True, {}",
    ]
    (tmp_path / "old.py").write_text("\n".join(old))
    answer = CliRunner().invoke(app, ["reward", "check", f"{tmp_path / 'old.py'}:Old", "--steps", "200"])
    said = str(answer.exception) + answer.output
    assert answer.exit_code == 2, said
    assert words in said
    assert f"rlclinic lint --env {tmp_path / 'old.py'}:Old" in said


def test_too_many_numbers_to_search_decide_nothing() -> None:
    """A search among waves of sixty-four numbers takes minutes."""
    random = np.random.default_rng(0)
    obs = random.normal(size=(3_000, 64))
    then, ended = obs + 0.1 * random.normal(size=obs.shape), random.random(3_000) < 0.05
    place = np.abs(obs).sum(1), np.abs(then).sum(1)
    fit = fit_potential(Shaped(obs, then, 0.99 * place[1] * ~ended - place[0], ended), 0.99)
    assert fit.answer == "undecided"
