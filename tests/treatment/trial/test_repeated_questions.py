"""A trial that asks what was asked before: it is told so, charged, and listed; by every way that a question is asked."""

import numpy as np
import pytest

from benchmarks.proof import questions as simulated
from rlclinic.ops.treat import optimize, questions, sensitivity, trial
from rlclinic.ops.treat.requests import OptimizeRequest, QuestionsRequest, SensitivityRequest, TrialRequest
from rlclinic.report.questions import describe
from rlclinic.runs.questions import next_alpha
from rlclinic.treatment.optimize import confirm
from tests.treatment.pretended_training import pretend

SIMULATIONS = 2_000


def rate_of(made) -> float:
    return float(getattr(made.algo.learning_rate, "start", made.algo.learning_rate))


def request(runs_dir, **more) -> TrialRequest:
    targets = ["CartPole-v1:ppo_zoo"]
    return TrialRequest(targets=targets, changes=["algo.learning_rate=1e-4"], runs_dir=runs_dir, max_env_steps=2_000, looks=1, **more)


def run_trial(runs_dir, **more):
    return trial.run_trial(trial.plan_trial(request(runs_dir, **more)), runs_dir).trial


@pytest.fixture
def trained(monkeypatch):
    return pretend(monkeypatch, lambda made: 0.3 if rate_of(made) > 5e-4 else 0.8)


def test_a_second_trial_of_a_question_is_told_so_before_it_starts_and_in_its_verdict(tmp_path, trained):
    first = run_trial(tmp_path)
    assert (first.plan.alpha, first.notes) == (0.05, ())
    preview = trial.plan_trial(request(tmp_path))
    assert preview.plan.alpha == pytest.approx(next_alpha(0.05, 1))
    assert preview.plan.context["asked_before"] == 1
    assert any(f"asked 2 times with this one (before: trial {first.id})" in text for text in preview.warnings)
    second = trial.run_trial(preview, tmp_path).trial
    assert second.plan.alpha == pytest.approx(next_alpha(0.05, 1))
    assert any("up to 7.9 %" in note and "is charged: alpha 0.03 instead of 0.05" in note for note in second.notes)
    third = trial.plan_trial(request(tmp_path))
    assert third.plan.alpha == pytest.approx(next_alpha(0.05, 2))
    listed = questions.list_questions(QuestionsRequest(runs_dir=tmp_path)).questions
    assert [(row.times, [each.refers for each in row.asked]) for row in listed] == [(2, [first.id, second.id])]
    assert [each.verdict for each in listed[0].asked] == [first.verdict, second.verdict]
    assert listed[0].spent_alpha == pytest.approx(1 - 0.95 * (1 - next_alpha(0.05, 1)))
    assert first.id in str(describe(questions.list_questions(QuestionsRequest(runs_dir=tmp_path))))
    assert questions.list_questions(QuestionsRequest(runs_dir=tmp_path, at_least=3)).questions == []
    assert questions.list_questions(QuestionsRequest(runs_dir=tmp_path, env="Acrobot-v1")).questions == []


def test_what_stands_for_itself_is_not_charged_and_counts(tmp_path, trained):
    run_trial(tmp_path)
    preview = trial.plan_trial(request(tmp_path, independent=True))
    assert preview.plan.alpha == 0.05
    assert any("stands for itself" in text for text in preview.warnings)
    trial.run_trial(preview, tmp_path)
    row = questions.list_questions(QuestionsRequest(runs_dir=tmp_path)).questions[0]
    assert [each.independent for each in row.asked] == [False, True]


def test_a_trial_that_is_repeated_seed_by_seed_asks_nothing_new(tmp_path, trained):
    first = run_trial(tmp_path)
    again = trial.plan_trial(request(tmp_path, seed0=first.seed0))
    assert again.plan.alpha == 0.05
    assert again.plan.notes == first.plan.notes


def test_another_change_is_another_question_and_a_resume_is_none(tmp_path, trained):
    first = run_trial(tmp_path)
    trial.resume_trial(first.id, tmp_path)
    other = request(tmp_path).model_copy(update={"changes": ["algo.gamma=0.9"]})
    assert trial.plan_trial(other).plan.alpha == 0.05
    assert questions.list_questions(QuestionsRequest(runs_dir=tmp_path)).questions[0].times == 1


def test_a_study_that_is_made_again_is_charged_and_says_so(tmp_path, trained):
    asked = SensitivityRequest(target="CartPole-v1:ppo_zoo", runs_dir=tmp_path, seeds=8, factors=[4.0], only=["learning_rate"], changes=[])
    first, second = (sensitivity.run(sensitivity.plan(asked), tmp_path).study for _ in range(2))
    assert (first.alpha, first.asked_before) == (0.05, 0)
    assert (second.alpha, second.asked_before) == (pytest.approx(next_alpha(0.05, 1)), 1)
    row = questions.list_questions(QuestionsRequest(runs_dir=tmp_path)).questions[0]
    assert [each.kind for each in row.asked] == ["sensitivity", "sensitivity"]
    assert "shown to matter" in (row.asked[0].verdict or "")


def test_the_confirmation_of_a_search_is_a_question(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda made: 0.3 if rate_of(made) <= 0.01 else None)
    sick = ["algo.learning_rate=0.1", "run.max_env_steps=20000"]
    ledger = optimize.optimize(OptimizeRequest(target="CartPole-v1:ppo_zoo", runs_dir=tmp_path, budget=900_000, changes=sick)).ledger
    assert ledger.verdict == "adopted"
    row = questions.list_questions(QuestionsRequest(runs_dir=tmp_path)).questions[0]
    assert [(each.kind, each.refers, each.verdict) for each in row.asked] == [("optimize", ledger.confirmations[-1].trial, "adopt")]
    assert row.asked[0].alpha == pytest.approx(confirm.SHARES[0] * 0.05)


def test_an_empty_store_has_no_questions_and_says_what_makes_them(tmp_path):
    assert "no questions yet" in str(describe(questions.list_questions(QuestionsRequest(runs_dir=tmp_path))))


def test_ten_trials_of_one_question_err_in_at_most_twice_the_error_of_one():
    rng = np.random.default_rng(4)
    charged = simulated.any_false(rng, SIMULATIONS, 10, charged=True).mean()
    free = simulated.any_false(rng, SIMULATIONS, 10, charged=False).mean()
    assert charged <= 0.10 + 0.01
    assert free > 0.25
