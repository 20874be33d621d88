"""The same change in three frameworks' words; where a word can be run, it is."""

import math
from typing import Any

import pytest

from rlclinic.config import Config, files
from rlclinic.config.schedule import Schedule, value_at
from rlclinic.treatment.prescription.translate.frameworks import FRAMEWORKS, LINEAR, spell

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


@pytest.mark.parametrize(
    "schedule",
    [
        {"start": 2e-3, "end": 2e-4, "schedule": "cosine"},
        {"start": 2e-3, "end": 0.0, "schedule": "linear", "warmup": 0.1},
        {"start": 2e-3, "end": 1e-4, "schedule": "linear"},
    ],
)
def test_other_schedules_are_functions_of_what_is_left_in_sb3_with_the_values_that_ours_have(schedule: dict[str, Any]):
    text = sb3({"algo.learning_rate": schedule})
    helper, _, call = text.partition("; PPO(..., learning_rate=")
    names: dict[str, Any] = {"math": math}
    exec(helper, names)
    there, ours = eval(call[:-1], names), Schedule.model_validate(schedule)
    for share in (0.0, 0.05, 0.1, 0.3, 0.5, 0.9, 1.0):
        assert there(1 - share) == pytest.approx(value_at(ours, share * 1e6, 1_000_000), abs=1e-12)


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


@pytest.mark.parametrize(
    ("algo", "changes", "wanted"),
    [
        ("dqn", {"algo.buffer_size": 50_000}, "DQN(..., buffer_size=50000)"),
        ("dqn", {"algo.target_update_interval": 500, "algo.tau": 1.0}, "DQN(..., target_update_interval=500, tau=1)"),
        ("dqn", {"algo.exploration_fraction": 0.2}, "DQN(..., exploration_fraction=0.2)"),
        ("dqn", {"algo.batch_size": 64}, "DQN(..., batch_size=64)"),
        ("dqn", {"net.hidden": [64, 64]}, "DQN(..., policy_kwargs=dict(net_arch=[64, 64]))"),
        ("sac", {"algo.ent_coef": None}, "SAC(..., ent_coef='auto')"),
        ("sac", {"algo.learning_starts": 1_000, "algo.gradient_steps": -1}, "SAC(..., learning_starts=1000, gradient_steps=-1)"),
        ("td3", {"algo.action_noise_std": 0.2}, "TD3(..., action_noise=NormalActionNoise(np.zeros(n), 0.2 * np.ones(n)))"),
        ("ddpg", {"algo.n_critics": 2}, "DDPG(..., policy_kwargs=dict(n_critics=2))"),
        ("td3", {"net.hidden": [32, 32]}, "TD3(..., policy_kwargs=dict(net_arch=dict(pi=[32, 32], qf=[32, 32])))"),
    ],
)
def test_learners_with_a_replay_have_arguments_of_their_own_in_sb3(algo: str, changes: dict[str, Any], wanted: str):
    base = config(f"algo.name={algo}", "algo.learning_starts=100", *(["algo.ent_coef=0.1"] if algo == "sac" else []), "net.hidden=[8]")
    assert spell(changes, "sb3", base) == wanted


@pytest.mark.parametrize("algo", ["dqn", "sac", "td3", "ddpg"])
def test_every_argument_that_is_named_exists_in_sb3(algo: str):
    import inspect

    from rlclinic.treatment.prescription.translate import replay

    known = inspect.signature(getattr(pytest.importorskip("stable_baselines3"), algo.upper()).__init__).parameters
    made = config(f"algo.name={algo}").algo.model_dump()
    # DDPG is TD3 without its tricks in SB3, too, and takes no delay or smoothing.
    own = {"policy_delay", "target_policy_noise", "target_noise_clip"} if algo == "ddpg" else set()
    named = {found[0] for name, value in made.items() if name not in own and (found := replay.sb3_argument(name, value, made))}
    assert len(named) >= 7
    assert named <= set(known)


def test_learners_with_a_replay_have_flags_of_their_own_in_cleanrl():
    dqn, sac = (config(f"algo.name={algo}", "algo.ent_coef=0.1" if algo == "sac" else "algo.gamma=0.9") for algo in ("dqn", "sac"))
    assert spell({"algo.learning_rate": FALLING, "algo.buffer_size": 9_000}, "cleanrl", dqn) == "--learning-rate 0.001 --buffer-size 9000"
    assert spell({"algo.target_update_interval": 500}, "cleanrl", dqn) == "--target-network-frequency 500"
    assert spell({"algo.exploration_final_eps": 0.1}, "cleanrl", dqn) == "--end-e 0.1"
    assert spell({"algo.learning_rate": 1e-3}, "cleanrl", sac) == "--policy-lr 0.001 --q-lr 0.001"
    assert spell({"algo.ent_coef": None}, "cleanrl", sac) == "--autotune"
    assert spell({"algo.double": True}, "cleanrl", dqn) == "# in the script: double = True"


