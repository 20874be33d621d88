import pytest

from rlclinic.config.algorithms import A2CConfig
from rlclinic.config.environment import EnvConfig
from rlclinic.config.experiment import Config, describe
from rlclinic.config.overrides import set_values
from rlclinic.errors import ConfigError

CONFIG = Config(env=EnvConfig(id="CartPole-v1"), run={"max_env_steps": 100_000})


def refused(*changes: str) -> str:
    with pytest.raises(ConfigError) as caught:  # noqa: PT011 (the text is what the caller checks)
        set_values(CONFIG, changes)
    return str(caught.value)


def test_a_batch_that_does_not_divide_the_rollout_is_refused_with_the_nearest_that_does() -> None:
    assert refused("n_steps=32", "batch_size=100") == (
        "algo.batch_size=100 does not divide the rollout of 256 transitions (n_envs=8 x n_steps=32).\n"
        "  Each epoch would end on a minibatch of 56 that takes a full-size step.\n"
        "  Try: --set algo.batch_size=128"
    )


def test_a_fraction_that_does_not_divide_the_rollout_is_refused_too() -> None:
    text = refused("batch_size=0.3")
    assert "algo.batch_size=0.3 (614 rows) does not divide the rollout of 2048" in text
    assert "Try: --set algo.batch_size=512" in text


def test_what_the_error_offers_is_accepted() -> None:
    assert set_values(CONFIG, ["n_steps=32", "batch_size=128"]).batch_rows == 128
    assert set_values(CONFIG, ["batch_size=512"]).batch_rows == 512


def test_a_batch_larger_than_the_rollout_is_refused() -> None:
    assert "algo.batch_size=4096 is more than the rollout of 2048" in refused("batch_size=4096")
    assert "--set algo.batch_size=2048, or --set algo.n_steps=512" in refused("batch_size=4096")


def test_a_batch_of_one_row_cannot_be_normalized() -> None:
    assert "no deviation to divide by" in refused("n_envs=1", "n_steps=64", "batch_size=0.015625")
    one = set_values(CONFIG, ["n_envs=1", "n_steps=64", "batch_size=0.015625", "normalize_advantage=rollout"])
    assert one.batch_rows == 1


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("learning_rate={start: 1e-3, to: 200000}", "algo.learning_rate.to=200000"),
        ("clip_range={start: 0.2, from: 200000, to: 300000}", "algo.clip_range.from=200000"),
        ("ent_coef={start: 0.01, warmup: 150000}", "algo.ent_coef.warmup=150000"),
        ("gamma={schedule: piecewise, points: [[0, 0.9], [100001, 0.99]]}", "algo.gamma.points=100001"),
    ],
)
def test_a_schedule_past_the_budget_is_refused(change: str, place: str) -> None:
    text = refused(change)
    assert f"{place} lies past the budget of 100000 env steps (run.max_env_steps)" in text
    assert f"--set {place.partition('=')[0]}=" in text


def test_a_schedule_up_to_the_last_step_of_the_budget_is_fine() -> None:
    assert set_values(CONFIG, ["learning_rate={start: 1e-3, to: 100000}"])


def test_a_smaller_budget_finds_the_schedules_that_no_longer_fit() -> None:
    config = set_values(CONFIG, ["learning_rate={start: 1e-3, to: 80000}"])
    with pytest.raises(ConfigError, match="lies past the budget of 50000"):
        set_values(config, ["max_env_steps=50000"])


@pytest.mark.parametrize(
    "change", ["learning_rate={start: 1e-3, from: 0.5, to: 40000}", "learning_rate={start: 1e-3, to: 0.1, warmup: 0.1}"]
)
def test_a_schedule_that_leaves_no_time_for_its_change_is_refused(change: str) -> None:
    assert "algo.learning_rate leaves no time for the change" in refused(change)


def test_only_a_learning_rate_follows_the_kl() -> None:
    assert "algo.clip_range cannot be kl_adaptive" in refused("clip_range={schedule: kl_adaptive, start: 1e-2, max: 0.5}")
    assert set_values(CONFIG, ["learning_rate={schedule: kl_adaptive, start: 1e-3}", "value_lr={schedule: kl_adaptive, start: 1e-3}"])


def test_a_budget_below_one_rollout_is_refused() -> None:
    text = refused("max_env_steps=2000")
    assert "run.max_env_steps=2000 is less than one rollout of 2048 env steps (n_envs=8 x n_steps=256)" in text


def test_a_critic_with_its_own_rate_needs_its_own_network() -> None:
    assert "A shared trunk has one optimizer" in refused("value_lr=1e-3", "net.shared=true")


def test_stopping_at_a_threshold_needs_one() -> None:
    assert "spec.threshold is not known" in refused("stop_at_threshold=true", "eval_every_env_steps=1000")
    assert set_values(CONFIG, ["stop_at_threshold=true", "eval_every_env_steps=1000", "threshold=475"])


def test_everything_wrong_between_settings_is_said_at_once() -> None:
    text = refused("batch_size=100", "learning_rate={start: 1e-3, to: 200000}", "value_lr=1e-3", "net.shared=true")
    assert text.count("Try: ") == 3


def test_the_seed_is_a_whole_number_from_zero() -> None:
    assert "seed=-1 (--set): must be at least 0" in refused("seed=-1")


def test_the_last_rollout_is_finished() -> None:
    config = set_values(CONFIG, ["n_steps=32"])
    assert (config.rollout_size, config.iterations) == (256, 391)
    assert describe(config)["env_steps"] == 100_096


def test_derived_numbers_are_those_one_would_compute_by_hand() -> None:
    config = set_values(CONFIG, ["n_steps=32", "batch_size=0.25", "n_epochs=20", "gamma=0.98", "eval_every_env_steps=30000"])
    assert describe(config) == {
        "rollout_size": 256,
        "batch_rows": 64,
        "minibatches_per_epoch": 4,
        "gradient_steps_per_rollout": 80,
        "iterations": 391,
        "gradient_steps": 31_280,
        "env_steps": 100_096,
        "horizon_steps": pytest.approx(50),
        "evaluations": 4,
    }


def test_a2c_takes_one_step_on_its_whole_rollout() -> None:
    config = Config(env=EnvConfig(id="x"), algo=A2CConfig())
    assert config.batch_rows == config.rollout_size == 40
    assert describe(config)["gradient_steps_per_rollout"] == 1


def test_without_discount_the_horizon_is_endless_and_without_episodes_nothing_is_evaluated() -> None:
    config = set_values(CONFIG, ["gamma=1", "eval_episodes=0", "eval_every_env_steps=1000"])
    assert "horizon_steps" not in describe(config)
    assert describe(config)["evaluations"] == 0


@pytest.mark.parametrize("algo", ["dqn", "bootstrapped_dqn", "q_learning"])
def test_advantages_of_terms_are_refused_where_there_are_none(algo: str) -> None:
    with pytest.raises(ConfigError, match=f"term_advantages, but {algo} estimates no advantages"):
        Config(env={"id": "CartPole-v1", "term_advantages": True}, algo={"name": algo}, run={"max_env_steps": 100_000})
