"""Gradient steps of a wide ReLU network on a CPU, without the work that is known to come to nothing.

A unit that is silent at all rows of a batch passes nothing back, and its own gradient is 0. In a Q-network that can be most of the
last hidden layer (dormant units, arXiv:2302.12902). So the units of that layer lie in the order of how much they have learned lately,
each one's weights side by side, and the way back goes no further than to the last one that speaks. A unit that has been silent for so
long that Adam's first moment is 0 stands still: a step would do nothing but shrink its second moment, by the same factor every time,
which is made up for at once when it wakes or the cycle is over.
"""

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from rlclinic.training import optim
from rlclinic.training.fast import replay_passes
from rlclinic.training.fast.replay_passes import Moving

if TYPE_CHECKING:
    from rlclinic.training.nets.q_nets import Net

WIDE: Final = 1 << 20
"""Multiplications in a product of the last hidden layer from which looking for silent units takes less than it saves."""
LONG: Final = 32
"""Gradient steps of a cycle over which laying out weights and moments, and handing them back, is a small part of the time."""


def pays(net: "Net", rows: int, count: int) -> bool:
    """Whether `WideRounds` covers such gradient steps of a net, and is worth it."""
    covered = len(net.hidden) > 1 and net.net.activation == "relu" and net.outputs > 1 and net.copies == 1
    return covered and count >= LONG and rows * net.hidden[-2] * net.hidden[-1] >= WIDE


class _Parts(NamedTuple):
    """A network's numbers (weights, gradients or moments), wherever they lie."""

    lower: Tensor
    """Of the layers below the last hidden one."""
    units: Tensor
    """[width, n_in + 1]: what leads to each unit of the last hidden layer, its bias last."""
    head: Tensor
    """[width, outputs]: what leads from there to the outputs."""
    bias: Tensor
    """Of the outputs."""

    def take_over(self, other: "_Parts", order: Tensor) -> None:
        """The other's numbers, with its units in this order."""
        for own, given in zip(self, other, strict=True):
            # Contiguous first: whole rows are picked five times as fast as single numbers.
            own.copy_(given.contiguous().index_select(0, order) if given.dim() == 2 else given)


class _Way(NamedTuple):
    """The way back through the first few units, as views."""

    above: Tensor
    by_above: Tensor
    by_above_turned: Tensor
    matrix: Tensor
    gradient: Tensor
    head: Tensor
    head_gradient: Tensor


