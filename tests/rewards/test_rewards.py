"""Rewards of named terms: sums, potentials at both kinds of end, costs, schedules, and what is refused."""

import subprocess
import sys
from typing import Any

import pytest

from rlclinic.errors import UsageError
from rlclinic.rewards import Ramp, Rewards


def shaped(**more: Any) -> Rewards:
    return Rewards(0.9, {"goal": 2.0, "energy": -0.1}, {"progress": lambda x: 10.0 * x}, **more)


def test_terms_sum_to_the_reward_exactly() -> None:
    rewards = shaped(costs=["crash"])
    rewards.reset(0.1)
    for step in range(50):
        reward, info = rewards.step({"goal": 0.1 * step, "energy": 0.3, "crash": 1.0}, 0.01 * step, terminated=False)
        assert reward == sum(info["reward_terms"].values())
        assert list(info["reward_terms"]) == ["goal", "energy", "progress"]
        assert info["costs"] == {"crash": 1.0}


def test_a_potential_is_zero_at_termination_and_kept_at_a_time_limit() -> None:
    found = {}
    for terminated in (False, True):
        rewards = shaped()
        rewards.reset(0.5)
        found[terminated] = rewards.step({"goal": 0.0, "energy": 0.0}, 0.8, terminated)[1]["reward_terms"]["progress"]
    assert found[False] == pytest.approx(0.9 * 8.0 - 5.0)
    assert found[True] == pytest.approx(-5.0)


def test_a_potential_telescopes_over_an_episode() -> None:
    rewards, places = shaped(), [0.3, 0.7, 0.2, 0.9]
    rewards.reset(places[0])
    paid = [rewards.step({"goal": 0.0, "energy": 0.0}, place, place == places[-1])[0] for place in places[1:]]
    assert sum(0.9**t * each for t, each in enumerate(paid)) == pytest.approx(-3.0)


def test_a_weight_may_go_along_a_ramp() -> None:
    rewards = Rewards(0.99, {"help": Ramp(1.0, 0.0, 4)})
    rewards.reset(0)
    assert [rewards.step({"help": 1.0}, 0, False)[0] for _ in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


WRONG: list[tuple[str, Any, str]] = [
    ("a term that is not known", {"goal": 1.0, "energy": 0.0, "gaol": 1.0}, "gaol is no term.*goal"),
    ("a term without a value", {"goal": 1.0}, "no value for energy"),
    ("a value that is not a number", {"goal": float("nan"), "energy": 0.0}, "goal is nan"),
    ("a value of the wrong shape", {"goal": [1.0, 2.0], "energy": 0.0}, r"goal is of shape \(2,\)"),
    ("a value that is a word", {"goal": "much", "energy": 0.0}, "goal is 'much'"),
    ("a value that has no shape", {"goal": [1.0, [2.0, 3.0]], "energy": 0.0}, "one finite number"),
]


@pytest.mark.parametrize(("name", "values", "words"), WRONG, ids=[case[0] for case in WRONG])
def test_it_refuses(name: str, values: Any, words: str) -> None:
    rewards = shaped()
    rewards.reset(0.0)
    with pytest.raises(UsageError, match=f"(?s){words}"):
        rewards.step(values, 0.0, False)


def test_it_refuses_a_potential_that_is_no_number_a_gamma_that_is_no_discount_and_steps_before_a_reset() -> None:
    with pytest.raises(UsageError, match="the potential far is nan"):
        Rewards(0.9, {}, {"far": lambda obs: float("nan")}).reset(0)
    with pytest.raises(UsageError, match="no discount"):
        Rewards(1.5, {})
    with pytest.raises(UsageError, match="two things at once"):
        Rewards(0.9, {"far": 1.0}, {"far": float})
    with pytest.raises(UsageError, match="before reset"):
        Rewards(0.9, {}).step({}, 0, False)


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "1 kg", Ramp(0.0, float("nan"), 10)])
def test_a_weight_that_is_no_number_is_refused_before_anything_is_paid(weight: Any) -> None:
    with pytest.raises(UsageError, match="the weight of goal is"):
        Rewards(0.9, {"goal": weight})


def test_an_environment_may_import_it_without_torch_and_gymnasium() -> None:
    code = "import sys; sys.modules['torch'] = sys.modules['gymnasium'] = None; import rlclinic.rewards"
    subprocess.run([sys.executable, "-c", code], check=True)
