import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.config.algorithms import A2CConfig, PPOConfig
from rlclinic.config.environment import EnvConfig
from rlclinic.config.experiment import Config
from rlclinic.config.files import load
from rlclinic.config.overrides import set_values
from rlclinic.config.records import flatten, to_record
from rlclinic.config.schedule import Schedule
from rlclinic.errors import ConfigError

CONFIG = Config(env=EnvConfig(id="CartPole-v1"))


def changed(*values: str) -> dict[str, object]:
    """What the values changed, by dotted key."""
    before, after = flatten(to_record(CONFIG)), flatten(to_record(set_values(CONFIG, values)))
    return {key: value for key, value in after.items() if before.get(key, "absent") != value}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("algo.learning_rate=1e-4", "algo.learning_rate", 1e-4),
        ("learning_rate=0.0001", "algo.learning_rate", 1e-4),
        ("policy_lr=1e-4", "algo.learning_rate", 1e-4),
        ("algo.policy_lr=1e-4", "algo.learning_rate", 1e-4),
        ("run.max_env_steps=2e6", "run.max_env_steps", 2_000_000),
        ("max_env_steps=2_000_000", "run.max_env_steps", 2_000_000),
        ("total_timesteps=2e6", "run.max_env_steps", 2_000_000),
        ("clip_coef=0.1", "algo.clip_range", 0.1),
        ("vf_clip_coef=0.2", "algo.clip_range_vf", 0.2),
        ("update_epochs=4", "algo.n_epochs", 4),
        ("minibatch_size=512", "algo.batch_size", 512),
        ("bptt_horizon=64", "algo.n_steps", 64),
        ("batch_size=0.25", "algo.batch_size", 0.25),
        ("net.hidden=[256, 256]", "net.hidden", [256, 256]),
        ("hidden=256,128", "net.hidden", [256, 128]),
        ("hidden=256", "net.hidden", [256]),
        ("hidden=[]", "net.hidden", []),
        ("critic_hidden=[32]", "net.critic_hidden", [32]),
        ("target_kl=0.02", "algo.target_kl", 0.02),
        ("normalize_obs=true", "env.normalize_obs", True),
        ("normalize_obs=yes", "env.normalize_obs", True),
        ("normalize_advantage=off", "algo.normalize_advantage", "off"),
        ("normalize_advantage=false", "algo.normalize_advantage", "off"),
        ("activation=relu", "net.activation", "relu"),
        ("env.kwargs.gravity=-9.5", "env.kwargs.gravity", -9.5),
        ("env_kwargs.map=4x4", "env.kwargs.map", "4x4"),
        ("env.kwargs.deep.er=true", "env.kwargs.deep.er", True),
        ('env.kwargs={"size": [1, 2]}', "env.kwargs.size", [1, 2]),
        ("env.kwargs.size=[1, 2]", "env.kwargs.size", [1, 2]),
        ("env.kwargs.label='7'", "env.kwargs.label", "7"),
        ("env.kwargs.nothing=none", "env.kwargs.nothing", None),
        ("env.id=Foo-v0", "env.id", "Foo-v0"),
        ("env.id=1e3", "env.id", "1e3"),
        ("name=1", "name", "1"),
        ("max_episode_steps=99", "env.max_episode_steps", 99),
        ("spec.max_episode_steps=99", "spec.max_episode_steps", 99),
        ("reward_threshold=-110", "spec.threshold", -110.0),
        ("env.wrappers=TimeAwareObservation", "env.wrappers", [{"id": "TimeAwareObservation"}]),
        ("env.wrappers={id: a:B, low: 1}", "env.wrappers", [{"id": "a:B", "low": 1}]),
        ("return_range=0,500", "spec.return_range", [0.0, 500.0]),
        ("seed=3", "seed", 3),
        (" seed = 3 ", "seed", 3),
        ("--seed=3", "seed", 3),
    ],
)
def test_a_value_is_typed_by_its_setting(text: str, key: str, value: object) -> None:
    found = changed(text)
    assert found == {key: value}
    assert type(found[key]) is type(value)


def test_counts_may_be_typed_in_thousands_and_millions() -> None:
    assert changed("run.max_env_steps=60k", "run.eval_every_env_steps=1.5k") == {
        "run.max_env_steps": 60_000,
        "run.eval_every_env_steps": 1_500,
    }


def test_an_equals_sign_may_stand_in_a_value() -> None:
    assert changed("env.kwargs.query=a=b") == {"env.kwargs.query": "a=b"}


def test_a_later_value_wins() -> None:
    assert set_values(CONFIG, ["seed=1", "seed=2"]).seed == 2


def test_none_takes_an_optional_setting_back() -> None:
    config = set_values(CONFIG, ["target_kl=0.02"])
    assert set_values(config, ["target_kl=none"]) == CONFIG


def test_no_values_change_nothing() -> None:
    assert set_values(CONFIG, []) is CONFIG


@pytest.mark.parametrize("text", ['learning_rate={"start": 1e-3, "end": 1e-5}', "lr={start: 1e-3, end: 1e-5}"])
def test_a_schedule_may_be_json_or_yaml(text: str) -> None:
    assert set_values(CONFIG, [text]).algo.learning_rate == Schedule(start=1e-3, end=1e-5)


def test_a_schedules_key_turns_a_number_into_a_schedule_that_starts_there() -> None:
    config = set_values(CONFIG, ["learning_rate.end=1e-5", "policy_lr.warmup=0.02"])
    assert config.algo.learning_rate == Schedule(start=3e-4, end=1e-5, warmup=0.02)


