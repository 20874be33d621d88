"""Losses of algorithms that learn from recorded data: by hand, and what must not change them."""

import math
from functools import partial

import pytest
import torch

from rlclinic.training.algos.offline import awac, cql, iql, rlpd, td3_bc
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import squashed
from rlclinic.training.nets import fitted_actor, q_nets, recorded_critics
from rlclinic.training.nets.q_nets import Networks
from tests.training.recordings import bench, make_config


def scaled(params: Networks, factor: float, name: str = "critic", shift: float = 0.0) -> Networks:
    """The networks with a critic whose outputs are multiplied, and shifted."""
    net = params.nets[name]
    views = {part: view.clone() for part, view in net.params(params[name]).items()}
    views["head.weight"], views["head.bias"] = views["head.weight"] * factor, views["head.bias"] * factor + shift
    flat = net.layout.flatten(views).view(params[name].shape)
    return Networks(params.nets, {**dict(params.items()), name: flat})


def gradient_of(params: Networks, name: str, loss) -> torch.Tensor:
    leaf = params[name].clone().requires_grad_()
    value = loss(Networks(params.nets, {**dict(params.items()), name: leaf}))[0]
    return torch.autograd.grad(value.sum(), leaf)[0]


# ── TD3+BC ──


def test_the_actor_of_td3_bc_weighs_values_by_their_own_size() -> None:
    at = bench(make_config("td3_bc"))
    batch, params, hp = at.batch(5), at.networks(), at.numbers()
    action = torch.tanh(params("actor", batch.obs))
    q = q_nets.critics(params, batch.obs, action)[0, 0].tolist()
    away = (action - batch.action).square().mean(-1)[0].tolist()
    scale = 2.5 / (sum(map(abs, q)) / 5)
    loss, _ = td3_bc.actor_loss(at.plan.config, params, batch, hp)
    assert float(loss) == pytest.approx(sum(each - scale * value for each, value in zip(away, q, strict=True)) / 5, rel=1e-4)


def test_the_actor_of_td3_bc_does_not_care_about_the_scale_of_values() -> None:
    at = bench(make_config("td3_bc"))
    batch, hp, params = at.batch(), at.numbers(), at.networks()
    one = gradient_of(params, "actor", lambda nets: td3_bc.actor_loss(at.plan.config, nets, batch, hp))
    many = gradient_of(scaled(params, 100.0), "actor", lambda nets: td3_bc.actor_loss(at.plan.config, nets, batch, hp))
    assert torch.allclose(one, many, rtol=1e-3, atol=1e-7)


def test_by_their_spread_a_constant_in_all_values_changes_nothing_and_by_their_size_it_drowns_them() -> None:
    steps = {}
    for kind in ("size", "spread"):
        at = bench(make_config("td3_bc", algo={"value_scale": kind}))
        batch, hp, params = at.batch(), at.numbers(), at.networks()
        for shift in (0.0, -500.0):
            moved = scaled(params, 1.0, shift=shift)
            loss = partial(td3_bc.actor_loss, at.plan.config, batch=batch, hp=hp)
            steps[kind, shift] = gradient_of(moved, "actor", loss)
    assert torch.allclose(steps["spread", 0.0], steps["spread", -500.0], rtol=1e-2, atol=1e-5)
    assert not torch.allclose(steps["size", 0.0], steps["size", -500.0], rtol=0.1, atol=1e-5)
    q = torch.tensor([[-3.0, -1.0, -2.0]])
    found = td3_bc.value_scale(at.plan.config, q, at.numbers())
    assert float(found) == pytest.approx(2.5 / (2.0 / 3.0))


def test_without_values_td3_bc_clones() -> None:
    at = bench(make_config("td3_bc", algo={"bc_alpha": 0.0}))
    batch, hp, params = at.batch(), at.numbers(), at.networks()
    loss, readings = td3_bc.actor_loss(at.plan.config, params, batch, hp)
    assert float(loss) == pytest.approx(float(readings["imitation"].mean()))


def test_a_target_has_no_future_behind_a_terminal_state_and_one_behind_a_time_limit() -> None:
    at = bench(make_config("td3_bc"))
    ends = torch.from_numpy(at.data.data.ends - 1)
    batch = off_policy.prepare_batch(at.plan, at.learner, at.data.gather(ends.unsqueeze(0), at.numbers().gamma))
    target = td3_bc.targets(at.plan.config, at.networks(), at.targets(), batch, at.numbers(), torch.zeros_like(batch.action))
    future = (target - batch.reward)[0]
    terminated = torch.from_numpy(at.data.data.terminated)
    assert (future[terminated] == 0).all()
    assert (future[~terminated] != 0).all()


