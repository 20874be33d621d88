"""A network is a Layout (names and shapes) plus pure functions; weights live only in flat [M, P] buffers."""

import math

import torch
from torch import Tensor

Params = dict[str, Tensor]


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
        """The named tensors [M, *shape] inside flat [M, P]; no copy."""
        # One split: its backward is one concatenation, where a slice per tensor would be a P-sized zero fill each.
        parts = flat.split(self.sizes, dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def flatten(self, params: Params) -> Tensor:
        """The inverse of `views`: [M, P] from named tensors."""
        return torch.cat([params[name].reshape(params[name].shape[0], -1) for name in self.shapes], dim=1)

    def span(self, name: str) -> tuple[int, int]:
        """First and one-past-last column of a tensor."""
        return self._spans[name]


def linear(params: Params, name: str, x: Tensor) -> Tensor:
    """M linear layers side by side: [M, B, n_in] -> [M, B, n_out]. Members share no weight."""
    return torch.baddbmm(params[name + ".bias"], x, params[name + ".weight"])


def scalar(params: Params, name: str, x: Tensor) -> Tensor:
    """M linear layers with one output each: [M, B, n_in] -> [M, B]."""
    # Width 1 as multiply-and-sum: a matrix product that narrow takes another BLAS path at M = 1, and other bits.
    return (x * params[name + ".weight"]).sum(-1) + params[name + ".bias"]


def orthogonal(shape: tuple[int, ...], gain: float, generator: torch.Generator) -> Tensor:
    """An orthogonal [n_in, n_out] matrix times gain (Saxe et al. 2014, arXiv:1312.6120)."""
    rows, columns = shape
    tall = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(tall)
    # QR is unique only up to signs; without this the matrix is not uniformly distributed over rotations.
    q = q * torch.sign(torch.diagonal(r))
    return (gain * (q if rows >= columns else q.T)).float()
