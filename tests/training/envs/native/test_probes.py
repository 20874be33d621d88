"""The probes behave as their table of known values says."""

import itertools

import pytest
import torch

from rlclinic.config import EnvConfig
from rlclinic.training import envs
from rlclinic.training.envs.native import probes

GAMMA = 0.9


@pytest.mark.parametrize("probe_id", probes.PROBES)
def test_acting_best_earns_exactly_the_tabled_value_from_every_observation(probe_id: str) -> None:
    probe, table = probes.PROBES[probe_id], probes.optimal_values(probe_id, GAMMA)
    best = {answer.obs: answer.action for answer in probe.answers}
    env = envs.make(EnvConfig(id=probe_id), [0], 32)
    obs = env.reset()
    first, total, discount, alive = obs.clone(), torch.zeros(1, 32), torch.ones(1, 32), torch.ones(1, 32, dtype=torch.bool)
    for _ in range(3):
        choice = torch.tensor([[float(best[value] or 0) for value in obs.flatten().tolist()]])
        step = env.step(choice.unsqueeze(-1) if probe.actions is None else choice.long())
        total += alive * discount * step.reward
        discount = discount * GAMMA
        alive &= ~step.terminated
        obs = torch.where(alive.unsqueeze(-1), step.obs, first)
    assert not alive.any()
    if probe_id == "probe:3":
        assert set(first.flatten().tolist()) == {0.0}
        assert table == {0.0: GAMMA, 1.0: 1.0}
    else:
        assert set(first.flatten().tolist()) == set(table)
    expected = torch.tensor([[table[value] for value in first.flatten().tolist()]])
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize("probe_id", ["probe:4", "probe:5", "probe:continuous"])
def test_any_other_action_earns_less(probe_id: str) -> None:
    probe = probes.PROBES[probe_id]
    dynamics = probes.ProbeEnv(probe_id)
    others = [0.0, 0.9, -0.9, 3.0] if probe.actions is None else range(probe.actions)
    for answer, action in itertools.product(probe.answers, others):
        state = torch.tensor([[answer.obs, 0.0]])
        act = torch.tensor([[action]]) if probe.actions is None else torch.tensor([action])
        _, reward, _ = dynamics.advance(state, act, None)
        assert (reward.item() == answer.value(GAMMA)) == (action == answer.action)


def test_both_signs_come_up_equally_often() -> None:
    obs = envs.make(EnvConfig(id="probe:2"), [0], 4000).reset()
    assert abs(obs.mean().item()) < 0.06


def test_the_two_step_probe_pays_at_its_end_only() -> None:
    env = envs.make(EnvConfig(id="probe:3"), [0], 1)
    assert env.reset().item() == 0.0
    action = torch.zeros((1, 1), dtype=torch.int64)
    middle = env.step(action)
    assert (middle.obs.item(), middle.reward.item(), middle.terminated.item()) == (1.0, 0.0, False)
    end = env.step(action)
    assert (end.obs.item(), end.reward.item(), end.terminated.item()) == (0.0, 1.0, True)