# ── IQL ──


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.9])
def test_the_value_of_two_outcomes_is_their_expectile(expectile: float) -> None:
    low, high, chance = -1.0, 3.0, 0.25
    outcomes = torch.tensor([high] + [low] * 3)
    value = torch.zeros(1, requires_grad=True)
    for _ in range(400):
        (grad,) = torch.autograd.grad(iql.expectile_loss(outcomes - value, torch.tensor(expectile)).mean(), value)
        value = (value - 0.5 * grad).detach().requires_grad_()
    above, below = expectile * chance, (1 - expectile) * (1 - chance)
    assert float(value.detach()) == pytest.approx((above * high + below * low) / (above + below), abs=1e-4)


@pytest.mark.parametrize("kind", ["iql", "iql of choices"])
def test_the_actor_of_iql_imitates_by_weights_through_which_no_gradient_goes(kind: str) -> None:
    at = bench(make_config(kind, algo={"beta": 2.0, "weight_cap": 5.0}))
    batch, params, hp = at.batch(4), at.networks(), at.numbers()
    advantage = torch.tensor([[-1.0, 0.0, 0.5, 30.0]], requires_grad=True)
    loss, readings = iql.actor_loss(at.plan.config, params, advantage, batch, hp)
    weights = [math.exp(-2.0), 1.0, math.exp(1.0), 5.0]
    log_prob = fitted_actor.log_prob(params, batch.obs, batch.action)[0].tolist()
    assert float(loss) == pytest.approx(-sum(w * each for w, each in zip(weights, log_prob, strict=True)) / 4, rel=1e-4)
    assert not loss.requires_grad
    assert float(readings["weight_capped"]) == 0.25
    assert float(readings["weight_ess"]) == pytest.approx(sum(weights) ** 2 / (4 * sum(w * w for w in weights)), rel=1e-4)


def test_iql_asks_for_no_action_but_the_recorded_one() -> None:
    at = bench(make_config("iql"))
    batch, params = at.batch(), at.networks()
    other = Networks(params.nets, {**dict(params.items()), "actor": params["actor"] + 1.0})
    arguments = (at.plan.config, params, at.targets(), batch, at.numbers())
    assert torch.equal(iql.targets(*arguments), iql.targets(at.plan.config, other, *arguments[2:]))
    by_hand = batch.reward + batch.discount * params("value", batch.next_obs).squeeze(-1)
    assert torch.allclose(iql.targets(*arguments), by_hand)


# ── AWAC ──


def test_advantages_of_choices_are_taken_over_all_of_them() -> None:
    at = bench(make_config("awac of choices"))
    batch, params = at.batch(3), at.networks()
    value = awac.policy_value(params, params, batch.obs, None)
    chances = params("actor", batch.obs).softmax(-1)[0]
    q = recorded_critics.every_value(params, batch.obs)[0].amin(0)
    assert value[0].tolist() == pytest.approx((chances * q).sum(-1).tolist(), rel=1e-5)


def test_the_actor_of_awac_divides_advantages_by_lambda() -> None:
    at = bench(make_config("awac", algo={"awac_lambda": 2.0}))
    batch, params = at.batch(3), at.networks()
    loss, _ = awac.actor_loss(at.plan.config, params, torch.tensor([[0.0, 2.0, -4.0]]), batch, at.numbers())
    log_prob = fitted_actor.log_prob(params, batch.obs, batch.action)[0].tolist()
    weights = [1.0, math.e, math.exp(-2.0)]
    assert float(loss) == pytest.approx(-sum(w * each for w, each in zip(weights, log_prob, strict=True)) / 3, rel=1e-4)


# ── CQL ──


def test_the_penalty_of_choices_is_the_soft_maximum_above_the_recorded_value_and_never_negative() -> None:
    at = bench(make_config("cql of choices"))
    batch, params = at.batch(6), at.networks()
    q = recorded_critics.values(params, batch.obs, batch.action)
    gap, _ = cql.penalty(at.plan.config, params, batch, q, None)
    every = recorded_critics.every_value(params, batch.obs)[0, 0].tolist()
    chosen = batch.action[0, :, 0].tolist()
    by_hand = [math.log(sum(map(math.exp, row))) - row[choice] for row, choice in zip(every, chosen, strict=True)]
    assert float(gap[0, 0]) == pytest.approx(sum(by_hand) / 6, rel=1e-4)
    assert (gap >= 0).all()


