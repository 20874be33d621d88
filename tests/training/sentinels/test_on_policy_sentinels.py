"""Sentinels: each one against a slow reference, or on a case that was built so that its answer is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlclinic.training.data.episodes import Episodes
from rlclinic.training.data.rollouts import rows
from rlclinic.training.loops import on_policy
from rlclinic.training.maths import losses, normalize
from rlclinic.training.nets import mlp
from rlclinic.training.sentinels import gradients, on_policy_sentinels
from rlclinic.training.sentinels.on_policy_sentinels import PREFIX, Seen
from tests.training import tasks
from tests.training.cohorts import ALGOS, TASKS, Workshop, make_config, workshop

MEMBERS = 2
# What has no meaning where: bounds and deviations of a box, ratios of an algorithm without one, trunks that are not shared.
BOX_ONLY = {"action_at_bound", "action_std_min", "action_std_max"}
DISCRETE_ONLY = {"action_top_share"}
RATIO_ONLY = {"ratio_first_dev"}
SHARED_ONLY = {"grad_cosine"}
EQUAL_ROWS_ONLY = {"grad_signal", "grad_noise"}
"""Halves of a batch are two estimates of one gradient only where every row counts the same."""


def shop(kind: str = "ppo", task: str = "discrete", **changes: Any) -> Workshop:
    env, factory = TASKS[task]
    env = {**env, **changes.pop("env", {})}
    return workshop([make_config(kind, env, seed, **changes) for seed in range(MEMBERS)], factory)


def lived(at: Workshop) -> Seen:
    """One iteration, as the trainer shows it."""
    rollout, hp = at.collect(), at.numbers()
    whole, raw = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
    after, readings, last_minibatch = on_policy.learn(at.plan, at.learner, whole, hp, None, at.seed, 0)
    elapsed = Episodes(len(at.members), at.env.n_envs).add(rollout)
    return Seen(at.learner, after, rollout, whole, raw, readings, last_minibatch, elapsed)


def cheap(at: Workshop, seen: Seen) -> dict[str, Tensor]:
    found = on_policy_sentinels.every_row(at.plan, seen, at.env)
    return {name.removeprefix(PREFIX): value for name, value in found.items() if name.startswith(PREFIX)}


def costly(at: Workshop, seen: Seen) -> dict[str, Tensor]:
    found = on_policy_sentinels.now_and_then(at.plan, seen, at.numbers()) | on_policy_sentinels.target_errors(seen, at.numbers())
    return {name.removeprefix(PREFIX): value for name, value in found.items()}


# ── which there are ──


@pytest.mark.parametrize("kind", ALGOS)
@pytest.mark.parametrize("task", ["discrete", "box", "multi_binary"])
def test_every_column_is_filled_unless_it_does_not_apply(kind: str, task: str) -> None:
    at = shop(kind, task)
    seen = lived(at)
    frequent, rare = cheap(at, seen), costly(at, seen)
    for value in (frequent | rare).values():
        assert value.shape == (MEMBERS,)
    absent = set(SHARED_ONLY)
    absent |= DISCRETE_ONLY if task != "discrete" else set()
    absent |= BOX_ONLY if task != "box" else set()
    absent |= RATIO_ONLY if kind not in ("ppo", "appo") else set()
    absent |= EQUAL_ROWS_ONLY if seen.whole.weight is not None else set()
    assert set(frequent | rare) == set(on_policy_sentinels.EVERY_ROW + on_policy_sentinels.NOW_AND_THEN) - absent
    assert set(frequent) <= set(on_policy_sentinels.EVERY_ROW)


def test_a_members_sentinels_are_those_that_it_has_alone() -> None:
    at = shop(env={"max_episode_steps": 6})
    seen = lived(at)
    together = cheap(at, seen) | costly(at, seen)
    for seed in range(MEMBERS):
        alone = workshop([make_config(env={"max_episode_steps": 6}, seed=seed)])
        own = lived(alone)
        found = cheap(alone, own) | costly(alone, own)
        for name, value in together.items():
            torch.testing.assert_close(
                value[seed : seed + 1], found[name], equal_nan=True, msg=f"{name}: {value[seed]} together, {found[name]} alone"
            )


# ── statistics ──


def test_explained_variance_is_one_for_a_perfect_critic_zero_for_a_constant_one_and_negative_for_a_worse_one() -> None:
    target = torch.tensor([[1.0, 2.0, 3.0, 6.0]] * 4)
    value = torch.stack([target[0], torch.full((4,), 3.0), -target[0], target[0] + 10.0])
    assert on_policy_sentinels.explained_variance(value, target).tolist() == pytest.approx([1.0, 0.0, -3.0, 1.0])


def test_explained_variance_means_nothing_where_the_target_does_not_vary() -> None:
    target = torch.tensor([[100.0, 100.0, 100.0, 100.0], [100.0, 100.0, 100.0, 101.0]])
    found = on_policy_sentinels.explained_variance(torch.randn(2, 4, generator=torch.Generator().manual_seed(0)), target)
    assert found.isnan().tolist() == [True, False]


def test_correlation_is_numpys_with_its_sign_and_zero_where_nothing_varies() -> None:
    generator = torch.Generator().manual_seed(0)
    x, noise = torch.randn(4, 50, generator=generator), torch.randn(4, 50, generator=generator)
    y = torch.stack([x[0], -x[1], x[2] + noise[2], torch.zeros(50)])
    found = on_policy_sentinels.correlation(x, y)
    assert found[0].item() == pytest.approx(1.0)
    assert found[1].item() == pytest.approx(-1.0)
    assert found[2].item() == pytest.approx(np.corrcoef(x[2], y[2])[0, 1], abs=1e-5)
    assert found[3].item() == 0.0


def test_the_effective_sample_is_whole_when_nothing_moved_and_shrinks_to_the_rows_that_carry_the_weight() -> None:
    log_ratio = torch.zeros(3, 4)
    log_ratio[1] = torch.tensor([0.0, 0.0, -50.0, -50.0])
    log_ratio[2] = torch.tensor([0.1, -0.2, 0.3, 0.0])
    weight = log_ratio[2].exp()
    slow = (weight.sum() ** 2 / (weight**2).sum() / 4).item()
    assert on_policy_sentinels.effective_sample_size(log_ratio).tolist() == pytest.approx([1.0, 0.5, slow])


def test_scales_of_targets_and_rewards_are_those_of_numpy() -> None:
    at = shop(env={"normalize_reward": True})
    seen = lived(at)
    reward = torch.randn(seen.rollout.reward.shape, generator=torch.Generator().manual_seed(0))
    reward[:, :3] = 0.0
    seen = seen._replace(rollout=replace(seen.rollout, reward=reward), raw=seen.raw._replace(reward=rows(reward) * 7.0))
    found = cheap(at, seen)
    flat = rows(reward).numpy()
    for name, values in {
        "adv": seen.raw.advantage,
        "return": seen.whole.returns,
        "value": seen.whole.value,
        "reward": rows(reward),
    }.items():
        np.testing.assert_allclose(found[f"{name}_mean"], values.numpy().mean(1), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[f"{name}_std"], values.numpy().std(1, ddof=1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["reward_trained_std"], 7.0 * flat.std(1, ddof=1), rtol=1e-4)
    np.testing.assert_array_equal(found["reward_min"], flat.min(1))
    np.testing.assert_array_equal(found["reward_max"], flat.max(1))
    np.testing.assert_allclose(found["reward_nonzero"], (flat != 0).mean(1))
    size = np.sort(seen.whole.returns.abs().numpy(), axis=1)
    np.testing.assert_array_equal(found["return_abs_p95"], size[:, int(0.95 * size.shape[1]) - 1])


# ── the update ──


def test_the_first_ratio_deviates_only_when_the_stored_log_probability_is_not_the_policys_own() -> None:
    at = shop()
    whole = at.whole()
    for shift, expected in ((0.0, 0.0), (0.5, np.exp(-0.5) - 1)):
        stale = whole._replace(log_prob=whole.log_prob + shift)
        _, readings, last_minibatch = on_policy.learn(at.plan, at.learner, stale, at.numbers(), None, at.seed, 0)
        seen = lived(at)._replace(readings=readings, last_minibatch=last_minibatch)
        assert cheap(at, seen)["ratio_first_dev"].tolist() == pytest.approx([abs(expected)] * 2, abs=1e-5)


def test_a_healthy_update_makes_good_actions_likelier_and_a_turned_sign_shows() -> None:
    at = shop(algo={"learning_rate": 0.02, "n_epochs": 6, "batch_size": 1.0})
    whole, hp = at.whole(), at.numbers()
    for sign in (1.0, -1.0):
        turned = whole._replace(advantage=sign * whole.advantage)
        after, readings, last_minibatch = on_policy.learn(at.plan, at.learner, turned, hp, None, at.seed, 0)
        assert last_minibatch is not None
        # Diagnosis sees the advantages as they are, whatever the loss made of them.
        seen = lived(at)._replace(
            after=after, readings=readings, last_minibatch=last_minibatch._replace(advantage=sign * last_minibatch.advantage)
        )
        assert (sign * cheap(at, seen)["adv_logp_corr"] > 0.1).all()


def test_update_ratios_compare_each_matrix_with_how_far_it_moved() -> None:
    at = shop()
    seen = lived(at)
    layout = at.plan.policy.layout
    matrices = [name for name in layout.shapes if name.endswith("weight")]
    moved = seen.before.flat.clone()
    factors = dict(zip(matrices, (1e-3, 0.5, 2e-3, 1e-2), strict=True))
    for name, factor in factors.items():
        first, last = layout.span(name)
        moved[:, first:last] *= 1 + factor
    moved[:, slice(*layout.span("actor.0.bias"))] = 100.0  # biases start at zero: no ratio
    found = cheap(at, seen._replace(after=replace(seen.after, flat=moved)))
    assert found["update_ratio_min"].tolist() == pytest.approx([1e-3] * 2, rel=1e-3)
    assert found["update_ratio_max"].tolist() == pytest.approx([0.5] * 2, rel=1e-3)
    assert found["update_ratio_worst"].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(found["weight_norm"], seen.before.flat.norm(dim=1), rtol=1e-5)


def test_steps_taken_are_counted_and_the_epoch_of_an_early_stop_is_told() -> None:
    at = shop(algo={"n_epochs": 3})
    seen = lived(at)
    assert cheap(at, seen)["updates"].tolist() == [6.0, 6.0]
    assert cheap(at, seen)["early_stop_epoch"].isnan().all()
    assert cheap(at, seen)["optimizer_steps"].tolist() == [6.0, 6.0]
    applied = torch.ones(6, 2)
    applied[3:, 1] = 0.0  # the second member stopped in its second epoch
    found = cheap(at, seen._replace(readings={**seen.readings, "applied": applied}))
    assert found["updates"].tolist() == [6.0, 3.0]
    assert found["early_stop_epoch"].isnan().tolist() == [True, False]
    assert found["early_stop_epoch"][1].item() == 1.0


def test_relative_entropy_is_one_for_a_uniform_policy() -> None:
    at = shop()
    found = cheap(at, lived(at))["entropy_relative"]
    assert found.tolist() == pytest.approx([1.0, 1.0], abs=1e-3)
    layout = at.plan.policy.layout
    sure = at.learner.flat.clone()
    sure[:, layout.span("policy.bias")[0]] = 50.0
    certain = at.with_learner(flat=sure)
    assert cheap(certain, lived(certain))["entropy_relative"].tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


# ── observations ──


def test_the_scale_of_observations_is_told_with_the_component_that_is_worst() -> None:
    at = shop()
    seen = lived(at)
    shown = torch.randn(MEMBERS, 32, 4, generator=torch.Generator().manual_seed(0))
    shown[0, 7, 2], shown[1, :, 3] = -250.0, 0.25
    found = cheap(at, seen._replace(whole=seen.whole._replace(obs=shown)))
    assert found["obs_abs_max"][0].item() == 250.0
    assert found["obs_abs_worst"][0].item() == 2.0
    assert found["obs_std_min"][1].item() == 0.0
    assert found["obs_std_worst"][1].item() == 3.0
    np.testing.assert_allclose(found["obs_mean_abs_max"], np.abs(shown.numpy().mean(1)).max(1), rtol=1e-5)


def test_observations_outside_the_declared_bounds_are_counted_by_component() -> None:
    at = shop("ppo", "box")
    seen = lived(at)
    assert cheap(at, seen)["obs_out_of_bounds"].tolist() == [0.0, 0.0]
    odd = seen.rollout.obs.clone()
    odd[1, 3, 0, 2] = 8.5  # the velocity is at most 8
    found = cheap(at, seen._replace(rollout=replace(seen.rollout, obs=odd, net_obs=odd), whole=seen.whole._replace(obs=rows(odd))))
    assert found["obs_out_of_bounds"].tolist() == pytest.approx([0.0, 1 / 3])


def test_bounds_hold_for_the_raw_observation_where_the_network_sees_a_normalized_one() -> None:
    at = shop("ppo", "box", env={"normalize_obs": True})
    stats = normalize.Moments(torch.ones(2, 1).double(), torch.zeros(2, 3).double(), torch.full((2, 3), 1e-4).double())
    shifted = at.with_learner(obs_stats=stats)
    seen = lived(shifted)
    assert seen.whole.obs.abs().max() > 8
    assert cheap(shifted, seen)["obs_out_of_bounds"].tolist() == [0.0, 0.0]


def test_an_observation_that_the_action_does_not_change_shows() -> None:
    at = shop()
    seen = lived(at)
    assert cheap(at, seen)["obs_repeat"].tolist() == [0.0, 0.0]
    stuck = seen.rollout.next_obs.clone()
    stuck[1, :4] = seen.rollout.obs[1, :4]
    assert cheap(at, seen._replace(rollout=replace(seen.rollout, next_obs=stuck)))["obs_repeat"].tolist() == [0.0, 0.25]


# ── actions and ends ──


def test_actions_at_the_bounds_of_their_box_and_their_deviation_are_told() -> None:
    at = shop("ppo", "box", net={"log_std_init": -1.0})
    seen = lived(at)
    action = torch.zeros_like(seen.rollout.action)
    action[0, :4], action[0, 4:8] = 2.0, -7.0
    found = cheap(at, seen._replace(rollout=replace(seen.rollout, action=action)))
    assert found["action_at_bound"].tolist() == [0.5, 0.0]
    assert found["action_std_min"].tolist() == pytest.approx([np.exp(-1)] * 2)
    assert found["action_std_max"].tolist() == pytest.approx([np.exp(-1)] * 2)


def test_the_share_of_the_commonest_action_is_told() -> None:
    at = shop()
    seen = lived(at)
    action = torch.zeros_like(seen.rollout.action)
    action[1, :4] = 1
    assert cheap(at, seen._replace(rollout=replace(seen.rollout, action=action)))["action_top_share"].tolist() == [1.0, 0.75]


def test_ends_are_counted_by_kind_and_both_at_once_is_a_termination() -> None:
    at = shop()
    seen = lived(at)
    terminated, truncated = (torch.zeros(MEMBERS, 16, 2, dtype=torch.bool) for _ in range(2))
    terminated[0, 3], truncated[0, 3, 0], truncated[0, 9, 1], truncated[1, 15] = True, True, True, True
    found = cheap(at, seen._replace(rollout=replace(seen.rollout, terminated=terminated, truncated=truncated)))
    assert found["terminated"].tolist() == [2.0, 0.0]
    assert found["truncated"].tolist() == [1.0, 2.0]


def test_a_final_observation_that_was_overwritten_by_the_reset_shows() -> None:
    at = shop(env={"max_episode_steps": 5})
    seen = lived(at)
    assert seen.rollout.end.any()
    assert cheap(at, seen)["next_obs_is_reset"].tolist() == [0.0, 0.0]
    overwritten = torch.where(seen.rollout.end.unsqueeze(-1), seen.rollout.following, seen.rollout.next_obs)
    overwritten[1] = seen.rollout.next_obs[1]
    assert cheap(at, seen._replace(rollout=replace(seen.rollout, next_obs=overwritten)))["next_obs_is_reset"].tolist() == [1.0, 0.0]
    endless = replace(seen.rollout, terminated=torch.zeros_like(seen.rollout.end), truncated=torch.zeros_like(seen.rollout.end))
    assert cheap(at, seen._replace(rollout=endless))["next_obs_is_reset"].isnan().all()


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_the_mass_of_bootstrapped_targets_is_their_share_in_units_of_the_trained_reward(scale: float) -> None:
    at = shop("a2c", env={"max_episode_steps": 5, "normalize_reward": True})
    stats = normalize.Moments(torch.ones(2, 1).double(), torch.zeros(2, 1).double(), torch.full((2, 1), scale**2).double())
    at = at.with_learner(reward_stats=stats)
    seen = lived(at)
    cut = rows(seen.rollout.truncated & ~seen.rollout.terminated)
    assert cut.any()
    future = 0.99 * mlp.critic(at.plan.policy, at.plan.policy.layout.views(at.learner.flat), rows(seen.rollout.net_next_obs))
    slow = (future.abs() * cut).sum(1) / seen.whole.returns.abs().sum(1)
    torch.testing.assert_close(cheap(at, seen)["bootstrap_mass"], slow, rtol=1e-4, atol=1e-6)


# ── the costly ones ──


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_by_loss_term_are_those_of_each_member_and_term_alone(shared: bool) -> None:
    at = shop(net={"shared": shared}, algo={"ent_coef": 0.3, "vf_coef": 0.7})
    seen = lived(at)
    found, policy, whole = costly(at, seen), at.plan.policy, seen.whole
    trunk = policy.parts[0]
    for m in range(MEMBERS):
        leaf = seen.after.flat[m : m + 1].clone().requires_grad_()
        obs, action = whole.obs[m : m + 1], whole.action[m : m + 1]
        dist, value = mlp.actor_critic(policy, policy.layout.views(leaf), obs)
        terms = (
            -(normalize.standardize(whole.advantage[m : m + 1]) * policy.distribution.log_prob(dist, action)).mean(),
            0.7 * losses.value_error(value, whole.returns[m : m + 1]).sum(),
            -0.3 * policy.distribution.entropy(dist).mean(),
        )
        pulls = [torch.autograd.grad(term, leaf, retain_graph=True)[0][0, :trunk] for term in terms]
        norms = [pull.norm().item() for pull in pulls]
        assert found["grad_value_share"][m].item() == pytest.approx(norms[1] / sum(norms), rel=1e-3)
        assert found["grad_entropy_share"][m].item() == pytest.approx(norms[2] / sum(norms), rel=1e-3)
        if shared:
            cosine = torch.nn.functional.cosine_similarity(pulls[0], pulls[1], dim=0).item()
            assert found["grad_cosine"][m].item() == pytest.approx(cosine, abs=1e-3)


@pytest.mark.parametrize("shared", [True, False])
def test_signal_and_noise_of_the_gradient_are_those_of_two_halves(shared: bool) -> None:
    at = shop(net={"shared": shared})
    seen = lived(at)
    found, policy, whole = costly(at, seen), at.plan.policy, seen.whole
    count, own = whole.log_prob.shape[1], policy.parts[0] if shared else policy.trunk_widths[0]
    assert count <= on_policy_sentinels.PROBE_ROWS
    for m in range(MEMBERS):
        leaf = seen.after.flat[m : m + 1].clone().requires_grad_()
        dist, _ = mlp.actor_critic(policy, policy.layout.views(leaf), whole.obs[m : m + 1])
        term = -normalize.standardize(whole.advantage[m : m + 1]) * policy.distribution.log_prob(dist, whole.action[m : m + 1])
        parts = (term[0, : count // 2].mean(), term[0, count // 2 :].mean())
        early, late = (torch.autograd.grad(part, leaf, retain_graph=True)[0][0, :own] for part in parts)
        assert found["grad_signal"][m].item() == pytest.approx((early @ late).item(), rel=1e-3, abs=1e-7)
        noise = (early - late).square().sum().item() * count / 4
        assert found["grad_noise"][m].item() == pytest.approx(noise, rel=1e-3)


def test_the_noise_scale_of_known_gradients_comes_out_of_many_readings() -> None:
    # Rows of variance 4 in each of 10 directions around a gradient of length 1: half noise at 40 rows.
    torch.manual_seed(0)
    signals, noises = [], []
    for _ in range(400):
        rows = torch.zeros(1, 128, 10)
        rows[..., 0] = 1.0
        rows = rows + 2.0 * torch.randn(1, 128, 10)
        found = gradients.noise(rows[:, :64].mean(1), rows.mean(1), 64, 128)
        signals.append(found["grad_signal"].item())
        noises.append(found["grad_noise"].item())
    assert sum(noises) / sum(signals) == pytest.approx(40, rel=0.1)


def with_trunk(at: Workshop, **values: float) -> Workshop:
    """The same cohort with chosen bias columns of the actor's first layer."""
    flat = at.learner.flat.clone()
    first, _ = at.plan.policy.layout.span("actor.0.bias")
    for unit, value in values.items():
        flat[0, first + int(unit.removeprefix("unit"))] = value
    return at.with_learner(flat=flat)


