"""`prescribe`, `sensitivity`, `optimize` and `diagnose --probe` through typer's runner: texts, exit codes, JSON."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rlclinic.config import files
from rlclinic.launch import local
from rlclinic.runs.database import job_queue
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from tests.ops.recorded import record_group
from tests.treatment.pretended_training import pretend

SICK = ["algo.learning_rate=0.1", "run.max_env_steps=20000"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    return tmp_path


def rlclinic(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def learns_below(limit: float):
    return lambda made: 0.3 if float(getattr(made.algo.learning_rate, "start", made.algo.learning_rate)) <= limit else None


def sick_group(monkeypatch: pytest.MonkeyPatch) -> str:
    """A group whose learning rate is far too high, trained by a stand-in."""
    pretend(monkeypatch, learns_below(0.01))
    made = files.load("CartPole-v1:ppo_zoo", SICK).config
    group = Store("runs").create_group([made.model_copy(update={"seed": seed}) for seed in range(3)])
    local.start([[run.path for run in group.runs]]).wait()
    return group.id


@pytest.mark.parametrize("command", ["prescribe", "sensitivity", "optimize"])
def test_every_command_has_help_and_json(command):
    text = rlclinic(command, "--help").stdout
    assert "Usage: rlclinic" in text
    assert "--json" in text


def test_a_prescription_is_told_with_reason_evidence_spelling_and_what_to_type(monkeypatch):
    group = sick_group(monkeypatch)
    result = rlclinic("prescribe", group, "--as", "sb3")
    assert result.exit_code == 0
    text = result.stdout
    assert "RX 1  critical  learning_rate 0.1 →" in text
    assert "because" in text
    assert "seen" in text
    assert "% of the gap closed [" in text
    assert "no data: no cell and no trial of it is recorded" in rlclinic("prescribe", "--no-recorded").stdout
    assert "--set 'algo.learning_rate=" in text
    assert "linear_schedule(" in text
    assert f"rlclinic trial {group} --rx 1" in text
    assert f"rlclinic train {group} --rx 1" in text


def test_a_prescription_as_json_is_one_object(monkeypatch):
    sick_group(monkeypatch)
    found = json.loads(rlclinic("prescribe", "--json").stdout)
    assert found["prescriptions"][0]["changes"]["algo.learning_rate"]["end"] == 0
    assert found["written"][0]["overrides"][0].startswith("algo.learning_rate=")
    assert found["trials"] >= 0


def test_nothing_is_prescribed_for_what_works_and_it_says_why():
    record_group(Path("runs"))
    text = rlclinic("prescribe").stdout
    assert "nothing is prescribed: nothing needs a change" in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["prescribe", "nosuch"], 3, "no run or group"),
        (["prescribe", "--as", "keras"], 2, "no such framework"),
        (["sensitivity", "CartPole-v1:ppo", "--factors", "two"], 2, "no list of factors"),
        (["sensitivity", "CartPole-v1:nosuch"], 3, "nosuch"),
        (["sensitivity", "CartPole-v1:ppo", "--set", "env.id=nowhere:Thing-v0"], 3, "no module `nowhere`"),
        (["optimize", "CartPole-v1:ppo", "--set", "env.id=nowhere:Thing-v0", "--budget", "1M", "--yes"], 3, "no module `nowhere`"),
        (["optimize", "CartPole-v1:ppo", "--budget", "10k", "--yes"], 2, "Nothing could be compared"),
        (["optimize", "--resume", "o123"], 3, "no optimize study"),
    ],
)
def test_what_cannot_be_done_ends_with_its_code_and_what_to_type(arguments, code, words):
    result = rlclinic(*arguments)
    assert result.exit_code == code
    assert words in result.output


def test_a_study_shows_its_cost_before_it_starts():
    result = rlclinic("sensitivity", "CartPole-v1:ppo_zoo", "--dry-run", "--seeds", "4", "--set", "run.max_env_steps=20000")
    assert result.exit_code == 0
    arms = int(result.stdout.partition("runs     ")[2].partition(" arms")[0])
    assert f"cost     at most {arms * 4 * 20_000:,} env steps" in result.stdout
    assert not Path("runs").exists()


def test_a_study_draws_its_tornado(monkeypatch):
    pretend(monkeypatch, learns_below(0.0015))
    result = rlclinic(
        "sensitivity", "CartPole-v1:ppo_zoo", "--seeds", "2", "--only", "learning_rate", "--set", "run.max_env_steps=20000", "--quiet"
    )
    assert result.exit_code == 0
    assert "better│worse" in result.stdout
    assert "learning_rate x4" in result.stdout
    assert "0/2 reach it" in result.stdout
    assert Path(next(line.split()[-1] for line in result.stdout.splitlines() if line.startswith("report"))).exists()


def test_a_search_tells_its_rounds_and_how_to_keep_the_winner(monkeypatch):
    group = sick_group(monkeypatch)
    result = rlclinic("optimize", group, "--budget", "600k", "--quiet", "--yes")
    assert result.exit_code == 0
    assert "ADOPTED" in result.stdout
    assert "→ rx1" in result.stdout
    assert "keep it   rlclinic adopt" in result.stdout
    again = json.loads(rlclinic("optimize", "--resume", "@last", "--json").stdout)
    assert again["ledger"]["verdict"] == "adopted"


def test_a_probe_is_not_made_where_the_cause_is_clear(monkeypatch):
    group = sick_group(monkeypatch)
    result = rlclinic("diagnose", group, "--probe")
    assert result.exit_code == 0
    assert "PROBE  no experiment is needed" in result.stdout
    assert json.loads(rlclinic("diagnose", group, "--probe", "--json").stdout)["experiment"] is None


def test_every_start_at_a_terminal_is_in_the_audit_log(monkeypatch):
    from rlclinic.ops.jobs.audit import audit_log

    group = sick_group(monkeypatch)
    short = ["--set", "run.max_env_steps=2000", "--yes", "--quiet"]
    assert rlclinic("sensitivity", group, "--only", "gamma", "--seeds", "2", "--factors", "2", *short).exit_code == 0
    # Against a config that was never trained: its runs are made for the comparison.
    judged = rlclinic("regress", group, "CartPole-v1:ppo_zoo", "--looks", "2", *short)
    assert judged.exit_code in (0, 6), judged.output
    told = [(line.about["kind"], line.face) for line in audit_log(Path("runs")).lines if line.action == "start"]
    assert told == [("regress", "cli"), ("sensitivity", "cli")]


# ── as jobs ──

JOBS = {
    "trial": ["trial", "CartPole-v1:ppo_zoo", "--set", "algo.gamma=0.9", "--per-look", "2", "--max-env-steps", "2k", "--yes"],
    "race": ["race", "CartPole-v1:ppo_zoo", "--set", "algo.learning_rate=1e-4,1e-3,1e-2", "--max-env-steps", "20k", "--yes"],
    "optimize": ["optimize", "CartPole-v1:ppo_zoo", "--budget", "200k", "--yes"],
    "sensitivity": ["sensitivity", "CartPole-v1:ppo_zoo", "--only", "gamma", "--set", "run.max_env_steps=2000", "--yes"],
}


@pytest.mark.parametrize("kind", JOBS)
def test_what_takes_long_can_be_left_to_workers_stopped_and_gone_on_with(kind: str, folder: Path) -> None:
    """Until now only servers, agents and Python could: who types had to stay, and trained on this machine alone."""
    begun = rlclinic(*JOBS[kind], "--detach", "--db", "sqlite", "--json")
    assert begun.exit_code == 0, begun.output
    job = json.loads(begun.stdout)
    assert (job["kind"], job["state"], job["shared"], job["by"]["face"]) == (kind, "queued", True, "cli")
    assert [(row.id, row.cores) for row in job_queue.list_rows(Store("runs"))] == [(job["id"], 0)]
    assert rlclinic("stop", job["refers"], "--db", "sqlite").exit_code == 0
    assert [row.state for row in job_queue.list_rows(Store("runs"))] == ["stopped"]
    again = rlclinic(kind, "--resume", job["refers"], "--detach", "--db", "sqlite")
    assert again.exit_code == 0, again.output
    assert again.stdout.split()[:2] == [job["refers"], "job"]
    assert "queued" in [row.state for row in job_queue.list_rows(Store("runs"))]


@pytest.mark.parametrize(("more", "says"), [(["--on", "ray"], "their workers do"), (["--jobs", "2"], "takes the cores that are free")])
@pytest.mark.parametrize("kind", JOBS)
def test_what_a_job_could_not_keep_is_refused_before_anything_starts(kind: str, more: list[str], says: str) -> None:
    refused = rlclinic(*JOBS[kind], "--detach", "--db", "sqlite", *more)
    assert refused.exit_code == 2
    assert says in refused.output + str(refused.exception)
    assert not Path("runs/@jobs").exists()
