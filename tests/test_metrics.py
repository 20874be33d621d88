import pytest

from rlclinic import metrics, references
from rlclinic.config import ALGORITHMS, Config

TERM_COLUMNS = ("return", "share", "advantage")
"""What is written of every term: explained by what terms have in common."""


def written_columns() -> set[str]:
    """Every column that training can write, whatever the algorithm; with clipped rewards, a bonus, a curriculum, and online."""
    rows = pytest.importorskip("rlclinic.training.rows", reason="needs torch")
    configs = [Config.model_validate({"env": {"id": "CartPole-v1", "clip_raw_reward": 1}, "algo": {"name": name}}) for name in ALGORITHMS]
    configs.append(Config.model_validate({"env": {"id": "CartPole-v1"}, "bonus": {"kind": "count"}, "cost": {"limit": 1}}))
    terms = {"id": "my_env:Env", "log_terms": ["goal"], "term_advantages": True}
    of_terms = set(rows.columns(Config.model_validate({"env": terms}))) - {f"train/terms/goal/{name}" for name in TERM_COLUMNS}
    stages = [{"name": name, "env": {"sutton_barto_reward": own}} for name, own in (("one", True), ("two", False))]
    sections = [{"env": {"id": "CartPole-v1"}, "curriculum": {"kind": kind, "stages": stages}} for kind in ("stages", "uniform")]
    configs += [Config.model_validate(section) for section in sections]
    online = {"env": {"id": "Pendulum-v1"}, "algo": {"name": "rlpd"}, "data": {"path": "somewhere", "then_online": True}}
    configs.append(Config.model_validate(online))
    configs.append(Config.model_validate({"env": {"id": "CartPole-v1", "n_envs": 2}, "run": {"data_parallel": 2}}))
    # Those of single stages are explained by what they have in common.
    return of_terms | {column for config in configs for column in rows.columns(config) if "/stage/" not in column}


def test_columns_of_single_stages_are_explained() -> None:
    for name in ("train/stage/2/success_rate", "train/stage/1/episodes", "val/stage/12/success_rate"):
        found = metrics.find(name)
        assert found is not None
        assert f"stage {name.split('/')[2]} " in found.meaning


def test_columns_of_single_terms_are_explained() -> None:
    for column in TERM_COLUMNS:
        found = metrics.find(f"train/terms/goal/{column}")
        assert found is not None
        assert "goal" in found.meaning


def test_every_column_that_training_writes_is_explained() -> None:
    assert sorted(written_columns() - metrics.METRICS.keys()) == []


def test_nothing_is_explained_that_training_never_writes() -> None:
    assert sorted(metrics.METRICS.keys() - written_columns()) == []


def test_an_entry_is_complete() -> None:
    for name, metric in metrics.METRICS.items():
        assert metric.meaning.endswith("."), name
        assert metric.unit, name
        assert metric.estimator, name
        if metric.band is not None:
            assert metric.band.low <= metric.band.high, name
            assert metric.band.source == "definition" or metric.band.source in references.REFERENCES, name


def test_columns_that_depend_on_the_clock_start_with_time_and_no_others_do() -> None:
    assert {metric.name for metric in metrics.METRICS.values() if metric.clocked} == {
        name for name, metric in metrics.METRICS.items() if metric.unit in ("s", "unix s", "env steps/s")
    } | {"time/actors_replaced", "time/ranks_slowest", "time/ranks_slowest_ratio"}


def test_a_metric_is_found_by_its_canonical_name_only() -> None:
    found = metrics.find("train/metrics/kl_divergence")
    assert found is not None
    assert found.unit == "nats"
    assert metrics.find("train/metrics/kl") is None