def frozen(at: Workshop) -> Seen:
    """An iteration that left the weights as they were."""
    seen = lived(at)
    return seen._replace(after=seen.before)


def test_dormant_units_are_those_that_hardly_ever_answer() -> None:
    at = with_trunk(shop(net={"activation": "relu"}), unit1=-1e3, unit5=-1e3)
    usual = shop(net={"activation": "relu"})
    healthy, found = costly(usual, frozen(usual)), costly(at, frozen(at))
    assert healthy["dormant_actor"][0].item() == 0.0
    assert found["dormant_actor"].tolist() == [0.25, healthy["dormant_actor"][1].item()]
    assert found["dormant_critic"].tolist() == healthy["dormant_critic"].tolist()


def test_saturated_units_are_those_at_the_flat_end_of_a_bounded_activation() -> None:
    at = with_trunk(shop(), unit0=50.0, unit7=-50.0)
    assert costly(at, frozen(at))["saturated_actor"].tolist() == pytest.approx([0.25, 0.0])
    boundless = shop(net={"activation": "relu"})
    assert "saturated_actor" not in costly(boundless, frozen(boundless))


def test_the_rank_of_features_is_the_participation_ratio_of_their_covariance() -> None:
    at = shop()
    seen = frozen(at)
    found, policy = costly(at, seen), at.plan.policy
    params = policy.layout.views(seen.after.flat)
    for name in ("actor", "critic"):
        features = mlp.hidden(policy, params, name, seen.whole.obs)[-1].double().numpy()
        for m in range(MEMBERS):
            spectrum = np.linalg.eigvalsh(np.cov(features[m].T))
            assert found[f"rank_{name}"][m].item() == pytest.approx(spectrum.sum() ** 2 / (spectrum**2).sum(), rel=1e-3)
            assert found[f"activation_norm_{name}"][m].item() == pytest.approx(np.linalg.norm(features[m], axis=1).mean(), rel=1e-4)


