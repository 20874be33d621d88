"""What a policy would earn, from data alone: where the answer is known, and where it is refused."""

from pathlib import Path

import numpy as np
import pytest

from rlclinic.datasets import Episode, Space, folder
from rlclinic.runs.record import Run
from rlclinic.training.data import off_policy_evaluation
from rlclinic.training.policy import Policy
from tests.training.cohorts import train
from tests.training.recordings import make_config


def write(path: Path, reward: float, *, choice: int | None = None) -> str:
    """Episodes of 30 steps that a time limit cut, all with one reward; choices at random, or always the same."""
    draw = np.random.default_rng(0)
    made = [
        Episode(
            draw.normal(size=(31, 4)).astype(np.float32),
            draw.integers(0, 2, 30) if choice is None else np.full(30, choice),
            np.full(30, reward, np.float32),
            False,
            True,
        )
        for _ in range(30)
    ]
    folder.write(path, iter(made), Space("box", (4,)), Space("discrete", n=2), source="made up")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(tmp_path_factory.mktemp("ope"), [make_config("bc of choices", algo={"gamma": 0.9}, run={"max_env_steps": 100})])[0]


def test_a_constant_reward_is_worth_its_geometric_sum(run: Run, tmp_path: Path) -> None:
    policy = Policy(run.config, run.checkpoint("@last").path)
    found = off_policy_evaluation.evaluate(policy, write(tmp_path / "data", 2.0), 300)
    assert found.gamma == 0.9
    assert found.estimates["fqe"].value == pytest.approx(2.0 / 0.1, rel=0.05)
    assert found.behaviour == pytest.approx(2.0 * (1 - 0.9**30) / 0.1, rel=1e-5)
    assert set(found.estimates) | set(found.refused) == {"fqe", "wis", "pdis", "dr"}


def test_a_constant_reward_until_an_end_is_learned_although_it_has_no_spread(run: Run, tmp_path: Path) -> None:
    """Ten steps of 1, as CartPole pays them; the observation says how many are left."""
    draw, left = np.random.default_rng(0), np.arange(10.0, -1.0, -1.0, dtype=np.float32) / 10
    observations = np.stack([left, left**2, np.zeros(11, np.float32), np.ones(11, np.float32)], 1)
    made = [Episode(observations, draw.integers(0, 2, 10), np.ones(10, np.float32), True, False) for _ in range(40)]
    folder.write(tmp_path / "data", iter(made), Space("box", (4,)), Space("discrete", n=2), source="made up")
    policy = Policy(run.config, run.checkpoint("@last").path)
    found = off_policy_evaluation.evaluate(policy, str(tmp_path / "data"), 600)
    assert found.estimates["fqe"].value == pytest.approx((1 - 0.9**10) / 0.1, rel=0.08)


def test_a_policy_that_does_what_was_never_done_is_refused(run: Run, tmp_path: Path) -> None:
    policy = Policy(run.config, run.checkpoint("@last").path)
    observations = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    usual = round(float(np.mean([policy.act(obs) for obs in observations])))
    found = off_policy_evaluation.evaluate(policy, write(tmp_path / "data", 1.0, choice=1 - usual), 300)
    assert found.untried > 0.3
    assert "wis" in found.refused
    assert "episodes are left" in found.refused["wis"]
