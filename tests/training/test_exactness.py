"""A member's numbers do not depend on how many others there are, nor on its place among them: to the last bit, in every building block.

Vector kernels compute what is left over at a tensor's end by another formula, and matrix products may depend on how their operands
lie in memory. So the sizes here are odd, and the cohort is larger than any vector.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.training import optim, rng
from rlclinic.training.maths import losses, normalize, returns
from rlclinic.training.maths.distributions import Bernoulli, Categorical, Gaussian, MultiCategorical
from rlclinic.training.nets import layout as layouts
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Layout
from rlclinic.training.sentinels import on_policy_sentinels

MEMBERS = 40
PLACES = [slice(0, 1), slice(7, 8), slice(39, 40), slice(3, 6), slice(8, 31), slice(5, 38)]
"""Alone from the beginning, the middle and the end; cohorts smaller and larger than a vector."""


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(MEMBERS, *shape, generator=torch.Generator().manual_seed(seed))


def several(count: int, *shape: int) -> list[Tensor]:
    return [numbers(*shape, seed=seed) for seed in range(count)]


def shares() -> Tensor:
    """A number between 0 and 1 for every member."""
    return torch.rand(MEMBERS, 1, generator=torch.Generator().manual_seed(0))


def assert_alone_as_together(function: Callable[..., Any], *inputs: Tensor) -> None:
    """The function gives tensors with a leading member axis; each member's are the same whoever else is there."""
    together = function(*inputs)
    for place in PLACES:
        alone = function(*(each[place].clone() for each in inputs))
        for whole, part in zip(_tensors(together), _tensors(alone), strict=True):
            assert torch.equal(whole[place], part), f"members {place.start} to {place.stop}"


def _tensors(found: Any) -> list[Tensor]:
    if isinstance(found, Tensor):
        return [found]
    return [tensor for each in found for tensor in _tensors(each)]


