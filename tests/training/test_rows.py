"""Rows of metrics.csv: which columns there are, and what the numbers of gradient steps are summed up to."""

import numpy as np
import pytest
import torch
from torch import Tensor

from rlclinic.config import numbers
from rlclinic.training import rows
from rlclinic.training.sentinels import on_policy_sentinels
from tests.training.cohorts import ALGOS, make_config

NAMES = ("policy", "value", "entropy", "total", "kl", "clip_fraction", "grad_clipped")


def readings(epochs: list[list[int]], applied: list[list[int]]) -> dict[str, Tensor]:
    """Random numbers [U, 1] of one member for gradient steps that lie in these epochs of successive iterations."""
    flat = [epoch for iteration in epochs for epoch in iteration]
    start = [float(step == 0) for iteration in epochs for step, _ in enumerate(iteration)]
    generator = torch.Generator().manual_seed(0)
    found = {name: torch.rand(len(flat), 1, generator=generator) for name in NAMES}
    found |= {f"grad_norm/{name}": torch.rand(len(flat), 1, generator=generator) for name in rows.GRAD_NORMS}
    numbers_of = {"epoch": flat, "start": start, "applied": [step for iteration in applied for step in iteration]}
    return found | {name: torch.tensor(values, dtype=torch.float32).view(-1, 1) for name, values in numbers_of.items()}


def member_row(table: dict[str, Tensor]) -> dict[str, float]:
    return {name: cells[0] for name, cells in rows.summarize(table).items()}


@pytest.mark.parametrize("algo", ALGOS)
def test_columns_are_fixed_by_the_config_and_no_name_comes_twice(algo: str) -> None:
    config = make_config(algo)
    columns = rows.columns(config)
    assert len(set(columns)) == len(columns)
    assert columns[:4] == ["time", "total_timesteps", "epoch", "total_episodes"]
    assert {f"train/hp/{name}" for name in numbers(config.algo)} <= set(columns)
    assert set(on_policy_sentinels.COLUMNS) <= set(columns)


def test_losses_are_means_over_the_gradient_steps() -> None:
    table = readings([[0, 0, 1, 1]], [[1, 1, 1, 1]])
    row = member_row(table)
    for name in rows.LOSSES:
        assert row[f"train/loss/{name}"] == pytest.approx(table[name].mean().item())
    assert row["train/metrics/entropy"] == -row["train/loss/entropy"]
    assert row["train/metrics/clip_fraction"] == pytest.approx(table["clip_fraction"].mean().item())
    assert row["train/metrics/grad_norm/clipped"] == pytest.approx(table["grad_clipped"].mean().item())


def test_the_divergence_is_that_of_the_last_epoch_of_each_iteration() -> None:
    table = readings([[0, 0, 1, 1], [0, 0, 1, 1]], [[1] * 4] * 2)
    kl = table["kl"].flatten().tolist()
    assert member_row(table)["train/metrics/kl_divergence"] == pytest.approx((kl[2] + kl[3] + kl[6] + kl[7]) / 4)


def test_the_first_epochs_have_a_divergence_and_a_clip_fraction_of_their_own() -> None:
    table = readings([[0, 0, 1, 1], [0, 0, 1, 1]], [[1] * 4] * 2)
    kl, clipped = table["kl"].flatten().tolist(), table["clip_fraction"].flatten().tolist()
    row = member_row(table)
    assert row["train/sentinel/kl_first_epoch"] == pytest.approx((kl[0] + kl[1] + kl[4] + kl[5]) / 4)
    assert row["train/sentinel/clip_fraction_first_epoch"] == pytest.approx((clipped[0] + clipped[1] + clipped[4] + clipped[5]) / 4)


