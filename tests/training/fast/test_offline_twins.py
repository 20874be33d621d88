"""Gradients by hand of algorithms that learn from recorded data, held to autograd on their losses."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.training import assembly
from rlclinic.training.algos.offline import iql, td3_bc
from rlclinic.training.fast.offline import iql as fast_iql
from rlclinic.training.fast.offline import td3_bc as fast_td3_bc
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner
from rlclinic.training.nets import fitted_actor, recorded_critics
from tests.training.recordings import Bench, bench, make_config

KINDS = pytest.mark.parametrize("kind", ["iql", "iql of choices", "td3_bc"])
EACH = pytest.mark.parametrize(("members", "activation"), [(1, "relu"), (3, "tanh")])


def shaken(kind: str, members: int, activation: str = "relu", **algo: Any) -> Bench:
    """A cohort whose networks and targets are all different."""
    net = {"hidden": [8, 6], "activation": activation, "log_std_init": -0.7}
    at = bench(*(make_config(kind, seed, algo=algo, net=net) for seed in range(members)))
    generator = torch.Generator().manual_seed(members)

    def shake(several: Any) -> dict[str, Tensor]:
        return {name: flat + 0.3 * torch.randn(flat.shape, generator=generator) for name, flat in several.items()}

    at.plan = assembly.with_engine(at.plan, "eager")  # type: ignore[assignment]
    at.learner = replace(at.learner, nets=shake(at.learner.nets), targets=shake(at.learner.targets))
    return at


def by_autograd(at: Bench, names: tuple[str, ...], loss: Any) -> dict[str, Tensor]:
    leaves = {name: at.learner.nets[name].clone().requires_grad_() for name in names}
    # Without a workspace, as the reference has it.
    nets = {name: replace(net, by_autograd=True) for name, net in at.plan.nets.items()}
    value = loss(off_policy.Networks(nets, {**at.learner.nets, **leaves}))[0]
    return dict(zip(names, torch.autograd.grad(value.sum(), list(leaves.values())), strict=True))


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)


@EACH
@pytest.mark.parametrize("kind", ["iql", "iql of choices"])
def test_iqls_gradients_are_those_of_its_losses(kind: str, members: int, activation: str) -> None:
    at = shaken(kind, members, activation)
    batch, hp, plan = at.batch(), at.numbers(), at.plan
    q = recorded_critics.values(at.targets(), batch.obs, batch.action).amin(1)
    grad, readings = fast_iql.value_gradient(plan, at.learner, q, batch, hp)
    assert_close(grad, by_autograd(at, ("value",), lambda params: iql.value_loss(params, q, batch, hp))["value"])
    advantage = readings["advantage"]
    weight = recorded_critics.weigh(advantage, hp.beta, plan.config.weight_cap)
    grads, _ = fast_iql.actor_gradient(plan, at.learner, weight, batch)
    assert (fitted_actor.LOG_STD in grads) == (kind == "iql")
    theirs = by_autograd(at, tuple(grads), lambda params: iql.actor_loss(plan.config, params, advantage, batch, hp))
    for name, own in grads.items():
        assert_close(own, theirs[name])
        assert own.abs().max() > 0, name


def test_a_deviation_at_its_limit_stands_still_as_the_definition_says() -> None:
    at = shaken("iql", 2)
    at.learner.nets[fitted_actor.LOG_STD][1] = -9.0  # below fitted_actor.LOWEST
    weight = torch.ones(2, 16)
    grads, _ = fast_iql.actor_gradient(at.plan, at.learner, weight, at.batch())
    loss = lambda params: iql.actor_loss(at.plan.config, params, torch.zeros(2, 16), at.batch(), at.numbers())  # noqa: E731
    theirs = by_autograd(at, ("actor", fitted_actor.LOG_STD), loss)
    assert_close(grads[fitted_actor.LOG_STD], theirs[fitted_actor.LOG_STD])
    assert float(grads[fitted_actor.LOG_STD][1].abs()) == 0.0
    assert float(grads[fitted_actor.LOG_STD][0].abs()) > 0.0


@EACH
@pytest.mark.parametrize("scale", ["size", "spread"])
def test_td3_bcs_gradient_is_that_of_its_loss(members: int, activation: str, scale: str) -> None:
    at = shaken("td3_bc", members, activation, value_scale=scale)
    batch, hp = at.batch(), at.numbers()
    grad, readings = fast_td3_bc.actor_gradient(at.plan, at.learner, batch, hp)
    assert_close(grad, by_autograd(at, ("actor",), lambda params: td3_bc.actor_loss(at.plan.config, params, batch, hp))["actor"])
    for name, reading in td3_bc.actor_loss(at.plan.config, at.networks(), batch, hp)[1].items():
        assert_close(readings[name], reading)


@KINDS
@pytest.mark.parametrize("members", [1, 3])
def test_updates_move_everything_as_the_definition_moves_it_and_frozen_members_stay(kind: str, members: int) -> None:
    at = shaken(kind, members)
    batch, hp = at.batch(), at.numbers()
    noise = off_policy.update_noise(at.plan, at.seed, 0, 2)
    active = torch.arange(members).view(-1, 1) != 1
    ends: list[tuple[Learner, dict[str, Tensor]]] = []
    for plan in (at.plan, assembly.with_engine(at.plan, "reference")):
        assert isinstance(plan, off_policy.Plan)
        learner = off_policy.copy_learner(at.learner)
        for update in range(2):  # the second of two is TD3+BC's delayed one
            learner = replace(learner, updates=update)
            found = plan.updates.update(plan, learner, batch, hp, active, None if noise is None else noise[:, update])
        ends.append((learner, found))
    for (one, mine), (other, yours) in pairwise(ends):
        assert mine.keys() == yours.keys()
        for name, reading in mine.items():
            torch.testing.assert_close(reading, yours[name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
        for own, theirs, start in ((one.nets, other.nets, at.learner.nets), (one.targets, other.targets, at.learner.targets)):
            for name, flat in own.items():
                torch.testing.assert_close(flat, theirs[name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
                assert torch.equal(flat[1:2], start[name][1:2])
                assert not torch.equal(flat[:1], start[name][:1]), name
