"""What holds whatever lies in a folder: the same bytes out, an error that can be read or a partial answer, nothing heavy imported."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from rlclinic.runs.record import Group
from rlclinic.serve.cli.app import app
from tests.diagnosis.stored import write_group

ROOT = Path(__file__).resolve().parents[2]
RETURN, KL = "train/roll/ep_rew_mean", "train/metrics/kl_divergence"
FILES = ["metrics.csv", "status.json", "run.log", "interventions.jsonl", "config.json"]
CELLS = ["1", "-1e308", "1e308", "nan", "inf", "-inf", "", "0", "=1+1", "1e-308", "x"]
HOSTILE = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    monkeypatch.delenv("RLCLINIC_DEBUG", raising=False)
    return tmp_path


def diagnose(*arguments: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(app, ["diagnose", *arguments], input=stdin)
    assert "failed unexpectedly" not in result.output, result.output
    assert "Traceback" not in result.output
    assert result.exit_code in (0, 2, 3), result.output
    if result.exit_code:
        assert result.stderr.strip()
    return result


# ── the same bytes ──


def in_a_process(folder: Path, target: str, hashed: str, package: Path = ROOT) -> bytes:
    """What a process of its own writes into diagnosis.json."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONHASHSEED": hashed}
    code = "from rlclinic.serve.cli.app import main; import sys; sys.argv = ['rlclinic', 'diagnose', sys.argv[1]]; main()"
    outcome = subprocess.run([sys.executable, "-c", code, target], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return (folder / "runs" / "@groups" / target / "diagnosis.json").read_bytes()


def test_the_same_folder_gives_the_same_bytes_in_every_process(folder: Path) -> None:
    group = write_group("cp-lr-x30")
    assert in_a_process(folder, group.id, "1") == in_a_process(folder, group.id, "2")


def test_the_answer_does_not_change_when_the_shipped_yamls_are_deleted(folder: Path) -> None:
    group = write_group("cp-lr-x30")
    bare = folder / "bare"
    shutil.copytree(ROOT / "rlclinic", bare / "rlclinic", ignore=shutil.ignore_patterns("*.yaml", "*.yml"))
    assert not list((bare / "rlclinic").rglob("*.yaml"))
    assert in_a_process(folder, group.id, "1", bare) == in_a_process(folder, group.id, "1")


# ── damaged folders of ours ──


def only_run(group: Group) -> Path:
    return group.runs[0].path


@pytest.fixture
def healthy(folder: Path) -> Group:
    return write_group("cp-healthy")


@pytest.mark.parametrize("name", ["metrics.csv", "config.json", "status.json", "run.log"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.97])
def test_a_file_that_was_cut_short_gives_an_error_or_a_partial_answer(healthy: Group, name: str, share: float) -> None:
    path = only_run(healthy) / name
    content = path.read_bytes() if path.exists() else b"started\nfinished\n"
    path.write_bytes(content[: int(share * len(content))])
    diagnose(healthy.id)
    diagnose(healthy.runs[0].id)


def test_missing_runs_and_files_are_survived(healthy: Group) -> None:
    shutil.rmtree(healthy.runs[0].path)
    (healthy.runs[1].path / "metrics.csv").unlink()
    assert diagnose(healthy.id).exit_code == 0
    for run in healthy.runs[1:]:
        shutil.rmtree(run.path)
    assert diagnose(healthy.id).exit_code == 2


@HOSTILE
@given(content=st.binary(max_size=400), name=st.sampled_from(FILES))
def test_any_bytes_in_any_file_of_a_run_are_survived(folder: Path, content: bytes, name: str) -> None:
    shutil.rmtree(folder / "runs", ignore_errors=True)
    group = write_group("cp-lr-x100")
    (only_run(group) / name).write_bytes(content)
    diagnose(group.id)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(10**400), 10**400) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@HOSTILE
@given(section=st.sampled_from(["spec", "env", "algo", "net", "run", "source", "seed", "parent", "origins"]), value=JSON)
def test_any_value_in_a_config_is_survived(folder: Path, section: str, value: object) -> None:
    shutil.rmtree(folder / "runs", ignore_errors=True)
    group = write_group("cp-lr-x100")
    path = only_run(group) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {section: value}))
    diagnose(group.id)
    diagnose(group.runs[0].id)


