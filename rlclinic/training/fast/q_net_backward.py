"""Passes through the networks of `q_nets` with the way back written out: no graph, only the arithmetic.

On a CPU a pass works member by member in memory that is taken once (see replay_passes); on a GPU all members are one batched product.
Layers that are not written out here go through autograd. `q_nets.layers` is the reference; tests hold the two together.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.nets import layout, mlp
from rlclinic.training.nets.layout import Params

if TYPE_CHECKING:
    from rlclinic.training.nets.q_nets import Net

FEW_ROWS: Final = 32
"""Below so many, as in acting, reading the weights is most of a pass, and taking them over into a space would double it."""
CACHED_ROWS: Final = 256
"""Rows whose activations fit into a core's own cache, beside a matrix of 256 x 256."""
NARROW: Final = 8
"""Inputs of a layer up to which a GPU sums them up one by one: a matrix product that thin keeps it waiting."""
TRUNK, HEAD = "trunk", "head"
"""What `q_nets` calls the two parts of a network."""


def forward_again(net: "Net", params: Params) -> Callable[[Tensor], Tensor]:
    """`outputs` for many calls with the same weights at few rows, as in acting: what each call would look up is looked up once."""
    if not net.written_out or net.outputs == 1 or params.flat.is_cuda:
        return lambda x: _outputs(net, params, x)
    weights = [(params[f"{TRUNK}.{index}.bias"], params[f"{TRUNK}.{index}.weight"]) for index in range(len(net.hidden))]
    bias, head = params[f"{HEAD}.bias"], params[f"{HEAD}.weight"].transpose(1, 2)
    activate = torch.relu_ if net.net.activation == "relu" else mlp.tanh

    def forward(x: Tensor) -> Tensor:
        if x.shape[1] >= FEW_ROWS:
            return _outputs(net, params, x)
        for shift, matrix in weights:
            x = activate(torch.baddbmm(shift, x, matrix))
        return torch.baddbmm(bias, x, head)

    return forward


def outputs_once(net: "Net", flat: Tensor, x: Tensor, rows: Tensor) -> Tensor:
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


def _outputs(net: "Net", params: Params, x: Tensor) -> Tensor:
    from rlclinic.training.nets import q_nets  # imports this module

    return q_nets.outputs(net, params, x)


class Pass(NamedTuple):
    """A forward pass and what going back needs."""

    out: Tensor
    params: Params
    layers: list[Tensor]
    """The input, then the activations after each layer."""


def forward(net: "Net", params: Params, x: Tensor) -> Pass:
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


def backward(net: "Net", done: Pass, grad: Tensor) -> Tensor:
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


def backward_inputs(net: "Net", done: Pass, grad: Tensor) -> Tensor:
    """The gradient of the inputs [M * copies, B, n_in]; the weights take none."""
    grad = _through_head(net, done, grad)
    for index in range(len(net.hidden) - 1, -1, -1):
        grad = _through_activation(net, grad, done.layers[index + 1])
        grad = _below(done.params[f"{TRUNK}.{index}.weight"], grad)
    return grad


def _through_head(net: "Net", done: Pass, grad: Tensor) -> Tensor:
    head = done.params[f"{HEAD}.weight"]
    return grad * head if net.outputs == 1 else torch.bmm(grad, head)


def _through_activation(net: "Net", grad: Tensor, above: Tensor) -> Tensor:
    if net.net.activation == "relu":
        return torch.ops.aten.threshold_backward(grad, above, 0)
    return torch.ops.aten.tanh_backward(grad, above)


class Back(NamedTuple):
    """The ways back from the loss's slope at a net's outputs; one of them, once, and before the net's next pass."""

    weights: Callable[[Tensor], Tensor]
    """To the weights, [M, copies * P]."""
    inputs: Callable[[Tensor], Tensor]
    """To the inputs, [M, B, ...]; copies share them, so their slopes add up."""


def forward_and_back(net: "Net", flat: Tensor, x: Tensor) -> tuple[Tensor, Back]:
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
        out = _outputs(net, net.params(leaf), seen)
    return out.detach(), Back(lambda grad: _slope(out, grad, leaf), lambda grad: _slope(out, grad, seen))


@torch.enable_grad()
def _slope(out: Tensor, grad: Tensor, leaf: Tensor) -> Tensor:
    # As a sum of products: a slope handed over by itself would make autograd import a second of symbolic mathematics.
    return torch.autograd.grad((out * grad).sum(), leaf)[0]


def _summed(net: "Net", by_inputs: Tensor) -> Tensor:
    return by_inputs.unflatten(0, (-1, net.copies)).sum(1) if net.copies > 1 else by_inputs


def dueling_back(grad: Tensor) -> Tensor:
    """From the slope at Q-values to that at value and advantages."""
    total = grad.sum(-1, keepdim=True)
    return torch.cat([total, grad - total / grad.shape[-1]], -1)
