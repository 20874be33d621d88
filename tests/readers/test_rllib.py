import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlclinic import readers
from rlclinic.readers import rllib
from rlclinic.runs.history import History

WriteEvents = Callable[..., Path]
TAGS = {
    "ray/tune/env_runners/episode_return_mean": 20.0,
    "ray/tune/learners/default_policy/entropy": 0.6,
    "ray/tune/learners/default_policy/policy_loss": -0.01,
}
REPLAY = {
    "rollout_fragment_length": "auto",
    "train_batch_size": 32,
    "num_env_runners": 0,
    "double_q": True,
    "epsilon": [[0, 1.0], [4000, 0.05]],
    "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 20_000},
    "num_steps_sampled_before_learning_starts": 500,
    "target_network_update_freq": 200,
    "lr": [[0, 0.001], [8000, 0.0001]],
}


def one(path: Path) -> History:
    (found,) = readers.read(path)
    return found


@pytest.fixture
def trial(samples: Path) -> History:
    return one(samples / "rllib_ppo")


def test_a_trial_is_read_with_its_settings(trial: History) -> None:
    assert (trial.source, trial.algo, trial.env_id, trial.seed, trial.env_steps) == ("rllib", "ppo", "CartPole-v1", 1, 6_026)
    rollout = {"env.n_envs": 8, "algo.n_steps": 125, "algo.batch_size": 250, "algo.n_epochs": 8}
    weights = {"algo.learning_rate": 0.002, "algo.gae_lambda": 0.9, "algo.vf_coef": 0.5, "algo.ent_coef": 0.0, "algo.max_grad_norm": 0.5}
    assert {key: trial.settings[key] for key in rollout | weights} == rollout | weights


def test_a_kl_that_was_not_computed_is_not_there(trial: History) -> None:
    assert "train/metrics/kl_divergence" not in trial.series
    assert trial["train/metrics/entropy"].last is not None


def test_episodes_are_counted_over_the_whole_run(trial: History) -> None:
    assert trial["total_episodes"].values.tolist() == sorted(trial["total_episodes"].values.tolist())
    assert trial["total_episodes"].name == "env_runners/num_episodes_lifetime"


def test_rows_count_where_events_lie_beside_them(samples: Path, tmp_path: Path, write_events: WriteEvents) -> None:
    write_events([(1, TAGS), (2, TAGS)], "trial")
    for file in (samples / "rllib_ppo").rglob("*.json"):
        shutil.copy(file, tmp_path / "trial")
    assert one(tmp_path / "trial").env_steps == 6_026


def test_events_alone_have_iterations_on_the_axis_that_become_env_steps(write_events: WriteEvents) -> None:
    rows = [(place, {**TAGS, "ray/tune/num_env_steps_sampled_lifetime": 500.0 * place}) for place in range(1, 5)]
    found = one(write_events(rows))
    assert (found.source, found.env_steps) == ("rllib", 2_000)
    assert any("500 env steps each" in note for note in found.notes)


def test_settings_are_in_the_rows_where_nothing_lies_beside_them(samples: Path, tmp_path: Path) -> None:
    (result,) = (samples / "rllib_ppo").rglob(rllib.FILE)
    shutil.copy(result, tmp_path)
    assert one(tmp_path).settings["algo.n_steps"] == 125


def test_the_error_of_a_trial_is_how_it_ended(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "rllib_ppo", tmp_path / "run")
    (folder,) = (tmp_path / "run").iterdir()
    (folder / rllib.ERROR).write_text('Failure # 1\nTraceback (most recent call last):\n  File "train.py"\nValueError: nan in logits\n')
    assert (one(folder).state, one(folder).reason) == ("failed", "ValueError: nan in logits")


def test_a_learner_with_a_replay_has_settings_of_its_own() -> None:
    assert rllib.is_config(REPLAY)
    found = rllib.translate(REPLAY)
    assert found == {
        "algo.name": "dqn",
        "algo.batch_size": 32,
        "algo.buffer_size": 20_000,
        "algo.learning_starts": 500,
        "algo.target_update_interval": 200,
        "algo.exploration_initial_eps": 1.0,
        "algo.exploration_final_eps": 0.05,
        "algo.learning_rate": {"schedule": "linear", "start": 0.001, "end": 0.0001},
        "env.normalize_obs": False,
    }


@pytest.mark.parametrize("text", ["", "[]", "{", '{"config": 3}', '{"config": {"lr": []}}'])
def test_rows_without_a_config_say_nothing_about_settings(text: str, tmp_path: Path) -> None:
    (tmp_path / rllib.FILE).write_text(text)
    assert not rllib.is_config(rllib.read_config(tmp_path / rllib.FILE))


@pytest.mark.parametrize("odd", [None, "auto", [], [[0]], [["a", "b"]], {"x": 1}, float("nan")])
def test_odd_values_are_left_out(odd: object) -> None:
    raw = {**json.loads(json.dumps(REPLAY)), "lr": odd, "epsilon": odd, "train_batch_size": odd, "replay_buffer_config": odd}
    found = rllib.translate(raw)
    assert found["algo.learning_starts"] == 500
    assert not {"algo.learning_rate", "algo.exploration_final_eps", "algo.batch_size", "algo.buffer_size"} & found.keys()


def write_rows(folder: Path, learner: dict[str, float]) -> Path:
    rows = [
        {
            "num_env_steps_sampled_lifetime": 100 * place,
            "env_runners": {"episode_return_mean": place},
            "learners": {"default_policy": learner},
        }
        for place in range(1, 6)
    ]
    (folder / rllib.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_loss_of_a_q_network_is_dqns_and_that_of_critics_is_sacs(tmp_path: Path) -> None:
    learner = {"qf_loss": 0.5, "qf_mean": 3.0, "total_loss": 0.5}
    found = one(write_rows(tmp_path, learner))
    assert (found.algo, found["train/loss/td"].last, found["train/metrics/q_mean"].last) == ("dqn", 0.5, 3.0)
    assert "train/loss/critic" not in found
    found = one(write_rows(tmp_path, learner | {"alpha_value": 0.2, "alpha_loss": -0.1, "policy_loss": -4.0}))
    assert (found.algo, found["train/loss/critic"].last, found["train/loss/actor"].last, found["train/hp/alpha"].last) == (
        "sac",
        0.5,
        -4.0,
        0.2,
    )
    assert "train/loss/td" not in found
