"""The callback in real training of Stable-Baselines3: it must see everything and change nothing."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

import gymnasium as gym
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize

from rlclinic import metrics, readers
from rlclinic.sentinels.sb3 import SentinelCallback

S = "train/sentinel/"
ON_POLICY: dict[str, dict[str, Any]] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2}
REPLAY: dict[str, Any] = {"buffer_size": 3_000, "learning_starts": 100, "batch_size": 16, "train_freq": 8}
KINDS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "ppo": (PPO, "CartPole-v1", ON_POLICY),
    "ppo continuous": (PPO, "Pendulum-v1", {**ON_POLICY, "target_kl": 1e-9}),
    "ppo gSDE": (PPO, "Pendulum-v1", {**ON_POLICY, "use_sde": True, "sde_sample_freq": 4}),
    "ppo discrete observations": (PPO, "FrozenLake-v1", ON_POLICY),
    "a2c": (A2C, "CartPole-v1", {"n_steps": 32}),
    "dqn": (DQN, "CartPole-v1", REPLAY),
    "sac": (SAC, "Pendulum-v1", REPLAY),
    "td3": (TD3, "Pendulum-v1", REPLAY),
    "ddpg": (DDPG, "Pendulum-v1", REPLAY),
}


def small() -> dict[str, Any]:
    """Fresh every time: SB3 writes into the arguments of the policy."""
    return {"policy_kwargs": {"net_arch": [16, 16]}, "device": "cpu", "seed": 3}


def train(kind: str, folder: Path, callback: Any = None, steps: int = 640, **more: Any) -> Any:
    made, env, settings = KINDS[kind]
    model = made("MlpPolicy", make_vec_env(env, 2, seed=5), **{**small(), **settings, **more})
    model.set_logger(configure(str(folder), ["csv"]))
    model.learn(steps, callback=callback, log_interval=1)
    model.logger.close()
    return model


def rows(folder: Path) -> list[dict[str, float]]:
    with (folder / "progress.csv").open() as file:
        return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ppo")
    train("ppo", folder, SentinelCallback(), 3_072, n_steps=256, batch_size=128, learning_rate=lambda remaining: 1e-3 * remaining)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_the_same_bit_for_bit_with_the_callback_and_without(kind: str, tmp_path: Path) -> None:
    steps = 1_100
    alone, seen = (train(kind, tmp_path / name, callback, steps) for name, callback in (("a", None), ("b", SentinelCallback())))
    for one, other in zip(alone.policy.parameters(), seen.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    ours = [row for row in rows(tmp_path / "b") if S + "updates" in row]
    assert ours, "nothing was written"
    names = {name for row in ours for name in row if name.startswith((S, "train/metrics/", "train/hp/"))}
    assert len(names) >= 25
    assert [name for name in names if metrics.find(name) is None] == []
    own = [{name: value for name, value in row.items() if "sentinel" not in name} for row in rows(tmp_path / "b")]
    for before, after in zip(rows(tmp_path / "a"), own, strict=True):
        assert {name: value for name, value in before.items() if "time" not in name}.items() <= after.items()


def test_what_is_true_by_definition_is_so(watched: Path) -> None:
    found = [row for row in rows(watched) if S + "updates" in row]
    assert len(found) == 5  # six rollouts; what the last update did is in no row of SB3's either
    assert all(row[S + "ratio_first_dev"] < 1e-5 and row[S + "updates"] == 8 for row in found)
    assert [row[S + "optimizer_steps"] for row in found] == [8.0 * count for count in range(1, 6)]
    assert all(row[S + "reward_mean"] == row[S + "reward_nonzero"] == 1.0 and row[S + "next_obs_is_reset"] == 0.0 for row in found)
    assert all(0 < row[S + "update_ratio_max"] < 10 and 0 < row[S + "entropy_relative"] <= 1 for row in found)
    assert all(row[S + "kl_exact"] == pytest.approx(row["train/approx_kl"], rel=2.0) and row[S + "kl_exact"] > 0 for row in found)
    assert all(0 <= row[S + "kl_first_epoch"] < row[S + "kl_exact"] for row in found)
    assert np.mean([row[S + "adv_logp_corr"] for row in found]) > 0.05


def test_statistics_are_those_of_the_rollout_buffer(tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []

    class Spy(SentinelCallback):
        def _on_rollout_end(self) -> None:
            buffer = self.model.rollout_buffer
            seen.append({"adv_std": float(buffer.advantages.std(ddof=1)), "obs_abs_max": float(np.abs(buffer.observations).max())})
            super()._on_rollout_end()

    train("ppo", tmp_path, Spy(), 2_048, n_steps=256)
    found = [row for row in rows(tmp_path) if S + "updates" in row]
    for row, expected in zip(found, seen[:-1], strict=True):
        assert {name: row[S + name] for name in expected} == pytest.approx(expected, rel=1e-5)


def test_gradients_are_measured_before_they_are_clipped(tmp_path: Path) -> None:
    train("ppo", tmp_path, SentinelCallback(), max_grad_norm=1e-4)
    found = [row for row in rows(tmp_path) if S + "updates" in row]
    assert all(row["train/metrics/grad_norm/clipped"] == 1.0 and row["train/metrics/grad_norm/all"] > 1e-2 for row in found)
    assert all(
        row["train/metrics/grad_norm/all"] >= row[f"train/metrics/grad_norm/{part}"]
        for row in found
        for part in ("actor_head", "critic_head", "trunk")
    )


def test_a_target_kl_that_stops_updates_is_seen(tmp_path: Path) -> None:
    train("ppo continuous", tmp_path, SentinelCallback())
    found = [row for row in rows(tmp_path) if S + "updates" in row]
    assert all(row[S + "early_stop_epoch"] == 0 and row[S + "updates"] < 4 for row in found)


def test_settings_are_read_back_from_the_folder(watched: Path) -> None:
    (history,) = readers.read(watched)
    settings = history.settings
    assert (history.env_id, history.algo, history.seed, history.threshold, history.max_env_steps) == ("CartPole-v1", "ppo", 3, 475.0, 3_072)
    assert settings["algo.learning_rate"] == {"schedule": "linear", "start": pytest.approx(1e-3), "end": 0.0}
    expected = {"algo.clip_range": 0.2, "algo.optimizer": "adam", "algo.normalize_advantage": "batch", "net.hidden": [16, 16]}
    expected |= {"net.activation": "tanh", "net.shared": False, "env.n_envs": 2, "env.normalize_obs": False, "spec.max_episode_steps": 500}
    assert {name: settings[name] for name in expected} == expected
    assert history.state == "finished"
    assert S + "adv_std" in history


def test_evaluation_normalizer_wrappers_and_limits_are_noted(tmp_path: Path) -> None:
    def limited() -> Any:
        return gym.wrappers.FlattenObservation(gym.make("Pendulum-v1", max_episode_steps=50))

    venv = VecNormalize(make_vec_env(limited, 2, seed=0), norm_reward=False)
    judge = EvalCallback(VecNormalize(make_vec_env(limited, 1), training=False), n_eval_episodes=2, eval_freq=40, verbose=0)
    model = PPO("MlpPolicy", venv, **small(), **ON_POLICY)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    keep = CheckpointCallback(save_freq=16, save_path=str(tmp_path / "models"))
    model.learn(128, callback=[judge, SentinelCallback(threshold=-300), keep])
    assert (tmp_path / "models").is_dir()  # a model with our hooks on its optimizer can be saved
    model.logger.close()
    settings = json.loads((tmp_path / "sentinels.json").read_text())["settings"]
    expected = {"env.id": "Pendulum-v1", "env.max_episode_steps": 50, "spec.max_episode_steps": 200, "env.wrappers": ["FlattenObservation"]}
    expected |= {"env.normalize_obs": True, "env.normalize_reward": False, "run.eval_every_env_steps": 80, "run.eval_episodes": 2}
    expected |= {"run.eval_normalize_obs": True, "spec.threshold": -300.0}
    assert {name: settings.get(name) for name in expected} == expected


def test_without_a_log_file_one_is_made_beside_the_monitors(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=0, monitor_dir=str(tmp_path)), **small(), **ON_POLICY)
    model.learn(1_100, callback=SentinelCallback())
    model.env.close()
    (history,) = readers.read(tmp_path)
    assert S + "update_ratio_max" in history
    assert "train/metrics/kl_divergence" in history


def test_pictures_and_dictionaries_are_observations_too(tmp_path: Path) -> None:
    class Camera(gym.ObservationWrapper[Any, Any, Any]):
        def __init__(self, env: Any) -> None:
            super().__init__(env)
            picture = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
            self.observation_space = gym.spaces.Dict({"picture": picture, "state": env.observation_space})

        def observation(self, observation: Any) -> Any:
            return {"picture": np.full((36, 36, 1), 51, np.uint8), "state": observation}

    model = PPO("MultiInputPolicy", make_vec_env("CartPole-v1", 2, seed=0, wrapper_class=Camera), device="cpu", seed=0, **ON_POLICY)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(1_100, callback=SentinelCallback())
    model.logger.close()
    found = [row for row in rows(tmp_path) if S + "updates" in row]
    assert all(row[S + "obs_std_min"] == pytest.approx(0.0, abs=1e-6) and row[S + "obs_abs_max"] < 5 for row in found)
    assert all("grad_cosine" not in name or -1 <= value <= 1 for row in found for name, value in row.items())


def test_settings_are_found_beside_event_files_too(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    model = PPO("MlpPolicy", "CartPole-v1", tensorboard_log=str(tmp_path), **small(), **ON_POLICY)
    model.learn(1_100, callback=SentinelCallback())
    model.logger.close()
    (history,) = readers.read(tmp_path)
    assert history.settings["algo.gae_lambda"] == 0.95
    assert S + "update_ratio_max" in history


def test_the_console_stays_as_it_was(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", verbose=1, **small(), **ON_POLICY)
    model.learn(96, callback=SentinelCallback(folder=tmp_path))
    printed = capsys.readouterr().out
    assert "approx_kl" in printed
    assert "sentinel" not in printed
    assert (tmp_path / "progress.csv").is_file()


def test_an_observation_that_is_no_number_is_named_before_the_run_breaks(tmp_path: Path) -> None:
    class Breaks(gym.Wrapper[Any, Any, Any, Any]):
        taken = 0

        def step(self, action: Any) -> Any:
            obs, *rest = self.env.step(action)
            self.taken += 1
            if self.taken == 100:
                obs = np.array(obs)
                obs[2] = np.nan
            return (obs, *rest)

    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 1, seed=0, wrapper_class=Breaks), **small(), **ON_POLICY)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    with pytest.raises(ValueError, match="nan"):
        model.learn(640, callback=SentinelCallback())
    model.logger.close()
    (history,) = readers.read(tmp_path)
    assert (history.state, history.reason) == ("failed", "the observation of env 0 is not finite at env step 100, component 2")


def test_dropout_that_learns_another_policy_than_it_collects_shows_in_the_ratio(tmp_path: Path) -> None:
    class Dropping(torch.nn.Tanh):
        def __init__(self) -> None:
            super().__init__()
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return self.drop(super().forward(given))

    kwargs = {"net_arch": [16, 16], "activation_fn": Dropping, "ortho_init": False}
    alone, seen = (
        train("ppo", tmp_path / name, callback, policy_kwargs=kwargs) for name, callback in (("a", None), ("b", SentinelCallback()))
    )
    assert all(torch.equal(one, other) for one, other in zip(alone.policy.parameters(), seen.policy.parameters(), strict=True))
    assert max(row.get(S + "ratio_first_dev", 0.0) for row in rows(tmp_path / "b")) > 1e-2


def test_a_q_network_is_judged_against_what_it_can_be(tmp_path: Path) -> None:
    train("dqn", tmp_path, SentinelCallback(), 1_600)
    last = [row for row in rows(tmp_path) if S + "q_bound" in row][-1]
    settings = json.loads((tmp_path / "sentinels.json").read_text())["settings"]
    assert (settings["algo.name"], settings["algo.buffer_size"], settings["net.hidden"]) == ("dqn", 3_000, [16, 16])
    assert "algo.n_steps" not in settings
    assert last[S + "q_bound"] == pytest.approx(100.0)
    assert last[S + "q_abs_max"] < last[S + "q_bound"]
    assert 0 < last[S + "buffer_share"] <= 1
    assert last[S + "target_distance"] > 0
    assert last[S + "q_bias"] < 0  # a young network knows nothing of the return to come
    assert last[S + "replay_age"] == pytest.approx(last["time/total_timesteps"] / 2, rel=0.5)


def test_q_values_are_measured_against_returns_where_episodes_are_only_ever_cut(tmp_path: Path) -> None:
    # Of 200 steps the first 157 lie so far from the cut that it takes away less than 1 % (0.9^44); with 0.99 none does.
    short, long = (train("td3", tmp_path / name, SentinelCallback(), 1_100, gamma=gamma) and rows(tmp_path / name)
                   for name, gamma in (("short", 0.9), ("long", 0.99)))  # fmt: skip
    found = [row[S + "q_bias"] for row in short if S + "q_bias" in row]
    assert found
    assert min(found) > 5  # a young critic says about 0, and each step costs about 6
    assert not any(S + "q_bias" in row for row in long)
