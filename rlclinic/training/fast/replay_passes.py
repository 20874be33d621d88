"""Passes through replay networks on a CPU: one member after the other, in memory that is taken once.

Matrix products take what they take; everything between them can go. So the bias of a layer is one more row of its matrix and meets a
column of ones, there and back; every product writes to where its result is needed, the gradient's into the row that the optimizer
reads; and a pass touches the same few buffers again and again, which stay in the core's own cache.

BLAS rounds otherwise where numbers lie otherwise within a cache line. So all of a member's lie as every other's do: a member gets the
same bits in any cohort.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.nets import mlp

if TYPE_CHECKING:
    from rlclinic.training.nets.q_nets import Net

LINE: Final = 16
"""Numbers of a cache line."""
_THROUGH_RELU: Final = torch.ops.aten.threshold_backward.grad_input
_THROUGH_TANH: Final = torch.ops.aten.tanh_backward.grad_input


class Space:
    """Weights, activations and gradients of `members` nets at `rows` rows. What a pass leaves here is overwritten by the next one."""

    def __init__(self, net: "Net", members: int, rows: int) -> None:
        self.net, self.shape = net, (members * net.copies, rows, net.outputs)
        self._weights = torch.zeros(members, net.copies, whole_lines(net.layout.width))
        self._given = self._weights[..., : net.layout.width]
        gradients = torch.zeros(members, whole_lines(net.width))
        self._gradient = gradients[:, : net.width]
        self._by_bias = self._gradient.unflatten(1, (net.copies, -1))[..., -net.outputs :]
        inputs, self._by_input = with_ones(members, rows, net.n_in), torch.zeros(members, rows, net.n_in)
        self._input = inputs[..., : net.n_in]
        slopes = [torch.zeros(rows, whole_lines(size))[:, :size] for size in net.hidden]
        kept = [with_ones(members * net.copies, rows, size) for size in net.hidden]
        self._copies = []
        for row in range(members * net.copies):
            member, place = divmod(row, net.copies)
            own = gradients[member, place * net.layout.width : (place + 1) * net.layout.width]
            found = [inputs[member], *(each[row] for each in kept)]
            self._copies.append(_Copy(net, self._weights[member, place], own, found, slopes))

    def load(self, flat: Tensor) -> None:
        """Take over weights [M, copies * P]."""
        self._given.copy_(flat.view(self._given.shape))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [M * copies, B, outputs] at inputs [M, B, n_in], of the weights that were loaded."""
        self._input.copy_(x)
        out = torch.empty(self.shape)
        for copy, own in zip(self._copies, out.unbind(0), strict=True):
            copy.forward(own)
        return out

    def by_weights(self, slope: Tensor) -> Tensor:
        """From the loss's slope at the outputs of the last `forward` to that at the weights, [M, copies * P]."""
        for copy, own in zip(self._copies, slope.unbind(0), strict=True):
            copy.by_weights(own)
        if self.net.outputs > 1:
            torch.sum(slope.unflatten(0, (-1, self.net.copies)), 2, out=self._by_bias)
        return self._gradient

    def by_inputs(self, slope: Tensor) -> Tensor:
        """To the slope at the inputs, [M, B, n_in]; copies share them, so their slopes add up."""
        self._by_input.zero_()
        for row, (copy, own) in enumerate(zip(self._copies, slope.unbind(0), strict=True)):
            copy.add_by_inputs(own, self._by_input[row // self.net.copies])
        return self._by_input


class Moving(NamedTuple):
    """What an Adam step edits, and its gradient: [1, P] or as much of that as the step can change."""

    weights: Tensor
    gradient: Tensor
    mean: Tensor
    square: Tensor


class Rounds:
    """Gradient steps of one net in a row, on batches that are known ahead: they are laid out once, and nothing is moved between steps.

    A step is `forward`, `by_weights`, and an edit of what is then `moving`.
    """

    def __init__(self, net: "Net", rows: int, count: int) -> None:
        self._net = net
        weights, gradient = (torch.zeros(whole_lines(net.width)) for _ in range(2))
        self._weights, self._gradient = weights[None, : net.width], gradient[None, : net.width]
        self.outputs = torch.zeros(count, rows, net.outputs)
        self._by_bias = self._gradient[0, -net.outputs :]
        inputs = with_ones(count, rows, net.n_in)
        self._inputs = inputs[..., : net.n_in]
        slopes = [torch.zeros(rows, whole_lines(size))[:, :size] for size in net.hidden]
        kept = [with_ones(1, rows, size)[0] for size in net.hidden]
        self._passes = [_Copy(net, weights, gradient, [x, *kept], slopes) for x in inputs.unbind(0)]
        self._outputs = self.outputs.unbind(0)

    def begin(self, flat: Tensor, mean: Tensor, square: Tensor, x: Tensor) -> None:
        """Take over weights and moments [1, P], and the inputs of all rounds, [1, count * B, n_in]."""
        self._weights.copy_(flat)
        self._inputs.copy_(x.view(self._inputs.shape))
        self.moving = Moving(self._weights, self._gradient, mean, square)

    def end(self, flat: Tensor, mean: Tensor, square: Tensor) -> None:
        """Hand weights and moments back; the latter were edited where they lie."""
        flat.copy_(self._weights)

    def forward(self, number: int) -> Tensor:
        """Outputs [B, outputs] of a round, in their place among `outputs`."""
        self._passes[number].forward(self._outputs[number])
        return self._outputs[number]

    def by_weights(self, number: int, slope: Tensor) -> None:
        """From the loss's slope at these outputs to the gradient."""
        self._passes[number].by_weights(slope)
        if self._net.outputs > 1:
            torch.sum(slope, 0, out=self._by_bias)


class Layer(NamedTuple):
    """A matrix with its bias as last row, what goes in (with a column of ones) and comes out, and the slopes there."""

    x: Tensor
    x_turned: Tensor
    matrix: Tensor
    back: Tensor
    """The matrix without the bias, turned: the way from slopes above to slopes below."""
    gradient: Tensor
    above: Tensor
    by_above: Tensor


def layers(sizes: Sequence[int], weights: Tensor, gradient: Tensor, kept: list[Tensor], slopes: list[Tensor]) -> list[Layer]:
    """Fully connected layers of these sizes, whose numbers begin flat weights and gradients; kept are inputs and activations."""
    found, first = [], 0
    for index, (n_in, n_out) in enumerate(pairwise(sizes)):
        last = first + (n_in + 1) * n_out
        matrix, own = (flat[first:last].view(n_in + 1, n_out) for flat in (weights, gradient))
        x, above = kept[index], kept[index + 1][:, :-1]
        found.append(Layer(x, x.t(), matrix, matrix[:-1].t(), own, above, slopes[index]))
        first = last
    return found


def through_relu(slope: Tensor, above: Tensor) -> None:
    """From the slope behind activations to that before them, in place."""
    _THROUGH_RELU(slope, above, 0, grad_input=slope)


class _Copy:
    """One network: views of its own weights and gradients, and of what it works in."""

    def __init__(self, net: "Net", weights: Tensor, gradient: Tensor, kept: list[Tensor], slopes: list[Tensor]) -> None:
        self.relu, self.narrow = net.net.activation == "relu", net.outputs == 1
        self.layers = layers((net.n_in, *net.hidden), weights, gradient, kept, slopes)
        first = sum(layer.matrix.numel() for layer in self.layers)
        last = first + net.outputs * net.hidden[-1]
        self.head, self.head_gradient = (flat[first:last].view(net.outputs, -1) for flat in (weights, gradient))
        self.to_outputs, self.bias = self.head.t(), weights[last : last + net.outputs]
        # The bias of a single output lies behind its only row.
        self.row, self.row_gradient = weights[first : last + 1], gradient[first : last + 1]
        self.top = kept[-1] if self.narrow else kept[-1][:, :-1]

    def forward(self, out: Tensor) -> None:
        for layer in self.layers:
            torch.mm(layer.x, layer.matrix, out=layer.above)
            if self.relu:
                layer.above.relu_()
            else:
                layer.above.copy_(mlp.tanh(layer.above))
        if self.narrow:
            torch.mv(self.top, self.row, out=out.squeeze(1))
        else:
            torch.addmm(self.bias, self.top, self.to_outputs, out=out)

    def by_weights(self, slope: Tensor) -> None:
        if self.narrow:
            torch.mv(self.top.t(), slope.squeeze(1), out=self.row_gradient)
        else:
            torch.mm(slope.t(), self.top, out=self.head_gradient)
        for layer in self._down(slope):
            torch.mm(layer.x_turned, layer.by_above, out=layer.gradient)

    def add_by_inputs(self, slope: Tensor, total: Tensor) -> None:
        for _ in self._down(slope):
            pass
        total.addmm_(self.layers[0].by_above, self.layers[0].back)

    def _down(self, slope: Tensor) -> Iterator[Layer]:
        """The layers from the last to the first, each when the slope before its activation is known."""
        last = self.layers[-1].by_above
        if self.narrow:
            torch.mul(slope, self.head, out=last)
        else:
            torch.mm(slope, self.head, out=last)
        for index in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[index]
            if self.relu:
                through_relu(layer.by_above, layer.above)
            else:
                _THROUGH_TANH(layer.by_above, layer.above, grad_input=layer.by_above)
            yield layer
            if index:
                torch.mm(layer.by_above, layer.back, out=self.layers[index - 1].by_above)


def whole_lines(count: int) -> int:
    """So many numbers, or as many more as fill the last cache line."""
    return -(-count // LINE) * LINE


def with_ones(members: int, rows: int, size: int) -> Tensor:
    """[members, rows, size + 1]; the last column is 1."""
    made = torch.zeros(members, rows, whole_lines(size + 1))[..., : size + 1]
    made[..., -1] = 1.0
    return made
