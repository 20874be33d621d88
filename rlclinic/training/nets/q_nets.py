"""Networks of algorithms with a replay: Q-values of choices, critics of actions, actors; and their backward pass written out.

A net is a trunk of fully connected layers (after convolutions, for images) and one linear head. Twin critics are `copies` of one
net: they lie side by side in a member's row of weights, and all copies of all members are one batched product.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import NetConfig
from rlclinic.training.envs.base import Picture
from rlclinic.training.fast import wide
from rlclinic.training.fast.replay_passes import Rounds, Space
from rlclinic.training.fast.wide import WideRounds
from rlclinic.training.nets import conv, layout, mlp
from rlclinic.training.nets.layout import Layout, Params

WRITTEN: Final = ("relu", "tanh")
"""Activations whose backward pass is written out below."""
FEW_ROWS: Final = 32
"""Below so many, as in acting, reading the weights is most of a pass, and taking them over into a space would double it."""
CACHED_ROWS: Final = 256
"""Rows whose activations fit into a core's own cache, beside a matrix of 256 x 256."""
NARROW: Final = 8
"""Inputs of a layer up to which a GPU sums them up one by one: a matrix product that thin keeps it waiting."""
TRUNK, HEAD = "trunk", "head"


@dataclass(frozen=True)
class Net:
    """The static half of a network: everything but the weights."""

    layout: Layout
    net: NetConfig
    n_in: int
    hidden: tuple[int, ...]
    outputs: int
    copies: int = 1
    encoder: conv.Encoder | None = None
    by_autograd: bool = False
    spaces: dict[tuple[int, ...], Space] = field(default_factory=dict, compare=False, repr=False)
    """Where passes on a CPU work, made when they are first needed."""
    turns: dict[tuple[int, int, bool], Rounds | WideRounds] = field(default_factory=dict, compare=False, repr=False)
    """Where turns of gradient steps work, by rows, steps and whether weights come to rest."""

    @property
    def width(self) -> int:
        """Weights of all copies: a member's row."""
        return self.copies * self.layout.width

    @property
    def written_out(self) -> bool:
        """Whether `backward` covers it; products of width 1 are for autograd (see layout.linear)."""
        plain = self.net.activation in WRITTEN and not self.net.layer_norm and self.encoder is None and not self.by_autograd
        return plain and bool(self.hidden) and min(self.n_in, *self.hidden) > 1

    def params(self, flat: Tensor) -> Params:
        """The named tensors [M * copies, ...] in weights [M, copies * P]."""
        return self.layout.views(flat.reshape(-1, self.layout.width))

    def space(self, flat: Tensor, x: Tensor) -> Space:
        """Where a pass through weights [M, copies * P] at inputs [M, B, n_in] works; what the last one left there is gone."""
        key = (self.copies, *x.shape[:2])
        if key not in self.spaces:
            with torch.inference_mode(False):  # others may write there too
                self.spaces[key] = Space(self, *x.shape[:2])
        self.spaces[key].load(flat)
        return self.spaces[key]

    def rounds(self, rows: int, count: int, *, rests: bool) -> Rounds | WideRounds:
        """Where `count` gradient steps of one member on `rows` rows each work; what the last ones left there is gone.

        rests: weights whose gradients and first moments are 0 stand still, as with Adam without weight decay.
        """
        key = (rows, count, rests)
        if key not in self.turns:
            with torch.inference_mode(False):
                self.turns[key] = (WideRounds if rests and wide.pays(self, rows, count) else Rounds)(self, rows, count)
        return self.turns[key]

    def shown(self, x: Tensor) -> Tensor:
        """Inputs [M, B, ...], once for each copy."""
        return x if self.copies == 1 else x.repeat_interleave(self.copies, 0)


def build(
    net: NetConfig,
    n_in: int,
    hidden: tuple[int, ...],
    outputs: int,
    *,
    copies: int = 1,
    picture: Picture | None = None,
    autograd: bool = False,
) -> Net:
    """Names and shapes; matrices are [n_in, n_out], the head's [n_out, n_in], biases [1, n_out]."""
    shapes: dict[str, tuple[int, ...]] = {}
    encoder = None if picture is None else conv.choose(net, picture)
    width = n_in
    if encoder is not None:
        shapes |= encoder.shapes(TRUNK)
        width = encoder.out
    for index, size in enumerate(hidden):
        shapes |= {f"{TRUNK}.{index}.weight": (width, size), f"{TRUNK}.{index}.bias": (1, size)}
        if net.layer_norm:
            shapes |= {f"{TRUNK}.{index}.scale": (1, size), f"{TRUNK}.{index}.shift": (1, size)}
        width = size
    shapes |= {f"{HEAD}.weight": (outputs, width), f"{HEAD}.bias": (1, outputs)}
    return Net(Layout(shapes), net, n_in, hidden, outputs, copies, encoder, autograd)


