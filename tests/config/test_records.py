import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlclinic.config import files
from rlclinic.config.experiment import Config
from rlclinic.config.records import flatten, from_record, to_record
from rlclinic.errors import ConfigError

SHIPPED = [f"{entry.env}:{variant}" for entry in files.available() if entry.shipped for variant in entry.variants]


@pytest.mark.parametrize("ref", SHIPPED)
def test_every_shipped_config_survives_json(ref: str) -> None:
    config = files.load(ref).config
    assert from_record(json.loads(json.dumps(to_record(config)))) == config


def test_a_record_is_nested_as_in_yaml_and_complete() -> None:
    record = to_record(files.load("CartPole-v1:ppo").config)
    assert list(record) == ["name", "spec", "env", "algo", "net", "run", "seed"]
    assert record["algo"]["name"] == "ppo"
    assert record["net"]["hidden"] == [64, 64]
    assert set(flatten(record)) >= {"env.n_envs", "algo.learning_rate.start", "run.max_env_steps", "seed"}


def test_a_record_with_an_unknown_key_is_refused() -> None:
    record = to_record(files.load("CartPole-v1:ppo").config)
    record["algo"]["clip_rage"] = 0.1
    with pytest.raises(ConfigError, match=r"algo.clip_rage is no setting(?s:.*)Try: algo.clip_range"):
        from_record(record)


number = st.one_of(
    st.floats(1e-6, 0.9),
    st.builds(
        lambda family, start, end, window: {"schedule": family, "start": start, "end": end, "from": window[0], "to": window[1]},
        st.sampled_from(["linear", "cosine", "exponential", "logarithmic"]),
        st.floats(1e-6, 0.9),
        st.floats(1e-6, 0.9),
        st.tuples(st.floats(0, 0.4), st.floats(0.5, 1)),
    ),
    st.builds(
        lambda values: {"schedule": "piecewise", "points": [[i / len(values), value] for i, value in enumerate(values)]},
        st.lists(st.floats(1e-6, 0.9), min_size=2, max_size=5),
    ),
)


@settings(max_examples=50)
@given(
    learning_rate=number,
    clip_range=number,
    target_kl=st.none() | number,
    hidden=st.lists(st.integers(1, 512), max_size=4),
    n_envs=st.integers(1, 64),
    kwargs=st.dictionaries(st.text("abc_", min_size=1), st.none() | st.booleans() | st.floats(-10, 10) | st.text(max_size=5), max_size=3),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_config_survives_json(
    learning_rate: object, clip_range: object, target_kl: object, hidden: list[int], n_envs: int, kwargs: dict[str, object], seed: int
) -> None:
    config = Config(
        env={"id": "Foo-v0", "n_envs": n_envs, "kwargs": kwargs, "wrappers": [{"id": "a:B", **kwargs}]},
        algo={"name": "ppo", "learning_rate": learning_rate, "clip_range": clip_range, "target_kl": target_kl, "batch_size": 0.5},
        net={"hidden": hidden},
        seed=seed,
    )
    assert from_record(json.loads(json.dumps(to_record(config)))) == config
