"""Prioritized sampling (arXiv:1511.05952, proportional): what surprised the critic is seen more often, and weighted down for it.

A member's priorities are the leaves of a binary tree in which every node is the sum of its two children, so that a
draw and a change cost log2(capacity) steps; all draws of all members take each step together. Nodes are float64: a
float32 draw has fewer bits than a large replay has rows. A tree is edited in place and handed back: a copy would cost
more than the change.
"""

from typing import NamedTuple

import torch
from torch import Tensor

SMALLEST = 1e-6
"""Added to every error, so that a row that was predicted perfectly once can be drawn again."""


class Tree(NamedTuple):
    """A cohort's priorities; both tensors are all there is to save.

    nodes is [M, 2 * leaves], leaves being the capacity rounded up to a power of two: the root is 1, the children of i
    are 2 i and 2 i + 1, row r is leaves + r. highest [M, 1] is the largest priority that was ever put: what a row gets
    before its error is known.
    """

    nodes: Tensor
    highest: Tensor

    @property
    def leaves(self) -> int:
        return self.nodes.shape[1] // 2


def start(members: int, capacity: int, device: torch.device | str = "cpu") -> Tree:
    """A tree without rows: nothing can be drawn before something is put."""
    leaves = 1 << max(capacity - 1, 0).bit_length()
    return Tree(
        torch.zeros(members, 2 * leaves, dtype=torch.float64, device=device),
        torch.ones(members, 1, dtype=torch.float64, device=device),
    )


def size_in_bytes(members: int, capacity: int) -> int:
    """What `start` will take, to be asked before it is taken."""
    return members * (2 * (1 << max(capacity - 1, 0).bit_length()) + 1) * 8


def priority(td_error: Tensor, alpha: Tensor) -> Tensor:
    """What `put` takes: (|TD error| + a little) to the power alpha [M, 1]; alpha 0 is uniform sampling, 1 is proportional."""
    return (td_error.detach().abs().double() + SMALLEST) ** alpha.double()


def put(tree: Tree, index: Tensor, priority: Tensor) -> Tree:
    """Give rows index [M, n] their priority [M, n], and every node above them its new sum.

    A row that is named twice keeps the larger priority, whatever the order in which a device writes. Sums are taken
    anew from the children, never added to: no error builds up over millions of changes.
    """
    nodes, priority = tree.nodes, priority.to(tree.nodes.dtype)
    place = index + tree.leaves
    nodes.scatter_(1, place, 0.0)
    nodes.scatter_reduce_(1, place, priority, "amax")
    for _ in range(tree.leaves.bit_length() - 1):
        place = place >> 1
        nodes.scatter_(1, place, nodes.gather(1, 2 * place) + nodes.gather(1, 2 * place + 1))
    torch.maximum(tree.highest, priority.amax(1, keepdim=True), out=tree.highest)
    return tree


def add(tree: Tree, index: Tensor, valid: Tensor | None = None) -> Tree:
    """New rows [M, n] get the highest priority so far, so that everything is drawn once before its error is known.

    Rows that are no transition (not valid) get none: they teach nothing, so their error would never fall and they would be drawn ever more.
    """
    highest = tree.highest.expand(index.shape)
    return put(tree, index, highest if valid is None else highest * valid)


def sample(tree: Tree, size: int, uniform: Tensor, beta: Tensor, count: Tensor | int) -> tuple[Tensor, Tensor]:
    """`size` rows of each member in proportion to their priorities, and their importance weights, both [M, size].

    uniform [M, size] in (0, 1) decides; the k-th draw comes from the k-th of `size` equal slices of all priority, which
    spreads a batch without changing how often a row comes on average. Drawing rows p_i / sum(p) often instead of equally
    often is undone by weights (count p_i / sum(p)) ** -beta, as a share of the batch's largest, so that they only ever
    shorten a step; beta [M, 1] rises to 1, where the correction is whole. count is how many rows are filled.
    """
    slices = torch.arange(size, device=uniform.device, dtype=torch.float64)
    left = (slices + uniform.double()) / size * tree.nodes[:, 1:2]
    pairs = tree.nodes.view(tree.nodes.shape[0], tree.leaves, 2)
    node = torch.ones_like(uniform, dtype=torch.int64)
    for _ in range(tree.leaves.bit_length() - 1):
        low, high = pairs.gather(1, node.unsqueeze(-1).expand(-1, -1, 2)).unbind(-1)
        # Rounding may leave a draw at the very end of a node: never step into a side that holds nothing.
        right = (left >= low) & (high > 0)
        left = torch.where(right, left - low, left)
        node = 2 * node + right
    # A member that has failed may have lost its numbers: its draws stay inside the rows all the same.
    index = (node - tree.leaves).clamp(max=count - 1)
    held = tree.nodes.gather(1, index + tree.leaves)
    # sum(p) and count are the same for all rows of a batch and cancel in the share of the largest.
    weight = (held.amin(1, keepdim=True) / held) ** beta.double()
    return index, weight.float()


def segments(advantage: Tensor, length: int, uniform: Tensor, alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of a rollout drawn by whole segments, the ones with large advantages more often, and their weights: [M, K * length] each.

    A segment is `length` steps in a row of one env; its priority is the sum of its advantages' sizes to the power alpha.
    K = uniform.shape[1] segments are drawn with replacement from advantage [M, T, N], by the same tree and with the
    same correction as replay; rows index the rollout's [M, T * N] view, in order within a segment, so that what needs
    neighbours (a recurrent state, V-trace) can be computed on the minibatch.
    """
    members, steps, n_envs = advantage.shape
    per_env = steps // length
    size = advantage.abs().view(members, per_env, length, n_envs).sum(2).flatten(1)
    tree = start(members, per_env * n_envs, advantage.device)
    every = torch.arange(per_env * n_envs, device=advantage.device).expand(members, -1)
    put(tree, every, priority(size, alpha))
    drawn, weight = sample(tree, uniform.shape[1], uniform, beta, per_env * n_envs)
    first = (drawn // n_envs) * length * n_envs + drawn % n_envs
    rows = first.unsqueeze(-1) + torch.arange(length, device=drawn.device) * n_envs
    return rows.flatten(1), weight.repeat_interleave(length, 1)