def test_the_exact_divergence_is_zero_without_an_update_and_that_of_both_policies_after_one() -> None:
    at = shop(algo={"learning_rate": 0.05})
    seen = lived(at)
    assert costly(at, seen._replace(after=seen.before))["kl_exact"].tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    policy = at.plan.policy
    dist = mlp.actor(policy, policy.layout.views(seen.after.flat), seen.whole.obs)
    old, new = (torch.distributions.Categorical(logits=logits) for logits in (rows(seen.rollout.dist), dist))
    expected = torch.distributions.kl_divergence(old, new).mean(1)
    assert (expected > 1e-4).all()
    torch.testing.assert_close(costly(at, seen)["kl_exact"], expected, rtol=1e-3, atol=1e-6)


def test_explained_variance_is_told_after_the_update_and_by_the_age_of_the_episode() -> None:
    at = shop()
    seen = lived(at)
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(MEMBERS, 32, generator=generator)
    elapsed = torch.arange(16.0).view(1, 16, 1).expand(MEMBERS, 16, 2)
    late = rows(elapsed) > 7
    # A critic that knows the early half and is blind in the late one.
    value = torch.where(late, torch.zeros(()), target)
    found = costly(at, seen._replace(whole=seen.whole._replace(returns=target, value=value), elapsed=elapsed))
    assert found["ev_early"].tolist() == pytest.approx([1.0, 1.0])
    assert found["ev_late"].tolist() == pytest.approx([0.0, 0.0], abs=1e-5)
    policy = at.plan.policy
    after = mlp.critic(policy, policy.layout.views(seen.after.flat), seen.whole.obs).detach()
    torch.testing.assert_close(found["ev_after"], on_policy_sentinels.explained_variance(after, target))


