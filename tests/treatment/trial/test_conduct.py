"""A trial from plan to verdict: fresh seeds, a ledger that survives a kill, and the same verdict after it."""

import json
import random
import re
import signal
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from rlclinic.config import Config, load, set_values
from rlclinic.errors import NotFound, RunError, UsageError
from rlclinic.launch import batch
from rlclinic.ops.runs.listing import list_runs
from rlclinic.ops.treat import adopt
from rlclinic.ops.treat.trial import TrialRequest, list_trials, plan_trial, run_trial
from rlclinic.runs import trials
from rlclinic.runs.record import GROUP, Run
from rlclinic.runs.status_file import Status
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.treatment.trial import arms, conduct, power
from rlclinic.treatment.trial.sequential import Rule
from tests.launch.warm import Child, Warm
from tests.treatment.pretended_training import COLUMNS, pretend

CONTROL = set_values(load("CartPole-v1:ppo_zoo").config, ["learning_rate=1e-2", "run.max_env_steps=20000", "run.eval_every_env_steps=1000"])


def behaviour(config: Config) -> float | None:
    """The treated runs get there after 15 to 60 % of the budget, a few of the others late: all by their seeds."""
    noise = np.random.default_rng(config.seed).random()
    if config.algo.learning_rate == 1e-3:
        return 0.15 + 0.45 * noise
    return 0.7 + 0.3 * noise if noise < 0.4 else None


def close_call(config: Config) -> float | None:
    """Little difference: several looks are needed."""
    noise = np.random.default_rng(config.seed).random()
    return (0.5 if config.algo.learning_rate == 1e-3 else 0.62) * (0.4 + noise)


def plan_of(**options) -> conduct.TrialPlan:
    return conduct.plan(arms.control(CONTROL), [arms.changed(CONTROL, ["learning_rate=1e-3"], "rx1")], **options)


def outcome(found: conduct.Trial):
    """What must not depend on when a trial was killed."""
    looks = [look.model_copy(update={"seconds": 0.0}) for look in found.looks]
    return found.verdict, found.winner, looks, found.effects, [(arm.name, arm.n, arm.steps, arm.final) for arm in found.arms]


def test_a_cure_is_adopted_and_everything_is_in_the_store(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour)
    store = Store(tmp_path)
    events = []
    found = conduct.run(store, plan_of(), progress=events.append, cores=2)
    assert (found.verdict, found.winner, found.state) == ("adopt", "rx1", "finished")
    assert found.effect("rx1").improvement.low > 0.5
    assert [len(arm.runs) for arm in found.arms] == [8, 8]
    assert {run.record["trial"] for run in store.runs()} == {found.id}
    assert list_runs(tmp_path, trial=found.id, limit=None).total == 16
    ledger = json.loads((tmp_path / "@trials" / found.id / "trial.json").read_text())
    assert ledger["effects"][0]["ratio"]["high"] < 1
    assert ledger["arms"][0]["config"]["algo"]["learning_rate"] == 1e-2
    assert [event.kind for event in events if event.kind != "progress"] == ["started", "look"]
    assert conduct.load(store, found.id) == found
    (record,) = trials.trials(store)
    assert (record.verdict, record.env_id, record.effects[0]["arm"]) == ("adopt", "CartPole-v1", "rx1")


def test_arms_are_trained_alike_but_for_the_change(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour)
    other = set_values(CONTROL, ["learning_rate=1e-3", "run.eval_every_env_steps=7777", "run.eval_episodes=3", "spec.threshold=100"])
    plan = conduct.plan(arms.control(CONTROL), [arms.against(CONTROL, other, "other")])
    first, second = (arm.config for arm in plan.arms)
    assert first.run == second.run
    assert second.spec.threshold == 475
    assert first.run.stop_at_threshold
    assert not plan_of(whole_budget=True).control.config.run.stop_at_threshold
    assert not plan_of(outcome="return").control.config.run.stop_at_threshold


def test_arms_share_no_seed_and_trials_share_none_either(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour)
    store = Store(tmp_path)
    first, second = (conduct.run(store, plan_of(above_seed=1_500), cores=2) for _ in range(2))
    seeds = [run.seed for run in store.runs()]
    assert len(set(seeds)) == len(seeds) == 32
    assert min(seeds) > 1_500
    assert second.seed0 == first.seed0 + plan_of().n_seeds
    assert conduct.run(store, plan_of(seed0=7), cores=2).seed0 == 7


