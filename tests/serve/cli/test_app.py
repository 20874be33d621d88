"""Commands through typer's runner, in this process: texts, exit codes, JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rlclinic.ops.diagnose import write_reports
from rlclinic.ops.train import run
from rlclinic.ops.train.plan import TrainPlan
from rlclinic.report.models import TrainResult
from rlclinic.serve.cli.app import PANELS, app
from tests.ops.recorded import add_checkpoint, flat, record_group

COMMANDS = [
    *("train", "play", "evaluate", "envs", "status", "stop", "adjust", "doctor", "demo", "config", "runs"),
    *("config show", "runs list", "runs show", "runs metrics", "runs logs", "runs checkpoints", "runs rm"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    monkeypatch.delenv("RLCLINIC_DEBUG", raising=False)
    return tmp_path


def rlclinic(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


# ── help ──


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    for flag in ("--help", "-h"):
        result = rlclinic(*command.split(), flag)
        assert result.exit_code == 0
        assert "Usage: rlclinic" in result.stdout
        assert "--help" in result.stdout


def test_help_names_every_command() -> None:
    text = rlclinic("--help").stdout
    assert all(f" {command} " in text for command in COMMANDS if " " not in command)


def test_every_command_is_listed_once_under_what_it_is_for() -> None:
    """Also a command that somebody adds tomorrow: without a panel it would not be listed at all."""
    registered = [made.name or made.callback.__name__ for made in (*app.registered_commands, *app.registered_groups)]
    assert sorted(registered) == sorted(name for names in PANELS.values() for name in names)
    text = rlclinic("--help").stdout
    assert [panel for panel in PANELS if f"─ {panel} ─" not in text] == []


def test_every_option_of_train_is_in_its_help() -> None:
    text = rlclinic("train", "--help").stdout
    wanted = "--seed --seeds --set --max-env-steps --resume --init-from --env-workers --device --threads --jobs --detach"
    wanted += " --tensorboard --runs-dir --quiet --json --require-threshold --yes --no-report RLCLINIC_RUNS"
    assert [option for option in wanted.split() if option not in text] == []


def test_the_version_is_printed() -> None:
    assert rlclinic("--version").stdout.startswith("rlclinic ")


# ── errors ──


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["runs", "show", "nope"], 3, "no run or group 'nope' in runs"),
        (["runs", "logs"], 3, "Start something: rlclinic train CartPole-v1:ppo"),
        (["train"], 2, "train needs something to train"),
        (["train", "CartPol-v1"], 3, "CartPole-v1"),
        (["train", "CartPole-v1:ppo", "--set", "learning_rat=1"], 2, "learning_rate"),
        (["train", "CartPole-v1:ppo_zoo", "--set", "batch_size=100"], 2, "Try: --set algo.batch_size=128"),
        (["config", "show", "CartPole-v1:nope"], 3, "CartPole-v1:ppo"),
        (["adjust", "@running"], 2, "adjust needs something to change"),
        (["stop"], 3, "nothing is running in runs"),
        (["evaluate", "--video", "out.avi"], 2, "must end in .gif or .mp4"),
        (["envs", "Tetris"], 3, "rlclinic train Tetris"),
        (["runs", "show", "@nonsense"], 2, "Forms: g7k2 (group)"),
    ],
)
def test_errors_go_to_stderr_with_their_exit_code_and_what_to_type(arguments: list[str], code: int, text: str) -> None:
    result = rlclinic(*arguments)
    assert result.exit_code == code
    assert text in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "why"), [("ten", "is not a number of env steps"), ("0.5", "is not a whole number"), ("-3", "whole number")]
)
def test_a_budget_that_is_no_number_is_a_usage_error(text: str, why: str) -> None:
    result = rlclinic("train", "CartPole-v1:ppo", f"--max-env-steps={text}")
    assert result.exit_code == 2
    assert why in result.stderr


def test_an_unexpected_error_is_one_line_and_debug_shows_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("rlclinic.ops.runs.listing.list_runs", broken)
    result = rlclinic("runs", "list")
    assert result.exit_code == 1
    assert "rlclinic failed unexpectedly: KeyError" in result.stderr
    monkeypatch.setenv("RLCLINIC_DEBUG", "1")
    assert isinstance(rlclinic("runs", "list").exception, KeyError)


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlclinic.ops.runs.listing.list_runs", interrupted)
    assert rlclinic("runs", "list").exit_code == 130


# ── JSON ──


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs", "list"],
        ["runs", "show"],
        ["runs", "show", "RUN"],
        ["runs", "metrics", "RUN"],
        ["runs", "logs", "RUN"],
        ["runs", "checkpoints", "RUN"],
        ["runs", "rm", "RUN", "--dry-run"],
        ["status"],
        ["envs"],
        ["config", "show", "CartPole-v1:ppo"],
        ["config", "show", "RUN"],
    ],
)
def test_json_is_one_object_with_a_version_and_nothing_else(arguments: list[str]) -> None:
    group = record_group(Path("runs"), seeds=(0,))
    add_checkpoint(group.runs[0].path, 10240, best=True)
    result = rlclinic(*(group.runs[0].id if word == "RUN" else word for word in arguments), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["schema_version"] == 1


def test_json_of_a_stop_and_an_adjustment_says_who_was_asked() -> None:
    group = record_group(Path("runs"), seeds=(0, 1), state="running", share_done=0.5)
    found = json.loads(rlclinic("adjust", "--set", "ent_coef=0.01", "--json").stdout)
    assert found["changes"] == {"algo.ent_coef": 0.01}
    assert json.loads(rlclinic("stop", "--json").stdout)["runs"] == [run.id for run in group.runs]


# ── texts ──


def test_runs_list_shows_each_run_and_where_it_stands() -> None:
    group = record_group(Path("runs"), seeds=(0, 1))
    lines = rlclinic("runs", "list").stdout.splitlines()
    assert lines[0].split() == ["run", "config", "state", "env", "steps", "return", "eval", "best", "threshold", "at", "changed"]
    assert lines[1].split()[:4] == [f"{group.id}-s1", "CartPole-v1:ppo", "finished", "10,240"]
    assert rlclinic("runs", "list", "--state", "running").stdout.startswith("no runs in runs")


def test_a_short_list_says_how_to_see_the_rest() -> None:
    record_group(Path("runs"), seeds=(0, 1, 2))
    result = rlclinic("runs", "list", "-n", "2")
    assert "2 of 3 runs" in result.stderr
    assert len(result.stdout.splitlines()) == 3


def test_runs_show_draws_a_groups_curve_with_its_verdict() -> None:
    group = record_group(Path("runs"), returns=flat)
    text = rlclinic("runs", "show").stdout
    assert text.startswith(f"{group.id} · PPO · CartPole-v1 · 3 seeds · 10,240/10,240 env steps\nNOT SOLVED  0 of 3 seeds reached 475")
    assert "┤" in text
    assert "threshold" in text
    assert "time      learn 75 % · env 25 %" in text
    assert f"next      rlclinic runs metrics {group.id}-s0" in text


def test_runs_show_can_write_the_report_of_a_detached_group() -> None:
    group = record_group(Path("runs"))
    assert "report.html" in rlclinic("runs", "show", "--report").stdout
    assert (group.path / "report.html").exists()


def test_runs_show_of_one_run_has_its_newest_metrics() -> None:
    group = record_group(Path("runs"), seeds=(0,))
    add_checkpoint(group.runs[0].path, 10240, best=True)
    text = rlclinic("runs", "show", f"{group.id}-s0").stdout
    assert "seed 0 · finished" in text
    assert "train/metrics/kl_divergence" in text
    assert "kept      10240 @best @last" in text


def test_runs_metrics_has_a_sparkline_and_can_list_names() -> None:
    record_group(Path("runs"), seeds=(0,))
    text = rlclinic("runs", "metrics", "-m", "entropy").stdout
    assert "█▇" in text
    assert "time/env" in rlclinic("runs", "metrics", "--list").stdout.splitlines()


def test_runs_rm_asks_and_without_a_terminal_needs_yes() -> None:
    group = record_group(Path("runs"), seeds=(0,))
    refused = rlclinic("runs", "rm", group.id)
    assert refused.exit_code == 2
    assert "add --yes" in refused.stderr
    assert group.runs[0].path.exists()
    assert rlclinic("runs", "rm", group.id, "--yes").stdout.startswith("removed 1 run and 1 group")
    assert not group.runs[0].path.exists()


def test_another_runs_folder_comes_from_the_flag_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    group = record_group(Path("elsewhere"), seeds=(0,))
    assert group.id in rlclinic("runs", "list", "--runs-dir", "elsewhere").stdout
    assert group.id not in rlclinic("runs", "list").stdout
    monkeypatch.setenv("RLCLINIC_RUNS", "elsewhere")
    assert group.id in rlclinic("runs", "list").stdout


def test_config_show_prints_yaml_and_with_origins_a_table() -> None:
    import yaml

    plain = rlclinic("config", "show", "CartPole-v1:ppo_zoo", "--set", "gamma=0.9").stdout
    assert yaml.safe_load(plain)["algo"]["gamma"] == 0.9
    assert "# rollout_size: 256" in plain
    origins = rlclinic("config", "show", "CartPole-v1:ppo_zoo", "--set", "gamma=0.9", "--origins").stdout
    assert next(line for line in origins.splitlines() if line.startswith("algo.gamma")).split() == ["algo.gamma", "0.9", "--set"]


def test_envs_lists_variants_and_thresholds() -> None:
    line = next(line for line in rlclinic("envs").stdout.splitlines() if line.startswith("CartPole-v1"))
    assert "ppo" in line
    assert "475" in line


def test_status_shows_the_running_group() -> None:
    group = record_group(Path("runs"), seeds=(0, 1), state="running", share_done=0.5)
    text = rlclinic("status").stdout
    assert text.startswith(f"{group.id} · CartPole-v1:ppo · 2 seeds · 5,120/10,240 env steps · 10,000 steps/s")
    assert "KL" in text


# ── train, with the training itself replaced ──


class FakeTraining:
    """Stands in for ops.train: answers with a recorded group, and remembers the plans."""

    def __init__(self) -> None:
        self.plans: list[TrainPlan] = []
        self.how: dict[str, Any] = {}
        self.ending: dict[str, Any] = {}

    def __call__(self, plan: TrainPlan, watch: object = None, say: object = None) -> TrainResult:
        self.plans.append(plan)
        group = record_group(Path("runs"), **self.how)
        found, files = write_reports.write_reports(group)
        usual = {"detached": False, "signal": None, "failed": [], "report": found, "files": [str(file) for file in files]}
        return TrainResult.model_validate({"group": group.id, "runs": [run.id for run in group.runs], **usual, **self.ending})


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    fake = FakeTraining()
    monkeypatch.setattr(run, "train", fake)
    return fake


def test_a_healthy_training_ends_in_two_lines_and_the_report(trained: FakeTraining) -> None:
    result = rlclinic("train", "CartPole-v1:ppo", "--seeds", "3")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert [line.split()[0] for line in lines] == ["SOLVED", "next", "report"]
    assert "3 of 3 seeds reached 475" in lines[0]
    assert lines[2].endswith("report.html")


def test_a_training_that_missed_shows_gap_curve_and_what_to_type(trained: FakeTraining) -> None:
    trained.how = {"returns": flat}
    text = rlclinic("train", "CartPole-v1:ppo").stdout
    assert "NOT SOLVED" in text
    assert "gap 374 (79 %)" in text
    assert "┤" in text
    assert "--max-env-steps 20480" in text


def test_failed_runs_end_with_1_and_their_reason(trained: FakeTraining) -> None:
    trained.how = {"state": "failed", "share_done": 0.2, "reason": "the reward is NaN\n  look at env 3"}
    trained.ending = {"failed": ["g1-s0"]}
    result = rlclinic("train", "CartPole-v1:ppo")
    assert result.exit_code == 1
    assert "the reward is NaN" in result.stdout
    assert "look at env 3" in result.stdout


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_with_its_own_code_and_still_reports(trained: FakeTraining, signal: str, code: int) -> None:
    trained.how, trained.ending = {"state": "stopped", "share_done": 0.3}, {"signal": signal}
    result = rlclinic("train", "CartPole-v1:ppo")
    assert result.exit_code == code
    assert "rlclinic train --resume" in result.stdout


def test_a_missed_threshold_ends_with_4_only_when_it_is_required(trained: FakeTraining) -> None:
    trained.how = {"returns": flat}
    assert rlclinic("train", "CartPole-v1:ppo").exit_code == 0
    assert rlclinic("train", "CartPole-v1:ppo", "--require-threshold").exit_code == 4


def test_a_reached_threshold_that_was_required_ends_with_0(trained: FakeTraining) -> None:
    assert rlclinic("train", "CartPole-v1:ppo", "--require-threshold").exit_code == 0


def test_a_threshold_cannot_be_required_of_a_training_that_is_left_alone(trained: FakeTraining) -> None:
    result = rlclinic("train", "CartPole-v1:ppo", "--detach", "--require-threshold")
    assert result.exit_code == 2
    assert "leave out" in result.stderr
    assert trained.plans == []


def test_a_detached_training_says_how_to_watch_and_stop_it(trained: FakeTraining) -> None:
    trained.ending = {"detached": True, "report": None, "files": []}
    text = rlclinic("train", "CartPole-v1:ppo", "--detach").stdout
    assert "rlclinic status g" in text
    assert "rlclinic stop g" in text


def test_options_reach_the_plan(trained: FakeTraining) -> None:
    rlclinic("train", "CartPole-v1:ppo", "--seed", "5", "--seeds", "2", "--max-env-steps", "2e4", "--override", "gamma=0.9", "--jobs", "1")
    plan = trained.plans[0]
    assert [config.seed for config in plan.configs] == [5, 6]
    assert plan.configs[0].run.max_env_steps == 20_000
    assert plan.configs[0].algo.gamma == 0.9
    assert plan.request.jobs == 1


def test_train_prints_json_to_stdout_alone(trained: FakeTraining) -> None:
    found = json.loads(rlclinic("train", "CartPole-v1:ppo", "--json").stdout)
    assert found["report"]["verdict"] == "SOLVED"
    assert found["report"]["curve"]["threshold"] == 475.0


def test_the_doctor_ends_with_1_when_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlclinic.ops.train import machine
    from rlclinic.report.models import Check, Diagnostics

    check = Check(name="torch", status="missing", found="not installed", fix="pip install 'rlclinic[train]'")
    monkeypatch.setattr(machine, "doctor", lambda _: Diagnostics(checks=[check], healthy=False))
    result = rlclinic("doctor")
    assert result.exit_code == 1
    assert "pip install 'rlclinic[train]'" in result.stdout
    assert "not ready to train" in result.stdout


def test_a_training_that_missed_ends_with_cause_change_and_the_command_that_tells_more(trained: FakeTraining) -> None:
    trained.how = {"returns": flat}
    finding = {"cause": "learning-rate-too-high", "title": "policy step too large", "probability": 0.91, "severity": "high"}
    finding |= {"agree": 3, "of": 3, "rule": "POL101", "change": "learning_rate 0.1 → 0.001", "command": "rlclinic diagnose g1"}
    trained.ending = {"finding": finding}
    lines = rlclinic("train", "CartPole-v1:ppo").stdout.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("cause"))
    assert lines[place] == "cause     p 0.91 HIGH  policy step too large  POL101, 3 of 3 seeds"
    assert lines[place + 1] == "try       learning_rate 0.1 → 0.001"
    assert lines[place + 2] == "next      rlclinic diagnose g1"
    assert [line.split()[0] for line in lines].count("next") == 1


@pytest.mark.parametrize("known", [True, False])
def test_the_demo_says_how_its_commands_can_be_typed_where_the_shell_does_not_know_them(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make demo` ended with commands that a newcomer's shell did not find."""
    monkeypatch.setattr("rlclinic.serve.cli.app.DEMO", ())
    monkeypatch.setattr("rlclinic.serve.cli.app.shutil.which", lambda name: "/usr/bin/rlclinic" if known else None)
    said = CliRunner().invoke(app, ["demo"]).output
    assert ("bin/activate" in said) is not known