def test_episodes_that_all_have_one_age_have_no_late_half() -> None:
    at = shop()
    seen = lived(at)
    found = costly(at, seen._replace(elapsed=torch.zeros(MEMBERS, 16, 2)))
    assert found["ev_late"].isnan().all()
    assert not found["ev_early"].isnan().any()


def test_costly_sentinels_look_at_five_hundred_rows_at_most_spread_over_the_rollout() -> None:
    at = shop(env={"n_envs": 8}, algo={"n_steps": 160, "batch_size": 1280, "n_epochs": 1}, run={"max_env_steps": 1280})
    seen = lived(at)
    seen = seen._replace(whole=seen.whole._replace(obs=seen.whole.obs.clone()))
    seen.whole.obs[:, 1::2] = 1e6  # rows that are not looked at
    assert costly(at, seen)["activation_norm_actor"].max() < 10


# ── rows that are no transition ──


def with_resets(kind: str = "ppo", actions: str = "discrete") -> Workshop:
    env = {"id": "Resetting", "kwargs": {"kind": actions}, "normalize_obs": True}
    return workshop([make_config(kind, env, seed) for seed in range(MEMBERS)], tasks.Resetting)


def poisoned(seen: Seen) -> Seen:
    """The same with nonsense in every row that is no transition."""
    valid = seen.rollout.valid
    assert valid is not None

    def spoilt(x: Tensor, by: float) -> Tensor:
        assert valid is not None
        counts = valid if x.shape[:3] == valid.shape else rows(valid)
        return torch.where(counts.view(counts.shape + (1,) * (x.dim() - counts.dim())), x, torch.full_like(x, by))

    lived_through = ("obs", "next_obs", "net_obs", "net_next_obs", "reward", "dist")
    rollout = replace(seen.rollout, **{name: spoilt(getattr(seen.rollout, name), 77.0) for name in lived_through})
    learned_from = ("obs", "log_prob", "advantage", "returns", "value")
    whole = seen.whole._replace(**{name: spoilt(getattr(seen.whole, name), -55.0) for name in learned_from})
    raw = seen.raw._replace(advantage=spoilt(seen.raw.advantage, 33.0), reward=spoilt(seen.raw.reward, 44.0))
    return seen._replace(rollout=rollout, whole=whole, raw=raw, elapsed=spoilt(seen.elapsed, 999.0))


