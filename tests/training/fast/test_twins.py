"""Gradients and readings by hand, held to autograd on the losses: random shapes, weights, one member and several."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.training.algos import dqn, sac, td3
from rlclinic.training.data.replay import Batch
from rlclinic.training.fast import critics, twins
from rlclinic.training.fast import dqn as fast_dqn
from rlclinic.training.fast import sac as fast_sac
from rlclinic.training.fast import td3 as fast_td3
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan
from tests.training.replays import of_kind

SHAPES = [(1, 7, (5, 4)), (2, 16, (8, 6)), (3, 33, (40, 24, 8))]
"""Members, rows of a batch, hidden layers."""
EACH = pytest.mark.parametrize(("members", "rows", "hidden"), SHAPES)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])
ACTIVATION = pytest.mark.parametrize("activation", ["relu", "tanh"])


def at_random(kind: str, members: int, rows: int, hidden: tuple[int, ...], activation: str, **algo: Any) -> tuple[Plan, Learner, Any]:
    """A plan, a learner whose networks and targets are all different, and numbers."""
    net = {"hidden": list(hidden), "activation": activation}
    at = of_kind(kind, range(members), algo={"n_step": 1, "batch_size": rows, **algo}, net=net)
    generator = torch.Generator().manual_seed(members * rows)

    def shaken(several: Any) -> dict[str, Tensor]:
        return {name: flat + 0.3 * torch.randn(flat.shape, generator=generator) for name, flat in several.items()}

    return at.plan, replace(at.learner, nets=shaken(at.learner.nets), targets=shaken(at.learner.targets)), at.numbers()


def random_batch(plan: Plan, members: int, rows: int, *, weighted: bool) -> Batch:
    generator = torch.Generator().manual_seed(rows)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(members, rows, *shape, generator=generator)

    chooses = plan.action.kind == "discrete"
    size = plan.action.sizes[0]
    action = torch.randint(size, (members, rows, 1), generator=generator) if chooses else numbers(size).tanh()
    obs = plan.memory.obs_size
    weight = torch.rand(members, rows, generator=generator) if weighted else None
    discount = 0.9 * (numbers() > -0.5)
    return Batch(numbers(obs), action, 3 * numbers(), discount, numbers(obs), weight)


def by_autograd(plan: Plan, learner: Learner, name: str, loss: Any) -> tuple[Tensor, dict[str, Tensor]]:
    leaf = learner.nets[name].clone().requires_grad_()
    value, readings = loss(off_policy.networks(plan, learner, **{name: leaf}))
    assert value.shape == (len(leaf), 1)
    return torch.autograd.grad(value.sum(), leaf)[0], readings


def assert_same(ours: tuple[Tensor, dict[str, Tensor]], theirs: tuple[Tensor, dict[str, Tensor]]) -> None:
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=2e-5)
    assert ours[1].keys() == theirs[1].keys()
    for name, reading in theirs[1].items():
        torch.testing.assert_close(ours[1][name], reading.detach(), rtol=1e-4, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}")


@EACH
@WEIGHTED
@ACTIVATION
@pytest.mark.parametrize("switches", [{}, {"double": True}, {"dueling": True}, {"double": True, "dueling": True}], ids=str)
def test_dqns_gradient_is_that_of_its_loss(
    members: int, rows: int, hidden: tuple[int, ...], weighted: bool, activation: str, switches: dict[str, Any]
) -> None:
    plan, learner, hp = at_random("dqn", members, rows, hidden, activation, **switches)
    batch = random_batch(plan, members, rows, weighted=weighted)
    target_params = off_policy.target_networks(plan, learner)
    theirs = by_autograd(plan, learner, "q", lambda params: dqn.q_loss(plan.config, params, target_params, batch))
    assert_same(fast_dqn.gradient(plan, learner, batch, hp), theirs)


def actor_critic_case(
    kind: str, members: int, rows: int, hidden: tuple[int, ...], activation: str, *, weighted: bool
) -> tuple[Plan, Learner, Any, Batch, Tensor]:
    plan, learner, hp = at_random(kind, members, rows, hidden, activation)
    batch = random_batch(plan, members, rows, weighted=weighted)
    kinds = (2,) if kind == "sac" else ()
    noise = torch.randn(members, *kinds, rows, plan.memory.action_size, generator=torch.Generator().manual_seed(5))
    return plan, learner, hp, batch, noise


@EACH
@WEIGHTED
@ACTIVATION
@pytest.mark.parametrize(("kind", "algorithm", "factor"), [("sac", sac, 1.0), ("td3", td3, 2.0), ("ddpg", td3, 2.0)])
def test_the_critics_gradient_is_that_of_their_loss(
    members: int, rows: int, hidden: tuple[int, ...], weighted: bool, activation: str, kind: str, algorithm: Any, factor: float
) -> None:
    plan, learner, hp, batch, noise = actor_critic_case(kind, members, rows, hidden, activation, weighted=weighted)
    params, target_params = off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    theirs = by_autograd(
        plan, learner, "critic", lambda params: algorithm.critic_loss(plan.config, params, target_params, batch, hp, noise)
    )
    target = algorithm.targets(plan.config, params, target_params, batch, hp, noise)
    assert_same(critics.gradient(plan, learner, batch, target, factor), theirs)


@EACH
@ACTIVATION
def test_the_actors_gradients_are_those_of_their_losses(members: int, rows: int, hidden: tuple[int, ...], activation: str) -> None:
    plan, learner, hp, batch, noise = actor_critic_case("sac", members, rows, hidden, activation, weighted=False)
    alpha = sac.temperature(off_policy.networks(plan, learner), hp)
    theirs = by_autograd(plan, learner, "actor", lambda params: sac.actor_loss(params, batch, hp, noise))
    assert_same(fast_sac.actor_gradient(plan, learner, batch, alpha, noise), theirs)
    plan, learner, hp, batch, _ = actor_critic_case("td3", members, rows, hidden, activation, weighted=False)
    theirs = by_autograd(plan, learner, "actor", lambda params: td3.actor_loss(params, batch))
    assert_same(fast_td3.actor_gradient(plan, learner, batch), theirs)


@pytest.mark.parametrize("kind", ["dqn", "td3", "ddpg", "sac", "sac with a fixed temperature"])
@pytest.mark.parametrize("members", [1, 3])
def test_updates_move_every_network_and_target_as_the_definition_moves_them_and_frozen_members_stay(kind: str, members: int) -> None:
    plan, start, hp = at_random(kind, members, 16, (8, 6), "relu")
    batch = random_batch(plan, members, 16, weighted=True)
    noise = off_policy.update_noise(plan, torch.arange(members).view(-1, 1, 1), 0, 2)
    active = torch.arange(members).view(-1, 1) != 1
    ends = []
    for module in (plan.algo, twins.find_off_policy(plan.config.name)):
        learner = off_policy.copy_learner(start)
        for update in range(2):  # the second of two is TD3's delayed one
            learner = replace(learner, updates=update)
            found = module.update(plan, learner, batch, hp, active, None if noise is None else noise[:, update])
        ends.append((learner, found))
    for (one, _), (other, _) in pairwise(ends):
        for mine, yours in ((one.nets, other.nets), (one.targets, other.targets)):
            for name, flat in mine.items():
                torch.testing.assert_close(flat, yours[name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
                assert torch.equal(flat[1:2], (start.nets if mine is one.nets else start.targets)[name][1:2])
    assert ends[0][1].keys() == ends[1][1].keys()
