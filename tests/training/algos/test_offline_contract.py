"""What every algorithm that learns from recorded data promises."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from rlclinic.config import from_record, to_record
from rlclinic.datasets import Episode, Space, folder
from rlclinic.errors import ConfigError
from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import evaluation, trainer
from rlclinic.training.__main__ import train_runs
from rlclinic.training.loops import offline
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.policy import Policy
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, saved, table, train
from tests.training.recordings import OFFLINE, bench, data_of, make_config

KIND = pytest.mark.parametrize("kind", OFFLINE)


@pytest.fixture(autouse=True)
def few_costly_sentinels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "COSTLY_SENTINELS", 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """A run of one seed, alone and in one go; each is trained once."""

    @cache
    def alone(kind: str, seed: int = 0) -> Run:
        return train(tmp_path_factory.mktemp("trained"), [make_config(kind, seed)])[0]

    return alone


@KIND
def test_a_config_goes_through_json_and_back_unchanged(kind: str) -> None:
    config = make_config(kind, algo={"learning_rate": {"start": 1e-3, "end": 0.0, "schedule": "linear"}})
    assert from_record(json.loads(json.dumps(to_record(config)))) == config


@KIND
def test_resuming_is_the_same_as_never_having_stopped(trained, kind: str) -> None:
    straight = trained(kind)
    assert straight.status.state == "finished"
    steps = [int(row["total_timesteps"]) for row in table(straight)]
    with pytest.raises(Interrupted):
        train(straight.path.parent.parent, [make_config(kind)], callback=interrupt_at(steps[-2]))
    broken = Run((straight.path.parent / "@last").resolve())
    assert broken.path != straight.path
    assert 0 < broken.checkpoint("@last").step < 300
    assert train_runs([broken], resume=True)
    assert_same_run(Run(broken.path), straight)


@KIND
def test_a_member_of_a_cohort_learns_as_it_would_alone(trained, tmp_path: Path, kind: str) -> None:
    together = train(tmp_path, [make_config(kind, seed) for seed in (3, 0, 5)])
    assert_same_run(together[1], trained(kind))
    assert saved(together[0]) != saved(together[1])


@KIND
def test_a_saved_policy_acts_as_the_one_that_was_evaluated(trained, kind: str) -> None:
    run = trained(kind)
    policy = Policy(run.config, run.checkpoint("@last").path)
    assert float(policy.evaluate(2).returns.mean()) == pytest.approx(float(table(run)[-1]["val/roll/ep_rew_mean"]), rel=1e-6)
    again = Policy(run.config, run.checkpoint("@last").path)
    if policy.remembers is not None:
        assert policy.evaluate(2).returns.tolist() == again.evaluate(2).returns.tolist(), "it acts by its episode: evaluate it"
        return
    size = 4 if OFFLINE[kind][0] == "discrete" else 3
    observations = np.random.default_rng(0).normal(size=(5, size)).astype(np.float32)
    assert [np.asarray(policy.act(obs)).tolist() for obs in observations] == [np.asarray(again.act(obs)).tolist() for obs in observations]


@KIND
def test_the_loss_falls_and_what_is_logged_is_finite(trained, kind: str) -> None:
    rows = table(trained(kind))
    cells = [float(cell) for row in rows for name, cell in row.items() if cell and not name.startswith("val/")]
    assert np.isfinite(cells).all()
    loss = "train/loss/critic" if kind == "cql of choices" else "train/loss/actor"  # Q-values of choices need no actor
    assert len({row[loss] for row in rows}) == len(rows), "the same loss again and again"
    assert not any(name.startswith("train/roll/") for name in rows[0]), "nobody has acted"


def test_normalizers_know_the_rows_that_are_learned_from_and_travel_with_the_policy(trained) -> None:
    run = trained("bc")
    at = bench(run.config)
    stats = at.data.moments(1)
    rows = at.data.chosen
    assert rows is not None
    seen = at.data.observations[rows + at.data.shift[rows]].double()
    assert torch.allclose(stats.mean[0], seen.mean(0))
    assert torch.allclose(stats.var[0], seen.var(0, unbiased=False))
    policy = Policy(run.config, run.checkpoint("@last").path)
    assert torch.equal(policy._learner.obs_stats.mean, stats.mean)


def test_data_that_has_changed_is_not_gone_on_with(trained, tmp_path: Path) -> None:
    other = tmp_path / "data"
    other.mkdir()
    for file in Path(data_of("box")).iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    config = make_config("bc", data={"path": str(other)})
    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=interrupt_at(200))
    rewards = np.load(other / "rewards.npy")
    np.save(other / "rewards.npy", rewards + 1)
    with pytest.raises(ConfigError, match="is not the data that"):
        train_runs([Run((tmp_path / "runs" / "@last").resolve())], resume=True)


def _write(place: Path, *told: Episode) -> dict[str, str]:
    folder.write(place, iter(told), Space("box", (3,)), Space("box", (1,), low=(-2.0,), high=(2.0,)), source="made up")
    return {"path": str(place)}


@pytest.mark.parametrize("kind", ["bc", "iql", "cql", "dt"])
def test_a_single_step_is_learned_by_heart_and_says_nothing_of_spreads(tmp_path: Path, kind: str) -> None:
    one = Episode(np.ones((2, 3), np.float32), np.ones((1, 1), np.float32), np.ones(1, np.float32), True, False)
    run = train(tmp_path, [make_config(kind, data=_write(tmp_path / "data", one))])[0]
    assert run.status.state == "finished"
    assert float(table(run)[-1]["train/sentinel/reward_std"]) == 0.0


def test_rewards_whose_squares_are_no_numbers_any_more_end_the_run_instead_of_freezing_it(tmp_path: Path) -> None:
    """Adam divides by the root of squared gradients: where those are infinite, weights stay where they are, finite every one."""
    huge = Episode(np.ones((21, 3), np.float32), np.ones((20, 1), np.float32), np.full(20, 1e30, np.float32), True, False)
    run = train(tmp_path, [make_config("iql", data=_write(tmp_path / "data", huge))])[0]
    assert run.status.state == "failed"
    assert "is not finite" in (run.status.reason or "")


def test_members_draw_rows_of_their_own_and_the_same_ones_wherever_they_are() -> None:
    config = make_config("bc", data={"holdout": 0.0})
    two, one = bench(config, make_config("bc", 7)), bench(make_config("bc", 7))
    together, alone = two.data.draw(two.seed, 3, 2, 16), one.data.draw(one.seed, 3, 2, 16)
    assert not torch.equal(together[0], together[1])
    drawn = one.data.draw(one.seed, 0, 500, 16)
    assert set(drawn.flatten().tolist()) == set(one.data.chosen.tolist()), "rows that are held out are never drawn, all others are"
    assert not set(one.data.held_out.tolist()) & set(drawn.flatten().tolist())
    assert alone.shape == (1, 32)


@KIND
def test_a_frozen_member_keeps_its_weights(kind: str) -> None:
    at = bench(make_config(kind), make_config(kind, 1))
    hp = at.numbers()
    after, _ = offline.learn(at.plan, at.learner, at.data, hp, torch.tensor([[True], [False]]), at.seed)
    for name, flat in after.nets.items():
        assert torch.equal(flat[1], at.learner.nets[name][1]), name
    learned = "actor" if "actor" in after.nets else "critic"
    assert not torch.equal(after.nets[learned][0], at.learner.nets[learned][0])


def test_a_normalizer_that_is_lost_on_the_way_to_evaluations_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = evaluation.evaluate

    def without(plan, learner, env, **more):
        count, mean, var = learner.obs_stats
        return original(plan, replace(learner, obs_stats=Moments(count, torch.zeros_like(mean), torch.ones_like(var))), env, **more)

    def rules(name: str) -> set[str]:
        config = make_config("bc", run={"max_env_steps": 600, "eval_every_env_steps": 100})
        wanted = config.model_copy(update={"spec": config.spec.model_copy(update={"threshold": 0.0})})
        group = Store(tmp_path / name).create_group([wanted])
        train_runs(group.runs)
        examined = examine_group(group)
        assert examined is not None
        return {finding.rule for finding in examined.diagnosis.findings}

    assert "OFF111" not in rules("kept")
    monkeypatch.setattr(evaluation, "evaluate", without)
    assert "OFF111" in rules("lost")
