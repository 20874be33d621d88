"""What the agents experienced in one iteration, and how it is cut into minibatches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.bonuses.pay import Paid
from rlclinic.training.constraints.lagrangian import Weighed
from rlclinic.training.data import prioritized


@dataclass
class Rollout:
    """T steps of N envs per member. Tensors are [M, T, N, ...].

    obs is what was acted on, next_obs what the action led to (the final observation at an episode's end), following
    what the next step acted on (the new episode's first observation there). Observations are as the env gave them;
    `net_obs` and `net_next_obs` are what the networks saw. reward is raw too.
    """

    obs: Tensor
    next_obs: Tensor
    following: Tensor
    action: Tensor
    dist: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    net_obs: Tensor
    net_next_obs: Tensor
    log_prob: Tensor
    valid: Tensor | None = None
    success: Tensor | None = None
    action_mask: Tensor | None = None
    goes_on: Tensor | None = None
    value: Tensor | None = None
    said: Tensor | None = None
    """What training reads of every step's info, [M, T, N, K], where it asks for anything."""
    weighed: Weighed | None = None
    """What a limit on costs takes off, where the config has one."""
    paid: Paid | None = None
    """What a bonus for new states adds, where the config has one."""

    @property
    def end(self) -> Tensor:
        """Where an episode ended for learning, for whichever reason."""
        return self.terminated | self.truncated

    @property
    def over(self) -> Tensor:
        """Where an episode really ended and the next one began: not where only a life was lost."""
        return self.end if self.goes_on is None else self.end & ~self.goes_on


class Batch(NamedTuple):
    """Rows for one gradient step, [M, B, ...]. weight marks rows that count (None: all of them)."""

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    returns: Tensor
    value: Tensor
    weight: Tensor | None
    action_mask: Tensor | None


def rows(x: Tensor) -> Tensor:
    """[M, T, N, ...] -> [M, T*N, ...]: a free view, because T and N lie side by side."""
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])


def minibatches(
    whole: Batch, batch_size: int, n_epochs: int, seed: Tensor, iteration: int | Tensor, renew: Callable[[], Batch] | None = None
) -> Iterator[tuple[int, Batch]]:
    """(epoch, batch) over shuffled rows; each member has its own order. seed is [M, 1, 1].

    `renew` judges the same rows again before each later epoch, by weights that have moved on since.
    """
    members, total = whole.log_prob.shape
    if batch_size == total:
        # A minibatch that is the whole rollout has no order to shuffle.
        for epoch in range(n_epochs):
            yield epoch, whole if renew is None or not epoch else renew()
        return
    order = rng.permutation(seed, rng.PERMUTATION, iteration, n_epochs, total)
    order = order + torch.arange(members, device=order.device).view(-1, 1, 1) * total
    for epoch in range(n_epochs):
        if renew is not None and epoch:
            whole = renew()
        # One gather per epoch and field; the minibatches are slices of it.
        index = order[:, epoch].reshape(-1)
        shuffled = [None if field is None else field.flatten(0, 1).index_select(0, index).view_as(field) for field in whole]
        for start in range(0, total, batch_size):
            yield epoch, Batch(*(None if field is None else field[:, start : start + batch_size] for field in shuffled))  # type: ignore[arg-type]


def segments(
    whole: Batch,
    n_envs: int,
    length: int,
    batch_size: int,
    n_epochs: int,
    seed: Tensor,
    iteration: int | Tensor,
    alpha: Tensor,
    beta: Tensor,
    renew: Callable[[], Batch] | None = None,
) -> Iterator[tuple[int, Batch]]:
    """(epoch, batch) as `minibatches`, but of whole segments of `length` steps of one env, those with larger advantages more often.

    Drawn with replacement, so an epoch is as many rows as the rollout has, not each of them once. weight [M, B] corrects for how often
    a segment comes; rows that do not count keep none.
    """
    members, total = whole.log_prob.shape
    count = total // batch_size
    first = torch.arange(members, device=seed.device).view(-1, 1) * total
    place = torch.arange(batch_size // length, device=seed.device)
    for step in range(n_epochs * count):
        if renew is not None and step and step % count == 0:
            whole = renew()
        matters = whole.advantage if whole.weight is None else whole.advantage * whole.weight
        uniform = rng.uniform(seed.view(-1, 1), rng.PERMUTATION, iteration, step, place)
        index, weight = prioritized.segments(matters.unflatten(1, (-1, n_envs)), length, uniform, alpha, beta)
        rows = (index + first).flatten()
        drawn = [None if field is None else field.flatten(0, 1).index_select(0, rows).unflatten(0, index.shape) for field in whole]
        batch = Batch(*drawn)  # type: ignore[arg-type]
        yield step // count, batch._replace(weight=weight if batch.weight is None else weight * batch.weight)