def with_gradient(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Value and gradient of a function, pulled by what comes back from above."""

    def both(x: Tensor, pull: Tensor) -> tuple[Tensor, Tensor]:
        leaf = x.requires_grad_()
        value = function(leaf)
        (grad,) = torch.autograd.grad(value, leaf, pull)
        return value.detach(), grad

    return both


@pytest.mark.parametrize("name", mlp.ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (10, 8), (11, 7), (8, 64), (33, 24)])
def test_activations(name: str, shape: tuple[int, int]) -> None:
    assert_alone_as_together(with_gradient(mlp.ACTIVATIONS[name]), *several(2, *shape))


@pytest.mark.parametrize("sizes", [(4, 8), (3, 7), (3, 5), (6, 5), (64, 5), (64, 2), (64, 1), (1, 16), (1, 1), (7, 64), (64, 64)])
@pytest.mark.parametrize("rows", [1, 3, 10, 64])
def test_linear_layers(sizes: tuple[int, int], rows: int) -> None:
    # The layer lies in the middle of a buffer of odd width, as in training.
    layout = Layout({"before": (3,), "layer.weight": sizes, "layer.bias": (1, sizes[1]), "after": (2,)})

    def layer(flat: Tensor, x: Tensor, pull: Tensor) -> Any:
        leaf, obs = flat.requires_grad_(), x.requires_grad_()
        value = layouts.linear(layout.views(leaf), "layer", obs)
        return value.detach(), *torch.autograd.grad(value, (leaf, obs), pull)

    assert_alone_as_together(layer, numbers(layout.width), numbers(rows, sizes[0], seed=1), numbers(rows, sizes[1], seed=2))


@pytest.mark.parametrize("width", [1, 7, 64])
def test_value_heads(width: int) -> None:
    layout = Layout({"value.weight": (1, width), "value.bias": (1,)})
    assert_alone_as_together(
        lambda flat, x: layouts.scalar(layout.views(flat), "value", x), numbers(layout.width), numbers(11, width, seed=1)
    )


@pytest.mark.parametrize("kind", optim.RULES)
def test_optimizers(kind: str) -> None:
    layout = Layout({"a": (5, 7), "b": (1, 3)})
    rule = optim.Optimizer(kind, 1e-5, 0.01, 0.9, 0.99, layout)

    def twelve_steps(flat: Tensor, rate: Tensor, age: Tensor, *grads: Tensor) -> Any:
        state = optim.start(flat)._replace(steps=age)
        for step in range(12):
            grad = optim.clip_by_norm(grads[step % 3], grads[step % 3].norm(dim=1, keepdim=True), rate)
            flat, state = optim.step(rule, flat, grad, state, rate, None)
        return flat, state

    ages = 13.0 * torch.arange(MEMBERS).view(-1, 1)  # members that were frozen for a while have taken fewer steps
    assert_alone_as_together(twelve_steps, numbers(layout.width), numbers(1, seed=9).abs() * 0.1, ages, *several(3, layout.width))


@pytest.mark.parametrize(
    "distribution", [Categorical(3), MultiCategorical((2, 3)), Bernoulli(3), Gaussian(3)], ids=lambda each: type(each).__name__
)
def test_distributions(distribution: Any) -> None:
    width = 6 if isinstance(distribution, Gaussian) else distribution.size

    def everything(old: Tensor, new: Tensor, seed: Tensor, pull: Tensor) -> Any:
        noise = distribution.noise(seed, torch.arange(11).view(1, -1))
        action = distribution.sample(old, noise)
        leaf = new.requires_grad_()
        log_prob, entropy = distribution.log_prob_entropy(leaf, action)
        (grad,) = torch.autograd.grad(((log_prob + entropy) * pull).sum(), leaf)
        return noise, action, log_prob.detach(), entropy.detach(), grad, distribution.kl(old, new).detach()

    seeds = torch.arange(MEMBERS).view(-1, 1)
    assert_alone_as_together(everything, numbers(11, width), numbers(11, width, seed=1), seeds, numbers(11, seed=2))


def test_returns() -> None:
    def everything(reward: Tensor, value: Tensor, next_value: Tensor, draws: Tensor, gamma: Tensor) -> Any:
        terminated, truncated = draws > 1.2, draws < -1.2
        return (
            returns.gae(reward, value, next_value, terminated, truncated, gamma, gamma),
            returns.rewards_to_go(reward, next_value, terminated, truncated, gamma),
            returns.rewards_to_go(reward, None, terminated, truncated, gamma),
            normalize.discounted_returns(reward, terminated, value[:, 0], gamma),
        )

    assert_alone_as_together(everything, *several(4, 7, 3), shares())


def test_normalizers() -> None:
    def everything(rows: Tensor, draws: Tensor) -> Any:
        members = len(rows)
        everyone = torch.ones(members, 1, dtype=torch.bool)
        stats = normalize.include(normalize.moments(members, 5, torch.device("cpu")), rows, everyone)
        stats = normalize.include(stats, rows * 2, everyone, (draws > 0).float())
        advantage = rows[..., 0]
        scaled = normalize.standardize(advantage), normalize.standardize(advantage, (draws > 0).float())
        return tuple(stats), normalize.observations(stats, rows, 10.0), scaled

    assert_alone_as_together(everything, numbers(11, 5), numbers(11, seed=1))


def test_losses() -> None:
    def everything(x: Tensor, y: Tensor, z: Tensor, clip: Tensor) -> Any:
        leaf, weight = x.requires_grad_(), (z > 0).float()
        found = [
            losses.clipped_surrogate(leaf.exp(), y, clip),
            losses.policy_gradient(leaf, y, weight),
            losses.value_error(leaf, y),
            losses.clipped_value_error(leaf, y, z, clip, weight),
            losses.kl_k3(leaf),
        ]
        return [(loss.detach(), torch.autograd.grad(loss.sum(), leaf, retain_graph=True)[0]) for loss in found]

    assert_alone_as_together(everything, *several(3, 11), shares())


def test_statistics_of_sentinels() -> None:
    def everything(x: Tensor, y: Tensor) -> Any:
        return (
            on_policy_sentinels.correlation(x, y),
            on_policy_sentinels.explained_variance(x, y),
            on_policy_sentinels.effective_sample_size(x),
        )

    assert_alone_as_together(everything, *several(2, 11))


def test_random_numbers() -> None:
    def everything(seed: Tensor) -> Any:
        step, env = torch.arange(7).view(1, -1, 1), torch.arange(3).view(1, 1, -1)
        return (
            rng.uniform(seed, rng.ACTION, step, env),
            rng.normal(seed, rng.ACTION, step, env),
            rng.gumbel(seed, rng.ACTION, step, env),
            rng.permutation(seed, rng.PERMUTATION, 3, 2, 11),
        )

    assert_alone_as_together(everything, torch.arange(MEMBERS).view(-1, 1, 1))
