"""Loss terms against their equations row by row, with gradients."""

import pytest
import torch
from torch import Tensor

from rlclinic.training.maths import losses

CLIP = torch.tensor([[0.1], [0.2], [0.3]], dtype=torch.float64)


def rows(seed: int, low: float = -2.0, high: float = 2.0, members: int = 3, count: int = 40) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(members, count, generator=generator, dtype=torch.float64)


def test_the_mean_keeps_the_member_axis_and_counts_only_weighted_rows() -> None:
    values = torch.tensor([[1.0, 2.0, 6.0], [4.0, 5.0, 9.0]])
    assert losses.mean(values).tolist() == [[3.0], [6.0]]
    assert losses.mean(values, torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])).tolist() == [[1.5], [9.0]]


def test_a_member_none_of_whose_rows_count_has_a_loss_of_zero() -> None:
    assert losses.mean(torch.full((2, 3), 7.0), torch.zeros(2, 3)).tolist() == [[0.0], [0.0]]


def test_every_loss_gives_one_number_per_member_however_many_rows_there_are() -> None:
    # As many rows as members: a loss of shape [M] would pass unnoticed and, against [M, 1], become [M, M].
    a, b, c = (rows(seed, count=3) for seed in range(3))
    found = (
        losses.mean(a),
        losses.clipped_surrogate(a.exp(), b, CLIP),
        losses.policy_gradient(a, b),
        losses.value_error(a, b),
        losses.clipped_value_error(a, b, c, CLIP),
        losses.kl_k3(a),
    )
    assert {tuple(loss.shape) for loss in found} == {(3, 1)}
    weighted = (losses.mean(a, c.abs()), losses.kl_k3(a, c.abs()))
    assert {tuple(loss.shape) for loss in weighted} == {(3, 1)}


def defined_surrogate(ratio: Tensor, advantage: Tensor, clip: Tensor) -> Tensor:
    clipped = torch.minimum(torch.maximum(ratio, 1 - clip), 1 + clip)
    return -torch.minimum(ratio * advantage, clipped * advantage).mean(-1, keepdim=True)


def test_the_clipped_surrogate_is_the_smaller_of_the_plain_and_the_clipped_one() -> None:
    ratio, advantage = rows(1, 0.3, 2.0), rows(2)
    torch.testing.assert_close(losses.clipped_surrogate(ratio, advantage, CLIP), defined_surrogate(ratio, advantage, CLIP))


def test_the_clipped_surrogate_has_the_equations_gradient_away_from_the_corners() -> None:
    ratio, advantage = rows(1, 0.3, 2.0), rows(2)
    # At the very edge of the clip both sides are equal, and any gradient between theirs is right.
    near = torch.stack([(ratio - 1 + CLIP).abs(), (ratio - 1 - CLIP).abs(), advantage.abs()]).amin(0) < 1e-6
    assert not near.any()
    grads = []
    for surrogate in (losses.clipped_surrogate, defined_surrogate):
        leaf = ratio.clone().requires_grad_()
        grads.append(torch.autograd.grad(surrogate(leaf, advantage, CLIP).sum(), leaf)[0])
    assert (grads[0] == 0).any()
    assert (grads[0] != 0).any()
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.5, 1.0, False), (0.5, 1.0, True), (1.5, -1.0, True), (0.5, -1.0, False), (1.05, 1.0, True), (0.95, -1.0, True)],
)
def test_the_surrogate_stops_pushing_once_the_ratio_has_gone_far_enough_the_right_way(ratio: float, advantage: float, moves: bool) -> None:
    leaf = torch.tensor([[ratio]], requires_grad=True)
    losses.clipped_surrogate(leaf, torch.tensor([[advantage]]), torch.tensor([[0.2]])).backward()
    assert leaf.grad is not None
    # Descending this loss raises the probability of good actions and lowers that of bad ones.
    assert leaf.grad.item() == (-advantage if moves else 0.0)


