import base64
import pickle
from typing import Any

import pytest

from rlclinic.readers import hyperparameters


@pytest.mark.parametrize(
    ("text", "algo"),
    [
        ("PPO_3", "ppo"),
        ("ppo_continuous_action", "ppo"),
        ("dqn_atari", "dqn"),
        ("RecurrentPPO_1", "recurrent_ppo"),
        ("ppo_lstm", "recurrent_ppo"),
        ("A2C", "a2c"),
        ("ppo2", "ppo"),
        ("pposition", None),
        ("my_run", None),
        (None, None),
    ],
)
def test_an_algorithm_is_known_by_the_beginning_of_a_name(text: Any, algo: str | None) -> None:
    assert hyperparameters.find_algorithm(text) == algo


@pytest.mark.parametrize(
    ("named", "tags", "algo"),
    [
        ("maskable_ppo", ["train/clip_fraction"], "maskable_ppo"),
        ("dqn", ["train/clip_fraction"], "ppo"),
        (None, ["rollout/exploration_rate"], "dqn"),
        ("ddpg", ["train/actor_loss", "train/critic_loss"], "ddpg"),
        (None, ["train/actor_loss", "train/critic_loss", "train/ent_coef"], "sac"),
        ("ars", ["rollout/return_std"], "ars"),
        (None, [], None),
    ],
)
def test_tags_decide_where_a_folders_name_says_something_else(named: str | None, tags: list[str], algo: str | None) -> None:
    assert hyperparameters.check_algorithm(named, tags) == algo


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (3e-4, 3e-4),
        ("3e-4", 3e-4),
        ("lin_0.001", {"schedule": "linear", "start": 0.001, "end": 0.0}),
        ("ConstantSchedule(val=0.2)", 0.2),
        ("LinearSchedule(start=0.01, end=0.001, end_fraction=0.5)", {"schedule": "linear", "start": 0.01, "end": 0.001, "to": 0.5}),
        ({":type:": "<class>", ":serialized:": "gASV", "value_schedule": "ConstantSchedule(val=0.2)"}, 0.2),
        ({":type:": "<class>", ":serialized:": "gASV"}, None),
        ("auto", "auto"),
        ("lin_x", None),
        ("__import__('os').system('x')", None),
    ],
)
def test_numbers_and_schedules_are_read_in_every_spelling(given: Any, meant: Any) -> None:
    assert hyperparameters.parse_number(given) == meant


def test_sb3_names_are_ours() -> None:
    raw = {
        "n_steps": 32,
        "gamma": 0.98,
        "n_envs": 8,
        "n_timesteps": "1e5",
        "normalize_advantage": True,
        "target_kl": None,
        "policy": "MlpPolicy",
    }
    assert hyperparameters.translate_sb3(raw) == {
        "algo.n_steps": 32,
        "algo.gamma": 0.98,
        "env.n_envs": 8,
        "run.max_env_steps": 100_000,
        "algo.normalize_advantage": "batch",
        "algo.target_kl": None,
    }


def test_the_train_freq_of_a_saved_model_is_read_from_its_opcodes_and_nothing_is_executed() -> None:
    saved = (
        "gAWVYQAAAAAAAACMJXN0YWJsZV9iYXNlbGluZXMzLmNvbW1vbi50eXBlX2FsaWFzZXOUjAlUcmFpbkZyZXGUk5RLBGgA"
        "jBJUcmFpbkZyZXF1ZW5jeVVuaXSUk5SMBHN0ZXCUhZRSlIaUgZQu"
    )
    assert hyperparameters.translate_sb3({"train_freq": {":type:": "TrainFreq", ":serialized:": saved}}) == {"algo.train_freq": 4}
    evil = base64.b64encode(pickle.dumps(("step", "TrainFreq", 7, 9))).decode()
    for broken in ("", "no base64!", base64.b64encode(b"\x80\x05K").decode(), evil):
        assert hyperparameters.translate_sb3({"train_freq": {":serialized:": broken}}) == {}


def test_off_policy_settings_keep_sb3s_names() -> None:
    raw = {"buffer_size": 50_000, "train_freq": [4, "step"], "exploration_fraction": 0.16, "ent_coef": "auto", "tau": 0.005}
    assert hyperparameters.translate_sb3(raw) == {
        "algo.buffer_size": 50_000,
        "algo.train_freq": 4,
        "algo.exploration_fraction": 0.16,
        "algo.ent_coef": "auto",
        "algo.tau": 0.005,
    }


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (True, (True, True)),
        ("{'norm_obs': True, 'norm_reward': False}", (True, False)),
        ("dict(norm_obs=False, norm_reward=True)", (False, True)),
    ],
)
def test_vec_normalize_is_read_from_a_truth_or_its_arguments(given: Any, meant: tuple[bool, bool]) -> None:
    found = hyperparameters.translate_sb3({"normalize": given})
    assert (found["env.normalize_obs"], found["env.normalize_reward"]) == meant


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"net_arch": [64, 32]}, {"net.hidden": [64, 32]}),
        (
            "dict(net_arch=dict(pi=[256, 256], vf=[64]), activation_fn=nn.ReLU, log_std_init=-2, ortho_init=False)",
            {"net.hidden": [256, 256], "net.critic_hidden": [64], "net.activation": "relu", "net.log_std_init": -2.0},
        ),
        ({"net_arch": [{"pi": [8], "vf": [9]}], "activation_fn": "<class 'torch.nn.modules.activation.Tanh'>"}, None),
        ("dict(net_arch=[400, 300], activation_fn=nn.LeakyReLU)", {"net.hidden": [400, 300], "net.activation": "leaky_relu"}),
        ("__import__('os').system('touch /tmp/owned')", {}),
        ("dict(" * 5_000, {}),
        (7, {}),
    ],
)
def test_a_network_is_read_without_executing_its_text(given: Any, meant: dict[str, Any] | None) -> None:
    wanted = {"net.hidden": [8], "net.critic_hidden": [9], "net.activation": "tanh"} if meant is None else meant
    assert hyperparameters.translate_network(given) == wanted


