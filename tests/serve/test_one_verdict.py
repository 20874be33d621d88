"""The same folder gets the same verdict and the same steps to the threshold, whoever is asked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rlclinic import readers
from rlclinic.comparison.compare import compare_sides
from rlclinic.comparison.sides import of_histories
from rlclinic.config import Config
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.diagnose.history import history_of
from rlclinic.ops.diagnose.write_reports import write_reports
from rlclinic.ops.runs import search
from rlclinic.ops.runs.listing import list_runs
from rlclinic.ops.status import forecast, status
from rlclinic.report.group import describe_group
from rlclinic.runs.database.index import Index
from rlclinic.runs.history import of_run
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.serve.cli.app import app as command_line
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings
from rlclinic.serve.mcp.server import build
from rlclinic.serve.mcp.settings import Settings as McpSettings
from rlclinic.treatment.trial.outcomes import observe
from tests.serve.mcp.stores import ran

EVALUATION, TRAINING = "val/roll/ep_rew_mean", "train/roll/ep_rew_mean"
BUDGET = 10_000
Rows = Sequence[tuple[int, float]]


def record(root: Path, seeds: Sequence[Rows], *, column: str = EVALUATION, states: Sequence[str] | None = None) -> Group:
    """A group of ours as training leaves it behind, with the returns that are given and rising training returns beside evaluations."""
    settings = {"env": {"id": "CartPole-v1"}, "spec": {"threshold": 475.0}, "run": {"max_env_steps": BUDGET}}
    configs = [Config.model_validate({"name": "CartPole-v1:ppo", **settings, "seed": seed}) for seed in range(len(seeds))]
    group = Store(root).create_group(configs)
    for run, rows, state in zip(group.runs, seeds, states or ["finished"] * len(seeds), strict=True):
        names = ["time", "total_timesteps", "total_episodes", TRAINING, EVALUATION]
        with RunWriter(run.path, names) as writer:
            passed = [step for step, value in rows if value >= 475.0 and value < float("inf")]
            for step, value in rows:
                cells = {"total_timesteps": step, "time": float(step), TRAINING: 20.0 + step / 1_000, "total_episodes": step}
                writer.row({**cells, column: value})
            figures: dict[str, Any] = {"return_mean": rows[-1][1] if column == TRAINING else 20.0 + rows[-1][0] / 1_000} if rows else {}
            if column == EVALUATION:
                figures |= {"eval_mean": rows[-1][1] if rows else None, "threshold_reached_at": passed[0] if passed else None}
            writer.status(state, rows[-1][0] if rows else 0, max_env_steps=BUDGET, **figures)
    return group


def ask_for_verdicts(root: Path, group: Group) -> dict[str, str]:
    """What everybody says of a group."""
    found = diagnose.diagnose(group.id, root)
    report, _ = write_reports(group, found)
    shown = CliRunner().invoke(command_line, ["runs", "show", group.id, "--runs-dir", str(root), "--json"])
    written = json.loads((group.path / "diagnosis.json").read_text())
    with TestClient(create_app(Store(root), Settings(mcp=False, prepare=False, no_token=True)), base_url="http://localhost") as client:
        over_http = client.get(f"/api/v1/groups/{group.id}").json()["report"]
        listed = client.get("/api/v1/groups").json()["items"][0]
        diagnosed = client.get(f"/api/v1/groups/{group.id}/diagnosis").json()["diagnosis"]

    async def over_mcp() -> dict[str, Any]:
        async with Client(build(Store(root), McpSettings())) as client:
            return dict((await client.call_tool("diagnose_run", {"run_id": group.id})).structured_content or {})

    return {
        "summary": group.verdict,
        "report": report.verdict,
        "report.md": (group.path / "report.md").read_text().splitlines()[0].rsplit("· ", 1)[1],
        "diagnosis": found.diagnosis.verdict,
        "diagnosis.json": written["verdict"],
        "command line": json.loads(shown.stdout)["verdict"],
        "HTTP list": listed["verdict"],
        "HTTP group": over_http["verdict"],
        "HTTP diagnosis": diagnosed["verdict"],
        "MCP": ran(over_mcp)["verdict"],
    }


def ask_for_crossings(root: Path, group: Group) -> dict[str, list[int | None]]:
    """The env steps at which everybody says that the runs reached the threshold."""
    listed = {row.id: row.threshold_reached_at for row in list_runs(root).runs}
    forecasts = forecast.assess([of_run(run) for run in group.runs], group.id).seeds
    return {
        "summary": [seed.reached_at for seed in group.summary.seeds],
        "report": [seed.threshold_reached_at for seed in describe_group(group).seeds],
        "trial": [observe(run, 475.0).reached_at for run in group.runs],
        "list": [listed[run.id] for run in group.runs],
        "live": [member.threshold_reached_at for member in status.observe(group).members],
        "forecast": [seed.reached_at for seed in forecasts],
    }


def ask_for_counts(root: Path, group: Group) -> dict[str, int | None]:
    """How many runs everybody says reached the threshold."""
    index = Index(Store(root))
    index.refresh(full=True)
    listed = search.search_groups(index, search.Query()).items[0].reached
    index.close()
    side = of_histories("one", [of_run(run) for run in group.runs])
    return {
        "summary": group.summary.n_reached,
        "diagnosis": diagnose.diagnose(group.id, root).diagnosis.facts.reached,
        "index": listed,
        "comparison": compare_sides([side, side]).outcomes[0].reached,
        "history": history_of("CartPole-v1", root).groups[0].reached,
    }


SOLVED: Rows = [(1_000 * step, 60.0 * step) for step in range(1, 11)]
LOST: Rows = [*SOLVED[:9], (10_000, 20.0)]
NEVER: Rows = [(1_000 * step, 20.0) for step in range(1, 11)]


@pytest.mark.parametrize(
    ("seeds", "column", "states", "verdict"),
    [
        ([SOLVED, SOLVED], EVALUATION, None, "SOLVED"),
        ([SOLVED, NEVER], EVALUATION, None, "PARTLY SOLVED"),
        ([SOLVED, SOLVED], TRAINING, None, "NOT EVALUATED"),
        ([NEVER, NEVER], TRAINING, None, "NOT EVALUATED"),
        ([SOLVED, SOLVED], EVALUATION, ["failed", "failed"], "SOLVED"),
        ([LOST, SOLVED], EVALUATION, None, "REACHED, THEN LOST"),
        ([LOST, LOST], EVALUATION, ["failed", "failed"], "REACHED, THEN LOST"),
        ([NEVER, NEVER], EVALUATION, ["failed", "failed"], "FAILED"),
    ],
    ids=[
        "solved",
        "partly",
        "solved in training only",
        "never evaluated",
        "failed after it was solved",
        "lost",
        "failed after it was lost",
        "failed",
    ],
)
def test_a_group_gets_one_verdict_everywhere(
    tmp_path: Path, seeds: list[Rows], column: str, states: list[str] | None, verdict: str
) -> None:
    group = record(tmp_path / "runs", seeds, column=column, states=states)
    found = ask_for_verdicts(tmp_path / "runs", group)
    assert set(found.values()) == {verdict}, found


def test_a_run_that_says_nothing_is_not_called_healthy_for_its_siblings(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    nothing: Rows = []
    group = record(root, [SOLVED, nothing])
    assert set(ask_for_verdicts(root, group).values()) == {"PARTLY SOLVED"}
    diagnosis = diagnose.diagnose(group.id, root).diagnosis
    assert diagnosis.answer == "1 of 2 runs logged no return: nothing can be said about them"
    outlook = forecast.assess([of_run(run) for run in group.runs], group.id)
    assert (outlook.decision, outlook.probability) == ("ENDED", 0.5)
    assert outlook.reason.startswith("1 of 2 seeds got there; of another: ")
    broken = record(root, [SOLVED, [(step, value + 1) for step, value in SOLVED], [(step, float("nan")) for step, _ in SOLVED]])
    told = [cause.id for cause in diagnose.diagnose(broken.id, root).diagnosis.causes]
    assert "not-finite" in told
    assert "healthy" not in told


def test_runs_that_got_there_and_lost_it_did_not_have_too_few_steps(tmp_path: Path) -> None:
    group = record(tmp_path / "runs", [[(step, value + seed) for step, value in LOST] for seed in range(3)])
    found = diagnose.diagnose(group.id, tmp_path / "runs").diagnosis
    assert found.verdict == "REACHED, THEN LOST"
    assert "budget-too-small" not in {cause.id for cause in found.causes}


@pytest.mark.parametrize(
    "seed",
    [
        SOLVED,
        LOST,
        NEVER,
        [(0, 500.0), *NEVER],
        [(1_000, float("nan")), (2_000, 475.0), (3_000, float("nan")), (4_000, 9.0)],
        [(1_000, float("inf")), (2_000, 9.0), (3_000, 480.0), (4_000, 480.0)],
        [(1_000, 9.0), (2_000, 9.0), (2_000, 480.0), (3_000, 9.0)],
    ],
    ids=["solved", "lost", "never", "at step 0", "NaN between", "infinite", "twice at one step"],
)
def test_a_crossing_is_the_same_env_step_everywhere(tmp_path: Path, seed: Rows) -> None:
    root = tmp_path / "runs"
    group = record(root, [seed, SOLVED])
    expected = [next((step for step, value in rows if 475.0 <= value < float("inf")), None) for rows in (seed, SOLVED)]
    crossings, counts = ask_for_crossings(root, group), ask_for_counts(root, group)
    assert all(steps == expected for steps in crossings.values()), crossings
    assert set(counts.values()) == {sum(at is not None for at in expected)}, counts


@pytest.mark.parametrize(("top", "verdict"), [(500.0, "SOLVED"), (300.0, "NOT SOLVED")])
def test_a_foreign_log_with_training_returns_only_gets_the_verdict_of_its_import(tmp_path: Path, top: float, verdict: str) -> None:
    log = tmp_path / "progress.csv"
    rows = [f"{step},{min(top, step / 15)}" for step in range(100, 10_000, 100)]
    log.write_text("\n".join(["time/total_timesteps,rollout/ep_rew_mean", *rows]) + "\n")
    histories = readers.read(log, threshold=475.0)
    assert {each.source for each in histories} == {"sb3"}
    read = diagnose.diagnose(str(log), tmp_path / "runs", threshold=475.0)
    group = readers.import_runs(histories, Store(tmp_path / "runs"))[0].group
    assert group is not None
    imported = diagnose.diagnose(group.id, tmp_path / "runs")
    assert {read.diagnosis.verdict, imported.diagnosis.verdict, group.verdict} == {verdict}
    assert "training" in group.summary.note
    assert [row.threshold_reached_at for row in list_runs(tmp_path / "runs").runs] == [seed.reached_at for seed in group.summary.seeds]
