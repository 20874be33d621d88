"""Features crossed with each other, on tasks whose values are known: masks, wrappers, ways to reset, n-step rewards, priorities,
normalizers, forks and resumes. Each combination has an analytic value, or must equal another one."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from rlclinic.training.loops import off_policy
from tests.training.cohorts import Interrupted, Workshop, assert_same_run, interrupt_at, make_config, saved, train
from tests.training.replays import bench
from tests.training.tasks import Corridor, CorridorVector

GAMMA = 0.9
VALUES = {0: 1 + 2 * GAMMA + 4 * GAMMA**2, 1: 2 + 4 * GAMMA, 2: 4.0}
RESETS = ("one by one", "SAME_STEP", "NEXT_STEP", "DISABLED")
WRAPPINGS: dict[str, dict[str, Any]] = {"bare": {}, "stacked": {"frame_stack": 2}, "timed": {"time_in_obs": True}}
MEMORIES: dict[str, dict[str, Any]] = {"rows": {}, "saving": {"optimize_memory_usage": True}, "ranked": {"prioritized": True}}


def corridor(resets: str, wrapping: str = "bare", masked: bool = False, **env: Any) -> tuple[dict[str, Any], Callable[..., Any]]:
    """The env section and the factory of a corridor that resets and is wrapped like this."""
    settings = {"id": "Corridor", "action_mask": masked, **WRAPPINGS[wrapping], **env}
    if resets == "one by one":
        return {**settings, "kwargs": {"masked": masked}, "max_episode_steps": 3}, Corridor
    return {**settings, "kwargs": {"masked": masked, "mode": resets}}, CorridorVector


def replay_config(env: dict[str, Any], **algo: Any) -> Config:
    algo = {"gamma": GAMMA, "learning_starts": 20, "buffer_size": 160, **algo}
    return make_config("dqn", env, algo=algo, run={"eval_episodes": 0, "max_env_steps": 480, "checkpoint_every_env_steps": 96})


def values(memory: Replay, n_step: int, scale: Callable[[Tensor], Tensor] | None = None, timed: bool = False) -> dict[int, float]:
    """The values by place that a learner without error ends with: the stored rows' own targets, iterated until they stand still."""
    index = torch.arange(memory.size).expand(len(memory.table), -1)
    batch = replay.gather(memory, index, n_step, torch.full((len(memory.table), 1), GAMMA), None, scale)
    weight = torch.ones_like(batch.reward) if batch.weight is None else (batch.weight > 0).float()
    seen, places = torch.cat([batch.obs, batch.next_obs], 1).flatten(0, 1).unique(dim=0, return_inverse=True)
    here, after = places.view(len(memory.table), 2, -1).unbind(1)
    count = torch.zeros(len(seen)).index_add(0, here.flatten(), weight.flatten())
    assert bool((count[after][(weight * batch.discount) > 0] > 0).all()), "a value is bootstrapped from where nobody acts"
    value = torch.zeros(len(seen))
    for _ in range(12):  # nothing is further away than three steps
        target = batch.reward + batch.discount * value[after]
        value = torch.zeros(len(seen)).index_add(0, here.flatten(), (weight * target).flatten()) / count.clamp(min=1)
    place = seen[:, -2 if timed else -1].round().int()
    found = {}
    for name in range(3):
        same = value[(place == name) & (count > 0)]
        assert len(same), f"nobody acted at place {name}"
        torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-4, atol=1e-4)
        found[name] = same[0].item()
    return found


# ── values out of a replay ──


