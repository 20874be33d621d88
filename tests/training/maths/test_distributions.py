"""Action distributions against torch.distributions, and samples against the probabilities that they claim."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch import distributions as reference

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.maths import distributions
from rlclinic.training.maths.distributions import Bernoulli, Categorical, Gaussian, MultiCategorical

KINDS: dict[str, tuple[distributions.Distribution, int]] = {
    "categorical": (Categorical(4), 4),
    "multi-categorical": (MultiCategorical((2, 3)), 5),
    "bernoulli": (Bernoulli(3), 3),
    "gaussian": (Gaussian(2), 4),
}
"""Each kind with the width of its parameters."""


def parameters(width: int, seed: int = 0) -> Tensor:
    """[M = 2, B = 6, K] in double precision."""
    return torch.randn(2, 6, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def torch_parts(kind: str, dist: Tensor) -> list[Any]:
    """Independent torch distributions whose product is ours."""
    if kind == "categorical":
        return [reference.Categorical(logits=dist)]
    if kind == "multi-categorical":
        return [reference.Categorical(logits=part) for part in dist.split((2, 3), -1)]
    if kind == "bernoulli":
        return [reference.Bernoulli(logits=part) for part in dist.unbind(-1)]
    mean, log_std = dist.chunk(2, -1)
    return [reference.Normal(m, s.exp()) for m, s in zip(mean.unbind(-1), log_std.unbind(-1), strict=True)]


def components(kind: str, action: Tensor) -> list[Tensor]:
    if kind == "categorical":
        return [action]
    return [part.double() if kind == "bernoulli" else part for part in action.unbind(-1)]


def draws(kind: str, dist: Tensor, count: int) -> Tensor:
    """Actions [M, count, ...] for one distribution per member, dist [M, K]."""
    distribution, _ = KINDS[kind]
    seeds = torch.arange(dist.shape[0]).view(-1, 1, 1)
    noise = distribution.noise(seeds, torch.arange(count).view(1, -1, 1), torch.zeros(1, 1, 1, dtype=torch.int64))
    return distribution.sample(dist.view(-1, 1, 1, dist.shape[-1]).float(), noise).squeeze(2)


@pytest.mark.parametrize("kind", KINDS)
def test_log_probability_entropy_and_divergence_are_those_of_torch(kind: str) -> None:
    distribution, width = KINDS[kind]
    old, new = parameters(width), parameters(width, seed=1)
    action = distribution.sample(old, distribution.noise(torch.tensor([[1], [2]]), torch.arange(6).view(1, -1)).double())
    before, after = torch_parts(kind, old), torch_parts(kind, new)
    log_prob = torch.stack([part.log_prob(value) for part, value in zip(before, components(kind, action), strict=True)]).sum(0)
    torch.testing.assert_close(distribution.log_prob(old, action), log_prob)
    torch.testing.assert_close(distribution.entropy(old), torch.stack([part.entropy() for part in before]).sum(0))
    divergence = torch.stack([reference.kl_divergence(p, q) for p, q in zip(before, after, strict=True)]).sum(0)
    torch.testing.assert_close(distribution.kl(old, new), divergence)
    assert (divergence > 0).all()
    torch.testing.assert_close(distribution.kl(old, old), torch.zeros(2, 6, dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_log_probability_and_entropy_asked_for_together_are_the_same_bits(kind: str) -> None:
    distribution, width = KINDS[kind]
    dist = parameters(width).float()
    action = distribution.mode(dist)
    log_prob, entropy = distribution.log_prob_entropy(dist, action)
    assert torch.equal(log_prob, distribution.log_prob(dist, action))
    assert torch.equal(entropy, distribution.entropy(dist))


@pytest.mark.parametrize("kind", KINDS)
def test_no_action_is_likelier_than_the_mode(kind: str) -> None:
    distribution, width = KINDS[kind]
    dist = parameters(width)
    best = distribution.log_prob(dist, distribution.mode(dist))
    for step in range(20):
        noise = distribution.noise(torch.tensor([[1], [2]]), step, torch.arange(6).view(1, -1)).double()
        assert (distribution.log_prob(dist, distribution.sample(dist, noise)) <= best).all()


@pytest.mark.parametrize("kind", ["categorical", "multi-categorical", "bernoulli"])
def test_every_action_is_sampled_as_often_as_its_probability_says(kind: str) -> None:
    distribution, width = KINDS[kind]
    dist, count = parameters(width)[:, 0], 20_000
    action = draws(kind, dist, count)
    for member in range(2):
        seen, times = action[member].view(count, -1).unique(dim=0, return_counts=True)
        chosen = seen.squeeze(-1) if kind == "categorical" else seen
        expected = distribution.log_prob(dist[member].expand(len(seen), -1), chosen).exp()
        spread = (expected * (1 - expected) / count).sqrt()
        assert ((times / count - expected).abs() < 4.5 * spread).all()
        assert expected.sum().item() == pytest.approx(1.0)  # every action was seen


def test_gaussian_samples_have_their_mean_and_deviation_and_independent_components() -> None:
    dist, count = torch.tensor([[1.0, -2.0, 0.0, -1.0]]), 40_000
    action = draws("gaussian", dist, count)[0]
    deviation = dist[0, 2:].exp()
    assert ((action.mean(0) - dist[0, :2]).abs() < 4.5 * deviation / math.sqrt(count)).all()
    torch.testing.assert_close(action.std(0), deviation, rtol=0.02, atol=0)
    share = ((action - dist[0, :2]).abs() < deviation).float().mean(0)
    torch.testing.assert_close(share, torch.full((2,), 0.6827), rtol=0, atol=0.01)
    assert abs(torch.corrcoef(action.T)[0, 1].item()) < 0.025


@pytest.mark.parametrize("kind", KINDS)
def test_a_members_noise_depends_on_its_seed_step_and_env_alone(kind: str) -> None:
    distribution, _ = KINDS[kind]
    seeds, steps, envs = torch.tensor([5, 6, 7]).view(-1, 1, 1), torch.arange(4).view(1, -1, 1), torch.arange(3).view(1, 1, -1)
    together = distribution.noise(seeds, steps, envs)
    assert together.shape[:3] == (3, 4, 3)
    assert torch.equal(distribution.noise(seeds[1:2], steps, envs), together[1:2])
    assert torch.equal(distribution.noise(seeds, steps[:, 2:3], envs)[:, 0], together[:, 2])
    assert torch.equal(distribution.noise(torch.tensor([[6]]), 2, torch.tensor([[1]]))[0, 0], together[1, 2, 1])
    assert together.flatten().unique().numel() > 0.99 * together.numel()


# ── masks ──


def test_a_forbidden_action_has_no_probability_no_gradient_and_is_never_drawn() -> None:
    logits = torch.randn(1, 1, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    allowed = torch.tensor([True, False, True, False])
    dist = logits.masked_fill(~allowed, distributions.FORBIDDEN)
    kind = Categorical(4)
    plain = reference.Categorical(logits=logits[..., allowed])
    torch.testing.assert_close(kind.entropy(dist), plain.entropy())
    torch.testing.assert_close(kind.log_prob(dist, torch.tensor([[2]])), plain.log_prob(torch.tensor([[1]])))
    (kind.entropy(dist) + kind.log_prob(dist, torch.tensor([[2]])) + kind.kl(dist.detach(), dist * 0.5)).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[..., ~allowed] == 0).all()
    assert (logits.grad[..., allowed] != 0).all()
    assert set(draws("categorical", dist.detach().view(1, 4), 5_000).flatten().tolist()) == {0, 2}
    assert kind.mode(dist).item() in (0, 2)


def test_masks_of_several_choices_forbid_in_their_own_part_only() -> None:
    kind = MultiCategorical((2, 3))
    dist = torch.zeros(1, 5).masked_fill(torch.tensor([[False, True, True, False, True]]), distributions.FORBIDDEN)
    assert kind.entropy(dist).item() == 0.0
    assert kind.mode(dist).tolist() == [[0, 1]]
    assert {tuple(row) for row in draws("multi-categorical", dist, 500)[0].tolist()} == {(0, 1)}


# ── which distribution, and how much entropy it can have ──


def test_each_action_space_gets_its_distribution() -> None:
    low, high = np.array([-1, 0], np.float32), np.array([1, 4], np.float32)
    assert distributions.of(ActionSpec("discrete", (4,))) == Categorical(4)
    assert distributions.of(ActionSpec("multi_discrete", (2, 3))) == MultiCategorical((2, 3))
    assert distributions.of(ActionSpec("multi_binary", (2, 2, 2))) == Bernoulli(3)
    assert distributions.of(ActionSpec("box", (2,), low, high)) == Gaussian(2, math.log(8.0))
    assert distributions.of(ActionSpec("box", (2,), low, np.array([1, np.inf], np.float32))) == Gaussian(2)


@pytest.mark.parametrize("kind", ["categorical", "multi-categorical", "bernoulli"])
def test_the_highest_entropy_is_that_of_the_uniform_choice(kind: str) -> None:
    distribution, width = KINDS[kind]
    assert distribution.max_entropy == pytest.approx(distribution.entropy(torch.zeros(1, width)).item())


def test_a_box_without_bounds_has_no_highest_entropy_and_a_bounded_one_that_of_the_uniform_density() -> None:
    assert Gaussian(2).max_entropy is None
    low, high = np.zeros(400, np.float32), np.full(400, 0.1, np.float32)
    assert distributions.of(ActionSpec("box", (400,), low, high)).max_entropy == pytest.approx(400 * math.log(0.1), rel=1e-5)
    assert distributions.of(ActionSpec("box", (2,), np.zeros(2), np.array([0.0, 1.0]))).max_entropy is None, "one part leaves no choice"


@pytest.mark.parametrize(
    ("kind", "separate", "joint"), [("categorical", 4, 4), ("multi-categorical", 5, 5), ("bernoulli", 3, 3), ("gaussian", 2, 4)]
)
def test_only_a_gaussian_with_its_own_deviation_per_state_needs_more_outputs(kind: str, separate: int, joint: int) -> None:
    distribution, _ = KINDS[kind]
    assert (distribution.outputs(False), distribution.outputs(True)) == (separate, joint)
    assert distribution.learns_std == (kind == "gaussian")


def test_a_mask_of_yes_or_no_choices_forbids_either_answer() -> None:
    kind = distributions.Bernoulli(3)
    logits = torch.tensor([[[0.3, -0.4, 0.5]]])
    # The first may only be no, the second only yes, the third either; (no, yes) of each.
    mask = torch.tensor([[[True, False, False, True, True, True]]])
    dist = distributions.forbid(kind, logits, mask)
    assert kind.mode(dist).tolist() == [[[0, 1, 1]]]
    assert kind.log_prob(dist, torch.tensor([[[0, 1, 0]]])).item() == pytest.approx(math.log(1 - 1 / (1 + math.exp(-0.5))), abs=1e-6)
    assert kind.log_prob(dist, torch.tensor([[[1, 1, 0]]])).item() < -1e7
    assert torch.isfinite(kind.entropy(dist)).all()
