"""Aim's store, by a stand-in of Aim's package that answers as the real one does; what that one said of a real store is recorded."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlclinic import readers
from rlclinic.diagnosis import engine
from rlclinic.errors import UsageError


def metric(name: str, values: Any, **context: str) -> Any:
    return stand_in(name, context, np.arange(len(values)) * 1_000, values, np.random.default_rng(0).integers(2**62, size=len(values)))


def stand_in(name: str, context: dict[str, str], steps: Any, values: Any, hashes: Any) -> Any:
    """A metric as Aim gives it: its rows by step, and its values by hashes of steps, which are in no order."""
    order = np.argsort(hashes)
    by_hash = np.asarray(hashes)[order], np.asarray(values, float)[order]
    by_step = list(steps), [list(values), [None] * len(values), [0.0] * len(values)]
    return SimpleNamespace(
        name=name,
        context=SimpleNamespace(to_dict=lambda: context),
        values=SimpleNamespace(sparse_numpy=lambda: by_hash),
        data=SimpleNamespace(items_list=lambda: by_step),
    )


def run(name: str, *metrics: Any, active: bool = False, **attributes: Any) -> Any:
    tree = SimpleNamespace(collect=lambda: attributes)
    return SimpleNamespace(name=name, hash=f"{name}-hash", active=active, meta_run_attrs_tree=tree, metrics=lambda: iter(metrics))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The runs that Aim would give for the store in tmp_path."""
    runs: list[Any] = []

    class Repo:
        def __init__(self, path: str) -> None:
            assert Path(path) == tmp_path

        def iter_runs(self) -> Iterator[Any]:
            return iter(run for run in runs if run != "not indexed")

        def list_all_runs(self) -> list[Any]:
            return runs

    (tmp_path / ".aim").mkdir()
    module = SimpleNamespace(Repo=Repo, __spec__=SimpleNamespace(name="aim"))
    monkeypatch.setitem(sys.modules, "aim", module)
    return runs


@pytest.mark.parametrize("below", ["", ".aim"])
def test_runs_are_read_with_their_settings(store: list[Any], tmp_path: Path, below: str) -> None:
    returns = metric("rollout/ep_rew_mean", np.linspace(10, 400, 30))
    store += [
        run(
            "ppo",
            returns,
            metric("train/loss", np.ones(30)),
            metric("__system__cpu", np.ones(30)),
            hparams={"learning_rate": 3e-4, "gamma": 0.99},
        ),
        run("empty", metric("__system__cpu", np.ones(30))),
    ]
    (found,) = readers.read(tmp_path / below)
    assert (found.id, found.state) == ("ppo", "finished")
    assert found.series["train/roll/ep_rew_mean"].values[-1] == 400
    assert (found.settings["algo.learning_rate"], found.settings["algo.gamma"]) == (3e-4, 0.99)
    assert not any("system" in name for name in found.series)


def test_what_aim_says_of_a_real_store_is_read_and_its_fault_is_found(store: list[Any], tmp_path: Path, samples: Path) -> None:
    for one in json.loads((samples / "aim" / "answers.json").read_text("utf-8")):
        metrics = [stand_in(*(told[key] for key in ("name", "context", "steps", "values", "hashes"))) for told in one["metrics"]]
        store.append(run(one["name"], *metrics, active=one["active"], **one["attributes"]))
    found = {history.id: history for history in readers.read(tmp_path)}
    assert set(found) == {"healthy", "rate"}
    assert found["rate"]["train/roll/ep_rew_mean"].steps[:3].tolist() == [1_024, 2_048, 3_072]
    assert (found["rate"].env_id, found["rate"].settings["algo.learning_rate"], found["rate"].settings["env.n_envs"]) == (
        "CartPole-v1",
        0.1,
        8,
    )
    assert not any("began again" in note for history in found.values() for note in history.notes)
    assert engine.diagnose([found["rate"]]).causes[0].id == "learning-rate-too-high"
    assert engine.diagnose([found["healthy"]]).causes[0].id != "learning-rate-too-high"


def test_what_aim_raises_and_what_it_does_not_know_is_said(store: list[Any], tmp_path: Path) -> None:
    store.append("not indexed")
    with pytest.raises(UsageError, match="1 runs that are not in its index"):
        readers.read(tmp_path)
    store.clear()
    store.append(run("nothing", metric("__system__cpu", np.ones(3))))
    with pytest.raises(UsageError, match="no run in it has a metric that is known"):
        readers.read(tmp_path)
    store[0].metrics = lambda: 1 / 0
    with pytest.raises(UsageError, match="Aim cannot read it: ZeroDivisionError"):
        readers.read(tmp_path)


def test_without_aim_other_logs_beside_the_store_are_read_and_the_store_says_what_to_type(tmp_path: Path) -> None:
    (tmp_path / ".aim").mkdir()
    with pytest.raises(UsageError, match="pip install aim"):
        readers.read(tmp_path)
    rows = "".join(f"{1000 * place},{10.0 * place}\n" for place in range(30))
    (tmp_path / "log.csv").write_text(f"step,episode_return\n{rows}")
    assert len(readers.read(tmp_path)) == 1
