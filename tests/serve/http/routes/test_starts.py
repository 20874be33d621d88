"""Changing things over HTTP: started once per key, asked to stop, adjusted, noted, removed; each with a line in the audit log."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rlclinic.ops.jobs import start
from rlclinic.ops.jobs.audit import audit_log
from rlclinic.ops.jobs.models import Job, save
from rlclinic.runs import control, lock
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group

API = "/api/v1"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Jobs that would have been handed to a process."""
    found: list[Job] = []

    def spawned(store: Store, job: Job) -> Job:
        import os

        found.append(job)
        return save(store, job.model_copy(update={"pid": os.getpid(), "process_started": lock.started(os.getpid()), "host": lock.HOST}))

    monkeypatch.setattr(start, "_spawn", spawned)
    return found


def test_the_same_key_starts_once(client: TestClient, root: Path, started: list[Job]) -> None:
    body = {"ref": "CartPole-v1:ppo_zoo", "seeds": 2, "max_env_steps": 1_000, "hypothesis": "it learns"}
    first = client.post(f"{API}/trainings", json=body, headers={"idempotency-key": "k1"})
    again = client.post(f"{API}/trainings", json=body, headers={"idempotency-key": "k1"})
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["refers"] == again.json()["refers"]
    assert again.json()["repeated"] is True
    assert first.headers["location"] == f"{API}/jobs/{first.json()['id']}"
    other = client.post(f"{API}/trainings", json={**body, "seeds": 3}, headers={"idempotency-key": "k1"})
    assert other.status_code == 400
    assert len(started) == 1
    assert len(Store(root).groups()) == 2
    lines = audit_log(root).lines
    assert [(line.action, line.face, line.name) for line in lines] == [("start", "http", "local")]


def test_a_started_group_is_listed_at_once(client: TestClient, started: list[Job]) -> None:
    job = client.post(f"{API}/trainings", json={"ref": "CartPole-v1:ppo_zoo", "max_env_steps": 1_000, "name": "mine"}).json()
    page = client.get(f"{API}/groups", params={"q": "mine"}).json()
    assert [item["id"] for item in page["items"]] == [job["refers"]]
    assert client.get(f"{API}/jobs/{job['id']}").json()["refers"] == job["refers"]
    assert client.get(f"{API}/jobs").json()["jobs"][0]["id"] == job["id"]
    assert client.get(f"{API}/ledger").json()["entries"][0]["job"] == job["id"]


def test_a_trial_is_previewed_and_started(client: TestClient, sick: Group, started: list[Job], root: Path) -> None:
    body: dict[str, Any] = {"targets": [sick.id], "changes": ["algo.learning_rate=0.0005"], "looks": 2, "per_look": 4}
    preview = client.post(f"{API}/trials/preview", json=body).json()
    assert preview["control"]
    assert len(Store(root).groups()) == 1
    job = client.post(f"{API}/trials", json=body).json()
    assert job["kind"] == "trial"
    trial = client.get(f"{API}/trials/{job['refers']}").json()
    assert trial["trial"]["id"] == job["refers"]
    assert client.get(f"{API}/trials").json()["trials"][0]["id"] == job["refers"]


def test_a_sensitivity_study_is_previewed_started_and_seen(client: TestClient, sick: Group, started: list[Job], root: Path) -> None:
    body = {"target": sick.id, "only": ["gamma"], "seeds": 2, "factors": [2]}
    preview = client.post(f"{API}/studies/sensitivity/preview", json=body).json()
    assert preview["runs"] == 3 * 2
    assert not (root / "@sensitivity").exists()
    job = client.post(f"{API}/studies/sensitivity", json=body).json()
    assert job["kind"] == "sensitivity"
    found = client.get(f"{API}/studies/sensitivity/{job['refers']}").json()
    assert (found["study"]["id"], found["job"]["id"], found["progress"]["kind"]) == (job["refers"], job["id"], "sensitivity")
    assert [row["id"] for row in client.get(f"{API}/studies").json()["studies"]] == [job["refers"]]


def test_a_race_is_previewed_started_listed_and_seen(client: TestClient, sick: Group, started: list[Job], root: Path) -> None:
    body = {"targets": [sick.id], "changes": ["algo.gamma=0.9,0.95,0.99"], "rounds": 2, "per_round": 4}
    preview = client.post(f"{API}/races/preview", json=body).json()
    assert list(preview["arms"]) == ["gamma-0.9", "gamma-0.95", "gamma-0.99"]
    assert not (root / "@race").exists()
    job = client.post(f"{API}/races", json=body).json()
    assert job["kind"] == "race"
    view = client.get(f"{API}/races/{job['refers']}").json()
    assert (view["race"]["id"], view["job"]["id"], view["progress"]["kind"]) == (job["refers"], job["id"], "race")
    assert [row["id"] for row in client.get(f"{API}/races").json()["races"]] == [job["refers"]]
    assert client.post(f"{API}/races", json={**body, "command": "rm -rf /"}).status_code == 422
    assert client.post(f"{API}/races", json={**body, "targets": ["../x"]}).status_code in (400, 404)


