"""A network is a Layout (names and shapes) plus pure functions; weights live only in flat [M, P] buffers."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

import torch
from torch import Tensor


class Params(Mapping[str, Tensor]):
    """Named views [M, *shape] of a flat buffer; they are made when the first one is asked for."""

    def __init__(self, layout: "Layout", flat: Tensor) -> None:
        self.layout, self.flat = layout, flat

    @cached_property
    def _views(self) -> dict[str, Tensor]:
        # One split: its backward is one concatenation, where a slice per tensor would be a P-sized zero fill each.
        parts = self.flat.split(self.layout.sizes, dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self.layout.shapes.items(), parts, strict=True)}

    def __getitem__(self, name: str) -> Tensor:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout.shapes)

    def __len__(self) -> int:
        return len(self.layout.shapes)


class Layout:
    """Where each named tensor lies in a member's row of the flat [M, P] buffer."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self.shapes = shapes
        self.sizes = [math.prod(shape) for shape in shapes.values()]
        self.width = sum(self.sizes)
        self._spans: dict[str, tuple[int, int]] = {}
        start = 0
        for name, size in zip(shapes, self.sizes, strict=True):
            self._spans[name] = (start, start + size)
            start += size

    def views(self, flat: Tensor) -> Params:
        """The named tensors inside flat [M, P]; no copy."""
        return Params(self, flat)

    def flatten(self, params: Mapping[str, Tensor]) -> Tensor:
        """The inverse of `views`: [M, P] from named tensors."""
        return torch.cat([params[name].reshape(params[name].shape[0], -1) for name in self.shapes], dim=1)

    def span(self, name: str) -> tuple[int, int]:
        """First and one-past-last column of a tensor."""
        return self._spans[name]


def linear(params: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    """M linear layers side by side: [M, B, n_in] -> [M, B, n_out]. Members share no weight."""
    weight, bias = params[name + ".weight"], params[name + ".bias"]
    # Width 1, there or on the way back, as products and sums: a matrix product that narrow takes another BLAS path at M = 1,
    # and other bits.
    if weight.shape[2] == 1:
        return (x * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
    if weight.shape[1] == 1:
        return x * weight + bias
    return torch.baddbmm(bias, x, weight)


def narrow(params: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    """M linear layers with few outputs: [M, B, n_in] -> [M, B, n_out]. The weight lies as [M, n_out, n_in].

    BLAS multiplies by so narrow a matrix three times as fast that way round, there and on the way back.
    """
    weight, bias = params[name + ".weight"], params[name + ".bias"]
    if weight.shape[1] == 1:  # for `linear`'s reason
        return (x * weight).sum(-1, keepdim=True) + bias
    return torch.baddbmm(bias, x, weight.transpose(1, 2))


def scalar(params: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    """M linear layers with one output each: [M, B, n_in] -> [M, B]; multiplied and summed, for `linear`'s reason."""
    return (x * params[name + ".weight"]).sum(-1) + params[name + ".bias"]


def orthogonal(shape: tuple[int, ...], gain: float, generator: torch.Generator) -> Tensor:
    """An orthogonal [n_in, n_out] matrix times gain (Saxe et al. 2014, arXiv:1312.6120)."""
    rows, columns = shape
    tall = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(tall)
    # QR is unique only up to signs; without this the matrix is not uniformly distributed over rotations.
    q = q * torch.sign(torch.diagonal(r))
    return (gain * (q if rows >= columns else q.T)).float()
