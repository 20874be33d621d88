"""Sensitivity studies: which values are tried, what they come to, and that a killed study goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import Config, files
from rlclinic.config.schedule import Schedule
from rlclinic.errors import UsageError
from rlclinic.ops.treat.requests import SensitivityRequest
from rlclinic.ops.treat.sensitivity import plan, resume, run
from rlclinic.report.sensitivity import label, page, position, summary
from rlclinic.runs.store import Store
from rlclinic.treatment.sensitivity import study
from rlclinic.treatment.sensitivity.study import Scope, scaled
from tests.treatment.pretended_training import pretend


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo_zoo", ["run.max_env_steps=20000", *changes]).config


def asked(root: Path, changes: list[str], **scope: Any) -> SensitivityRequest:
    return SensitivityRequest(target="CartPole-v1:ppo_zoo", runs_dir=root, changes=changes, **scope)


def rate_of(made: Config) -> float:
    return float(getattr(made.algo.learning_rate, "start", made.algo.learning_rate))


def the_faster_the_higher(made: Config) -> float | None:
    """A run that needs half of its budget at 1e-3, and less at higher rates."""
    return min(0.5 * 1e-3 / rate_of(made), 1.0)


# ── values ──


def test_a_schedule_is_scaled_as_a_whole():
    schedule = Schedule(start=1e-3, end=1e-4, schedule="linear")
    assert scaled("algo.learning_rate", schedule, 2.0) == {**schedule.model_dump(mode="json"), "start": 2e-3, "end": 2e-4}


def test_a_discount_is_scaled_by_how_far_it_looks_ahead():
    assert scaled("algo.gamma", 0.99, 2.0) == pytest.approx(0.995)
    assert scaled("algo.gamma", 0.99, 0.5) == pytest.approx(0.98)
    assert scaled("algo.gae_lambda", 0.5, 0.25) == 0.0


def test_whole_numbers_stay_whole():
    assert scaled("algo.n_epochs", 3, 0.25) == 1
    assert scaled("algo.n_steps", 32, 2.0) == 64
    assert scaled("algo.batch_size", 0.5, 0.5) == 0.25


def test_a_study_varies_every_number_and_says_what_it_leaves_out(tmp_path):
    found = study.plan(Store(tmp_path), "CartPole-v1:ppo_zoo", config(), Scope(factors=(2.0, 4.0), seeds=3))
    settings = {arm.setting for arm in found.arms}
    assert settings == {"algo.gamma", "algo.gae_lambda", "algo.learning_rate", "algo.clip_range", "algo.vf_coef", "algo.max_grad_norm"}
    assert len(found.arms) == 4 * len(settings)
    assert any("ent_coef is 0" in text for text in found.skipped)
    assert any("target_kl is none" in text for text in found.skipped)
    assert found.max_env_steps == (len(found.arms) + 1) * 3 * 20_000
    assert found.config["run"]["stop_at_threshold"] is True


def test_values_that_the_schema_refuses_are_left_out_with_the_reason(tmp_path):
    found = study.plan(Store(tmp_path), "x", config("algo.clip_range=0.4"), Scope(only=("clip_range",)))
    assert [arm.factor for arm in found.arms] == [0.5, 2.0, 0.25]
    assert any(text.startswith("clip_range x4") for text in found.skipped)


@pytest.mark.parametrize(
    ("scope", "words"),
    [(Scope(factors=(0.5,)), "between 1 and 100"), (Scope(seeds=1), "told from chance"), (Scope(only=("colour",)), "no number to vary")],
)
def test_a_scope_that_makes_no_sense_is_refused(tmp_path, scope, words):
    with pytest.raises(UsageError, match=words):
        study.plan(Store(tmp_path), "x", config(), scope)


# ── studies ──


def planned_study(tmp_path, monkeypatch, **more):
    planned = plan(asked(tmp_path, ["run.max_env_steps=20000"], seeds=8, only=["learning_rate", "vf_coef"]))
    trained = pretend(monkeypatch, the_faster_the_higher, **more)
    return planned, trained


def test_the_number_that_matters_comes_first(tmp_path, monkeypatch):
    planned, trained = planned_study(tmp_path, monkeypatch)
    result = run(planned, tmp_path)
    assert len(trained.trained) == 9 * 8
    effects = {row.arm.name: row.effect for row in result.study.rows}
    # Twice the rate takes half the steps, half the rate all of the budget.
    assert effects["algo.learning_rate x2"] == pytest.approx(0.5, rel=0.1)
    assert effects["algo.learning_rate /2"] == pytest.approx(2.0, rel=0.1)
    assert effects["algo.vf_coef x4"] == pytest.approx(1.0)
    assert result.ranking[0][0] == "algo.learning_rate"
    verdicts = {row.arm.name: row.verdict for row in result.study.rows}
    assert verdicts["algo.learning_rate x4"] == "better"
    assert verdicts["algo.learning_rate /4"] == "worse"
    assert verdicts["algo.vf_coef /2"] == "no difference seen"


def test_what_is_not_shown_is_not_called_important(tmp_path, monkeypatch):
    planned, _ = planned_study(tmp_path, monkeypatch)
    result = run(planned, tmp_path)
    assert summary(result.study) == "shown to matter: learning_rate"
    alike = tuple(row.model_copy(update={"verdict": "no difference seen"}) for row in result.study.rows)
    assert summary(result.study.model_copy(update={"rows": alike})).startswith("nothing is shown to matter")
    few = result.study.model_copy(update={"rows": alike, "seeds": result.study.seeds[:4]})
    assert "4 seeds cannot show" in summary(few)
    assert "at least 6 seeds" in summary(few)


def test_all_arms_share_fresh_seeds_and_one_cohort(tmp_path, monkeypatch):
    planned, _ = planned_study(tmp_path, monkeypatch)
    result = run(planned, tmp_path)
    groups = [group for group in Store(tmp_path).groups() if group.record.get("trial") == result.study.id]
    assert {tuple(group.seeds) for group in groups} == {result.study.seeds}
    assert min(result.study.seeds) >= 1000


def test_a_killed_study_goes_on_without_training_anything_twice(tmp_path, monkeypatch):
    planned, first = planned_study(tmp_path, monkeypatch, kill_after=10)
    with pytest.raises(KeyboardInterrupt):
        run(planned, tmp_path)
    again = pretend(monkeypatch, the_faster_the_higher)
    result = resume("@last", tmp_path)
    assert len(first.trained) == 10
    assert not set(first.trained) & set(again.trained)
    assert len(first.trained) + len(again.trained) == 72
    assert result.study.state == "finished"
    assert resume("@last", tmp_path).study == result.study


def test_without_a_threshold_final_returns_are_compared(tmp_path, monkeypatch):
    changes = ["run.max_env_steps=20000", "spec.threshold=none"]
    planned = plan(asked(tmp_path, changes, factors=[2.0], seeds=2, only=["learning_rate"]))
    pretend(monkeypatch, lambda made: 0.5 if rate_of(made) >= 1e-3 else None)
    result = run(planned, tmp_path)
    effects = {row.arm.name: row.effect for row in result.study.rows}
    assert result.study.measure == "return"
    assert effects["algo.learning_rate /2"] < -400
    assert abs(effects["algo.learning_rate x2"]) < 1


def test_the_picture_shows_every_row_with_its_interval(tmp_path, monkeypatch):
    planned, _ = planned_study(tmp_path, monkeypatch)
    result = run(planned, tmp_path)
    text = page(result.study)
    for row in result.study.rows:
        assert label(row) in text
    assert text.count("<rect") == len(result.study.rows)
    assert position(result.study, 0.5) < 0 < position(result.study, 2.0)
    stored = json.loads((tmp_path / "@sensitivity" / result.study.id / "study.json").read_text())
    assert stored["state"] == "finished"


@pytest.mark.slow
def test_a_real_study_trains_every_arm(tmp_path):
    changes = ["run.max_env_steps=2048", "run.eval_every_env_steps=1024", "run.eval_episodes=2"]
    planned = plan(asked(tmp_path, changes, factors=[4.0], seeds=2, only=["learning_rate"]))
    result = run(planned, tmp_path, cores=1)
    assert result.study.used_env_steps == 3 * 2 * 2048
    assert all(row.effect is not None for row in result.study.rows)
