"""Prioritized segments in PPO: minibatches are whole pieces of one env's steps, the surprising ones more often and weighted down."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import rollouts
from rlclinic.training.data.rollouts import Batch
from rlclinic.training.loops import on_policy
from tests.training.cohorts import TASKS, Interrupted, assert_same_run, interrupt_at, make_config, table, train, workshop

ENVS, STEPS, LENGTH = 2, 12, 4
SEED = torch.tensor([3, 8]).view(-1, 1, 1)
SEGMENTS = {"segment_length": 4, "batch_size": 16}


def whole(advantage: torch.Tensor, weight: torch.Tensor | None = None) -> Batch:
    """A rollout of two members whose rows [M, T*N] can be told apart by their returns: 0, 1, 2, …"""
    rows = torch.arange(advantage.shape[1], dtype=torch.float32).expand_as(advantage)
    return Batch(rows.unsqueeze(-1), rows, rows, advantage, rows, rows, weight, None)


def drawn(of: Batch, epochs: int = 1, alpha: float = 1.0, beta: float = 1.0, batch: int = 8, **more: Any) -> list[tuple[int, Batch]]:
    numbers = torch.full((2, 1), alpha), torch.full((2, 1), beta)
    return list(rollouts.segments(of, ENVS, LENGTH, batch, epochs, SEED, 5, *numbers, **more))


def test_a_minibatch_is_made_of_whole_segments_of_one_env_in_order() -> None:
    found = drawn(whole(torch.ones(2, STEPS * ENVS)), epochs=2)
    assert [epoch for epoch, _ in found] == [0, 0, 0, 1, 1, 1]
    for _, batch in found:
        pieces = batch.returns.view(2, -1, LENGTH).long()
        assert (pieces.diff(dim=-1) == ENVS).all(), "steps of one env follow each other"
        assert (pieces[..., 0] // ENVS % LENGTH == 0).all(), "a segment begins where one ended"
        assert torch.equal(batch.obs.squeeze(-1), batch.returns), "all fields are of the same rows"
    assert not torch.equal(found[0][1].returns, found[3][1].returns)
    assert not torch.equal(found[0][1].returns[0], found[0][1].returns[1]), "each member draws its own"


def test_segments_come_as_often_as_their_advantages_are_large_and_weights_undo_it() -> None:
    advantage = torch.rand(2, STEPS * ENVS, generator=torch.Generator().manual_seed(1)) * 5
    found = [batch for _, batch in drawn(whole(advantage), epochs=400, batch=STEPS * ENVS)]
    rows = torch.cat([batch.returns for batch in found], 1).long()
    share = torch.stack([row.bincount(minlength=STEPS * ENVS) / len(row) for row in rows])
    size = advantage.view(2, STEPS // LENGTH, LENGTH, ENVS).sum(2, keepdim=True).expand(-1, -1, LENGTH, -1).reshape(2, -1)
    torch.testing.assert_close(share, size / size.sum(1, keepdim=True), rtol=0.08, atol=0.0)
    weight = torch.cat([batch.weight for batch in found if batch.weight is not None], 1)
    assert weight.amax() == 1.0
    # Within a minibatch, what comes twice as often counts half as much.
    assert torch.allclose(weight[0, :8] * size[0, rows[0, :8]], (weight[0, :8] * size[0, rows[0, :8]]).mean(), rtol=1e-4)


def test_with_alpha_0_every_segment_is_as_likely_and_counts_the_same() -> None:
    advantage = torch.linspace(0.1, 9.0, STEPS * ENVS).expand(2, -1)
    found = [batch for _, batch in drawn(whole(advantage), epochs=400, alpha=0.0, batch=STEPS * ENVS)]
    rows = torch.cat([batch.returns for batch in found], 1).long()
    share = rows[0].bincount(minlength=STEPS * ENVS) / rows.shape[1]
    torch.testing.assert_close(share, torch.full_like(share, 1 / (STEPS * ENVS)), rtol=0.08, atol=0.0)
    assert all(batch.weight is not None and bool((batch.weight == 1).all()) for batch in found)


def test_rows_that_do_not_count_draw_nothing_and_weigh_nothing() -> None:
    counts = torch.ones(2, STEPS, ENVS)
    counts[:, :LENGTH] = 0.0  # the first segment of both envs
    counts[:, LENGTH] = 0.0  # and the first row of the second
    found = drawn(whole(torch.full((2, STEPS * ENVS), 3.0), counts.view(2, -1)), epochs=50)
    rows = torch.cat([batch.returns for _, batch in found], 1).long()
    weight = torch.cat([batch.weight for _, batch in found if batch.weight is not None], 1)
    assert ((rows < LENGTH * ENVS).float().mean() < 0.01).all()
    assert (weight[rows // ENVS == LENGTH] == 0).all()
    assert (weight[rows // ENVS > LENGTH] > 0).all()


def test_a_later_epoch_draws_from_rows_that_are_judged_anew() -> None:
    first, second = torch.full((2, STEPS * ENVS), 1e-3), torch.full((2, STEPS * ENVS), 1e-3)
    first[:, :8], second[:, 16:] = 5.0, 5.0
    found = drawn(whole(first), epochs=2, renew=lambda: whole(second))
    by_epoch = [torch.cat([batch.returns for epoch, batch in found if epoch == which], 1) for which in (0, 1)]
    assert (by_epoch[0] < 8).float().mean() > 0.9
    assert (by_epoch[1] >= 16).float().mean() > 0.9


def test_the_update_learns_from_the_weighted_rows() -> None:
    at = workshop([make_config("ppo", TASKS["discrete"][0], seed, algo=SEGMENTS) for seed in range(2)])
    seen: list[Batch] = []

    def watched(plan: Any, flat: Any, state: Any, batch: Batch, *rest: Any) -> Any:
        seen.append(batch)
        return on_policy.update_step(plan, flat, state, batch, *rest)

    learner, readings, _ = on_policy.learn(at.plan, at.learner, at.whole(), at.numbers(), None, at.seed, 0, step=watched)
    assert len(seen) == 4  # 32 rows in minibatches of 16, twice
    assert all(batch.weight is not None and batch.weight.amin() < 1.0 for batch in seen)
    assert (learner.flat != at.learner.flat).any(1).all()
    assert readings["ratio_deviation"][0].amax() < 1e-5, "the first ratio is 1, drawn however often"


def test_runs_with_segments_resume_exactly_and_do_not_lean_on_their_neighbours(tmp_path: Path) -> None:
    run = {"max_env_steps": 144, "eval_episodes": 2, "checkpoint_every_env_steps": 40}
    configs = [make_config("ppo", TASKS["discrete"][0], seed, algo=SEGMENTS, run=run) for seed in (0, 1)]
    together = train(tmp_path, configs)
    assert_same_run(together[1], train(tmp_path, configs[1:])[0])
    assert table(together[0]) != table(train(tmp_path, [make_config("ppo", TASKS["discrete"][0], 0, run=run)])[0])
    with pytest.raises(Interrupted):
        train(tmp_path, configs[:1], callback=interrupt_at(100))
    broken = Run((together[0].path.parent / "@last").resolve())
    assert train_runs([broken], resume=True)
    assert_same_run(broken, together[0])


@pytest.mark.parametrize("algo", [{"segment_length": 5}, {"segment_length": 16, "batch_size": 8}])
def test_segments_that_do_not_fit_are_refused_with_one_that_does(algo: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"does not divide algo.n_steps=16(?s:.*)--set algo.segment_length=(4|8)"):
        make_config("ppo", algo=algo)
