import pytest

from rlclinic.config.algorithms import ALGORITHMS
from rlclinic.config.setting_names import ALIASES, find_setting, list_fields
from rlclinic.errors import ConfigError


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_leads_to_a_setting(alias: str) -> None:
    section, name = ALIASES[alias].split(".")
    assert any(name in list_fields(algo)[section] for algo in ALGORITHMS)
    assert not any(alias in members for algo in ALGORITHMS for members in list_fields(algo).values()), "an alias must not hide a setting"


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_setting_is_found_by_its_dotted_key(algo: str) -> None:
    for section, members in list_fields(algo).items():
        for name in members:
            assert find_setting(f"{section}.{name}", algo) == (section, name)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("n_envs", ("env", "n_envs")),
        ("learning_rate.end", ("algo", "learning_rate", "end")),
        ("policy_lr.from", ("algo", "learning_rate", "from")),
        ("env.kwargs.a.b", ("env", "kwargs", "a", "b")),
        ("threshold", ("spec", "threshold")),
        ("max_episode_steps", ("env", "max_episode_steps")),
        ("name", ("name",)),
        ("algo.name", ("algo", "name")),
        ("net", ("net",)),
    ],
)
def test_a_key_is_found_by_its_short_name(key: str, path: tuple[str, ...]) -> None:
    assert find_setting(key, "ppo") == path


def test_an_alias_is_no_setting_of_another_section() -> None:
    with pytest.raises(ConfigError, match=r"env\.policy_lr is no setting"):
        find_setting("env.policy_lr", "ppo")


def test_a_setting_of_another_algorithm_is_named_with_it() -> None:
    with pytest.raises(
        ConfigError,
        match=r"algo.clip_coef is no setting of a2c; ppo, appo, gail and airl have it(?s:.*)algo.name=ppo --set algo.clip_range=VALUE",
    ):
        find_setting("algo.clip_coef", "a2c")


@pytest.mark.parametrize("key", ["use_sde", "algo.use_sde", "sde_sample_freq"])
def test_state_dependent_exploration_is_refused_with_the_reason_and_what_to_use(key: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)gSDE\) is left out.*noise is held for several steps.*--set net.log_std_init=-1"):
        find_setting(key, "ppo")