@pytest.mark.parametrize("kind", ["cql", "cql of choices"])
def test_a_constant_added_to_all_values_changes_no_penalty(kind: str) -> None:
    at = bench(make_config(kind))
    batch, params = at.batch(), at.networks()
    noise = cql.update_noise(at.plan, at.seed, 0, 1)
    noise = None if noise is None else noise[:, 0]
    both = []
    for nets in (params, scaled(params, 1.0, shift=7.0)):
        q = recorded_critics.values(nets, batch.obs, batch.action)
        both.append(cql.penalty(at.plan.config, nets, batch, q, noise)[0])
    assert torch.allclose(both[0], both[1], atol=1e-4)


def test_sampled_actions_estimate_the_integral_of_exp_q(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q(s, a) = 2 - 3 (a - 0.3)^2, whose integral over [-1, 1] is known."""
    at = bench(make_config("cql", algo={"cql_actions": 64, "batch_size": 64}))
    batch = at.batch(64)
    monkeypatch.setattr(q_nets, "critics", lambda params, obs, action: (2.0 - 3.0 * (action - 0.3).square()).sum(-1).unsqueeze(1))
    noise = cql.update_noise(at.plan, at.seed, 0, 1)
    assert noise is not None
    estimate = cql.soft_maximum(at.networks(), batch, 64, noise[:, 0])[0].exp().mean()
    grid = torch.linspace(-1, 1, 20_001, dtype=torch.float64)
    exact = torch.trapezoid((2.0 - 3.0 * (grid - 0.3).square()).exp(), grid)
    assert float(estimate) == pytest.approx(float(exact), rel=0.03)


def test_without_a_penalty_cql_is_the_squared_error_alone() -> None:
    at = bench(make_config("cql of choices", algo={"cql_alpha": 0.0}))
    batch, params, hp = at.batch(), at.networks(), at.numbers()
    target = cql.targets(at.plan.config, params, at.targets(), batch, hp, None)
    loss, readings = cql.critic_loss(at.plan.config, params, target, batch, hp, None)
    assert float(loss) == pytest.approx(0.5 * float(readings["errors"].square().mean(-1).sum()), rel=1e-5)
    best = recorded_critics.every_value(params, batch.next_obs).mean(1).argmax(-1)
    lowest = recorded_critics.every_value(at.targets(), batch.next_obs).amin(1).gather(-1, best.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(target, batch.reward + batch.discount * lowest)


def test_the_multiplier_rises_while_the_gap_is_above_its_threshold_and_falls_below_it() -> None:
    at = bench(make_config("cql"))
    params, hp = at.networks(), at.numbers()
    above, below = torch.full((1, 2), 9.0), torch.full((1, 2), 1.0)
    slopes = [gradient_of(params, "log_multiplier", lambda nets, gap=gap: cql.multiplier_loss(nets, gap, hp)) for gap in (above, below)]
    assert float(slopes[0]) < 0 < float(slopes[1])


def test_the_policy_of_vectors_does_the_same_when_it_is_sampled_without_noise() -> None:
    at = bench(make_config("cql"))
    batch, params = at.batch(), at.networks()
    sampled, _ = cql.sample(params, batch.obs, torch.zeros_like(batch.action))
    assert torch.allclose(sampled, squashed.mode(params("actor", batch.obs)), atol=1e-6)


# ── Cal-QL ──


def test_cal_ql_charges_choices_for_no_more_than_what_lies_above_the_floor() -> None:
    at = bench(make_config("cal_ql of choices"))
    batch, params = at.batch(6), at.networks()
    q = recorded_critics.values(params, batch.obs, batch.action)
    floor = recorded_critics.every_value(params, batch.obs)[:, 0].mean(-1)  # between the two choices of the first critic
    gap, at_floor = cql.penalty(at.plan.config, params, batch, q, None, floor)
    rows, least, chosen = recorded_critics.every_value(params, batch.obs)[0].tolist(), floor[0].tolist(), batch.action[0, :, 0].tolist()
    by_hand = [
        math.log(sum(math.exp(max(value, low)) for value in row)) - row[choice]
        for row, low, choice in zip(rows[0], least, chosen, strict=True)
    ]
    assert float(gap[0, 0]) == pytest.approx(sum(by_hand) / 6, rel=1e-4)
    below = [value < low for critic in rows for row, low in zip(critic, least, strict=True) for value in row]
    assert float(at_floor) == pytest.approx(sum(below) / len(below))


@pytest.mark.parametrize("kind", ["cal_ql", "cal_ql of choices"])
def test_far_below_all_values_the_floor_changes_nothing_and_far_above_no_value_is_pushed_down(kind: str) -> None:
    at = bench(make_config(kind))
    batch, params, hp = at.batch(), at.networks(), at.numbers()
    noise = cql.update_noise(at.plan, at.seed, 0, 1)
    noise = None if noise is None else noise[:, 0]
    target = torch.zeros_like(batch.reward)

    def loss(nets: Networks, floor: torch.Tensor | None):
        return cql.critic_loss(at.plan.config, nets, target, batch, hp, noise, floor)

    plain = gradient_of(params, "critic", lambda nets: loss(nets, None))
    low = gradient_of(params, "critic", lambda nets: loss(nets, torch.full_like(target, -1e4)))
    assert torch.equal(plain, low)
    high = loss(params, torch.full_like(target, 1e4))[1]
    assert float(high["at_floor"]) == 1.0
    q = params["critic"].clone().requires_grad_()
    moving = Networks(params.nets, {**dict(params.items()), "critic": q})
    values = recorded_critics.values(moving, batch.obs, batch.action)
    gap, _ = cql.penalty(at.plan.config, moving, batch, values, noise, torch.full_like(target, 1e4))
    pushed = torch.autograd.grad(gap.sum(), q)[0]
    pulled = torch.autograd.grad(-recorded_critics.values(moving, batch.obs, batch.action).mean(-1).sum(), q)[0]
    assert torch.allclose(pushed, pulled, atol=1e-6), "recorded actions are pulled up, nothing is pushed down"


def test_the_floor_is_learned_from_single_steps_and_goes_on_behind_a_time_limit() -> None:
    at = bench(make_config("cal_ql"))
    batch, params, slow = at.batch(4), at.networks(), at.targets()
    loss, _ = cql.value_loss(params, slow, batch)
    now, then = params("value", batch.obs).squeeze(-1)[0].tolist(), slow("value", batch.next_obs).squeeze(-1)[0].tolist()
    rows = zip(now, batch.reward[0].tolist(), batch.discount[0].tolist(), then, strict=True)
    assert float(loss) == pytest.approx(sum((v - r - d * w) ** 2 for v, r, d, w in rows) / 4, rel=1e-4)


# ── RLPD ──


def test_a_target_of_rlpd_asks_the_lowest_of_a_few_critics_that_are_drawn() -> None:
    at = bench(make_config("rlpd"))
    batch, params, hp = at.batch(), at.networks(), at.numbers()
    noise = rlpd.update_noise(at.plan, at.seed, 0, 1)[:, 0]
    asked = rlpd.draw_critics(at.plan.config, noise[:, 2])[0].tolist()
    assert len(set(asked)) == 2
    action, log_prob = rlpd.sample(params, batch.next_obs, noise[:, 1])
    every = q_nets.critics(at.targets(), batch.next_obs, action)[0]
    following = every[asked].amin(0) - params["log_alpha"].exp()[0] * log_prob[0]
    target = rlpd.targets(at.plan.config, params, at.targets(), batch, hp, noise)
    assert torch.allclose(target[0], batch.reward[0] + batch.discount[0] * following)


def test_over_many_gradient_steps_rlpd_asks_all_critics_alike() -> None:
    at = bench(make_config("rlpd"))
    noise = rlpd.update_noise(at.plan, at.seed, 0, 300)
    counts = torch.stack([rlpd.draw_critics(at.plan.config, noise[:, update, 2]) for update in range(300)]).flatten().bincount(minlength=3)
    assert counts.sum() == 600
    assert counts.min() > 160


def test_the_actor_of_rlpd_follows_the_mean_of_all_critics() -> None:
    at = bench(make_config("rlpd"))
    batch, params = at.batch(5), at.networks()
    noise = rlpd.update_noise(at.plan, at.seed, 0, 1)[:, 0, :, :5]
    action, log_prob = rlpd.sample(params, batch.obs, noise[:, 0])
    q = q_nets.critics(params, batch.obs, action).mean(1)
    loss, _ = rlpd.actor_loss(params, batch, noise)
    assert float(loss) == pytest.approx(float((params["log_alpha"].exp() * log_prob - q).mean()), rel=1e-5)
    assert at.plan.nets["critic"].net.layer_norm
    assert not at.plan.nets["actor"].net.layer_norm
