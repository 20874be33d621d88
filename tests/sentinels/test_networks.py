"""What is read off torch networks, on networks small enough to know the answer."""

import numpy as np
import pytest
import torch
from torch import nn

from rlclinic.sentinels import networks


def test_weights_tell_how_far_each_matrix_moved() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(2))
        net[1].weight.copy_(2 * torch.eye(2))
        before = networks.Weights(net.parameters())
        net[1].weight.mul_(1.5)
    found = before.moved()
    assert (found["update_ratio_min"], found["update_ratio_max"]) == (0.0, pytest.approx(0.5))
    assert found["update_ratio_worst"] == 0.0
    assert found["weight_norm"] == pytest.approx(np.sqrt(10))


def test_gradient_norms_are_those_before_clipping() -> None:
    weight, head = nn.Parameter(torch.tensor([3.0, 4.0])), nn.Parameter(torch.tensor([2.0]))
    watch = networks.GradientWatch({"trunk": [weight], "critic_head": [head]})
    watch.start(expected=2)
    for factor in (1.0, 2.0):
        loss = factor * (0.5 * weight.square().sum() + head.sum())
        loss.backward()
        nn.utils.clip_grad_norm_([weight, head], 1e-3)
        weight.grad = head.grad = None
    found = watch.stop()
    assert found["trunk"].tolist() == pytest.approx([5.0, 10.0])
    assert found["critic_head"].tolist() == pytest.approx([1.0, 2.0])


def test_long_iterations_are_sampled() -> None:
    weight = nn.Parameter(torch.ones(2))
    watch = networks.GradientWatch({"trunk": [weight]})
    watch.start(expected=10 * networks.SAMPLED_STEPS)
    for _ in range(10 * networks.SAMPLED_STEPS):
        weight.sum().backward()
    assert len(watch.stop()["trunk"]) == networks.SAMPLED_STEPS


def test_after_stop_nothing_listens() -> None:
    weight = nn.Parameter(torch.ones(2))
    watch = networks.GradientWatch({"trunk": [weight]})
    watch.start(expected=1)
    watch.stop()
    weight.sum().backward()
    assert watch.stop() == {}


def test_features_find_dead_and_saturated_units() -> None:
    net = nn.Sequential(nn.Linear(1, 4, bias=False), nn.Tanh())
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[0.0], [0.5], [100.0], [100.0]]))
    rows = torch.linspace(-1, 1, 65).unsqueeze(1)
    found = networks.measure_features(net, lambda: net(rows))
    assert found["dormant"] == 0.25
    assert found["saturated"] == pytest.approx(0.5, abs=0.02)
    assert 1.0 <= found["rank"] < 2.0


def test_features_that_all_say_the_same_have_rank_one() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.LeakyReLU(1.0))
    rows = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    ranks = []
    for weight in (torch.eye(2), torch.ones(2, 2)):
        with torch.no_grad():
            net[0].weight.copy_(weight)
        found = networks.measure_features(net, lambda: net(rows))
        ranks.append(found["rank"])
        assert "saturated" not in found
    assert ranks == pytest.approx([2.0, 1.0])


def test_losses_on_a_shared_trunk_are_compared() -> None:
    trunk = nn.Parameter(torch.tensor([1.0, 0.0]))
    terms = {"policy": trunk[0] * 3, "value": -trunk[0] * 4, "entropy": torch.zeros(())}
    found = networks.measure_pulls(terms, [trunk])
    assert found == {"grad_value_share": pytest.approx(4 / 7), "grad_entropy_share": 0.0, "grad_cosine": pytest.approx(-1.0)}


def test_separate_trunks_have_no_angle() -> None:
    one, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    found = networks.measure_pulls({"policy": one.sum(), "value": other.sum(), "entropy": one.sum() * 0}, [one, other])
    assert "grad_cosine" not in found
    assert found["grad_value_share"] == pytest.approx(0.5)


def test_looking_leaves_random_numbers_and_batch_statistics_alone() -> None:
    norm = nn.BatchNorm1d(2)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with networks.preserve_state(norm):
        torch.rand(5)
        np.random.default_rng()
        norm(torch.randn(8, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(norm.running_mean, torch.zeros(2))


def test_an_optimizer_that_does_not_count_says_so() -> None:
    weight = nn.Parameter(torch.ones(2))
    adam, sgd = torch.optim.Adam([weight]), torch.optim.SGD([weight], lr=0.1)
    for optimizer in (adam, sgd):
        weight.grad = torch.ones(2)
        optimizer.step()
    assert (networks.count_optimizer_steps(adam), networks.count_optimizer_steps(sgd)) == (1.0, None)
