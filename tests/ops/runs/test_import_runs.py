"""`import`: runs of other frameworks in the store; listed, shown, diagnosed and compared like our own; their folder only read."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rlclinic.errors import UsageError
from rlclinic.ops.runs import import_runs
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app

SAMPLES = Path(__file__).resolve().parents[2] / "readers" / "samples"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    monkeypatch.delenv("RLCLINIC_DEBUG", raising=False)


def rlclinic(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_an_imported_run_works_with_every_command_that_reads_runs() -> None:
    shutil.copytree(SAMPLES / "sb3_ppo", "mine")
    before = everything(Path("mine"))
    result = rlclinic("import", "mine", "--as", "sb3", "--threshold", "475")
    assert result.exit_code == 0, result.output
    assert "imported 1 run as 1 group" in result.stdout
    assert "joined as one run: progress.csv" in result.stdout
    assert "next      rlclinic diagnose sb3" in result.stdout
    run = Store("runs").group("sb3").runs[0].id
    assert run in rlclinic("runs", "list").stdout
    assert rlclinic("runs", "show", "sb3").exit_code == 0
    assert "train/metrics/kl_divergence" in rlclinic("runs", "metrics", run).stdout
    diagnosed = rlclinic("diagnose", "sb3")
    assert diagnosed.exit_code == 0, diagnosed.output
    assert "read as sb3" in diagnosed.stdout
    assert Path("runs/@groups/sb3/report.html").exists()
    assert everything(Path("mine")) == before


def test_several_runs_become_several_groups_with_numbered_names() -> None:
    result = import_runs.import_path(str(SAMPLES / "gymnasium_solver"), name="solver")
    assert len(result.runs) >= 2
    assert result.groups[0] == "solver"
    assert all(group.startswith("solver") for group in result.groups)
    assert {row.group for row in result.runs} == set(result.groups)


def test_the_same_run_is_not_imported_twice() -> None:
    import_runs.import_path(str(SAMPLES / "sb3_ppo"))
    with pytest.raises(UsageError, match="would be counted twice"):
        import_runs.import_path(str(SAMPLES / "sb3_ppo"))
    assert len(Store("runs").runs()) == 1


@pytest.mark.parametrize("name", ["no/slash", "@last", "x" * 60, ""])
def test_a_name_that_no_selector_could_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be an id"):
        import_runs.import_path(str(SAMPLES / "sb3_ppo"), name=name)
    assert Store("runs").runs() == []


def test_a_name_that_is_taken_is_refused() -> None:
    import_runs.import_path(str(SAMPLES / "sb3_ppo"), name="mine")
    with pytest.raises(UsageError, match="mine is in runs already"):
        import_runs.import_path(str(SAMPLES / "sb3_dqn"), name="mine")


def test_a_plain_table_is_read_with_a_mapping_threshold_and_budget() -> None:
    rows = "\n".join(f"{100 * n},{n},{n / 100}" for n in range(1, 40))
    Path("log.csv").write_text("env_step,score,divergence\n" + rows + "\n")
    mapped = ["--map", "train/roll/ep_rew_mean=score", "--map", "train/metrics/kl_divergence=divergence"]
    result = rlclinic("import", "log.csv", *mapped, "--threshold", "30", "--budget", "5k", "--as", "table", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["groups"] == ["table"]
    group = Store("runs").group("table")
    assert group.threshold == 30
    assert group.record["run"]["max_env_steps"] == 5_000


def test_what_is_no_log_is_an_error_and_leaves_no_group_behind() -> None:
    Path("picture.bin").write_bytes(bytes(range(256)) * 40)
    assert rlclinic("import", "picture.bin").exit_code == 2
    assert rlclinic("import", "nowhere").exit_code == 3
    assert not Path("runs").exists()


def test_cells_that_a_spreadsheet_would_run_do_not_reach_the_store() -> None:
    rows = "\n".join(f"{100 * n},{n},=cmd|'/c calc'!A1" for n in range(1, 40))
    Path("log.csv").write_text("total_timesteps,train/roll/ep_rew_mean,=HYPERLINK(1)\n" + rows + "\n")
    assert rlclinic("import", "log.csv", "--as", "table").exit_code == 0
    table = next(Path("runs").glob("table-*/metrics.csv")).read_text()
    assert "=" not in table


def test_a_damaged_run_in_the_store_is_no_reason_to_refuse_another() -> None:
    first = import_runs.import_path(str(SAMPLES / "sb3_dqn"))
    (Path("runs") / first.runs[0].run / "config.json").write_text("{")
    assert import_runs.import_path(str(SAMPLES / "sb3_ppo")).groups
