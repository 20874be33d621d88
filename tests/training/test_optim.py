"""Each update rule against M separate optimizers of torch, or against the rule written out."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.config import A2CConfig
from rlclinic.training import optim
from rlclinic.training.nets.layout import Layout
from tests.training.cohorts import make_config

LAYOUT = Layout({"a.weight": (2, 3), "a.bias": (1, 3), "b.weight": (3, 1)})
RATES = torch.tensor([[1e-1], [1e-2], [3e-3]], dtype=torch.float64)
STEPS = 50


def rule(kind: str, **settings: float) -> optim.Optimizer:
    return optim.Optimizer(kind, **{"eps": 1e-5, "weight_decay": 0.0, "momentum": 0.0, "rms_decay": 0.99, **settings}, layout=LAYOUT)


def weights(seed: int = 0) -> Tensor:
    return torch.randn(3, LAYOUT.width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients() -> list[Tensor]:
    """On very different scales from step to step, so that moments matter."""
    generator = torch.Generator().manual_seed(1)
    return [10.0 ** (step % 4 - 2) * torch.randn(3, LAYOUT.width, generator=generator, dtype=torch.float64) for step in range(STEPS)]


def ours(optimizer: optim.Optimizer, flat: Tensor, active: list[Tensor | None] | None = None) -> tuple[Tensor, optim.OptimizerState]:
    state = optim.start(flat)
    for step, grad in enumerate(gradients()):
        flat, state = optim.step(optimizer, flat, grad, state, RATES, active[step] if active else None)
    return flat, state


def theirs(make: Callable[..., torch.optim.Optimizer], flat: Tensor) -> Tensor:
    """Every member with an optimizer of its own."""
    found = []
    for m in range(3):
        leaf = flat[m].clone().requires_grad_()
        optimizer = make([leaf], lr=RATES[m].item())
        for grad in gradients():
            leaf.grad = grad[m].clone()
            optimizer.step()
        found.append(leaf.detach())
    return torch.stack(found)


REFERENCES: dict[str, tuple[optim.Optimizer, Any]] = {
    "adam": (rule("adam"), lambda p, lr: torch.optim.Adam(p, lr=lr, eps=1e-5)),
    "adam with decay": (rule("adam", weight_decay=0.1), lambda p, lr: torch.optim.Adam(p, lr=lr, eps=1e-5, weight_decay=0.1)),
    "adamw": (rule("adamw", weight_decay=0.1), lambda p, lr: torch.optim.AdamW(p, lr=lr, eps=1e-5, weight_decay=0.1)),
    "adamw without decay": (rule("adamw"), lambda p, lr: torch.optim.AdamW(p, lr=lr, eps=1e-5, weight_decay=0.0)),
    "rmsprop": (rule("rmsprop"), lambda p, lr: torch.optim.RMSprop(p, lr=lr, alpha=0.99, eps=1e-5)),
    "rmsprop with decay": (
        rule("rmsprop", weight_decay=0.1, rms_decay=0.5),
        lambda p, lr: torch.optim.RMSprop(p, lr=lr, alpha=0.5, eps=1e-5, weight_decay=0.1),
    ),
    "sgd": (rule("sgd"), lambda p, lr: torch.optim.SGD(p, lr=lr)),
    "sgd with momentum": (rule("sgd", momentum=0.9), lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)),
    "sgd with decay": (
        rule("sgd", momentum=0.5, weight_decay=0.1),
        lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.5, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_cohort_steps_as_that_many_optimizers_of_torch_do(name: str) -> None:
    optimizer, make = REFERENCES[name]
    found, state = ours(optimizer, weights())
    torch.testing.assert_close(found, theirs(make, weights()))
    assert state.steps.tolist() == [[STEPS]] * 3


def test_rmsprop_is_the_one_that_a2c_of_sb3_steps_with_by_default() -> None:
    from stable_baselines3 import A2C

    agent = A2C("MlpPolicy", "CartPole-v1", device="cpu")
    assert type(agent.policy.optimizer) is torch.optim.RMSprop
    settings = agent.policy.optimizer.param_groups[0]
    ours = make_config("a2c").algo
    assert isinstance(ours, A2CConfig)
    assert (ours.adam_eps, ours.rms_decay, ours.weight_decay) == (settings["eps"], settings["alpha"], settings["weight_decay"])


def test_rmsprop_of_a_run_begun_before_its_correction_adds_epsilon_inside_the_root() -> None:
    expected, square = weights(), torch.zeros(3, LAYOUT.width, dtype=torch.float64)
    for grad in gradients():
        square = 0.99 * square + 0.01 * grad**2
        expected = expected - RATES * grad / torch.sqrt(square + 1e-5)
    found, _ = ours(replace(rule("rmsprop"), eps_in_root=True), weights())
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lamb_takes_adams_direction_at_the_length_of_each_layer(decay: float) -> None:
    expected = []
    for m in range(3):
        weight = weights()[m].clone()
        mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
        for count, grads in enumerate(gradients(), 1):
            mean, square = 0.9 * mean + 0.1 * grads[m], 0.999 * square + 0.001 * grads[m] ** 2
            direction = (mean / (1 - 0.9**count)) / ((square / (1 - 0.999**count)).sqrt() + 1e-5) + decay * weight
            layers = []
            for name in LAYOUT.shapes:
                first, last = LAYOUT.span(name)
                part, old = direction[first:last], weight[first:last]
                layers.append(old - RATES[m] * part * old.norm() / part.norm())
            weight = torch.cat(layers)
        expected.append(weight)
    torch.testing.assert_close(ours(rule("lamb", weight_decay=decay), weights())[0], torch.stack(expected))


def test_lamb_moves_a_layer_of_zeros_by_adams_step() -> None:
    flat = weights()
    first, last = LAYOUT.span("a.bias")
    flat[:, first:last] = 0.0
    grad = gradients()[0]
    found, _ = optim.step(rule("lamb"), flat, grad, optim.start(flat), RATES, None)
    plain, _ = optim.step(rule("adam"), flat, grad, optim.start(flat), RATES, None)
    torch.testing.assert_close(found[:, first:last], plain[:, first:last])


@pytest.mark.parametrize("kind", optim.RULES)
def test_a_frozen_member_keeps_weights_moments_and_count_and_wakes_as_if_no_time_had_passed(kind: str) -> None:
    asleep = range(5, 12)
    awake = [torch.tensor([[True], [step not in asleep], [True]]) for step in range(STEPS)]
    found, state = ours(rule(kind, momentum=0.9), weights(), awake)  # type: ignore[arg-type]
    assert state.steps.tolist() == [[STEPS], [STEPS - 7], [STEPS]]
    flat, alone = weights()[1:2], optim.start(weights()[1:2])
    for step, grad in enumerate(gradients()):
        if step not in asleep:
            flat, alone = optim.step(rule(kind, momentum=0.9), flat, grad[1:2], alone, RATES[1:2], None)
    assert torch.equal(found[1:2], flat)
    for kept, expected in zip(state, alone, strict=True):
        assert torch.equal(kept[1:2], expected)
    others, _ = ours(rule(kind, momentum=0.9), weights())
    assert torch.equal(found[::2], others[::2])


@pytest.mark.parametrize("kind", optim.RULES)
def test_a_gradient_that_is_not_finite_does_not_reach_frozen_members_or_neighbours(kind: str) -> None:
    grad = gradients()[0]
    grad[1] = torch.nan
    found, state = optim.step(rule(kind), weights(), grad, optim.start(weights()), RATES, torch.tensor([[True], [False], [True]]))
    assert torch.isfinite(found).all()
    assert torch.equal(found[1], weights()[1])
    assert all(torch.isfinite(part).all() for part in state)


def test_a_learning_rate_per_parameter_moves_each_by_its_own() -> None:
    rates = torch.zeros(3, LAYOUT.width, dtype=torch.float64)
    rates[:, :4] = 0.1
    found, _ = optim.step(rule("sgd"), weights(), gradients()[0], optim.start(weights()), rates, None)
    torch.testing.assert_close(found[:, :4], weights()[:, :4] - 0.1 * gradients()[0][:, :4])
    assert torch.equal(found[:, 4:], weights()[:, 4:])


def test_clipping_is_torchs_for_each_member_by_its_own_bound() -> None:
    grad = gradients()[3]
    bounds = torch.tensor([[0.5], [1e3], [2.0]], dtype=torch.float64)
    norm = grad.norm(dim=1, keepdim=True)
    assert norm[0] > bounds[0]
    assert norm[1] < bounds[1]
    found = optim.clip_by_norm(grad, norm, bounds)
    for m in range(3):
        leaf = torch.zeros(LAYOUT.width, dtype=torch.float64, requires_grad=True)
        leaf.grad = grad[m].clone()
        torch.nn.utils.clip_grad_norm_([leaf], bounds[m].item())
        torch.testing.assert_close(found[m], leaf.grad)
    assert torch.equal(found[1], grad[1])


def test_clipping_is_left_out_only_where_it_would_change_nothing() -> None:
    norms, bounds = torch.tensor([[0.5], [9.8]]), [1.0, 10.0]
    grad = torch.randn(2, 7)
    assert optim.all_within(norms, bounds)
    assert torch.equal(optim.clip_by_norm(grad, norms, torch.tensor(bounds).unsqueeze(1)), grad)
    for norm in (0.995, 1.0, 2.0, math.inf, math.nan):
        assert not optim.all_within(torch.tensor([[norm], [9.8]]), bounds)
    assert optim.all_within(torch.tensor([[1e9], [9.8]]), [None, 10.0]), "a member without a bound"