def test_every_setting_has_words_in_every_framework():
    for setting, value in {"algo.gamma": 0.99, "env.clip_reward": 5.0, "net.policy_gain": 0.02, "algo.name": "a2c"}.items():
        for framework in FRAMEWORKS:
            assert spell({setting: value}, framework, config()), (framework, setting)


def test_a_framework_without_words_gets_none():
    assert spell({"algo.gamma": 0.9}, "console", config()) is None
    assert spell({}, "sb3", config()) is None


def test_rllib_is_told_in_calls_on_its_config():
    assert spell({"algo.gamma": 0.99, "algo.clip_range": 0.2}, "rllib", config()) == "config.training(gamma=0.99, clip_param=0.2)"
    steps = config().run.max_env_steps
    assert spell({"algo.learning_rate": FALLING}, "rllib", config()) == f"config.training(lr=[[0, 0.001], [{steps}, 0]])"
    # 8 envs x 64 steps.
    text = spell({"algo.n_steps": 64, "algo.batch_size": 128}, "rllib", config())
    assert text == "config.training(train_batch_size_per_learner=512, minibatch_size=128)"
    text = spell({"env.n_envs": 16, "run.max_env_steps": 9_000, "net.hidden": [32], "env.max_episode_steps": 50}, "rllib", config())
    assert text == (
        "config.env_runners(num_envs_per_env_runner=16); config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32])); "
        'stop={"num_env_steps_sampled_lifetime": 9000}; # where the environment is made: env = gymnasium.make(..., max_episode_steps=50)'
    )
    assert "# RLlib has no argument for target_kl: 0.01" in spell({"algo.target_kl": 0.01}, "rllib", config())


def test_rllibs_learners_with_a_replay_have_words_of_their_own():
    dqn = files.load("CartPole-v1:dqn").config
    changes = {"algo.exploration_fraction": 0.5, "algo.buffer_size": 9_000, "algo.learning_starts": 100}
    text = spell(changes, "rllib", dqn)
    assert f"epsilon=[[0, 1], [{round(0.5 * dqn.run.max_env_steps)}, " in text
    assert '{..., "capacity": 9000}' in text
    assert "num_steps_sampled_before_learning_starts=100" in text


@pytest.mark.parametrize(
    ("ref", "changes", "said"),
    [
        ("Pendulum-v1:iql", {"algo.beta": 300.0}, "d3rlpy.algos.IQLConfig(..., weight_temp=300)"),
        (
            "Pendulum-v1:cql",
            {"algo.cql_alpha": 1.0, "algo.cql_lagrange": True},
            "d3rlpy.algos.CQLConfig(..., conservative_weight=1, alpha_learning_rate=1e-4)",
        ),
        (
            "Pendulum-v1:td3_bc",
            {"algo.bc_alpha": 1.7, "algo.learning_rate": {"start": 1e-4, "end": 0, "schedule": "linear"}},
            "d3rlpy.algos.TD3PlusBCConfig(..., alpha=1.7, actor_learning_rate=0.0001)",
        ),
        ("Pendulum-v1:awac", {"algo.awac_lambda": 0.3}, "d3rlpy.algos.AWACConfig(..., lam=0.3)"),
        ("Pendulum-v1:bc", {"run.max_env_steps": 3_000}, "algo.fit(..., n_steps=3000)"),
        ("CartPole-v1:dqn", {"run.max_env_steps": 3_000}, "algo.fit_online(..., n_steps=3000)"),
        ("Pendulum-v1:iql", {"data.best": 0.1}, "# d3rlpy has no setting for data.best: 0.1"),
    ],
)
def test_d3rlpys_words(ref: str, changes: dict[str, Any], said: str) -> None:
    assert spell(changes, "d3rlpy", files.load(ref).config) == said


@pytest.mark.parametrize(
    ("ref", "changes", "said"),
    [
        # What the discriminator is not asked for is its generator's.
        (
            "CartPole-v1:gail",
            {"algo.reward_lr": 1e-4, "algo.learning_rate": 1e-3},
            "GAIL(..., disc_opt_kwargs=dict(lr=0.0001)); PPO(..., learning_rate=0.001)",
        ),
        (
            "CartPole-v1:dagger",
            {"algo.beta": 0.0},
            "SimpleDAggerTrainer(..., beta_schedule=lambda round_num: 1.0 if round_num == 0 else 0)",
        ),
        (
            "CartPole-v1:bc",
            {"algo.learning_rate": 1e-3, "run.max_env_steps": 300},
            "bc.BC(..., optimizer_kwargs=dict(lr=0.001)); trainer.train(n_batches=300)",
        ),
        ("CartPole-v1:gail", {"algo.gradient_penalty": 1.0}, "# imitation has no argument for gradient_penalty: 1"),
    ],
)
def test_imitations_words(ref: str, changes: dict[str, Any], said: str) -> None:
    assert spell(changes, "sb3", files.load(ref).config) == said == spell(changes, "imitation", files.load(ref).config)
