"""Counter-based randomness: every number is a hash of where it is used, not of what was drawn before.

A draw is a function of (run seed, stream, index, ...). Nothing needs saving but the counters that training keeps
anyway, members do not disturb each other, and int64 arithmetic gives the same bits on CPU and CUDA.
"""

import math
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

# Streams: one per purpose, so that two draws with equal indices are independent. Numbers are part of the run format.
RESET: Final = 1
ACTION: Final = 2
PERMUTATION: Final = 3
ENVIRONMENT: Final = 4
EXPLORATION: Final = 5
REPLAY: Final = 6
UPDATE: Final = 7
ACTOR: Final = 8
BOOTSTRAP: Final = 9

# splitmix64's constants as signed 64-bit integers (its multiplications wrap, as int64 tensors do).
_GOLDEN: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX1: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX2: Final = 0x94D049BB133111EB - (1 << 64)
_UNIT: Final = 2.0**-23


def mix(x: Tensor) -> Tensor:
    """splitmix64's finalizer: every input bit flips about half of the output bits."""
    # Tensors shift arithmetically; the mask makes the shift logical.
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _MIX1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _MIX2
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def bits(seed: Tensor, stream: int, *index: Tensor | int) -> Tensor:
    """64 random bits for each broadcast position of seed and index (all int64)."""
    key = mix(seed + _wrap(stream * _GOLDEN))
    for number in index:
        key = mix(key + (number + 1) * _GOLDEN) if isinstance(number, Tensor) else mix(key + _wrap((number + 1) * _GOLDEN))
    return key


def uniform(seed: Tensor, stream: int, *index: Tensor | int) -> Tensor:
    """Float32 in the open interval (0, 1): 23 bits, centred, so that neither 0 nor 1 can occur (24 would round up to 1)."""
    top = (bits(seed, stream, *index) >> 41) & ((1 << 23) - 1)
    return (top.float() + 0.5) * _UNIT


def gumbel(seed: Tensor, stream: int, *index: Tensor | int) -> Tensor:
    """Standard Gumbel noise: argmax(logits + gumbel) is a sample of softmax(logits)."""
    return -torch.log(-torch.log(uniform(seed, stream, *index)))


def normal(seed: Tensor, stream: int, *index: Tensor | int) -> Tensor:
    """Standard normal noise by Box-Muller, from two draws that differ in their last index."""
    radius = torch.sqrt(-2.0 * torch.log(uniform(seed, stream, *index, 0)))
    return radius * torch.cos(2.0 * math.pi * uniform(seed, stream, *index, 1))


@lru_cache(maxsize=64)
def counting(count: int, device: torch.device) -> Tensor:
    """0, 1, … as a tensor, made once. (Made inside a compiled unit it would be an index there, and 64-bit hashes of it overflow.)"""
    return torch.arange(count, device=device)


def permutation(seed: Tensor, stream: int, iteration: int | Tensor, epochs: int, rows: int) -> Tensor:
    """A random order of the rows for each member and epoch: [M, E, rows] from seed [M, 1, 1]."""
    device = seed.device
    epoch = torch.arange(epochs, device=device).view(1, -1, 1)
    row = torch.arange(rows, device=device).view(1, 1, -1)
    # A stable sort of 64-bit keys: the same order on every device, even at a tie.
    return torch.sort(bits(seed, stream, iteration, epoch, row), dim=-1, stable=True).indices


def _wrap(number: int) -> int:
    """A Python integer as the int64 that wrapping arithmetic would give."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
