"""Weighing the terms of a reward: one that drowns the others, two that pull against each other, one that rises while success falls."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rlclinic.diagnosis.reward_balance import weigh
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


def test_a_potential_takes_back_what_it_pays_and_is_not_judged() -> None:
    """Where it is larger than all the rest, and falls whenever the task is done: both are what potentials do."""
    known = {"about.potentials": ["way"], "about.potential_gamma": 0.99, "algo.gamma": 0.99}
    run = history(task=RISES + noise(1), energy=RISES + noise(2), way=-1e3 * (RISES + noise(1)), success=RISES / 10)
    assert weigh([run]).verdict == "ONE TERM DECIDES"
    found = weigh([replace(run, settings=known)])
    assert (found.verdict, found.conflicts) == ("BALANCED", ())
    assert [term.name for term in found.terms if term.potential] == ["way"]
    # By another discount it does change what is best; and a large one does not make others small.
    assert weigh([replace(run, settings={**known, "algo.gamma": 0.9})]).verdict == "ONE TERM DECIDES"
    drowned = history(task=RISES / 100, energy=50 + noise(3), way=1e3 * RISES)
    assert weigh([replace(drowned, settings=known)]).reason.startswith("energy is 100%")
    alone = weigh([replace(history(task=RISES, way=-RISES), settings=known)])
    assert (alone.verdict, "nothing to be weighed against but potentials" in alone.reason) == ("NOT ASSESSABLE", True)


def returning(run: History, returns: Any, **settings: Any) -> History:
    run.series["train/roll/ep_rew_mean"] = Series(STEPS, np.broadcast_to(np.asarray(returns, float), (ROWS,)), "return")
    run.settings.update(settings)
    return run


def test_what_no_term_pays_is_said() -> None:
    """A term that appears after the run began has no column, and one that changes its name has only the old one."""
    assert weigh([returning(history(task=RISES, help=2.0), RISES + 2.0)]).rest is None
    assert weigh([returning(history(task=RISES, help=2.0), RISES + 2.0 + np.where(STEPS > 20_000, 5.0, 0.0))]).rest == pytest.approx(5.0)
    assert weigh([returning(history(task=RISES, help=2.0), RISES + 6.0, **{"env.term_weights": {"help": 3.0}})]).rest is None
    assert weigh([history(task=RISES, help=2.0)]).rest is None  # no return to be beside


def test_a_run_too_short_to_be_weighed_is_not_said_to_lack_success() -> None:
    assert weigh([history(rows=6, task=RISES, help=-RISES, success=1)]).truth == "train/roll/success_rate"
    assert weigh([history(rows=6, task=RISES, help=-RISES)]).truth is None


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


def test_the_command_answers_for_a_run_without_terms(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config("ppo")])[0]
    result = CliRunner().invoke(app, ["reward", "balance", run.id, "--runs-dir", str(tmp_path / "runs"), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["verdict"], report["terms"]) == ("NOT ASSESSABLE", [])
    shown = CliRunner().invoke(app, ["reward", "balance", run.id, "--runs-dir", str(tmp_path / "runs")])
    assert "NOT ASSESSABLE" in shown.output


def test_another_column_than_success_may_say_how_well_the_task_is_done() -> None:
    run = history(task=1.0, help=RISES + 5)
    assert weigh([run]).truth is None
    distance = "train/info/distance/last"
    run.series[distance] = Series(STEPS, 10 - RISES, distance)  # type: ignore[index]
    balance = weigh([run], distance)
    assert (balance.verdict, balance.truth) == ("AGAINST THE TASK", distance)
    assert "rises while train/info/distance/last falls" in balance.reason


def test_a_column_that_was_not_logged_is_refused_with_one_that_was(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config("ppo")])[0]
    result = CliRunner().invoke(
        app, ["reward", "balance", run.id, "--runs-dir", str(tmp_path / "runs"), "--truth", "train/rol/ep_rew_mean"]
    )
    assert result.exit_code == 2
    assert "train/roll/ep_rew_mean" in str(result.exception) + result.output


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
