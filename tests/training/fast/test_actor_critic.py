"""The backward pass that is written out, held against autograd's through the layers one by one."""

from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.config import NetConfig
from rlclinic.training.fast import actor_critic_backward
from rlclinic.training.maths import distributions
from rlclinic.training.maths.distributions import Categorical, Gaussian
from rlclinic.training.nets import layout, mlp

CASES: dict[str, tuple[distributions.Distribution, dict[str, Any]]] = {
    "two trunks": (Categorical(3), {"hidden": (8, 4)}),
    "one trunk": (Categorical(3), {"hidden": (8, 4), "shared": True}),
    "another critic": (Categorical(2), {"hidden": (8,), "critic_hidden": (4, 4, 8)}),
    "a deviation of its own": (Gaussian(2), {"hidden": (8,), "log_std_init": -0.5}),
    "one action": (Gaussian(1), {"hidden": (8, 8)}),
    "a deviation per state": (Gaussian(2), {"hidden": (8,), "state_dependent_std": True}),
    "rectified": (Gaussian(2), {"hidden": (8, 8), "activation": "relu"}),
    "rectified and shared": (Categorical(3), {"hidden": (8,), "activation": "relu", "shared": True}),
}


def case(name: str) -> tuple[mlp.ActorCritic, Tensor, Tensor]:
    """A policy, weights [M = 3, P] and observations [3, 16, 5], in double precision."""
    distribution, net = CASES[name]
    policy = mlp.build(NetConfig(**net), 5, distribution)
    generator = torch.Generator().manual_seed(0)
    flat = torch.randn(3, policy.layout.width, generator=generator, dtype=torch.float64)
    return policy, flat, torch.randn(3, 16, 5, generator=generator, dtype=torch.float64)


def pulls(policy: mlp.ActorCritic, head: Tensor, value: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """What a loss might say at the head, at the deviation's own parameter and at the value."""
    generator = torch.Generator().manual_seed(1)
    log_std = (len(value), 1, policy.distribution.size) if policy.has_log_std else None
    shapes = (head.shape, log_std, value.shape)
    first, second, third = (None if shape is None else torch.randn(shape, generator=generator, dtype=value.dtype) for shape in shapes)
    assert first is not None
    assert third is not None
    return first, second, third


def by_hand(policy: mlp.ActorCritic, flat: Tensor, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    params = policy.layout.views(flat)
    done = actor_critic_backward.forward(policy, params, obs)
    return done.head, done.value, actor_critic_backward.backward(policy, params, done, *pulls(policy, done.head, done.value))


def by_autograd(policy: mlp.ActorCritic, flat: Tensor, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    leaf = flat.clone().requires_grad_()
    params = policy.layout.views(leaf)
    head = layout.narrow(params, "policy", mlp.hidden(policy, params, policy.actor_trunk, obs)[-1])
    value = layout.scalar(params, "value", mlp.hidden(policy, params, policy.critic_trunk, obs)[-1])
    by_head, by_log_std, by_value = pulls(policy, head, value)
    total = (head * by_head).sum() + (value * by_value).sum()
    if by_log_std is not None:
        total = total + (params["log_std"] * by_log_std).sum()
    return head.detach(), value.detach(), torch.autograd.grad(total, leaf)[0]


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_autograds(name: str) -> None:
    policy, flat, obs = case(name)
    for ours, theirs in zip(by_hand(policy, flat, obs), by_autograd(policy, flat, obs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_acting_without_gradients_gives_the_same(name: str) -> None:
    policy, flat, obs = case(name)
    assert policy.written_out(obs), "otherwise this compares a thing with itself"
    params = policy.layout.views(flat)
    with torch.no_grad():
        found = mlp.actor(policy, params, obs), mlp.critic(policy, params, obs)
    torch.testing.assert_close(found, (mlp.actor(policy, params, obs), mlp.critic(policy, params, obs)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("net", "obs_size", "rows", "used"),
    [
        ({"hidden": (64, 64)}, 4, 8, True),
        ({"hidden": (8,)}, 4, 4, True),
        ({"hidden": (8,)}, 4, 3, False),  # a member's block would end within a vector
        ({"hidden": (32, 1)}, 4, 32, False),  # a matrix product of width one
        ({"hidden": (32,)}, 1, 32, False),
        ({"hidden": ()}, 4, 32, False),
        ({"hidden": (32,), "activation": "relu"}, 4, 32, True),
        ({"hidden": (7,), "activation": "relu"}, 4, 3, True),  # a maximum is the same wherever it is computed
        ({"hidden": (32,), "activation": "elu"}, 4, 32, False),
        ({"hidden": (32,), "layer_norm": True}, 4, 32, False),
        ({"hidden": (32,), "critic_hidden": (7,)}, 4, 8, False),
    ],
)
def test_it_is_used_where_its_bits_do_not_depend_on_the_neighbours(net: dict[str, Any], obs_size: int, rows: int, used: bool) -> None:
    policy = mlp.build(NetConfig(**net), obs_size, Categorical(2))
    assert policy.written_out(torch.zeros(2, rows, obs_size)) is used


@pytest.mark.parametrize("name", CASES)
def test_a_members_gradient_has_the_same_bits_in_any_cohort(name: str) -> None:
    distribution, net = CASES[name]
    policy = mlp.build(NetConfig(**{**net, "hidden": (64, 64)}), 5, distribution)
    generator = torch.Generator().manual_seed(0)
    flat, obs = torch.randn(7, policy.layout.width, generator=generator) * 0.2, torch.randn(7, 16, 5, generator=generator)

    def gradient(members: slice) -> Tensor:
        params, seen = policy.layout.views(flat[members].clone()), obs[members].clone()
        done = actor_critic_backward.forward(policy, params, seen)
        log_std = params["log_std"] * 2 if policy.has_log_std else None
        return actor_critic_backward.backward(policy, params, done, done.head * 2, log_std, done.value * 2)

    together = gradient(slice(None))
    for members in (slice(0, 1), slice(3, 4), slice(2, 6)):
        assert torch.equal(gradient(members), together[members])


def test_layers_are_tanh() -> None:
    policy, flat, obs = case("two trunks")
    params = policy.layout.views(flat)
    first, second = actor_critic_backward.tanh_layers(params, "actor", 2, obs)
    torch.testing.assert_close(first, torch.tanh(torch.baddbmm(params["actor.0.bias"], obs, params["actor.0.weight"])))
    torch.testing.assert_close(second, torch.tanh(torch.baddbmm(params["actor.1.bias"], first, params["actor.1.weight"])))
