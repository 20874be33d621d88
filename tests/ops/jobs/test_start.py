"""Starts that outlive whoever makes them: found again by their key, within what a person allowed, written down whatever happens."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import Config
from rlclinic.errors import UsageError
from rlclinic.ops.compare import regress
from rlclinic.ops.compare.requests import RegressRequest
from rlclinic.ops.jobs import audit, audited, budget, daily_report, models, prepare, progress, queue, worker
from rlclinic.ops.jobs import start as jobs
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat.requests import OptimizeRequest, SensitivityRequest, TrialRequest
from rlclinic.runs.jobs import JOB, LEDGER, folder, read, write
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group, rising
from tests.treatment.pretended_training import pretend

AGENT = Caller(face="mcp", name="agent", budgeted=True)
ROLLOUT = 8 * 32
WHOLE = -(-2_000 // ROLLOUT) * ROLLOUT
"""What a run of 2,000 env steps really makes: its last rollout is finished."""

POPEN = subprocess.Popen


class Processes:
    """Stands in for subprocess.Popen: no process is made; the job belongs to this one, or to one that is gone."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.pid = os.getpid()

    def __call__(self, command: list[str], **options: Any) -> Any:
        if command[0] != sys.executable:  # matplotlib asks for the machine's fonts where nobody has before
            return POPEN(command, **options)
        self.commands.append(command)
        return self

    returncode = 0


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    made = Processes()
    monkeypatch.setattr(jobs.subprocess, "Popen", made)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def training(root: Path, **more: Any) -> TrainRequest:
    return TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=2, runs_dir=root, **more)


def kill(root: Path, job: models.Job) -> None:
    """As if its process had been killed."""
    record = read(Store(root), job.id)
    assert record is not None
    # A process with this number lives, but it is another one: it started at another time.
    write(Store(root), {**record, "process_started": 1})


def learns(config: Config) -> float | None:
    return 0.4 if float(getattr(config.algo.learning_rate, "start", config.algo.learning_rate)) < 0.05 else None


# ── starting ──


def test_a_start_names_its_runs_and_is_a_process_of_its_own(root: Path, processes: Processes) -> None:
    job = jobs.start_training(training(root))
    assert job.state == "starting"
    assert [run.id for run in Store(root).group(str(job.refers)).runs] == job.runs
    assert processes.commands == [[sys.executable, "-m", "rlclinic.ops.jobs.worker", str(root.resolve()), job.id, "1"]]


def test_the_same_key_is_the_same_start(root: Path, processes: Processes) -> None:
    first = jobs.start_training(training(root), idempotency_key="once")
    second = jobs.start_training(training(root), idempotency_key="once")
    assert (second.id, second.refers, second.repeated) == (first.id, first.refers, True)
    assert len(processes.commands) == len(Store(root).groups()) == 1


def test_a_key_that_comes_back_with_another_request_is_refused(root: Path, processes: Processes) -> None:
    jobs.start_training(training(root), idempotency_key="once")
    with pytest.raises(UsageError, match="belongs to another start"):
        jobs.start_training(training(root, changes=["algo.gamma=0.9"]), idempotency_key="once")


def test_without_a_key_the_same_request_is_not_made_twice_while_it_runs(root: Path, processes: Processes) -> None:
    first = jobs.start_training(training(root))
    assert jobs.start_training(training(root)).id == first.id
    kill(root, first)
    assert jobs.start_training(training(root)).id != first.id


def test_a_start_whose_process_was_killed_goes_on_with_the_same_key(root: Path, processes: Processes) -> None:
    first = jobs.start_training(training(root), idempotency_key="once")
    kill(root, first)
    assert progress.get_progress(first.id, root).state == "crashed"
    again = jobs.start_training(training(root), idempotency_key="once")
    assert (again.id, again.refers, again.resumes, again.live) == (first.id, first.refers, 1, True)
    assert len(processes.commands) == 2


