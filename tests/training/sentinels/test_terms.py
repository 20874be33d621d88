"""Advantages of the terms of a reward: they add up to those that are learned from, and what never changes teaches nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import info_columns
from rlclinic.training.loops import on_policy
from rlclinic.training.maths import normalize
from rlclinic.training.sentinels import terms
from tests.training.cohorts import Interrupted, interrupt_at, make_config, table, train, workshop


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
        info = {"reward_terms": said, "cost": float(action)}
        return self.look(), sum(said.values()), ended, self.taken >= 20 and not ended, info


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
    shares = share(shop, rollout)
    part = shares["train/terms/there/advantage"].abs()
    if algo == "reinforce without baseline":
        assert bool((part > 0.5).all()), "without values, how much of an episode is left decides"
    else:
        assert bool((part < 0.02).all())
    assert_sums_to_one(shares)


def test_a_term_that_ends_take_away_is_learned_from() -> None:
    shop, rollout = rollout_of(Errand, luck=0.1)
    assert bool((share(shop, rollout)["train/terms/there/advantage"] > 0.5).all())


def test_shares_are_of_steps_that_count_and_each_members_own() -> None:
    shop, rollout = rollout_of(Errands)
    shares = share(shop, rollout)
    wild = replace(rollout, said=torch.where(rollout.valid.unsqueeze(-1), rollout.said, torch.tensor([1e6, -1e3])))
    # Nothing that is told in a step that is no transition counts, nor does what another member met.
    told = share(shop, wild)
    assert all(torch.equal(told[name], shares[name]) for name in shares)
    other = replace(rollout, said=rollout.said * torch.tensor([1.0, 5.0]).view(2, 1, 1, 1) ** torch.tensor([1.0, 2.0]))
    changed = share(shop, other)
    assert all(changed[name][0] == shares[name][0] and changed[name][1] != shares[name][1] for name in shares)


def test_where_nothing_is_learned_from_no_part_of_it_is_told() -> None:
    shop, rollout = rollout_of(Errand)
    shares = terms.share_advantages(shop.plan, shop.learner, rollout, torch.zeros(2, 48 * 8), shop.numbers(), NAMES)
    assert all(bool(share.isnan().all()) for share in shares.values())


NAMES = ("term.goal", "term.there")


def share(shop: Any, rollout: Any) -> dict[str, torch.Tensor]:
    hp = shop.numbers()
    learned = on_policy.assess(shop.plan, shop.learner, rollout, hp)[0].advantage
    return terms.share_advantages(shop.plan, shop.learner, rollout, learned, hp, NAMES)


def assert_sums_to_one(shares: dict[str, torch.Tensor]) -> None:
    whole = torch.stack(list(shares.values())).sum(0)
    torch.testing.assert_close(whole, torch.ones_like(whole), atol=1e-5, rtol=0)


# ── in runs ──

CROSSED: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (Errand, {}),
    "normalized": (Errand, {"env": {"normalize_obs": True, "normalize_reward": True, "clip_reward": 0.5}}),
    "scaled, shifted and cut": (Errand, {"env": {"train_reward_scale": 3.0, "train_reward_shift": -0.5, "clip_raw_reward": 3.1}}),
    "wrapped": (Errand, {"env": {"wrappers": [{"id": "gymnasium.wrappers:ClipReward", "kwargs": {"max_reward": 1.05}}]}}),
    "other weights": (Errand, {"env": {"term_weights": {"there": 0.1, "goal": 3.0}}}),
    "one term alone is told": (Errand, {"env": {"log_terms": ("goal",)}}),
    "steps that are none": (Errands, {}),
    "a schedule of the rate, a step of the discount": (Errand, {"algo": {"gamma": 0.9, "learning_rate": {"start": 1e-3, "end": 0.0}}}),
    "counts with values of their own": (Errand, {"bonus": {"kind": "count", "coef": 0.3}}),
    "novelty in the reward": (Errand, {"bonus": {"kind": "rnd", "coef": 0.3, "value_head": "shared"}}),
    "a cost that has a limit": (Errand, {"cost": {"limit": 0.1, "learning_rate": 0.3}}),
    "nearly everything": (
        Errands,
        {
            "env": {"normalize_reward": True, "term_weights": {"there": 2.0}},
            "bonus": {"kind": "rnd", "coef": 0.3},
            "cost": {"limit": 0.1, "learning_rate": 0.3},
        },
    ),
}


@pytest.mark.parametrize("name", CROSSED)
def test_columns_sum_to_what_is_learned_from_and_the_rest_is_what_it_is_said_to_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory, changes = CROSSED[name]
    keep, seen = terms.share_advantages, []
    monkeypatch.setattr(terms, "share_advantages", lambda *given: seen.append((given, keep(*given))) or seen[-1][1])
    env = {"id": "Errand", "n_envs": 4, "log_terms": ("goal", "there"), "term_advantages": True, **changes.get("env", {})}
    given = make_config("ppo", env, algo={"n_steps": 24, **changes.get("algo", {})}, run={"max_env_steps": 3 * 96}).model_dump()
    more = {section: changes[section] for section in ("bonus", "cost") if section in changes}
    configs = [Config(**{**given, **more, "seed": seed}) for seed in (0, 1)]
    runs = train(tmp_path, configs, factory=factory)
    assert len(seen) == 3
    columns = [column for column in table(runs[0])[0] if column.endswith("/advantage")]
    for run in runs:
        for row in table(run):
            assert sum(float(row[column]) for column in columns) == pytest.approx(1.0, abs=1e-5)
    for given, shares in seen:
        expected = find_rest(*given)
        torch.testing.assert_close(shares[info_columns.BEYOND], expected, atol=1e-4, rtol=1e-3)
    assert max(float(each[1][info_columns.BEYOND].abs().max()) for each in seen) > 1e-3


def find_rest(plan: Any, learner: Any, rollout: Any, learned: torch.Tensor, hp: Any, names: Any, factors: Any = None) -> torch.Tensor:
    """What is learned from beside the terms, put together: rewards that no term tells, the critic, the terms' values, bonus and cost."""
    told = [k for k, name in enumerate(names) if name.startswith("term.")]
    own, counts = terms.split_advantages(plan, learner, rollout, hp, told, factors)
    said = rollout.said if factors is None else rollout.said * factors.unsqueeze(1)
    none = torch.zeros_like(rollout.reward)

    def estimate(reward: torch.Tensor, value: torch.Tensor, next_value: torch.Tensor) -> torch.Tensor:
        return plan.algo.advantages(plan.config, rollout, reward, value, next_value, hp)[0]

    unit = torch.full((len(learned), 1, 1), plan.env.train_reward_scale)
    reward = normalize.learned(rollout.reward, plan.env)
    if learner.reward_stats is not None:
        unit = unit * torch.rsqrt(learner.reward_stats.var + normalize.EPSILON).float().view(-1, 1, 1)
        reward = normalize.rewards(learner.reward_stats, reward, plan.env.clip_reward)
    untold = reward - unit * said[..., told].sum(-1)
    if rollout.paid is not None and rollout.paid.reward is not None:
        untold = untold + rollout.paid.reward
    of_values = own.sum(-1) - estimate(said[..., told].sum(-1), none, none)
    rest = estimate(untold, *on_policy.values(plan.policy, plan.policy.layout.views(learner.flat), rollout)) - unit * of_values
    if rollout.paid is not None and rollout.paid.advantage is not None:
        rest = rest + rollout.paid.advantage
    if rollout.weighed is not None:
        rest = rollout.weighed.apply(rest)
    counted = torch.ones_like(rollout.terminated) if counts is None else counts
    shares = []
    for part, whole, rows in zip(rest, learned.view_as(rest), counted, strict=True):
        part, whole = (each[rows].double() - each[rows].double().mean() for each in (part, whole))
        shares.append((part * whole.sign()).sum() / whole.abs().sum())
    return torch.stack(shares).float()


