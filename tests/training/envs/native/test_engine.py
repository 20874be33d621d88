"""What holds for every native environment: seeds, episodes, time limits, resume, independence of the neighbours."""

from typing import Any

import pytest
import torch

from rlclinic.config import EnvConfig
from rlclinic.training import envs, rng
from rlclinic.training.envs import native
from rlclinic.training.envs.native.cartpole import CartPole
from rlclinic.training.envs.native.engine import NativeEnv

# One id per table and physics; the others differ in a limit or a map.
IDS = tuple(env_id for env_id in native.CATALOG if env_id not in ("CartPole-v0", "FrozenLake8x8-v1", "Taxi-v4"))


def actions_for(env: Any, seeds: list[int], step: int) -> torch.Tensor:
    """Random actions that depend on a member's seed, not on its place."""
    shape = (env.n_envs, *(() if env.action.kind == "discrete" else (1,)))
    rows = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(1000 * seed + step)
        if env.action.kind == "discrete":
            rows.append(torch.randint(0, env.action.sizes[0], shape, generator=generator))
        else:
            rows.append(torch.randn(shape, generator=generator))
    return torch.stack(rows)


def played(env: Any, seeds: list[int], steps: int, start: int = 0) -> list[envs.Step]:
    return [env.step(actions_for(env, seeds, start + step)) for step in range(steps)]


def assert_same(ours: list[envs.Step], theirs: list[envs.Step], members: slice | None = None) -> None:
    """Bit for bit, every field of every step."""
    place = members or slice(None)
    for a, b in zip(ours, theirs, strict=True):
        for name, x, y in zip(a._fields, a, b, strict=True):
            assert (x is None) == (y is None), name
            if x is not None:
                assert torch.equal(x.nan_to_num(9.0)[place], y.nan_to_num(9.0)), name


@pytest.mark.parametrize("env_id", IDS)
def test_a_member_of_a_cohort_plays_the_same_bits_as_alone(env_id: str) -> None:
    config = EnvConfig(id=env_id, max_episode_steps=7)
    seeds = [5, 0, 3]
    for n_envs in (1, 5):
        cohort = envs.make(config, seeds, n_envs)
        together = played(cohort, seeds, 40)
        for place, seed in enumerate(seeds):
            alone = played(envs.make(config, [seed], n_envs), [seed], 40)
            assert_same(together, alone, slice(place, place + 1))


@pytest.mark.parametrize("env_id", IDS)
def test_a_resumed_env_continues_bit_for_bit(env_id: str) -> None:
    config = EnvConfig(id=env_id, max_episode_steps=9)
    whole, first, second = (envs.make(config, [1, 2], 4) for _ in range(3))
    played(whole, [1, 2], 50)
    played(first, [1, 2], 50)
    state = {key: value.clone() for key, value in first.state().items()}
    assert all(value.shape[0] == 2 for value in state.values())
    played(first, [1, 2], 20, start=90)  # what was saved must not move with the env
    played(second, [1, 2], 3)
    second.load_state(state)
    assert_same(played(whole, [1, 2], 60, start=50), played(second, [1, 2], 60, start=50))


@pytest.mark.parametrize("env_id", IDS)
def test_load_state_returns_the_observation_to_act_on(env_id: str) -> None:
    env, other = envs.make(EnvConfig(id=env_id), [1], 4), envs.make(EnvConfig(id=env_id), [1], 4)
    obs = played(env, [1], 12)[-1].obs
    assert torch.equal(other.load_state(env.state()), obs)


def test_members_in_a_checkpoint_can_be_loaded_apart() -> None:
    config = EnvConfig(id="FrozenLake-v1", max_episode_steps=6)
    both = envs.make(config, [1, 2], 4)
    played(both, [1, 2], 45)
    alone = envs.make(config, [2], 4)
    alone.load_state({key: value[1:] for key, value in both.state().items()})
    assert_same(played(both, [1, 2], 30, start=45), played(alone, [2], 30, start=45), slice(1, 2))


def test_start_states_are_a_function_of_seed_env_and_episode() -> None:
    env = envs.make(EnvConfig(id="CartPole-v1", max_episode_steps=3), [4, 9], 2)
    starts = [env.reset()] + [step.obs for step in played(env, [4, 9], 300)[2::3]]
    number = torch.arange(4)
    for episode, obs in enumerate(starts):
        for member, seed in enumerate((4, 9)):
            for n in range(2):
                noise = rng.uniform(torch.tensor(seed), rng.RESET, n, episode, number)
                assert torch.equal(obs[member, n], (noise * 2 - 1) * 0.05), (episode, member, n)