def test_starts_at_the_same_moment_are_one_start(root: Path, processes: Processes) -> None:
    with ThreadPoolExecutor(4) as together:
        found = list(together.map(lambda _: jobs.start_training(training(root), idempotency_key="once"), range(4)))
    assert len({job.id for job in found}) == len(Store(root).groups()) == len(processes.commands) == 1
    assert sorted(job.repeated for job in found) == [False, True, True, True]


def test_two_starts_cannot_both_take_the_rest_of_the_budget(root: Path, processes: Processes) -> None:
    budget.set_budget(root, env_steps=3 * WHOLE)

    def start(seed: int) -> bool:
        try:
            jobs.start_training(training(root, seed=seed), by=AGENT)
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(2) as together:
        assert sorted(together.map(start, (0, 10))) == [False, True]


def test_a_kill_between_the_record_and_its_runs_is_made_good_by_the_next_call(
    root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare.run, "create_group", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        jobs.start_training(training(root), idempotency_key="once")
    monkeypatch.undo()
    monkeypatch.setattr(jobs.subprocess, "Popen", processes)
    job = jobs.start_training(training(root), idempotency_key="once")
    assert job.refers is not None
    assert len(jobs.list_jobs(root).jobs) == len(Store(root).groups()) == 1


def test_whoever_takes_it_up_again_says_anew_how_long_it_may_take(root: Path, processes: Processes) -> None:
    first = jobs.start_training(training(root), idempotency_key="once", max_wall_seconds=5)
    kill(root, first)
    assert jobs.start_training(training(root), idempotency_key="once").max_wall_seconds is None


def test_a_group_is_not_done_while_its_process_still_reports(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, learns)
    job = jobs.start_training(training(root))
    trainings = worker.run
    group = Store(root).group(str(job.refers))
    trainings.carry_out(trainings.TrainPlan(training(root)), group, group.runs)
    assert progress.get_progress(str(job.refers), root).state == "finished"
    assert not progress.get_progress(str(job.refers), root).done
    worker.do(Store(root), job)
    assert progress.get_progress(str(job.refers), root).done


# ── the budget ──


def test_agents_start_nothing_without_a_budget_and_people_need_none(root: Path, processes: Processes) -> None:
    with pytest.raises(UsageError, match="nobody has said how much agents may train"):
        jobs.start_training(training(root), by=AGENT)
    assert not Store(root).groups()
    assert jobs.start_training(training(root)).live


def test_what_would_exceed_the_budget_is_refused_with_what_is_left(root: Path, processes: Processes) -> None:
    budget.set_budget(root, env_steps=10_000, wall_seconds=3600)
    jobs.start_training(training(root), by=AGENT)
    left = 10_000 - 2 * WHOLE
    assert budget.get_budget(root).left_env_steps == left
    with pytest.raises(UsageError) as refused:
        jobs.start_training(training(root, changes=["algo.gamma=0.9"], seed=5).model_copy(update={"seeds": 4}), by=AGENT)
    assert f"{left:,} of the 10,000" in str(refused.value)
    assert f"at most {left // 4:,} env steps for each of 4 runs" in str(refused.value)
    assert len(jobs.list_jobs(root).jobs) == 1


def test_what_a_job_did_not_use_comes_back_when_it_ends(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, learns)
    budget.set_budget(root, env_steps=10_000)
    job = jobs.start_training(training(root, changes=["run.stop_at_threshold=true"]), by=AGENT)
    assert budget.get_budget(root).held_env_steps == 2 * WHOLE
    worker.do(Store(root), job)
    now = budget.get_budget(root)
    assert (now.held_env_steps, now.used_env_steps) == (0, 2 * 800)
    assert now.left_env_steps == 10_000 - 1_600


def test_runs_that_another_job_goes_on_with_are_paid_for_once(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    budget.set_budget(root, env_steps=100_000)
    killed = jobs.start_training(training(root), by=AGENT)
    for run in Store(root).group(str(killed.refers)).runs:
        (run.path / "status.json").write_text('{"state": "stopped", "env_steps": 500, "max_env_steps": 2000}')
    kill(root, killed)
    again = jobs.start_training(TrainRequest(resume=str(killed.refers), runs_dir=root), by=AGENT)
    assert again.max_env_steps == 2 * (WHOLE - 500)
    assert (budget.get_budget(root).used_env_steps, budget.get_budget(root).held_env_steps) == (1_000, 2 * (WHOLE - 500))
    pretend(monkeypatch, learns)
    worker.do(Store(root), again)
    assert budget.get_budget(root).used_env_steps == 2 * 2_000


def test_what_a_killed_start_used_counts_when_it_is_taken_up_again(root: Path, processes: Processes) -> None:
    budget.set_budget(root, env_steps=2 * WHOLE)
    killed = jobs.start_training(training(root), by=AGENT, idempotency_key="once")
    for run in Store(root).group(str(killed.refers)).runs:
        (run.path / "status.json").write_text('{"state": "stopped", "env_steps": 1500, "max_env_steps": 2000}')
    kill(root, killed)
    budget.set_budget(root, env_steps=2 * WHOLE - 1)
    with pytest.raises(UsageError, match=f"{2 * WHOLE - 1 - 3_000:,} of the"):
        jobs.start_training(training(root), by=AGENT, idempotency_key="once")
    budget.set_budget(root, env_steps=2 * WHOLE)
    assert jobs.start_training(training(root), by=AGENT, idempotency_key="once").live
    assert budget.get_budget(root).left_env_steps == 0


def test_a_training_that_was_killed_while_it_reported_is_finished_by_the_next_call(
    root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, learns)
    job = jobs.start_training(training(root), idempotency_key="once")
    group = Store(root).group(str(job.refers))
    worker.run.carry_out(worker.run.TrainPlan(training(root)), group, group.runs)
    kill(root, job)
    again = jobs.start_training(training(root), idempotency_key="once")
    assert worker.do(Store(root), again)[:2] == ("finished", "SOLVED")


def test_a_budget_is_set_once_and_what_was_used_stays_used(root: Path, processes: Processes) -> None:
    budget.set_budget(root, env_steps=10_000, wall_seconds=60)
    jobs.start_training(training(root), by=AGENT)
    again = budget.set_budget(root, env_steps=10_000)
    assert (again.wall_seconds, again.left_env_steps) == (60, 10_000 - 2 * WHOLE)
    # The same limits again, as a client that starts its server every morning gives them, are no change.
    assert [line.action for line in audit.audit_log(root).lines] == ["start", "budget"]


def test_no_time_left_no_start(root: Path, processes: Processes) -> None:
    budget.set_budget(root, env_steps=10_000_000, wall_seconds=5)
    job = jobs.start_training(training(root), by=AGENT)
    record = job.model_copy(update={"state": "finished", "started": 100.0, "ended": 106.0, "used_env_steps": 0})
    models.save(Store(root), record)
    with pytest.raises(UsageError, match="used up"):
        jobs.start_training(training(root, seed=9), by=AGENT)


def test_a_job_that_runs_when_the_time_is_over_is_told_to_stop(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    budget.set_budget(root, wall_seconds=0.01)
    told: list[int] = []
    monkeypatch.setattr(worker, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(worker.os, "kill", lambda pid, number: told.append(number))
    monkeypatch.setitem(
        worker._WORK, "training", lambda store, job: _until(lambda: bool(told)) or worker.Ending("stopped", None, "stopped", None)
    )
    start = Caller(face="mcp", name="agent", budgeted=False)
    job = jobs.start_training(training(root), by=start)
    late = job.model_copy(update={"by": AGENT, "started": time.time() - 5, "heartbeat": time.time()})
    models.save(Store(root), late)
    ending = worker.do(Store(root), late)
    assert told == [signal.SIGTERM]
    assert ending.reason == "the time that a person allowed is over"


def _until(done: Any) -> None:
    while not done():
        time.sleep(0.005)


def test_an_evaluation_counts_against_the_budget(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget.set_budget(root, env_steps=10_000)
    answer = {
        "run": "g-s0",
        "checkpoint": "g-s0@1",
        "step": 1,
        "env": "CartPole-v1",
        "episodes": 5,
        "deterministic": True,
        "threshold": 475.0,
    }
    answer |= {"return_mean": 9.0, "return_std": 1.0, "return_min": 8.0, "return_max": 10.0, "length_mean": 9.0, "success_rate": None}
    done = subprocess.CompletedProcess([], 0, json.dumps({**answer, "returns": [9.0] * 5}), "")
    monkeypatch.setattr(audited.subprocess, "run", lambda *_, **__: done)
    audited.evaluate_checkpoint("g-s0", root, by=AGENT, episodes=5)
    assert budget.get_budget(root).used_env_steps == 45
    # Each return that is asked for is played beside, and costs as much.
    asked = [{"asked": wanted, "return_mean": 9.0, "return_std": 1.0} for wanted in (1.0, 9.0)]
    done = subprocess.CompletedProcess([], 0, json.dumps({**answer, "returns": [9.0] * 5, "asked": asked}), "")
    commands: list[list[str]] = []
    monkeypatch.setattr(audited.subprocess, "run", lambda command, **_: commands.append(command) or done)
    audited.evaluate_checkpoint("g-s0", root, by=AGENT, episodes=5, target_returns=[1.0, 9.0])
    assert commands[0][-6:] == ["--target-return", "1.0", "--target-return", "9.0", "--", "g-s0"]
    assert budget.get_budget(root).used_env_steps == 45 + 3 * 45


# ── to the end, and what is written down ──


def test_the_night_from_a_sick_group_to_an_adopted_change(
    root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, learns)
    monkeypatch.chdir(tmp_path)
    budget.set_budget(root, env_steps=2_000_000, wall_seconds=3600)
    sick = jobs.start_training(training(root, changes=["algo.learning_rate=0.1"]), by=AGENT, hypothesis="a fast start")
    worker.do(Store(root), sick)
    asked = TrialRequest(targets=[str(sick.refers)], changes=["algo.learning_rate=0.001"], per_look=4, runs_dir=root)
    tried = jobs.start_trial(asked, by=AGENT, hypothesis="the step is too large")
    worker.do(Store(root), tried)
    view = progress.get_trial(tried.id, root)
    assert (view.trial.verdict, view.progress.done) == ("adopt", True)
    audited.adopt_trial(str(tried.refers), "CartPole-v1:night", root, by=AGENT)
    ledger = audit.get_ledger(root).entries
    assert [(line.kind, line.hypothesis, line.verdict) for line in ledger] == [
        ("adopt", "", "adopted"),
        ("trial", "the step is too large", "adopt"),
        ("training", "a fast start", "NOT SOLVED"),
    ]
    assert [line.action for line in audit.audit_log(root).lines] == ["adopt", "start", "start", "budget"]
    report = daily_report.morning_report(root)
    assert [job.state for job in report.ran] == ["finished", "finished"]
    assert "“the step is too large” · change: learning_rate 0.001 → " in report.text
    assert "kept as CartPole-v1:night" in report.text
    assert not report.left


def test_a_trial_that_says_adopt_and_a_crash_are_left_in_the_morning(
    root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, learns)
    sick = jobs.start_training(training(root, changes=["algo.learning_rate=0.1"]))
    worker.do(Store(root), sick)
    asked = TrialRequest(targets=[str(sick.refers)], changes=["algo.learning_rate=0.001"], per_look=4, runs_dir=root)
    tried = jobs.start_trial(asked)
    worker.do(Store(root), tried)
    lost = jobs.start_training(training(root, seed=7))
    kill(root, lost)
    left = daily_report.morning_report(root).left
    assert left[0].startswith(f"training {lost.refers} crashed")
    assert f"trial {tried.refers} says adopt, and nobody has: rlclinic adopt {tried.refers} --as ENV:NAME" in left


def test_a_search_is_started_carried_out_and_seen(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, learns)
    asked = OptimizeRequest(
        target="CartPole-v1:ppo_zoo", budget=200_000, run_env_steps=2_000, changes=["algo.learning_rate=0.1"], runs_dir=root
    )
    job = jobs.start_optimize(asked, by=Caller(face="http", name="lab"))
    assert progress.get_optimize(job.id, root).progress.state == "running"
    worker.do(Store(root), job)
    found = progress.get_optimize(str(job.refers), root)
    assert found.progress.state == "finished"
    assert found.confirmed is not None
    ended = models.load(Store(root), job.id)
    assert ended is not None
    assert ended.used_env_steps == found.spent


def test_a_failure_is_written_down_with_its_reason(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.start_training(training(root))
    monkeypatch.setitem(worker._WORK, "training", lambda store, job: (_ for _ in ()).throw(UsageError("no such thing.\n  really")))
    worker.do(Store(root), job)
    ended = models.load(Store(root), job.id)
    assert ended is not None
    assert (ended.state, ended.reason) == ("failed", "no such thing.\n  really")
    assert audit.get_ledger(root).entries[0].outcome == "failed: no such thing."


def test_agents_may_not_force_an_adoption(root: Path) -> None:
    with pytest.raises(UsageError, match="for a person to decide"):
        audited.adopt_trial("t1", "CartPole-v1:x", root, by=AGENT, force=True)


def test_stopping_a_trial_tells_its_process_and_says_who_asked(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.start_trial(TrialRequest(targets=["CartPole-v1:ppo_zoo"], changes=["algo.gamma=0.9"], max_env_steps=2_000, runs_dir=root))
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: told.append((pid, number)))
    stopped = audited.stop_training(str(job.refers), root, by=AGENT)
    assert (stopped.job, told) == (job.id, [(os.getpid(), signal.SIGTERM)])
    line = audit.audit_log(root).lines[0]
    assert (line.action, line.face, line.name, line.target) == ("stop", "mcp", "agent", job.refers)


def test_waiting_ends_with_the_time(root: Path, processes: Processes) -> None:
    job = jobs.start_training(training(root))
    waited = progress.wait_for_run(job.id, root, timeout_seconds=0.05)
    assert not waited.done
    assert waited.waited_seconds < 5


def test_a_job_of_another_machine_is_believed_while_its_heartbeat_is_young(root: Path, processes: Processes) -> None:
    job = jobs.start_training(training(root))
    for age, state in ((5, "running"), (500, "crashed")):
        there = job.model_copy(update={"host": "elsewhere", "state": "running", "heartbeat": time.time() - age})
        models.save(Store(root), there)
        found = models.load(Store(root), job.id)
        assert found is not None
        assert found.state == state


def test_a_damaged_job_does_not_hide_the_others(root: Path, processes: Processes) -> None:
    job = jobs.start_training(training(root))
    folder(Store(root), "jxxx").mkdir()
    (folder(Store(root), "jxxx") / JOB).write_text('{"id": "jxxx"}')
    with (folder(Store(root)) / LEDGER).open("a") as ledger:
        ledger.write("half a li")
    assert [each.id for each in jobs.list_jobs(root).jobs] == [job.id]
    assert audit.get_ledger(root).total == 1


# ── sensitivity ──


def test_a_sensitivity_study_is_started_carried_out_and_paid_for(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, learns)
    budget.set_budget(root, env_steps=1_000_000)
    asked = SensitivityRequest(
        target="CartPole-v1:ppo_zoo", only=["learning_rate"], seeds=2, changes=["run.max_env_steps=2000"], runs_dir=root
    )
    job = jobs.start_sensitivity(asked, by=AGENT, hypothesis="the rate decides")
    assert job.max_env_steps == 5 * 2 * WHOLE
    assert progress.get_progress(str(job.refers), root).kind == "sensitivity"
    worker.do(Store(root), job)
    found = progress.get_sensitivity(job.id, root)
    assert (found.progress.state, [setting for setting, _ in found.ranking]) == ("finished", ["algo.learning_rate"])
    assert budget.get_budget(root).used_env_steps == found.study.used_env_steps > 0
    assert "matters most: learning_rate" in str(audit.get_ledger(root).entries[0].outcome)


# ── gates ──


def gate_request(root: Path, **more: Any) -> RegressRequest:
    baseline = record_group(root, range(8), rising) if not Store(root).groups() else Store(root).groups()[0]
    settings = {"looks": 3, "per_look": 2, "seed0": 5_000, "changes": ["run.max_env_steps=2000"], **more}
    return RegressRequest(baseline=baseline.id, candidate="CartPole-v1:ppo_zoo", runs_dir=root, **settings)


def test_a_gate_is_started_carried_out_and_paid_for(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, learns)
    budget.set_budget(root, env_steps=1_000_000)
    job = jobs.start_regression(gate_request(root), by=AGENT, idempotency_key="ci-1")
    assert job.max_env_steps == 3 * 2 * WHOLE
    assert (progress.get_progress(str(job.refers), root).kind, progress.is_regression(job.id, root)) == ("regress", True)
    assert jobs.start_regression(gate_request(root), by=AGENT, idempotency_key="ci-1").id == job.id
    ending = worker.do(Store(root), job)
    view = progress.get_regression(job.id, root)
    assert (ending.state, view.progress.state, view.gate.state) == ("finished", "finished", "finished")
    assert view.gate.result is not None
    assert ending.verdict == view.gate.result.decision
    assert view.progress.runs == view.gate.result.candidate_seeds
    assert budget.get_budget(root).used_env_steps == budget.used_by(Store(root), view.gate.id) > 0
    assert str(audit.get_ledger(root).entries[0].outcome).startswith(f"{view.gate.id} {ending.verdict}")
    # Shown again, nothing is trained or asked.
    groups = len(Store(root).groups())
    assert regress.regress(runs_dir=root, resume=view.gate.id) == view.gate.result
    assert len(Store(root).groups()) == groups


def test_a_gate_that_was_killed_after_a_look_ends_as_if_it_had_not_been(
    root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, learns)
    job = jobs.start_regression(gate_request(root))
    with monkeypatch.context() as killed:
        judged = regress.regression.judge
        killed.setattr(regress.regression, "judge", lambda *given: judged(*given) if given[-1] < 2 else crash())
        with pytest.raises(ZeroDivisionError):
            regress.carry_out(Store(root), str(job.refers))
    before = {group.label: group.id for group in Store(root).groups() if group.label}
    result = regress.carry_out(Store(root), str(job.refers))
    assert before.items() <= {group.label: group.id for group in Store(root).groups() if group.label}.items()
    alone = regress.regress(**gate_request(tmp_path / "other").arguments, runs_dir=tmp_path / "other")
    assert result.looks == alone.looks != []
    seeds = [run.seed for id in result.groups for run in Store(root).group(id).runs]
    assert seeds == list(range(5_000, 5_000 + result.candidate_seeds))


def crash() -> Any:
    return 1 / 0


def test_what_was_trained_already_is_judged_at_once_and_never_in_the_background(root: Path, processes: Processes) -> None:
    asked = gate_request(root)
    with pytest.raises(UsageError, match="judged at once"):
        jobs.start_regression(asked.model_copy(update={"candidate": asked.baseline, "changes": []}))
    assert processes.commands == []


# ── turns ──


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs.machine, "usable_cores", lambda: 2)
    monkeypatch.setattr(jobs.machine, "has_gpu", lambda: False)


def running(root: Path, job: models.Job) -> None:
    models.save(Store(root), job.model_copy(update={"state": "running", "started": time.time()}))


@pytest.mark.usefixtures("two_cores")
def test_what_has_no_room_waits_its_turn_and_says_for_whom(root: Path, processes: Processes) -> None:
    small = [training(root, seed=seed).model_copy(update={"seeds": 1}) for seed in (0, 10, 20)]
    first, second = jobs.start_training(small[0]), jobs.start_training(small[1])
    running(root, first)
    running(root, second)
    third = jobs.start_training(small[2])
    assert (first.cores, second.state, third.state) == (1, "starting", "queued")
    assert third.reason == f"waits for training {first.refers}, training {second.refers}: the cores of this machine are taken"
    now = progress.get_progress(str(third.refers), root)
    assert (now.state, now.done, now.reason) == ("queued", False, third.reason)
    kill(root, first)
    assert not queue.ahead(Store(root), third)


@pytest.mark.usefixtures("two_cores")
def test_nobody_overtakes(root: Path, processes: Processes) -> None:
    first = jobs.start_training(training(root, seed=0).model_copy(update={"seeds": 1}))
    running(root, first)
    large = jobs.start_training(training(root, seed=10))
    small = jobs.start_training(training(root, seed=20).model_copy(update={"seeds": 1}))
    assert [each.id for each in queue.ahead(Store(root), large)] == [first.id]
    assert [each.id for each in queue.ahead(Store(root), small)] == [first.id, large.id]


@pytest.mark.usefixtures("two_cores")
def test_a_job_begins_by_itself_when_the_one_before_it_ends(root: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(root)
    first, second = jobs.start_training(training(root)), jobs.start_training(training(root, seed=10))
    running(root, first)
    looks: list[str] = []

    def look(_: float) -> None:
        waits = models.load(store, second.id)
        assert waits is not None
        looks.append(waits.state)
        if len(looks) == 3:
            models.save(store, first.model_copy(update={"state": "finished"}))

    monkeypatch.setattr(worker.time, "sleep", look)
    begun = worker._at_its_turn(store, second.id, [])
    assert looks == ["queued"] * 3
    assert begun is not None
    assert (begun.state, begun.reason) == ("running", None)
    # Waiting is not working: it costs nothing of the time that was allowed.
    assert begun.wall_seconds < 1


@pytest.mark.usefixtures("two_cores")
def test_a_job_that_is_stopped_while_it_waits_trains_nothing_and_can_be_started_again(root: Path, processes: Processes) -> None:
    first, second = jobs.start_training(training(root)), jobs.start_training(training(root, seed=10), idempotency_key="later")
    running(root, first)
    assert (second.state, second.pid) == ("queued", None)
    assert audited.stop_training(str(second.refers), root).job == second.id
    assert len(processes.commands) == 1
    now = progress.get_progress(str(second.refers), root)
    assert (now.state, now.done, now.reason, now.env_steps) == ("stopped", True, "stopped before it began", 0)
    assert audit.get_ledger(root).entries[0].outcome == "stopped before it began"
    assert jobs.start_training(training(root, seed=10), idempotency_key="later").state == "queued"


FARM = """
import gymnasium, numpy as np

class Farm(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 12, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def see(self):
        return np.array([self.x], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0, 0
        return self.see(), {}

    def step(self, action):
        self.t, self.x = self.t + 1, max(0, self.x + int(action) - 1)
        reward = 0.2 * (self.x <= 2) + (self.x >= 10)
        return self.see(), float(reward), self.x >= 10, self.t >= 100, {"is_success": self.x >= 10}
"""


def test_a_queued_training_looks_at_an_environment_of_ones_own_in_the_process_that_trains_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the start of the job to its end, with nothing pretended."""
    (root.parent / "farm.py").write_text(FARM)
    monkeypatch.chdir(root.parent)
    job = jobs.start_training(TrainRequest(ref="farm.py:Farm:ppo", max_env_steps=2_048, runs_dir=root))
    deadline = time.monotonic() + 120
    while (ended := read(Store(root), job.id) or {})["state"] in ("queued", "starting", "running") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ended["state"] == "finished", ended
    # The record is closed a moment before the ledger.
    while (outcome := audit.get_ledger(root).entries[0].outcome) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "its environment: ENV214 reward-can-be-farmed" in str(outcome)
