import pytest

from rlclinic.config.validation import validate
from rlclinic.errors import ConfigError

ENV = {"id": "CartPole-v1"}


def refused(record: dict[str, object], origins: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:  # noqa: PT011 (the text is what the caller checks)
        validate(record, origins)
    return str(caught.value)


def test_one_wrong_setting_is_told_with_value_place_reason_meaning_and_what_to_type() -> None:
    record = {"env": ENV, "algo": {"name": "ppo", "clip_range": 3}}
    assert refused(record, {"algo.clip_range": "CartPole-v1.yaml:12"}) == (
        "algo.clip_range=3 (CartPole-v1.yaml:12): must be less than 1.\n"
        "  How far one update may move an action's probability; smaller is safer and slower. Usual: 0.1-0.3.\n"
        "  Try: --set algo.clip_range=0.2"
    )


def test_all_wrong_settings_are_told_at_once() -> None:
    record = {"env": {**ENV, "n_envs": 0}, "algo": {"name": "ppo", "gamma": 2, "clip_rang": 1}, "net": {"hidden": "wide"}}
    text = refused(record)
    assert text.startswith("4 settings are wrong:\n")
    for part in ("env.n_envs=0: must be at least 1", "algo.gamma=2: must be at most 1", "algo.clip_rang is no setting", "net.hidden=wide"):
        assert part in text
    assert text.count("Try: ") == 4


def test_a_value_inside_a_schedule_is_named_by_the_key_that_a_user_would_write() -> None:
    record = {"env": ENV, "algo": {"name": "a2c", "learning_rate": {"start": "fast", "schedule": "linaer"}}}
    text = refused(record, {"algo.learning_rate": "f.yaml:3"})
    assert "algo.learning_rate.start=fast (f.yaml:3): must be a number." in text
    assert "Try: --set algo.learning_rate.schedule=linear" in text


def test_a_refused_schedule_is_named_by_its_setting_and_place() -> None:
    record = {"env": ENV, "algo": {"name": "ppo", "ent_coef": {"start": 0.1, "schedule": "exponential"}}}
    text = refused(record, {"algo.ent_coef.start": "f.yaml:3", "algo.ent_coef": "f.yaml:2"})
    assert text.startswith("algo.ent_coef: an exponential schedule cannot go from 0.1 to 0 (f.yaml:2).")


def test_a_wrong_batch_is_told_once_although_it_could_be_two_kinds_of_number() -> None:
    text = refused({"env": ENV, "algo": {"name": "ppo", "batch_size": "many"}})
    assert text.startswith("algo.batch_size=many: must be a number.")
    assert text.count("Try: ") == 1


def test_a_long_value_is_shortened() -> None:
    text = refused({"env": ENV, "net": {"activation": "x" * 100}})
    assert "net.activation=" + "x" * 57 + "...: must be" in text


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({}, "env is missing.\n  There is no default for it.\n  Try: env: {id: CartPole-v1}"),
        ({"env": {}}, "env.id is missing"),
        (
            {"env": ENV, "algo": {}},
            "algo.name is missing.\n  There would be nothing to train with.\n  Try: --set algo.name=ppo or a2c or reinforce",
        ),
        (
            {"env": ENV, "algo": {"name": "pppo"}},
            "algo.name=pppo is no algorithm.\n  There would be nothing to train with.\n  Try: --set algo.name=ppo",
        ),
        ({"env": ENV, "algo": "ppo"}, "algo"),
        ({"env": ENV, "algos": {}}, "algos is no setting"),
        ({"env": ENV, "run": None}, "run=None: must be a section"),
        ({"env": ENV, "name": 3}, "name=3: must be text"),
        ({"env": {**ENV, "kwargs": 3}}, "env.kwargs=3: must be a mapping"),
        ({"env": ENV, "spec": {"return_range": [0, 1, 2]}}, "spec.return_range"),
        ({"env": ENV, "algo": {"name": "ppo", "target_kl": -1}}, "algo.target_kl=-1: must be more than 0"),
        (
            {"env": ENV, "algo": {"name": "ppo", "value_lr": {"start": -1}}},
            "algo.value_lr={start: -1}: must be more than 0, over the whole schedule",
        ),
    ],
)
def test_whatever_is_wrong_there_is_something_to_type(record: dict[str, object], says: str) -> None:
    text = refused(record)
    assert says in text
    assert "Try: " in text
    assert "pydantic" not in text
