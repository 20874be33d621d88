"""The Triton kernels of `fused`. Imported only where there is a GPU (or Triton's interpreter, for tests)."""

# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator,no-untyped-call"
from typing import Final

import triton
import triton.language as tl
from torch import Tensor

from rlclinic.training.fast.fused import BOTH, CRITIC, Spec

EXACT: Final = "tf32x3"
"""Matrix products as three products of TF32 numbers: float32's accuracy on tensor cores."""
BLOCK, WARPS = 64, 4
"""Rows that go through the layers together, and the warps that work on them."""
BACK_BLOCK = {EXACT: 16, "tf32": 32}
"""The same on the way back, where more rows would not fit into registers (measured on an H200)."""


@triton.jit
def _tanh(x):
    return 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0


@triton.jit
def _rows(obs, member, rows, row, D: tl.constexpr, DP: tl.constexpr):
    """Observations [BLOCK, DP] of a member, zero beyond its last row and beyond D."""
    column = tl.arange(0, DP)
    place = (member.to(tl.int64) * rows + row[:, None]) * D + column[None, :]
    return tl.load(obs + place, mask=(row[:, None] < rows) & (column[None, :] < D), other=0.0)


@triton.jit
def _layers(layer, D: tl.constexpr, DP: tl.constexpr, H: tl.constexpr):
    """A trunk's two matrices and biases; rows beyond D are zero."""
    d, h = tl.arange(0, DP), tl.arange(0, H)
    second = layer + D * H + H
    w1 = tl.load(layer + d[:, None] * H + h[None, :], mask=d[:, None] < D, other=0.0)
    w2 = tl.load(second + h[:, None] * H + h[None, :])
    return w1, tl.load(layer + D * H + h)[None, :], w2, tl.load(second + H * H + h)[None, :]


@triton.jit
def _forward(
    flat, obs, head, value, rows, P,
    trunk_a, trunk_c, head_a, head_c, bias_a, bias_c,
    D: tl.constexpr, DP: tl.constexpr, H: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr,
    FIRST: tl.constexpr,
):  # fmt: skip
    """A block of rows through one trunk and its head. Grid: members x blocks x trunks."""
    member, block, which = tl.program_id(0), tl.program_id(1), tl.program_id(2) + FIRST
    own = flat + member.to(tl.int64) * P
    layer = own + tl.where(which == 0, trunk_a, trunk_c)
    top = own + tl.where(which == 0, head_a, head_c)
    outputs = tl.where(which == 0, K, 1)
    h, k = tl.arange(0, H), tl.arange(0, KP)
    w1, b1, w2, b2 = _layers(layer, D, DP, H)
    row = block * BLOCK + tl.arange(0, BLOCK)
    x = _rows(obs, member, rows, row, D, DP)
    low = _tanh(tl.dot(x, w1, input_precision=DOT) + b1)
    high = _tanh(tl.dot(low, w2, input_precision=DOT) + b2)
    out = tl.load(top + k[None, :] * H + h[:, None], mask=k[None, :] < outputs, other=0.0)  # [H, KP]
    bias = tl.load(own + tl.where(which == 0, bias_a, bias_c) + k, mask=k < outputs, other=0.0)
    y = tl.dot(high, out, input_precision=DOT) + bias[None, :]
    place = member.to(tl.int64) * rows + row
    inside = (row[:, None] < rows) & (k[None, :] < outputs)
    if which == 0:
        tl.store(head + place[:, None] * K + k[None, :], y, mask=inside)
    else:
        tl.store(value + place[:, None] + k[None, :], y, mask=inside)


