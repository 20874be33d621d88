"""The flat buffer and its named tensors, and layers of many members side by side."""

import pytest
import torch
from torch import Tensor

from rlclinic.training.nets import layout as layouts
from rlclinic.training.nets.layout import Layout

SHAPES: dict[str, tuple[int, ...]] = {"in.weight": (3, 4), "in.bias": (1, 4), "out.weight": (1, 4), "out.bias": (1,)}


def flat(members: int = 3) -> Tensor:
    return torch.randn(members, Layout(SHAPES).width, generator=torch.Generator().manual_seed(0))


def test_views_and_flatten_are_inverse_and_copy_nothing() -> None:
    layout, buffer = Layout(SHAPES), flat()
    views = layout.views(buffer)
    assert layout.width == 12 + 4 + 4 + 1
    assert {name: tuple(view.shape) for name, view in views.items()} == {name: (3, *shape) for name, shape in SHAPES.items()}
    assert torch.equal(layout.flatten(views), buffer)
    views["in.bias"][1] = 7.0
    assert (buffer[1, 12:16] == 7.0).all()
    assert not (buffer[0, 12:16] == 7.0).any()


def test_a_span_holds_its_tensor_and_nothing_else() -> None:
    layout, buffer = Layout(SHAPES), flat()
    views = layout.views(buffer)
    for name in SHAPES:
        first, last = layout.span(name)
        assert torch.equal(buffer[:, first:last], views[name].reshape(3, -1))
    assert layout.span("out.bias") == (layout.width - 1, layout.width)


def test_flatten_puts_tensors_in_the_layouts_order_whatever_order_they_come_in() -> None:
    layout, buffer = Layout(SHAPES), flat()
    backwards = dict(reversed(list(layout.views(buffer).items())))
    assert torch.equal(layout.flatten(backwards), buffer)


def test_the_gradient_of_a_sum_over_members_is_each_members_own() -> None:
    layout, buffer, x = Layout(SHAPES), flat(), torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(1))

    def loss(leaf: Tensor, rows: Tensor) -> Tensor:
        params = layout.views(leaf)
        return layouts.scalar(params, "out", layouts.linear(params, "in", rows).tanh()).square().sum()

    leaf = buffer.clone().requires_grad_()
    (together,) = torch.autograd.grad(loss(leaf, x), leaf)
    for m in range(3):
        alone = buffer[m : m + 1].clone().requires_grad_()
        (grad,) = torch.autograd.grad(loss(alone, x[m : m + 1]), alone)
        torch.testing.assert_close(together[m : m + 1], grad)


def test_linear_layers_of_many_members_are_matrix_products_of_each() -> None:
    params, x = Layout(SHAPES).views(flat()), torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(1))
    found = layouts.linear(params, "in", x)
    for m in range(3):
        torch.testing.assert_close(found[m], x[m] @ params["in.weight"][m] + params["in.bias"][m])


@pytest.mark.parametrize("width", [4, 64, 100])
def test_a_layer_with_one_output_gives_one_number_per_row_with_the_same_bits_in_any_cohort(width: int) -> None:
    layout = Layout({"out.weight": (1, width), "out.bias": (1,)})
    generator = torch.Generator().manual_seed(2)
    buffer, x = torch.randn(4, layout.width, generator=generator), torch.randn(4, 9, width, generator=generator)
    found = layouts.scalar(layout.views(buffer), "out", x)
    assert found.shape == (4, 9)
    for m in range(4):
        one = slice(m, m + 1)
        torch.testing.assert_close(found[m], x[m] @ buffer[m, :width] + buffer[m, width])
        assert torch.equal(layouts.scalar(layout.views(buffer[one]), "out", x[one]), found[one])


@pytest.mark.parametrize("shape", [(6, 6), (8, 3), (3, 8), (5, 1)])
@pytest.mark.parametrize("gain", [1.0, 2**0.5, 0.01])
def test_initial_matrices_are_orthogonal_times_their_gain(shape: tuple[int, int], gain: float) -> None:
    matrix = layouts.orthogonal(shape, gain, torch.Generator().manual_seed(3)).double()
    assert tuple(matrix.shape) == shape
    product = matrix.T @ matrix if shape[0] >= shape[1] else matrix @ matrix.T
    torch.testing.assert_close(product, gain**2 * torch.eye(min(shape), dtype=torch.float64), rtol=0, atol=1e-6 * gain**2 + 1e-9)


def test_initial_matrices_are_spread_over_all_rotations() -> None:
    # Without the correction of QR's signs the corner of the matrix is never positive.
    generator = torch.Generator().manual_seed(4)
    corners = torch.stack([layouts.orthogonal((3, 3), 1.0, generator)[0, 0] for _ in range(400)])
    assert abs(corners.mean().item()) < 0.1
    assert abs((corners > 0).float().mean().item() - 0.5) < 0.1
