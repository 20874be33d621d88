"""Trials of the user's own command: one process a run, logs collected, failures counted, leftovers ended."""

import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.treatment.trial import arms, conduct
from tests.treatment.pretended_training import pretend

# A "trainer" of one line: it learns at a rate, and logs as somebody's script might.
TRAINER = """
import csv, os, random, sys
seed, rate, how = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
noise = random.Random(seed).random()
rows = [(1000 * row, min(500.0, 20 + row * 480 * rate * (0.7 + 0.6 * noise))) for row in range(1, 21)]
if how == "csv":
    with open(os.path.join(os.environ["RLCLINIC_OUT"], "progress.csv"), "w") as file:
        writer = csv.writer(file)
        writer.writerow(["total_timesteps", "val/roll/ep_rew_mean"])
        writer.writerows(rows)
elif how == "stdout":
    for steps, value in rows:
        print("-" * 40 + f"\\n| rollout/ep_rew_mean | {value:.4g} |\\n| time/total_timesteps | {steps} |\\n" + "-" * 40)
elif how == "lines":
    print("loading, please wait")
    print("total_timesteps,val/roll/ep_rew_mean,loss")
    for steps, value in rows:
        print(f"{steps},{value},{1 / steps}")
elif how == "hang":
    import time
    time.sleep(60)
sys.exit(3 if how == "fail" or (how == "csv" and rate == 0.0) else 0)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "train.py"
    file.write_text(TRAINER)
    return f"{sys.executable} {file}"


def run(tmp_path: Path, command: str, values: list[str], **options):
    found = arms.commands(command, values)
    plan = conduct.plan(found[0], found[1:], threshold=475.0, per_look=4, looks=2, **options)
    return conduct.run(Store(tmp_path / "runs"), plan, cores=4)


def test_a_csv_in_the_runs_folder_is_read_and_the_runs_are_stored(tmp_path, script):
    found = run(tmp_path, script + " {seed} {rate} csv", ["rate=0.06", "rate=0.3"])
    assert (found.verdict, found.winner) == ("adopt", "rate-0.3")
    assert found.source == "command"
    assert [arm.n for arm in found.arms] == [4, 4]
    runs = Store(tmp_path / "runs").runs()
    assert {run_.record["trial"] for run_ in runs} == {found.id}
    assert {run_.status.state for run_ in runs} == {"finished"}
    assert len({run_.group_id for run_ in runs}) == 2


@pytest.mark.parametrize("how", ["stdout", "lines"])
def test_what_a_command_prints_is_read_where_it_leaves_no_file(tmp_path, script, how):
    found = run(tmp_path, script + " {seed} {rate} " + how, ["rate=0.06", "rate=0.3"])
    assert (found.verdict, found.winner) == ("adopt", "rate-0.3")
    # SB3's table has the returns of training only.
    assert found.control.evaluated == (how == "lines")


def test_an_arm_whose_command_fails_loses_and_says_why(tmp_path, script):
    found = run(tmp_path, script + " {seed} {rate} csv", ["rate=0.3", "rate=0.0"])
    assert found.verdict == "reject"
    assert found.arms[1].failed == found.arms[1].n
    failed = [run_ for run_ in Store(tmp_path / "runs").runs() if run_.status.state == "failed"]
    assert failed[0].status.reason.startswith("exit code 3")


def test_commands_that_all_fail_end_the_trial_undecided(tmp_path, script):
    found = run(tmp_path, script + " {seed} {rate} fail", ["rate=0.1", "rate=0.2"])
    assert (found.verdict, len(found.looks)) == ("undecided", 1)


def test_a_command_that_takes_too_long_is_ended(tmp_path, script):
    began = time.monotonic()
    found = run(tmp_path, script + " {seed} {rate} hang", ["rate=0.1", "rate=0.2"], timeout_seconds=0.3)
    assert found.verdict == "undecided"
    assert time.monotonic() - began < 50
    assert all("the timeout that was given" in run_.status.reason for run_ in Store(tmp_path / "runs").runs())


def test_a_command_trial_that_is_stopped_is_resumed_without_repeating_what_ended(tmp_path, script):
    found = arms.commands(script + " {seed} {rate} csv", ["rate=0.06", "rate=0.3"])
    plan = conduct.plan(found[0], found[1:], threshold=475.0, per_look=4, looks=2)
    store, seen = Store(tmp_path / "runs"), []
    with pytest.raises(conduct.Interrupted):
        conduct.run(
            store, plan, cores=1, progress=lambda event: seen.append(sum(arm.ended for arm in event.arms)), stop=lambda: len(seen) > 2
        )
    (begun,) = trials.trials(store)
    ended = {file.parent.name: file.stat().st_mtime_ns for file in begun.path.glob("out/*/ended.json")}
    finished = conduct.resume(store, begun.id, cores=4)
    assert finished.verdict == "adopt"
    assert all((begun.path / "out" / name / "ended.json").stat().st_mtime_ns == written for name, written in ended.items())


def test_configs_and_commands_do_not_mix(monkeypatch):
    from rlclinic.config import load
    from rlclinic.errors import UsageError

    pretend(monkeypatch, lambda config: None)
    command = arms.commands("x {seed} {lr}", ["lr=1", "lr=2"])[1]
    with pytest.raises(UsageError, match="some arms are configs"):
        conduct.plan(arms.control(load("CartPole-v1:ppo").config), [command])


def test_runs_that_tie_at_their_first_logged_row_leave_a_ratio_as_open_as_the_rows_are_apart(tmp_path, script):
    found = run(tmp_path, script + " {seed} {rate} csv", ["rate=9", "rate=10"])
    assert {run_.status.state for run_ in Store(tmp_path / "runs").runs()} == {"finished"}
    ratio = found.effects[0].ratio
    assert (ratio.low or 0.0) < 0.8
    assert ratio.high is None or ratio.high > 1.25


def test_where_every_run_fails_nothing_is_advised_that_would_fail_again(tmp_path, script):
    typed = ["--run", script + " {seed} {rate} fail", "--arm", "rate=1", "--arm", "rate=2", "--threshold", "475", "-y", "-q"]
    where = ["--runs-dir", str(tmp_path / "runs")]
    trial = CliRunner().invoke(app, ["trial", *typed, "--seeds", "2", *where])
    assert "every run of every arm failed: exit code 3" in trial.output
    assert "go on" not in trial.output
    assert "> 0" not in trial.output
    race = CliRunner().invoke(app, ["race", *typed, "--per-round", "3", "--rounds", "1", *where])
    assert "every run of every arm failed: exit code 3" in race.output
    assert "--extend" not in race.output
    assert "would tell" not in race.output
