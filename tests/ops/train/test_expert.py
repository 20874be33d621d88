"""Who may be named as an expert, by whom, and how many questions are asked for."""

from pathlib import Path
from typing import Any

import pytest

from rlclinic import trust
from rlclinic.config import Config, load, set_values
from rlclinic.errors import NotFound, RlclinicError, Untrusted, UsageError
from rlclinic.ops.train.plan import plan_training
from rlclinic.ops.train.profile import profile
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import blind_search


@pytest.fixture(autouse=True)
def _nothing_is_approved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(trust.TRUST, raising=False)
    monkeypatch.setenv(trust.STATE, str(tmp_path / "state"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    path = tmp_path / "project" / "expert.py"
    path.write_text("def act(obs):\n    return [0.0]\n")
    return path


def plan(tmp_path: Path, **fields: Any) -> Config:
    asked = TrainRequest(ref="Pendulum-v1:dagger", runs_dir=tmp_path / "runs", **fields)
    return plan_training(asked).configs[0]


def test_whoever_types_a_name_approves_it(tmp_path: Path, file: Path) -> None:
    config = plan(tmp_path, expert=f"{file}:act", queries="4x50")
    assert config.algo.expert == f"{file}:act"  # type: ignore[union-attr]
    assert (config.algo.train_freq, config.algo.max_queries) == (50, 200)  # type: ignore[union-attr]
    assert (config.env.n_envs, config.run.max_env_steps, config.run.eval_every_env_steps) == (1, 200, 50)
    assert trust.may_run(f"{file}:act")


def test_a_run_that_names_code_is_only_a_claim(tmp_path: Path, file: Path) -> None:
    config = Config.model_validate({"env": {"id": "Pendulum-v1"}, "algo": {"name": "dagger", "expert": f"{file}:act"}})
    group = Store(tmp_path / "runs").create_group([config])
    for request in (TrainRequest(ref=group.id, runs_dir=tmp_path / "runs"),):
        with pytest.raises(Untrusted):
            plan_training(request)


@pytest.mark.parametrize("expert", ["command: touch owned", "{outside}:act"])
def test_a_caller_of_a_server_chooses_no_command_and_no_code_outside_of_its_folders(expert: str, tmp_path: Path, file: Path) -> None:
    outside = tmp_path / "elsewhere.py"
    outside.write_text(file.read_text())
    limits = trust.Limits(folders=(file.parent,))
    with trust.limited(limits), pytest.raises(Untrusted):
        plan(tmp_path, changes=[f"algo.expert={expert.format(outside=outside)}"])
    with trust.limited(limits):
        assert plan(tmp_path, changes=[f"algo.expert={file}:act"])
    with trust.limited(trust.Limits(run=False)), pytest.raises(Untrusted):
        plan(tmp_path, changes=[f"algo.expert={file}:act"])


def test_without_an_expert_nothing_is_begun(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="asks an expert"):
        plan(tmp_path)
    with pytest.raises(NotFound):
        plan(tmp_path, expert="nobody")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("queries", ["0x5", "8x", "x", "-1", "eight"])
def test_a_number_of_questions_is_a_number(queries: str, tmp_path: Path) -> None:
    with pytest.raises((RlclinicError, ValueError)):
        plan(tmp_path, expert="person", queries=queries)
    assert plan(tmp_path, expert="person", queries="70").algo.max_queries == 70  # type: ignore[union-attr]


def test_an_expert_s_time_is_not_spent_on_a_profile() -> None:
    with pytest.raises(UsageError, match="waits for an expert"):
        profile("Pendulum-v1:dagger")


@pytest.mark.parametrize("at", [0.0, 0.5, 0.99])
def test_what_a_search_tries_are_settings_of_imitation(at: float) -> None:
    config = load("Pendulum-v1:safe_dagger").config
    for setting, place in blind_search.space(config).items():
        set_values(config, [f"{setting}={place(at)}"])
