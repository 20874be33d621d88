"""REINFORCE's advantages: the Monte Carlo return, or what gae_lambda makes of it."""

from pathlib import Path
from typing import Any

import torch

from rlclinic.config import corrections
from rlclinic.training.loops import on_policy
from rlclinic.training.maths import returns
from tests.training.cohorts import assert_same_run, make_config, train, workshop


def estimated(*lambdas: float) -> tuple[Any, Any, Any, Any]:
    """A workshop, its rollout, its batch, and GAE by these lambdas."""
    at = workshop([make_config("reinforce", {"max_episode_steps": 9}, 3, algo={"gae_lambda": each}) for each in lambdas])
    rollout, hp = at.collect(), at.numbers()
    whole, estimates = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
    value, next_value = on_policy.values(at.plan.policy, at.plan.policy.layout.views(at.learner.flat), rollout)
    expected, _ = returns.gae(rollout.reward, value, next_value, rollout.terminated, rollout.truncated, hp.gamma, hp.gae_lambda)
    return at, whole, estimates, expected.flatten(1)


def test_gae_lambda_mixes_the_baseline_into_the_advantages_and_leaves_the_targets_alone() -> None:
    _, whole, estimates, expected = estimated(1.0, 0.5)
    torch.testing.assert_close(estimates.advantage, expected.detach(), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(estimates.advantage[0], estimates.advantage[1])
    assert torch.equal(whole.returns[0], whole.returns[1])


def test_a_lambda_of_one_has_the_same_bits_beside_any_other(tmp_path: Path) -> None:
    configs = [make_config("reinforce", algo={"gae_lambda": each}) for each in (0.7, 1.0)]
    together, alone = train(tmp_path / "both", configs), train(tmp_path / "one", configs[1:])
    assert_same_run(together[1], alone[0])


def test_runs_that_were_begun_when_it_was_ignored_are_refused() -> None:
    old = [name for name in corrections.CORRECTIONS if name != "reinforce_gae_lambda"]
    touched, other = (make_config("reinforce", algo={"gae_lambda": each}) for each in (0.9, 1.0))
    assert "gae_lambda" in "".join(corrections.refusal("it", old, touched, skips=False) or ())
    assert corrections.refusal("it", old, other, skips=False) is None