CLEANRL = """|param|value|
|-|-|
|exp_name|ppo|
|seed|1|
|total_timesteps|500000|
|learning_rate|0.00025|
|num_envs|4|
|num_steps|128|
|anneal_lr|True|
|num_minibatches|4|
|update_epochs|4|
|norm_adv|False|
|clip_coef|0.2|
|clip_vloss|True|
|target_kl|None|
|batch_size|512|"""


def test_cleanrls_arguments_become_our_settings() -> None:
    assert hyperparameters.translate_cleanrl(hyperparameters.parse_markdown_table(CLEANRL)) == {
        "seed": 1,
        "run.max_env_steps": 500_000,
        "algo.learning_rate": {"schedule": "linear", "start": 0.00025, "end": 0.0},
        "env.n_envs": 4,
        "algo.n_steps": 128,
        "algo.batch_size": 128,
        "algo.n_epochs": 4,
        "algo.normalize_advantage": "off",
        "algo.clip_range": 0.2,
        "algo.clip_range_vf": 0.2,
        "algo.target_kl": None,
    }


def test_without_annealing_and_value_clipping_numbers_stay_numbers() -> None:
    found = hyperparameters.translate_cleanrl({"learning_rate": 1e-3, "anneal_lr": False, "clip_vloss": False, "clip_coef": 0.1})
    assert found == {"algo.learning_rate": 1e-3, "algo.clip_range": 0.1, "algo.clip_range_vf": None}


def test_cleanrls_off_policy_names_become_sb3s() -> None:
    raw = {
        "start_e": 1.0,
        "end_e": 0.05,
        "train_frequency": 10,
        "target_network_frequency": 500,
        "batch_size": 128,
        "autotune": True,
        "alpha": 0.2,
    }
    assert hyperparameters.translate_cleanrl(raw) == {
        "algo.exploration_initial_eps": 1.0,
        "algo.exploration_final_eps": 0.05,
        "algo.train_freq": 10,
        "algo.target_update_interval": 500,
        "algo.batch_size": 128,
        "algo.ent_coef": "auto",
    }


def test_usual_names_are_found_below_any_prefix() -> None:
    found = hyperparameters.translate_usual(
        {"config/lr": 1e-3, "agent.clip_epsilon": 0.2, "gamma": 0.9, "something": 1, "env_id": "CartPole-v1"}
    )
    assert found == {"algo.learning_rate": 1e-3, "algo.clip_range": 0.2, "algo.gamma": 0.9, "env.id": "CartPole-v1"}


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("0.5", 0.5), ("None", None), ("True", True), ("true", True), ("[1, 2]", [1, 2])])
def test_printed_values_are_read_back(text: str, value: Any) -> None:
    assert hyperparameters.parse_value(text) == value


@pytest.mark.parametrize("text", ["abc", "{1, 2}", "1 +", "(" * 2_000, "9" * 20_000, "b'x'"])
def test_what_is_no_value_stays_text(text: str) -> None:
    assert hyperparameters.parse_value(text) == text


def test_side_keys_become_a_schedule() -> None:
    raw = {"clip_range": 0.2, "clip_range_schedule": "cosine", "clip_range_schedule_end_value": 0.05, "clip_range_schedule_warmup": 0.1}
    assert hyperparameters.make_schedule(raw, "clip_range") == {"schedule": "cosine", "start": 0.2, "end": 0.05, "warmup": 0.1}
    assert hyperparameters.make_schedule({"clip_range": 0.2}, "clip_range") == 0.2


@pytest.mark.parametrize(
    "text",
    [
        "Namespace(task='CartPole-v1', lr=0.001, hidden_sizes=[64, 64], dual_clip=None)",
        "{'task': 'CartPole-v1', 'lr': 0.001}",
        '{"task": "CartPole-v1", "lr": 0.001, "deep": true}',
        "|param|value|\n|-|-|\n|task|CartPole-v1|\n|lr|0.001|",
    ],
)
def test_settings_that_a_script_wrote_as_text_are_read(text: str) -> None:
    found = hyperparameters.parse_written(text)
    assert (found["task"], found["lr"]) == ("CartPole-v1", 0.001)


@pytest.mark.parametrize("text", ["", "hello", "[1, 2]", "Namespace(", "dict(1)", "__import__('os').system('x')", "Namespace(f())", "3"])
def test_a_text_that_holds_no_settings_says_nothing(text: str) -> None:
    assert hyperparameters.parse_written(text) == {}
