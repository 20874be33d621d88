import ast
from pathlib import Path

import pytest

from rlclinic.diagnosis.findings import Cause, Severity
from rlclinic.diagnosis.lint.env import source_lines
from rlclinic.ops.diagnose import bug_locations

SOURCE = """
import numpy as np
import gymnasium as gym


class Cart(gym.Env):
    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(0)
        self.state = self.rng.normal(size=2)
        return self._get_obs(), {}

    def _get_obs(self):
        return self.history[-4]

    def step(self, action):
        self.state = self.state + 0.1
        distance = float(abs(self.state[0]))
        reward = -(1.0 - distance)
        reward += 3.0 - distance
        return self._get_obs(), reward, False, False, {}
"""


@pytest.mark.parametrize(
    ("cause", "line", "look"),
    [
        ("reward-sign", "reward = -(1.0 - distance)", "the sign of this"),
        ("reward-shifted", "reward = -(1.0 - distance)", "the constant in this"),
        ("observation-late", "return self.history[-4]", "an older observation is returned"),
        ("actions-without-effect", "def step(self, action):", "step() never uses action"),
        (
            "starts-identical",
            "def reset(self, *, seed=None, options=None):",
            "super().reset(seed=seed) is missing: np_random is never seeded",
        ),
    ],
)
def test_the_line_that_does_it_is_named_first(cause: str, line: str, look: str) -> None:
    first = source_lines.find_lines(SOURCE, "Cart", cause)[0]
    assert (first.text, first.look) == (line, look)
    assert SOURCE.splitlines()[first.number - 1].strip() == line


ENDS = """
import gymnasium as gym


class Lift(gym.Env):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin()
        return self.floor, {}

    def begin(self):
        self.floor = self.np_random.uniform()

    def step(self, action):
        self.floor += action
        self.steps += 1
        obs = self.floor
        terminated = self.steps >= 200
        if terminated:
            obs, _ = self.reset()
        return obs, 1.0, terminated, False, {}


def make_lift():
    return gym.wrappers.TimeLimit(Lift(), 300)
"""


@pytest.mark.parametrize(
    ("cause", "line", "look"),
    [
        ("never-reset", "self.steps += 1", "self.steps is changed here, and reset() does not set it"),
        ("final-observation-overwritten", "obs, _ = self.reset()", "step() resets by itself: the last observation is lost"),
        ("time-limit-as-terminal", "terminated = self.steps >= 200", "a clock ends the task here: return it as truncated"),
    ],
)
@pytest.mark.parametrize("name", ["Lift", "make_lift"])
def test_lines_of_ends_and_resets_are_found_in_the_class_or_behind_a_function(cause: str, line: str, look: str, name: str) -> None:
    first = source_lines.find_lines(ENDS, name, cause)[0]
    assert (first.text, first.look) == (line, look)
    assert ast.parse(source_lines.write_test("lift", "Lift", cause))


def test_an_environment_that_was_examined_may_lie_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "lift.py").write_text(ENDS)
    monkeypatch.chdir(tmp_path / "project")
    cause = Cause(id="never-reset", title="x", probability=0.9, severity=Severity.HIGH, rules=(), agree=1, of=1)
    named = f"{tmp_path / 'lift.py'}:Lift"
    assert bug_locations.find_in_environment(cause, named) is None
    found = bug_locations.find_in_environment(cause, named, examined=True)
    assert found is not None
    assert found.places[0].file.endswith("lift.py:16")


def test_a_fixed_seed_is_found() -> None:
    looks = [line.look for line in source_lines.find_lines(SOURCE, "Cart", "starts-identical")]
    assert "the same seed every time" in looks


def test_an_action_that_is_used_is_not_called_unused() -> None:
    used = SOURCE.replace("self.state + 0.1", "self.state + 0.1 * action")
    assert all("never" not in line.look for line in source_lines.find_lines(used, "Cart", "actions-without-effect"))


@pytest.mark.parametrize("source", ["", "class Cart:", "class Other: pass", "class Cart:\n    step = None\n", "\0", "(" * 5000])
def test_a_file_that_says_nothing_gives_no_line(source: str) -> None:
    assert all(source_lines.find_lines(source, "Cart", cause) == [] for cause in ("reward-sign", "starts-identical", "other"))


@pytest.mark.parametrize("cause", ["reward-sign", "reward-shifted", "observation-scale", "observation-late", "starts-identical"])
def test_the_test_that_would_have_caught_it_can_be_parsed(cause: str) -> None:
    written = source_lines.write_test("cart", "Cart", cause)
    names = [node.name for node in ast.parse(written).body if isinstance(node, ast.FunctionDef)]
    assert len(names) == 1
    assert names[0].startswith("test_")


def test_lines_are_read_only_below_the_working_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "cart.py").write_text(SOURCE)
    cause = Cause(id="reward-sign", title="the sign", probability=0.9, severity=Severity.HIGH, rules=("REW510",), agree=1, of=1)
    below = tmp_path / "inner"
    below.mkdir()
    monkeypatch.chdir(tmp_path)
    found = bug_locations.find_in_environment(cause, "cart.py:Cart")
    assert found is not None
    assert found.places[0].file == "cart.py:18"
    assert "def test_" in found.reproduce
    monkeypatch.chdir(below)
    assert bug_locations.find_in_environment(cause, f"{tmp_path}/cart.py:Cart") is None
    assert bug_locations.find_in_environment(cause, "CartPole-v1") is None
    assert bug_locations.find_in_environment(cause, "missing.py:Cart") is None


@pytest.mark.parametrize(
    ("made", "look"),
    [
        ("reward = self.distance", "the sign of this"),
        ("reward = 0.5 * tracking_error", "the sign of this"),
        ("reward = 1.0 / (1.0 + distance)", "one of the lines that make the reward"),
        ("reward = float(distance < 0.1)", "one of the lines that make the reward"),
    ],
)
def test_a_distance_that_is_paid_as_it_is_lacks_a_minus(made: str, look: str) -> None:
    body = f"    def step(self, action):\n        {made}\n        return 0, reward, False, False, {{}}\n"
    source = f"import gymnasium as gym\n\n\nclass Reach(gym.Env):\n{body}"
    (line,) = source_lines.find_lines(source, "Reach", "reward-sign")
    assert (line.text, line.look) == (made, look)