@pytest.mark.parametrize(
    ("resets", "wrapping", "memory", "n_step", "normalized"),
    [
        (resets, wrapping, memory, n_step, normalized)
        for (one, resets), (two, wrapping), (three, memory), n_step, normalized in itertools.product(
            enumerate(RESETS), enumerate(WRAPPINGS), enumerate(MEMORIES), (1, 3), (False, True)
        )
        # Every two of these features together, and not every three.
        if (not normalized or memory == "rows") and (one + two + three + n_step // 2 + normalized) % 2
    ],
)
def test_a_replay_holds_the_known_values(resets: str, wrapping: str, memory: str, n_step: int, normalized: bool) -> None:
    env, factory = corridor(resets, wrapping, normalize_obs=normalized, normalize_reward=normalized)
    at = bench([replay_config(env, n_step=n_step, **MEMORIES[memory])], factory)
    for _ in range(3):  # the replay is overwritten once
        lived = at.iterate()
        if normalized:
            active = torch.ones(1, 1, dtype=torch.bool)
            at.learner = off_policy.update_normalizers(at.plan, at.learner, lived, at.numbers(), active)
    unit = 1.0
    if normalized:
        assert at.learner.reward_stats is not None
        unit = at.learner.reward_stats.var.rsqrt().item()
        assert unit != pytest.approx(1.0, abs=0.05)
    found = values(at.memory, n_step, off_policy.reward_scale(at.plan, at.learner), wrapping == "timed")
    assert found == pytest.approx({place: value * unit for place, value in VALUES.items()}, rel=1e-3)
    if at.memory.tree is not None:
        priorities = at.memory.tree.nodes[0, at.memory.tree.leaves :][: at.memory.size]
        valid = at.memory.table[0, :, at.memory.cells["valid"].start] if resets == "NEXT_STEP" else torch.ones(at.memory.size)
        assert torch.equal(priorities > 0, valid > 0)


@pytest.mark.parametrize(("resets", "wrapping"), list(itertools.product(RESETS, WRAPPINGS)))
def test_normalizers_cover_transitions_and_nothing_else(resets: str, wrapping: str) -> None:
    env, factory = corridor(resets, wrapping, normalize_obs=True, normalize_reward=True)
    at = bench([replay_config(env)], factory)
    lived = at.iterate(learn=False)
    learner = off_policy.update_normalizers(at.plan, at.learner, lived, at.numbers(), torch.ones(1, 1, dtype=torch.bool))
    valid = torch.ones_like(lived.terminated) if lived.valid is None else lived.valid
    sums, carry = [], torch.zeros(2)
    for t in range(lived.reward.shape[1]):
        for n in range(2):
            if valid[0, t, n]:
                carry[n] = carry[n] * GAMMA + lived.reward[0, t, n]
                sums.append(carry[n].item())
                carry[n] *= 1 - lived.end[0, t, n].float()
    assert learner.obs_stats is not None
    assert learner.reward_stats is not None
    torch.testing.assert_close(learner.obs_stats.mean[0].float(), lived.obs[0][valid[0]].mean(0), rtol=1e-4, atol=1e-5)
    assert learner.reward_stats.mean.item() == pytest.approx(torch.tensor(sums).mean().item(), rel=1e-4)
    assert learner.obs_stats.count.item() == learner.reward_stats.count.item() == valid.sum().item()


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_every_way_to_reset_gives_the_same_transitions(wrapping: str) -> None:
    found = {}
    for resets in RESETS:
        env, factory = corridor(resets, wrapping)
        lived = bench([replay_config(env)], factory).iterate(learn=False)
        valid = torch.ones_like(lived.terminated[0, :, 0]) if lived.valid is None else lived.valid[0, :, 0]
        # Where the limit of three steps is counted here, it may cut in the step that also ends the task.
        cut = lived.truncated & ~lived.terminated
        columns = [lived.obs, lived.next_obs, *(x.unsqueeze(-1).float() for x in (lived.reward, lived.terminated, cut))]
        found[resets] = torch.cat(columns, -1)[0, :, 0][valid][:30]
        assert len(found[resets]) == 30
    for resets in RESETS:
        assert torch.equal(found[resets], found["SAME_STEP"]), resets


# ── masks ──


@pytest.mark.parametrize(
    ("kind", "resets", "wrapping"),
    [
        (("ppo", "dqn with everything")[(place + at) % 2], resets, wrapping)
        for place, resets in enumerate(RESETS)
        for at, wrapping in enumerate(WRAPPINGS)
    ],
)
def test_no_forbidden_action_is_taken(tmp_path: Path, kind: str, resets: str, wrapping: str) -> None:
    env, factory = corridor(resets, wrapping, masked=True)
    run = train(tmp_path, [make_config(kind, env, run={"max_env_steps": 144, "eval_episodes": 2})], factory=factory)[0]
    assert run.status.state == "finished", run.status.reason  # the corridor raises where its mask is not kept to


# ── values out of a rollout ──


@pytest.mark.parametrize(
    ("resets", "wrapping"), [*((resets, "stacked") for resets in RESETS), ("NEXT_STEP", "timed"), ("NEXT_STEP", "bare")]
)
def test_a_critic_learns_the_known_values(tmp_path: Path, resets: str, wrapping: str) -> None:
    env, factory = corridor(resets, wrapping, n_envs=4)
    algo = {"n_steps": 32, "batch_size": 128, "n_epochs": 8, "learning_rate": {"start": 2e-2, "end": 0}, "gamma": GAMMA, "gae_lambda": 0.95}
    run = {"max_env_steps": 128 * 40, "eval_episodes": 0}
    made = train(tmp_path, [make_config("ppo", env, algo=algo, run=run, net={"hidden": [16], "shared": False})], factory=factory)[0]
    cohort = assembly.assemble([(made, assembly.load(made, resume=True))], factory)
    at = Workshop(cohort.config, cohort.members, cohort.env, cohort.plan, cohort.learner, cohort.position, cohort.seed)
    whole = at.whole()
    cohort.members[0].writer.close()
    counted = torch.ones_like(whole.value[0], dtype=torch.bool) if whole.weight is None else whole.weight[0] > 0
    place = whole.obs[0, :, -2 if wrapping == "timed" else -1].round()
    for name, value in VALUES.items():
        assert whole.value[0][counted & (place == name)].mean().item() == pytest.approx(value, abs=0.15)


# ── forks and resumes ──


@pytest.mark.parametrize(
    ("resets", "wrapping", "memory", "change"),
    [
        ("one by one", "stacked", "rows", {"n_envs": 3}),
        ("NEXT_STEP", "timed", "rows", {"n_envs": 3}),
        ("NEXT_STEP", "bare", "ranked", {"n_envs": 1}),
        ("SAME_STEP", "stacked", "ranked", {"buffer_size": 60}),
        ("DISABLED", "bare", "saving", {"buffer_size": 100}),
        ("NEXT_STEP", "stacked", "saving", {}),
        ("one by one", "bare", "saving", {}),
        ("one by one", "timed", "rows", {}),
    ],
)
def test_a_replay_that_goes_on_elsewhere_keeps_the_known_values(
    tmp_path: Path, resets: str, wrapping: str, memory: str, change: dict[str, int]
) -> None:
    env, factory = corridor(resets, wrapping)
    first = train(tmp_path, [replay_config(env, n_step=3, **MEMORIES[memory])], factory=factory)[0]
    env = {**env, **{key: value for key, value in change.items() if key == "n_envs"}}
    algo = {**MEMORIES[memory], **{key: value for key, value in change.items() if key != "n_envs"}}
    child = replay_config(env, n_step=3, **algo)
    child = child.model_copy(update={"run": child.run.model_copy(update={"max_env_steps": 600})})
    run = train(tmp_path, [child], factory=factory, parent=f"{first.id}@{first.checkpoint('@last').step}", start="fork")[0]
    assert run.status.state == "finished", run.status.reason
    cohort = assembly.assemble([(run, assembly.load(run, resume=True))], factory)
    cohort.members[0].writer.close()
    assert cohort.memory is not None
    assert cohort.memory.size == cohort.memory.shape.rows
    assert values(cohort.memory, 3, timed=wrapping == "timed") == pytest.approx(VALUES, rel=1e-3)


NATIVE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ppo, stacked, normalized": ("ppo", {"frame_stack": 2, "normalize_obs": True, "normalize_reward": True}, {}),
    "ppo, timed, masked Taxi": ("ppo", {"id": "Taxi-v3", "action_mask": True, "time_in_obs": True, "max_episode_steps": 20}, {}),
    "a2c, timed, normalized": ("a2c", {"time_in_obs": True, "normalize_reward": True, "max_episode_steps": 20}, {}),
    "dqn with everything, stacked, normalized": (
        "dqn with everything",
        {"frame_stack": 3, "normalize_obs": True, "normalize_reward": True},
        {},
    ),
    "dqn that saves memory, timed": ("dqn that saves memory", {"time_in_obs": True, "max_episode_steps": 20, "normalize_reward": True}, {}),
    "dqn, masked Taxi, priorities": (
        "dqn",
        {"id": "Taxi-v3", "action_mask": True, "max_episode_steps": 20},
        {"prioritized": True, "n_step": 2},
    ),
    "sac, stacked, normalized": ("sac", {"id": "Pendulum-v1", "max_episode_steps": 10, "frame_stack": 2, "normalize_obs": True}, {}),
    "td3, timed, clipped": ("td3", {"id": "Pendulum-v1", "max_episode_steps": 10, "time_in_obs": True, "clip_raw_reward": 1.0}, {}),
}


@pytest.mark.parametrize("name", NATIVE)
def test_alone_in_a_cohort_resumed_and_forked_are_the_same_run(tmp_path: Path, name: str) -> None:
    kind, env, algo = NATIVE[name]
    steps = 144 if kind == "ppo" else 300
    settings = {"algo": algo, "run": {"max_env_steps": steps, "checkpoint_every_env_steps": steps // 4, "eval_episodes": 0}}
    mine, other = (make_config(kind, env, seed, **settings) for seed in (0, 1))
    alone = train(tmp_path, [mine])[0]
    assert_same_run(alone, train(tmp_path, [other, mine])[1])
    cut = Store(tmp_path / "runs").create_group([mine]).runs[0]
    with pytest.raises(Interrupted):
        train_runs([cut], callback=interrupt_at(steps * 3 // 4))
    step = cut.checkpoints[-1].step
    assert 0 < step < steps
    fork = train(tmp_path, [mine], parent=f"{cut.id}@{step}", start="fork")[0]
    train_runs([Run(cut.path)], resume=True)
    assert_same_run(alone, Run(cut.path))
    assert saved(fork) == saved(alone)
