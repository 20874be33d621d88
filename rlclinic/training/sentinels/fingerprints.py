"""Fingerprints: 48 bits of everything that a run's future depends on, so that files alone tell whether two states are the same.

They are functions of the bits, not of the values: equal fingerprints mean equal bytes (but for one chance in 2^48), on every
device, in every cohort and after every resume. 48 bits are what a column of doubles keeps exactly.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.checkpoints import state
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops.kinds import AnyLearner

NAMES: Final = ("fingerprint_policy", "fingerprint_optimizer", "fingerprint_normalizer", "fingerprint_random")
WIDTH: Final = 48
BLOCK: Final = 1 << 18
"""Numbers of a member at a time."""


@torch.no_grad()
def of(*tensors: Tensor) -> Tensor:
    """One number per member [M], float64, of the bits of tensors [M, ...] in this order."""
    total = torch.zeros(tensors[0].shape[0], dtype=torch.int64, device=tensors[0].device)
    for tensor in tensors:
        total = _add(rng.mix(total + 1), 0, tensor.reshape(tensor.shape[0], -1))
    return _shorten(total)


@torch.no_grad()
def of_pieces(members: int, pieces: Iterable[tuple[int, Tensor]], device: torch.device) -> Tensor:
    """The same of one tensor [M, P], of which some columns are there at a time: the first one's place, and [M, K]."""
    total = rng.mix(torch.ones(members, dtype=torch.int64, device=device))
    for first, rows in pieces:
        total = _add(total, first, rows)
    return _shorten(total)


def _add(total: Tensor, start: int, rows: Tensor) -> Tensor:
    # Integer sums wrap, so they are the same in every order of adding, unlike sums of floats. In blocks: of a large network each number
    # of 64 bits for every weight would take more memory than training it.
    for first in range(0, rows.shape[1], BLOCK):
        content = _bits(rows[:, first : first + BLOCK])
        total = total + (content * _weights(start + first, content.shape[1], content.device)).sum(1)
    return total


def _shorten(total: Tensor) -> Tensor:
    return ((rng.mix(total) >> (64 - WIDTH)) & ((1 << WIDTH) - 1)).double()


def of_state(learner: AnyLearner, seed: Tensor, iteration: int, env: VecEnv) -> dict[str, Tensor]:
    """Weights, optimizer, normalizers (where there are any) and counters of randomness as they stand between two iterations."""
    found = {"fingerprint_policy": of(*state.weights(learner)), "fingerprint_optimizer": of(*state.optimizer(learner))}
    normalizer = of_normalizers(learner)
    if normalizer is not None:
        found["fingerprint_normalizer"] = normalizer
    # A draw is a hash of the seed and of counters: the loop's, and those of the environments (episodes, steps, resumes).
    turn = torch.full_like(seed, iteration)
    counters = [number for number in env.state().values() if not number.is_floating_point()]
    return found | {"fingerprint_random": of(seed, turn, *(number.to(seed.device) for number in counters))}


def of_normalizers(learner: AnyLearner) -> Tensor | None:
    """What scales observations and rewards; None without."""
    stats = [number for part in (learner.obs_stats, learner.reward_stats) if part is not None for number in part]
    return of(*stats) if stats else None


@lru_cache(maxsize=16)
def _weights(first: int, count: int, device: torch.device) -> Tensor:
    """An odd number for every place: no single bit can change unnoticed, and neither can the order."""
    return rng.mix(torch.arange(first, first + count, device=device)) | 1


def _bits(rows: Tensor) -> Tensor:
    """The content of [M, K] as integers."""
    rows = rows.contiguous()
    if not rows.is_floating_point():
        return rows.long()
    return rows.view(torch.int32 if rows.element_size() == 4 else torch.int64).long()
