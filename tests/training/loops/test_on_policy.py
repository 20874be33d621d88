"""Collecting, assessing and learning: what a rollout holds, what is bootstrapped from, and who may still learn."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.training.data import rollouts
from rlclinic.training.loops import on_policy, on_policy_iteration
from rlclinic.training.maths import losses, normalize
from rlclinic.training.nets import mlp
from tests.training import tasks
from tests.training.cohorts import ALGOS, TASKS, Workshop, make_config, workshop


def shop(kind: str = "ppo", task: str = "discrete", members: int = 2, **changes: Any) -> Workshop:
    env, factory = TASKS[task]
    env = {**env, **changes.pop("env", {})}
    return workshop([make_config(kind, env, seed, **changes) for seed in range(members)], factory)


def learned(at: Workshop, whole: Any = None, active: Any = None, hp: Any = None) -> Any:
    return on_policy.learn(at.plan, at.learner, whole or at.whole(), hp or at.numbers(), active, at.seed, 0)


# ── collect ──


@pytest.mark.parametrize("task", TASKS)
def test_a_rollout_keeps_the_log_probability_of_each_action_under_the_policy_that_chose_it(task: str) -> None:
    at = shop(task=task)
    rollout = at.collect()
    policy = at.plan.policy
    assert rollout.obs.shape[:3] == (2, 16, 2)
    dist = mlp.actor(policy, policy.layout.views(at.learner.flat), rollouts.rows(rollout.net_obs))
    again = policy.distribution.log_prob(dist, rollouts.rows(rollout.action))
    torch.testing.assert_close(rollouts.rows(rollout.log_prob), again, rtol=1e-5, atol=1e-6)


def test_after_an_end_the_final_observation_and_the_next_first_one_are_kept_apart() -> None:
    at = shop(env={"max_episode_steps": 5})
    rollout = at.collect()
    end = rollout.end
    assert end.any()
    torch.testing.assert_close(rollout.following[:, :-1], rollout.obs[:, 1:], rtol=0, atol=0)
    same = (rollout.next_obs == rollout.following).all(-1)
    assert same[~end].all()
    assert not same[end].any()
    torch.testing.assert_close(at.position.obs, rollout.following[:, -1], rtol=0, atol=0)


def test_noise_goes_on_from_iteration_to_iteration_instead_of_repeating() -> None:
    at = shop(task="box")
    first, second = at.collect(0), at.collect(1)
    policy = at.plan.policy.distribution
    noise = [(each.action - policy.mode(each.dist)) / each.dist.chunk(2, -1)[1].exp() for each in (first, second)]
    assert not torch.isclose(noise[0], noise[1]).any()
    everything = torch.cat(noise, 1)
    assert everything.flatten().unique().numel() == everything.numel()
    straight = policy.noise(at.seed, torch.arange(32).view(1, -1, 1), torch.arange(2).view(1, 1, -1))
    torch.testing.assert_close(everything, straight, rtol=0, atol=1e-5)


def test_masked_actions_are_never_taken_and_the_masks_are_kept_with_their_rows() -> None:
    at = workshop([make_config(env={"id": "Slippery", "action_mask": True}, seed=seed) for seed in range(2)], tasks.Slippery)
    rollout = at.collect()
    assert at.env.failures == {}
    assert rollout.action_mask is not None
    assert rollout.action_mask.gather(-1, rollout.action.unsqueeze(-1)).all()
    assert (rollout.action_mask.sum(-1) == 2).all()
    assert not torch.equal(rollout.action_mask[:, 0], rollout.action_mask[:, 1])
    whole = on_policy.estimate_advantages(at.plan, at.learner, rollout, at.numbers())[0]
    _, readings, _ = learned(at, whole)
    assert readings["ratio_deviation"][0].max() < 1e-5  # the update masks as the rollout did


def test_networks_see_normalized_observations_and_the_rollout_keeps_the_raw_ones() -> None:
    at = shop(env={"normalize_obs": True})
    stats = normalize.Moments(torch.full((2, 1), 9.0).double(), torch.full((2, 4), 0.5).double(), torch.full((2, 4), 4.0).double())
    rollout = at.with_learner(obs_stats=stats).collect()
    torch.testing.assert_close(rollout.net_obs, (rollout.obs - 0.5) / 2)
    torch.testing.assert_close(rollout.net_next_obs, (rollout.next_obs - 0.5) / 2)
    assert rollout.obs.abs().max() < 5


# ── assess ──


def test_values_after_a_time_limit_are_those_of_the_final_observation() -> None:
    at = shop("a2c", env={"max_episode_steps": 3}, algo={"n_steps": 6})
    rollout, hp = at.collect(), at.numbers()
    whole, _ = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
    params = at.plan.policy.layout.views(at.learner.flat)
    final = mlp.critic(at.plan.policy, params, rollouts.rows(rollout.net_next_obs)).view(2, 6, 2)
    cut = rollout.truncated & ~rollout.terminated
    assert cut.any()
    expected = rollout.reward + 0.99 * final
    torch.testing.assert_close(whole.returns.view(2, 6, 2)[cut], expected[cut])


def test_rewards_are_scaled_for_learning_and_reported_raw() -> None:
    at = shop("a2c", env={"normalize_reward": True})
    stats = normalize.Moments(torch.ones(2, 1).double(), torch.zeros(2, 1).double(), torch.tensor([[4.0], [100.0]]).double())
    at = at.with_learner(reward_stats=stats)
    rollout = at.collect()
    _, raw = on_policy.estimate_advantages(at.plan, at.learner, rollout, at.numbers())
    assert (rollout.reward == 1.0).all()
    torch.testing.assert_close(raw.reward, torch.tensor([[0.5], [0.1]]).expand(2, 10))


@pytest.mark.parametrize(
    ("setting", "batch_size", "scaled"), [("rollout", 16, True), ("off", 16, False), ("batch", 16, False), ("batch", 1.0, True)]
)
def test_advantages_are_scaled_over_the_rollout_only_where_the_config_says_so(setting: str, batch_size: float, scaled: bool) -> None:
    at = shop(algo={"normalize_advantage": setting, "batch_size": batch_size})
    whole, raw = on_policy.estimate_advantages(at.plan, at.learner, at.collect(), at.numbers())
    torch.testing.assert_close(whole.advantage, normalize.standardize(raw.advantage) if scaled else raw.advantage)


def test_each_minibatch_is_scaled_by_itself_where_the_config_says_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    at = shop()
    seen: list[Any] = []
    original = on_policy.update_step

    def watched(*inputs: Any) -> Any:
        seen.append(inputs[3])
        return original(*inputs)

    monkeypatch.setattr(on_policy, "update_step", watched)
    learned(at)
    assert len(seen) == 4
    for batch in seen:
        torch.testing.assert_close(batch.advantage.mean(1), torch.zeros(2), rtol=0, atol=1e-6)
        torch.testing.assert_close(batch.advantage.std(1), torch.ones(2))


def test_reinforce_without_a_baseline_learns_only_from_episodes_that_ended() -> None:
    at = shop("reinforce without baseline", env={"max_episode_steps": 10})
    rollout = at.collect()
    whole, _ = on_policy.estimate_advantages(at.plan, at.learner, rollout, at.numbers())
    assert whole.weight is not None
    after_the_last_end = rollout.end.flip(1).cumsum(1).flip(1) == 0
    assert after_the_last_end.any()
    assert torch.equal(whole.weight.view(2, 24, 2) == 0, after_the_last_end)
    moved = whole._replace(advantage=whole.advantage + 1e3 * (1 - whole.weight))
    assert torch.equal(learned(at, whole)[0].flat, learned(at, moved)[0].flat)


# ── learn ──


def test_the_first_ratio_is_one_and_every_member_takes_all_of_its_steps() -> None:
    at = shop()
    after, readings, last_minibatch = learned(at)
    assert readings["ratio_deviation"][0].max() < 1e-5
    assert readings["applied"].tolist() == [[1.0, 1.0]] * 4
    assert readings["start"].tolist() == [[1.0, 1.0]] + [[0.0, 0.0]] * 3
    assert readings["epoch"][:, 0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert after.optimizer.steps.tolist() == [[4.0], [4.0]]
    assert last_minibatch is not None


@pytest.mark.parametrize("algo", ALGOS)
def test_a_members_numbers_do_not_reach_its_neighbours(algo: str) -> None:
    """As many members as minibatch rows: a bare [M] against [M, 1] would broadcast to [M, M] here and mix them silently."""
    rates = [1e-3, 1e-2, 5e-2, 2e-1]
    size = {"n_envs": 2, "id": "CartPole-v1"}
    extra = {"n_steps": 2, "batch_size": 4, "clip_range_vf": 0.2, "target_kl": 0.5} if algo in ("ppo", "appo") else {"n_steps": 2}
    configs = [
        make_config(
            algo, size, seed, algo={**extra, "learning_rate": lr, "gamma": 0.9 + 0.02 * seed, "ent_coef": 0.1 * seed, "vf_coef": 0.5 + seed}
        )
        for seed, lr in enumerate(rates)
    ]
    at = workshop(configs)
    together, readings, _ = learned(at)
    for index, config in enumerate(configs):
        alone, own, _ = learned(workshop([config]))
        assert torch.equal(together.flat[index : index + 1], alone.flat)
        for name, values in own.items():
            assert torch.equal(readings[name][: len(values), index : index + 1], values), name


def test_target_kl_stops_each_member_by_its_own_bound_and_takes_no_further_step() -> None:
    configs = [make_config(seed=0, algo={"n_epochs": 4, "learning_rate": 0.05, "target_kl": bound}) for bound in (1e-4, 1e9)]
    at = workshop(configs)
    after, readings, last_minibatch = learned(at)
    applied = readings["applied"]
    assert applied[:, 1].tolist() == [1.0] * 8
    stopped = int(applied[:, 0].sum())
    assert 0 < stopped < 8
    assert applied[:, 0].tolist() == [1.0] * stopped + [0.0] * (8 - stopped)
    assert (readings["kl"][:stopped, 0] <= 1.5e-4).all()
    assert readings["kl"][stopped, 0] > 1.5e-4
    assert after.optimizer.steps.tolist() == [[float(stopped)], [8.0]]
    # Alone it is done after the refused step, with the same weights and the same last words.
    lone = workshop(configs[:1])
    alone, own, last = learned(lone)
    assert len(own["applied"]) == stopped + 1
    assert torch.equal(alone.flat, after.flat[:1])
    assert last_minibatch is not None
    assert last is not None
    assert torch.equal(last_minibatch.advantage[:1], last.advantage)
    assert torch.equal(last_minibatch.log_ratio[:1], last.log_ratio)
    assert on_policy_iteration.last_tried(readings, "kl").tolist() == [readings["kl"][stopped, 0].item(), readings["kl"][-1, 1].item()]
    assert torch.equal(on_policy_iteration.last_tried(own, "kl"), on_policy_iteration.last_tried(readings, "kl")[:1])


def test_a_frozen_member_keeps_weights_and_moments() -> None:
    at = shop()
    after, readings, _ = learned(at, active=torch.tensor([[True], [False]]))
    assert not torch.equal(after.flat[0], at.learner.flat[0])
    assert torch.equal(after.flat[1], at.learner.flat[1])
    assert after.optimizer.steps.tolist() == [[4.0], [0.0]]
    assert readings["applied"][:, 1].sum() == 0
    assert torch.equal(after.flat[0], learned(shop())[0].flat[0])


def test_the_gradient_is_clipped_to_each_members_bound_and_its_length_is_read_before() -> None:
    configs = [
        make_config(seed=0, algo={"optimizer": "sgd", "learning_rate": 1.0, "n_epochs": 1, "batch_size": 1.0, "max_grad_norm": bound})
        for bound in (1e-3, 1e9)
    ]
    at = workshop(configs)
    after, readings, _ = learned(at)
    length = (after.flat - at.learner.flat).norm(dim=1)
    norm = readings["grad_norm/all"][0]
    torch.testing.assert_close(norm[0], norm[1])
    assert length[0].item() == pytest.approx(1e-3, rel=1e-2)
    assert length[1].item() == pytest.approx(norm[1].item(), rel=1e-3)
    assert readings["grad_clipped"][0].tolist() == [1.0, 0.0]


def test_gradient_norms_are_split_into_trunk_and_heads() -> None:
    at = shop(algo={"n_epochs": 1, "batch_size": 1.0})
    whole, hp, policy = at.whole(), at.numbers(), at.plan.policy
    _, readings, _ = learned(at, whole)
    leaf = at.learner.flat.clone().requires_grad_()
    loss, _ = at.plan.algo.loss(at.config.algo, policy, policy.layout.views(leaf), whole, hp)
    (grad,) = torch.autograd.grad(loss.sum(), leaf)
    spans = {
        "trunk": ("actor", "critic"),
        "actor_head": ("policy",),
        "critic_head": ("value",),
        "all": ("actor", "critic", "policy", "value"),
    }
    for part, owners in spans.items():
        columns = [range(*policy.layout.span(name)) for name in policy.layout.shapes if name.split(".")[0] in owners]
        chosen = grad[:, [column for span in columns for column in span]]
        torch.testing.assert_close(readings[f"grad_norm/{part}"][0], chosen.norm(dim=1))


def test_value_lr_moves_the_critic_alone() -> None:
    quick, slow = (
        shop(members=1, algo={"optimizer": "sgd", "value_lr": rate, "max_grad_norm": 1e9, "n_epochs": 1, "batch_size": 1.0})
        for rate in (0.1, 1e-9)
    )
    layout = quick.plan.policy.layout
    fast, still = (layout.views(learned(at)[0].flat) for at in (quick, slow))
    start = layout.views(quick.learner.flat)
    for name in layout.shapes:
        if name.startswith(("critic.", "value.")):
            assert not torch.equal(fast[name], start[name])
            torch.testing.assert_close(still[name], start[name], rtol=0, atol=1e-6)
        else:
            assert torch.equal(fast[name], still[name])
            assert not torch.equal(fast[name], start[name])


# ── renormalize ──


def test_normalizers_cover_what_the_iteration_saw_and_frozen_members_keep_theirs() -> None:
    at = shop(env={"normalize_obs": True, "normalize_reward": True, "max_episode_steps": 7})
    rollout, hp = at.collect(), at.numbers()
    after = on_policy.update_normalizers(at.plan, at.learner, rollout, hp, torch.tensor([[True], [False]]))
    assert after.obs_stats is not None
    assert after.reward_stats is not None
    rows = rollouts.rows(rollout.obs)[0].double().numpy()
    np.testing.assert_allclose(after.obs_stats.mean[0].numpy(), rows.mean(0))
    np.testing.assert_allclose(after.obs_stats.var[0].numpy(), rows.var(0))
    assert after.obs_stats.count.tolist() == [[32.0], [0.0]]
    sums, carry = normalize.discounted_returns(rollout.reward, rollout.end, torch.zeros(2, 2), hp.gamma)
    assert after.reward_stats.var[0].item() == pytest.approx(sums[0].double().var(correction=0).item())
    assert after.reward_carry is not None
    assert torch.equal(after.reward_carry, carry)
    assert torch.equal(after.flat, at.learner.flat)


def test_rows_in_which_a_vector_env_only_reset_teach_nothing_and_count_nowhere() -> None:
    configs = [make_config(env={"id": "Resetting", "normalize_obs": True, "normalize_reward": True}, seed=seed) for seed in range(2)]
    at = workshop(configs, tasks.Resetting)
    rollout = at.collect()
    assert rollout.valid is not None
    assert (~rollout.valid).any()
    hp = at.numbers()
    whole, _ = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
    assert whole.weight is not None
    assert torch.equal(whole.weight.bool(), rollouts.rows(rollout.valid))
    # Whatever stands in those rows, the weights after the update are the same.
    idle = whole.weight == 0
    noise = torch.where(idle, 50.0, 0.0)
    moved = whole._replace(advantage=whole.advantage + noise, returns=whole.returns + noise, value=whole.value - noise)
    assert torch.equal(learned(at, whole)[0].flat, learned(at, moved)[0].flat)
    # And so are the readings, though the old policy's log-probabilities of those rows are far from the new one's.
    odd_ratio = whole._replace(log_prob=torch.where(idle, whole.log_prob + 3.0, whole.log_prob))
    readings, others = learned(at, whole)[1], learned(at, odd_ratio)[1]
    for name in ("kl", "clip_fraction", "ratio_deviation", "entropy", "policy", "value"):
        assert torch.equal(readings[name], others[name]), name
    assert float(readings["kl"].max()) > 0
    everyone = torch.ones(2, 1, dtype=torch.bool)
    stats = on_policy.update_normalizers(at.plan, at.learner, rollout, hp, everyone).obs_stats
    odd = replace(rollout, obs=torch.where(rollout.valid.unsqueeze(-1), rollout.obs, 99.0))
    again = on_policy.update_normalizers(at.plan, at.learner, odd, hp, everyone).obs_stats
    assert stats is not None
    assert again is not None
    assert torch.equal(stats.mean, again.mean)
    assert stats.count.flatten().tolist() == rollout.valid.sum((1, 2)).tolist()


def test_rows_that_count_nowhere_do_not_stop_an_update_either() -> None:
    at = workshop([make_config(env={"id": "Resetting"}, algo={"target_kl": 0.1})], tasks.Resetting)
    whole = at.whole()
    assert whole.weight is not None
    far = whole._replace(log_prob=torch.where(whole.weight == 0, whole.log_prob + 5.0, whole.log_prob))
    readings = learned(at, far)[1]
    assert readings["applied"].all()
    stopped = learned(at, far._replace(weight=None))[1]
    assert not stopped["applied"].any()


def test_the_readings_are_the_losses_of_each_minibatch() -> None:
    at = shop(algo={"n_epochs": 1, "batch_size": 1.0, "ent_coef": 0.1, "vf_coef": 0.7})
    whole = at.whole()
    _, readings, _ = learned(at, whole)
    policy = at.plan.policy
    dist, value = mlp.actor_critic(policy, policy.layout.views(at.learner.flat), whole.obs)
    entropy, error = policy.distribution.entropy(dist).mean(1), losses.value_error(value, whole.returns).squeeze(1)
    gain = -whole.advantage.mean(1)  # all ratios are one
    torch.testing.assert_close(readings["entropy"][0], -entropy)
    torch.testing.assert_close(readings["value"][0], error)
    torch.testing.assert_close(readings["policy"][0], gain, rtol=0, atol=1e-5)
    torch.testing.assert_close(readings["total"][0], gain + 0.7 * error - 0.1 * entropy, rtol=1e-5, atol=1e-5)
