"""`diagnose`, `lint` and `rules` from end to end: on folders of ours, on foreign ones, through the command line, and how long it takes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from rlclinic.diagnosis.findings import Diagnosis
from rlclinic.errors import NotFound
from rlclinic.ops.diagnose import diagnose
from rlclinic.report.models import DiagnosisReport
from rlclinic.serve.cli.app import app
from tests.diagnosis import recorded
from tests.diagnosis.stored import write_group

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    monkeypatch.delenv("RLCLINIC_DEBUG", raising=False)
    return tmp_path


def rlclinic(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


# ── our own groups ──


def test_the_last_group_is_diagnosed_and_the_answer_is_written_beside_it() -> None:
    group = write_group("cp-lr-x100")
    result = rlclinic("diagnose")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert text.startswith(f"{group.id} · PPO · CartPole-v1 · 3 seeds")
    assert "NOT SOLVED" in text
    assert "CAUSE 1" in text
    assert "policy step too large" in text
    assert "3 of 3 seeds agree" in text
    assert "RULED OUT" in text
    assert "rlclinic train" in text
    written = Diagnosis.model_validate_json((group.path / "diagnosis.json").read_text())
    assert written.causes[0].id == "learning-rate-too-high"
    assert written.facts.id == group.id


def test_the_same_folder_gives_the_same_bytes() -> None:
    group = write_group("cp-lr-x100")
    bytes_ = []
    for _ in range(2):
        diagnose.diagnose(group.id)
        bytes_.append((group.path / "diagnosis.json").read_bytes())
    assert bytes_[0] == bytes_[1]


def test_a_member_whose_record_is_damaged_leaves_the_others_to_be_diagnosed() -> None:
    group = write_group("cp-lr-x100")
    (group.runs[-1].path / "config.json").write_text("{")
    result = rlclinic("diagnose", group.id)
    assert result.exit_code == 0, result.stderr
    assert "config.json cannot be read" in result.stdout
    assert "policy step too large" in result.stdout


def test_a_curve_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    group = write_group("cp-lr-x100")
    monkeypatch.setenv("COLUMNS", "60")
    drawn = [line for line in rlclinic("diagnose", group.id).stdout.splitlines() if "┤" in line]
    assert drawn
    assert max(map(len, drawn)) <= 60


def test_a_run_of_a_group_can_be_diagnosed_alone() -> None:
    group = write_group("cp-lr-x100")
    report = diagnose.diagnose(group.runs[1].id)
    assert report.group is None
    assert report.diagnosis.facts.runs == 1
    assert (group.runs[1].path / "diagnosis.json").exists()
    assert not (group.path / "diagnosis.json").exists()


def test_the_reports_are_written_beside_the_group_and_say_the_same() -> None:
    group = write_group("cp-lr-x100")
    report = diagnose.diagnose(group.id)
    assert [Path(file).name for file in report.files] == ["report.html", "report.md", "diagnosis.json"]
    markdown, page = (group.path / "report.md").read_text(), (group.path / "report.html").read_text()
    for essential in ("policy step too large", "1. Training run summary", "5. Suggested next steps", "LRN101", group.id):
        assert essential in markdown
        assert essential in page


def test_a_part_of_the_rules_or_another_threshold_is_not_written_down() -> None:
    group = write_group("cp-lr-x100")
    diagnose.diagnose(group.id, select=["POL"])
    diagnose.diagnose(group.id, threshold=10.0)
    assert not (group.path / "diagnosis.json").exists()


def test_a_threshold_that_was_reached_makes_the_group_healthy() -> None:
    write_group("cp-lr-x100")
    assert diagnose.diagnose(threshold=5.0).diagnosis.verdict == "SOLVED"


def test_the_projects_own_file_can_switch_rules_off() -> None:
    write_group("cp-lr-x100")
    assert "LRN101" in {finding.rule for finding in diagnose.diagnose().diagnosis.findings}
    Path("pyproject.toml").write_text('[tool.rlclinic]\nignore = ["LRN"]\n')
    assert "LRN101" not in {finding.rule for finding in diagnose.diagnose().diagnosis.findings}
    Path("pyproject.toml").write_text("not toml [")
    assert diagnose.diagnose().diagnosis.findings


def test_the_top_finding_names_cause_change_and_command() -> None:
    group = write_group("cp-lr-x100")
    report = diagnose.examine_group(group)
    assert report is not None
    found = diagnose.top_finding(report)
    assert (found.cause, found.rule, found.agree, found.of) == ("learning-rate-too-high", "LRN101", 3, 3)
    assert found.change is not None
    assert "learning_rate" in found.change
    assert (found.command, found.then) == (f"rlclinic diagnose {group.id}", f"rlclinic trial {group.id} --rx 1")


def test_a_healthy_group_has_nothing_to_change() -> None:
    report = diagnose.examine_group(write_group("cp-healthy"))
    assert report is not None
    found = diagnose.top_finding(report)
    assert (found.cause, found.change, found.rule) == ("healthy", None, None)


def test_json_is_one_object_that_validates() -> None:
    write_group("cp-lr-x100")
    result = rlclinic("diagnose", "--json")
    report = DiagnosisReport.model_validate_json(result.stdout)
    assert report.diagnosis.causes[0].probability > 0.8


@pytest.mark.parametrize(("level", "code"), [("high", 5), ("low", 5)])
def test_fail_on_ends_with_five(level: str, code: int) -> None:
    write_group("cp-lr-x100")
    assert rlclinic("diagnose", "--fail-on", level).exit_code == code


def test_fail_on_lets_healthy_groups_pass() -> None:
    write_group("cp-healthy")
    result = rlclinic("diagnose", "--fail-on", "medium")
    assert result.exit_code == 0
    assert "HEALTHY" in result.stdout


def test_commands_that_are_offered_exist() -> None:
    write_group("cp-lr-x100")
    for command in diagnose.diagnose().next:
        name = command.split()[1]
        assert rlclinic(name, "--help").exit_code == 0


def test_an_unknown_target_is_not_found() -> None:
    write_group("cp-healthy")
    assert rlclinic("diagnose", "nothing").exit_code == 3
    with pytest.raises(NotFound):
        diagnose.diagnose("no/such/path")


# ── foreign logs ──

TABLE = """\
| rollout/            |             |
|    ep_len_mean      | 21.1        |
|    ep_rew_mean      | {reward}        |
| time/               |             |
|    total_timesteps  | {steps}        |
| train/              |             |
|    approx_kl        | {kl} |
|    clip_fraction    | 0.6         |
|    entropy_loss     | -0.1        |
|    explained_variance | 0.1      |
|    learning_rate    | 0.1         |
|    value_loss       | 40.0        |
-----------------------------------
"""


def test_a_log_from_a_pipe_is_diagnosed() -> None:
    text = "".join(TABLE.format(reward=20 + n % 3, steps=2048 * (n + 1), kl=0.4) for n in range(30))
    result = rlclinic("diagnose", "-", "--threshold", "475", stdin="Using cpu device\n" + text)
    assert result.exit_code == 0, result.output
    assert "policy step too large" in result.stdout
    assert "NOT ASSESSABLE" in result.stdout
    assert 'log("train/sentinel/' in result.stdout


def test_a_foreign_folder_is_never_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    rows = "\n".join(f"{100 * n},{n % 7},{0.5}" for n in range(1, 60))
    (folder / "progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean,train/approx_kl\n" + rows + "\n")
    before = sorted(folder.iterdir())
    report = diagnose.diagnose(str(folder), threshold=100.0)
    assert report.files == []
    assert sorted(folder.iterdir()) == before


def test_a_log_that_learns_without_a_threshold_says_how_to_give_one(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,reward\n" + "\n".join(f"{500 * n},{20 + min(3 * n, 180) + n % 5}" for n in range(120)) + "\n")
    result = rlclinic("diagnose", str(log))
    assert "give one" in result.stdout
    assert f"judge it  rlclinic diagnose {log} --threshold RETURN" in result.stdout
    assert "judge it" not in rlclinic("diagnose", str(log), "--threshold", "300").stdout


# ── lint and rules ──


def test_lint_shows_findings_and_derived_numbers() -> None:
    result = rlclinic("lint", "CartPole-v1:ppo", "--set", "algo.gamma=0.5")
    assert result.exit_code == 0
    assert "VAL208" in result.stdout
    assert "gae horizon steps" in result.stdout
    assert rlclinic("lint", "CartPole-v1:ppo", "--set", "algo.gamma=0.5", "--fail-on", "high").exit_code == 5
    assert rlclinic("lint", "CartPole-v1:ppo", "--fail-on", "low").exit_code == 0


def test_lint_takes_a_group() -> None:
    group = write_group("cp-lr-x100")
    assert "LRN101" in rlclinic("lint", group.id).stdout


def test_rules_are_listed_and_explained() -> None:
    listing = rlclinic("rules").stdout
    assert "POL101" in listing
    page = rlclinic("rules", "POL101").stdout
    assert "## Why it hurts" in page
    assert "Proximal policy optimization" in page
    assert rlclinic("rules", "POL999").exit_code == 3
    assert json.loads(rlclinic("rules", "--json").stdout)["rules"]


# ── cost ──


def test_a_long_log_is_diagnosed_without_torch() -> None:
    """10,000 rows and 100 columns, the whole command, in a process where torch, scipy and pyplot cannot be imported."""
    group = write_group("cp-healthy")
    run = group.runs[0]
    history = recorded.histories("cp-healthy")[0]
    columns = ["total_timesteps", *history.series][:100]
    steps = np.linspace(256, 50_176, 10_000)
    table = [np.interp(steps, history.series[name].steps, history.series[name].values) for name in columns[1:]]
    rows = "\n".join(",".join(map(repr, row)) for row in np.stack([steps, *table], 1).tolist())
    (run.path / "metrics.csv").write_text(",".join(columns) + "\n" + rows + "\n")
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "scipy", "matplotlib", "gymnasium"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.argv = ["rlclinic", "diagnose", RUN]
from rlclinic.serve.cli.app import main
main()
""".replace("RUN", repr(run.id))
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)})
    assert outcome.returncode == 0, outcome.stderr
    assert "HEALTHY" in outcome.stdout


# ── rewards that are gamed ──
