"""`rlclinic race` through typer's runner: arms, plans, rankings, resumes, lists, adoption, and refusals."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

import rlclinic
from rlclinic.ops.treat import race as race_operations
from rlclinic.ops.treat.arms import resolve_race
from rlclinic.ops.treat.requests import RaceRequest
from rlclinic.serve.cli.app import app
from tests.treatment.pretended_training import pretend

VALUES = ["--set", "algo.learning_rate=1e-4,1e-3,1e-2", "--max-env-steps", "20k"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["race", *arguments])


def middle_is_best(config) -> float | None:
    noise = float(np.random.default_rng(config.seed).random())
    return {1e-4: 0.7, 1e-3: 0.15, 1e-2: 0.5}[config.algo.learning_rate] * (0.8 + 0.4 * noise)


def test_values_of_a_setting_are_raced_and_the_winner_is_kept(monkeypatch, folder):
    pretend(monkeypatch, middle_is_best)
    result = run("CartPole-v1:ppo_zoo", *VALUES, "--yes")
    assert result.exit_code == 0, result.output
    assert "BEST SHOWN: learning_rate-1e-3" in result.stdout
    assert "rlclinic adopt c" in result.stdout
    race = json.loads(run("--show", "@last", "--json").stdout)["race"]
    assert [arm["arm"]["name"] for arm in race["arms"]] == ["learning_rate-1e-3", "learning_rate-1e-2", "learning_rate-1e-4"]
    assert race["arms"][0]["ranks"] == [1, 1]
    report = folder / "runs" / "@race" / race["id"]
    assert "ranking.svg" in (report / "report.md").read_text()
    ElementTree.fromstring((report / "ranking.svg").read_text())
    assert "BEST" in (report / "report.html").read_text()
    listed = json.loads(run("--list", "--json").stdout)["races"]
    assert [(row["id"], row["verdict"], row["best"]) for row in listed] == [(race["id"], "best", ["learning_rate-1e-3"])]
    assert race["id"] in run("--list").stdout

    kept = CliRunner().invoke(app, ["adopt", race["id"], "--as", "CartPole-v1:fast"])
    assert kept.exit_code == 0, kept.output
    text = (folder / "config/environments/CartPole-v1.yaml").read_text()
    assert f"# adopted from race {race['id']}" in text
    assert yaml.safe_load(text)["fast"]["algo"]["learning_rate"] == 1e-3
    asked = json.loads(CliRunner().invoke(app, ["questions", "--json"]).stdout)["questions"]
    assert [(row["asked"][0]["kind"], row["asked"][0]["verdict"]) for row in asked] == [("race", "best (learning_rate-1e-3)")]


def test_a_plan_says_what_it_asks_can_see_and_costs_and_trains_nothing(folder):
    result = run("CartPole-v1:ppo_zoo", *VALUES, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "which of 3 arms reaches 475 in the fewest env steps?" in result.stdout
    for label in ("rule", "can see", "cost"):
        assert f"  {label}" in result.stdout
    assert not (folder / "runs").exists()
    preview = json.loads(run("CartPole-v1:ppo_zoo", *VALUES, "--dry-run", "--json").stdout)
    assert preview["max_env_steps"] == 5 * preview["first_env_steps"]
    chances = list(preview["power"]["by_effect"].values())
    assert chances == sorted(chances, reverse=True)


def test_every_combination_of_values_is_an_arm():
    request = RaceRequest(targets=["CartPole-v1:ppo_zoo"], changes=["gamma=0.9,0.99", "net.hidden=[64,64],[256,256]"])
    resolved = resolve_race(request)
    made = [resolved.control, *resolved.treatments]
    assert [arm.changes for arm in made] == [
        ("gamma=0.9", "net.hidden=[64,64]"),
        ("gamma=0.9", "net.hidden=[256,256]"),
        ("gamma=0.99", "net.hidden=[64,64]"),
        ("gamma=0.99", "net.hidden=[256,256]"),
    ]
    assert len({arm.name for arm in made}) == 4


def test_config_files_are_raced_by_their_names(folder, monkeypatch):
    pretend(monkeypatch, middle_is_best)
    for name, rate in (("slow", 1e-4), ("good", 1e-3), ("wild", 1e-2)):
        settings = {"env": {"id": "CartPole-v1"}, "algo": {"name": "ppo", "learning_rate": rate}, "run": {"max_env_steps": 20_000}}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**settings, "spec": {"threshold": 475}}))
    result = run("slow.yaml", "good.yaml", "wild.yaml", "--yes", "--json", "--quiet")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["race"]["winner"] == "good"


def test_your_own_command_is_raced_too(folder):
    script = folder / "train.py"
    script.write_text(
        "import csv, random, sys\nseed, rate, out = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]\nrandom.seed(seed)\n"
        "with open(out + '/progress.csv', 'w') as file:\n    rows = csv.writer(file)\n"
        "    rows.writerow(['total_timesteps', 'val/roll/ep_rew_mean'])\n"
        "    for step in range(1, 11):\n        rows.writerow([step * 100, step * rate * (1 + 0.1 * random.random())])\n"
    )
    command = f"python {script} {{seed}} {{rate}} {{out}}"
    options = ["--outcome", "return", "--per-round", "5", "--rounds", "2", "--yes", "--quiet", "--json"]
    result = run("--run", command, "--arm", "rate=1", "--arm", "rate=2", "--arm", "rate=4", *options)
    assert result.exit_code == 0, result.output
    race = json.loads(result.stdout)["race"]
    assert [arm["arm"]["name"] for arm in race["arms"]] == ["rate-4", "rate-2", "rate-1"]
    assert race["winner"] == "rate-4"
    refused = CliRunner().invoke(app, ["adopt", race["id"], "--as", "CartPole-v1:mine"])
    assert refused.exit_code == 2
    assert "your own command" in refused.output


def test_a_race_that_named_nobody_is_not_adopted_without_force(monkeypatch):
    pretend(monkeypatch, lambda config: 0.3 + 0.3 * float(np.random.default_rng(config.seed).random()))
    assert run("CartPole-v1:ppo_zoo", *VALUES, "--rounds", "1", "--yes", "--quiet").exit_code == 0
    race = json.loads(run("--show", "@last", "--json").stdout)["race"]
    assert race["verdict"] == "several"
    refused = CliRunner().invoke(app, ["adopt", race["id"], "--as", "CartPole-v1:mine"])
    assert refused.exit_code == 2
    assert "No arm was shown to be better than all others" in refused.output
    assert CliRunner().invoke(app, ["adopt", race["id"], "--as", "CartPole-v1:mine", "--force", "--dry-run"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["CartPole-v1:ppo_zoo"], "a race needs two arms or more"),
        (["CartPole-v1:ppo_zoo", "--set", "gamma=0.9"], "is one arm alone"),
        (["CartPole-v1:ppo_zoo", "CartPole-v1:ppo", "--set", "gamma=0.9,0.99"], "each say what the arms are"),
        (["CartPole-v1:ppo_zoo", "--set", "gamma=0.9,0.9"], "are the same"),
        (["CartPole-v1:ppo_zoo", "Acrobot-v1:ppo"], "trains on Acrobot-v1"),
        (["CartPole-v1:ppo_zoo", *VALUES, "--budget", "1000"], "the first round, 8 seeds of 3 arms, may take"),
        (["CartPole-v1:ppo_zoo", "--arm", "x=1", "--set", "gamma=0.9,0.99"], "--arm fills the placeholders"),
        (
            ["--run", "python train.py --seed {seed} --lr {lr}", "--arm", "lr=1", "--arm", "lr=2", "--budget", "3M"],
            "--budget with your own",
        ),
    ],
)
def test_what_cannot_be_raced_is_said_before_anything_is_written(folder, arguments, said):
    result = run(*arguments, "--yes", "--threshold", "475")
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())
    assert not (folder / "runs" / "@race").exists()


def test_a_race_that_was_stopped_says_how_it_goes_on(monkeypatch):
    pretended = pretend(monkeypatch, middle_is_best)
    request = RaceRequest(targets=["CartPole-v1:ppo_zoo"], changes=[VALUES[1]], max_env_steps=20_000)
    preview = race_operations.plan_race(request)

    def stop_early(event):
        pretended.stopping = event.kind == "progress"

    result = race_operations.run_race(preview, watch=stop_early)
    assert result.race.state == "interrupted"
    assert str(result.next[0]) == f"rlclinic race --resume {result.race.id}"
    pretended.stopping = False
    again = run("--resume", result.race.id, "--quiet")
    assert again.exit_code == 0, again.output
    assert "BEST SHOWN" in again.stdout


def test_a_race_from_python(monkeypatch):
    pretend(monkeypatch, middle_is_best)
    found = rlclinic.race("CartPole-v1:ppo_zoo", values={"algo.learning_rate": [1e-4, 1e-3, 1e-2]}, max_env_steps=20_000)
    assert (found.verdict, found.winner) == ("best", "learning_rate-0.001")
