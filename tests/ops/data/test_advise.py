"""Advice on data with known best answers, and on data that nobody can learn from; asked as each face asks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import rlclinic
from rlclinic.datasets import folder, read
from rlclinic.errors import ConfigError, NotFound
from rlclinic.ops.data import advise
from rlclinic.ops.data.collect import collect
from rlclinic.ops.data.requests import AdviseRequest, CollectRequest
from rlclinic.report.models import DataAdvice
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings
from tests.serve.mcp.stores import ran

EXPERT = """
import math

def act(obs):
    cosine, sine, speed = obs
    angle = math.atan2(sine, cosine)
    if abs(angle) < 0.6 and abs(speed) < 4:
        return [-(12 * angle + 3 * speed)]
    return [2 * (5 - speed**2 / 6 - 5 * cosine) * math.copysign(1, speed)]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's folder with datasets of Pendulum: expert, medium, random, mixed."""
    root = tmp_path_factory.mktemp("store") / "runs"
    root.mkdir()
    code = root.parent / "expert.py"
    code.write_text(EXPERT)
    for name, policy, noise in (("expert", f"{code}:act", 0.0), ("medium", f"{code}:act", 0.7), ("random", "random", 0.0)):
        collect(CollectRequest(selector="Pendulum-v1", policy=policy, noise=noise, episodes=40, out=root / name))
    good, bad = read(root / "expert"), read(root / "random")
    episodes = [*(good.episode(place) for place in range(8)), *(bad.episode(place) for place in range(32))]
    folder.write(root / "mixed", episodes, bad.observation_space, bad.action_space, env_id="Pendulum-v1")
    return root


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advise, "PLAY_SECONDS", 0.3)


def ask(data: Path, name: str, **options: Any) -> DataAdvice:
    return advise.advise(AdviseRequest(data=str(data / name), **{"steps": 0, **options}))


def test_a_variant_names_its_environment(data: Path) -> None:
    found = ask(data, "medium", env="Pendulum-v1:sac")
    assert found.env == "Pendulum-v1"
    assert any("Pendulum-v1:" in str(way.command) and ":sac:" not in str(way.command) for way in found.ways)


@pytest.mark.parametrize(
    ("name", "env", "way", "algorithm"),
    [
        ("expert", None, "imitation", "bc"),
        ("mixed", None, "offline", "iql"),
        ("medium", None, "offline", "iql"),
        ("medium", "Pendulum-v1", "hybrid", "iql"),
        ("random", "Pendulum-v1", "online", "sac"),
        ("random", None, "collect", "cql"),
    ],
)
def test_data_whose_best_answer_is_known_gets_it(data: Path, name: str, env: str | None, way: str, algorithm: str) -> None:
    result = ask(data, name, env=env)
    assert (result.verdict, result.ways[0].algorithm) == (way, algorithm)
    assert result.ways[0].command.names == (f"Pendulum-v1:{algorithm}",)
    assert bool(result.lacks) == (way == "collect")
    assert bool(result.settle) == (way != "collect")


def test_numbers_come_from_the_simulator_where_there_is_one(data: Path) -> None:
    result = ask(data, "random", env="Pendulum-v1", budget=1_000)
    assert result.report.trajectory_quality == pytest.approx(0.0, abs=0.3)
    online = next(way for way in result.ways if way.way == "online")
    assert "1,000 are allowed" in online.reasons[0].what
    assert online.points < 0
    assert result.verdict == "collect"


def test_a_copy_is_judged_by_critics_that_also_judge_the_data(data: Path) -> None:
    result = ask(data, "expert", steps=20)
    (judged,) = [reason for way in result.ways for reason in way.reasons if "fitted Q" in reason.what]
    assert "1903.08738" in judged.source
    again = ask(data, "expert", steps=20)
    assert again == result


def test_data_of_another_environment_is_refused_and_a_typo_finds_its_name(data: Path) -> None:
    with pytest.raises(ConfigError, match="observations of shape"):
        ask(data, "expert", env="CartPole-v1")
    with pytest.raises(NotFound, match="Pendulum-v1"):
        ask(data, "expert", env="Pendulun-v1")


