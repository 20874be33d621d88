"""Probes: which experiment is chosen, what it costs, and which cause gains by what is seen."""

from typing import Any

import numpy as np
import pytest

from rlclinic.config import Config, files
from rlclinic.diagnosis import causes, engine
from rlclinic.diagnosis.findings import Cause, Diagnosis, Severity
from rlclinic.errors import UsageError
from rlclinic.launch import local
from rlclinic.ops.treat import probe as operation
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.treatment.probe import baselines, odds, probe, readings
from rlclinic.treatment.probe.models import Arm, Experiment, Reading
from tests.ops.recorded import record_group
from tests.treatment.pretended_training import pretend

HIGH, LOW_GAMMA = "learning-rate-too-high", "discount-too-low"
SICK = ["algo.learning_rate=0.1", "algo.gamma=0.5", "run.max_env_steps=20000"]


def config() -> Config:
    return files.load("CartPole-v1:ppo_zoo", SICK).config


def sick_group(tmp_path, monkeypatch, behaviour=lambda made: None) -> Group:
    """A group of two runs that never learned."""
    pretend(monkeypatch, behaviour)
    group = Store(tmp_path).create_group([config().model_copy(update={"seed": seed}) for seed in (0, 1)])
    local.start([[run.path for run in group.runs]]).wait()
    return group


def close(first: str, second: str, chances: tuple[float, float] = (0.45, 0.4)) -> Diagnosis:
    """A diagnosis that cannot decide between two causes."""
    rows = tuple(
        Cause(id=id, title=id, probability=chance, severity=Severity.HIGH, rules=("POL101",), agree=2, of=2)
        for id, chance in zip((first, second), chances, strict=True)
    )
    return _base().model_copy(update={"causes": rows, "verdict": "NOT SOLVED", "findings": ()})


def _base() -> Diagnosis:
    from tests.diagnosis import recorded

    return engine.diagnose(recorded.histories("cp-lr-x30")[:1])


def rate_of(made: Config) -> float:
    return float(getattr(made.algo.learning_rate, "start", made.algo.learning_rate))


def proposed(group: Group, found: Diagnosis) -> Experiment:
    experiment = probe.propose(found, group, group.config)
    assert experiment is not None
    return experiment


# ── which experiment ──


