import pytest

from rlclinic.config.algorithms import ALGORITHMS, A2CConfig, PPOConfig, ReinforceConfig, numbers, shape_key
from rlclinic.config.environment import EnvConfig
from rlclinic.config.experiment import Config
from rlclinic.config.overrides import set_values
from rlclinic.config.schedule import Schedule
from rlclinic.errors import ConfigError

CONFIG = Config(name="CartPole-v1:ppo", env=EnvConfig(id="CartPole-v1"))


def test_the_numbers_are_those_that_training_may_change() -> None:
    common = {"gamma", "gae_lambda", "learning_rate", "value_lr", "ent_coef", "vf_coef", "max_grad_norm"}
    vtrace = {"rho_clip", "c_clip"}
    assert set(numbers(A2CConfig())) == common | vtrace
    assert set(numbers(ReinforceConfig())) == common
    segments = {"priority_alpha", "priority_beta"}
    assert set(numbers(PPOConfig())) == common | vtrace | segments | {"clip_range", "clip_range_vf", "target_kl"}


def test_a_number_is_given_as_it_was_set() -> None:
    found = numbers(PPOConfig(clip_range={"start": 0.2}, target_kl=0.02))
    assert found["clip_range"] == Schedule(start=0.2)
    assert found["target_kl"] == 0.02
    assert found["value_lr"] is None


@pytest.mark.parametrize(
    "change",
    [
        "gamma=0.9",
        "learning_rate={start: 1e-3}",
        "learning_rate.schedule=cosine",
        "target_kl=0.01",
        "clip_range_vf=0.2",
        "value_lr=1e-3",
        "seed=7",
    ],
)
def test_runs_that_differ_in_numbers_train_together(change: str) -> None:
    assert shape_key(set_values(CONFIG, [change])) == shape_key(CONFIG)


@pytest.mark.parametrize(
    "change",
    [
        "n_envs=16",
        "n_steps=128",
        "batch_size=128",
        "n_epochs=4",
        "optimizer=sgd",
        "adam_eps=1e-8",
        "hidden=[32]",
        "activation=relu",
        "max_env_steps=50_000",
        "normalize_obs=true",
        "env.kwargs.gravity=5",
        "env.id=Acrobot-v1",
        "algo.name=a2c",
        "spec.threshold=400",
        "device=cuda",
    ],
)
def test_runs_that_differ_in_anything_else_do_not(change: str) -> None:
    assert shape_key(set_values(CONFIG, [change])) != shape_key(CONFIG)


def test_a_name_and_a_description_do_not_keep_runs_apart() -> None:
    other = set_values(CONFIG, ["name=mine", "spec.description=the same task"])
    assert shape_key(other) == shape_key(CONFIG)


def test_a_fraction_of_the_rollout_and_its_rows_are_the_same_batch() -> None:
    assert shape_key(set_values(CONFIG, ["batch_size=0.125"])) == shape_key(set_values(CONFIG, ["batch_size=256"]))


def test_a_shape_key_can_be_a_dictionarys_key() -> None:
    assert {shape_key(CONFIG): 1}[shape_key(CONFIG.model_copy(update={"seed": 3}))] == 1


@pytest.mark.parametrize(("given", "meant"), [(True, "batch"), (False, "off"), (None, "off"), ("rollout", "rollout")])
def test_normalize_advantage_takes_sb3s_booleans(given: object, meant: str) -> None:
    assert PPOConfig(normalize_advantage=given).normalize_advantage == meant


@pytest.mark.parametrize(("given", "meant"), [(256, 256), (256.0, 256), ("256", 256), (0.25, 0.25), (1, 1), (1.0, 1)])
def test_a_batch_is_rows_or_a_fraction(given: object, meant: float) -> None:
    size = PPOConfig(batch_size=given).batch_size
    assert size == meant
    assert type(size) is type(meant)


@pytest.mark.parametrize("given", [0, -64, 1.5, "many", None])
def test_a_batch_that_is_neither_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match=r"algo\.batch_size="):
        PPOConfig(batch_size=given)


def test_a2c_starts_from_sb3s_defaults() -> None:
    a2c = A2CConfig()
    assert (a2c.n_steps, a2c.learning_rate, a2c.gae_lambda, a2c.optimizer, a2c.adam_eps, a2c.rms_decay) == (
        5,
        7e-4,
        1.0,
        "rmsprop",
        1e-5,
        0.99,
    )
    assert (a2c.vf_coef, a2c.ent_coef, a2c.max_grad_norm, a2c.normalize_advantage) == (0.5, 0.0, 0.5, "off")


def test_every_algorithm_is_found_by_its_own_name() -> None:
    assert all(model().name == name for name, model in ALGORITHMS.items())
