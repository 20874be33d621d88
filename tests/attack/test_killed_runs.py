"""What the machine kills says nothing about a config: it is tried again, or left out and said; it never decides."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlclinic import trust
from rlclinic.config import files, set_values
from rlclinic.launch import batch
from rlclinic.launch.batch import Killed
from rlclinic.runs import trials
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.treatment.optimize import search
from rlclinic.treatment.optimize.search import Request
from rlclinic.treatment.trial import arms, conduct
from tests.treatment.pretended_training import COLUMNS, Pretended

SICK = set_values(files.load("CartPole-v1:ppo_zoo", ["run.max_env_steps=20000"]).config, ["algo.learning_rate=0.1"])


def cured_below_a_hundredth(config: Any) -> float | None:
    return 0.3 if float(getattr(config.algo.learning_rate, "start", config.algo.learning_rate)) <= 0.01 else None


class Killing(Pretended):
    """The processes of some runs are killed, so many times."""

    def __init__(self, label: str, times: int, reason: str = "killed by SIGKILL: by a person") -> None:
        super().__init__(cured_below_a_hundredth)
        self.label, self.times, self.kills, self.reason = label, times, dict[str, int](), reason

    def _train(self, run: Run) -> None:
        if self.label in str(run.record.get("label")) and self.kills.get(run.id, 0) < self.times:
            self.kills[run.id] = self.kills.get(run.id, 0) + 1
            with RunWriter(run.path, COLUMNS) as writer:
                writer.status("failed", 40, reason=self.reason)
            return
        super()._train(run)


def confirm(root: Path, monkeypatch: pytest.MonkeyPatch, label: str, times: int, *reason: str) -> Any:
    monkeypatch.setattr(batch.local, "start", Killing(label, times, *reason).start)
    begun = search.begin(Store(root), Request("CartPole-v1:ppo_zoo", SICK, 60 * 20_000, run_env_steps=20_000))
    return search.carry_out(Store(root), begun, cores=2)


def test_kills_during_the_confirmation_of_a_search_do_not_change_its_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = confirm(tmp_path / "plain", monkeypatch, "no such arm", 0)
    assert plain.verdict == "adopted"
    killed = confirm(tmp_path / "killed", monkeypatch, "look 1", 2)
    assert (killed.verdict, killed.spent) == (plain.verdict, plain.spent)
    full = confirm(tmp_path / "full", monkeypatch, "look 1", 2, "DiskFailed: cannot write metrics.csv: the disk is full.")
    assert (full.verdict, full.spent) == (plain.verdict, plain.spent)


def test_a_confirmation_whose_runs_are_always_killed_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Killed, match="killed each time"):
        confirm(tmp_path, monkeypatch, "look 1", 10**6)
    store = Store(tmp_path)
    assert search.load(store).state == "interrupted"
    (trial,) = trials.trials(store)
    assert trial.verdict is None
    monkeypatch.setattr(batch.local, "start", Killing("no such arm", 0).start)
    assert search.carry_out(store, search.load(store), cores=2).verdict == "adopted"


COMMAND = """
import json, os, pathlib, signal, sys
out, seed, lr = pathlib.Path(os.environ["RLCLINIC_OUT"]), int(sys.argv[1]), float(sys.argv[2])
marker = pathlib.Path({marker!r}) / f"{{lr}}-{{seed}}"
kills = int(marker.read_text()) if marker.exists() else 0
if lr == 2 and kills < {times}:
    marker.write_text(str(kills + 1))
    os.kill(os.getpid(), signal.SIGKILL)
(out / "progress.csv").write_text("\\n".join(["total_timesteps,ep_rew_mean"] + [f"{{s}},{{s * lr + seed}}" for s in range(100, 2000, 100)]))
"""


def tried(root: Path, times: int) -> Any:
    (root / "marks").mkdir(parents=True)
    script = root / "train.py"
    script.write_text(COMMAND.format(marker=str(root / "marks"), times=times))
    made = arms.commands(f"python -I -S {script} {{seed}} {{lr}}", ["lr=1", "lr=2"])
    trust.approve(trust.COMMAND + str(made[0].command))
    plan = conduct.plan(made[0], made[1:], outcome="return", per_look=4, looks=1, alpha=0.2)
    return conduct.run(Store(root / "runs"), plan, cores=2)


def test_a_users_own_command_that_is_killed_is_started_again(tmp_path: Path) -> None:
    plain, killed = tried(tmp_path / "plain", 0), tried(tmp_path / "killed", 1)
    assert [arm.failed for arm in killed.arms] == [0, 0]
    assert killed.verdict == plain.verdict
    assert len(list((tmp_path / "killed" / "marks").iterdir())) == 4


def test_a_users_own_command_that_is_always_killed_decides_nothing(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        tried(tmp_path, 10**6)
    record = json.loads(next((tmp_path / "runs" / "@trials").glob("*/trial.json")).read_text())
    assert record["verdict"] is None