@pytest.mark.parametrize("kind", ALGOS)
@pytest.mark.parametrize("actions", ["discrete", "box"])
def test_rows_in_which_a_vector_env_only_reset_change_no_sentinel(kind: str, actions: str) -> None:
    at = with_resets(kind, actions)
    seen = lived(at)
    assert seen.rollout.valid is not None
    assert (~seen.rollout.valid).any(2).any(1).all(), "every member has such rows"
    found = on_policy_sentinels.every_row(at.plan, seen, at.env) | on_policy_sentinels.now_and_then(at.plan, seen, at.numbers())
    spoilt = poisoned(seen)
    others = on_policy_sentinels.every_row(at.plan, spoilt, at.env) | on_policy_sentinels.now_and_then(at.plan, spoilt, at.numbers())
    assert found.keys() == others.keys()
    for name, value in found.items():
        assert value.shape == (MEMBERS,)
        torch.testing.assert_close(value, others[name], equal_nan=True, rtol=0, atol=0, msg=name)


def test_statistics_are_those_of_the_rows_that_count() -> None:
    at = with_resets()
    seen = lived(at)
    assert seen.rollout.valid is not None
    found = cheap(at, seen)
    for m in range(MEMBERS):
        counts = seen.rollout.valid[m]
        reward, target = seen.rollout.reward[m][counts], seen.whole.returns[m][counts.flatten()]
        assert found["reward_mean"][m].item() == pytest.approx(reward.mean().item())
        assert found["return_std"][m].item() == pytest.approx(target.std().item())
        shares = torch.bincount(seen.rollout.action[m][counts], minlength=2) / counts.sum()
        assert found["action_top_share"][m].item() == pytest.approx(shares.max().item())


