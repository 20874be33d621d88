"""Turns of acting and learning: how often, from when on, with whom, and what is shown to the networks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.training.data import replay
from rlclinic.training.loops import off_policy
from tests.training.cohorts import REPLAY, TASKS, assert_same_run, make_config, table, task_of, train
from tests.training.replays import bench, of_kind
from tests.training.tasks import PayingVector, Signs


@pytest.mark.parametrize(
    ("n_envs", "train_freq", "gradient_steps", "per_step"),
    [(1, 1, 1, 1.0), (2, 4, 2, 0.25), (4, 2, -1, 1.0), (3, 8, -1, 1.0), (2, 1, 1, 0.5)],
)
def test_gradient_steps_come_in_the_promised_ratio(n_envs: int, train_freq: int, gradient_steps: int, per_step: float) -> None:
    algo = {"train_freq": train_freq, "gradient_steps": gradient_steps, "learning_starts": 0, "batch_size": 4}
    at = bench([make_config("dqn", {**TASKS["discrete"][0], "n_envs": n_envs}, algo=algo)])
    for _ in range(2):
        at.iterate()
    assert at.learner.updates == per_step * at.env_steps
    assert at.env_steps == at.memory.stored
    assert at.config.rollout_size * 2 == at.env_steps


def test_nothing_is_learned_and_actions_are_random_before_learning_starts() -> None:
    at = of_kind("td3", algo={"learning_starts": 150, "action_noise_std": 0.0})
    fresh = at.learner
    first = at.iterate()
    assert at.learner.updates == 0
    assert torch.equal(at.learner.nets["critic"], fresh.nets["critic"])
    assert first.action.std() > 0.4  # uniform between -1 and 1; the actor itself gives about 0
    second = at.iterate()
    assert at.learner.updates > 0
    assert second.action[:, -1].abs().max() < 0.4


def test_a_hard_target_is_copied_every_so_many_env_steps() -> None:
    at = of_kind("dqn", algo={"target_update_interval": 48, "train_freq": 8, "gradient_steps": 1, "learning_starts": 0})
    plan, hp = at.plan, at.numbers()
    at.learner = off_policy.copy_learner(at.learner)
    at.learner.nets["q"].add_(1.0)
    copied = []
    for now in range(16, 200, 16):
        at.learner.targets["q"].zero_()
        off_policy.follow_targets(plan, at.learner, hp, None, now - 16, now)
        copied.append(now) if torch.equal(at.learner.targets["q"], at.learner.nets["q"]) else None
    assert copied == [48, 96, 144, 192]


def test_frozen_members_keep_weights_targets_and_moments() -> None:
    for kind in ("dqn", "sac", "td3"):
        at = of_kind(kind)
        while at.env_steps < 200:
            at.iterate()
        at.members[1].state = "stopped"
        hp = at.numbers()
        active = torch.tensor([[True], [False]])
        before = at.learner
        after, _ = off_policy.learn(at.plan, off_policy.copy_learner(before), at.memory, hp, active, at.seed)
        for name, flat in before.nets.items():
            assert torch.equal(after.nets[name][1], flat[1])
            assert not torch.equal(after.nets[name][0], flat[0])
            for old, new in zip(before.optimizers[name], after.optimizers[name], strict=True):
                assert torch.equal(old[1], new[1])
        for name, flat in before.targets.items():
            assert torch.equal(after.targets[name][1], flat[1])


def test_actions_are_remembered_between_minus_one_and_one_and_sent_in_the_envs_own_units() -> None:
    at = of_kind("sac", algo={"learning_starts": 1000}, run={"max_env_steps": 2000})
    sent = []
    step = at.env.step
    at.env.step = lambda action: (sent.append(action), step(action))[1]
    transitions = at.iterate()
    assert float(transitions.action.abs().max()) <= 1.0
    assert float(transitions.action.abs().max()) > 0.9
    assert torch.allclose(torch.stack(sent, 1), transitions.action * 2.0)  # Pendulum's torque
    assert torch.equal(at.memory.table[:, :10, at.memory.cells["action"]], transitions.action.flatten(1, 2)[:, :10])


def test_stored_observations_stay_raw_and_are_normalized_when_they_are_drawn() -> None:
    at = of_kind("sac", env={"normalize_obs": True, "normalize_reward": True})
    transitions = at.iterate(learn=False)
    at.learner = off_policy.update_normalizers(at.plan, at.learner, transitions, at.numbers(), torch.ones(2, 1, dtype=torch.bool))
    rows, scale = torch.arange(64).expand(2, -1), off_policy.reward_scale(at.plan, at.learner)
    raw = replay.gather(at.memory, rows, 1, at.numbers().gamma)
    assert torch.equal(raw.obs, transitions.obs.flatten(1, 2)[:, :64])
    seen = off_policy.prepare_batch(at.plan, at.learner, replay.gather(at.memory, rows, 1, at.numbers().gamma, None, scale))
    assert seen.obs.mean((0, 1)).abs().max() < 0.5
    assert not torch.allclose(seen.reward, raw.reward)


@pytest.mark.parametrize(("clip", "value"), [(100.0, 19.0), (5.0, 9.5)])
def test_n_step_rewards_are_normalized_and_clipped_one_by_one(clip: float, value: float) -> None:
    """Rewards of 1 whose discounted returns deviate by 0.1 are 10 each when normalized; two of them make 10 + 0.9 * 10."""
    env = {"id": "Paying", "normalize_reward": True, "clip_reward": clip}
    at = bench([make_config("dqn", env, algo={"n_step": 2, "gamma": 0.9})], PayingVector)
    at.iterate()
    assert at.learner.reward_stats is not None
    at.learner = replace(at.learner, reward_stats=at.learner.reward_stats._replace(var=torch.full((1, 1), 0.01, dtype=torch.float64)))
    batch = at.batch(64)
    assert batch.weight is not None
    whole = batch.reward[(batch.weight == 1) & (batch.discount < 0.85)]  # both steps were within the episode
    assert len(whole) > 10
    torch.testing.assert_close(whole, torch.full_like(whole, value))


def test_a_vector_env_that_resets_in_a_step_of_its_own_leaves_rows_that_do_not_count() -> None:
    import gymnasium as gym

    def factory(n_envs: int = 2, **_: object) -> gym.vector.SyncVectorEnv:
        return gym.vector.SyncVectorEnv([Signs] * n_envs, autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP)

    at = bench([make_config("dqn", {"id": "Signs", "n_envs": 2}, algo={"learning_starts": 0})], factory)
    assert at.plan.memory.marks_valid
    transitions = at.iterate()
    assert transitions.valid is not None
    assert not transitions.valid.all()
    batch = at.batch(64)
    assert batch.weight is not None
    assert 0 < float(batch.weight.mean()) < 1


@pytest.mark.parametrize("wrapping", [{}, {"frame_stack": 2}, {"time_in_obs": True}])
def test_rows_in_which_a_vector_env_only_resets_do_not_count_however_it_is_wrapped(wrapping: dict[str, Any]) -> None:
    at = bench([make_config("dqn", {"id": "Paying", **wrapping}, algo={"learning_starts": 0})], PayingVector)
    transitions = at.iterate()
    batch = at.batch(64)
    assert transitions.valid is not None
    assert batch.weight is not None
    assert float((batch.reward * batch.weight).sum() / batch.weight.sum()) == 1.0  # every step pays 1, a reset pays nothing
    assert 0.6 < float(batch.weight.mean()) < 0.9  # one in four


def test_rows_in_which_a_vector_env_only_resets_are_never_drawn_by_priority() -> None:
    algo = {"learning_starts": 0, "prioritized": True, "gamma": 0.9, "learning_rate": 0.02, "gradient_steps": 16}
    at = bench([make_config("dqn", {"id": "Paying", "kwargs": {"length": 19}}, algo=algo, run={"max_env_steps": 4000})], PayingVector)
    for _ in range(6):
        at.iterate()
    stored = at.memory.table[0, : at.memory.size, at.memory.cells["valid"]]
    assert 0.04 < 1 - float(stored.mean()) < 0.06
    rows, weight = replay.by_priority(at.memory, at.seed, 10**6, 512, at.numbers().priority_beta)
    assert bool(stored[rows[0]].all())  # half of the draws after as many iterations, when resets had a priority like any step
    assert bool((weight > 0).all())


def test_a_row_that_does_not_count_loses_its_priority_when_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    at = of_kind("dqn with everything", seeds=(0,), env={"id": "CartPole-v1", "n_envs": 2})
    gather = replay.gather

    def uncounted(*given: Any) -> replay.Batch:
        batch = gather(*given)
        assert batch.weight is not None
        return batch._replace(weight=batch.weight * (batch.places != 0) if batch.places is not None else None)

    monkeypatch.setattr(replay, "gather", uncounted)
    for _ in range(3):
        at.iterate()
    assert at.memory.tree is not None
    priorities = at.memory.tree.nodes[0, at.memory.tree.leaves :][: at.memory.size]
    assert priorities[0] == 0
    assert bool((priorities[1:] > 0).all())


def test_the_value_of_a_task_that_resets_in_steps_of_its_own_is_right_under_stacked_frames() -> None:
    algo = {"learning_starts": 0, "gamma": 0.9, "learning_rate": 0.02, "target_update_interval": 16, "gradient_steps": 16}
    at = bench([make_config("dqn", {"id": "Paying", "frame_stack": 2}, algo=algo, run={"max_env_steps": 4000})], PayingVector)
    for _ in range(16):
        at.iterate()
    assert torch.stack(at.readings["q"]).mean().item() == pytest.approx(10.0, abs=0.05)  # 7.5 with the resets as rewards of nothing


def test_a_member_whose_update_is_not_finite_stops_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = replay.gather
    calls = []

    def bad(*given: object) -> replay.Batch:
        calls.append(1)
        found = good(*given)  # type: ignore[arg-type]
        reward = found.reward.clone()
        if len(reward) == 2 and len(calls) > 20:
            reward[0, 3] = torch.nan
        return found._replace(reward=reward)

    monkeypatch.setattr(replay, "gather", bad)
    runs = train(tmp_path, [make_config("dqn", TASKS["discrete"][0], seed) for seed in (0, 1)])
    assert [run.status.state for run in runs] == ["failed", "finished"]
    assert "target in gradient step" in str(runs[0].status.reason)
    monkeypatch.undo()
    assert_same_run(runs[1], train(tmp_path, [make_config("dqn", TASKS["discrete"][0], 1)])[0])


@pytest.mark.parametrize("kind", ["dqn with everything", "sac"])
def test_a_run_without_its_replay_waits_until_it_has_filled_up_again(tmp_path: Path, kind: str) -> None:
    from rlclinic.runs.record import Run
    from rlclinic.training.__main__ import train_runs
    from tests.training.cohorts import Interrupted, interrupt_at

    config = make_config(kind, TASKS[task_of(kind)][0], run={"max_env_steps": 480, "save_replay": False, "checkpoint_every_env_steps": 90})
    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=interrupt_at(300))
    run = Run(next(path for path in (tmp_path / "runs").iterdir() if path.is_dir() and not path.name.startswith("@")))
    assert not list(run.path.rglob("replay"))
    assert train_runs([run], resume=True)
    assert "it was not saved with that checkpoint" in (run.path / "run.log").read_text()
    resumed = [row for row in table(run) if row["train/sentinel/updates"]]
    assert run.status.state == "finished"
    assert float(resumed[-1]["train/sentinel/updates"]) > 0


@pytest.mark.parametrize("kind", REPLAY)
def test_every_column_of_a_row_is_known_and_most_are_filled(tmp_path: Path, kind: str) -> None:
    run = train(tmp_path, [make_config(kind, TASKS[task_of(kind)][0])])[0]
    last = table(run)[-1]
    filled = {name for name, cell in last.items() if cell}
    wanted = {"q_abs_max", "q_bound", "q_bound_ratio", "td_error", "td_error_p99", "target_distance", "replay_age", "buffer_share"}
    wanted |= {"updates_per_step", "dormant_critic", "rank_critic", "reward_mean", "obs_abs_max", "weight_norm", "optimizer_steps"}
    wanted |= {"epsilon_actual", "action_top_share"} if task_of(kind) == "discrete" else {"action_reach", "action_at_bound", "rank_actor"}
    wanted |= {"is_weight_min", "is_weight_mean", "replay_ess"} if REPLAY[kind].get("prioritized") else set()
    assert {f"train/sentinel/{name}" for name in wanted} <= filled
    assert float(last["train/sentinel/buffer_share"]) == 1.0
    if REPLAY[kind]["name"] == "sac":
        assert {"train/hp/alpha", "train/loss/alpha", "train/metrics/entropy"} <= filled
