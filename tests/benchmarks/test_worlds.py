"""Worlds: drawn environments for the diagnosis' benchmark."""

from collections import Counter

import numpy as np
import pytest
import torch

from benchmarks.diagnosis import faulty
from benchmarks.diagnosis.faulty import Clock, EnvFault, Faulty
from benchmarks.diagnosis.worlds import cells, families, gym_worlds, learnable, native, planted, sb3_cells
from rlclinic.training import envs
from rlclinic.training.envs.native import NativeEnv

NAMES = families.names()


@pytest.mark.parametrize("name", NAMES[::7])
def test_a_world_moves_alike_in_both_its_forms(name):
    world = families.world(name)
    env, dynamics = gym_worlds.make(name), native.WorldDynamics(world)
    env.action_space.seed(0)
    env.reset(seed=1)
    for _ in range(30):
        inner = env.unwrapped
        state = torch.tensor([[[*map(float, inner._state), 0.0]]])
        before = inner.np_random.bit_generator.state
        chance = torch.tensor([[inner.np_random.random()]]) if world.chance else None
        inner.np_random.bit_generator.state = before
        action = env.action_space.sample()
        moved, reward, ended = dynamics.advance(state, torch.tensor(np.array(action))[None, None], chance)
        obs, paid, terminated, truncated, info = env.step(action)
        assert dynamics.observe(moved)[0, 0].numpy() == pytest.approx(obs, abs=1e-4)
        assert float(reward) == pytest.approx(paid, abs=1e-4)
        assert bool(ended) == terminated
        assert sum(info["reward_terms"].values()) == pytest.approx(paid)
        if terminated or truncated:
            env.reset()


def test_a_world_is_a_function_of_its_name():
    families.world.cache_clear()
    first = families.world("point-3")
    families.world.cache_clear()
    assert families.world("point-3").limit == first.limit
    assert len({(w.limit, w.obs_scale, w.reward_scale) for w in map(families.world, NAMES)}) == len(NAMES)


def test_families_are_split_whole_and_none_twice():
    parts = [
        family
        for part in ("fit", "held_out", "reserve", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
        for family in cells.SPLITS[part]
    ]
    assert sorted(parts) == sorted(families.FAMILIES)
    assert sum(found["learned"] for found in learnable.load().values()) >= 60


def test_a_world_counts_as_learned_only_where_learning_pays():
    lucky = {"random": -1.0, "constant": 5.0, "ends": [5.0, 5.0, 5.0, 5.0]}
    taught = {"random": -1.0, "constant": 1.0, "ends": [5.0, 5.1, 5.0, 4.9]}
    uneven = {"random": -1.0, "constant": 1.0, "ends": [5.0, 5.1, 0.0, 4.9]}
    assert [learnable.judge(dict(found))["learned"] for found in (lucky, taught, uneven)] == [False, True, False]


def test_faults_reach_the_members_that_have_them_and_no_others():
    world = families.world("point-0")
    faults = [EnvFault(), EnvFault(obs_lag=2), EnvFault(reward_every=5), EnvFault(same_start=True), EnvFault(action_ignored=True)]

    def play(env):
        first = env.reset()
        steps = [env.step(torch.full((5, 3), 2)) for _ in range(5)]
        return first, torch.stack([step.obs for step in steps]), torch.stack([step.reward for step in steps])

    clean = NativeEnv(native.WorldDynamics(world), [7] * 5, 3, "cpu", world.limit)
    first, obs, reward = play(clean)
    shown_first, shown, paid = play(Faulty(NativeEnv(native.WorldDynamics(world), [7] * 5, 3, "cpu", world.limit), faults, Clock(), False))
    assert torch.equal(shown[:, 0], obs[:, 0])
    assert torch.equal(paid[:, 0], reward[:, 0])
    assert torch.equal(shown[2:, 1, 0], obs[:3, 1, 0])
    assert torch.equal(shown[1, 1], first[1])
    assert not paid[:4, 2].any()
    assert paid[4, 2] == pytest.approx(reward[:, 2].sum(0).numpy(), abs=1e-5)
    assert torch.equal(shown_first[3, 0], shown_first[3, 2])
    assert not torch.equal(first[3, 0], first[3, 2])
    assert not torch.equal(shown[:, 4], obs[:, 4])


def test_an_observation_is_read_once_and_an_end_shows_nothing_of_the_next_episode():
    native.register()
    config = learnable.base("point-0")
    with faulty.planted([EnvFault(obs_noise=1.0), EnvFault(obs_frozen=True)]):
        env = envs.make(config.env.model_copy(update={"max_episode_steps": 5}), [0, 1], 3)
        shown = env.reset()
        for _ in range(12):
            step = env.step(torch.zeros(2, 3, dtype=torch.int64))
            ended = step.terminated | step.truncated
            assert torch.equal(step.obs[~ended], step.next_obs[~ended])
            assert torch.equal(step.next_obs[1], shown[1]), "frozen until the end of its own episode"
            shown = step.obs


def test_the_same_faults_are_around_a_single_environment():
    clean, late = gym_worlds.make("thermostat-2"), gym_worlds.make("thermostat-2", EnvFault(obs_lag=2, reward_every=3, same_start=True))
    first, _ = clean.reset(seed=4321)
    assert np.array_equal(first, late.reset(seed=5)[0])
    seen, paid, shown, got = [], [], [], []
    for _ in range(3):
        obs, reward, *_ = clean.step(1)
        seen.append(obs)
        paid.append(reward)
        obs, reward, *_ = late.step(1)
        shown.append(obs)
        got.append(reward)
    assert np.array_equal(shown[1], first)
    assert np.array_equal(shown[2], seen[0])
    assert got == [0.0, 0.0, pytest.approx(sum(paid))]


def test_every_fault_of_stable_baselines_is_planted_in_held_out_families_and_some_that_a_log_can_tell():
    specs = list(sb3_cells.all_specs("held_out"))
    counted = Counter(spec.what.fault for spec in specs)
    assert len({spec.name for spec in specs}) == len(specs)
    assert {planted_fault.fault for planted_fault in sb3_cells.MENUS["ppo"]} <= set(counted)
    assert sum(counted[fault] for fault in sb3_cells.TELLABLE) >= 30
    assert planted.ENVIRONMENT_CAUSES - {"environment-not-finite"} <= set(counted)
