"""Two hidden tanh layers and their heads in one GPU kernel each way: a member's weights and its rows' activations stay on the chip.

As separate operations the activations [M, B, width] travel through memory after every layer, there and back; for small networks
that is most of an update's time. Here a block of rows goes through a whole trunk at once. The way back computes the activations
again instead of storing them. `written` is the reference; tests hold the two together.

Both kernels are operations of their own (`torch.ops.rlclinic.*`), so that compilers leave them alone; on a CPU, with Triton or
without it, the same operations are the written-out arithmetic.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

try:
    import triton  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # PyTorch for CPUs comes without it
    triton = None

if TYPE_CHECKING:
    from rlclinic.training.nets.mlp import ActorCritic

WIDTHS: Final = (16, 32, 64, 128)
MAX_OBS: Final = 128
MAX_OUTPUTS: Final = 16
ACTOR, CRITIC, BOTH = 0, 1, 2
"""Which trunks a forward pass takes."""
SMS: Final = 132
"""Multiprocessors of the largest card in use: rows are cut into as many parts as keep all of them busy."""


class Spec(NamedTuple):
    """Where things lie in a member's row of weights. The first of each pair is the actor's, the second the critic's."""

    obs: int
    width: int
    outputs: int
    trunk: tuple[int, int]
    head: tuple[int, int]
    bias: tuple[int, int]

    @classmethod
    def of(cls, policy: "ActorCritic") -> "Spec":
        def first(*names: str) -> tuple[int, int]:
            spans = [policy.layout.span(name)[0] for name in names]
            return spans[0], spans[1]

        trunk = first("actor.0.weight", "critic.0.weight")
        head, bias = first("policy.weight", "value.weight"), first("policy.bias", "value.bias")
        return cls(policy.obs_size, policy.net.hidden[0], policy.layout.shapes["policy.weight"][0], trunk, head, bias)

    def numbers(self) -> list[int]:
        return [self.obs, self.width, self.outputs, *self.trunk, *self.head, *self.bias]

    @classmethod
    def read(cls, numbers: list[int]) -> "Spec":
        obs, width, outputs, *places = numbers
        return cls(obs, width, outputs, (places[0], places[1]), (places[2], places[3]), (places[4], places[5]))


def covers(policy: "ActorCritic", obs: Tensor) -> bool:
    """Whether the kernels fit: separate trunks of two equal tanh layers, a vector of moderate size, few outputs; on a GPU."""
    net = policy.net
    widths = policy.widths(policy.critic_trunk)
    return (
        triton is not None
        and obs.is_cuda
        and not net.shared
        and not net.layer_norm
        and net.activation == "tanh"
        and getattr(policy, "encoder", None) is None
        and len(widths) == 2
        and tuple(widths) == policy.widths("actor")
        and widths[0] == widths[1]
        and widths[0] in WIDTHS
        and policy.obs_size <= MAX_OBS
        and policy.layout.shapes["policy.weight"][0] <= MAX_OUTPUTS
    )


def actor(policy: "ActorCritic", flat: Tensor, obs: Tensor) -> Tensor:
    """The policy head's output [M, B, K]."""
    return torch.ops.rlclinic.mlp_forward(flat, obs, Spec.of(policy).numbers(), ACTOR)[0]


def critic(policy: "ActorCritic", flat: Tensor, obs: Tensor) -> Tensor:
    """State values [M, B]."""
    return torch.ops.rlclinic.mlp_forward(flat, obs, Spec.of(policy).numbers(), CRITIC)[1]


def forward(policy: "ActorCritic", flat: Tensor, obs: Tensor) -> tuple[Tensor, Tensor]:
    """Policy head [M, B, K] and value [M, B] at obs [M, B, D]."""
    head, value = torch.ops.rlclinic.mlp_forward(flat, obs, Spec.of(policy).numbers(), BOTH)
    return head, value


def backward(
    policy: "ActorCritic", flat: Tensor, obs: Tensor, head: Tensor, log_std: Tensor | None, value: Tensor, *, exact: bool = True
) -> Tensor:
    """The gradient of all weights, [M, P], from the loss's gradient at the head [M, B, K], the log_std parameter and the value [M, B].

    exact: float32's accuracy; without, products of TF32 numbers (about 1e-3 off, in half the time).
    """
    parts = torch.ops.rlclinic.mlp_backward(flat, obs, head, value, Spec.of(policy).numbers(), exact)
    grad = parts.sum(1)  # [M, parts, P]: each part saw some of the rows
    if log_std is None:
        return grad
    start, end = policy.layout.span("log_std")
    return torch.cat([grad[:, :start], log_std.flatten(1), grad[:, end:]], 1)


# ── the operations ──


