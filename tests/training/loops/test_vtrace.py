"""V-trace in A2C and PPO: on its own data it is the n-step return; before each later epoch it is estimated anew."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.errors import ConfigError
from rlclinic.training.data import rollouts
from rlclinic.training.loops import on_policy
from tests.training.cohorts import TASKS, Workshop, make_config, train, workshop


def shop(kind: str = "ppo", task: str = "discrete", members: int = 2, **algo: Any) -> Workshop:
    env, factory = TASKS[task]
    return workshop([make_config(kind, env, seed, algo=algo) for seed in range(members)], factory)


@pytest.mark.parametrize("task", ["discrete", "box"])
@pytest.mark.parametrize("kind", ["ppo", "a2c"])
@pytest.mark.parametrize("clip", [1.0, 3.0])
def test_with_data_of_its_own_and_lambda_1_vtrace_is_the_n_step_return(kind: str, task: str, clip: float) -> None:
    numbers = {"gae_lambda": 1.0, "normalize_advantage": "off"}
    corrected = shop(kind, task, advantage="vtrace", rho_clip=clip, c_clip=clip, **numbers).whole()
    plain = shop(kind, task, **numbers).whole()
    torch.testing.assert_close(corrected.advantage, plain.advantage, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(corrected.returns, plain.returns, rtol=1e-4, atol=1e-5)


def test_a_later_epoch_is_judged_by_the_weights_as_they_are_then_and_the_ratio_by_those_that_acted(monkeypatch: pytest.MonkeyPatch) -> None:
    at = shop(advantage="vtrace", n_epochs=3, batch_size=16, learning_rate=0.02, normalize_advantage="off")
    rollout, hp = at.collect(), at.numbers()
    whole, _ = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
    seen: list[tuple[torch.Tensor, Any]] = []
    update = on_policy.update_step

    def watched(plan: Any, flat: Any, state: Any, batch: Any, *rest: Any) -> Any:
        seen.append((flat, batch))
        return update(plan, flat, state, batch, *rest)

    monkeypatch.setattr(on_policy, "update_step", watched)
    on_policy.learn(at.plan, at.learner, whole, hp, None, at.seed, 0, rollout)
    per_epoch = len(seen) // 3
    assert per_epoch == 2
    for epoch in range(3):
        flat = seen[epoch * per_epoch][0]
        then = at.with_learner(flat=flat)
        expected, _ = on_policy.estimate_advantages(then.plan, then.learner, rollout, hp)
        of_epoch = [batch for _, batch in seen[epoch * per_epoch : (epoch + 1) * per_epoch]]
        for name in ("advantage", "returns", "log_prob"):
            shown = torch.cat([getattr(batch, name) for batch in of_epoch], 1)
            torch.testing.assert_close(shown.sort(1).values, getattr(expected, name).sort(1).values)
        assert torch.equal(expected.log_prob, whole.log_prob)
        assert torch.equal(expected.advantage, whole.advantage) == (epoch == 0)


def test_actions_that_the_policy_has_turned_away_from_count_less() -> None:
    at = shop(advantage="vtrace", normalize_advantage="off", gae_lambda=0.0)
    rollout, hp = at.collect(), at.numbers()
    moved = at.with_learner(flat=at.learner.flat + 0.3 * torch.randn(at.learner.flat.shape, generator=torch.Generator().manual_seed(0)))
    ratio = on_policy.log_ratio(moved.plan, moved.plan.policy.layout.views(moved.learner.flat), rollout).exp()
    assert ratio.min() < 0.9 < 1.1 < ratio.max()
    whole, _ = on_policy.estimate_advantages(moved.plan, moved.learner, rollout, hp)
    # lambda 0: nothing is passed on, the target is V + min(1, ratio) (r + gamma V' - V).
    error = (whole.returns - whole.value) / rollouts.rows(ratio.clamp(max=1.0))
    plain = shop(normalize_advantage="off", gae_lambda=0.0).with_learner(flat=moved.learner.flat)
    expected, _ = on_policy.estimate_advantages(plain.plan, plain.learner, rollout, hp)
    torch.testing.assert_close(error, expected.advantage, rtol=1e-3, atol=1e-4)


def test_an_engine_that_judges_a_rollout_only_once_is_refused(tmp_path: Path) -> None:
    env, _ = TASKS["discrete"]
    made = make_config("ppo", env, 0, algo={"advantage": "vtrace"}, run={"engine": "compiled"})
    with pytest.raises(ConfigError, match="those of the first epoch"):
        train(tmp_path, [made])
    (run,) = train(tmp_path, [make_config("ppo", env, 0, algo={"advantage": "vtrace"})])
    assert run.status.state == "finished"