def test_what_waits_its_turn_is_listed_as_queued(client: TestClient, sick: Group, started: list[Job], root: Path) -> None:
    study = client.post(f"{API}/studies/sensitivity", json={"target": sick.id, "only": ["gamma"], "seeds": 2}).json()
    trial = client.post(f"{API}/trials", json={"targets": [sick.id], "changes": ["algo.learning_rate=0.0005"]}).json()
    states = [client.get(f"{API}/{kind}").json()[kind][0]["state"] for kind in ("studies", "trials")]
    assert states == ["running", "running"]
    for job in started:
        save(Store(root), Job(**client.get(f"{API}/jobs/{job.id}").json()).model_copy(update={"state": "queued"}))
    states = [client.get(f"{API}/{kind}").json()[kind][0]["state"] for kind in ("studies", "trials")]
    assert states == ["queued", "queued"]
    assert {study["kind"], trial["kind"]} == {"sensitivity", "trial"}


def test_an_environment_is_looked_at_by_its_id_only(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlclinic.ops.diagnose import examine_env

    asked: list[str] = []
    monkeypatch.setattr(examine_env, "facts_of", lambda env, *_: asked.append(env) or {"name": env, "phase": "starting", "skipped": {}})
    for env in ("antigravity:Flying-v0", "mine.py:Env", "../x", "probe:1", "NoSuch-v9"):
        answer = client.post(f"{API}/environments/examine", json={"env": env})
        assert answer.status_code in (400, 404), (env, answer.text)
    assert not asked
    assert client.post(f"{API}/environments/examine", json={"env": "CartPole-v1"}).status_code == 200
    assert asked == ["CartPole-v1"]


def test_a_group_is_diagnosed_with_its_environment_by_an_id_only(client: TestClient, sick: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlclinic.ops.diagnose import run_environments

    asked: list[str] = []
    breach = {"kind": "raises", "text": "step 3 raised", "count": 1, "numbers": {}}
    facts = {"name": "CartPole-v1", "phase": "finished", "skipped": {}, "limit": 20.0, "done": [], "breaches": [breach]}
    monkeypatch.setattr(run_environments, "facts_of", lambda env, *_, **__: asked.append(env) or facts)
    for body in ({"env": "antigravity:Flying-v0"}, {"env": "mine.py:Env"}, {"env": "../x"}, {"eval_env": "mine.py:Env"}):
        answer = client.post(f"{API}/groups/{sick.id}/diagnosis", json=body)
        assert answer.status_code in (400, 404), (body, answer.text)
    assert not asked
    seen = client.post(f"{API}/groups/{sick.id}/diagnosis", json={}).json()["diagnosis"]["witness"]["seen"]
    assert seen == ["step 3 raised"]
    assert asked == ["trained"]


def test_the_page_looks_at_a_groups_own_environment_as_the_command_does(
    client: TestClient, sick: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where its code is what was trained and approved, which `look_at_own` knows: the CartPole of this group is nobody's own."""
    from rlclinic.ops.diagnose import run_environments

    monkeypatch.setattr(run_environments, "facts_of", lambda *_, **__: pytest.fail("nobody's own environment was run"))
    plain = client.post(f"{API}/groups/{sick.id}/diagnosis", json={"env": "own"}).json()["diagnosis"]
    assert plain["causes"][0]["id"] == client.get(f"{API}/groups/{sick.id}/diagnosis").json()["diagnosis"]["causes"][0]["id"]
    breach = {"kind": "raises", "text": "step 3 raised", "count": 1, "numbers": {}}
    facts = {"name": "mine", "phase": "finished", "skipped": {}, "limit": 20.0, "done": [], "breaches": [breach]}
    monkeypatch.setattr(run_environments, "look_at_own", lambda owner: run_environments._judge(facts))
    seen = client.post(f"{API}/groups/{sick.id}/diagnosis", json={"env": "own"}).json()["diagnosis"]["witness"]["seen"]
    assert seen == ["step 3 raised"]


def test_a_search_is_started(client: TestClient, sick: Group, started: list[Job]) -> None:
    job = client.post(f"{API}/studies/optimize", json={"target": sick.id, "budget": 400_000}).json()
    assert job["kind"] == "optimize"
    assert client.get(f"{API}/studies").json()["studies"][0]["id"] == job["refers"]
    assert client.get(f"{API}/studies/optimize/{job['refers']}").json()["ledger"]["id"] == job["refers"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 400, "something to train"),
        ({"ref": "CartPole-v1:ppo", "changes": ["algo.learning_rat=1"]}, 422, "learning_rate"),
        ({"ref": "CartPole-v1:nosuch"}, 404, "nosuch"),
        ({"ref": "CartPole-v1:ppo", "seeds": 0}, 422, "seeds"),
        ({"ref": "CartPole-v1:ppo", "detach": True}, 422, "detach"),
        ({"resume": "nosuch"}, 404, "nosuch"),
    ],
)
def test_a_start_that_cannot_be_is_refused_with_what_to_type(client: TestClient, body: dict[str, Any], status: int, says: str) -> None:
    answer = client.post(f"{API}/trainings", json=body)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["detail"]


def test_a_live_run_is_asked_to_stop_and_to_change_a_number(client: TestClient, root: Path) -> None:
    group = record_group(root, state="running", share_done=0.5)
    run = group.runs[0]
    adjusted = client.post(f"{API}/runs/{run.id}/adjust", json={"changes": ["algo.ent_coef=0.02"]}).json()
    assert adjusted["changes"] == {"algo.ent_coef": 0.02}
    stopped = client.post(f"{API}/groups/{group.id}/stop").json()
    assert stopped["runs"] == [run.id for run in group.runs]
    assert control.pending(run.path) == {"set": {"algo.ent_coef": 0.02}, "stop": True}
    assert [line.action for line in audit_log(root).lines] == ["stop", "adjust"]
    refused = client.post(f"{API}/runs/{run.id}/adjust", json={"changes": ["env.n_envs=4"]})
    assert refused.status_code == 422


def test_what_has_ended_cannot_be_stopped(client: TestClient, sick: Group) -> None:
    answer = client.post(f"{API}/groups/{sick.id}/stop")
    assert answer.status_code == 404
    assert "none of these runs is training" in answer.json()["detail"]


def test_tags_and_notes_are_kept_in_the_folder_and_found_by_a_search(client: TestClient, sick: Group) -> None:
    client.put(f"{API}/runs/{sick.runs[0].id}/notes", json={"tags": ["odd", "odd", "best"]})
    client.put(f"{API}/runs/{sick.runs[0].id}/notes", json={"note": "look at step 5k"})
    kept = json.loads((sick.runs[0].path / "notes.json").read_text())
    assert kept == {"tags": ["best", "odd"], "note": "look at step 5k"}
    found = client.get(f"{API}/runs", params={"q": "5k", "tag": "odd"}).json()["items"]
    assert [(item["id"], item["tags"]) for item in found] == [(sick.runs[0].id, ["best", "odd"])]


def test_a_run_is_removed_only_when_nobody_writes_it(client: TestClient, sick: Group, root: Path) -> None:
    held = lock.Lock(sick.runs[0].path)
    assert client.delete(f"{API}/runs/{sick.runs[0].id}").status_code == 409
    held.release()
    assert client.delete(f"{API}/runs/{sick.runs[0].id}", params={"dry_run": True}).json()["deleted"] is False
    assert client.delete(f"{API}/runs/{sick.runs[0].id}").json()["deleted"] is True
    assert client.get(f"{API}/runs").json()["total"] == 2
    assert client.get(f"{API}/groups").json()["items"][0]["runs"] == 2


def test_a_trial_that_has_no_verdict_is_not_adopted(client: TestClient, sick: Group, started: list[Job]) -> None:
    job = client.post(
        f"{API}/trials", json={"targets": [sick.id], "changes": ["algo.learning_rate=0.0005"], "per_look": 2, "looks": 1}
    ).json()
    answer = client.post(f"{API}/trials/{job['refers']}/adopt", json={"ref": "CartPole-v1:mine"})
    assert answer.status_code == 400
    assert "has not ended" in answer.json()["detail"]


def test_a_gate_is_started_looked_at_and_reads_no_file_of_this_machine(client: TestClient, sick: Group, started: list[Job]) -> None:
    body = {"baseline": sick.id, "candidate": "CartPole-v1:ppo_zoo", "looks": 2, "per_look": 2, "changes": ["run.max_env_steps=1000"]}
    first = client.post(f"{API}/regressions", json=body, headers={"idempotency-key": "k1"})
    assert (first.status_code, first.json()["kind"]) == (202, "regress")
    assert client.post(f"{API}/regressions", json=body, headers={"idempotency-key": "k1"}).status_code == 200
    view = client.get(f"{API}/regressions/{first.json()['refers']}").json()
    assert (view["gate"]["baseline"], view["gate"]["state"], view["job"]["id"]) == (sick.id, "running", first.json()["id"])
    for odd in (
        {"baseline": "/etc/passwd.json"},
        {"baseline": "base.json"},
        {"candidate": "/etc/x.yaml"},
        {"candidate": "git:HEAD:x.yaml"},
    ):
        assert client.post(f"{API}/regressions", json={**body, **odd}).status_code in (400, 404, 422), odd
    assert client.post(f"{API}/regressions", json={"candidate": "CartPole-v1:ppo_zoo"}).status_code == 422
    assert len(started) == 1
