"""What is said of a group's task over HTTP: exploration, the balance of its reward's terms, and its curriculum."""

import csv
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from rlclinic.config import Config
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from tests.serve.http.conftest import Serve

NAMES = ("train/terms/goal/return", "train/terms/help/return", "train/terms/goal/share", "train/terms/help/share", "train/info/far/last")
STAGES = [{"name": name, "env": {"size": size}} for name, size in (("small", 5), ("large", 9))]


def write(root: Path, **curriculum: Any) -> Group:
    """A run whose larger term rises while what is wanted falls."""
    group = Store(root).create_group([Config.model_validate({"env": {"id": "Maze-v0"}, **curriculum})])
    with (group.runs[0].path / "metrics.csv").open("w", newline="") as file:
        rows = [(1_000 * step, 1.0, 5.0 + step, 0.2, 0.8, 40.0 - step) for step in range(1, 40)]
        csv.writer(file).writerows([("total_timesteps", *NAMES), *rows])
    return group


def test_a_group_is_asked_whether_exploration_holds_it_back(client: TestClient, sick: Group) -> None:
    report = client.get(f"/api/v1/groups/{sick.id}/exploration").json()
    assert report["verdict"] in ("BOTTLENECK", "NOT", "NOT ASSESSABLE")
    assert [run["run"] for run in report["runs"]] == [run.id for run in sick.runs]


def test_terms_are_weighed_beside_the_column_that_is_asked_for(serve: Serve, root: Path) -> None:
    at = f"/api/v1/groups/{write(root).id}/reward-balance"
    client = serve()
    plain, beside = client.get(at).json(), client.get(at, params={"truth": "train/info/far/last"}).json()
    assert (plain["truth"], beside["truth"]) == (None, "train/info/far/last")
    assert beside["verdict"] == "AGAINST THE TASK"
    assert plain["verdict"] != beside["verdict"]
    wrong = client.get(at, params={"truth": "train/info/fur/last"})
    assert wrong.status_code == 400
    assert "train/info/far/last" in wrong.text


def test_a_curriculum_is_shown_and_a_group_without_one_is_refused_in_words(serve: Serve, root: Path) -> None:
    with_stages, without = write(root, curriculum={"stages": STAGES}), write(root)
    client = serve()
    assert client.get(f"/api/v1/groups/{with_stages.id}/curriculum").json()["tasks"] == ["small", "large"]
    refused = client.get(f"/api/v1/groups/{without.id}/curriculum")
    assert refused.status_code == 400
    assert "without a curriculum" in refused.text