@torch.library.custom_op("rlclinic::mlp_forward", mutates_args=())
def mlp_forward(flat: Tensor, obs: Tensor, spec: list[int], trunks: int) -> tuple[Tensor, Tensor]:
    """Head [M, B, K] and value [M, B]; empty where its trunk was not wanted."""
    at = Spec.read(spec)
    if not flat.is_cuda:
        return _plain_forward(at, flat, obs, trunks)
    head, value = _outputs(obs, at.outputs, trunks)
    from rlclinic.training.fast import fused_kernels

    fused_kernels.forward(at, flat.contiguous(), obs.contiguous(), head, value, trunks)
    return head, value


@mlp_forward.register_fake
def _(flat: Tensor, obs: Tensor, spec: list[int], trunks: int) -> tuple[Tensor, Tensor]:
    return _outputs(obs, spec[2], trunks)


def _outputs(obs: Tensor, outputs: int, trunks: int) -> tuple[Tensor, Tensor]:
    members, rows = obs.shape[0], obs.shape[1]
    return obs.new_empty(members, 0 if trunks == CRITIC else rows, outputs), obs.new_empty(members, 0 if trunks == ACTOR else rows)


@torch.library.custom_op("rlclinic::mlp_backward", mutates_args=())
def mlp_backward(flat: Tensor, obs: Tensor, head: Tensor, value: Tensor, spec: list[int], exact: bool) -> Tensor:
    """Gradients [M, parts, P], each of a part of the rows; zero where no layer lies."""
    at = Spec.read(spec)
    parts = flat.new_zeros(flat.shape[0], parts_of(obs.shape[0], obs.shape[1]), flat.shape[1])
    if not flat.is_cuda:
        parts[:, 0] = _plain_backward(at, flat, obs, head, value)
        return parts
    from rlclinic.training.fast import fused_kernels

    fused_kernels.backward(at, flat.contiguous(), obs.contiguous(), head.contiguous(), value.contiguous(), parts, exact)
    return parts


@mlp_backward.register_fake
def _(flat: Tensor, obs: Tensor, head: Tensor, value: Tensor, spec: list[int], exact: bool) -> Tensor:
    return flat.new_empty(flat.shape[0], parts_of(obs.shape[0], obs.shape[1]), flat.shape[1])


def parts_of(members: int, rows: int) -> int:
    """Into how many parts a member's rows are cut: enough to fill the card, none of them below a block of rows."""
    return max(1, min(rows // 32, SMS // members))


# ── the same without Triton ──


def _layers(at: Spec, flat: Tensor, which: int) -> tuple[Tensor, ...]:
    """A trunk's matrices and biases and its head's, out of the flat weights."""
    sizes, start, found = (at.obs * at.width, at.width, at.width * at.width, at.width), at.trunk[which], []
    for size in sizes:
        found.append(flat[:, start : start + size])
        start += size
    outputs = (at.outputs, 1)[which]
    found.append(flat[:, at.head[which] : at.head[which] + outputs * at.width])
    found.append(flat[:, at.bias[which] : at.bias[which] + outputs])
    first, bias1, second, bias2, head, bias = found
    members, width = flat.shape[0], at.width
    return (
        first.reshape(members, at.obs, width), bias1.reshape(members, 1, width), second.reshape(members, width, width),
        bias2.reshape(members, 1, width), head.reshape(members, outputs, width), bias.reshape(members, 1, outputs),
    )  # fmt: skip


def _through(at: Spec, flat: Tensor, obs: Tensor, which: int) -> tuple[Tensor, Tensor, Tensor]:
    first, bias1, second, bias2, head, bias = _layers(at, flat, which)
    low = torch.tanh(torch.baddbmm(bias1, obs, first))
    high = torch.tanh(torch.baddbmm(bias2, low, second))
    return low, high, torch.baddbmm(bias, high, head.transpose(1, 2))


def _plain_forward(at: Spec, flat: Tensor, obs: Tensor, trunks: int) -> tuple[Tensor, Tensor]:
    head, value = _outputs(obs, at.outputs, trunks)
    if trunks != CRITIC:
        head = _through(at, flat, obs, 0)[2]
    if trunks != ACTOR:
        value = _through(at, flat, obs, 1)[2].squeeze(-1)
    return head, value


def _plain_backward(at: Spec, flat: Tensor, obs: Tensor, head: Tensor, value: Tensor) -> Tensor:
    grad = torch.zeros_like(flat)
    for which, pull in enumerate((head, value.unsqueeze(-1))):
        into: tuple[Any, ...] = _layers(at, grad, which)
        low, high, _ = _through(at, flat, obs, which)
        _, _, second, _, out, _ = _layers(at, flat, which)
        upper = torch.bmm(pull, out) * (1 - high * high)
        lower = torch.bmm(upper, second.transpose(1, 2)) * (1 - low * low)
        products = (
            torch.bmm(obs.transpose(1, 2), lower), lower.sum(1, keepdim=True), torch.bmm(low.transpose(1, 2), upper),
            upper.sum(1, keepdim=True), torch.bmm(pull.transpose(1, 2), high), pull.sum(1, keepdim=True),
        )  # fmt: skip
        for place, product in zip(into, products, strict=True):
            place.copy_(product)
    return grad
