"""`reward check`: the faults of rewards that people write, each by its name, and a sound one that passes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

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
        self.rewards = Rewards(0.99, weights, {"near": lambda place: place / 8})

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


@pytest.mark.parametrize(
    ("fault", "name"), [("cost", "changes-the-objective"), ("wait", "idling-pays"), ("farm", "loop-pays"), ("sum", "terms-do-not-add-up")]
)
def test_a_fault_is_named(corridor: str, fault: str, name: str) -> None:
    _, report = check(corridor, "--env-arg", f"fault={fault}")
    assert name in {remark["name"] for remark in report["remarks"] if remark["level"] != "note"}


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
