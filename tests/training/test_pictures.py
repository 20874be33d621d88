"""Agents that see images learn, act, are saved and go on like any other; and their logs say which network they got."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from rlclinic.config import Config
from rlclinic.errors import ConfigError, UsageError
from rlclinic.runs.record import Run
from rlclinic.training import policy as policies
from rlclinic.training.__main__ import train_runs
from rlclinic.training.loops import on_policy
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, saved, table, train, workshop
from tests.training.pictures import Bright

ALGO = {"n_steps": 32, "batch_size": 64, "n_epochs": 4, "learning_rate": 1e-3, "gamma": 0.9}
NET = {"hidden": [], "image_features": 32}


def config(env: dict[str, Any] | None = None, seed: int = 0, steps: int = 256, **changes: Any) -> Config:
    """Eight envs of small images, where a step in the right direction pays at once."""
    sizes = {"kwargs": {"size": 12, "cell": 2}} | (env or {})
    run = {"max_env_steps": steps, "eval_every_env_steps": 256, **changes.pop("run", {})}
    return make_config(
        env={"id": "Bright", "n_envs": 8, **sizes}, seed=seed, algo=ALGO, net=NET | changes.pop("net", {}), run=run, **changes
    )


@pytest.mark.parametrize(("kind", "size"), [("nature", 36), ("impala", 12)])
def test_a_few_hundred_steps_teach_an_image_network_to_walk_to_the_bright_square(tmp_path: Path, kind: str, size: int) -> None:
    run = train(tmp_path, [config({"kwargs": {"size": size, "cell": size // 6}}, steps=768, run={"eval_episodes": 10})], factory=Bright)[0]
    best = max(float(row["val/roll/ep_rew_mean"]) for row in table(run) if row["val/roll/ep_rew_mean"])
    last = table(run)[-1]
    assert float(last["val/roll/ep_rew_mean"]) == float(last["val/roll/ep_len_mean"]) == best, "every step of every episode is right"
    assert float(last["train/sentinel/random_length"]) > 2 * float(last["val/roll/ep_len_mean"])
    assert f"net.images={kind}, 32 features" in (run.path / "run.log").read_text()


def test_a_member_that_sees_images_learns_as_it_would_alone(tmp_path: Path) -> None:
    """Convolutions take turns on a CPU, so even their bits are the member's own."""
    together = train(tmp_path / "together", [config(seed=seed) for seed in (1, 2)], factory=Bright)
    assert_same_run(together[1], train(tmp_path / "alone", [config(seed=2)], factory=Bright)[0])


def test_weights_go_on_from_a_checkpoint_as_if_the_run_had_never_stopped(tmp_path: Path) -> None:
    """Gymnasium's environments start anew at a resume, so what was learned up to there is what can be equal."""
    whole = train(tmp_path / "whole", [config(steps=512)], factory=Bright)[0]
    with pytest.raises(Interrupted):
        train(tmp_path / "killed", [config(steps=512)], factory=Bright, callback=interrupt_at(512))
    killed = Run(next((tmp_path / "killed" / "runs").glob("[!@]*")))
    assert saved(killed)["policy.safetensors"] == (whole.path / "checkpoints" / "256" / "policy.safetensors").read_bytes()
    train_runs([killed], resume=True, factory=Bright)
    assert killed.status.state == "finished"
    assert table(killed)[0] == table(whole)[0]


@pytest.mark.parametrize("layout", ["hwc", "chw", "hw", "float", "dict"])
def test_a_policy_acts_on_the_environments_own_observations(tmp_path: Path, layout: str) -> None:
    env = {"kwargs": {"size": 12, "cell": 2, "layout": layout}}
    run = train(tmp_path, [config(env, run={"eval_episodes": 6})], factory=Bright)[0]
    policy, single = policies.load(run, "@last", Bright), Bright(12, layout, 2)
    returns = []
    for start in range(6):
        obs, _ = single.reset(seed=10_000 + start)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = single.step(policy.act(obs))
            total, over = total + reward, terminated or truncated
        returns.append(total)
    assert returns == policy.evaluate(6).returns[0].tolist()