def test_an_env_that_resets_a_step_late_keeps_its_final_observations() -> None:
    at = with_resets()
    seen = lived(at)
    # Three signs: one end in eight looks like the next start by chance.
    assert all(share < 0.6 for share in cheap(at, seen)["next_obs_is_reset"].tolist())
    # Overwritten by what comes after the reset, one row later.
    late = torch.cat([seen.rollout.following[:, 1:], seen.rollout.following[:, -1:]], 1)
    spoilt = replace(seen.rollout, next_obs=torch.where(seen.rollout.end.unsqueeze(-1), late, seen.rollout.next_obs))
    assert all(share > 0.6 for share in cheap(at, seen._replace(rollout=spoilt))["next_obs_is_reset"].tolist())


def test_a_member_with_no_row_that_counts_is_blank_and_its_neighbour_is_not() -> None:
    at = with_resets()
    seen = lived(at)
    assert seen.rollout.valid is not None
    none = seen.rollout.valid.clone()
    none[0] = False
    found = cheap(at, seen._replace(rollout=replace(seen.rollout, valid=none)))
    assert found["reward_mean"].isnan().tolist() == [True, False]


def test_rewards_that_the_rollouts_end_cut_short_are_no_targets() -> None:
    at = shop("reinforce without baseline", env={"max_episode_steps": 20})
    seen = lived(at)
    weight = seen.whole.weight
    assert weight is not None
    assert (weight == 0).any(1).all()
    found = cheap(at, seen)
    for m in range(MEMBERS):
        target = seen.whole.returns[m][weight[m] > 0]
        assert found["return_mean"][m].item() == pytest.approx(target.mean().item())
        assert found["return_std"][m].item() == pytest.approx(target.std().item())
        place = max(int(0.95 * len(target)) - 1, 0)
        assert found["return_abs_p95"][m].item() == pytest.approx(target.abs().sort().values[place].item())


# ── targets ──


@pytest.mark.parametrize("kind", ALGOS)
def test_targets_follow_from_rewards_and_values(kind: str) -> None:
    at = shop(kind, "discrete")
    found = on_policy_sentinels.target_errors(lived(at), at.numbers())
    assert float(found[PREFIX + "target_error"].max()) < 1e-5
    assert float(found[PREFIX + "target_error_ends"].nan_to_num().max()) < 1e-5


def test_a_target_that_is_off_in_one_step_shows() -> None:
    at = shop("ppo", "discrete")
    seen = lived(at)
    spoiled = seen.whole.returns.clone()
    spoiled[:, 3] += 1.0
    found = on_policy_sentinels.target_errors(seen._replace(whole=seen.whole._replace(returns=spoiled)), at.numbers())
    assert float(found[PREFIX + "target_error"].min()) > 1e-3
