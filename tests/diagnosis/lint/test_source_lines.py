import ast

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
