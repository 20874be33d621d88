"""The usual actor-critic network with its backward pass written out: no graph, no bookkeeping, only the arithmetic.

For small networks autograd's bookkeeping costs as much as the arithmetic. The layers of `mlp` stay the reference, and the path for
every other activation and for layer norm; tests hold the two together.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.nets import layout

if TYPE_CHECKING:
    from rlclinic.training.nets.mlp import ActorCritic

Params = Mapping[str, Tensor]
MINUS_ONE = torch.tensor(-1.0)


class Pass(NamedTuple):
    """A forward pass and what going back needs."""

    head: Tensor
    value: Tensor
    layers: dict[str, list[Tensor]]
    """By trunk: the observation, then the activations after each layer."""


def covers(policy: "ActorCritic") -> bool:
    """Whether the network is made of what is written out here: plain tanh or relu layers between a vector and two heads."""
    plain = policy.net.activation in ("tanh", "relu") and not policy.net.layer_norm and policy.encoder is None
    return plain and all(policy.widths(trunk) for trunk in policy.trunks.values())


def tanh_layers(params: Params, trunk: str, count: int, obs: Tensor) -> list[Tensor]:
    """Activations after each tanh layer, [M, B, width]."""
    layers, x = [], obs
    for index in range(count):
        if obs.is_cuda:
            x = torch.tanh(layout.linear(params, f"{trunk}.{index}", x))
            layers.append(x)
            continue
        # tanh(z) = 2 sigmoid(2z) - 1: PyTorch's CPU sigmoid takes a sixth of its tanh's time. In place: nobody else holds z.
        bias, weight = params[f"{trunk}.{index}.bias"], params[f"{trunk}.{index}.weight"]
        x = torch.baddbmm(bias, x, weight, beta=2, alpha=2).sigmoid_()
        torch.add(MINUS_ONE, x, alpha=2, out=x)
        layers.append(x)
    return layers


def relu_layers(params: Params, trunk: str, count: int, obs: Tensor) -> list[Tensor]:
    """Activations after each rectified layer, [M, B, width]."""
    layers, x = [], obs
    for index in range(count):
        x = layout.linear(params, f"{trunk}.{index}", x).relu_()
        layers.append(x)
    return layers


def forward(policy: "ActorCritic", params: Params, obs: Tensor) -> Pass:
    """Policy head [M, B, K] and value [M, B] at obs [M, B, D]."""
    through = relu_layers if policy.net.activation == "relu" else tanh_layers
    layers = {trunk: [obs, *through(params, trunk, len(policy.widths(trunk)), obs)] for trunk in policy.trunks.values()}
    head = layout.narrow(params, "policy", layers[policy.actor_trunk][-1])
    return Pass(head, layout.scalar(params, "value", layers[policy.critic_trunk][-1]), layers)


def backward(policy: "ActorCritic", params: Params, done: Pass, head: Tensor, log_std: Tensor | None, value: Tensor) -> Tensor:
    """The gradient of all weights, [M, P], from the loss's gradient at the head, the log_std parameter and the value."""
    grads = {} if log_std is None else {"log_std": log_std}
    actor, critic = done.layers[policy.actor_trunk], done.layers[policy.critic_trunk]
    pull = _through_policy_head(params, actor[-1], head, grads)
    if policy.net.shared:
        _through_layers(policy, params, "trunk", actor, pull + _through_value_head(params, actor[-1], value, grads), grads)
    else:
        _through_layers(policy, params, "actor", actor, pull, grads)
        _through_layers(policy, params, "critic", critic, _through_value_head(params, critic[-1], value, grads), grads)
    return policy.layout.flatten(grads)


def _through_policy_head(params: Params, last: Tensor, grad: Tensor, grads: dict[str, Tensor]) -> Tensor:
    weight = params["policy.weight"]
    grads["policy.bias"] = grad.sum(1)
    if weight.shape[1] == 1:  # as in layout.narrow: no matrix product is that narrow
        grads["policy.weight"] = (last * grad).sum(1)
        return grad * weight
    grads["policy.weight"] = torch.bmm(grad.transpose(1, 2), last)
    return torch.bmm(grad, weight)


def _through_value_head(params: Params, last: Tensor, grad: Tensor, grads: dict[str, Tensor]) -> Tensor:
    column = grad.unsqueeze(-1)
    grads["value.weight"], grads["value.bias"] = (last * column).sum(1), grad.sum(1, keepdim=True)
    return column * params["value.weight"]


def _through_layers(
    policy: "ActorCritic", params: Params, trunk: str, layers: list[Tensor], grad: Tensor, grads: dict[str, Tensor]
) -> None:
    for index in range(len(layers) - 2, -1, -1):
        if policy.net.activation == "relu":
            grad = torch.ops.aten.threshold_backward(grad, layers[index + 1], 0)
        else:
            grad = torch.ops.aten.tanh_backward(grad, layers[index + 1])  # g (1 - tanh^2)
        grads[f"{trunk}.{index}.bias"] = grad.sum(1)
        grads[f"{trunk}.{index}.weight"] = torch.bmm(layers[index].transpose(1, 2), grad)
        if index:  # below is the observation: data, which takes no gradient
            grad = torch.bmm(grad, params[f"{trunk}.{index}.weight"].transpose(1, 2))
