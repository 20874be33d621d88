"""Gradient steps of wide nets that leave silent units out: what all units give, whoever sleeps and wakes."""

from typing import Any

import pytest
import torch

from rlclinic.config import NetConfig
from rlclinic.training import optim
from rlclinic.training.fast import dqn, wide
from rlclinic.training.fast.replay_passes import Rounds
from rlclinic.training.fast.wide import WideRounds
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net

ROWS, COUNT, N_IN, ACTIONS = 16, 9, 3, 2
FAR = -50.0
"""A bias that keeps a unit silent."""
SLEEPERS = slice(4, 13)


def net(hidden: tuple[int, ...] = (12, 20), activation: str = "relu", outputs: int = ACTIONS, copies: int = 1) -> Net:
    return q_nets.build(NetConfig(activation=activation), N_IN, hidden, outputs, copies=copies)


def state(made: Net) -> list[torch.Tensor]:
    """Weights, moments and the count of a member whose units SLEEPERS have been silent for a long time."""
    torch.manual_seed(3)
    flat = q_nets.initialize(made, 0, 0)
    found = [flat, torch.randn_like(flat) * 1e-3, torch.rand_like(flat) * 1e-4, torch.full((1, 1), 800.0)]
    layer = f"trunk.{len(made.hidden) - 1}"
    made.params(flat)[f"{layer}.bias"][..., SLEEPERS] = FAR
    mean = made.params(found[1])
    for name in (f"{layer}.weight", f"{layer}.bias", "head.weight"):
        mean[name][..., SLEEPERS] = 0.0
    return found


def inputs() -> torch.Tensor:
    torch.manual_seed(4)
    return torch.randn(1, COUNT * ROWS, N_IN)


def turn(rounds: Any, flat: torch.Tensor, mean: torch.Tensor, square: torch.Tensor, steps: torch.Tensor, x: torch.Tensor) -> list[int]:
    """Adam steps towards random targets, in place; returns how many weights each step moved."""
    torch.manual_seed(5)
    rule = optim.Optimizer("adam", 1e-8, 0.0, 0.0, 0.99, net().layout)
    rounds.begin(flat, mean, square, x)
    step, moved = optim.adam_again(rule, steps, 1e-2), []
    for number in range(COUNT):
        error = rounds.forward(number) - torch.randn(ROWS, ACTIONS)
        rounds.by_weights(number, dqn.huber_slope(error) / ROWS)
        step(*rounds.moving)
        moved.append(rounds.moving.weights.shape[1])
    rounds.end(flat, mean, square)
    return moved


def both(made: Net, at: list[torch.Tensor], x: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor], list[int]]:
    """The state after a turn of all units, and after one that leaves the silent ones out."""
    plain, ordered = ([each.clone() for each in at] for _ in range(2))
    rounds = Rounds(made, ROWS, COUNT), WideRounds(made, ROWS, COUNT)
    turn(rounds[0], *plain, x)
    moved = turn(rounds[1], *ordered, x)
    assert torch.allclose(rounds[0].outputs, rounds[1].outputs, atol=1e-5)
    return plain, ordered, moved


def assert_same(plain: list[torch.Tensor], ordered: list[torch.Tensor]) -> None:
    for name, one, other in zip(("weights", "mean", "square", "steps"), plain, ordered, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("hidden", [(12, 20), (9, 12, 20)])
def test_a_turn_without_the_silent_units_is_the_turn_of_all(hidden: tuple[int, ...]) -> None:
    made = net(hidden)
    at = state(made)
    plain, ordered, moved = both(made, at, inputs())
    assert_same(plain, ordered)
    assert max(moved) < made.width, "nobody slept"
    assert not torch.allclose(plain[0], at[0], atol=1e-3), "nothing was learned"


def test_second_moments_of_sleepers_fade_all_the_same() -> None:
    made = net()
    at = state(made)
    _, ordered, _ = both(made, at, inputs())
    before, after = (made.params(each[2])["trunk.1.weight"][..., SLEEPERS] for each in (at, ordered))
    assert torch.allclose(after, before * optim.BETA2**COUNT, rtol=1e-5)


def test_a_unit_that_wakes_within_a_turn_learns_as_if_it_had_never_slept() -> None:
    made = net()
    at, x = state(made), inputs()
    sleeper = SLEEPERS.start + 2
    made.params(at[0])["trunk.0.bias"][..., 0] = 0.0
    made.params(at[0])["trunk.0.weight"][..., 0] = torch.tensor([1.0, 0.0, 0.0])
    made.params(at[0])["trunk.1.weight"][..., 0, sleeper] = 10.0
    x[:, 5 * ROWS] = torch.tensor([20.0, 0.0, 0.0])  # one row of the sixth batch is loud enough
    plain, ordered, moved = both(made, at, x)
    assert_same(plain, ordered)
    assert moved[4] < moved[5] <= moved[8]
    assert made.params(ordered[1])["trunk.1.weight"][..., sleeper].abs().max() > 0


def test_a_layer_that_is_silent_altogether_hands_nothing_down() -> None:
    made = net()
    at = state(made)
    made.params(at[0])["trunk.1.bias"].fill_(FAR)
    plain, ordered, _ = both(made, at, inputs())
    assert_same(plain, ordered)


def test_a_place_that_was_used_before_gives_the_same_bits() -> None:
    made, x = net(), inputs()
    fresh, again = ([each.clone() for each in state(made)] for _ in range(2))
    turn(WideRounds(made, ROWS, COUNT), *fresh, x)
    used = WideRounds(made, ROWS, COUNT)
    other = [each.clone() for each in state(made)]
    made.params(other[0])["trunk.1.bias"].fill_(1.0)  # everybody speaks
    turn(used, *other, -x)
    turn(used, *again, x)
    for one, two in zip(fresh, again, strict=True):
        assert torch.equal(one, two)


def test_what_is_not_finite_is_not_taken_for_silence() -> None:
    made, x = net(), inputs()
    at = state(made)
    x[:, 3 * ROWS] = torch.nan
    turn(WideRounds(made, ROWS, COUNT), *at, x)
    assert not torch.isfinite(made.params(at[0])["trunk.1.weight"]).any()


def test_only_long_turns_of_wide_rectified_nets_look_for_silent_units() -> None:
    assert wide.pays(net((256, 256)), 64, 128)
    unfit = [net((256,)), net((64, 64)), net((256, 256), "tanh"), net((256, 256), outputs=1), net((256, 256), copies=2)]
    assert not any(wide.pays(each, 64, 128) for each in unfit)
    assert not wide.pays(net((256, 256)), 64, 4)
    assert isinstance(net((256, 256)).rounds(64, 32, rests=True), WideRounds)
    assert isinstance(net((256, 256)).rounds(64, 32, rests=False), Rounds)
