"""Gymnasium environments through the adapter: the trajectories of gymnasium.vector, failures of one member, resumes."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError, EnvironmentFailed
from rlclinic.training import envs
from rlclinic.training.envs import stepping
from tests.training.envs import toys

STAY = torch.zeros((1, 2), dtype=torch.int64)


def gymnasiums(env_id: str, seeds: list[int], **kwargs: Any) -> SyncVectorEnv:
    makers = [partial(gym.make, env_id, **kwargs) for _ in seeds]
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


@pytest.mark.parametrize(("env_id", "limit", "steps"), [("CartPole-v1", None, 300), ("LunarLander-v3", 40, 150), ("Pendulum-v1", 12, 60)])
def test_a_scripted_sequence_gives_what_gymnasiums_vector_env_gives(env_id: str, limit: int | None, steps: int) -> None:
    env: Any = envs.make(EnvConfig(id=env_id, native="never", max_episode_steps=limit), [3, 4], 5)
    obs = env.reset()
    seeds = env._env_seeds()
    limited = {} if limit is None else {"max_episode_steps": limit}
    theirs = [gymnasiums(env_id, row, **limited) for row in seeds]
    for member, vector in enumerate(theirs):
        np.testing.assert_array_equal(obs[member], vector.reset(seed=seeds[member])[0])
    rng, ends = np.random.default_rng(0), 0
    for _ in range(steps):
        discrete = env.action.kind == "discrete"
        action = rng.integers(0, env.action.sizes[0], (2, 5)) if discrete else rng.uniform(-2, 2, (2, 5, 1)).astype(np.float32)
        step = env.step(torch.from_numpy(action))
        for member, vector in enumerate(theirs):
            obs, reward, terminated, truncated, info = vector.step(action[member])
            np.testing.assert_array_equal(step.obs[member], obs)
            np.testing.assert_array_equal(step.reward[member], reward.astype(np.float32))
            np.testing.assert_array_equal(step.terminated[member], terminated)
            np.testing.assert_array_equal(step.truncated[member], truncated)
            for n in np.flatnonzero(terminated | truncated):
                np.testing.assert_array_equal(step.next_obs[member, n], info["final_obs"][n])
                ends += 1
            going = ~(terminated | truncated)
            np.testing.assert_array_equal(step.next_obs[member][going], obs[going])
    assert ends > 10
    env.close()


@pytest.mark.parametrize(
    "around", [{}, {"workers": 1}, {"wrappers": [{"id": "gymnasium.wrappers:ClipReward", "kwargs": {"max_reward": 9}}]}]
)
def test_a_weight_that_fades_goes_on_fading_after_a_resume_and_evaluations_pay_by_its_end(around: dict[str, Any]) -> None:
    config = EnvConfig(id="Own", **around)
    first, second = (envs.make(config, [0], 2, factory=toys.Fading) for _ in range(2))
    evaluation = envs.make(config, [0], 2, factory=toys.Fading, evaluation=True)
    try:
        first.reset()
        paid = [float(first.step(STAY).reward[0, 0]) for _ in range(4)]
        assert paid == pytest.approx([1.0, 0.9, 0.8, 0.7])
        second.load_state(first.state())
        assert float(second.step(STAY).reward[0, 1]) == pytest.approx(0.6)
        second.load_state({name: each for name, each in first.state().items() if name != "taken"})  # a checkpoint from before it was kept
        evaluation.reset()
        assert float(evaluation.step(STAY).reward[0, 0]) == 0.0
    finally:
        for env in (first, second, evaluation):
            env.close()


def test_an_env_that_holds_itself_is_looked_through_once() -> None:
    env = toys.Fading()
    env.env = env  # type: ignore[attr-defined]
    stepping.set_taken(env, 3)
    assert env.rewards.taken == 3
    assert stepping.find_potentials(env) is None


def test_termination_and_the_time_limit_may_come_in_one_step() -> None:
    env = envs.make(EnvConfig(id="Own", max_episode_steps=5), [0], 2, factory=toys.Walk)
    env.reset()
    flags = [env.step(STAY) for _ in range(5)]
    assert [step.terminated[0, 0].item() for step in flags] == [False] * 4 + [True]
    assert [step.truncated[0, 0].item() for step in flags] == [False] * 4 + [True]


def test_neighbouring_run_seeds_share_no_episode() -> None:
    env = envs.make(EnvConfig(id="Own"), [0, 1, 2, 3], 8, factory=toys.Walk)
    assert len(torch.unique(env.reset()[..., 1])) == 32


def test_a_member_of_a_cohort_plays_as_it_would_alone() -> None:
    config = EnvConfig(id="CartPole-v1", native="never")
    both, alone = envs.make(config, [7, 5], 3), envs.make(config, [5], 3)
    assert torch.equal(both.reset()[1:], alone.reset())
    generator = torch.Generator().manual_seed(0)
    for _ in range(80):
        action = torch.randint(0, 2, (2, 3), generator=generator)
        ours, theirs = both.step(action), alone.step(action[1:])
        assert all(torch.equal(x[1:].nan_to_num(9.0), y.nan_to_num(9.0)) for x, y in zip(ours[:5], theirs[:5], strict=True))


def test_success_is_read_where_an_episode_ends() -> None:
    env = envs.make(EnvConfig(id="Own", kwargs={"length": 2}), [0], 2, factory=toys.Walk)
    env.reset()
    first, last = env.step(torch.tensor([[0, 1]])), env.step(torch.tensor([[0, 1]]))
    assert first.success is not None
    assert last.success is not None
    assert first.success.isnan().all()
    assert last.success.tolist() == [[0.0, 1.0]]


def test_masks_are_read_for_the_observation_to_act_on() -> None:
    env = envs.make(EnvConfig(id="Own", action_mask=True, kwargs={"length": 4}), [0, 1], 2, factory=toys.Masked)
    env.reset()
    for taken in (0, 1, 2, 3, 0, 1):
        assert env.action_mask is not None
        assert env.action_mask.dtype == torch.bool
        assert env.action_mask[0, 0].tolist() == [taken % 3 == choice for choice in range(3)]
        step = env.step(torch.zeros((2, 2), dtype=torch.int64))
        assert step.action_mask is env.action_mask


def test_a_mask_that_is_not_reported_fails_the_member() -> None:
    env = envs.make(EnvConfig(id="Own", action_mask=True), [0], 2, factory=toys.Walk)
    env.reset()
    assert 'no info["action_mask"]' in str(env.failures[0])


@pytest.mark.parametrize(("fault", "text"), [("obs", r"observation[1] = nan"), ("reward", "reward = inf"), ("raise", "the wheel came off")])
def test_a_faulty_env_fails_its_member_and_no_other(fault: str, text: str) -> None:
    config = EnvConfig(id="Own", kwargs={"fault": fault, "at": 6, "share": 0.12})
    env = envs.make(config, [0, 1, 2], 3, factory=toys.Faulty)
    healthy = envs.make(EnvConfig(id="Own", kwargs={"fault": "none"}), [0, 1, 2], 3, factory=toys.Faulty)
    chosen = [(int(m), int(n)) for m, n in (env.reset()[..., 1] < 0.12).nonzero()]
    (member, n), others = chosen[0], [m for m in range(3) if m not in {m for m, _ in chosen}]
    assert others, "the seeds must leave a member whole"
    healthy.reset()
    for index in range(20):
        action = torch.full((3, 3), index % 3)
        step, good = env.step(action), healthy.step(action)
        assert (member in env.failures) == (index >= 5)
        for other in others:
            for ours, theirs in zip(step[:5], good[:5], strict=True):
                assert torch.equal(ours[other], theirs[other])
        if index >= 5:
            assert not any(tensor[member].any() for tensor in step[:5])
    assert set(env.failures) == {m for m, _ in chosen}
    message = str(env.failures[member])
    assert isinstance(env.failures[member], EnvironmentFailed)
    assert f"Faulty: env {n} " in message
    assert "at step 6" in message
    assert text in message
    assert "Try: " in message


def test_an_env_that_raises_keeps_its_own_error_as_the_cause() -> None:
    env = envs.make(EnvConfig(id="Own", kwargs={"fault": "raise", "at": 1}), [0], 1, factory=toys.Faulty)
    env.reset()
    env.step(STAY[:, :1])
    assert isinstance(env.failures[0].__cause__, ValueError)
    assert "toys.py:" in str(env.failures[0])


def test_a_resume_starts_new_episodes_from_new_seeds_each_time() -> None:
    config = EnvConfig(id="Own")
    env = envs.make(config, [0, 1], 3, factory=toys.Walk)
    first = env.reset()
    assert not env.exact
    state = env.state()
    again = envs.make(config, [0, 1], 3, factory=toys.Walk)
    second = again.load_state(state)
    third = envs.make(config, [0, 1], 3, factory=toys.Walk).load_state(again.state())
    drawn = torch.stack((first, second, third))[..., 1]
    assert len(torch.unique(drawn)) == 18
    repeated = envs.make(config, [0, 1], 3, factory=toys.Walk).load_state(state)
    assert torch.equal(repeated, second)


def test_evaluation_starts_from_fixed_seeds_and_plays_one_episode() -> None:
    config = EnvConfig(id="Own", kwargs={"length": 3})
    env = envs.make(config, [0, 1], 4, evaluation=True, factory=toys.Walk)
    starts = env.reset()
    fixed = [toys.Walk().reset(seed=10_000 + k)[0] for k in range(4)]
    np.testing.assert_array_equal(starts[0], fixed)
    assert torch.equal(starts[0], starts[1])
    ones = torch.ones((2, 4), dtype=torch.int64)
    played = [env.step(ones) for _ in range(5)]
    assert torch.stack([step.reward for step in played]).sum(0).tolist() == [[3.0] * 4] * 2
    assert torch.stack([step.terminated for step in played]).sum(0).tolist() == [[1] * 4] * 2
    assert [step.valid.all().item() for step in played if step.valid is not None] == [True] * 3 + [False] * 2
    assert torch.equal(env.reset(), starts)


def test_what_a_step_returned_is_never_written_to_again() -> None:
    env = envs.make(EnvConfig(id="Own"), [0], 2, factory=toys.Walk)
    env.reset()
    steps, copies = [], []
    for _ in range(12):
        steps.append(env.step(STAY))
        copies.append([x.clone() for x in steps[-1][:5]])
    assert all(torch.equal(x, y) for step, copy in zip(steps, copies, strict=True) for x, y in zip(step[:5], copy, strict=True))


def test_one_env_for_all_is_refused() -> None:
    only = toys.Walk()
    with pytest.raises(ConfigError, match=r"(?s)returned the same environment twice.*Try: make a new one"):
        envs.make(EnvConfig(id="Own"), [0], 2, factory=lambda: only)


def test_pictures_come_from_envs_made_with_a_render_mode() -> None:
    env: Any = envs.make(EnvConfig(id="Own", kwargs={"render_mode": "rgb_array"}), [0], 2, factory=toys.Walk)
    env.reset()
    env.step(STAY)
    assert env.render(0, 1).tolist() == np.full((2, 2, 3), 1).tolist()


def test_closing_closes_every_env() -> None:
    made: list[toys.Walk] = []

    def factory() -> toys.Walk:
        made.append(toys.Walk())
        return made[-1]

    env = envs.make(EnvConfig(id="Own"), [0, 1], 2, factory=factory)
    env.close()
    assert len(made) == 4
    assert all(walk.closed for walk in made)


def test_a_retired_members_envs_are_closed_and_its_neighbours_play_on_as_before() -> None:
    made: list[toys.Walk] = []

    def factory() -> toys.Walk:
        made.append(toys.Walk())
        return made[-1]

    env, whole = (
        envs.make(EnvConfig(id="Own"), [0, 1, 2], 2, factory=factory),
        envs.make(EnvConfig(id="Own"), [0, 1, 2], 2, factory=toys.Walk),
    )
    env.reset(), whole.reset()
    action = torch.ones(3, 2, dtype=torch.int64)
    for _ in range(2):
        env.step(action), whole.step(action)
    env.retire([1])
    env.retire([1])  # a second time changes nothing
    assert [walk.closed for walk in made] == [False, False, True, True, False, False]
    for _ in range(9):
        step, other = env.step(action), whole.step(action)
        for ours, theirs in zip(step[:5], other[:5], strict=True):
            assert torch.equal(ours[[0, 2]], theirs[[0, 2]])
        assert not any(tensor[1].any() for tensor in (step.next_obs, step.reward, step.terminated, step.truncated))
    assert [walk.taken for walk in made[2:4]] == [2, 2]
    assert env.failures == {}
    assert torch.equal(env.reset()[[0, 2]], whole.reset()[[0, 2]])
    env.close()
    assert all(walk.closed for walk in made)
