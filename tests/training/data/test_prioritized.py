"""Prioritized sampling: rows come as often as their priority says, and their weights undo it."""

import bisect
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.data import prioritized

ONE = torch.ones(1, 1)


def filled(*priority: float) -> prioritized.Tree:
    tree = prioritized.start(1, len(priority))
    return prioritized.put(tree, torch.arange(len(priority)).view(1, -1), torch.tensor([priority], dtype=torch.float64))


def uniform(members: int, size: int, draw: int = 0) -> Tensor:
    seed = torch.arange(members).view(-1, 1)
    return rng.uniform(seed, rng.REPLAY, draw, torch.arange(size).view(1, -1))


def reference(priority: list[float], uniform: list[float], beta: float, count: int) -> tuple[list[int], list[float]]:
    """The definition, row by row: running sums, one slice of them per draw, weights over the largest."""
    sums = list(itertools.accumulate(priority))
    size = len(uniform)
    index = [bisect.bisect_right(sums, (k + u) / size * sums[-1]) for k, u in enumerate(uniform)]
    weight = [(count * priority[i] / sums[-1]) ** -beta for i in index]
    return index, [one / max(weight) for one in weight]


# ── the tree ──


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(1, 40),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.floats(1e-6, 1e6)), min_size=1, max_size=60),
    draw=st.integers(0, 1000),
    beta=st.floats(0, 1),
)
def test_after_any_changes_the_draws_and_weights_are_those_of_the_slow_reference(
    capacity: int, changes: list[tuple[int, float]], draw: int, beta: float
) -> None:
    tree, held = prioritized.start(1, capacity), [0.0] * capacity
    for place, priority in changes:
        held[place % capacity] = priority
        prioritized.put(tree, torch.tensor([[place % capacity]]), torch.tensor([[priority]], dtype=torch.float64))
    chosen = uniform(1, 7, draw)
    index, weight = prioritized.sample(tree, 7, chosen, torch.full((1, 1), beta), capacity)
    expected, weights = reference(held, chosen[0].tolist(), beta, capacity)
    # A draw that lies on a border within rounding may fall on either side of it.
    assert sum(a != b for a, b in zip(index[0].tolist(), expected, strict=True)) <= (
        1 if max(held) > 1e9 * min(p for _, p in changes) else 0
    )
    torch.testing.assert_close(weight[0], torch.tensor(weights), rtol=1e-4, atol=1e-6)


def test_every_node_is_the_sum_of_its_children_whatever_was_put_before() -> None:
    tree = prioritized.start(3, 21)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        index = torch.randint(0, 21, (3, 8), generator=generator)
        prioritized.put(tree, index, torch.rand(3, 8, generator=generator, dtype=torch.float64) * 10)
    parents = torch.arange(1, tree.leaves)
    assert torch.equal(tree.nodes[:, parents], tree.nodes[:, 2 * parents] + tree.nodes[:, 2 * parents + 1])
    assert (tree.nodes[:, tree.leaves + 21 :] == 0).all()


def test_a_row_that_is_named_twice_keeps_the_larger_priority() -> None:
    tree = filled(1.0, 1.0)
    prioritized.put(tree, torch.tensor([[1, 1, 1]]), torch.tensor([[2.0, 5.0, 3.0]]))
    assert tree.nodes[0, tree.leaves :].tolist() == [1.0, 5.0]
    prioritized.put(tree, torch.tensor([[1]]), torch.tensor([[0.5]]))
    assert tree.nodes[0, 1].item() == 1.5


def test_new_rows_get_the_highest_priority_that_was_ever_seen() -> None:
    tree = prioritized.start(2, 4)
    prioritized.add(tree, torch.tensor([[0], [0]]))
    assert tree.nodes[:, 1].tolist() == [1.0, 1.0]
    prioritized.put(tree, torch.tensor([[0], [0]]), torch.tensor([[9.0], [0.25]]))
    prioritized.put(tree, torch.tensor([[0], [0]]), torch.tensor([[2.0], [0.5]]))
    prioritized.add(tree, torch.tensor([[1], [1]]))
    assert tree.nodes[:, tree.leaves + 1].tolist() == [9.0, 1.0]


def test_a_row_without_priority_is_never_drawn() -> None:
    tree = prioritized.start(1, 8)
    prioritized.put(tree, torch.tensor([[1, 3]]), torch.tensor([[1e-6, 1e12]]))
    for size in (1, 3, 64):
        for edge in (2.0**-24, 1 - 2.0**-24):
            index, weight = prioritized.sample(tree, size, torch.full((1, size), edge), ONE, 8)
            assert set(index[0].tolist()) <= {1, 3}
            assert torch.isfinite(weight).all()


def test_a_tree_that_is_saved_and_restored_as_tensors_draws_the_same_rows() -> None:
    tree = filled(*[0.1 * i + 0.1 for i in range(13)])
    again = prioritized.Tree(*(torch.from_numpy(tensor.numpy().copy()) for tensor in tree))
    chosen = uniform(1, 32)
    for one, other in zip(prioritized.sample(tree, 32, chosen, ONE, 13), prioritized.sample(again, 32, chosen, ONE, 13), strict=True):
        assert torch.equal(one, other)


