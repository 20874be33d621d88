"""Looking at runs and groups over HTTP: the same answers as the operations give, lean, cached and paged."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.diagnose.write_reports import get_group_report
from rlclinic.runs.database.index import Index
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http import cache
from tests.ops.recorded import record_group, rising
from tests.serve.http.conftest import Serve

API = "/api/v1"


def test_a_list_of_runs_shows_what_lists_show(client: TestClient, sick: Group) -> None:
    page = client.get(f"{API}/runs").json()
    assert page["total"] == 3
    assert {item["id"] for item in page["items"]} == {run.id for run in sick.runs}
    assert page["items"][0]["env"] == "CartPole-v1"
    assert page["items"][0]["state"] == "finished"


def test_pages_follow_each_other_without_gap_or_repetition(client: TestClient, root: Path) -> None:
    for _ in range(3):
        record_group(root)
    client.app.state.context.watch.look()  # type: ignore[attr-defined]
    seen: list[str] = []
    cursor = None
    while True:
        page = client.get(f"{API}/runs", params={"limit": 5, "sort": "best_eval", **({"cursor": cursor} if cursor else {})}).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == page["total"] == 12
    assert len(set(seen)) == 12


def test_groups_are_found_by_words_state_environment_and_tag(client: TestClient, sick: Group, root: Path) -> None:
    other = record_group(root, returns=rising, state="failed", reason="out of memory")
    client.put(f"{API}/groups/{other.id}/notes", json={"tags": ["baseline"], "note": "with Zebra"})

    def found(**query: str) -> list[str]:
        return [item["id"] for item in client.get(f"{API}/groups", params=query).json()["items"]]

    assert found(q="zebra cartpole") == [other.id]
    assert found(tag="baseline") == [other.id]
    assert found(state="finished") == [sick.id]
    assert found(env="CartPole-v1") == [other.id, sick.id]
    assert found(env="CartPole-v1", sort="best_eval", descending="false") == [sick.id, other.id]
    assert found(q="100%") == []
    assert client.get(f"{API}/facets").json()["tags"] == {"baseline": 1}


def test_a_run_comes_with_its_config_origins_and_checkpoints(client: TestClient, sick: Group) -> None:
    run = client.get(f"{API}/runs/{sick.runs[0].id}").json()
    assert run["config"]["algo"]["name"] == "ppo"
    assert [checkpoint["step"] for checkpoint in run["checkpoints"]] == [10_240]
    assert run["state"] == "finished"


def test_columns_are_bucketed_so_that_a_spike_of_one_row_survives(client: TestClient, sick: Group) -> None:
    path = sick.runs[0].path / "metrics.csv"
    lines = path.read_text().splitlines()
    spiked = lines[4].split(",")
    spiked[lines[0].split(",").index("train/metrics/kl_divergence")] = "7.5"
    path.write_text("\n".join([*lines[:4], ",".join(spiked), *lines[5:]]) + "\n")
    found = client.get(f"{API}/runs/{sick.runs[0].id}/metrics", params={"names": ["kl"], "points": 3}).json()
    column = found["columns"]["train/metrics/kl_divergence"]
    assert len(found["steps"]) == len(found["seconds"]) == len(column["mean"]) == 3
    assert max(column["max"]) == 7.5
    assert min(column["min"]) == 0.01


def test_only_rows_after_a_step_are_sent_when_asked_for(client: TestClient, sick: Group) -> None:
    whole = client.get(f"{API}/runs/{sick.runs[0].id}/metrics").json()
    later = client.get(f"{API}/runs/{sick.runs[0].id}/metrics", params={"since": whole["steps"][6]}).json()
    assert later["steps"] == whole["steps"][7:]
    assert later["columns"]["train/roll/ep_rew_mean"]["min"] is None
    none = client.get(f"{API}/runs/{sick.runs[0].id}/metrics", params={"since": whole["last_step"]}).json()
    assert none["rows"] == 0


def test_a_groups_report_and_diagnosis_are_those_of_the_operations(client: TestClient, sick: Group, root: Path) -> None:
    report = client.get(f"{API}/groups/{sick.id}").json()["report"]
    assert report == json.loads(get_group_report(sick.id, root).model_dump_json())
    found = client.get(f"{API}/groups/{sick.id}/diagnosis").json()
    examined = diagnose.examine_group(Group(sick.path))
    assert examined is not None
    assert found["diagnosis"] == json.loads(examined.diagnosis.model_dump_json())


def test_an_unchanged_answer_is_not_sent_twice_and_a_changed_one_is(client: TestClient, sick: Group, root: Path) -> None:
    first = client.get(f"{API}/groups/{sick.id}/diagnosis")
    known = {"if-none-match": first.headers["etag"]}
    assert client.get(f"{API}/groups/{sick.id}/diagnosis", headers=known).status_code == 304
    with (sick.runs[0].path / "metrics.csv").open("a") as file:
        file.write("1e9,20480,20,900,450,,0.01,0.1,0.9,500,1,5000,0.2,0.7\n")
    again = client.get(f"{API}/groups/{sick.id}/diagnosis", headers=known)
    assert again.status_code == 200
    assert again.headers["etag"] != first.headers["etag"]


def test_a_diagnosis_that_took_long_is_kept_over_a_restart_of_the_server(
    sick: Group, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LONG_SECONDS", 0.0)
    first = serve().get(f"{API}/groups/{sick.id}/diagnosis")
    monkeypatch.setattr(diagnose, "examine", lambda *_: pytest.fail("it was made again"))
    assert serve().get(f"{API}/groups/{sick.id}/diagnosis").content == first.content


def test_the_log_is_read_from_its_end_and_followed_by_bytes(client: TestClient, sick: Group) -> None:
    run = sick.runs[0]
    end = client.get(f"{API}/runs/{run.id}/log").json()
    assert end["lines"][-1].endswith("finished at env step 10240")
    with (run.path / "run.log").open("a") as file:
        file.write("one more\nhalf a li")
    more = client.get(f"{API}/runs/{run.id}/log", params={"after": end["end"]}).json()
    assert more["lines"] == ["one more"]
    before = client.get(f"{API}/runs/{run.id}/log", params={"before": end["start"]}).json()
    assert before["lines"] == []


def test_selectors_work_as_on_the_command_line(client: TestClient, sick: Group) -> None:
    assert client.get(f"{API}/groups/@last").json()["report"]["id"] == sick.id
    assert client.get(f"{API}/groups/{sick.id[:3]}").json()["report"]["id"] == sick.id
    assert client.get(f"{API}/runs/{sick.id}").status_code == 400  # three seeds: which?


def test_groups_are_compared(client: TestClient, sick: Group, root: Path) -> None:
    other = record_group(root, returns=rising)
    found = client.get(f"{API}/compare", params={"of": [sick.id, other.id]}).json()
    assert [side["name"] for side in found["compared"]["sides"]] == [sick.id, other.id]


def test_rules_environments_and_curves_can_be_looked_up(client: TestClient, sick: Group) -> None:
    assert client.get(f"{API}/rules/POL101").json()["rule"]["id"] == "POL101"
    assert client.get(f"{API}/environments", params={"pattern": "cartpole"}).json()["environments"][0]["id"] == "CartPole-v1"
    curves = client.get(f"{API}/curves", params={"of": [sick.id], "names": ["train/metrics/kl_divergence"]}).json()
    assert len(curves["series"][0]["seeds"]) == 3


def test_a_config_is_validated_without_starting_anything(client: TestClient, root: Path) -> None:
    good = client.post(f"{API}/config/validate", json={"ref": "CartPole-v1:ppo", "changes": ["algo.learning_rate=0.5"]}).json()
    assert good["view"]["config"]["algo"]["learning_rate"] == 0.5
    assert good["lint"]["lint"]["findings"]
    bad = client.post(f"{API}/config/validate", json={"ref": "CartPole-v1:ppo", "changes": ["algo.learning_rat=0.5"]})
    assert bad.status_code == 422
    assert "learning_rate" in bad.json()["detail"]
    assert len(Store(root).runs()) == 3


def test_errors_are_problems_that_say_what_to_do(client: TestClient) -> None:
    missing = client.get(f"{API}/runs/nosuch")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    problem = missing.json()
    assert problem["status"] == 404
    assert "'nosuch'" in problem["detail"]
    assert problem["advice"] == ["See what there is: rlclinic runs list"]
    invalid = client.get(f"{API}/runs", params={"limit": 0})
    assert invalid.status_code == 422
    assert "query.limit: must be at least 1" in invalid.json()["detail"], "in our words, not in those of a library"
    assert client.get(f"{API}/nothing").headers["content-type"] == "application/problem+json"


def test_a_run_whose_files_are_damaged_does_not_end_the_list(client: TestClient, sick: Group) -> None:
    (sick.runs[1].path / "config.json").write_text("{not json")
    (sick.runs[2].path / "status.json").write_text('{"state": "\\ud800", "env_steps": 1e400}')
    client.app.state.context.watch.look()  # type: ignore[attr-defined]
    page = client.get(f"{API}/runs").json()
    assert page["total"] == 3
    assert {item["state"] for item in page["items"]} <= {"finished", "failed", "queued"}


def test_rows_and_reports_can_be_taken_away(client: TestClient, sick: Group) -> None:
    rows = client.get(f"{API}/runs/{sick.runs[0].id}/metrics.csv")
    assert rows.text == (sick.runs[0].path / "metrics.csv").read_text()
    (sick.path / "report.html").write_text("<script>alert(1)</script>")
    page = client.get(f"{API}/groups/{sick.id}/files/report.html")
    assert "sandbox" in page.headers["content-security-policy"]
    assert client.get(f"{API}/groups/{sick.id}/files/group.lock").status_code == 404


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(client: TestClient, sick: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OperationalError("insert", {}, Exception("disk is full"))

    monkeypatch.setattr(cache, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(Index, "keep", full)
    monkeypatch.setattr(Index, "answer", full)
    assert client.get(f"{API}/groups/{sick.id}/diagnosis").status_code == 200


def test_whoever_asks_while_an_answer_is_made_waits_for_that_one(client: TestClient, sick: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    examine = diagnose.examine

    def slowly(owner: Group, *rest: Any, **more: Any) -> Any:
        made.append(owner.id)
        time.sleep(0.3)
        return examine(owner, *rest, **more)

    monkeypatch.setattr(diagnose, "examine", slowly)
    with ThreadPoolExecutor(4) as pool:
        answered = list(pool.map(lambda _: client.get(f"{API}/groups/{sick.id}/diagnosis"), range(4)))
    assert len({answer.content for answer in answered}) == 1
    assert made == [sick.id]
