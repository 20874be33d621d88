"""Weighing the terms of a reward: one that drowns the others, two that pull against each other, one that rises while success falls."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rlclinic.diagnosis import reward_balance
from rlclinic.diagnosis.reward_balance import rank_correlation, weigh
from rlclinic.runs.history import History, Series
from rlclinic.serve.cli.app import app
from tests.training.cohorts import make_config, train

ROWS = 60
STEPS = np.linspace(1_000, 60_000, ROWS)
RISES = np.linspace(0, 10, ROWS)


def history(success: Any = None, rows: int = ROWS, **terms: Any) -> History:
    """A run whose terms have these returns; shares are of their sizes."""
    returns = {name: np.broadcast_to(np.asarray(values, float), (ROWS,))[:rows] for name, values in terms.items()}
    total = np.maximum(sum(np.abs(values) for values in returns.values()), 1e-9)
    series = {f"train/terms/{name}/return": Series(STEPS[:rows], values, name) for name, values in returns.items()}
    series |= {f"train/terms/{name}/share": Series(STEPS[:rows], np.abs(values) / total, name) for name, values in returns.items()}
    if success is not None:
        name = "train/roll/success_rate"
        series[name] = Series(STEPS[:rows], np.broadcast_to(np.asarray(success, float), (ROWS,))[:rows], name)
    return History("r", "rlclinic", env_id="Own-v0", algo="ppo", env_steps=60_000, settings={}, series=series)


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=ROWS)


CASES: list[tuple[str, list[History], str]] = [
    ("two terms that rise together", [history(task=RISES + noise(1), help=RISES + noise(2), success=RISES / 10)], "BALANCED"),
    (
        "terms that have nothing to do with each other",
        [history(a=5 + noise(seed), b=5 + noise(seed + 50)) for seed in range(5)],
        "BALANCED",
    ),
    ("one that drowns the other", [history(task=RISES / 100, help=50 + noise(3))], "ONE TERM DECIDES"),
    ("one that falls when the other rises", [history(task=5 + noise(4), energy=-5 - noise(4))], "CONFLICT"),
    ("the largest rises while success falls", [history(task=1.0, help=RISES + 5, success=1 - RISES / 10)], "AGAINST THE TASK"),
    ("the largest falls with success", [history(task=4 + noise(6), help=15 - RISES, success=1 - RISES / 10)], "BALANCED"),
    ("one term", [history(task=RISES)], "NOT ASSESSABLE"),
    ("no terms", [history()], "NOT ASSESSABLE"),
    ("too few rows", [history(rows=6, task=RISES, help=-RISES)], "NOT ASSESSABLE"),
    (
        "a run of two too short",
        [history(rows=6, task=RISES, help=RISES), history(task=RISES + noise(7), help=RISES + noise(8))],
        "BALANCED",
    ),
]


@pytest.mark.parametrize(("name", "runs", "verdict"), CASES, ids=[name for name, *_ in CASES])
def test_terms_are_weighed(name: str, runs: list[History], verdict: str) -> None:
    balance = weigh(runs)
    assert balance.verdict == verdict, balance


def test_a_conflict_says_where_in_training_it_is() -> None:
    quiet, loud = noise(1), noise(2)
    other = np.concatenate([noise(3)[: ROWS // 2] * 0.01, -loud[ROWS // 2 :]])
    balance = weigh([history(task=np.concatenate([quiet[: ROWS // 2] * 0.01, loud[ROWS // 2 :]]) + 5, energy=other - 5)])
    (conflict,) = balance.conflicts
    assert (conflict.first, conflict.second) == ("energy", "task")
    assert conflict.correlation < -0.5
    assert (conflict.start, conflict.end) == (30_000, 60_000)


def test_terms_of_chance_are_hardly_ever_called_a_conflict() -> None:
    found = [weigh([history(a=5 + noise(2 * seed), b=5 + noise(2 * seed + 1))]).verdict for seed in range(200)]
    assert found.count("CONFLICT") <= 2


def test_ranks_share_the_place_of_equal_values() -> None:
    assert rank_correlation(np.array([1.0, 2.0, 2.0, 3.0]), np.array([10.0, 20.0, 20.0, 90.0])) == pytest.approx(1.0)
    assert rank_correlation(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])) is None
    assert reward_balance._ranks(np.array([5.0, 1.0, 5.0])).tolist() == [2.5, 1.0, 2.5]


def test_the_command_answers_for_a_run_without_terms(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config("ppo")])[0]
    result = CliRunner().invoke(app, ["reward", "balance", run.id, "--runs-dir", str(tmp_path / "runs"), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["verdict"], report["terms"]) == ("NOT ASSESSABLE", [])
    shown = CliRunner().invoke(app, ["reward", "balance", run.id, "--runs-dir", str(tmp_path / "runs")])
    assert "NOT ASSESSABLE" in shown.output


def test_the_report_shows_every_term_and_conflict(capsys: pytest.CaptureFixture[str]) -> None:
    from rlclinic.report.models import BalancedTerm, RewardBalanceReport, TermConflict
    from rlclinic.serve.cli.text.results import print_reward_balance

    term = BalancedTerm(name="energy", first_share=0.25, last_share=None, first_return=-3.0, last_return=-1.0, with_truth=None)
    conflict = TermConflict(first="energy", second="task", correlation=-0.8, start=0, end=30_000)
    print_reward_balance(RewardBalanceReport(target="g", verdict="CONFLICT", reason="why", truth=None, terms=[term], conflicts=[conflict]))
    shown = capsys.readouterr().out
    assert "energy and task" in shown
    assert "0 to 30,000" in shown
    assert "25" in shown
