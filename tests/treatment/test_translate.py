"""The same change in three frameworks' words; where a word can be run, it is."""

from typing import Any

import pytest

from rlclinic.config import Config, files
from rlclinic.treatment.translate import FRAMEWORKS, LINEAR, spell

FALLING = {"start": 1e-3, "end": 0.0, "schedule": "linear"}


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo_zoo", list(changes)).config


def sb3(changes: dict[str, Any], *more: str) -> str:
    found = spell(changes, "sb3", config(*more))
    assert found is not None
    return found


def test_a_falling_rate_is_a_function_of_what_is_left_in_sb3():
    text = sb3({"algo.learning_rate": FALLING})
    assert text == f"{LINEAR}; PPO(..., learning_rate=linear_schedule(0.001))"
    names: dict[str, Any] = {}
    exec(LINEAR, names)
    schedule = names["linear_schedule"](1e-3)
    assert schedule(1.0) == pytest.approx(1e-3)
    assert schedule(0.25) == pytest.approx(2.5e-4)
    assert names["linear_schedule"](1e-3, 1e-4)(0.0) == pytest.approx(1e-4)


def test_a_fraction_of_the_rollout_becomes_rows_in_sb3():
    assert sb3({"algo.batch_size": 0.25}) == "PPO(..., batch_size=64)"


def test_networks_go_into_policy_kwargs():
    assert sb3({"net.hidden": [64, 64]}, "net.hidden=[1]") == "PPO(..., policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64])))"
    assert sb3({"net.activation": "tanh"}, "net.activation=sigmoid") == "PPO(..., policy_kwargs=dict(activation_fn=torch.nn.Tanh))"
    assert "optimizer_class=torch.optim.Adam" in sb3({"algo.optimizer": "adam"}, "algo.optimizer=sgd")
    assert "log_std_init=0" in sb3({"net.log_std_init": 0.0}, "net.log_std_init=-3")


def test_normalization_is_a_wrapper_that_keeps_what_was_on():
    assert sb3({"env.normalize_reward": True}) == "env = VecNormalize(env, norm_obs=False, norm_reward=True)"
    assert sb3({"env.normalize_reward": True}, "env.normalize_obs=true") == "env = VecNormalize(env, norm_obs=True, norm_reward=True)"


def test_two_settings_make_one_call():
    text = sb3({"algo.n_steps": 64, "algo.batch_size": 128})
    assert text == "PPO(..., n_steps=64, batch_size=128)"


def test_what_sb3_cannot_say_is_said_as_a_comment():
    assert "# SB3 has no argument for net.layer_norm: True" in sb3({"net.layer_norm": True})


def test_limits_frames_copies_budgets_and_algorithms_are_lines_of_the_script():
    assert "max_episode_steps=500" in sb3({"env.max_episode_steps": 500})
    assert "VecFrameStack(env, n_stack=4)" in sb3({"env.frame_stack": 4})
    assert "make_vec_env('CartPole-v1', n_envs=16)" in sb3({"env.n_envs": 16, "algo.batch_size": 512})
    assert "model.learn(total_timesteps=200000)" in sb3({"run.max_env_steps": 200_000})
    assert "RescaleAction(env, -1.0, 1.0)" in sb3({"env.wrappers": [{"id": "RescaleAction", "min_action": -1.0, "max_action": 1.0}]})


def test_cleanrl_counts_minibatches_and_anneals_by_a_flag():
    assert spell({"algo.learning_rate": FALLING}, "cleanrl", config()) == "--learning-rate 0.001 --anneal-lr"
    assert spell({"algo.learning_rate": 3e-4}, "cleanrl", config()) == "--learning-rate 0.0003 --no-anneal-lr"
    # 8 envs x 32 steps = 256 rows, 64 of them in each of four minibatches.
    assert spell({"algo.batch_size": 64}, "cleanrl", config()) == "--num-minibatches 4"
    assert spell({"algo.clip_range_vf": None}, "cleanrl", config("algo.clip_range_vf=0.2")) == "--no-clip-vloss"
    assert spell({"algo.ent_coef": 0.01, "algo.gamma": 0.99}, "cleanrl", config()) == "--ent-coef 0.01 --gamma 0.99"


def test_what_cleanrl_has_no_flag_for_is_a_line_of_its_file():
    text = spell({"env.normalize_obs": True}, "cleanrl", config())
    assert text == "# in the script: env = gym.wrappers.NormalizeObservation(env)  (in make_env)"


def test_gymnasium_solver_keys_read_back_as_the_same_setting(tmp_path):
    text = spell({"algo.learning_rate": FALLING, "algo.ent_coef": 0.01}, "gymnasium-solver", config())
    assert text == "policy_lr: {start: 0.001, end: 0, schedule: linear}, ent_coef: 0.01"
    file = tmp_path / "CartPole-v1.yaml"
    file.write_text(f"ppo:\n  {{algo_id: ppo, env_id: CartPole-v1, n_envs: 8, n_steps: 32, batch_size: 256, {text}}}\n")
    loaded = files.load(f"{file}:ppo").config
    assert loaded.algo.learning_rate == config("algo.learning_rate=lin_1e-3").algo.learning_rate
    assert loaded.algo.ent_coef == 0.01


def test_every_setting_has_words_in_every_framework():
    for setting, value in {"algo.gamma": 0.99, "env.clip_reward": 5.0, "net.policy_gain": 0.02, "algo.name": "a2c"}.items():
        for framework in FRAMEWORKS:
            assert spell({setting: value}, framework, config()), (framework, setting)


def test_a_framework_without_words_gets_none():
    assert spell({"algo.gamma": 0.9}, "console", config()) is None
    assert spell({}, "sb3", config()) is None
