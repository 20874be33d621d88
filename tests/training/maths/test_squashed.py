"""SAC's policy against PyTorch's own squashed normal, and where that one breaks."""

import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from rlclinic.training.fast import sac
from rlclinic.training.maths import squashed


def test_samples_and_log_probabilities_are_those_of_torch() -> None:
    torch.manual_seed(0)
    dist, noise = torch.randn(2, 50, 6).clamp(max=1.5), torch.randn(2, 50, 3)
    action, log_prob = squashed.sample(dist, noise, -20, 2)
    mean, log_std = dist.chunk(2, -1)
    reference = Independent(TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform(cache_size=1)]), 1)
    raw = mean + log_std.exp() * noise
    assert torch.allclose(action, raw.tanh(), atol=1e-6)
    inside = action.abs().amax(-1) < 0.999  # beyond it, torch's inverse of tanh has lost its digits
    assert inside.float().mean() > 0.5
    assert torch.allclose(log_prob[inside], reference.log_prob(action)[inside], atol=1e-2)
    assert torch.equal(squashed.draw(dist, noise, -20, 2), action)
    assert torch.allclose(squashed.mode(dist), mean.tanh(), atol=1e-6)


@pytest.mark.parametrize("mean", [0.0, 8.0, 30.0, -200.0])
def test_log_probabilities_and_their_slopes_are_finite_where_tanh_is_flat(mean: float) -> None:
    dist = torch.tensor([[[mean, 0.5]]], requires_grad=True)
    _, log_prob = squashed.sample(dist, torch.tensor([[[0.3]]]), -20, 2)
    (grad,) = torch.autograd.grad(log_prob.sum(), dist)
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(grad).all()
    # log p = -z^2/2 - log std - log(2 pi)/2 - log(1 - tanh^2 x), in double precision.
    x = torch.tensor(mean + torch.e**0.5 * 0.3, dtype=torch.float64)
    slope = torch.log(4 * torch.exp(-2 * x.abs())) - 2 * torch.log1p(torch.exp(-2 * x.abs()))
    expected = -0.5 * 0.3**2 - 0.5 - 0.5 * squashed.LOG_2PI - slope
    assert float(log_prob.detach()) == pytest.approx(float(expected), rel=1e-4, abs=1e-3)


def test_a_deviation_beyond_its_bounds_is_held_there() -> None:
    dist = torch.tensor([[[0.0, 5.0]]])
    assert torch.equal(
        squashed.draw(dist, torch.ones(1, 1, 1), -20, 2), squashed.draw(torch.tensor([[[0.0, 2.0]]]), torch.ones(1, 1, 1), -20, 2)
    )


def test_the_written_way_back_is_autograds_also_at_the_bounds_of_the_deviation() -> None:
    torch.manual_seed(0)
    dist = (3 * torch.randn(2, 40, 6)).requires_grad_()
    noise, by_action, by_log_prob = torch.randn(2, 40, 3), torch.randn(2, 40, 3), torch.rand(2, 1)
    action, log_prob = squashed.sample(dist, noise, -2.0, 1.0)
    (grad,) = torch.autograd.grad((action * by_action).sum() + (log_prob * by_log_prob).sum(), dist)
    drawn, said, back = sac.sample_and_back(dist.detach(), noise, -2.0, 1.0)
    assert torch.equal(drawn, action)
    assert torch.equal(said, log_prob)
    assert torch.allclose(back(by_action, by_log_prob), grad, atol=1e-5)
