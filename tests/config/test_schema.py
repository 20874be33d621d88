import pytest
from pydantic import ValidationError

from rlclinic.config import algorithms, environment, experiment, network, run, schedule
from rlclinic.config.schema import Kind, Strict, flatten, kind_of, read_number
from rlclinic.errors import ConfigError

MODELS = [
    environment.Spec,
    environment.Wrapper,
    environment.EnvConfig,
    algorithms.PPOConfig,
    algorithms.A2CConfig,
    algorithms.ReinforceConfig,
    network.NetConfig,
    run.RunConfig,
    schedule.Schedule,
    experiment.Config,
]


@pytest.mark.parametrize("model", MODELS)
def test_every_field_is_documented_in_one_line(model: type[Strict]) -> None:
    for name, field in model.model_fields.items():
        assert field.description, f"{model.__name__}.{name} has no documentation"
        assert "\n" not in field.description


@pytest.mark.parametrize("model", [algorithms.PPOConfig, algorithms.A2CConfig, algorithms.ReinforceConfig])
def test_every_number_tells_its_usual_range(model: type[Strict]) -> None:
    silent = [
        name for name, field in model.model_fields.items() if kind_of(field) is Kind.NUMBER and "Usual:" not in str(field.description)
    ]
    assert silent == []


def test_a_model_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        network.NetConfig().shared = True  # type: ignore[misc]


def test_a_model_made_in_python_explains_itself_like_one_from_a_file() -> None:
    with pytest.raises(ConfigError, match=r"net.activation=tahn: must be one of 'tanh'.*(?s:.*)Try: --set net.activation=tanh"):
        network.NetConfig(activation="tahn")


@pytest.mark.parametrize(
    ("text", "number"),
    [("1e-4", 1e-4), ("1e6", 1e6), ("-3", -3), ("1_000", 1000), (".5", 0.5), ("2.", 2.0), ("1.5e3", 1500.0), ("+7", 7), (" 8 ", 8)],
)
def test_text_that_spells_a_number_is_read_as_one(text: str, number: float) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize("text", ["fast", "1e", "0x10", "1 2", "", "4x4", "nan", "e5", "1.2.3", "__1"])
def test_other_text_stays_text(text: str) -> None:
    assert read_number(text) == text


def test_a_boolean_is_no_number() -> None:
    with pytest.raises(ConfigError, match="not true or false"):
        environment.EnvConfig(id="x", n_envs=True)
    with pytest.raises(ConfigError, match="not true or false"):
        algorithms.PPOConfig(gamma=False)


@pytest.mark.parametrize("value", ["1e6", 1e6, 1_000_000, "1_000_000"])
def test_a_count_may_be_written_with_an_exponent(value: object) -> None:
    steps = run.RunConfig(max_env_steps=value).max_env_steps
    assert steps == 1_000_000
    assert type(steps) is int


@pytest.mark.parametrize("value", [2.5, "2.5", float("inf"), float("nan")])
def test_a_count_is_whole(value: object) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        environment.EnvConfig(id="x", n_envs=value)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_number_is_finite(value: float) -> None:
    with pytest.raises(ConfigError, match=r"algo\.vf_coef"):
        algorithms.PPOConfig(vf_coef=value)


def test_flattening_gives_the_leaves_by_dotted_key() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": {}}) == {"a.b": 1, "a.c.d": [1, 2], "e": {}}