# ── logs of others ──


@HOSTILE
@given(st.binary(max_size=600))
def test_any_bytes_through_a_pipe_are_survived(content: bytes) -> None:
    diagnose("-", "--threshold", "475", stdin=content)


@HOSTILE
@given(st.lists(st.lists(st.sampled_from(CELLS), min_size=3, max_size=3)))
def test_any_cells_in_a_table_are_survived(rows: list[list[str]]) -> None:
    Path("log.csv").write_text(f"total_timesteps,{RETURN},{KL}\n" + "".join(",".join(row) + "\n" for row in rows))
    diagnose("log.csv", "--threshold", "1e308", "--out", "report")


def write_table(path: str, values: np.ndarray) -> None:
    steps = 100 * np.arange(1, len(values) + 1)
    rows = "".join(f"{step},{value!r},{0.01}\n" for step, value in zip(steps.tolist(), values.tolist(), strict=True))
    Path(path).write_text(f"total_timesteps,{RETURN},{KL}\n{rows}")


@pytest.mark.parametrize("level", [1e308, -1e308, 1e-320, math.inf, math.nan])
def test_numbers_at_the_end_of_the_world_are_survived(level: float) -> None:
    values = np.where(np.arange(80) % 3 == 0, level, 5.0)
    write_table("log.csv", values)
    result = diagnose("log.csv", "--threshold", "100", "--out", "report")
    assert result.exit_code == 0, result.output
    assert Path("report/report.html").exists()
    json.loads(diagnose("log.csv", "--threshold", "100", "--json").stdout)


def test_a_log_with_colours_bells_and_markup_stays_text() -> None:
    name = "\x1b[31m<img src=x onerror=alert(1)>\x07"
    write_group("cp-lr-x100", Path("other"))
    for path in Path("other").glob("*/config.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"env": {**record["env"], "id": name}, "name": name}))
    group = next(Path("other/@groups").iterdir())
    record = json.loads((group / "group.json").read_text())
    (group / "group.json").write_text(json.dumps(record | {"env": {**record["env"], "id": name}, "name": name}))
    result = diagnose(group.name, "--runs-dir", "other")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    page = (group / "report.html").read_text()
    assert "<img" not in page
    assert "\x1b" not in page
    # In a fenced block, as the config is, everything is text.
    assert "<img" not in re.sub(r"```.*?```", "", (group / "report.md").read_text(), flags=re.DOTALL)


def test_a_foreign_folder_is_not_written_to_even_with_out(folder: Path) -> None:
    Path("foreign").mkdir()
    write_table("foreign/progress.csv", np.linspace(5, 9, 60))
    assert diagnose("foreign", "--out", "foreign/report").exit_code == 2
    assert [path.name for path in Path("foreign").iterdir()] == ["progress.csv"]
    assert diagnose("foreign", "--out", "report").exit_code == 0
    assert sorted(path.name for path in Path("report").iterdir()) == ["diagnosis.json", "report.html", "report.md"]


@pytest.mark.slow
def test_a_million_rows_are_read_to_the_end() -> None:
    values = 200 + 100 * np.sin(np.arange(1_000_000) / 5_000)
    write_table("log.csv", values)
    result = diagnose("log.csv", "--threshold", "475")
    assert result.exit_code == 0, result.output
    # Long logs are thinned while they are read: the last step may be one of the thousands before it.
    shown = re.search(r"([\d,]+) env steps", result.stdout)
    assert shown is not None
    assert 99_900_000 < int(shown[1].replace(",", "")) <= 100_000_000


# ── nothing heavy ──


def test_no_part_of_a_diagnosis_imports_torch_scipy_pyplot_or_gymnasium(folder: Path, healthy: Group) -> None:
    code = (
        "import sys, json\nfrom rlclinic.serve.cli.app import app\n"
        "for words in (['diagnose'], ['rules', 'POL101'], ['history', 'CartPole-v1'], ['diagnose', '--json']):\n"
        "    try:\n        app(words)\n    except SystemExit as end:\n        assert not end.code\n"
        "heavy = ('torch', 'scipy', 'matplotlib', 'gymnasium', 'tensorboard', 'pandas', 'stable_baselines3')\n"
        "print('\\n' + json.dumps([name for name in heavy if name in sys.modules]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    outcome = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout.splitlines()[-1]) == []
