"""Running statistics against numpy over all rows at once, and what they scale."""

import numpy as np
import pytest
import torch
from torch import Tensor

from rlclinic.training.maths import normalize

CPU = torch.device("cpu")
ALL = torch.ones(2, 1, dtype=torch.bool)


def batches(seed: int = 0, offset: float = 0.0) -> list[Tensor]:
    """Three batches [M = 2, B, D = 3] of different sizes, each component on its own scale."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.tensor([0.1, 1.0, 100.0])
    return [offset + scale * torch.randn(2, size, 3, generator=generator) + size for size in (5, 1, 30)]


def included(parts: list[Tensor], stats: normalize.Moments | None = None) -> normalize.Moments:
    stats = stats or normalize.moments(2, 3, CPU)
    for part in parts:
        stats = normalize.include(stats, part, ALL)
    return stats


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_running_moments_are_those_of_all_rows_together(offset: float) -> None:
    parts = batches(offset=offset)
    rows = torch.cat(parts, 1).double().numpy()
    stats = included(parts)
    assert stats.count.tolist() == [[36.0], [36.0]]
    np.testing.assert_allclose(stats.mean.numpy(), rows.mean(1), rtol=1e-12)
    np.testing.assert_allclose(stats.var.numpy(), rows.var(1), rtol=1e-9)


def test_the_first_batch_replaces_the_placeholder_instead_of_being_averaged_with_it() -> None:
    rows = batches()[0]
    stats = included([rows])
    np.testing.assert_allclose(stats.mean.numpy(), rows.double().numpy().mean(1))
    np.testing.assert_allclose(stats.var.numpy(), rows.double().numpy().var(1))


def test_a_frozen_member_keeps_its_statistics_to_the_last_bit() -> None:
    first, _, second = batches()
    before = included([first])
    after = normalize.include(before, second, torch.tensor([[True], [False]]))
    for name in ("count", "mean", "var"):
        old, new = getattr(before, name), getattr(after, name)
        assert torch.equal(new[1], old[1])
        assert not torch.equal(new[0], old[0])


def test_rows_that_do_not_count_leave_no_trace_in_the_statistics() -> None:
    parts = batches()
    weight = (torch.rand(2, 30, generator=torch.Generator().manual_seed(1)) < 0.7).double()
    stats = normalize.include(included(parts[:2]), parts[2], ALL, weight)
    for m in range(2):
        rows = torch.cat([parts[0][m], parts[1][m], parts[2][m][weight[m] > 0]]).double().numpy()
        assert stats.count[m].item() == len(rows)
        np.testing.assert_allclose(stats.mean[m].numpy(), rows.mean(0), rtol=1e-9)
        np.testing.assert_allclose(stats.var[m].numpy(), rows.var(0), rtol=1e-9)


def test_a_batch_of_which_nothing_counts_changes_nothing() -> None:
    for before in (normalize.moments(2, 3, CPU), included(batches())):
        after = normalize.include(before, batches()[0], ALL, torch.zeros(2, 5))
        for old, new in zip(before, after, strict=True):
            torch.testing.assert_close(new, old, rtol=1e-12, atol=0)


def test_the_mean_still_moves_after_a_hundred_million_rows() -> None:
    stats = normalize.Moments(
        torch.full((1, 1), 1e8, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1).double()
    )
    after = normalize.include(stats, torch.full((1, 10, 1), 1.0), torch.ones(1, 1, dtype=torch.bool))
    assert after.mean.item() == pytest.approx(1e-7, rel=1e-6)


def test_observations_get_mean_zero_and_deviation_one_per_member_and_component() -> None:
    rows = torch.cat(batches(), 1)
    seen = normalize.observations(included(batches()), rows, clip=1e9)
    torch.testing.assert_close(seen.mean(1), torch.zeros(2, 3), rtol=0, atol=1e-4)
    torch.testing.assert_close(seen.std(1, unbiased=False), torch.ones(2, 3), rtol=1e-3, atol=0)
    # However many axes lie between members and components.
    assert torch.equal(normalize.observations(included(batches()), rows.view(2, 6, 6, 3), clip=1e9).view(2, 36, 3), seen)


def test_nothing_seen_yet_means_nothing_scaled_but_outliers_are_cut() -> None:
    obs = torch.tensor([[[0.5, -3.0, 99.0]], [[0.0, 1.0, -99.0]]])
    shown = normalize.observations(normalize.moments(2, 3, CPU), obs, clip=10.0)
    torch.testing.assert_close(shown, obs.clamp(-10, 10), rtol=1e-6, atol=0)


def test_rewards_are_divided_by_the_deviation_of_the_return_and_keep_their_sign_and_mean() -> None:
    stats = normalize.Moments(torch.full((2, 1), 10.0), torch.tensor([[5.0], [5.0]]), torch.tensor([[4.0], [100.0]]))
    reward = torch.tensor([1.0, -2.0, 1_000.0]).view(1, 3, 1).expand(2, 3, 1)
    scaled = normalize.rewards(stats, reward, clip=10.0)
    torch.testing.assert_close(scaled, torch.tensor([[0.5, -1.0, 10.0], [0.1, -0.2, 10.0]]).view(2, 3, 1))


def test_discounted_returns_run_forward_restart_after_an_end_and_go_on_in_the_next_rollout() -> None:
    generator = torch.Generator().manual_seed(0)
    reward, end = torch.randn(2, 12, 3, generator=generator, dtype=torch.float64), torch.rand(2, 12, 3, generator=generator) < 0.2
    gamma = torch.tensor([[0.9], [0.5]], dtype=torch.float64)
    expected = torch.zeros_like(reward)
    for m in range(2):
        for n in range(3):
            total = 0.0
            for t in range(12):
                total = gamma[m].item() * total + reward[m, t, n].item()
                expected[m, t, n] = total
                total = 0.0 if end[m, t, n] else total
    carry = torch.zeros(2, 3, dtype=torch.float64)
    found = []
    for part in (slice(0, 5), slice(5, 12)):
        sums, carry = normalize.discounted_returns(reward[:, part], end[:, part], carry, gamma)
        found.append(sums)
    torch.testing.assert_close(torch.cat(found, 1), expected)


def test_standardized_advantages_have_mean_zero_and_deviation_one_for_every_member() -> None:
    rows = torch.tensor([[1.0, 2.0, 3.0, 4.0], [-1e3, 5e3, 0.0, 2e3]])
    expected = (rows.numpy() - rows.numpy().mean(1, keepdims=True)) / rows.numpy().std(1, ddof=1, keepdims=True)
    np.testing.assert_allclose(normalize.standardize(rows).numpy(), expected, rtol=1e-5)


def test_rows_that_do_not_count_have_no_part_in_the_scale_of_the_others() -> None:
    rows = torch.tensor([[1.0, 2.0, 4.0, 1e6], [5.0, -7.0, 0.0, 9.0]])
    weight = torch.tensor([[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0]])
    scaled = normalize.standardize(rows, weight)
    for m in range(2):
        kept = weight[m] > 0
        torch.testing.assert_close(scaled[m][kept], normalize.standardize(rows[m][kept].unsqueeze(0))[0])
    torch.testing.assert_close(normalize.standardize(rows, torch.ones_like(rows)), normalize.standardize(rows))


@pytest.mark.parametrize("counted", [0, 1])
def test_advantages_stay_finite_when_hardly_any_row_counts_or_none_differs(counted: int) -> None:
    weight = torch.zeros(1, 4)
    weight[:, :counted] = 1.0
    assert torch.isfinite(normalize.standardize(torch.tensor([[3.0, 1.0, 2.0, 5.0]]), weight)).all()
    assert normalize.standardize(torch.full((1, 4), 7.0)).tolist() == [[0.0] * 4]


@pytest.mark.parametrize("rows", [16, 100, 4096])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_advantages_are_zero_and_not_their_rounding_made_large(rows: int, members: int, weighted: bool) -> None:
    for value in (0.1, 0.84, 2.69, 3.06, -71.3, 1e-5):
        equal = torch.full((members, rows), value)
        weight = (torch.arange(rows) % 3 > 0).float().expand(members, -1) if weighted else None
        assert not normalize.standardize(equal, weight).any(), value
    slightly = torch.full((1, rows), 2.69)
    slightly[0, ::2] += 1e-5
    assert float(normalize.standardize(slightly).abs().min()) > 0.9