def test_the_policy_gradient_is_minus_the_advantage_times_the_score() -> None:
    log_prob = rows(1).requires_grad_()
    advantage, weight = rows(2), (rows(3) > 0).double()
    loss = losses.policy_gradient(log_prob, advantage, weight)
    torch.testing.assert_close(loss, -(log_prob * advantage * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True))
    (grad,) = torch.autograd.grad(loss.sum(), log_prob)
    torch.testing.assert_close(grad, -advantage * weight / weight.sum(-1, keepdim=True))


def test_the_value_error_is_the_mean_square_and_pulls_towards_the_return() -> None:
    value = torch.tensor([[1.0, 2.0], [0.0, 0.0]], requires_grad=True)
    target = torch.tensor([[3.0, 2.0], [1.0, -1.0]])
    loss = losses.value_error(value, target)
    assert loss.tolist() == [[2.0], [1.0]]
    (grad,) = torch.autograd.grad(loss.sum(), value)
    assert grad.tolist() == [[-2.0, 0.0], [-1.0, 1.0]]


def test_the_clipped_value_error_is_the_worse_of_the_two_errors_row_by_row() -> None:
    value, old, target = rows(1), rows(2), rows(3)
    total = torch.zeros(3, 1, dtype=torch.float64)
    for m in range(3):
        worst = []
        for v, o, r in zip(value[m].tolist(), old[m].tolist(), target[m].tolist(), strict=True):
            held = min(max(v, o - CLIP[m].item()), o + CLIP[m].item())
            worst.append(max((v - r) ** 2, (held - r) ** 2))
        total[m] = sum(worst) / len(worst)
    torch.testing.assert_close(losses.clipped_value_error(value, old, target, CLIP), total)


def test_a_value_that_was_held_back_gets_no_gradient_and_one_within_its_limit_the_plain_one() -> None:
    # Returns at 10: the first value went further towards it than 0.2 from the old one, the second did not.
    value = torch.tensor([[2.0, 1.1]], requires_grad=True)
    loss = losses.clipped_value_error(value, torch.tensor([[1.0, 1.0]]), torch.tensor([[10.0, 10.0]]), torch.tensor([[0.2]]))
    (grad,) = torch.autograd.grad(loss.sum(), value)
    torch.testing.assert_close(grad, torch.tensor([[0.0, -8.9]]))


def test_an_infinite_value_clip_is_no_clip_to_the_last_bit() -> None:
    # A member without the clip beside one with it must learn what it would learn alone.
    value, old, target = (tensor.float() for tensor in (rows(1), rows(2), rows(3)))
    grads, found = [], []
    for loss in (
        losses.value_error(value.requires_grad_(), target),
        losses.clipped_value_error(value, old, target, torch.full((3, 1), torch.inf)),
    ):
        grads.append(torch.autograd.grad(loss.sum(), value)[0])
        found.append(loss)
    assert torch.equal(*found)
    assert torch.equal(*grads)


def test_k3_is_never_negative_and_estimates_the_divergence_of_two_gaussians() -> None:
    generator = torch.Generator().manual_seed(0)
    action = torch.randn(2, 200_000, generator=generator, dtype=torch.float64)
    shift = torch.tensor([[0.1], [0.5]], dtype=torch.float64)
    # Actions drawn from N(0, 1); the new policy is N(shift, 1), so KL(old || new) = shift^2 / 2.
    log_ratio = -0.5 * (action - shift).square() + 0.5 * action.square()
    assert (torch.expm1(log_ratio) - log_ratio >= 0).all()
    torch.testing.assert_close(losses.kl_k3(log_ratio), shift.square() / 2, rtol=0.02, atol=0)
    assert losses.kl_k3(torch.zeros(2, 5)).tolist() == [[0.0], [0.0]]


def test_k3_keeps_its_digits_where_the_policies_hardly_differ() -> None:
    log_ratio = torch.full((1, 4), 1e-3)
    torch.testing.assert_close(losses.kl_k3(log_ratio), torch.tensor([[5.00167e-7]]), rtol=1e-3, atol=0)