class Clockwork(Errand):
    """Ten steps, and nothing that is drawn: where a rollout ends with an episode, a resume begins as the run would have gone on."""

    def look(self) -> np.ndarray:
        self.seen = np.sin(np.arange(3, dtype=np.float32) + self.taken)
        return self.seen

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.taken >= 10, False, info


def test_parts_are_those_of_the_run_alone_and_of_one_that_never_stopped(tmp_path: Path) -> None:
    env = {"id": "Clockwork", "n_envs": 2, "log_terms": ("goal", "there"), "term_advantages": True, "normalize_reward": True}
    changes: dict[str, Any] = {"algo": {"n_steps": 20, "batch_size": 20}, "run": {"max_env_steps": 240, "checkpoint_every_env_steps": 40}}
    given = make_config("ppo", env, **changes, bonus={"kind": "rnd", "coef": 0.3}).model_dump()
    configs = [Config(**{**given, "seed": seed}) for seed in (1, 0)]
    together = train(tmp_path / "together", configs, factory=Clockwork)
    (alone,) = train(tmp_path / "alone", [configs[1]], factory=Clockwork)
    (stopped,) = Store(tmp_path / "stopped").create_group([configs[1]]).runs
    with pytest.raises(Interrupted):
        train_runs([stopped], factory=Clockwork, callback=interrupt_at(120))
    train_runs([Run(stopped.path)], factory=Clockwork, resume=True)
    drawn = ("train/sentinel/fingerprint_random",)  # Gymnasium's environments are seeded anew at a resume
    assert table(together[1], without=drawn) == table(alone, without=drawn) == table(stopped, without=drawn)
    assert all(row[info_columns.BEYOND] for row in table(alone))
