"""Advantages of the terms of a reward: they add up to those that are learned from, and what never changes teaches nothing."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.training.loops import on_policy
from rlclinic.training.maths import normalize
from rlclinic.training.sentinels import terms
from tests.training.cohorts import make_config, workshop


class Errand(gym.Env[Any, Any]):
    """Being there pays 1 in every step, the right action a tenth; ends by luck or, at step 20, by a limit."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, luck: float = 0.1) -> None:
        self.luck = luck

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken = 0
        return self.look(), {}

    def look(self) -> np.ndarray:
        self.seen = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.seen

    def step(self, action: Any) -> Any:
        self.taken += 1
        said = {"goal": 0.1 if action == (self.seen[0] > 0) else -0.1, "there": 1.0}
        ended = bool(self.np_random.random() < self.luck)
        return self.look(), sum(said.values()), ended, self.taken >= 20 and not ended, {"reward_terms": said}


class Errands(gym.vector.SyncVectorEnv):
    """Those that are reset in the step after their end: that step is no transition."""

    def __init__(self, num_envs: int = 2, luck: float = 0.1) -> None:
        super().__init__([lambda: Errand(luck)] * num_envs, autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP)


def rollout_of(factory: Any, luck: float = 0.1, algo: str = "ppo", **env: Any) -> tuple[Any, Any]:
    """Two members' rollouts in eight copies, and what collected them."""
    told = {"id": "Errand", "n_envs": 8, "kwargs": {"luck": luck}, "log_terms": ("goal", "there"), "term_advantages": True, **env}
    settings = {"n_steps": 48} | ({"batch_size": 64} if algo in ("ppo", "appo") else {})
    configs = [make_config(algo, told, seed, algo=settings, run={"max_env_steps": 9_999}) for seed in (0, 1)]
    configs = [each.model_copy(update={"env": each.env.reading(("term.goal", "term.there"))}) for each in configs]
    shop = workshop(configs, factory)
    return shop, shop.collect()


CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("ppo", Errand, {}),
    ("ppo", Errands, {"normalize_obs": True, "normalize_reward": True}),
    ("ppo", Errand, {"train_reward_scale": 3.0}),
    ("a2c", Errands, {}),
    ("reinforce", Errand, {}),
    ("impala", Errands, {}),
    ("appo", Errand, {"normalize_reward": True}),
]


@pytest.mark.parametrize(("algo", "factory", "env"), CASES, ids=str)
def test_advantages_of_terms_and_of_what_the_critic_says_beyond_their_values_are_those_that_are_learned_from(
    algo: str, factory: Any, env: dict[str, Any]
) -> None:
    shop, rollout = rollout_of(factory, algo=algo, **env)
    hp, learner = shop.numbers(), shop.learner
    if env.get("normalize_reward"):
        learner = on_policy.update_normalizers(shop.plan, learner, rollout, hp, torch.ones(2, 1, dtype=torch.bool))
    learner = replace(learner, flat=learner.flat + 0.03 * torch.randn(learner.flat.shape, generator=torch.Generator().manual_seed(0)))
    assert (rollout.valid is not None) == (factory is Errands)
    assert rollout.truncated.any()
    assert rollout.terminated.any()
    params = shop.plan.policy.layout.views(learner.flat)
    present = (on_policy.log_ratio(shop.plan, params, rollout),) if shop.plan.corrects_for_age else ()

    def estimate(reward: torch.Tensor, value: torch.Tensor, next_value: torch.Tensor) -> torch.Tensor:
        return shop.plan.algo.advantages(shop.plan.config, rollout, reward, value, next_value, hp, *present)[0]

    parts, counts = terms.split_advantages(shop.plan, learner, rollout, hp, (0, 1))
    # What the terms' values are, seen from their advantages: the same sums without values, less those with them.
    none = torch.zeros_like(rollout.reward)
    of_values = parts - torch.stack([estimate(rollout.said[..., k], none, none) for k in (0, 1)], -1)
    unit = torch.full((2, 1, 1), env.get("train_reward_scale", 1.0))
    if learner.reward_stats is not None:
        unit = torch.rsqrt(learner.reward_stats.var + normalize.EPSILON).float().view(2, 1, 1)
    beyond = estimate(none, *on_policy.values(shop.plan.policy, params, rollout)) - unit * of_values.sum(-1)
    learned = on_policy.assess(shop.plan, learner, rollout, hp)[0].advantage.view_as(rollout.reward)
    counted = torch.ones_like(rollout.terminated) if counts is None else counts
    assert rollout.valid is None or torch.equal(counted, rollout.valid)
    torch.testing.assert_close((unit * parts.sum(-1) + beyond)[counted], learned[counted], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("factory", [Errand, Errands])
@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce without baseline"])
def test_a_term_that_never_changes_teaches_nothing_however_much_it_pays(factory: Any, algo: str) -> None:
    """Ten times as large as the other, and paid in every step of episodes that a limit alone ends: nothing that is done changes it."""
    shop, rollout = rollout_of(factory, luck=0.0, algo=algo)
    shares = terms.share_advantages(shop.plan, shop.learner, rollout, shop.numbers(), ("term.goal", "term.there"))
    share = shares["train/terms/there/advantage"]
    if algo == "reinforce without baseline":
        assert bool((share > 0.5).all()), "without values, how much of an episode is left decides"
    else:
        assert bool((share < 0.01).all())
    torch.testing.assert_close(share + shares["train/terms/goal/advantage"], torch.ones(2))


def test_a_term_that_ends_take_away_is_learned_from() -> None:
    shop, rollout = rollout_of(Errand, luck=0.1)
    share = terms.share_advantages(shop.plan, shop.learner, rollout, shop.numbers(), ("term.goal", "term.there"))
    assert bool((share["train/terms/there/advantage"] > 0.5).all())


def test_shares_are_of_steps_that_count_and_each_members_own() -> None:
    shop, rollout = rollout_of(Errands)
    names, hp = ("term.goal", "term.there"), shop.numbers()
    shares = terms.share_advantages(shop.plan, shop.learner, rollout, hp, names)
    wild = torch.where(rollout.valid.unsqueeze(-1), rollout.said, torch.tensor([1e6, -1e3]))
    # Nothing that is told in a step that is no transition counts, nor does what another member met.
    told = terms.share_advantages(shop.plan, shop.learner, replace(rollout, said=wild), hp, names)
    other = replace(rollout, said=rollout.said * torch.tensor([1.0, 5.0]).view(2, 1, 1, 1) ** torch.tensor([1.0, 2.0]))
    assert all(torch.equal(told[name], shares[name]) for name in shares)
    changed = terms.share_advantages(shop.plan, shop.learner, other, hp, names)
    assert all(changed[name][0] == shares[name][0] and changed[name][1] != shares[name][1] for name in shares)
