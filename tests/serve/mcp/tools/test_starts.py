"""Tools that start, stop, change and keep: within the budget, found again by their key, and written down."""

from pathlib import Path

import pytest

from rlclinic.ops.jobs import audit, audited, budget, models, start, worker
from rlclinic.runs.store import Store
from rlclinic.serve.mcp.settings import Settings, agent_for_all
from tests.ops.jobs.test_start import Processes, learns
from tests.ops.recorded import record_group
from tests.serve.mcp.stores import call
from tests.treatment.pretended_training import pretend

SICK = {"config_id": "CartPole-v1:ppo_zoo", "max_env_steps": 2_000, "seeds": 2, "overrides": {"algo.learning_rate": 0.1}}


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch, learns)
    made = Processes()
    monkeypatch.setattr(start.subprocess, "Popen", made)
    budget.set_budget(Path("runs"), env_steps=1_000_000, wall_seconds=3600)
    return made


def finish(job_id: str) -> None:
    """What the process of a job does."""
    job = models.load(Store("runs"), job_id)
    assert job is not None
    worker.do(Store("runs"), job)


def test_a_start_answers_with_ids_cost_and_what_to_call() -> None:
    answer = call("start_training", **SICK, idempotency_key="one", hypothesis="fast")
    assert {"success", "config_id", "pid", "message"} <= answer.data.keys()
    group = answer.data["run_id"]
    assert answer.data["runs"] == [f"{group}-s0", f"{group}-s1"]
    assert f'next: wait_for_run(run_id="{group}")' in answer.text
    again = call("start_training", **SICK, idempotency_key="one", hypothesis="fast")
    assert again.data["run_id"] == group
    assert "nothing new was started" in again.text


def test_a_start_beyond_the_budget_is_refused_in_words_that_help() -> None:
    answer = call("start_training", **{**SICK, "max_env_steps": 900_000})
    assert answer.error
    assert "1,000,000 of the 1,000,000 that a person allowed are left" in answer.text
    assert "at most 500,000 env steps for each of 2 runs" in answer.text
    assert not Store("runs").groups()


def test_a_bad_config_is_refused_before_anything_is_made() -> None:
    answer = call("start_training", **{**SICK, "overrides": {"algo.learning_rat": 0.1}})
    assert answer.error
    assert "learning_rate" in answer.text
    assert not (Path("runs") / "@groups").exists()


def test_an_argument_that_a_tool_does_not_have_is_refused_not_dropped() -> None:
    answer = call("start_training", **SICK, learning_rate=0.5)
    assert answer.error
    assert "start_training has no argument learning_rate" in answer.text
    assert 'overrides={"algo.learning_rate": 1e-3}' in answer.text
    assert "Try: config_id=…" in call("start_training", config="CartPole-v1:ppo").text
    assert not (Path("runs") / "@groups").exists()


def test_a_start_outside_of_the_project_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "evil.yaml"
    elsewhere.write_text("a: 1")
    assert "outside of the folders" in call("start_training", config_id=f"{elsewhere}:ppo").text
    assert "outside of the folders" in call("import_run", path=str(elsewhere)).text
    assert call("evaluate_checkpoint", run_id="--video=out.gif").error
    assert not Path("out.gif").exists()


def test_a_trial_with_the_agents_own_patch_is_adopted() -> None:
    sick = call("start_training", **SICK)
    finish(sick.data["job_id"])
    asked = {"run_id": sick.data["run_id"], "changes": {"algo.learning_rate": 0.001}, "per_look": 4}
    dry = call("start_trial", **asked, dry_run=True)
    assert "cost: " in dry.text
    assert "can see: " in dry.text
    trial = call("start_trial", **asked, hypothesis="the step is too large")
    waiting = call("wait_for_run", run_id=trial.data["trial_id"], timeout_s=0)
    assert not waiting.data["done"]
    finish(trial.data["job_id"])
    assert call("wait_for_run", run_id=trial.data["job_id"]).data["done"]
    verdict = call("get_trial", trial_id=trial.data["trial_id"])
    assert verdict.data["verdict"] == "adopt"
    assert "adopt(trial_id=" in verdict.text
    kept = call("adopt", trial_id=trial.data["trial_id"], as_variant="CartPole-v1:mine")
    assert not kept.error, kept.text
    assert Path("config/environments/CartPole-v1.yaml").exists()
    assert call("validate_config", config_id="CartPole-v1:mine").data["valid"]
    assert audit.get_ledger(Path("runs")).entries[1].hypothesis == "the step is too large"
    assert "kept as CartPole-v1:mine" in call("morning_report").text
    twice = call("adopt", trial_id=trial.data["trial_id"], as_variant="CartPole-v1:mine")
    assert twice.error
    assert "--force" not in twice.text


def test_a_search_is_started_and_its_confirmation_can_be_adopted() -> None:
    started = call(
        "start_optimize", run_id="CartPole-v1:ppo_zoo", budget_env_steps=200_000, run_env_steps=2_000, overrides={"algo.learning_rate": 0.1}
    )
    assert not started.error, started.text
    finish(started.data["job_id"])
    found = call("get_optimize", search_id=started.data["search_id"])
    assert found.data["state"] == "finished"
    assert found.data["confirmed_by"] is not None
    assert f'adopt(trial_id="{found.data["confirmed_by"]}"' in found.text


