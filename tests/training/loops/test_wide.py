"""Wide networks take Adam's step in one pass over their weights: the same step to rounding, and still each member's own."""

import pytest
import torch

from rlclinic.training.loops import on_policy
from tests.training.cohorts import Workshop, make_config, workshop

SEEDS = (0, 1, 2)


def shop(*seeds: int) -> Workshop:
    at = workshop([make_config(net={"hidden": [256, 256]}, seed=seed) for seed in seeds])
    assert at.learner.flat.shape[1] >= 65_536, "otherwise nothing here is tested"
    return at


def learned(at: Workshop, active: torch.Tensor | None = None) -> on_policy.Learner:
    return on_policy.learn(at.plan, at.learner, at.whole(), at.numbers(), active, at.seed, 0)[0]


def test_one_pass_and_many_give_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    once = learned(shop(*SEEDS))
    monkeypatch.setattr(on_policy, "WIDE", 10**9)
    often = learned(shop(*SEEDS))
    torch.testing.assert_close(once.flat, often.flat, rtol=1e-5, atol=1e-6)
    for one, other in zip(once.optimizer, often.optimizer, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_a_wide_member_learns_the_same_bits_alone() -> None:
    together, alone = learned(shop(*SEEDS)), learned(shop(1))
    assert torch.equal(together.flat[1], alone.flat[0])
    assert torch.equal(together.optimizer.square[1], alone.optimizer.square[0])


def test_the_weights_before_the_step_stay_as_they_were_and_so_do_frozen_members() -> None:
    at = shop(*SEEDS)
    before = at.learner.flat.clone()
    after = learned(at, torch.tensor([[True], [False], [True]]))
    assert torch.equal(at.learner.flat, before)
    assert torch.equal(after.flat[1], before[1])
    assert not torch.equal(after.flat[0], before[0])
    assert after.optimizer.steps[1].item() == 0
