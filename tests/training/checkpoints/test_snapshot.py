"""One member out of a cohort and into another: nothing is lost, nothing of the neighbours comes along."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.errors import CheckpointCorrupt, ConfigError
from rlclinic.training import assembly
from rlclinic.training.checkpoints import files, snapshot
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.loops import on_policy
from tests.training.cohorts import Workshop, make_config, workshop

ENV = {"id": "Pendulum-v1", "max_episode_steps": 10, "normalize_obs": True, "normalize_reward": True}
COUNTERS = {"env_steps": 32, "iteration": 1, "metrics_offset": 7}


def lived(seeds: tuple[int, ...] = (0, 1, 2)) -> tuple[Workshop, Episodes]:
    """A cohort after one iteration."""
    at = workshop([make_config(env=ENV, seed=seed) for seed in seeds])
    rollout, hp = at.collect(), at.numbers()
    whole, _ = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
    learner, _, _ = on_policy.learn(at.plan, at.learner, whole, hp, None, at.seed, 0)
    learner = on_policy.update_normalizers(at.plan, learner, rollout, hp, torch.ones(len(seeds), 1, dtype=torch.bool))
    episodes = Episodes(len(seeds), 2)
    episodes.add(rollout)
    return at.with_learner(**vars(learner)), episodes


def taken(at: Workshop, episodes: Episodes, index: int) -> files.Checkpoint:
    member = at.members[index]
    member.adapted, member.best_eval, member.reached_at = {"learning_rate": 1e-4}, 5.0, 32
    return snapshot.take(snapshot.whole(at.plan.policy, at.learner, at.env, at.position), episodes, member, index, COUNTERS)


def everything(at: Workshop) -> list[torch.Tensor]:
    learner = at.learner
    assert learner.obs_stats is not None
    assert learner.reward_stats is not None
    assert learner.reward_carry is not None
    return [learner.flat, *learner.optimizer, *learner.obs_stats, *learner.reward_stats, learner.reward_carry, at.position.obs]


def test_a_member_put_into_another_cohort_goes_on_exactly(tmp_path: Path) -> None:
    at, episodes = lived()
    for index in (2, 0):
        files.write(tmp_path, taken(at, episodes, index), best=True)
        found = files.read(tmp_path / "checkpoints" / "32")
        seed = at.members[index].config.seed
        alone = workshop([make_config(env=ENV, seed=seed)])
        learner = snapshot.weights(alone.plan.policy, [found], alone.learner, optimizer=True)
        counted = Episodes(1, 2)
        learner, position, exact = snapshot.place([found], learner, alone.env, counted)
        assert exact
        alone = alone.with_learner(**vars(learner))
        alone.position.obs = position.obs
        for whole, own in zip(everything(at), everything(alone), strict=True):
            assert torch.equal(whole[index : index + 1], own)
        assert counted.row(0) == episodes.row(index)
        assert found.state == COUNTERS | {"adapted": {"learning_rate": 1e-4}, "best_eval": 5.0, "eval_mean": None, "reached_at": 32} | {
            "best": True,
            "success_rate": None,
        }


def test_acting_needs_nothing_but_the_policys_file() -> None:
    at, episodes = lived()
    saved = taken(at, episodes, 1).policy
    layout = at.plan.policy.layout
    assert {name for name in saved if not name.startswith(("obs_stats.", "reward_stats."))} == set(layout.shapes)
    assert {tuple(saved[name].shape) == shape for name, shape in layout.shapes.items()} == {True}
    assert {"obs_stats.count", "obs_stats.mean", "obs_stats.var"} <= set(saved)


def test_weights_alone_leave_the_optimizer_fresh() -> None:
    at, episodes = lived()
    fresh = assembly.fresh_learner(at.plan, [5], 2)
    learner = snapshot.weights(at.plan.policy, [taken(at, episodes, 1)], fresh, optimizer=False)
    assert torch.equal(learner.flat, at.learner.flat[1:2])
    assert learner.optimizer.steps.tolist() == [[0.0]]
    assert learner.obs_stats is not None
    assert at.learner.obs_stats is not None
    assert torch.equal(learner.obs_stats.mean, at.learner.obs_stats.mean[1:2])


@pytest.mark.parametrize("change", [{"net": {"hidden": [8, 8]}}, {"net": {"hidden": [9]}}, {"net": {"shared": True}}])
def test_weights_of_another_network_are_refused_by_name(change: dict[str, Any]) -> None:
    at, episodes = lived()
    other = workshop([make_config(env=ENV, **change)])
    with pytest.raises(ConfigError, match=r"(actor|trunk)\.\d\.\w+ is .*, the config needs"):
        snapshot.weights(other.plan.policy, [taken(at, episodes, 0)], other.learner, optimizer=True)


def test_a_saved_place_fits_only_envs_of_its_own_shape() -> None:
    at, episodes = lived()
    found = taken(at, episodes, 0)
    assert snapshot.fits(found, at.env)
    assert not snapshot.fits(found, workshop([make_config(env={**ENV, "n_envs": 3})]).env)
    assert not snapshot.fits(found, workshop([make_config(env={**ENV, "frame_stack": 2})]).env)


def test_without_any_checkpoint_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    with pytest.raises(CheckpointCorrupt, match="no checkpoint"):
        snapshot.of_run(tmp_path, None)


def test_checkpoints_that_were_passed_over_are_named_and_the_advice_is_a_new_run(tmp_path: Path) -> None:
    (tmp_path / "g1-s0" / "checkpoints" / "64").mkdir(parents=True)
    with pytest.raises(CheckpointCorrupt) as caught:
        snapshot.of_run(tmp_path / "g1-s0", None)
    first, why, *_, advice = str(caught.value).split("\n")
    assert first == "run g1-s0 has no checkpoint that can be used."
    assert "64 cannot be used: it is incomplete" in why
    assert advice.endswith("as a new run: rlclinic train g1-s0")
    assert "An earlier one is used" not in str(caught.value)
