"""Agents, and tokens for one's own work, stop, change and remove what they have started, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rlclinic.errors import UsageError
from rlclinic.ops.jobs import audited, budget, start
from rlclinic.ops.jobs.audit import Caller, audit_log
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat.requests import TrialRequest
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.mcp.settings import AGENT, agent_for_all
from tests.ops.jobs.test_start import Processes, processes  # noqa: F401 — a fixture
from tests.ops.recorded import record_group
from tests.serve.http.conftest import Serve, root, serve  # noqa: F401 — fixtures

API = "/api/v1"
PERSON = Caller(face="http", name="token:alice")
OTHER = Caller(face="mcp", name="token:bob", budgeted=True, own_only=True)


@pytest.fixture
def typed(root: Path) -> Group:  # noqa: F811
    """A group that a person trains at a terminal."""
    budget.set_budget(root, env_steps=10_000_000)
    return record_group(root, state="running", share_done=0.5)


def begin(root: Path, by: Caller, **more: Any) -> str:  # noqa: F811
    job = start.start_training(TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=1, runs_dir=root, **more), by=by)
    return str(job.refers)


@pytest.mark.parametrize("by", [AGENT, OTHER])
def test_an_agent_neither_stops_nor_adjusts_what_a_person_typed(root: Path, typed: Group, by: Caller) -> None:  # noqa: F811
    for name in (typed.id, typed.runs[0].id, "@running", f"{typed.runs[0].id}"):
        with pytest.raises(UsageError, match="started by a person at a terminal"):
            audited.stop_training(name, root, by=by)
        with pytest.raises(UsageError, match="acts only on what it has started itself"):
            audited.adjust_run(name, ["algo.ent_coef=0.5"], root, by=by)
    assert not (typed.runs[0].path / "control.json").exists()
    assert audit_log(root).total == 1  # the budget


def test_an_agent_acts_on_its_own_and_not_on_that_of_another(root: Path, typed: Group, processes: Processes) -> None:  # noqa: F811
    mine, theirs, hers = begin(root, AGENT), begin(root, OTHER, seed=10), begin(root, PERSON, seed=20)
    for name, whose in ((theirs, "mcp:token:bob"), (hers, "http:token:alice")):
        with pytest.raises(UsageError, match=whose):
            audited.adjust_run(name, ["algo.ent_coef=0.5"], root, by=AGENT)
        with pytest.raises(UsageError, match=whose):
            audited.adjust_run(Store(root).group(name).runs[0].id, ["algo.ent_coef=0.5"], root, by=AGENT)
    assert audited.adjust_run(mine, ["algo.ent_coef=0.5"], root, by=AGENT).runs
    assert audited.adjust_run(hers, ["algo.ent_coef=0.5"], root, by=PERSON).runs


def test_an_agent_does_not_go_on_with_what_a_person_began(root: Path, typed: Group, processes: Processes) -> None:  # noqa: F811
    stopped = record_group(root, state="stopped", share_done=0.5)
    with pytest.raises(UsageError, match="started by a person"):
        start.start_training(TrainRequest(resume=stopped.id, runs_dir=root), by=AGENT)
    trial = start.start_trial(
        TrialRequest(targets=["CartPole-v1:ppo_zoo"], changes=["algo.gamma=0.9"], max_env_steps=2_000, runs_dir=root), by=PERSON
    )
    for asked in ({"resume": str(trial.refers)}, {"extend": str(trial.refers), "seeds": 8}):
        with pytest.raises(UsageError, match="started by http:token:alice"):
            start.start_trial(TrialRequest(**asked, runs_dir=root), by=AGENT)


def test_a_person_can_let_agents(root: Path, typed: Group) -> None:  # noqa: F811
    assert audited.adjust_run(typed.id, ["algo.ent_coef=0.5"], root, by=agent_for_all(None)).runs


def test_a_token_for_its_own_work_removes_and_stops_nothing_else(
    root: Path,  # noqa: F811
    serve: Serve,  # noqa: F811
    processes: Processes,  # noqa: F811
) -> None:
    others = record_group(root)
    client: TestClient = serve(require_token=True)
    tokens = client.app.state.context.tokens  # type: ignore[attr-defined]
    own, other = ({"authorization": f"Bearer {tokens.add(name, 'own').token}"} for name in ("carol", "dave"))
    made = client.post(f"{API}/trainings", json={"ref": "CartPole-v1:ppo_zoo", "seeds": 1, "max_env_steps": 2_000}, headers=own)
    assert made.status_code == 202, made.text
    group = made.json()["refers"]
    for name, who in ((others.id, own), (group, other)):
        assert client.delete(f"{API}/groups/{name}", headers=who).status_code == 400
        assert client.post(f"{API}/groups/{name}/stop", headers=who).status_code == 400
        assert client.put(f"{API}/groups/{name}/notes", json={"note": "mine now"}, headers=who).status_code == 400
        assert client.post(f"{API}/groups/{name}/adjust", json={"changes": ["algo.ent_coef=0.5"]}, headers=who).status_code == 400
    assert client.put(f"{API}/groups/{group}/notes", json={"note": "mine"}, headers=own).status_code == 200
    assert client.get(f"{API}/groups/{others.id}", headers=own).status_code == 200
    assert client.post(f"{API}/jobs/{made.json()['id']}/stop", headers=other).status_code == 400
    assert audit_log(root).lines[0].name == "token:carol"