def test_a_schedules_key_keeps_the_rest_of_the_schedule() -> None:
    config = set_values(CONFIG, ["clip_range={start: 0.3, end: 0.1, schedule: cosine}"])
    assert set_values(config, ["clip_range.start=0.2"]).algo.clip_range == Schedule(start=0.2, end=0.1, schedule="cosine")  # type: ignore[union-attr]


def test_another_family_forgets_the_keys_that_it_has_not() -> None:
    adaptive = set_values(CONFIG, ["learning_rate={schedule: kl_adaptive, start: 1e-3, target_kl: 0.02}"])
    assert set_values(adaptive, ["learning_rate.schedule=linear"]).algo.learning_rate == Schedule(start=1e-3)
    linear = set_values(CONFIG, ["learning_rate={start: 1e-3, end: 1e-4}"])
    assert set_values(linear, ["learning_rate.schedule=kl_adaptive"]).algo.learning_rate == Schedule(schedule="kl_adaptive", start=1e-3)
    assert set_values(linear, ["learning_rate.schedule=constant"]).algo.learning_rate == Schedule(schedule="constant", start=1e-3)


def test_a_mapping_may_hold_the_words_of_a_schedule() -> None:
    config = set_values(CONFIG, ["env.kwargs.start=1", "env.kwargs.inner=5", "env.kwargs.schedule=linear", "env.kwargs.inner.x=2"])
    assert config.env.kwargs == {"start": 1, "inner": {"x": 2}, "schedule": "linear"}


def test_another_algorithm_starts_from_its_own_defaults_in_whatever_order_it_is_given() -> None:
    tuned = set_values(CONFIG, ["n_steps=512", "gamma=0.9"])
    assert set_values(tuned, ["algo.name=a2c"]).algo == A2CConfig()
    assert set_values(tuned, ["gamma=0.95", "algo_id=a2c"]).algo == A2CConfig(gamma=0.95)
    assert set_values(tuned, ["algo.name=ppo"]).algo == PPOConfig(n_steps=512, gamma=0.9)


def test_a_table_does_not_take_over_rewards_that_were_scaled_for_gradients() -> None:
    """initial_value and ucb_constant are in units of the return."""
    scaled = set_values(CONFIG, ["env.normalize_reward=true"])
    assert not set_values(scaled, ["algo.name=q_learning"]).env.normalize_reward
    assert set_values(scaled, ["env.normalize_reward=true", "algo.name=q_learning"]).env.normalize_reward
    assert set_values(scaled, ["algo.name=dqn"]).env.normalize_reward
    assert set_values(set_values(scaled, ["algo.name=q_learning", "env.normalize_reward=true"]), ["gamma=0.9"]).env.normalize_reward


def test_values_that_only_fit_together_may_be_set_together() -> None:
    assert set_values(CONFIG, ["batch_size=96", "n_steps=96"]).batch_rows == 96


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed", "`seed` is not of the form key=value"),
        ("=3", "not of the form key=value"),
        ("clip_rage=0.1", "clip_rage is no setting.\n(?s:.*)Try: algo.clip_range, or"),
        ("algo.lerning_rate=1", "Try: algo.learning_rate"),
        ("net.n_envs=4", "net.n_envs is no setting(?s:.*)env.n_envs"),
        ("optim.lr=4", "optim.lr is no setting"),
        ("learning_rate.ende=0", "Try: learning_rate.end"),
        ("algo.learning_rate.start.x=0", "algo.learning_rate.start.x is no setting"),
        ("n_envs.x=1", "n_envs.x is no setting(?s:.*)Try: n_envs"),
        ("algo.name=pp0", "algo.name=pp0 is no algorithm(?s:.*)Try: --set algo.name=ppo"),
        ("algo.name=zzz", "Try: --set algo.name=ppo or a2c or reinforce or dqn"),
        ("baseline=false", "baseline is no setting of ppo; reinforce has it"),
        ("gamma=high", r"algo.gamma=high \(--set\): must be a number, or a schedule"),
        ("gamma=1.01", r"algo.gamma=1.01 \(--set\): must be at most 1"),
        ("n_envs=2.5", r"env.n_envs=2.5 \(--set\): a whole number is needed here"),
        ("optimizer=adm", r"must be one of 'adam'.*(?s:.*)Try: --set algo.optimizer=adam"),
        ("env=CartPole-v1", r"env=CartPole-v1 \(--set\): must be a section"),
        ("net.hidden={a: 1", "is not valid YAML"),
        ("gamma=", "algo.gamma=None"),
        ("gamma.schedule=[1]", "algo.gamma.schedule=.*must be one of"),
    ],
)
def test_a_value_that_cannot_be_set_says_what_to_type(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        set_values(CONFIG, [text])


@given(st.floats(1e-12, 1.0))
def test_a_number_is_read_back_exactly(value: float) -> None:
    assert set_values(CONFIG, [f"learning_rate={value!r}"]).algo.learning_rate == value


@given(st.text(max_size=20))
def test_whatever_is_typed_the_answer_is_a_config_or_a_config_error(text: str) -> None:
    for value in (text, f"gamma={text}", f"net.hidden={text}", f"env.kwargs={text}", f"learning_rate.{text}=1"):
        said = "Try: "
        try:
            set_values(CONFIG, [value])
        except ConfigError as error:
            said = str(error)
        assert "Try: " in said


def test_recorded_data_is_refused_by_an_algorithm_that_acts_itself() -> None:
    with pytest.raises(ConfigError, match="ppo learns from what it does itself") as refused:
        load("CartPole-v1:ppo", ["data.path=somewhere"])
    assert "iql" in str(refused.value)