@triton.jit
def _backward(
    flat, obs, head, value, parts, rows, P,
    trunk_a, trunk_c, head_a, head_c, bias_a, bias_c,
    D: tl.constexpr, DP: tl.constexpr, H: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr,
    PER_PART: tl.constexpr,
):  # fmt: skip
    """A part of a member's rows through one trunk and back, block by block, the gradients summed up. Grid: members x parts x trunks."""
    member, part, which = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    own = flat + member.to(tl.int64) * P
    trunk = tl.where(which == 0, trunk_a, trunk_c)
    above = tl.where(which == 0, head_a, head_c)
    outputs = tl.where(which == 0, K, 1)
    d, h, k = tl.arange(0, DP), tl.arange(0, H), tl.arange(0, KP)
    w1, b1, w2, b2 = _layers(own + trunk, D, DP, H)
    out = tl.load(own + above + k[:, None] * H + h[None, :], mask=k[:, None] < outputs, other=0.0)  # [KP, H]
    g_w1, g_b1 = tl.zeros((DP, H), tl.float32), tl.zeros((H,), tl.float32)
    g_w2, g_b2 = tl.zeros((H, H), tl.float32), tl.zeros((H,), tl.float32)
    g_out, g_bias = tl.zeros((KP, H), tl.float32), tl.zeros((KP,), tl.float32)
    for index in range(PER_PART):
        row = (part * PER_PART + index) * BLOCK + tl.arange(0, BLOCK)
        x = _rows(obs, member, rows, row, D, DP)
        low = _tanh(tl.dot(x, w1, input_precision=DOT) + b1)
        high = _tanh(tl.dot(low, w2, input_precision=DOT) + b2)
        place = member.to(tl.int64) * rows + row
        inside = (row[:, None] < rows) & (k[None, :] < outputs)
        # Rows beyond the last pull at nothing, and so add nothing.
        if which == 0:
            pull = tl.load(head + place[:, None] * K + k[None, :], mask=inside, other=0.0)
        else:
            pull = tl.load(value + place[:, None] + k[None, :], mask=inside, other=0.0)
        g_out += tl.dot(tl.trans(pull), high, input_precision=DOT)
        g_bias += tl.sum(pull, 0)
        upper = tl.dot(pull, out, input_precision=DOT) * (1.0 - high * high)
        g_w2 += tl.dot(tl.trans(low), upper, input_precision=DOT)
        g_b2 += tl.sum(upper, 0)
        lower = tl.dot(upper, tl.trans(w2), input_precision=DOT) * (1.0 - low * low)
        g_w1 += tl.dot(tl.trans(x), lower, input_precision=DOT)
        g_b1 += tl.sum(lower, 0)
    into = parts + (member.to(tl.int64) * tl.num_programs(1) + part) * P
    first, then = into + trunk, into + trunk + D * H + H
    tl.store(first + d[:, None] * H + h[None, :], g_w1, mask=d[:, None] < D)
    tl.store(first + D * H + h, g_b1)
    tl.store(then + h[:, None] * H + h[None, :], g_w2)
    tl.store(then + H * H + h, g_b2)
    tl.store(into + above + k[:, None] * H + h[None, :], g_out, mask=k[:, None] < outputs)
    tl.store(into + tl.where(which == 0, bias_a, bias_c) + k, g_bias, mask=k < outputs)


def _sizes(at: Spec, block: int, dot: str) -> dict[str, int | str]:
    wide = max(16, triton.next_power_of_2(at.obs))
    return {"D": at.obs, "DP": wide, "H": at.width, "K": at.outputs, "KP": 16, "BLOCK": block, "DOT": dot}


def forward(at: Spec, flat: Tensor, obs: Tensor, head: Tensor, value: Tensor, trunks: int) -> None:
    """Fill head [M, B, K] and value [M, B], or the one whose trunk is wanted."""
    members, rows = obs.shape[0], obs.shape[1]
    block = min(BLOCK, max(16, triton.next_power_of_2(rows)))
    grid = (members, triton.cdiv(rows, block), 2 if trunks == BOTH else 1)
    places = (*at.trunk, *at.head, *at.bias)
    sizes = _sizes(at, block, EXACT) | {"FIRST": 1 if trunks == CRITIC else 0}
    _forward[grid](flat, obs, head, value, rows, flat.shape[1], *places, **sizes, num_warps=WARPS)


def backward(at: Spec, flat: Tensor, obs: Tensor, head: Tensor, value: Tensor, parts: Tensor, exact: bool) -> None:
    """Fill parts [M, parts, P] with the gradients of equal shares of the rows."""
    members, rows = obs.shape[0], obs.shape[1]
    dot = EXACT if exact else "tf32"
    block = min(BACK_BLOCK[dot], max(16, triton.next_power_of_2(rows)))
    grid = (members, parts.shape[1], 2)
    places = (*at.trunk, *at.head, *at.bias)
    sizes = _sizes(at, block, dot) | {"PER_PART": triton.cdiv(triton.cdiv(rows, block), parts.shape[1])}
    _backward[grid](flat, obs, head, value, parts, rows, flat.shape[1], *places, **sizes, num_warps=WARPS)