def initialize(net: Net, seed: int, stream: int) -> Tensor:
    """One member's first weights, [1, copies * P]: uniform within 1 / sqrt(n_in) of 0, as torch.nn.Linear draws them."""
    generator = torch.Generator().manual_seed((seed * 31 + stream) % (1 << 63))
    parts = []
    for _ in range(net.copies):
        bound = 1.0
        for name, shape in net.layout.shapes.items():
            kind = name.rpartition(".")[2]
            if kind in ("scale", "shift"):
                parts.append(torch.full((math.prod(shape),), float(kind == "scale")))
                continue
            if kind == "weight":
                # The head lies as [n_out, n_in], filters as [n_out, n_in, kernel, kernel].
                fan_in = math.prod(shape[1:]) if name.startswith(HEAD) or len(shape) == 4 else shape[0]
                bound = 1.0 / math.sqrt(fan_in)
            parts.append((torch.rand(math.prod(shape), generator=generator) * 2 - 1) * bound)
    return torch.cat(parts).unsqueeze(0)


def layers(net: Net, params: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """Activations after every hidden layer, [M * copies, B, width] each; just [x] where there is none."""
    activation, found = mlp.ACTIVATIONS[net.net.activation], []
    if net.encoder is not None:
        found = conv.layers(net.encoder, params, TRUNK, x)
        x = found[-1]
    for index in range(len(net.hidden)):
        x = layout.linear(params, f"{TRUNK}.{index}", x)
        if net.net.layer_norm:
            x = functional.layer_norm(x, x.shape[-1:]) * params[f"{TRUNK}.{index}.scale"] + params[f"{TRUNK}.{index}.shift"]
        x = activation(x)
        found.append(x)
    return found or [x]


def outputs(net: Net, params: Params, x: Tensor) -> Tensor:
    """[M * copies, B, outputs] at inputs [M, B, ...]: no way back, unless autograd keeps one."""
    if net.written_out and not torch.is_grad_enabled():
        if x.is_cuda or x.shape[1] < FEW_ROWS:
            return forward(net, params, x).out
        return net.space(params.flat, x).forward(x)
    return layout.narrow(params, HEAD, layers(net, params, net.shown(x))[-1])


def again(net: Net, params: Params) -> Callable[[Tensor], Tensor]:
    """`outputs` for many calls with the same weights at few rows, as in acting: what each call would look up is looked up once."""
    if not net.written_out or net.outputs == 1 or params.flat.is_cuda:
        return lambda x: outputs(net, params, x)
    weights = [(params[f"{TRUNK}.{index}.bias"], params[f"{TRUNK}.{index}.weight"]) for index in range(len(net.hidden))]
    bias, head = params[f"{HEAD}.bias"], params[f"{HEAD}.weight"].transpose(1, 2)
    activate = torch.relu_ if net.net.activation == "relu" else mlp.tanh

    def forward(x: Tensor) -> Tensor:
        if x.shape[1] >= FEW_ROWS:
            return outputs(net, params, x)
        for shift, matrix in weights:
            x = activate(torch.baddbmm(shift, x, matrix))
        return torch.baddbmm(bias, x, head)

    return forward


def outputs_once(net: Net, flat: Tensor, x: Tensor, rows: Tensor) -> Tensor:
    """[M, K, outputs] at inputs [M, K, n_in] that belong to `rows` [M, K]: what is there several times is worked out once."""
    found, size = torch.empty(*rows.shape, net.outputs), min(rows.shape[1], CACHED_ROWS)
    for member, own in enumerate(rows.unbind(0)):
        # A row's number among those that are there. A table of all rows is filled faster than the few are sorted.
        number = torch.zeros(int(own.max()) + 1, dtype=torch.int64)
        number[own] = 1
        there = number.nonzero().squeeze(1)
        number[there] = torch.arange(len(there))
        where = number[own]
        one = torch.zeros(math.ceil(len(there) / size) * size, dtype=torch.int64)
        one[where] = torch.arange(len(where))
        parts = x[member].index_select(0, one).unflatten(0, (-1, 1, size)).unbind(0)
        space = net.space(flat[member : member + 1], parts[0])
        found[member] = torch.cat([space.forward(part) for part in parts], 1)[0].index_select(0, where)
    return found


class Pass(NamedTuple):
    """A forward pass and what going back needs."""

    out: Tensor
    params: Params
    layers: list[Tensor]
    """The input, then the activations after each layer."""


def forward(net: Net, params: Params, x: Tensor) -> Pass:
    """`outputs` of relu or tanh layers for all members at once, without a graph."""
    x = net.shown(x)
    kept = [x]
    for index in range(len(net.hidden)):
        x = _layer(params[f"{TRUNK}.{index}.weight"], params[f"{TRUNK}.{index}.bias"], x)
        x = x.relu_() if net.net.activation == "relu" else mlp.tanh(x)
        kept.append(x)
    return Pass(layout.narrow(params, HEAD, x), params, kept)


def _layer(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """A layer before its activation. Compiled for a GPU, sums melt into the activation; a product that has its bias inside would not."""
    if _is_narrow(weight):
        return sum((x[..., k : k + 1] * weight[:, k : k + 1] for k in range(weight.shape[1])), bias)
    return torch.bmm(x, weight) + bias if x.is_cuda else torch.baddbmm(bias, x, weight)


def _layer_back(weight: Tensor, x: Tensor, grad: Tensor) -> Tensor:
    """From the slope behind a layer to that at its matrix."""
    if _is_narrow(weight):
        return torch.stack([(x[..., k : k + 1] * grad).sum(1) for k in range(weight.shape[1])], 1)
    return torch.bmm(x.transpose(1, 2), grad)


def _below(weight: Tensor, grad: Tensor) -> Tensor:
    """From the slope behind a layer to that at its inputs."""
    if _is_narrow(weight):
        return torch.stack([(grad * weight[:, k : k + 1]).sum(-1) for k in range(weight.shape[1])], -1)
    return torch.bmm(grad, weight.transpose(1, 2))


def _is_narrow(weight: Tensor) -> bool:
    return weight.is_cuda and weight.shape[1] <= NARROW


def backward(net: Net, done: Pass, grad: Tensor) -> Tensor:
    """The gradient of the weights [M * copies, P], from the loss's slope at `out`."""
    params, found, last = done.params, {}, done.layers[-1]
    found[f"{HEAD}.bias"] = grad.sum(1)
    found[f"{HEAD}.weight"] = (last * grad).sum(1) if net.outputs == 1 else torch.bmm(grad.transpose(1, 2), last)
    grad = _through_head(net, done, grad)
    for index in range(len(net.hidden) - 1, -1, -1):
        grad = _through_activation(net, grad, done.layers[index + 1])
        found[f"{TRUNK}.{index}.bias"] = grad.sum(1)
        weight = params[f"{TRUNK}.{index}.weight"]
        found[f"{TRUNK}.{index}.weight"] = _layer_back(weight, done.layers[index], grad)
        if index:  # below is the input, which takes no gradient here
            grad = _below(weight, grad)
    return net.layout.flatten(found)


def backward_inputs(net: Net, done: Pass, grad: Tensor) -> Tensor:
    """The gradient of the inputs [M * copies, B, n_in]; the weights take none."""
    grad = _through_head(net, done, grad)
    for index in range(len(net.hidden) - 1, -1, -1):
        grad = _through_activation(net, grad, done.layers[index + 1])
        grad = _below(done.params[f"{TRUNK}.{index}.weight"], grad)
    return grad


def _through_head(net: Net, done: Pass, grad: Tensor) -> Tensor:
    head = done.params[f"{HEAD}.weight"]
    return grad * head if net.outputs == 1 else torch.bmm(grad, head)


def _through_activation(net: Net, grad: Tensor, above: Tensor) -> Tensor:
    if net.net.activation == "relu":
        return torch.ops.aten.threshold_backward(grad, above, 0)
    return torch.ops.aten.tanh_backward(grad, above)


class Back(NamedTuple):
    """The ways back from the loss's slope at a net's outputs; one of them, once, and before the net's next pass."""

    weights: Callable[[Tensor], Tensor]
    """To the weights, [M, copies * P]."""
    inputs: Callable[[Tensor], Tensor]
    """To the inputs, [M, B, ...]; copies share them, so their slopes add up."""


def with_back(net: Net, flat: Tensor, x: Tensor) -> tuple[Tensor, Back]:
    """`outputs`, and the ways back from there: written out where that can be, else by autograd."""
    if net.written_out and not flat.is_cuda:
        space = net.space(flat, x)
        return space.forward(x), Back(space.by_weights, space.by_inputs)
    if net.written_out:
        done = forward(net, net.params(flat), x)
        return done.out, Back(
            lambda grad: backward(net, done, grad).view(-1, net.width), lambda grad: _summed(net, backward_inputs(net, done, grad))
        )
    leaf, seen = flat.detach().requires_grad_(), x.detach()
    if seen.is_floating_point():
        seen = seen.requires_grad_()
    with torch.enable_grad():
        out = outputs(net, net.params(leaf), seen)
    return out.detach(), Back(lambda grad: _slope(out, grad, leaf), lambda grad: _slope(out, grad, seen))


@torch.enable_grad()
def _slope(out: Tensor, grad: Tensor, leaf: Tensor) -> Tensor:
    # As a sum of products: a slope handed over by itself would make autograd import a second of symbolic mathematics.
    return torch.autograd.grad((out * grad).sum(), leaf)[0]


def _summed(net: Net, by_inputs: Tensor) -> Tensor:
    return by_inputs.unflatten(0, (-1, net.copies)).sum(1) if net.copies > 1 else by_inputs


def dueling(out: Tensor) -> Tensor:
    """Q-values [..., A] from a state's value and A advantages [..., 1 + A], whose mean is taken out (arXiv:1511.06581, eq. 9)."""
    value, advantage = out[..., :1], out[..., 1:]
    return value + advantage - advantage.mean(-1, keepdim=True)


def dueling_back(grad: Tensor) -> Tensor:
    """From the slope at Q-values to that at value and advantages."""
    total = grad.sum(-1, keepdim=True)
    return torch.cat([total, grad - total / grad.shape[-1]], -1)
