from pathlib import Path

import pytest

from rlclinic.errors import ConfigError, NotFound
from rlclinic.ops.runs import environments
from tests.ops.recorded import record_group


def test_shipped_environments_are_listed_with_variants_and_threshold() -> None:
    rows = {row.id: row for row in environments.list_environments().environments}
    assert {"CartPole-v1", "LunarLander-v3", "Taxi-v3"} <= set(rows)
    assert "ppo" in rows["CartPole-v1"].variants
    assert rows["CartPole-v1"].threshold == 475
    assert rows["CartPole-v1"].source == "shipped"


def test_the_list_can_be_narrowed_and_says_when_nothing_fits() -> None:
    assert [row.id for row in environments.list_environments("lander").environments] == ["LunarLander-v3", "LunarLanderContinuous-v3"]
    assert [row.id for row in environments.list_environments("pong").environments] == ["ALE/Pong-v5"]
    with pytest.raises(NotFound, match="rlclinic train Doom"):
        environments.list_environments("Doom")


def test_a_users_file_is_listed_with_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "config" / "environments"
    folder.mkdir(parents=True)
    text = """
spec: {threshold: 1}
# measured: 9 of 10 seeds in 31k steps
ppo: {env: {id: Mine-v0}, algo: {name: ppo}}
a2c:
  # measured: 2 of 10 seeds
  env: {id: Mine-v0}
  algo: {name: a2c}
"""
    (folder / "Mine-v0.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    row = environments.list_environments("Mine").environments[0]
    assert row.measured == {"ppo": "9 of 10 seeds in 31k steps", "a2c": "2 of 10 seeds"}
    assert row.source == "config/environments/Mine-v0.yaml"


def test_an_adopted_variant_has_the_threshold_of_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`envs` showed none for what a trial had just been adopted as."""
    folder = tmp_path / "config" / "environments"
    folder.mkdir(parents=True)
    (folder / "CartPole-v1.yaml").write_text("mine: {env: {id: CartPole-v1}, algo: {name: ppo}}\n")
    monkeypatch.chdir(tmp_path)
    own, shipped = (row for row in environments.list_environments("CartPole-v1").environments if row.id == "CartPole-v1")
    assert (own.variants, own.threshold, shipped.threshold) == (["mine"], 475, 475)


def test_a_file_that_cannot_be_read_is_listed_with_its_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config" / "environments").mkdir(parents=True)
    (tmp_path / "config" / "environments" / "Bad-v0.yaml").write_text("spec: [")
    monkeypatch.chdir(tmp_path)
    assert environments.list_environments("Bad").environments[0].problem


def test_a_config_is_shown_whole_with_origins_and_what_follows() -> None:
    view = environments.show_config("CartPole-v1:ppo_zoo", ["gamma=0.9"])
    assert view.config["algo"]["gamma"] == 0.9
    assert view.origins["algo.gamma"] == "--set"
    assert view.origins["algo.n_steps"].startswith("CartPole-v1.yaml:")
    assert view.origins["net.value_gain"] == "default"
    assert view.derived["rollout_size"] == 256


def test_a_stored_config_is_shown_by_the_name_of_its_run_or_group(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(3,), changes=["gamma=0.5", "run.max_env_steps=10240"])
    for name in (group.id, f"{group.id}-s3", "@last"):
        assert environments.show_config(name, [], tmp_path).config["algo"]["gamma"] == 0.5
    with pytest.raises(ConfigError, match="gamma"):
        environments.show_config(group.id, ["gamma=7"], tmp_path)
    with pytest.raises(NotFound):
        environments.show_config("@last", [], tmp_path / "empty")


def test_a_shell_is_offered_environments_and_then_variants() -> None:
    assert environments.complete_reference("Lunar")[0] == "LunarLander-v3"
    assert "CartPole-v1:ppo_zoo" in environments.complete_reference("CartPole-v1:ppo")
    assert environments.complete_reference("nothing") == []