def test_layouts_of_one_image_train_the_same_run(tmp_path: Path) -> None:
    runs = [
        train(tmp_path / layout, [config({"kwargs": {"size": 12, "cell": 2, "layout": layout}})], factory=Bright)[0]
        for layout in ("hwc", "chw", "hw")
    ]
    assert saved(runs[0])["policy.safetensors"] == saved(runs[1])["policy.safetensors"] == saved(runs[2])["policy.safetensors"]


def test_rollouts_keep_bytes_and_minibatches_too() -> None:
    at = workshop([config()], factory=Bright)
    rollout = at.collect()
    assert rollout.obs.dtype == rollout.net_next_obs.dtype == torch.uint8
    assert rollout.obs.shape == (1, 32, 8, 12, 12, 1)


def test_stacked_frames_are_channels(tmp_path: Path) -> None:
    run = train(tmp_path, [config({"frame_stack": 3})], factory=Bright)[0]
    weights = load_file(run.checkpoint("@last").path / "policy.safetensors")
    assert weights["trunk.conv0.weight"].shape == (16, 3, 3, 3)
    assert weights["trunk.features.weight"].shape == (2 * 2 * 32, 32)
    at = workshop([config({"frame_stack": 3})], factory=Bright)
    rollout = at.collect()
    inside = ~rollout.end[0, 3, 0]
    assert bool(inside)
    assert torch.equal(rollout.obs[0, 4, 0, ..., :2], rollout.obs[0, 3, 0, ..., 1:]), "the newest frame is the last channel"


def test_sentinels_see_through_the_convolutions(tmp_path: Path) -> None:
    run = train(tmp_path, [config(net={"hidden": [16]})], factory=Bright)[0]
    row = {name.removeprefix("train/sentinel/"): cell for name, cell in table(run)[-1].items()}
    assert float(row["obs_abs_max"]) == 1.0, "in the network's units"
    assert 0 < float(row["obs_std_min"]) < 1
    assert row["obs_out_of_bounds"] == ""
    assert 0 <= float(row["dormant_actor"]) < 1
    assert 1 <= float(row["rank_actor"]) <= 16
    assert 0 <= float(row["saturated_actor"]) <= 1
    assert float(row["update_ratio_min"]) > 0
    assert float(row["ratio_first_dev"]) < 1e-4


class Resting(gym.vector.SyncVectorEnv):
    """Resets in the step after an end."""

    def __init__(self, num_envs: int) -> None:
        super().__init__([lambda: Bright(12, "hwc", 2)] * num_envs, autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP)


def test_a_users_vector_of_image_environments_trains(tmp_path: Path) -> None:
    run = train(tmp_path, [config({"kwargs": {}}, run={"eval_episodes": 0})], factory=Resting)[0]
    assert run.status.state == "finished"
    assert float(table(run)[-1]["train/sentinel/next_obs_is_reset"]) < 0.5, "a time limit may well leave it where a new episode begins"