class WideRounds:
    """`passes.Rounds` of a wide ReLU net, for an Adam without weight decay: the same numbers up to rounding, in less time."""

    def __init__(self, net: "Net", rows: int, count: int) -> None:
        sizes = (net.n_in, *net.hidden)
        self._n_in, self._width, self._n_out, self._count = *net.hidden[-2:], net.outputs, count
        self._lower = sum((low + 1) * high for low, high in pairwise(sizes[:-1]))
        self._first, self._span = (
            replay_passes.whole_lines(size) for size in (self._lower + (self._width + 1) * self._n_out, self._n_in + 1)
        )
        self._own = torch.zeros(4, self._first + self._width * self._span)
        self._weights, self._gradient, self._mean, self._square = (self._laid_out(row) for row in self._own.unbind(0))
        self.outputs = torch.zeros(count, rows, self._n_out)
        self._outputs = self.outputs.unbind(0)
        inputs = replay_passes.with_ones(count, rows, net.n_in)
        self._inputs = inputs[..., : net.n_in]
        kept = [replay_passes.with_ones(1, rows, size)[0] for size in net.hidden]
        slopes = [torch.zeros(rows, replay_passes.whole_lines(size))[:, :size] for size in net.hidden]
        self._layers = [
            replay_passes.layers(sizes[:-1], self._weights.lower, self._gradient.lower, [x, *kept], slopes) for x in inputs.unbind(0)
        ]
        self._x, self._above, self._by_above = kept[-2], kept[-1][:, :-1], slopes[-1]
        self._matrix, self._peaks = self._weights.units.t(), torch.zeros(self._width)
        self._seen = self._peaks.numpy()
        self._way = lru_cache(self._width)(self._way_through)
        self._passed = self._awake = 0

    def _laid_out(self, own: Tensor) -> _Parts:
        """A row of this space: units last, each beginning with a cache line."""
        lower, head = own[: self._lower], own[self._lower :][: self._width * self._n_out].view(-1, self._width)
        bias = own[self._lower + head.numel() :][: self._n_out]
        units = own[self._first :].view(self._width, self._span)[:, : self._n_in + 1]
        return _Parts(lower, units, head.t(), bias)

    def _given(self, flat: Tensor) -> _Parts:
        """A row [1, P] of the net's layout."""
        lower, units, head, bias = flat[0].split([self._lower, (self._n_in + 1) * self._width, self._width * self._n_out, self._n_out])
        return _Parts(lower, units.view(-1, self._width).t(), head.view(-1, self._width).t(), bias)

    def begin(self, flat: Tensor, mean: Tensor, square: Tensor, x: Tensor) -> None:
        """Take over weights and moments [1, P], and the inputs of all rounds, [1, count * B, n_in]."""
        self._inputs.copy_(x.view(self._inputs.shape))
        learned = self._given(mean).units.abs().amax(1)
        order = learned.argsort(descending=True, stable=True)
        for own, given in zip((self._weights, self._mean, self._square), (flat, mean, square), strict=True):
            own.take_over(self._given(given), order)
        self._order, self._awake = order, 0
        self._let_move(int(learned.count_nonzero()), 0)

    def end(self, flat: Tensor, mean: Tensor, square: Tensor) -> None:
        """Hand weights and moments back."""
        self._let_move(self._width, self._count)
        back = self._order.argsort()
        for own, given in zip((self._weights, self._mean, self._square), (flat, mean, square), strict=True):
            self._given(given).take_over(own, back)

    def _wake(self, number: int) -> None:
        """Put the units that begin to speak in this round behind those that are awake."""
        later = self._peaks.eq(0).int()
        later[: self._awake] = -1
        order = later.argsort(stable=True)
        for own in (self._weights, self._mean, self._square):
            own.take_over(own, order)
        self._above.copy_(self._above.index_select(1, order))
        self._order = self._order[order]
        self._let_move(int((later < 1).sum()), number)

    def _let_move(self, units: int, missed: int) -> None:
        """Let so many units move, and make up for the steps that the new ones among them have missed."""
        self._square.units[self._awake : units].mul_(optim.BETA2**missed)
        self._awake = units
        self.moving = Moving(*self._own[:, None, : self._first + units * self._span].unbind(0))

    def forward(self, number: int) -> Tensor:
        """Outputs [B, outputs] of a round, in their place among `outputs`."""
        for layer in self._layers[number]:
            torch.mm(layer.x, layer.matrix, out=layer.above)
            layer.above.relu_()
        torch.mm(self._x, self._matrix, out=self._above)
        self._above.relu_()
        return torch.addmm(self._weights.bias, self._above, self._weights.head, out=self._outputs[number])

    def by_weights(self, number: int, slope: Tensor) -> None:
        """From the loss's slope at these outputs to the gradient; wakes the units that have one."""
        torch.amax(self._above, 0, out=self._peaks)
        heard = self._seen.nonzero()[0]
        units = int(heard[-1]) + 1 if len(heard) else 0
        if units > self._awake:
            self._wake(number)
            units = self._awake
        if units < self._passed:
            self._gradient.units[units : self._passed].zero_()
            self._gradient.head[units : self._passed].zero_()
        self._passed, way = units, self._way(units)
        torch.mm(slope.t(), way.above, out=way.head_gradient)
        torch.sum(slope, 0, out=self._gradient.bias)
        torch.mm(slope, way.head, out=way.by_above)
        replay_passes.through_relu(way.by_above, way.above)
        torch.mm(way.by_above_turned, self._x, out=way.gradient)
        layers = self._layers[number]
        torch.mm(way.by_above, way.matrix, out=layers[-1].by_above)
        for index in range(len(layers) - 1, -1, -1):
            layer = layers[index]
            replay_passes.through_relu(layer.by_above, layer.above)
            torch.mm(layer.x_turned, layer.by_above, out=layer.gradient)
            if index:
                torch.mm(layer.by_above, layer.back, out=layers[index - 1].by_above)

    def _way_through(self, units: int) -> _Way:
        by_above, head, by_head = self._by_above[:, :units], self._weights.head[:units].t(), self._gradient.head[:units].t()
        matrix, gradient = self._weights.units[:units, :-1], self._gradient.units[:units]
        return _Way(self._above[:, :units], by_above, by_above.t(), matrix, gradient, head, by_head)