@pytest.mark.parametrize("killed_after", [0, 3, 17])
def test_a_killed_trial_is_resumed_to_the_same_verdict(tmp_path, monkeypatch, killed_after):
    pretend(monkeypatch, close_call)
    whole = conduct.run(Store(tmp_path / "whole"), plan_of(seed0=11), cores=2)
    assert len(whole.looks) > 2
    store = Store(tmp_path / "killed")
    pretend(monkeypatch, close_call, kill_after=killed_after)
    with pytest.raises(KeyboardInterrupt):
        conduct.run(store, plan_of(seed0=11), cores=2)
    (begun,) = trials.trials(store)
    again = pretend(monkeypatch, close_call)
    found = conduct.resume(store, begun.id, cores=2)
    assert outcome(found) == outcome(whole)
    assert len(again.trained) == sum(arm.n for arm in whole.arms) - killed_after
    # Nothing is left to do, and nothing is done.
    assert conduct.resume(store, begun.id) == found
    assert len(again.trained) == sum(arm.n for arm in whole.arms) - killed_after


def test_runs_whose_group_was_never_finished_are_made_again(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour, kill_after=0)
    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        conduct.run(store, plan_of(seed0=5), cores=2)
    (begun,) = trials.trials(store)
    # As if the kill had come between the runs and their group.
    half = store.groups()[-1]
    (half.path / GROUP).unlink()
    pretend(monkeypatch, behaviour)
    found = conduct.resume(store, begun.id, cores=2)
    assert found.verdict == "adopt"
    assert len(store.runs()) == 16


def test_somebody_who_stops_a_trial_can_resume_it(tmp_path, monkeypatch):
    asked = []
    pretended = pretend(monkeypatch, behaviour)
    store = Store(tmp_path)
    with pytest.raises(conduct.Interrupted, match="--resume t"):
        conduct.run(
            store, plan_of(seed0=5), cores=2, progress=lambda event: asked.append(event.kind), stop=lambda: len(pretended.trained) > 4
        )
    (begun,) = trials.trials(store)
    assert begun.record["state"] == "interrupted"
    assert begun.verdict is None
    pretend(monkeypatch, behaviour)
    assert conduct.resume(store, begun.id, cores=2).verdict == "adopt"


def test_a_run_that_was_killed_is_tried_again_and_one_that_failed_counts(tmp_path):
    store = Store(tmp_path)
    group = store.create_group([CONTROL.model_copy(update={"seed": seed}) for seed in range(3)])
    for run, (state, reason) in zip(
        group.runs, [("failed", "killed by SIGKILL: …"), ("failed", "loss is nan"), ("finished", None)], strict=True
    ):
        with RunWriter(run.path, COLUMNS) as writer:
            writer.status(state, 100, reason=reason)
    assert [batch.is_open(run) for run in group.runs] == [True, False, False]


def test_a_trial_whose_runs_all_fail_says_why(tmp_path, monkeypatch):
    class Broken:
        stopping = False

        def wait(self, tick):
            for run in Store(tmp_path).runs():
                with RunWriter(run.path, COLUMNS) as writer:
                    writer.status("failed", 0, reason="the environment raised: no display")

    monkeypatch.setattr(batch.local, "start", lambda cohorts, **_: Broken())
    found = conduct.run(Store(tmp_path), plan_of(), cores=2)
    assert (found.verdict, len(found.looks)) == ("undecided", 1)
    assert found.reason == "every run of every arm failed: the environment raised: no display"
    assert [arm.failed for arm in found.arms] == [8, 8]


def test_a_damaged_ledger_is_named(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour)
    found = conduct.run(Store(tmp_path), plan_of(), cores=2)
    ledger = tmp_path / "@trials" / found.id / "trial.json"
    ledger.write_text(json.dumps(json.loads(ledger.read_text()) | {"looks": "none"}))
    with pytest.raises(RunError, match=r"trial\.json is damaged"):
        conduct.load(Store(tmp_path), found.id)
    ledger.write_text("{")
    with pytest.raises(NotFound, match="no trial"):
        conduct.load(Store(tmp_path), found.id)


