"""Sentinels of algorithms with a replay, on cases whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlclinic.training.sentinels import off_policy_sentinels
from rlclinic.training.sentinels.off_policy_sentinels import UNSEEN_SHARE, known_returns
from tests.training import replays
from tests.training.cohorts import make_config
from tests.training.tasks import CorridorVector

GAMMA = 0.9


def flags(length: int, *at: int) -> np.ndarray:
    """[T], true at these steps."""
    found = np.zeros(length, dtype=bool)
    found[list(at)] = True
    return found


def test_the_returns_of_the_last_episode_that_came_to_a_real_end_are_known_to_its_end() -> None:
    reward = np.arange(9.0)
    # An episode that began before, one with a real end, one that a limit cut, one that still goes on.
    first, returns = known_returns(reward, flags(9, 4), flags(9, 1, 7), GAMMA)
    assert first == 2
    np.testing.assert_allclose(returns, [2 + GAMMA * (3 + GAMMA * 4), 3 + GAMMA * 4, 4])


def test_an_episode_whose_beginning_is_forgotten_has_no_known_returns() -> None:
    assert not len(known_returns(np.ones(9), flags(9, 4), flags(9), GAMMA)[1])
    assert not len(known_returns(np.ones(9), flags(9), flags(9), GAMMA)[1])


def test_of_an_episode_that_a_limit_cut_only_steps_far_from_the_cut_have_known_returns() -> None:
    length, before = 100, 3
    first, returns = known_returns(np.ones(length), flags(length), flags(length, before - 1, length - 1), GAMMA)
    endless = 1 / (1 - GAMMA)
    assert first == before
    # 0.9^43 is 0.0108, 0.9^44 is 0.0097.
    assert len(returns) == length - before - 43
    assert np.all(returns > (1 - UNSEEN_SHARE) * endless)
    assert np.all(returns < endless)


@pytest.mark.parametrize("gamma", [0.99, 1.0])
def test_an_episode_that_was_cut_too_early_has_no_known_returns(gamma: float) -> None:
    assert not len(known_returns(np.ones(100), flags(100), flags(100, 0, 99), gamma)[1])


def test_q_values_are_measured_against_returns_where_episodes_are_only_ever_cut() -> None:
    at = replays.of_kind("td3", env={"id": "Pendulum-v1", "n_envs": 1}, algo={"gamma": 0.9, "buffer_size": 1_000})
    while at.env_steps < 450:
        at.iterate(learn=False)
    found = off_policy_sentinels._bias(at.plan, at.learner, at.memory, at.numbers())["q_bias"]
    # A young critic says about 0; what came is what a swinging pendulum costs at every step, discounted.
    costs = at.memory.table[:, :450, at.memory.cells["reward"].start].mean(1) / (1 - 0.9)
    torch.testing.assert_close(found, -costs.to(found), rtol=0.5, atol=2.0)


def corridors(kind: str, seeds: tuple[int, ...] = (0,), n_envs: int = 2, **changes: dict[str, float]) -> replays.Bench:
    """Cohorts in a vector environment that resets in steps of their own; every real step pays 1, 2 or 4."""
    env = {"id": "Corridor", "kwargs": {"continuous": kind in ("td3", "sac")}, "n_envs": n_envs}
    return replays.bench([make_config(kind, env, seed, **changes) for seed in seeds], CorridorVector)


@pytest.mark.parametrize("kind", ["dqn", "dqn with everything", "td3", "sac"])
def test_steps_in_which_a_vector_environment_only_resets_are_in_no_sentinel(kind: str) -> None:
    at = corridors(kind)
    before = at.learner
    while at.env_steps < 200:
        steps = at.iterate()
    readings = {name: torch.stack(values) for name, values in at.readings.items()}
    after = replace(at.learner, reward_bound=off_policy_sentinels.largest(at.plan, at.learner, steps))
    seen = off_policy_sentinels.Seen(before, after, steps, readings)
    found = off_policy_sentinels.every_row(at.plan, seen, at.env, at.memory, at.numbers())
    found |= off_policy_sentinels.now_and_then(at.plan, seen, at.memory, at.numbers())
    number = {name.removeprefix(off_policy_sentinels.PREFIX): float(value) for name, value in found.items()}
    # A reset pays nothing, and the observation before it is the final one of the episode before, from which nobody acts.
    assert (number["reward_nonzero"], number["reward_min"], number["reward_max"]) == (1.0, 1.0, 4.0)
    assert number["obs_abs_max"] == 2.0
    assert number["next_obs_is_reset"] == 0.0
    assert number["rank_critic"] >= 1.0


def test_q_values_and_errors_are_those_of_the_rows_that_count() -> None:
    at = corridors("dqn", (0, 1))
    while at.env_steps < 200:
        steps = at.iterate()
    readings = {name: torch.stack(values) for name, values in at.readings.items()}
    counts = readings["counts"][-1]
    assert 0 < int(counts.sum()) < counts.numel()
    poisoned = readings | {name: torch.where(readings["counts"], readings[name], 1e6) for name in ("q", "target", "error")}
    seen = [off_policy_sentinels.Seen(at.learner, at.learner, steps, each) for each in (readings, poisoned)]
    plain, poison = (off_policy_sentinels._values(at.plan, each, at.numbers()) for each in seen)
    for name, number in plain.items():
        torch.testing.assert_close(poison[name], number, msg=name)
    torch.testing.assert_close(plain["value_mean"][1], readings["q"][-1][1][counts[1]].mean())


def test_the_return_of_an_episode_begins_with_its_first_step_and_not_with_the_reset_before_it() -> None:
    at = corridors("dqn", n_envs=1, algo={"gamma": 0.5})
    while at.env_steps < 100:
        at.iterate(learn=False)
    for name in at.learner.nets:
        at.learner.nets[name].zero_()  # Q-values of 0, so that what is left is the return
    found = off_policy_sentinels._bias(at.plan, at.learner, at.memory, at.numbers())["q_bias"]
    # The three steps are worth 1 + 2 gamma + 4 gamma^2, 2 + 4 gamma and 4, of 128 probes 63, 64 and 1; the reset would be worth 1.5.
    torch.testing.assert_close(found, torch.tensor([-(63 * 3.0 + 65 * 4.0) / 128]), rtol=0.01, atol=0.0)
