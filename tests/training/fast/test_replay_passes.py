"""Passes through replay networks in memory of their own: what autograd computes, and the same bits for a member in any cohort."""

from dataclasses import replace

import pytest
import torch

from rlclinic.config import NetConfig
from rlclinic.training.fast import q_net_backward
from rlclinic.training.fast.replay_passes import Space
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net

SIZES = [((8, 6), 5, 3, 1), ((8, 6), 5, 1, 2), ((40,), 3, 1, 1), ((70, 33), 4, 2, 1)]
"""Hidden layers, inputs, outputs, copies."""


def net(hidden: tuple[int, ...], n_in: int, outputs: int, copies: int, activation: str = "relu", *, autograd: bool = False) -> Net:
    return replace(q_nets.build(NetConfig(activation=activation), n_in, hidden, outputs, copies=copies), by_autograd=autograd)


def weights(made: Net, members: int) -> torch.Tensor:
    return torch.cat([q_nets.initialize(made, seed, 0) for seed in range(members)])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("sizes", SIZES)
def test_outputs_and_gradients_are_autograds(sizes: tuple[tuple[int, ...], int, int, int], activation: str) -> None:
    torch.manual_seed(0)
    made, reference = net(*sizes, activation), net(*sizes, activation, autograd=True)
    flat, x = weights(made, 3), torch.randn(3, 17, sizes[1])
    space = Space(made, 3, 17)
    space.load(flat)
    for _ in range(2):  # the second pass finds what the first one left behind
        slope = torch.randn(3 * sizes[3], 17, sizes[2])
        out, back = q_net_backward.forward_and_back(reference, flat, x)
        assert torch.allclose(space.forward(x), out, atol=1e-6)
        assert torch.allclose(space.by_weights(slope), back.weights(slope), atol=1e-5)
        out, back = q_net_backward.forward_and_back(reference, flat, x)
        assert torch.allclose(space.by_inputs(slope), back.inputs(slope), atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_all_members_at_once_get_what_each_gets_by_itself_up_to_rounding(sizes: tuple[tuple[int, ...], int, int, int]) -> None:
    """On a GPU all members take each step together; there the reference is this same program on a CPU."""
    torch.manual_seed(0)
    made = net(*sizes)
    flat, x, slope = weights(made, 3), torch.randn(3, 17, sizes[1]), torch.randn(3 * sizes[3], 17, sizes[2])
    done = q_net_backward.forward(made, made.params(flat), x)
    out, back = q_net_backward.forward_and_back(made, flat, x)
    assert torch.allclose(done.out, out, atol=1e-6)
    assert torch.allclose(q_net_backward.backward(made, done, slope).view(3, -1), back.weights(slope), atol=1e-5)
    by_inputs = q_net_backward.backward_inputs(made, done, slope).unflatten(0, (3, sizes[3])).sum(1)
    assert torch.allclose(by_inputs, back.inputs(slope), atol=1e-5)


@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize("sizes", [*SIZES, ((256, 256), 4, 2, 1)])
def test_a_member_gets_the_same_bits_alone_and_in_a_cohort(sizes: tuple[tuple[int, ...], int, int, int], rows: int) -> None:
    torch.manual_seed(0)
    made, copies = net(*sizes), sizes[3]
    flat, x, slope = weights(made, 5), torch.randn(5, rows, sizes[1]), torch.randn(5 * copies, rows, sizes[2])

    def passed(first: int, last: int) -> list[torch.Tensor]:
        space = Space(made, last - first, rows)
        space.load(flat[first:last])
        out = space.forward(x[first:last]).view(last - first, -1)
        own = slope[first * copies : last * copies]
        return [out, space.by_weights(own).clone(), space.by_inputs(own).clone()]

    together = passed(0, 5)
    for member in range(5):
        for whole, alone in zip(together, passed(member, member + 1), strict=True):
            assert torch.equal(whole[member], alone[0])


@pytest.mark.parametrize("sizes", [((8, 6), 5, 3, 1), ((40,), 3, 1, 1), ((70, 33), 4, 2, 1), ((256, 256), 4, 2, 1)])
def test_rounds_give_the_bits_of_passes_one_by_one(sizes: tuple[tuple[int, ...], int, int, int]) -> None:
    torch.manual_seed(0)
    made, count, rows = net(*sizes), 3, 64
    flat, x, slope = weights(made, 1), torch.randn(1, count * rows, sizes[1]), torch.randn(count, rows, sizes[2])
    rounds, space = made.rounds(rows, count, rests=False), Space(made, 1, rows)
    before, (mean, square) = flat.clone(), (torch.zeros_like(flat) for _ in range(2))
    rounds.begin(flat, mean, square, x)
    for number in range(count):
        space.load(rounds.moving.weights)
        assert torch.equal(rounds.forward(number), space.forward(x[:, number * rows : (number + 1) * rows])[0])
        rounds.by_weights(number, slope[number])
        assert torch.equal(rounds.moving.gradient, space.by_weights(slope[number : number + 1]))
        rounds.moving.weights.sub_(rounds.moving.gradient, alpha=0.01)
    assert torch.equal(flat, before)
    rounds.end(flat, mean, square)
    assert not torch.equal(flat, before)
    assert made.rounds(rows, count, rests=False) is rounds


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_outputs_again_are_outputs(activation: str, rows: int) -> None:
    torch.manual_seed(0)
    made = net((8, 6), 5, 3, 1, activation)
    params, x = made.params(weights(made, 2)), torch.randn(2, rows, 5)
    with torch.no_grad():
        assert torch.equal(q_net_backward.forward_again(made, params)(x), q_nets.outputs(made, params, x))


@pytest.mark.parametrize("drawn", [40, 300])
def test_rows_that_are_drawn_several_times_are_worked_out_once_and_all_the_same(drawn: int) -> None:
    torch.manual_seed(0)
    made = net((8, 6), 5, 3, 1)
    flat, table = weights(made, 2), torch.randn(2, 50, 5)
    rows = torch.randint(50, (2, drawn))
    x = torch.stack([table[member, rows[member]] for member in range(2)])
    with torch.no_grad():
        found = q_net_backward.outputs_once(made, flat, x, rows)
        assert torch.allclose(found, q_net_backward.forward(made, made.params(flat), x).out, atol=1e-6)
