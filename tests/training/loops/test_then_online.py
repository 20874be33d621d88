"""From recorded data to the environment: what is learned from, what stays, and that a kill anywhere changes nothing."""

from functools import cache
from pathlib import Path

import pytest
import torch

from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.training import replay_assembly, trainer
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import replay
from rlclinic.training.loops import offline
from rlclinic.training.loops.off_policy import Transitions
from rlclinic.training.members import Member
from rlclinic.training.policy import Policy
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, member, saved, table, train
from tests.training.recordings import bench, make_config

KIND = pytest.mark.parametrize("kind", ["cal_ql", "rlpd"])
MORE = {"cal_ql": {}, "rlpd": {"env": {"n_envs": 2}, "data": {"recorded_share": 0.25}}}
"""One of them acts in two environments at once."""


@pytest.fixture(autouse=True)
def few_costly_sentinels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "COSTLY_SENTINELS", 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """A run of one seed, alone and in one go; each is trained once."""

    @cache
    def alone(kind: str) -> Run:
        return train(tmp_path_factory.mktemp("trained"), [config_of(kind)])[0]

    return alone


def config_of(kind: str, seed: int = 0):
    task = make_config(kind)
    changes = {name: {**getattr(task, name).model_dump(), **more} for name, more in MORE[kind].items()}
    return make_config(kind, seed, **changes)


@KIND
@pytest.mark.parametrize("at", [200, 300], ids=["from the switch", "behind it"])
def test_resuming_is_the_same_as_never_having_stopped(trained, kind: str, at: int) -> None:
    straight = trained(kind)
    assert straight.status.state == "finished"
    with pytest.raises(Interrupted):
        train(straight.path.parent.parent, [config_of(kind)], callback=interrupt_at(at))
    broken = Run((straight.path.parent / "@last").resolve())
    assert broken.checkpoint("@last").step == at - 100
    assert train_runs([broken], resume=True)
    assert_same_run(Run(broken.path), straight)


@KIND
def test_a_member_of_a_cohort_learns_as_it_would_alone(trained, tmp_path: Path, kind: str) -> None:
    together = train(tmp_path, [config_of(kind, seed) for seed in (3, 0)])
    assert_same_run(together[1], trained(kind))
    assert saved(together[0]) != saved(together[1])


@KIND
def test_it_acts_from_the_switch_on_and_its_rows_say_so(trained, kind: str) -> None:
    rows = table(trained(kind))
    assert [row["train/sentinel/online"] for row in rows] == ["0.0", "1.0", "1.0"]
    assert [int(row["total_episodes"]) for row in rows] == [0, 10, 20], "ten steps an episode"
    assert rows[0]["train/sentinel/switch_return"] == rows[0]["val/roll/ep_rew_mean"], "evaluated at the switch, whatever else is due"
    assert rows[-1]["train/sentinel/switch_dip"]


def test_normalizers_stay_as_the_data_made_them(trained) -> None:
    run = trained("cal_ql")
    policy = Policy(run.config, run.checkpoint("@last").path)
    assert policy._learner.obs_stats is not None
    assert torch.equal(policy._learner.obs_stats.mean, bench(run.config).data.moments(1).mean)


@pytest.mark.parametrize("kind", ["rlpd", "cal_ql of choices"])
def test_a_batch_holds_recorded_rows_and_new_ones_each_with_its_own_end(kind: str) -> None:
    at = bench(make_config(kind, 0), make_config(kind, 1))
    memory, size = replay_assembly.memory_for(at.plan, 2, torch.device("cpu")), at.plan.memory.obs_size
    steps = torch.arange(2 * 6.0).view(2, 6, 1)
    terminated = torch.zeros(2, 6, 1, dtype=torch.bool)
    terminated[:, 2] = True
    obs = steps.unsqueeze(-1).expand(2, 6, 1, size)
    action = torch.zeros(2, 6, 1, dtype=torch.int64) if at.plan.action.kind == "discrete" else steps.unsqueeze(-1) / 12
    replay.add(memory, Transitions(obs, obs + 1, obs + 1, action, steps, terminated, ~terminated, None))
    places = torch.tensor([[0, 3], [5, 1]]), torch.tensor([[2, 4, 1], [0, 2, 3]])
    batch = offline.mixed_batch(at.plan, at.learner, at.data, memory, *places, at.numbers())
    assert at.data.chosen is not None
    recorded = at.data.rewards[at.data.chosen[places[0]]]
    assert torch.equal(batch.reward, torch.cat([recorded, steps.squeeze(-1).gather(1, places[1])], 1))
    assert (batch.discount[0, 2:] > 0).tolist() == [False, True, True], "no future behind the terminal state alone"
    assert batch.obs.shape == (2, 5, size)
    assert batch.action.shape[:2] == (2, 5)


def test_the_dip_is_the_lowest_evaluation_until_one_is_as_good_again() -> None:
    one: Member = member(make_config("cal_ql"))
    one.baseline = {"random_return": -1000.0}
    for step, value in ((100, -200.0), (200, -500.0), (300, -360.0)):
        one.eval_mean = value
        one.measure_switch(step, 100)
    assert one.describe_switch(300, 100)["switch_dip"] == pytest.approx(300 / 800)
    for step, value in ((400, -190.0), (500, -900.0)):
        one.eval_mean = value
        one.measure_switch(step, 100)
    found = one.describe_switch(500, 100)
    assert (found["switch_regained_at"], found["switch_lowest"]) == (400, -500.0), "what comes later is no dip of the switch"


def test_a_run_that_begins_in_the_environment_has_no_dip() -> None:
    one: Member = member(make_config("rlpd", data={"offline_steps": 0}))
    one.eval_mean = -300.0
    one.measure_switch(100, 0)
    assert one.describe_switch(100, 0) == {"online": 1.0}


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("bc", {"data": {"then_online": True}}, "bc learns from recorded data alone"),
        ("rlpd", {"data": {"then_online": False}}, "rlpd learns in the environment"),
        ("cal_ql", {"data": {"offline_steps": 300}}, "would never come to act"),
        ("rlpd", {"algo": {"critic_subset": 4}}, "So many cannot be drawn"),
        ("rlpd", {"algo": {"n_critics": 20, "batch_size": 16}}, "one number for each"),
    ],
)
def test_what_cannot_go_online_is_refused(kind: str, changes: dict, words: str) -> None:
    task = make_config(kind)
    with pytest.raises(ConfigError, match=words):
        make_config(kind, **{name: {**getattr(task, name).model_dump(), **more} for name, more in changes.items()})
