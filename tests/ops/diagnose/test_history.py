"""`history ENV`: what was tried, and what separates solved from failed; honest about how few groups there are."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from typer.testing import CliRunner, Result

from rlclinic.errors import NotFound
from rlclinic.ops.diagnose import history
from rlclinic.ops.diagnose.history import EnvironmentHistory, history_of
from rlclinic.runs.history import History, Series
from rlclinic.runs.record import Group, Run
from rlclinic.serve.cli.app import app
from tests.ops.recorded import flat, record_group

SAMPLES = Path(__file__).resolve().parents[2] / "readers" / "samples"
BUDGET = "run.max_env_steps=10240"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLCLINIC_RUNS", raising=False)
    monkeypatch.delenv("RLCLINIC_DEBUG", raising=False)


def rlclinic(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def solved(*changes: str) -> Group:
    return record_group(Path("runs"), seeds=(0,), changes=(BUDGET, *changes))


def failed(*changes: str) -> Group:
    return record_group(Path("runs"), seeds=(0,), returns=flat, changes=(BUDGET, *changes))


def row(found: EnvironmentHistory, name: str) -> history.Separation:
    return next(each for each in found.separations if each.name == name)


def test_a_setting_that_differs_between_solved_and_failed_groups_separates_them() -> None:
    for rate in (1, 2, 3, 4, 5, 6):
        solved(f"algo.learning_rate={rate}e-4")
        failed(f"algo.learning_rate={rate}e-2")
    found = history_of("CartPole-v1")
    assert (found.n_solved, found.n_failed) == (6, 6)
    rate = row(found, "algo.learning_rate")
    assert found.separations[0].name in ("algo.learning_rate", rate.name)
    assert rate.superiority == 0.0
    assert rate.said == "separates them"
    assert (rate.n_solved, rate.n_failed) == (6, 6)
    assert "need not be its reason" in found.note


def test_p_values_are_exact_and_corrected_for_the_number_of_questions() -> None:
    for rate, gamma in ((1, 0.9), (2, 0.99), (3, 0.95), (4, 0.92), (5, 0.97)):
        solved(f"algo.learning_rate={rate}e-4", f"algo.gamma={gamma}")
        failed(f"algo.learning_rate={rate}e-2", f"algo.gamma={gamma - 0.01:.2f}")
    found = history_of("CartPole-v1")
    alone = mannwhitneyu([1e-4, 2e-4, 3e-4, 4e-4, 5e-4], [1e-2, 2e-2, 3e-2, 4e-2, 5e-2], method="exact").pvalue
    assert row(found, "algo.learning_rate").p == pytest.approx(min(1.0, alone * len(found.separations)), rel=1e-6)
    assert row(found, "algo.gamma").said.startswith(("not shown", "n too small"))


@pytest.mark.parametrize(("good", "bad"), [(1, 1), (2, 2), (3, 0)])
def test_a_few_groups_are_too_few_however_clear_it_looks(good: int, bad: int) -> None:
    for place in range(good):
        solved(f"algo.learning_rate={place + 1}e-4")
    for place in range(bad):
        failed(f"algo.learning_rate={place + 1}e-2")
    found = history_of("CartPole-v1")
    assert all(each.said.startswith("n too small") for each in found.separations)


def test_words_are_compared_too() -> None:
    for _ in range(6):
        solved("net.activation=tanh")
        failed("net.activation=relu")
    found = row(history_of("CartPole-v1"), "net.activation")
    assert (found.solved, found.failed, found.said) == ("tanh", "relu", "separates them")


def test_groups_are_listed_oldest_first_with_best_worst_and_what_differs() -> None:
    first, second = solved("algo.gamma=0.9"), failed("algo.gamma=0.5")
    found = history_of("cartpole-v1")
    assert [tried.id for tried in found.groups] == [first.id, second.id]
    assert (found.best, found.worst) == (first.id, second.id)
    assert found.groups[1].changed["algo.gamma"] == 0.5
    assert found.groups[0].changed == {}
    assert (found.groups[0].reached, found.groups[1].reached) == (1, 0)
    assert found.groups[0].steps_to_threshold is not None


def test_folders_of_other_frameworks_are_part_of_it() -> None:
    solved()
    found = history_of("CartPole-v1", paths=[str(SAMPLES / "sb3_ppo")], threshold=475.0)
    assert {tried.source for tried in found.groups} == {"rlclinic", "sb3"}


def test_without_a_threshold_nothing_counts_as_solved() -> None:
    found = history_of("Pendulum-v1", paths=[str(SAMPLES / "sb3_sac")])
    assert found.groups[0].solved is None
    assert "no threshold is known" in found.note
    # One of Gymnasium's own has a threshold that everybody knows.
    assert history_of("CartPole-v1", paths=[str(SAMPLES / "sb3_ppo")]).groups[0].solved is False


def test_a_success_rate_that_is_required_tells_solved_from_failed_without_any_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    solved()
    read = history.history.of_run

    def with_success(run: Run) -> History:
        found = read(run)
        steps = found.series["val/roll/ep_rew_mean"].steps
        rates = {"val/roll/success_rate": Series(steps, np.linspace(0.0, 1.0, len(steps)), "val/roll/success_rate")}
        return replace(found, env_id="Lift", threshold=None, success=0.9, series={**found.series, **rates})

    monkeypatch.setattr(history.history, "of_run", with_success)
    found = history_of("CartPole-v1")
    assert (found.groups[0].reached, found.groups[0].solved, found.n_solved) == (1, True, 1)
    assert "no threshold" not in found.note


def test_an_environment_that_nobody_tried_offers_those_that_were() -> None:
    solved()
    with pytest.raises(NotFound, match=r"no run of CartPole-v0 in runs\.\n  There are runs of: CartPole-v1"):
        history_of("CartPole-v0")


def shown(arguments: Sequence[str]) -> str:
    result = rlclinic("history", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_prints_a_table_and_json() -> None:
    good, bad = solved("algo.gamma=0.9"), failed("algo.gamma=0.5")
    text = shown(["CartPole-v1"])
    assert f"{good.id} (best)" in text
    assert "1 solved, 1 failed" in text
    assert "too few to say what separates them" in text
    assert f"look at   rlclinic diagnose {bad.id}" in text
    assert json.loads(shown(["CartPole-v1", "--json"]))["best"] == good.id
    assert rlclinic("history", "Nothing-v0").exit_code == 3


def test_damaged_groups_and_runs_do_not_hide_the_others() -> None:
    good, broken, half = solved(), solved(), failed()
    (broken.path / "group.json").write_text("[]")
    (half.runs[0].path / "config.json").write_text("{")
    assert [tried.id for tried in history_of("CartPole-v1").groups] == [good.id, half.id]