def test_a_number_is_adjusted_and_a_run_is_stopped_by_name() -> None:
    group = record_group(Path("runs"), seeds=(0,), state="running", share_done=0.5)
    # A person typed it: agents act on it only where a person lets them.
    allowed = Settings(local=True, caller=agent_for_all)
    changed = call("adjust_run", allowed, run_id=group.id, changes={"algo.ent_coef": 0.01})
    assert changed.data["changes"] == {"algo.ent_coef": 0.01}
    stopped = call("stop_training", allowed, run_id=group.id)
    assert stopped.data["success"]
    assert [line.action for line in audit.audit_log(Path("runs")).lines[:2]] == ["stop", "adjust"]
    refused = call("adjust_run", allowed, run_id=group.id, changes={"net.hidden": "[8]"})
    assert "only numbers of the algorithm" in refused.text


def test_waiting_returns_at_once_when_a_run_has_failed() -> None:
    group = record_group(Path("runs"), seeds=(0, 1), state="running", share_done=0.5)
    (group.runs[0].path / "status.json").write_text('{"state": "failed", "reason": "the simulator is on fire"}')
    answer = call("wait_for_run", run_id=group.id, timeout_s=500)
    assert "the simulator is on fire" in answer.data["alert"]
    assert answer.data["waited_seconds"] < 60
    assert not call("wait_for_run", run_id=group.id, timeout_s=0, past_alerts=True).data["done"]


def test_an_evaluation_is_made_elsewhere_and_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlclinic.report.models import EvaluationResult

    scored = EvaluationResult(
        run="g-s0", checkpoint="g-s0@9", step=9, env="CartPole-v1", episodes=20, deterministic=True, return_mean=480.0, return_std=3.0,
        return_min=470.0, return_max=500.0, length_mean=480.0, success_rate=None, threshold=475.0, returns=[480.0] * 20,
    )  # fmt: skip
    monkeypatch.setattr(audited, "evaluate_checkpoint", lambda *_, **__: scored)
    assert "return 480 ± 3, 20 episodes" in call("evaluate_checkpoint", run_id="g-s0").text
    assert "threshold 475 REACHED" in call("evaluate_checkpoint", run_id="g-s0").text


def test_a_log_is_imported_and_diagnosed_by_its_new_id() -> None:
    from docs.generate.questions import write_pong

    write_pong(Path("logs/pong"))
    made = call("import_run", path="logs/pong", name="pong", threshold=18.0)
    assert not made.error, made.text
    assert "learning rate too low" in call("diagnose_run", run_id="pong").text
    assert audit.audit_log(Path("runs")).lines[0].action == "import"


def test_which_numbers_matter_is_asked_priced_and_answered() -> None:
    asked = {"run_id": "CartPole-v1:ppo_zoo", "only": ["learning_rate"], "seeds": 2, "overrides": {"run.max_env_steps": 2_000}}
    priced = call("start_sensitivity", **asked, dry_run=True)
    assert priced.data["runs"] == 10
    assert "varies: algo.learning_rate" in priced.text
    assert not audit.get_ledger(Path("runs")).entries
    started = call("start_sensitivity", **asked, hypothesis="the rate decides")
    assert started.data["study_id"] == started.data["run_id"]
    assert "running" in call("get_sensitivity").text
    finish(started.data["job_id"])
    found = call("get_sensitivity", study_id=started.data["study_id"])
    assert [row["setting"] for row in found.data["ranking"]] == ["algo.learning_rate"]
    assert {row["verdict"] for row in found.data["rows"]} <= {"better", "worse", "no difference seen"}
    waited = call("wait_for_run", run_id=started.data["job_id"])
    assert f'get_sensitivity(study_id="{started.data["study_id"]}")' in waited.text


def test_a_race_is_a_trial_that_ranks_its_arms() -> None:
    asked = {"run_id": "CartPole-v1:ppo_zoo", "changes": {"algo.gamma": [0.9, 0.98]}, "per_look": 3, "max_env_steps": 2_000, "race": True}
    priced = call("start_trial", **asked, dry_run=True)
    assert list(priced.data["arms"]) == ["gamma-0.9", "gamma-0.98"]
    assert "which of 2 arms" in priced.text
    started = call("start_trial", **asked, hypothesis="the horizon decides")
    assert started.data["race_id"] == started.data["run_id"]
    assert started.text.startswith("RACE c")
    finish(started.data["job_id"])
    ranked = call("get_trial", trial_id=started.data["race_id"])
    assert {row["arm"] for row in ranked.data["ranking"]} == {"gamma-0.9", "gamma-0.98"}
    assert ranked.data["verdict"] in ("best", "several", "undecided", "less reliable")
    assert "get_trial(trial_id=" in call("wait_for_run", run_id=started.data["job_id"]).text
    assert call("start_trial", run_id=["CartPole-v1:ppo", "CartPole-v1:ppo_zoo"], race=True, outcome="wall").error
    assert call("start_trial", race=True, rx=[1]).error


def test_a_start_that_must_wait_says_for_whom_and_that_it_begins_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start.machine, "usable_cores", lambda: 2)
    first = call("start_training", **SICK)
    second = call("start_training", **{**SICK, "seeds": 1})
    assert second.data["state"] == "queued"
    assert f"queued: it waits for training {first.data['run_id']}" in second.text
    assert "it begins by itself" in second.text
    waited = call("wait_for_run", run_id=second.data["run_id"], timeout_s=0)
    assert waited.data["state"] == "queued"
    assert f"reason: waits for training {first.data['run_id']}" in waited.text
    assert "next: wait_for_run" in waited.text


def test_a_question_that_no_run_answers_has_a_guide() -> None:
    listed = call("get_guide")
    assert len(listed.data["guides"]) == 13
    found = call("get_guide", question="My DAgger implementation keeps diverging after a few iterations")
    assert found.data["guide"]["name"] == "dagger-diverges"
    assert "NOT ASSESSABLE: labels" in found.text
    assert call("get_guide", question="zzz").error
