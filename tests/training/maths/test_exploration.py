"""Exploration: the right share of the right actions, from counters alone."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from rlclinic.training.maths import exploration

MANY = 4000


def uniform(width: int, members: int = 1, n_envs: int = MANY, step: int = 0) -> Tensor:
    return exploration.uniform_noise(torch.arange(members).view(-1, 1), step, torch.arange(n_envs), width)


def normal(width: int, members: int = 1, n_envs: int = MANY, step: int = 0) -> Tensor:
    return exploration.normal_noise(torch.arange(members).view(-1, 1), step, torch.arange(n_envs), width)


def number(*values: float) -> Tensor:
    return torch.tensor(values).view(-1, 1)


def counted(action: Tensor, actions: int) -> list[int]:
    return torch.bincount(action.flatten(), minlength=actions).tolist()


# ── noise ──


def test_noise_depends_on_member_step_env_and_component_and_on_nothing_else() -> None:
    whole = uniform(3, members=4, n_envs=5)
    assert len(whole.unique()) == whole.numel()
    assert torch.equal(exploration.uniform_noise(torch.tensor([[2]]), 0, torch.arange(5), 3), whole[2:3])
    assert torch.equal(uniform(2, members=4, n_envs=5), whole[..., :2])
    assert not torch.equal(uniform(3, members=4, n_envs=5, step=1), whole)


def test_many_steps_at_once_are_the_steps_one_by_one() -> None:
    seed, env = torch.arange(2).view(-1, 1, 1), torch.arange(3).view(1, 1, -1)
    for draw in (exploration.uniform_noise, exploration.normal_noise):
        together = draw(seed, torch.arange(4).view(1, -1, 1), env, 2)
        for t in range(4):
            assert torch.equal(together[:, t], draw(seed[:, 0], t, env[0, 0], 2))


# ── choosing one of several ──


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_epsilon_greedy_takes_the_best_and_every_other_action_as_often_as_epsilon_says(epsilon: float) -> None:
    q = torch.tensor([0.0, 3.0, 1.0, 2.0]).expand(1, MANY, 4)
    counts = counted(exploration.epsilon_greedy(q, number(epsilon), uniform(2)), 4)
    share = [epsilon / 4 + (1 - epsilon) * (a == 1) for a in range(4)]
    if epsilon == 0:
        assert counts == [0, MANY, 0, 0]
    else:
        assert stats.chisquare(counts, [MANY * s for s in share]).pvalue > 1e-3


def test_members_have_their_own_epsilon() -> None:
    q = torch.tensor([0.0, 1.0]).expand(2, MANY, 2)
    action = exploration.epsilon_greedy(q, number(0.0, 1.0), uniform(2, members=2))
    assert counted(action[0], 2) == [0, MANY]
    assert stats.binomtest(counted(action[1], 2)[0], MANY, 0.5).pvalue > 1e-3


def test_forbidden_actions_are_never_taken_and_the_allowed_ones_equally_often() -> None:
    q = torch.tensor([0.0, 9.0, 1.0, 2.0]).expand(1, MANY, 4)
    mask = torch.tensor([True, False, True, True]).expand(1, MANY, 4)
    random = counted(exploration.epsilon_greedy(q, number(1.0), uniform(2), mask), 4)
    assert random[1] == 0
    assert stats.chisquare([random[0], random[2], random[3]]).pvalue > 1e-3
    assert counted(exploration.epsilon_greedy(q, number(0.0), uniform(2), mask), 4) == [0, 0, 0, MANY]
    assert counted(exploration.boltzmann(q, number(1.0), uniform(4), mask), 4)[1] == 0
    assert counted(exploration.ucb(q, torch.zeros_like(q), number(1.0), mask), 4) == [MANY, 0, 0, 0]


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_boltzmann_draws_from_the_softmax_of_the_values_over_the_temperature(temperature: float) -> None:
    values = torch.tensor([0.0, 1.0, -1.0])
    counts = counted(exploration.boltzmann(values.expand(1, MANY, 3), number(temperature), uniform(3)), 3)
    expected = torch.softmax(values / temperature, -1) * MANY
    assert stats.chisquare(counts, expected.double() / expected.double().sum() * MANY).pvalue > 1e-3


def test_ucb_tries_everything_once_and_then_what_may_still_be_best() -> None:
    q, visits = torch.tensor([[[1.0, 0.9, 0.0]]]), torch.zeros(1, 1, 3)
    chosen = []
    for _ in range(6):
        action = exploration.ucb(q, visits, number(1.0))
        chosen.append(int(action))
        visits[0, 0, action] += 1
    assert sorted(chosen[:3]) == [0, 1, 2]
    # By hand, after one visit each: bonuses are equal and 0 leads; after (2, 1, 1): 1 + 0.83 against 0.9 + 1.18.
    assert chosen[3:5] == [0, 1]
    assert int(exploration.ucb(q, torch.tensor([[[2.0, 1.0, 1.0]]]), number(1.0))) == 1
    assert 0.9 + math.sqrt(math.log(4)) > 1 + math.sqrt(math.log(4) / 2)
    assert int(exploration.ucb(q, torch.tensor([[[2.0, 1.0, 1.0]]]), number(0.0))) == 0


def test_a_counted_bandit_is_solved_by_ucb() -> None:
    paid, visits, q = torch.tensor([0.2, 0.8, 0.5]), torch.zeros(1, 1, 3), torch.zeros(1, 1, 3)
    for step in range(300):
        action = exploration.ucb(q, visits, number(1.0))
        reward = (uniform(1, n_envs=1, step=step)[..., 0] < paid[action]).float()
        visits[0, 0, action] += 1
        q[0, 0, action] += (reward - q[0, 0, action]) / visits[0, 0, action]
    assert visits.argmax() == 1
    assert visits[0, 0, 1] > 180
    assert visits.min() > 5


# ── pushing a box action ──


def test_gaussian_noise_has_the_deviation_asked_for_and_stays_within_the_bounds() -> None:
    action = torch.zeros(2, MANY, 1)
    found = exploration.gaussian(action, number(0.1, 0.3), normal(1, members=2), -100.0, 100.0)
    for m, std in enumerate((0.1, 0.3)):
        assert stats.kstest(found[m].flatten().numpy() / std, "norm").pvalue > 1e-3
    bounded = exploration.gaussian(torch.full((1, MANY, 1), 0.9), number(1.0), normal(1))
    assert bounded.max() == 1.0
    assert bounded.min() == -1.0


def test_ornstein_uhlenbeck_noise_drifts_and_keeps_its_stationary_deviation() -> None:
    state, theta, dt = torch.zeros(1, MANY, 1), 0.5, 0.1
    states = []
    for step in range(120):
        state = exploration.ornstein_uhlenbeck(state, number(0.2), normal(1, step=step), theta, dt)
        states.append(state.flatten())
    # x' = (1 - theta dt) x + std sqrt(dt) n: variance std² dt / (1 - (1 - theta dt)²), correlation of neighbours 1 - theta dt.
    keep = 1 - theta * dt
    assert float(states[-1].std()) == pytest.approx(0.2 * math.sqrt(dt / (1 - keep**2)), rel=0.05)
    assert float(torch.corrcoef(torch.stack([states[-2], states[-1]]))[0, 1]) == pytest.approx(keep, abs=0.02)


def test_an_episodes_drift_ends_with_the_episode() -> None:
    state = torch.ones(1, 3, 2)
    after = exploration.restarted(state, torch.tensor([[False, True, False]]))
    assert after.tolist() == [[[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]]
