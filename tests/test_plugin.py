"""examples/plugin as a user has it: installed by pip beside rlclinic, trained, diagnosed, prescribed for; no file of ours is touched."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launch.warm import Warm

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("env.n_envs=8", "algo.n_steps=64", "algo.n_epochs=2", "algo.batch_size=256", "net.hidden=[16]", "run.eval_episodes=0")

pytestmark = pytest.mark.slow


class Installed:
    """A folder to work in, and the plugin beside it. The first command has a whole process; the others are forked from a warm one."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.site, self.folder = folder / "site", folder / "work"
        self.folder.mkdir()
        self._warm, self._typed = warm, 0
        self.surroundings = {**os.environ, "PYTHONPATH": f"{self.site}{os.pathsep}{ROOT}"}
        pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
        done = subprocess.run(
            [sys.executable, *pip, "--target", str(self.site), str(ROOT / "examples" / "plugin")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def type(self, *words: str) -> str:
        """What a command prints."""
        self._typed += 1
        if self._typed > 1:
            printed = self.folder / f"printed{self._typed}"
            code = self._warm.start(*words, module="rlclinic", printed=printed, cwd=self.folder, environment=self.surroundings).wait()
            assert code == 0, printed.read_text()
            return printed.read_text()
        done = subprocess.run(
            [sys.executable, "-m", "rlclinic", *words], cwd=self.folder, env=self.surroundings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def train(self, *settings: str, steps: int) -> dict[str, Any]:
        changes = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
        words = ("train", "CartPole-v1:ppo_penalty", "--seeds", "2", "--max-env-steps", str(steps), "--no-report", *changes)
        result: dict[str, Any] = json.loads(self.type(*words, "--quiet", "--json"))
        return result


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Installed:
    return Installed(tmp_path_factory.mktemp("plugin"), warm)


def test_its_algorithm_and_its_network_train_as_a_cohort_by_the_reference_engine(installed: Installed) -> None:
    result = installed.train("net.encoder=residual", "net.encoder_args.width=8", steps=1_024)
    assert not result["failed"]
    records = [json.loads((installed.folder / "runs" / run / "config.json").read_text()) for run in result["runs"]]
    assert [record["algo"]["name"] for record in records] == ["ppo_penalty"] * 2
    assert [record["net"]["encoder_args"] for record in records] == [{"width": 8, "blocks": 2}] * 2
    assert {record["engine"]["kind"] for record in records} == {"reference"}
    head = (installed.folder / "runs" / result["runs"][0] / "metrics.csv").read_text().splitlines()[0].split(",")
    assert "train/metrics/kl_divergence" in head
    assert "kl_coef" in installed.type("config", "show", "CartPole-v1:ppo_penalty")


def test_its_rule_names_its_fault_and_its_dose_is_prescribed(installed: Installed) -> None:
    group = installed.train("algo.kl_coef=1000", steps=10_240)["group"]
    found = json.loads(installed.type("diagnose", group, "--threshold", "475", "--json"))["diagnosis"]
    assert found["causes"][0]["id"] == "kl-penalty-too-strong"
    assert found["causes"][0]["rules"][0] == "PEN101"
    prescribed = json.loads(installed.type("prescribe", group, "--json"))["prescriptions"]
    assert prescribed[0]["changes"] == {"algo.kl_coef": 1.0}
    assert "kl-penalty-too-strong" in installed.type("rules", "PEN101")


def test_its_rule_finds_its_bad_case_and_leaves_its_good_one_alone(installed: Installed) -> None:
    code = (
        "from rlclinic.diagnosis import explanation, registry; rule = registry.find('PEN101'); "
        "print(len(explanation.examine_shown(rule, rule.bad)), [len(explanation.examine_shown(rule, good)) for good in rule.good])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=installed.surroundings, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "[0]"]