def test_damaged_data_is_to_be_repaired_and_nothing_is_trained_on_it(data: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(data / "medium", tmp_path / "d")
    rewards = np.load(tmp_path / "d" / "rewards.npy")
    rewards[7] = np.nan
    np.save(tmp_path / "d" / "rewards.npy", rewards)
    answer = CliRunner().invoke(app, ["advise", "data", str(tmp_path / "d")])
    assert answer.exit_code == 5
    assert "REPAIR" in answer.stdout
    assert "not-finite" in answer.stdout
    assert "train" not in answer.stdout


def test_data_without_rewards_can_only_be_imitated(data: Path, tmp_path: Path) -> None:
    good = read(data / "expert")
    silent = (replace(episode, rewards=np.zeros_like(episode.rewards)) for episode in good)
    folder.write(tmp_path / "silent", silent, good.observation_space, good.action_space, env_id="Pendulum-v1")
    result = ask(tmp_path, "silent")
    assert result.verdict == "imitation"
    assert {way.way for way in result.ways if way.impossible} == {"offline", "hybrid", "online"}
    one = folder.write(tmp_path / "one", [good.episode(0)], good.observation_space, good.action_space)
    assert one.n_episodes == 1
    alone = ask(tmp_path, "one")
    assert alone.verdict == "collect"
    assert "few" in alone.lacks[-1].what


def test_python_http_and_agents_get_the_same_answer(data: Path) -> None:
    from mcp import Client

    from rlclinic.serve.mcp import settings
    from rlclinic.serve.mcp.server import build

    place = str(data / "mixed")
    here = rlclinic.advise_data(place, steps=0, runs_dir=data).model_dump(mode="json")
    client = TestClient(create_app(Store(data), Settings(no_token=True)), base_url="http://127.0.0.1")
    sent = client.post("/api/v1/data/advice", json={"data": place, "steps": 0})
    assert sent.status_code == 200, sent.text
    assert sent.json() == here

    async def call() -> Any:
        async with Client(build(Store(data), settings.Settings(local=False))) as agent:
            return await agent.call_tool("advise_data", {"data": place})

    told = ran(call)
    assert not told.is_error
    assert "OFFLINE" in told.content[0].text
    assert told.structured_content["verdict"] == here["verdict"]


def test_over_the_network_only_data_of_the_store_is_looked_at(data: Path, tmp_path: Path) -> None:
    client = TestClient(create_app(Store(data), Settings(no_token=True)), base_url="http://127.0.0.1")
    outside = tmp_path / "outside"
    good = read(data / "expert")
    folder.write(outside, [good.episode(0)], good.observation_space, good.action_space)
    for route, body in (("check", {}), ("advice", {"steps": 0}), ("evaluation", {"policy": "@last"})):
        refused = client.post(f"/api/v1/data/{route}", json={"data": str(outside), **body})
        missing = client.post(f"/api/v1/data/{route}", json={"data": str(tmp_path / "nothing"), **body})
        assert refused.status_code == missing.status_code == 400, refused.text
        assert "names a file" in refused.text
    beside = client.post("/api/v1/data/check", json={"data": str(data / "expert"), "beside": str(outside)})
    assert beside.status_code == 400
    assert "names a file" in beside.text
    assert client.post("/api/v1/data/advice", json={"data": str(data / "expert"), "env": "os:system", "steps": 0}).status_code >= 400
    report = client.post("/api/v1/data/check", json={"data": str(data / "expert")})
    assert report.json()["episodes"] == 40


def test_the_answer_at_a_terminal_has_reasons_with_sources_and_what_to_type(data: Path) -> None:
    answer = CliRunner().invoke(app, ["advise", "data", str(data / "mixed"), "--fqe-steps", "0"])
    assert answer.exit_code == 0, answer.output
    for words in ("OFFLINE", "bimodality", "2204.05618", "rlclinic train Pendulum-v1:iql --data", "rlclinic trial @last"):
        assert words in answer.stdout
    asked = CliRunner().invoke(app, ["advise", "data", str(data / "mixed"), "--fqe-steps", "0", "--json"])
    assert json.loads(asked.stdout)["verdict"] == "offline"