def test_three_arms_are_tried_at_once(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour)
    treatments = [arms.changed(CONTROL, [f"learning_rate={rate}"], name) for rate, name in ((1e-3, "rx1"), (2e-2, "rx2"), (3e-2, "rx3"))]
    found = conduct.run(Store(tmp_path), conduct.plan(arms.control(CONTROL), treatments), cores=2)
    assert (found.verdict, found.winner) == ("adopt", "rx1")
    assert found.looks[0].bound > Rule().bounds[0].better
    assert {effect.arm for effect in found.effects} == {"rx1", "rx2", "rx3"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"looks": 0}, "1 to 20 looks"),
        ({"per_look": 1}, "2 seeds or more"),
        ({"alpha": 0.7}, "--alpha 0.05"),
        ({"margin": 0.0}, "--margin 0.1"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(options, said):
    with pytest.raises(UsageError, match=said):
        plan_of(**options)


@pytest.mark.parametrize("change", ["run.max_env_steps=90000", "run.eval_episodes=3", "spec.threshold=100"])
def test_what_a_trial_sets_for_all_arms_cannot_be_what_it_tries(change):
    arm = arms.changed(CONTROL, [change], "rx1")
    with pytest.raises(UsageError, match="equal arms"):
        conduct.plan(arms.control(CONTROL), [arm], max_env_steps=30_000)


def test_a_threshold_is_needed_to_count_steps_to_it():
    unknown = CONTROL.model_copy(update={"spec": CONTROL.spec.model_copy(update={"threshold": None})})
    with pytest.raises(UsageError, match="--outcome return"):
        conduct.plan(arms.control(unknown), [arms.changed(unknown, ["learning_rate=1e-3"], "rx1")])


def test_cohorts_are_small_where_runs_end_early_and_fill_the_cores_otherwise():
    def cohorts(plan, cores, per_arm=8):
        configs = [arm.config for arm in plan.arms for _ in range(per_arm)]
        return [len(cohort) for cohort in batch.split_into_cohorts(configs, cores, batch.choose_members(configs, cores))]

    assert cohorts(plan_of(), 2) == [4, 4, 4, 4]
    assert cohorts(plan_of(whole_budget=True), 2) == [8, 8]
    assert cohorts(plan_of(), 16) == [1] * 16
    assert cohorts(plan_of(), 1, per_arm=20) == [8] * 5


def test_power_grows_with_the_effect_and_with_a_smaller_spread():
    usual = power.power(Rule())
    assert usual.assumed
    assert usual.by_effect["0.5"] > 0.95 > usual.by_effect["0.3"] > 0.75 > usual.by_effect["0.1"]
    calm = power.power(Rule(), [10_000.0 * (1 + 0.01 * place) for place in range(8)])
    assert not calm.assumed
    assert calm.by_effect["0.1"] > usual.by_effect["0.1"]
    assert calm.seeds_for_small < usual.seeds_for_small
    assert power.power(Rule(), arms=3).by_effect["0.3"] < usual.by_effect["0.3"]
    assert set(power.power(Rule(), outcome="return").by_effect) == {"1", "0.7", "0.3"}


# ── as an operation ──


def sick_group(root: Path) -> str:
    group = Store(root).create_group([CONTROL.model_copy(update={"seed": seed}) for seed in range(4)])
    for run in group.runs:
        with RunWriter(run.path, COLUMNS) as writer:
            for row in range(1, 21):
                writer.row(
                    {"time": 1e9 + row, "total_timesteps": 1_000 * row, "val/roll/ep_rew_mean": 20.0, "train/roll/ep_rew_mean": 20.0}
                )
            writer.status("finished", 20_000, eval_mean=20.0)
    return group.id


def test_a_plan_says_question_cost_and_power_and_writes_nothing(tmp_path):
    gid = sick_group(tmp_path)
    preview = plan_trial(TrialRequest(targets=[gid], changes=["learning_rate=1e-3"], runs_dir=tmp_path))
    assert preview.question == "CartPole-v1: does learning_rate 0.001 reach 475 in fewer env steps?"
    assert preview.control == f"{gid}'s config"
    assert preview.max_env_steps == 2 * 32 * 20_000
    assert preview.max_seconds == pytest.approx(preview.max_env_steps / (4 * 20_000 / 19), rel=0.01)
    assert preview.plan.above_seed == 3
    assert not (tmp_path / "@trials").exists()


def test_the_newest_group_that_is_no_trial_is_treated(tmp_path, monkeypatch):
    gid = sick_group(tmp_path)
    pretend(monkeypatch, behaviour)
    request = TrialRequest(changes=["learning_rate=1e-3"], runs_dir=tmp_path)
    result = run_trial(plan_trial(request), tmp_path, jobs=2)
    assert result.trial.verdict == "adopt"
    assert plan_trial(request).control == f"{gid}'s config"
    # What a trial trained for itself is asked about by the trial's id.
    assert Store(tmp_path).group().id == gid
    assert (tmp_path / "@last").readlink().name.startswith(gid)
    report = {Path(file).name: Path(file).read_text() for file in result.files}
    assert "ADOPT rx" not in report["report.md"]
    assert "ADOPT change" in report["report.md"]
    pictures = re.findall(r"<svg.*?</svg>", report["report.html"], flags=re.DOTALL)
    assert len(pictures) == 2
    for picture in pictures:
        ElementTree.fromstring(picture)
    assert result.next[0] == f"rlclinic adopt {result.trial.id} --as CartPole-v1:mine --runs-dir {tmp_path}"
    assert [row.id for row in list_trials(tmp_path).trials] == [result.trial.id]
    again = f"rlclinic trial {gid} --set learning_rate=1e-3 --runs-dir {tmp_path} --seed0 {result.trial.seed0}"
    assert again in report["report.md"]


def test_where_nobody_reaches_the_threshold_the_same_is_asked_of_the_return_in_words_to_type(tmp_path, monkeypatch):
    gid = sick_group(tmp_path)
    pretend(monkeypatch, lambda config: None)
    request = TrialRequest(changes=["learning_rate=1e-3"], runs_dir=tmp_path)
    result = run_trial(plan_trial(request), tmp_path, jobs=2)
    assert result.trial.verdict == "undecided"
    assert result.next[0] == f"rlclinic trial {gid} --set learning_rate=1e-3 --runs-dir {tmp_path} --outcome return"


def test_seeds_of_the_diagnosed_runs_are_refused(tmp_path):
    gid = sick_group(tmp_path)
    with pytest.raises(UsageError, match="--seed0 4"):
        plan_trial(TrialRequest(targets=[gid], changes=["learning_rate=1e-3"], seed0=2, runs_dir=tmp_path))


def test_two_variants_are_compared_and_equal_ones_are_named(tmp_path):
    request = TrialRequest(targets=["CartPole-v1:ppo_zoo", "CartPole-v1:ppo"], runs_dir=tmp_path)
    preview = plan_trial(request)
    assert list(preview.arms) == ["ppo"]
    assert any(change.startswith("algo.n_steps=") for change in preview.arms["ppo"])
    twins = plan_trial(TrialRequest(targets=["CartPole-v1:ppo", "CartPole-v1:ppo"], runs_dir=tmp_path))
    assert any("A/A" in warning for warning in twins.warnings)


def test_ways_to_name_the_arms_cannot_be_mixed(tmp_path):
    with pytest.raises(UsageError, match="--run and --set"):
        plan_trial(TrialRequest(command="x {seed}", changes=["a=1"], runs_dir=tmp_path))
    with pytest.raises(NotFound, match="no group"):
        plan_trial(TrialRequest(changes=["a=1"], runs_dir=tmp_path))


def test_an_ablation_tries_the_winner_without_each_of_its_changes(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour)
    both = arms.changed(CONTROL, ["learning_rate=1e-3", "n_epochs=5"], "rx1")
    found = conduct.run(Store(tmp_path), conduct.plan(arms.control(CONTROL), [both]), cores=2)
    preview = plan_trial(TrialRequest(ablate=found.id, runs_dir=tmp_path))
    assert set(preview.arms) == {"without-learning_rate", "without-n_epochs"}
    assert preview.arms["without-n_epochs"] == ["algo.n_epochs=20"]
    monkeypatch.chdir(tmp_path)
    adopt.adopt(found.id, "CartPole-v1:mine", tmp_path)
    assert plan_trial(TrialRequest(ablate="CartPole-v1:mine", runs_dir=tmp_path)).arms == preview.arms
    single = conduct.run(Store(tmp_path), plan_of(), cores=2)
    with pytest.raises(UsageError, match="two changes or more"):
        plan_trial(TrialRequest(ablate=single.id, runs_dir=tmp_path))


# ── with real training ──


@pytest.mark.slow
@pytest.mark.parametrize("over", [[], ["several"]])
def test_a_trial_killed_at_a_random_moment_is_resumed_to_the_same_verdict(tmp_path, warm: Warm, over: list[str]):
    def begin(*words: object) -> Child:
        return warm.start(*words, module="tests.treatment.trial.short_trial", printed=tmp_path / "printed")

    assert begin(tmp_path / "whole", *over).wait() == 0, (tmp_path / "printed").read_text()
    whole = conduct.load(Store(tmp_path / "whole"))
    chance, store = random.Random(3), Store(tmp_path / "killed")
    process = begin(store.root, *over)
    for _ in range(2):
        began = time.monotonic()
        while not trials.trials(store) and time.monotonic() - began < 60:
            time.sleep(0.05)
        time.sleep(chance.uniform(0.2, 1.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        _wait_for_the_children(store)
        process = begin(store.root, "resume")
    assert process.wait() == 0
    found = conduct.load(store)
    assert found.state == "finished"
    clocked = {"guardrails": (), "seeds": 0}
    assert [effect.model_copy(update=clocked) for effect in found.effects] == [
        effect.model_copy(update=clocked) for effect in whole.effects
    ]
    assert [look.z for look in found.looks] == [look.z for look in whole.looks]
    assert [look.environments for look in found.looks] == [look.environments for look in whole.looks]
    assert (found.verdict, found.winner) == (whole.verdict, whole.winner)


def _wait_for_the_children(store: Store) -> None:
    """A trial's processes end with it, after a checkpoint."""
    began = time.monotonic()
    while any(run.status.state == "running" for run in store.runs()) and time.monotonic() - began < 60:
        time.sleep(0.1)


def test_a_status_that_says_running_without_a_process_is_open_again(tmp_path):
    store = Store(tmp_path)
    group = store.create_group([CONTROL])
    from rlclinic.runs import status_file

    status_file.write(group.runs[0].path, Status(state="running", pid=2**22 + 1, host="elsewhere", heartbeat=1.0))
    assert Run(group.runs[0].path).status.state == "crashed"
    assert batch.is_open(group.runs[0])


# ── more seeds, and arms that fail ──


def test_an_undecided_trial_takes_more_seeds_later_and_its_first_looks_stay(tmp_path, monkeypatch):
    pretend(monkeypatch, close_call)
    store = Store(tmp_path)
    first = conduct.run(store, plan_of(looks=2, per_look=4, futility=False), cores=2)
    assert first.verdict == "undecided"
    extended = conduct.extend(store, first.id, 40)
    assert (extended.state, extended.verdict) == ("running", None)
    after = conduct.resume(store, first.id, cores=2)
    assert after.state == "finished"
    assert len(after.looks) == 3
    assert [look.z for look in after.looks[:2]] == [look.z for look in first.looks]
    assert [look.bound for look in after.looks[:2]] == [look.bound for look in first.looks]
    assert [arm.n for arm in after.arms] == [48, 48]
    seeds = [run.seed for group in trials.groups(store, first.id) for run in group.runs]
    assert len(set(seeds)) == len(seeds)
    assert after.looks[-1].pooled is not None


def test_a_decided_or_unfinished_trial_is_not_extended(tmp_path, monkeypatch):
    pretend(monkeypatch, behaviour)
    store = Store(tmp_path)
    decided = conduct.run(store, plan_of(), cores=2)
    with pytest.raises(UsageError, match="is decided"):
        conduct.extend(store, decided.id, 16)
    begun = conduct.begin(store, plan_of())
    with pytest.raises(UsageError, match="has not ended"):
        conduct.extend(store, begun.id, 16)


def test_an_arm_that_is_faster_but_fails_in_a_quarter_of_its_seeds_is_called_less_reliable(tmp_path, monkeypatch):
    def unreliable(config: Config) -> float | None:
        noise = np.random.default_rng(config.seed).random()
        if config.algo.learning_rate == 1e-3:
            return 0.1 + 0.05 * noise if noise > 0.25 else None
        return 0.6 + 0.3 * noise

    pretend(monkeypatch, unreliable)
    found = conduct.run(Store(tmp_path), plan_of(seed0=3), cores=2)
    assert (found.verdict, found.winner) == ("less reliable", None)
    theirs, n, ours, m = found.effects[0].arrivals
    assert theirs == n
    assert ours < m