def test_each_env_keeps_its_own_count_of_episodes() -> None:
    # One env ends every step or two, the other every seventh: after many blocks of starts they are far apart.
    dynamics = CartPole()
    env = NativeEnv(dynamics, [0], 2, max_episode_steps=7)
    lean = torch.tensor([[[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.3, 0.0]]])
    ended = torch.zeros(2, dtype=torch.int64)
    for _ in range(400):
        env._state[0, 1] = lean[0, 1]
        env._state[0, 0] = lean[0, 0]
        step = env.step(torch.zeros((1, 2), dtype=torch.int64))
        over = (step.terminated | step.truncated)[0]
        ended += over
        for n in range(2):
            if over[n]:
                noise = rng.uniform(torch.tensor(0), rng.RESET, n, int(ended[n]), torch.arange(4))
                assert torch.equal(step.obs[0, n], (noise * 2 - 1) * 0.05)
    assert ended.tolist() == [400 // 7, 400]


def test_the_final_observation_and_the_next_episodes_first_are_both_given() -> None:
    env = envs.make(EnvConfig(id="CartPole-v1"), [0], 4)
    env.reset()
    seen = 0
    for _ in range(60):
        step = env.step(torch.ones((1, 4), dtype=torch.int64))
        over = step.terminated
        assert ((step.next_obs[..., 2].abs() > 0.2095) == over).all()
        assert (step.obs[over].abs() <= 0.05).all()
        assert torch.equal(step.obs[~over], step.next_obs[~over])
        seen += int(over.sum())
    assert seen > 10


def test_a_time_limit_truncates_and_both_flags_may_be_set() -> None:
    env = envs.make(EnvConfig(id="CartPole-v1", max_episode_steps=9), [0], 64)
    env.reset()
    flags = [env.step(torch.ones((1, 64), dtype=torch.int64)) for _ in range(9)]
    assert not any(step.truncated.any() for step in flags[:-1])
    last = flags[-1]
    fresh = torch.stack([step.terminated for step in flags[:-1]]).any(0)
    assert torch.equal(last.truncated, ~fresh)
    assert (last.terminated & last.truncated).any()
    assert env.max_episode_steps == 9


def test_envs_of_different_ages_meet_the_limit_each_at_its_own_time() -> None:
    env = envs.make(EnvConfig(id="CartPole-v1", max_episode_steps=15), [0, 1], 8)
    env.reset()
    age = torch.zeros(2, 8, dtype=torch.int64)
    cut = 0
    for number in range(120):
        step = env.step(torch.randint(2, (2, 8), generator=torch.Generator().manual_seed(number)))
        age += 1
        assert torch.equal(step.truncated, age == 15)
        cut += int(step.truncated.sum())
        age[step.terminated | step.truncated] = 0
        if number % 7 == 0:
            assert torch.equal(env.state()["elapsed"], age)
    assert cut > 20


def test_without_a_time_limit_nothing_is_truncated() -> None:
    env = envs.make(EnvConfig(id="CliffWalking-v1"), [0], 2)
    assert env.max_episode_steps is None
    assert not any(step.truncated.any() for step in played(env, [0], 600))


@pytest.mark.parametrize("env_id", IDS)
def test_what_a_step_returned_is_never_written_to_again(env_id: str) -> None:
    env = envs.make(EnvConfig(id=env_id, max_episode_steps=5), [0], 4)
    steps, copies = [], []
    for index in range(40):
        steps.append(env.step(actions_for(env, [0], index)))
        copies.append(envs.Step(*(None if x is None else x.clone() for x in steps[-1])))
    assert_same(steps, copies)


@pytest.mark.parametrize("env_id", IDS)
def test_steps_have_the_promised_shapes_and_types(env_id: str) -> None:
    env = envs.make(EnvConfig(id=env_id), [0, 1], 3)
    obs = env.reset()
    step = env.step(actions_for(env, [0, 1], 0))
    for tensor in (obs, step.obs, step.next_obs):
        assert tensor.shape == (2, 3, *env.obs_shape)
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
    assert (step.reward.shape, step.reward.dtype) == ((2, 3), torch.float32)
    for flag in (step.terminated, step.truncated):
        assert (flag.shape, flag.dtype) == ((2, 3), torch.bool)
    assert env.exact
    assert not env.failures


def test_evaluation_starts_are_the_same_for_every_member_run_and_reset() -> None:
    config = EnvConfig(id="CartPole-v1")
    env = envs.make(config, [3, 8], 6, evaluation=True)
    first = env.reset()
    played(env, [3, 8], 30)
    assert torch.equal(env.reset(), first)
    assert torch.equal(first[0], first[1])
    assert len(torch.unique(first[0], dim=0)) == 6
    assert torch.equal(envs.make(config, [99], 3, evaluation=True).reset()[0], first[0, :3])
    assert not torch.equal(envs.make(config, [10_000], 6).reset(), first[:1])


def test_evaluation_repeats_the_chances_of_a_slippery_lake_too() -> None:
    env = envs.make(EnvConfig(id="FrozenLake-v1"), [3], 6, evaluation=True)
    env.reset()
    first = played(env, [3], 40)
    env.reset()
    assert_same(first, played(env, [3], 40))


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("env_id", IDS)
def test_on_cuda_the_same_episodes_are_played_without_waiting_for_the_device(env_id: str) -> None:
    config = EnvConfig(id=env_id, max_episode_steps=6)
    ours, theirs = envs.make(config, [1, 2], 4), envs.make(config, [1, 2], 4, device="cuda")
    for index in range(80):
        action = actions_for(ours, [1, 2], index)
        on_device = action.cuda()
        try:
            torch.cuda.set_sync_debug_mode("error")
            b = theirs.step(on_device)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        a = ours.step(action)
        torch.testing.assert_close(b.obs.cpu(), a.obs, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(b.reward.cpu(), a.reward, rtol=1e-4, atol=1e-4)
        assert torch.equal(b.terminated.cpu(), a.terminated)
        assert torch.equal(b.truncated.cpu(), a.truncated)