def test_steps_after_an_early_stop_are_left_out_and_the_refused_one_is_not() -> None:
    # The second step of the first epoch was refused; neighbours went on for two more.
    table = readings([[0, 0, 1, 1]], [[1, 0, 0, 0]])
    row = member_row(table)
    assert row["train/loss/policy"] == pytest.approx(table["policy"][:2].mean().item())
    assert row["train/metrics/kl_divergence"] == pytest.approx(table["kl"][:2].mean().item())


def test_a_member_that_stops_early_has_the_same_row_whether_or_not_its_neighbours_went_on() -> None:
    # Two iterations share a row. Alone, an iteration ends with the refused step.
    together = readings([[0, 0, 1, 1], [0, 0, 1, 1]], [[1, 0, 0, 0], [1, 1, 1, 0]])
    seen = [0, 1, 4, 5, 6, 7]
    alone = {name: values[seen] for name, values in together.items()}
    assert member_row(together) == member_row(alone)


def test_the_first_step_of_the_next_iteration_counts_even_if_the_last_one_stopped_in_its_first_epoch() -> None:
    table = readings([[0, 0], [0, 0]], [[1, 0], [1, 1]])
    assert member_row(table)["train/loss/value"] == pytest.approx(table["value"].mean().item())


def test_gradient_quantiles_are_order_statistics_of_the_norms() -> None:
    table = readings([[0] * 40], [[1] * 40])
    norms = np.sort(table["grad_norm/all"].flatten().numpy())
    row = member_row(table)
    assert row["train/metrics/grad_norm/p50"] == norms[20]
    assert row["train/metrics/grad_norm/p95"] == norms[38]
    assert row["train/metrics/grad_norm/max"] == norms[-1]
    for name in rows.GRAD_NORMS:
        assert row[f"train/metrics/grad_norm/{name}"] == pytest.approx(table[f"grad_norm/{name}"].mean().item())


def test_every_member_gets_its_own_column_of_the_readings() -> None:
    one, other = readings([[0, 1]], [[1, 1]]), readings([[0, 1]], [[1, 0]])
    for name in NAMES:
        other[name] = other[name] + 1.0
    both = {name: torch.cat([one[name], other[name]], 1) for name in one}
    assert rows.summarize(both) == rows.by_column([member_row(one), member_row(other)])


def test_an_algorithm_without_a_ratio_has_no_divergence() -> None:
    table = readings([[0]], [[1]])
    del table["kl"], table["clip_fraction"]
    assert "train/metrics/kl_divergence" not in member_row(table)


def sentinel_cells(found: dict[str, Tensor]) -> rows.Columns:
    return rows.sentinel_cells(list(found), rows.stack_by_name(found))


def test_a_number_of_48_bits_reaches_the_row_exactly() -> None:
    number = float(2**48 - 1)
    assert sentinel_cells({"a": torch.tensor([number], dtype=torch.float64), "b": torch.tensor([0.1])})["a"] == [number]
    assert sentinel_cells({"a": torch.tensor([2**48 - 1]), "b": torch.tensor([0.1])}) == {"a": [number], "b": [torch.tensor(0.1).item()]}


def test_sentinels_become_one_cell_per_member_and_nan_a_blank() -> None:
    found = sentinel_cells({"a": torch.tensor([1.0, torch.nan]), "b": torch.tensor([2, 3])})
    assert found == {"a": [1.0, None], "b": [2.0, 3.0]}
    assert sentinel_cells({}) == {}


def test_an_infinite_sentinel_is_written_down_because_it_means_something() -> None:
    assert sentinel_cells({"a": torch.tensor([torch.inf])}) == {"a": [float("inf")]}


def test_rows_become_rarer_where_writing_them_would_take_longer_than_training() -> None:
    config = make_config(run={"max_env_steps": 64_000})
    assert rows.spacing(config, 64) == rows.ROW_ENV_STEPS
    assert rows.spacing(config, 65) == 1_600
    assert rows.spacing(config, 1, "captured") == 500
    assert rows.spacing(make_config(), 1024) == rows.ROW_ENV_STEPS
