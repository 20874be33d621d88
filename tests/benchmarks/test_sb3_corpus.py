"""The corpus of Stable-Baselines3 runs: what is planted, what is admitted, and what comes back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.diagnosis import sb3_corpus
from benchmarks.diagnosis.sb3_cells import CELLS, TASKS
from benchmarks.diagnosis.sb3_corpus import Cell
from rlclinic.diagnosis import causes
from rlclinic.runs.history import History, make_series


def run(*returns: float) -> History:
    made = make_series(np.arange(len(returns)), returns, "eval")
    assert made is not None
    return History(id="x", source="sb3", series={sb3_corpus.EVAL: made})


def cell(fault: str, *scores: float, severity: str = "strong") -> Cell:
    runs = tuple(run(0.0, score) for score in scores)
    return Cell(fault, "dropped", "E", "cartpole", severity, 475.0, f"{fault}{scores}", runs, runs)


def roles(*cells: Cell) -> list[str]:
    return [each.role for each in sb3_corpus._admitted(cells)]


HEALTHY = cell("healthy", 480.0, 490.0, 500.0, severity="control")


def test_every_fault_is_a_cause_and_every_cell_has_its_own_name() -> None:
    assert {spec.fault for spec in CELLS} - {"healthy"} <= set(causes.table())
    assert len({spec.name for spec in CELLS}) == len(CELLS)
    assert {spec.task for spec in CELLS} == set(TASKS)


def test_a_fault_counts_only_if_it_hurts() -> None:
    assert roles(HEALTHY, cell("reward-noise", 100.0, 200.0, 300.0)) == ["healthy", "fault"]
    assert roles(HEALTHY, cell("reward-noise", 476.0, 477.0, 478.0)) == ["healthy", "fault"]
    assert roles(HEALTHY, cell("reward-noise", 480.0, 490.0, 500.0)) == ["healthy", "must-not-alarm"]
    assert roles(HEALTHY, cell("reward-noise", 100.0, 490.0, 500.0)) == ["healthy", "dropped"]


def test_a_control_that_does_not_solve_its_task_is_none() -> None:
    assert roles(HEALTHY, cell("healthy", 500.0, 500.0, 100.0, severity="odd")) == ["healthy", "dropped"]


def test_the_plain_view_has_only_what_sb3_logs(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    path.write_text("time/total_timesteps,train/sentinel/adv_std,train/approx_kl,train/hp/gamma,train/metrics/grad_norm/all\n1,2,3,4,5\n")
    sb3_corpus._strip(path)
    assert path.read_text() == "time/total_timesteps,train/approx_kl\n1,3\n"


@pytest.fixture(scope="module")
def corpus() -> list[Cell]:
    return sb3_corpus.load()


def test_the_saved_corpus_has_both_views_of_the_same_runs(corpus: list[Cell]) -> None:
    for each in corpus:
        assert len(each.histories_plain) == len(each.histories_sentinels) == 3
        for plain, full in zip(each.histories_plain, each.histories_sentinels, strict=True):
            assert plain.threshold is None
            assert full.threshold == each.threshold
            ours = [name for name in plain.series if name.startswith(("train/sentinel/", "train/metrics/grad_norm/"))]
            assert set(ours) <= {"train/sentinel/optimizer_steps"}  # A2C's own count of updates
            assert "train/sentinel/update_ratio_max" in full.series
            assert "algo.optimizer" in full.settings
            assert "algo.optimizer" not in plain.settings
            assert plain[sb3_corpus.EVAL].values.tolist() == full[sb3_corpus.EVAL].values.tolist()
        assert all(run.threshold == each.threshold for run in each.plain())


def test_the_saved_roles_are_those_of_the_rule(corpus: list[Cell]) -> None:
    assert [each.role for each in corpus] == roles(*(replace(each, role="dropped") for each in corpus))
    healthy = sum(each.role in ("healthy", "must-not-alarm") for each in corpus)
    assert healthy >= 0.2 * len(corpus)


def test_the_saved_corpus_is_small() -> None:
    assert sb3_corpus.FILE.stat().st_size < 4_000_000