def test_workers_step_image_environments_to_the_same_bytes(tmp_path: Path) -> None:
    here = train(tmp_path / "here", [config()], factory=Bright)[0]
    there = train(tmp_path / "there", [config({"workers": 2})], factory=Bright)[0]
    assert saved(here)["policy.safetensors"] == saved(there)["policy.safetensors"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"net": {"images": "nature"}}, r"at least 36 x 36; these are 12 x 12.*--set net.images=impala"),
        ({"net": {"critic_hidden": [8]}}, r"critic_hidden=\[8\].*share one trunk.*--set net.critic_hidden=none"),
        ({"env": {"kwargs": {"size": 12, "cell": 2, "layout": "dict"}, "frame_stack": 2}}, r"1 numbers beside it.*--set env.frame_stack=1"),
    ],
    ids=["too small", "two trunks", "stacked numbers"],
)
def test_what_images_cannot_have_is_said_before_training(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        workshop([config(**changes)], factory=Bright)


def test_images_are_never_normalized_so_general_settings_fit_them_too(tmp_path: Path) -> None:
    plain = train(tmp_path / "plain", [config()], factory=Bright)[0]
    normalized = train(tmp_path / "normalized", [config({"normalize_obs": True})], factory=Bright)[0]
    assert saved(plain)["policy.safetensors"] == saved(normalized)["policy.safetensors"]


def test_images_train_with_the_eager_engine_and_nothing_else(tmp_path: Path) -> None:
    run = train(tmp_path / "auto", [config(run={"engine": "auto"})], factory=Bright)[0]
    assert "engine: eager on cpu (images: compiled engines do not cover convolutions" in (run.path / "run.log").read_text()
    with pytest.raises(ConfigError, match=r"(?s)run.engine=compiled, but Bright gives images.*--set run.engine=eager"):
        train(tmp_path / "compiled", [config(run={"engine": "compiled"})], factory=Bright)


def test_a_number_beside_the_image_that_is_not_finite_stops_the_member(tmp_path: Path) -> None:
    class Broken(Bright):
        def _seen(self) -> Any:
            seen = super()._seen()
            return seen | {"place": np.array([np.nan], np.float32)} if self.taken >= 2 else seen

    env = {"kwargs": {"size": 12, "cell": 2, "layout": "dict"}}
    run = train(tmp_path, [config(env, run={"eval_episodes": 0})], factory=Broken)[0]
    assert run.status.state == "failed"
    assert "a number beside the image is nan" in str(run.status.reason)


def test_values_kept_from_acting_are_those_that_the_critic_would_give() -> None:
    at = workshop([config({"kwargs": {"size": 12, "cell": 2}, "max_episode_steps": 3}, seed=seed) for seed in (0, 1)], factory=Bright)
    rollout, params = at.collect(), at.plan.policy.layout.views(at.learner.flat)
    assert rollout.value is not None
    assert bool(rollout.truncated.any())
    assert bool(rollout.terminated.any())
    with torch.no_grad():
        kept = on_policy.values(at.plan.policy, params, rollout)
        computed = on_policy.values(at.plan.policy, params, replace(rollout, value=None))
    torch.testing.assert_close(kept[0], computed[0])
    alive = ~rollout.terminated
    torch.testing.assert_close(kept[1][alive], computed[1][alive])


@pytest.mark.parametrize("algo", [ALGO, {"name": "dqn", "learning_starts": 64, "batch_size": 16}])
def test_clipped_rewards_are_learned_from_and_raw_ones_reported(tmp_path: Path, algo: dict[str, Any]) -> None:
    env = {"id": "Bright", "n_envs": 8, "kwargs": {"size": 12, "cell": 2}, "clip_raw_reward": 0.25}
    plain = {"env": env, "net": NET, "run": {"max_env_steps": 256, "eval_episodes": 4}}
    run = train(tmp_path, [Config(**plain, algo={"name": "ppo", **algo})], factory=Bright)[0]  # type: ignore[arg-type]
    last = table(run)[-1]
    assert float(last["train/roll/ep_rew_best"]) >= 1.0
    assert (float(last["val/roll/ep_rew_mean"]) * 4).is_integer(), "whole points in each of four episodes"
    if last.get("train/sentinel/reward_trained_std"):
        assert float(last["train/sentinel/reward_trained_std"]) <= 0.26 < float(last["train/sentinel/reward_std"])


def test_a_game_is_trained_filmed_and_scored_in_whole_games(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    env = {"id": "ALE/Breakout-v5", "n_envs": 2, "frame_stack": 2, "episodic_life": True, "clip_raw_reward": 1, "max_episode_steps": 60}
    game = make_config(
        env=env, net={"hidden": [], "image_features": 16}, algo={"n_steps": 32, "batch_size": 32}, run={"max_env_steps": 128}
    )
    run = train(tmp_path, [game])[0]
    assert run.status.state == "finished"
    policy, frames = policies.load(run, "@last"), []
    scored = policy.evaluate(2)
    played = policy.watch([10_000, 10_001], frames.append, "rgb_array")
    assert [(each.returns[0, 0], each.lengths[0, 0]) for each in played] == list(zip(scored.returns[0], scored.lengths[0], strict=True))
    assert len(frames) == scored.lengths[0].sum()
    assert frames[0].shape == (336, 336, 3)
    with pytest.raises(UsageError, match=r"env\.frame_stack: one observation alone"):
        policy.act(np.zeros((210, 160, 3), np.uint8))
