"""How rollouts are cut into minibatches."""

import pytest
import torch

from rlclinic.training.data import rollouts
from rlclinic.training.data.rollouts import Batch

SEEDS = torch.tensor([3, 4, 5]).view(-1, 1, 1)


def whole(rows: int = 12, *, masked: bool = False) -> Batch:
    """Every field of a row carries the row's number, and the member's as hundreds."""
    number = torch.arange(rows).float() + 100.0 * torch.arange(3).float().view(3, 1)
    mask = (number.long().unsqueeze(-1) >> torch.arange(4)) % 2 == 1 if masked else None
    return Batch(torch.stack([number, -number], -1), number.long(), number + 0.5, number, number, number, number if masked else None, mask)


def test_rows_are_steps_and_envs_laid_end_to_end_without_a_copy() -> None:
    x = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
    rows = rollouts.rows(x)
    assert rows.shape == (2, 12, 5)
    assert torch.equal(rows[1, 2 * 4 + 3], x[1, 2, 3])
    assert rows.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("batch_size", [1, 4, 6, 12])
def test_every_epoch_shows_each_row_of_each_member_once(batch_size: int) -> None:
    seen: dict[int, list[Batch]] = {}
    for epoch, batch in rollouts.minibatches(whole(), batch_size, 3, SEEDS, iteration=0):
        assert batch.log_prob.shape == (3, batch_size)
        seen.setdefault(epoch, []).append(batch)
    assert list(seen) == [0, 1, 2]
    for batches in seen.values():
        rows = torch.cat([batch.value for batch in batches], 1)
        assert torch.equal(rows.sort(1).values, whole().value)


def test_the_fields_of_a_row_stay_together() -> None:
    for _, batch in rollouts.minibatches(whole(masked=True), 4, 2, SEEDS, iteration=5):
        number = batch.value
        assert torch.equal(batch.obs, torch.stack([number, -number], -1))
        assert torch.equal(batch.action, number.long())
        assert torch.equal(batch.log_prob, number + 0.5)
        assert torch.equal(batch.advantage, number)
        assert torch.equal(batch.returns, number)
        assert batch.weight is not None
        assert torch.equal(batch.weight, number)
        assert batch.action_mask is not None
        assert torch.equal(batch.action_mask, (number.long().unsqueeze(-1) >> torch.arange(4)) % 2 == 1)


def orders(seeds: torch.Tensor, iteration: int, members: slice = slice(None)) -> torch.Tensor:
    """[M, epochs, rows] as they were shown."""
    batch = Batch(*(None if field is None else field[members] for field in whole()))  # type: ignore[arg-type]
    shown = [each.value % 100 for _, each in rollouts.minibatches(batch, 4, 2, seeds, iteration)]
    return torch.cat(shown, 1).view(len(seeds), 2, 12)


def test_each_member_has_an_order_of_its_own_that_changes_with_epoch_and_iteration() -> None:
    rows = torch.cat([orders(SEEDS, 0).view(-1, 12), orders(SEEDS, 1).view(-1, 12)])
    assert rows.unique(dim=0).shape[0] == 12
    assert torch.equal(orders(SEEDS, 0), orders(SEEDS, 0))


def test_a_members_order_is_the_same_alone_as_in_a_cohort() -> None:
    assert torch.equal(orders(SEEDS[1:2], 7, slice(1, 2)), orders(SEEDS, 7)[1:2])


def test_a_minibatch_that_is_the_whole_rollout_is_handed_over_as_it_is() -> None:
    batch = whole()
    assert all(each is batch for _, each in rollouts.minibatches(batch, 12, 3, SEEDS, 0))
