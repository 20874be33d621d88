"""Settings of algorithms with a replay: what they mean together, and what is refused before anything is spent."""

from typing import Any

import pytest

from rlclinic.config import ALGORITHMS, Config, DDPGConfig, DQNConfig, SACConfig, TD3Config, describe, numbers, shape_key
from rlclinic.errors import ConfigError

REPLAY = ("dqn", "td3", "ddpg", "sac")


def make(name: str, budget: int = 10_000, n_envs: int = 1, **algo: Any) -> Config:
    return Config(env={"id": "CartPole-v1", "n_envs": n_envs}, algo={"name": name, **algo}, run={"max_env_steps": budget})


def test_ddpg_is_td3_with_the_tricks_off() -> None:
    td3, ddpg = TD3Config().model_dump(), DDPGConfig().model_dump()
    assert {name for name in td3 if td3[name] != ddpg[name]} == {
        "name",
        "n_critics",
        "policy_delay",
        "target_policy_noise",
        "target_noise_clip",
    }
    assert (ddpg["n_critics"], ddpg["policy_delay"], ddpg["target_policy_noise"]) == (1, 1, 0.0)


def test_the_switches_of_dqn_are_independent_and_off() -> None:
    assert [getattr(DQNConfig(), name) for name in ("double", "dueling", "prioritized")] == [False] * 3
    assert DQNConfig().n_step == 1


def test_a_temperature_is_learned_or_a_number() -> None:
    assert SACConfig(ent_coef="auto").ent_coef is None
    assert SACConfig(ent_coef=0.2).ent_coef == 0.2
    assert SACConfig(target_entropy="auto").target_entropy is None
    with pytest.raises(ConfigError, match="must be a number, or a schedule"):
        SACConfig(ent_coef="high")


def test_the_zoos_words_for_noise_are_understood() -> None:
    assert TD3Config(action_noise="normal").action_noise == "gaussian"
    assert TD3Config(action_noise="ornstein-uhlenbeck").action_noise == "ou"
    assert TD3Config(action_noise=None).action_noise == "none"


@pytest.mark.parametrize("name", REPLAY)
def test_numbers_may_differ_in_a_cohort_and_shapes_may_not(name: str) -> None:
    one, other = make(name, learning_rate=1e-3, gamma=0.9), make(name, learning_rate=3e-3, gamma=0.99)
    assert shape_key(one) == shape_key(other)
    for key, value in (
        ("buffer_size", 500),
        ("train_freq", 7),
        ("gradient_steps", 3),
        ("learning_starts", 55),
        ("batch_size", 33),
        ("n_step", 2),
    ):
        assert shape_key(make(name, **{key: value})) != shape_key(make(name)), key
    assert {"learning_rate", "gamma", "tau", "max_grad_norm"} <= set(numbers(ALGORITHMS[name]()))


def test_an_iteration_is_as_many_turns_as_fit_into_a_hundred_env_steps() -> None:
    assert make("sac", train_freq=1).rollout_size == 100
    assert make("dqn", train_freq=4).cycles == 25
    assert make("dqn", train_freq=256).rollout_size == 256
    assert make("dqn", train_freq=7, n_envs=4).rollout_size == 84


def test_a_turn_of_minus_one_has_as_many_gradient_steps_as_env_steps() -> None:
    assert make("sac", train_freq=2, n_envs=4, gradient_steps=-1).updates_per_cycle == 8
    assert make("sac", train_freq=2, n_envs=4, gradient_steps=3).updates_per_cycle == 3
    described = describe(make("sac", train_freq=2, n_envs=4, gradient_steps=-1, batch_size=64))
    assert described["updates_per_env_step"] == 1
    assert described["times_each_transition_is_drawn"] == 64


def test_a_replay_holds_whole_time_steps_and_no_more_than_the_budget_fills() -> None:
    assert make("sac", buffer_size=1001, n_envs=4).replay_rows == 1000
    assert make("sac", budget=5_000, buffer_size=1_000_000).replay_rows == 5_000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"learning_starts": 10_000}, r"algo.learning_starts=10000 leaves no gradient step(?s:.*)Try: --set algo.learning_starts=1000"),
        ({"train_freq": 20_000}, r"algo.train_freq=20000 leaves no gradient step"),
        ({"buffer_size": 2, "n_step": 5}, r"algo.buffer_size=2 does not hold 5 steps"),
        ({"gradient_steps": 0}, r"0 would never learn; -1 makes as many"),
        ({"gradient_steps": -2}, r"algo.gradient_steps=-2"),
        ({"learning_rate": {"start": 1e-3, "schedule": "kl_adaptive"}}, r"algo.learning_rate cannot be kl_adaptive"),
        ({"tau": 0}, r"algo.tau=0"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_what_to_type(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make("sac", **settings)


@pytest.mark.parametrize("name", REPLAY)
def test_every_setting_says_what_it_does_and_what_is_usual(name: str) -> None:
    for key, field in ALGORITHMS[name].model_fields.items():
        assert field.description, key
        if key not in ("name", "double", "dueling", "prioritized", "exploration", "optimizer", "optimize_memory_usage"):
            assert "Usual" in field.description, key
