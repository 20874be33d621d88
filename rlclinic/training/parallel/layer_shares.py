"""Weights shared out over ranks, layer by layer: each rank keeps a part of every layer, and layers are put together as they are needed.

What PyTorch's `fully_shard` (FSDP2) does with modules, for networks that are functions of named tensors: the forward pass asks for a
layer's tensors by name, which gathers that layer from all ranks; on the way back it is gathered once more, and the sum over ranks of its
gradient is scattered, so that no rank ever has more than its share of the weights, the gradient and the optimizer's state, and one layer.
All ranks call the same network, so they gather the same layers in the same order.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.nets.layout import Layout
from rlclinic.training.parallel.ranks import Ranks

if TYPE_CHECKING:
    from rlclinic.training.algos.hyperparameters import Hyperparameters
    from rlclinic.training.data.rollouts import Batch
    from rlclinic.training.loops.on_policy import Plan


class Layer(NamedTuple):
    """Neighbouring tensors that are used together: weight and bias."""

    name: str
    start: int
    """Its first column in [M, P]."""
    width: int
    size: int
    """Columns of each rank's share; the last share may reach beyond the layer."""
    first: int
    """Its first column in a rank's [M, S]."""


class LayerShares:
    """Where a rank's share of every layer lies."""

    def __init__(self, layout: Layout, ranks: Ranks) -> None:
        self.layout, self.ranks = layout, ranks
        self.layers: list[Layer] = []
        self.of: dict[str, Layer] = {}
        start = first = 0
        for name, tensors in groupby(layout.shapes, key=lambda tensor: tensor.rpartition(".")[0] or tensor):
            named = list(tensors)
            width = sum(b - a for a, b in map(layout.span, named))
            layer = Layer(name, start, width, -(-width // ranks.world), first)
            self.layers.append(layer)
            self.of |= dict.fromkeys(named, layer)
            start, first = start + width, first + layer.size
        self.width = first

    def take(self, flat: Tensor) -> Tensor:
        """A rank's share [M, S] of [M, P]; what lies beyond a layer is 0."""
        return torch.cat(
            [_spread(flat[:, one.start : one.start + one.width], one, self.ranks.world)[self.ranks.rank] for one in self.layers], 1
        )

    def scatter(self, name: str, whole: Tensor | None, members: int) -> Tensor:
        """Every rank's share [M, S] of what rank 0 has all of: no other one ever has more than a layer of it."""
        own = []
        for one in self.layers:
            buffer = torch.empty(members, one.width, device=self.ranks.device)
            if whole is not None:
                buffer.copy_(whole[:, one.start : one.start + one.width])
            own.append(_spread(self.ranks.broadcast(name, buffer), one, self.ranks.world)[self.ranks.rank])
        return torch.cat(own, 1)

    def gather(self, name: str, own: Tensor) -> Iterator[tuple[Layer, Tensor]]:
        """The inverse: one layer [M, width] after the other, on every rank."""
        for one in self.layers:
            yield one, _gather(own[:, one.first : one.first + one.size], self.ranks, one, name)

    def join(self, name: str, own: Tensor) -> Tensor:
        """All layers, on every rank: [M, P]."""
        whole = own.new_empty(len(own), self.layout.width)
        for one, layer in self.gather(name, own):
            whole[:, one.start : one.start + one.width] = layer
        return whole

    def join_at_first(self, name: str, own: Tensor) -> Tensor | None:
        """The same on rank 0 alone."""
        if self.ranks.rank == 0:
            return self.join(name, own)
        for _ in self.gather(name, own):
            pass
        return None

    def squares(self, own: Tensor, parts: list[int]) -> Tensor:
        """The sum of squares of this rank's share, by part of the network: actor, critic, trunk, [M, K]."""
        found = own.new_zeros(len(own), len(parts))
        part, end = 0, parts[0]
        for one in self.layers:
            while one.start >= end:
                part += 1
                end += parts[part]
            found[:, part] += own[:, one.first : one.first + one.size].square().sum(1)
        return found

    def gradient(
        self, plan: "Plan", own: Tensor, batch: "Batch", hp: "Hyperparameters", share: Tensor | float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The gradient [M, S] of the sum over ranks of `share` times each one's loss, and this rank's own readings."""
        leaf = own.detach().requires_grad_()
        with torch.enable_grad():
            params: Any = GatheredParams(self, leaf)  # whatever a network asks of Params, but for the flat buffer
            with torch.autograd.graph.saved_tensors_hooks(params.pack, params.unpack):
                loss, readings = plan.algo.loss(plan.config, plan.policy, params, batch, hp)
            params.forget()
            (grad,) = torch.autograd.grad((loss * share).sum(), leaf)
        return grad, {name: reading.detach() for name, reading in readings.items()}


class GatheredParams(Mapping[str, Tensor]):
    """Named tensors [M, *shape], of which one layer at a time is there."""

    def __init__(self, shares: LayerShares, leaf: Tensor) -> None:
        self._shares, self._layout = shares, shares.layout
        # One split: its backward is one concatenation.
        self._own = dict(zip((one.name for one in shares.layers), leaf.split([one.size for one in shares.layers], 1), strict=True))
        self._latest: tuple[Layer, Tensor] | None = None
        self._parts: dict[str, Tensor] = {}
        self._again: tuple[Layer, Tensor] | None = None

    def __getitem__(self, name: str) -> Tensor:
        layer = self._shares.of[name]
        if self._latest is None or self._latest[0] != layer:
            self.forget()  # before the next one comes
            whole: Tensor = _Gather.apply(self._own[layer.name], self._shares.ranks, layer)  # type: ignore[no-untyped-call]
            self._latest = layer, whole
            # One split again: a slice for each tensor would have a gradient of the whole layer for each.
            spans = {other: self._layout.span(other) for other, its in self._shares.of.items() if its == layer}
            parts = whole.split([end - start for start, end in spans.values()], 1)
            self._parts = {other: part.view(-1, *self._layout.shapes[other]) for other, part in zip(spans, parts, strict=True)}
        return self._parts[name]

    def forget(self) -> None:
        """Keep no layer any more."""
        self._latest, self._parts = None, {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.shapes)

    def __len__(self) -> int:
        return len(self._layout.shapes)

    def pack(self, saved: Tensor) -> Any:
        """What autograd keeps of a tensor for the way back: of a gathered layer only where to find it."""
        if self._latest is None or saved.untyped_storage().data_ptr() != self._latest[1].untyped_storage().data_ptr():
            return saved
        return self._latest[0], saved.storage_offset(), saved.shape, saved.stride()

    def unpack(self, kept: Any) -> Tensor:
        """The tensor again."""
        if isinstance(kept, Tensor):
            return kept
        layer, offset, shape, stride = kept
        if self._again is None or self._again[0] != layer:
            self._again = None
            with torch.no_grad():
                self._again = layer, _gather(self._own[layer.name].detach(), self._shares.ranks, layer)
        return self._again[1].as_strided(shape, stride, offset)


class _Gather(torch.autograd.Function):
    """A whole layer out of everybody's shares; on the way back, everybody's share of the sum over ranks."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, ranks: Ranks, layer: Layer) -> Tensor:
        ctx.ranks, ctx.layer = ranks, layer
        return _gather(own, ranks, layer)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        spread = _spread(grad, ctx.layer, ctx.ranks.world)
        return ctx.ranks.scatter_sum(f"gradient of {ctx.layer.name}", spread.contiguous()), None, None


def _gather(own: Tensor, ranks: Ranks, layer: Layer, name: str = "weights") -> Tensor:
    return _merge(ranks.gather(f"{name} of {layer.name}", own), layer).contiguous()


def _spread(whole: Tensor, layer: Layer, world: int) -> Tensor:
    """[M, width] as everybody's shares, [world, M, size]."""
    more = layer.size * world - layer.width
    padded = torch.nn.functional.pad(whole, (0, more)) if more else whole
    return padded.reshape(len(whole), world, layer.size).transpose(0, 1)


def _merge(every: Tensor, layer: Layer) -> Tensor:
    """The inverse."""
    return every.transpose(0, 1).reshape(every.shape[1], -1)[:, : layer.width]
