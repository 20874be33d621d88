"""What a policy would earn, from data alone: where the answer is known, and where it is refused."""

from pathlib import Path

import numpy as np
import pytest

from rlclinic.datasets import Episode, Space, folder
from rlclinic.runs.record import Run
from rlclinic.stats import importance_sampling
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


def test_a_value_beyond_what_a_cut_episode_paid_is_no_promise_too_many(tmp_path: Path) -> None:
    """Thirty steps of 1 are worth 23 as recorded, and 50 as they would go on."""
    run = train(tmp_path, [make_config("bc of choices", algo={"gamma": 0.98}, run={"max_env_steps": 100})])[0]
    found = off_policy_evaluation.evaluate(Policy(run.config, run.checkpoint("@last").path), write(tmp_path / "data", 1.0), 600)
    assert found.behaviour == pytest.approx((1 - 0.98**30) / 0.02, rel=1e-5)
    assert found.estimates["fqe"].value == pytest.approx(1.0 / 0.02, rel=0.15)


@pytest.mark.parametrize("kind", ["cql", "cal_ql", "rlpd"])
def test_policies_that_draw_squashed_actions_have_likelihoods(kind: str, tmp_path: Path) -> None:
    algo = {"gamma": 0.5, **({"target_entropy": 1.0} if kind == "cql" else {})}
    online = (
        {"data": {"offline_steps": 0, "then_online": True}} if kind == "rlpd" else {"data": {"then_online": False, "offline_steps": None}}
    )
    run = train(tmp_path, [make_config(kind, algo=algo, run={"max_env_steps": 100}, **(online if kind != "cql" else {}))])[0]
    data = follow(tmp_path / "data", 0.5, steps=3, episodes=200, noise=1.0)
    found = off_policy_evaluation.evaluate(Policy(run.config, run.checkpoint("@last").path), data, 50)
    assert not any("draws nothing" in why for why in found.refused.values()), found.refused


def test_a_policy_that_does_what_was_never_done_is_refused(run: Run, tmp_path: Path) -> None:
    policy = Policy(run.config, run.checkpoint("@last").path)
    observations = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    usual = round(float(np.mean([policy.act(obs) for obs in observations])))
    found = off_policy_evaluation.evaluate(policy, write(tmp_path / "data", 1.0, choice=1 - usual), 300)
    assert found.untried > 0.3
    assert "wis" in found.refused
    assert "episodes are left" in found.refused["wis"]


@pytest.mark.parametrize(("taken", "kind"), [((0,), np.int64), ((0, 1), np.float32)])
def test_choices_that_nobody_took_or_that_look_like_numbers_are_choices(
    run: Run, tmp_path: Path, taken: tuple[int, ...], kind: type
) -> None:
    """Arrays do not say how many choices there are; the environment does."""
    draw, policy = np.random.default_rng(0), Policy(run.config, run.checkpoint("@last").path)
    ends = np.arange(400) % 20 == 19
    columns = {"observations": draw.normal(size=(400, 4)), "actions": draw.choice(taken, 400).astype(kind), "rewards": np.ones(400)}
    np.savez(tmp_path / "data.npz", **columns, next_observations=draw.normal(size=(400, 4)), truncated=ends)
    found = off_policy_evaluation.evaluate(policy, str(tmp_path / "data.npz"), 100)
    assert set(found.estimates) | set(found.refused) == {"fqe", "wis", "pdis", "dr"}


def follow(path: Path, share: float, steps: int = 20, episodes: int = 30, noise: float = 0.0) -> str:
    """Observations at random, actions that are a share of the first number; one is paid for coming close to all of it.

    noise: that share of the actions is drawn at random.
    """
    draw, made = np.random.default_rng(1), []
    for _ in range(episodes):
        obs = draw.uniform(-1, 1, (steps + 1, 3)).astype(np.float32)
        action = np.where(draw.random(steps) < noise, draw.uniform(-1, 1, steps), share * obs[:-1, 0]).astype(np.float32)
        made.append(Episode(obs, 2 * action[:, None], (-np.square(action - obs[:-1, 0])).astype(np.float32), False, True))
    folder.write(path, iter(made), Space("box", (3,)), Space("box", (1,), low=(-2.0,), high=(2.0,)), source="made up")
    return str(path)


def test_policies_are_ranked_as_their_true_returns_are(tmp_path: Path) -> None:
    """Six of them, by data that none of them made; what each earns is known, as no action changes what comes."""
    data, states = follow(tmp_path / "medium", 0.5, noise=0.7), np.random.default_rng(2).uniform(-1, 1, (400, 3)).astype(np.float32)
    true, said = [], []
    for index, share in enumerate((-0.9, -0.4, 0.0, 0.3, 0.6, 0.9)):
        shown = follow(tmp_path / f"shown-{index}", share)
        settings = make_config("bc", algo={"gamma": 0.8, "batch_size": 64}, data={"path": shown}, net={"hidden": [16]})
        run = train(tmp_path / f"runs-{index}", [settings])[0]
        policy = Policy(run.config, run.checkpoint("@last").path)
        acted = np.array([policy.act(obs) for obs in states]).reshape(-1) / 2
        true.append(-np.square(acted - states[:, 0]).mean() / 0.2)
        estimate = off_policy_evaluation.evaluate(policy, data, 150).estimates["fqe"]
        said.append(estimate.value)
        assert estimate.low < estimate.value < estimate.high
    ranks = [np.argsort(np.argsort(values)) for values in (true, said)]
    assert np.corrcoef(ranks)[0, 1] >= 0.8
    assert said == pytest.approx(true, abs=0.25 * float(np.ptp(true)))


def test_weighted_sampling_counts_what_is_left_and_refuses_fewer_than_ten_episodes(run: Run, tmp_path: Path) -> None:
    """The longer an episode, the fewer are left after weighing: of one step nearly all, of 200 hardly any."""
    policy, kept = Policy(run.config, run.checkpoint("@last").path), {}
    for steps in (1, 200):
        draw = np.random.default_rng(0)
        made = [
            Episode(
                draw.normal(size=(steps + 1, 4)).astype(np.float32), draw.integers(0, 2, steps), np.ones(steps, np.float32), True, False
            )
            for _ in range(40)
        ]
        folder.write(tmp_path / str(steps), iter(made), Space("box", (4,)), Space("discrete", n=2), source="made up")
        kept[steps] = off_policy_evaluation.evaluate(policy, str(tmp_path / str(steps)), 20)
    assert importance_sampling.FEWEST == 10
    assert 10 <= kept[1].estimates["wis"].effective <= 40
    assert "wis" not in kept[200].estimates
    assert "episodes are left after weighing; 10 are needed" in kept[200].refused["wis"]