def test_a_cause_that_is_likely_enough_needs_no_experiment(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    assert probe.propose(close(HIGH, LOW_GAMMA, (0.95, 0.03)), group, group.config) is None


def test_each_cause_is_tried_by_its_own_cure_on_the_same_seeds(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close(HIGH, LOW_GAMMA))
    assert experiment.kind == "cures"
    assert {arm.cause: set(arm.changes) for arm in experiment.arms} == {HIGH: {"algo.learning_rate"}, LOW_GAMMA: {"algo.gamma"}}
    assert experiment.seeds == (0, 1)
    assert experiment.max_env_steps == 2 * 2 * 8_000


def test_a_fault_of_the_code_is_told_from_one_of_the_environment_by_a_known_task(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("advantage-sign", "reward-sign"))
    assert experiment.kind == "task"
    assert experiment.config["env"]["id"] == "probe:5"
    assert experiment.config["algo"]["gamma"] == 0.5


def test_every_pair_in_the_table_is_one_of_known_causes():
    known = set(causes.table()) | {"*"}
    for pair, kind in probe.table().items():
        assert set(pair.split(" | ")) <= known
        assert kind in ("cures", "fork", "task", "noise", "critic", "baselines")
    assert odds.listed("noise") | odds.listed("critic") <= known
    assert probe.kind_for("dead-surrogate", "value-loss-sign") == "task"
    assert probe.kind_for("gae-lambda-too-low", "discount-too-low") == "cures"
    assert probe.kind_for("environment-changed", HIGH) == "fork"


def test_a_fork_needs_a_checkpoint_with_enough_of_the_run_behind_it(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    # Nothing was saved here: the runs are begun anew instead.
    assert proposed(group, close(HIGH, "exploration-collapsed")).kind == "cures"


# ── what is concluded ──


@pytest.mark.parametrize(("gain", "factor"), [(None, 1.0), (-0.5, 1 / 6), (0.0, 1 / 6), (0.1, 1.0), (0.2, 6.0), (0.9, 6.0)])
def test_a_cure_that_gains_a_fifth_of_the_way_speaks_for_its_cause(gain, factor):
    assert odds.likelihood(gain) == pytest.approx(factor)


def test_probabilities_keep_their_sum():
    assert odds.updated((0.5, 0.4), (6.0, 1 / 6)) == pytest.approx((0.9 * 3 / (3 + 0.4 / 6), 0.9 * (0.4 / 6) / (3 + 0.4 / 6)), abs=1e-4)
    assert sum(odds.updated((0.45, 0.4), (1.0, 6.0))) == pytest.approx(0.85, abs=1e-3)


def test_the_cause_whose_cure_works_gains(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close(HIGH, LOW_GAMMA))
    pretend(monkeypatch, lambda made: 0.3 if rate_of(made) < 0.05 else None)
    found = probe.run(Store(tmp_path), experiment)
    assert found.gained == HIGH
    assert found.after[0] > 0.8 > 0.1 > found.after[1]
    assert "gains" in found.text


def test_nothing_is_claimed_where_neither_cure_helps(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close(HIGH, LOW_GAMMA, (0.4, 0.4)))
    pretend(monkeypatch, lambda made: None)
    found = probe.run(Store(tmp_path), experiment)
    assert found.gained == ""
    assert found.after == pytest.approx(experiment.before, abs=0.02)


def test_a_learner_that_fails_a_trivial_task_is_at_fault_itself(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("advantage-sign", "reward-sign"))
    pretend(monkeypatch, lambda made: None)  # evaluates to about 20, which is more than 0.9
    mastered = probe.run(Store(tmp_path), experiment)
    assert mastered.gained == "reward-sign"
    failed = readings.judged_task(experiment, Reading(arm="probe:5", cause="", value=-1.0, control=0.9, gain=0.0))
    assert failed[1] == "advantage-sign"
    assert failed[0][0] > failed[0][1]


def test_two_faults_of_the_learner_are_not_told_apart_by_a_task(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("advantage-sign", "dead-surrogate"))
    found = readings.judged_task(experiment, Reading(arm="probe:5", cause="", value=0.0, control=0.9, gain=0.0))
    assert found[0] == experiment.before
    assert found[1] == ""


def test_the_noise_scale_is_found_from_two_batch_sizes():
    # A true gradient of 1 with a noise of variance 200 per row: |g|² = 1 + 200 / rows.
    small, big = (1 + 200 / 64) ** 0.5, (1 + 200 / 256) ** 0.5
    assert readings.noise_scale(small, 64, big, 256) == pytest.approx(200.0)
    assert readings.noise_scale(1.0, 64, 1.0, 256) == 0.0
    assert readings.noise_scale(2.0, 64, 1.0, 256) == float("inf")


def test_a_gradient_lost_in_noise_speaks_for_too_little_data(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("reward-noise", HIGH))
    assert experiment.kind == "noise"
    assert {arm.name: arm.changes for arm in experiment.arms} == {"whole": {"algo.batch_size": 1.0}, "quarter": {"algo.batch_size": 0.25}}
    assert experiment.max_env_steps == 2 * 2 * 10 * 256
    lost = readings.judged_noise(experiment, Reading(arm="noise", cause="", value=5_000.0, control=256.0, gain=19.5))
    clear = readings.judged_noise(experiment, Reading(arm="noise", cause="", value=50.0, control=256.0, gain=0.2))
    assert lost[1] == "reward-noise"
    assert clear[1] == HIGH


# ── the critic ──


def test_one_network_is_held_still_while_the_other_learns(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("critic-explains-nothing", HIGH))
    assert experiment.kind == "critic"
    alone, frozen = (arm.changes for arm in experiment.arms)
    assert alone == {"algo.learning_rate": probe.STILL, "algo.value_lr": 0.1}
    assert frozen == {"algo.value_lr": probe.STILL}
    assert experiment.max_env_steps == 2 * 2 * 8_000


def test_networks_that_share_a_trunk_cannot_be_held_apart(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    shared = files.load("CartPole-v1:ppo_zoo", [*SICK, "net.shared=true"]).config
    experiment = probe.propose(close("critic-explains-nothing", HIGH), group, shared)
    assert experiment is not None
    assert experiment.kind == "cures"


@pytest.mark.parametrize(
    ("explains", "gain", "wanted"),
    [
        (0.05, 0.0, "critic-explains-nothing"),
        (0.9, -0.3, HIGH),
        # The policy does better when the critic is kept out of the way.
        (0.9, 0.5, "critic-explains-nothing"),
        (0.9, None, HIGH),
    ],
)
def test_a_critic_that_learns_nothing_of_a_fixed_policy_is_at_fault(tmp_path, monkeypatch, explains, gain, wanted):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("critic-explains-nothing", HIGH))
    alone = Reading(arm="critic alone", cause="", value=explains, control=0.1, gain=explains)
    frozen = Reading(arm="frozen critic", cause="", value=None, control=None, gain=gain)
    after, gained, text = readings.judged_critic(experiment, alone, frozen)
    assert gained == wanted
    assert f"explains {explains:.0%}" in text
    assert sum(after) == pytest.approx(sum(experiment.before), abs=1e-3)


@pytest.mark.slow
def test_a_real_critic_learns_the_values_of_a_policy_that_stands_still(tmp_path):
    changes = ["run.max_env_steps=20480", "run.eval_every_env_steps=10240", "run.eval_episodes=2"]
    made = files.load("CartPole-v1:ppo_zoo", changes).config
    store = Store(tmp_path)
    group = store.create_group([made.model_copy(update={"seed": seed}) for seed in (0, 1)])
    local.start([[run.path for run in group.runs]], parallel=1).wait()
    found = probe.run(store, proposed(group, close("critic-explains-nothing", HIGH)), cores=1)
    alone, frozen = found.readings
    assert alone.value is not None
    assert alone.value > 0.5
    assert found.gained == HIGH
    still = next(each for each in store.groups() if each.config.algo.learning_rate == probe.STILL)
    returns = still.runs[0].metrics.series("train/roll/ep_rew_mean")[1]
    assert returns[-1] < 40  # a policy that stands still stays at chance
    assert frozen.gain is not None


# ── baselines on the environment ──


def played(**means: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name.replace("_", " "): mean + rng.standard_normal(20) for name, mean in means.items()}


def test_policies_that_fare_alike_speak_for_actions_without_effect(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("actions-without-effect", HIGH))
    assert experiment.kind == "baselines"
    alike = baselines.judged(experiment, played(random=10.0, always_0=10.0, always_1=10.0), 10.0)
    apart = baselines.judged(experiment, played(random=10.0, always_0=30.0, always_1=10.0), 10.0)
    assert alike[1] == "actions-without-effect"
    assert apart[1] == HIGH
    assert "random 9." in alike[2] or "random 10" in alike[2]


def test_episodes_that_all_pay_the_same_speak_for_a_reward_that_was_never_seen(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("reward-never-seen", HIGH))
    same = {"random": np.full(20, -200.0), "always 0": np.full(20, -200.0), "by hand": np.full(1, -120.0)}
    assert baselines.judged(experiment, same, -200.0)[1] == "reward-never-seen"
    assert baselines.judged(experiment, played(random=-180.0, always_0=-200.0), -200.0)[1] == HIGH


def test_a_policy_that_is_worse_than_chance_speaks_for_a_wrong_sign(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    experiment = proposed(group, close("reward-sign", "discount-too-low"))
    assert baselines.judged(experiment, played(random=22.0, always_0=9.0), 9.0)[1] == "reward-sign"
    assert baselines.judged(experiment, played(random=22.0, always_0=9.0), 80.0)[1] == "discount-too-low"
    assert baselines.judged(experiment, played(random=22.0), 9.0) == (experiment.before, "", "nothing could be read")


def test_baselines_are_played_for_real_and_nothing_is_trained(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    found = probe.run(Store(tmp_path), proposed(group, close("actions-without-effect", HIGH)))
    means = {reading.arm: reading.value for reading in found.readings}
    assert set(means) == {"random", "always 0", "always 1", "by hand"}
    assert 9 < means["always 0"] < 11 < means["random"] < 40 < means["by hand"]
    assert found.gained == HIGH
    assert len(list(Store(tmp_path).groups())) == 1
    assert found.used_env_steps <= found.experiment.max_env_steps


# ── learners with a replay ──


@pytest.mark.parametrize("algo", ["dqn", "sac", "td3"])
def test_learners_with_a_replay_are_probed_from_the_start_and_on_a_short_task(tmp_path, monkeypatch, algo):
    group = sick_group(tmp_path, monkeypatch)
    sick = ["run.max_env_steps=20000", "algo.learning_rate=0.1", "algo.gamma=0.5", "algo.learning_starts=2000"]
    made = files.load("CartPole-v1:ppo_zoo", [f"algo.name={algo}", *sick]).config
    cures = probe.propose(close(HIGH, "exploration-collapsed"), group, made)
    task = probe.propose(close("advantage-sign", "learning-rate-too-low"), group, made)
    assert cures is not None
    assert task is not None
    assert (cures.kind, cures.parents) == ("cures", ())
    assert task.kind == "task"
    assert task.config["algo"]["learning_starts"] < task.run_env_steps == probe.TASK_REPLAY_STEPS
    assert task.config["algo"]["name"] == algo


# ── the operation ──


def test_the_cost_is_said_before_anything_is_trained(tmp_path, monkeypatch):
    group = sick_group(tmp_path, monkeypatch)
    monkeypatch.setattr(probe, "diagnosed", lambda _: close(HIGH, LOW_GAMMA))
    planned = operation.plan(group.id, tmp_path)
    assert planned.max_env_steps == 32_000
    assert planned.seconds == pytest.approx(16.0)
    assert len(list(Store(tmp_path).groups())) == 1


def test_a_healthy_group_is_not_experimented_with(tmp_path):
    group = record_group(tmp_path)
    planned = operation.plan(group.id, tmp_path)
    assert planned.experiment is None
    assert "no experiment is needed" in planned.why_none
    with pytest.raises(UsageError, match="nothing to try"):
        operation.run(planned, tmp_path)


@pytest.mark.slow
def test_the_control_of_a_real_fork_repeats_the_original_bit_for_bit(tmp_path):
    changes = ["run.max_env_steps=6144", "run.eval_every_env_steps=1024", "run.eval_episodes=2", "algo.learning_rate=0.02"]
    made = files.load("CartPole-v1:ppo_zoo", changes).config
    store = Store(tmp_path)
    group = store.create_group([made.model_copy(update={"seed": seed}) for seed in (0, 1)])
    local.start([[run.path for run in group.runs]], parallel=1).wait()
    step = min(run.checkpoints[0].step for run in group.runs)
    parents = tuple(f"{run.id}@{run.checkpoints[0].step}" for run in group.runs)
    arms: Any = (
        Arm(name="control", cause="", changes={}),
        Arm(name="cure", cause=HIGH, changes={"algo.learning_rate": {"start": 1e-3, "end": 0.0, "schedule": "linear"}}),
    )
    experiment = proposed(group, close(HIGH, LOW_GAMMA)).model_copy(
        update={"kind": "fork", "arms": arms, "parents": parents, "until_env_steps": 6144, "run_env_steps": 6144 - step}
    )
    found = probe.run(store, experiment, cores=1)
    assert found.control_repeated is True
    assert found.readings[0].gain is not None


@pytest.mark.slow
def test_a_real_gradient_has_a_noise_scale(tmp_path):
    changes = ["run.max_env_steps=2048", "run.eval_every_env_steps=1024", "run.eval_episodes=2"]
    made = files.load("CartPole-v1:ppo_zoo", changes).config
    store = Store(tmp_path)
    group = store.create_group([made.model_copy(update={"seed": seed}) for seed in (0, 1)])
    local.start([[run.path for run in group.runs]], parallel=1).wait()
    found = probe.run(store, proposed(group, close("reward-noise", HIGH)), cores=1)
    assert found.readings[0].value is not None
    assert found.readings[0].value > 0
    assert found.used_env_steps == 2 * 2 * 10 * 256