def test_the_memory_that_is_announced_is_what_a_tree_takes() -> None:
    for members, capacity in ((1, 1), (3, 21), (2, 64)):
        tree = prioritized.start(members, capacity)
        assert prioritized.size_in_bytes(members, capacity) == sum(tensor.numel() * tensor.element_size() for tensor in tree)


def test_a_member_beside_others_draws_the_bits_that_it_draws_alone() -> None:
    generator = torch.Generator().manual_seed(3)
    error = torch.randn(5, 50, generator=generator)
    alpha, beta = torch.rand(5, 1, generator=generator), torch.rand(5, 1, generator=generator)
    index, chosen = torch.arange(50).expand(5, -1), uniform(5, 33)

    def drawn(members: slice) -> tuple[Tensor, ...]:
        tree = prioritized.start(error[members].shape[0], 50)
        prioritized.put(tree, index[members], prioritized.priority(error[members], alpha[members]))
        return *prioritized.sample(tree, 33, chosen[members], beta[members], 50), *tree

    together = drawn(slice(None))
    for m in range(5):
        for whole, alone in zip(together, drawn(slice(m, m + 1)), strict=True):
            assert torch.equal(whole[m : m + 1], alone)


# ── how often, and how heavy ──


def test_rows_are_drawn_in_proportion_to_their_priorities_by_a_chi_squared_test() -> None:
    generator = torch.Generator().manual_seed(7)
    error = torch.randn(4, 37, generator=generator) * 3
    alpha = torch.tensor([[0.0], [0.6], [1.0], [0.3]])
    tree = prioritized.start(4, 37)
    held = prioritized.priority(error, alpha)
    prioritized.put(tree, torch.arange(37).expand(4, -1), held)
    # One draw at a time: draws of one batch come from slices and are not independent.
    drawn = torch.stack([prioritized.sample(tree, 1, uniform(4, 1, k), torch.ones(4, 1), 37)[0] for k in range(4000)], 1).squeeze(-1)
    for m in range(4):
        expected = 4000 * held[m] / held[m].sum()
        frequent = expected >= 5
        counts = torch.bincount(drawn[m], minlength=37)
        observed = [*counts[frequent].tolist(), int(counts[~frequent].sum())]
        wanted = [*expected[frequent].tolist(), float(expected[~frequent].sum())]
        if wanted[-1] == 0:
            observed, wanted = observed[:-1], wanted[:-1]
        assert stats.chisquare(observed, wanted).pvalue > 1e-3


def test_a_batch_has_every_row_as_often_as_its_share_of_the_priority_to_within_two() -> None:
    tree = filled(1.0, 2.0, 5.0, 8.0)
    index, _ = prioritized.sample(tree, 64, uniform(1, 64), ONE, 4)
    counts = torch.bincount(index[0], minlength=4)
    assert (counts - torch.tensor([4.0, 8.0, 20.0, 32.0])).abs().max() <= 2


def test_with_a_whole_correction_weighted_batches_estimate_the_plain_mean() -> None:
    # E[w f] over proportional draws is the mean of f over all rows, up to the one factor of the batch's largest weight.
    held, value = [1.0, 2.0, 5.0, 8.0], torch.tensor([3.0, -1.0, 4.0, 10.0])
    tree = filled(*held)
    index, weight = prioritized.sample(tree, 16_000, uniform(1, 16_000), ONE, 4)
    assert (weight * value[index]).sum() / weight.sum() == pytest.approx(4.0, abs=0.01)
    assert weight.max() == 1.0
    _, unweighted = prioritized.sample(tree, 16, uniform(1, 16), 0 * ONE, 4)
    assert (unweighted == 1).all()


def test_weights_by_hand() -> None:
    tree = filled(1.0, 4.0)
    # Slices of 5/2 each: draws at 0.5 and 3.75 of 5.
    index, weight = prioritized.sample(tree, 2, torch.tensor([[0.2, 0.5]]), 0.5 * ONE, 2)
    assert index.tolist() == [[0, 1]]
    assert weight.tolist() == [[1.0, 0.5]]  # (2/5) ** -1/2 against (8/5) ** -1/2


def test_a_row_whose_error_was_zero_can_still_be_drawn() -> None:
    assert (prioritized.priority(torch.zeros(1, 3), ONE) > 0).all()


# ── segments of a rollout ──


def test_segments_are_runs_of_one_env_and_come_by_the_size_of_their_advantages() -> None:
    advantage = torch.zeros(1, 6, 2)
    advantage[0, 3:6, 1] = torch.tensor([1.0, -2.0, 3.0])  # the second segment of env 1
    rows, weight = prioritized.segments(advantage, 3, uniform(1, 8), ONE, ONE)
    assert rows.view(8, 3).tolist() == [[7, 9, 11]] * 8  # rows of the [T * N] view: t * 2 + n
    assert (weight == 1).all()


def test_weights_of_segments_undo_how_often_they_come() -> None:
    generator = torch.Generator().manual_seed(1)
    advantage = torch.randn(2, 8, 3, generator=generator)
    rows, weight = prioritized.segments(advantage, 4, uniform(2, 6000), torch.ones(2, 1), torch.ones(2, 1))
    assert rows.shape == weight.shape == (2, 24_000)
    flat = advantage.flatten(1)
    found = (weight * flat.gather(1, rows)).sum(1) / weight.sum(1)
    torch.testing.assert_close(found, flat.mean(1), atol=0.01, rtol=0)
