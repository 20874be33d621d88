"""Q-networks, critics and actors: the backward pass that is written out is autograd's, and copies are networks of their own."""

import math
from dataclasses import replace

import pytest
import torch

from rlclinic.config import NetConfig
from rlclinic.training.fast import q_net_backward
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net

MEMBERS, ROWS, INPUTS = 3, 10, 5


def net(activation: str = "relu", outputs: int = 2, copies: int = 1, *, autograd: bool = False, **settings: object) -> Net:
    made = NetConfig.model_validate({"activation": activation, **settings})
    return replace(q_nets.build(made, INPUTS, (8, 6), outputs, copies=copies), by_autograd=autograd)


def weights(made: Net) -> torch.Tensor:
    return torch.cat([q_nets.initialize(made, seed, 0) for seed in range(MEMBERS)])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize(("outputs", "copies"), [(1, 1), (3, 1), (1, 2)])
def test_the_written_way_back_is_autograds(activation: str, outputs: int, copies: int) -> None:
    torch.manual_seed(0)
    written, reference = (net(activation, outputs, copies, autograd=autograd) for autograd in (False, True))
    assert written.written_out
    assert not reference.written_out
    flat, x = weights(written), torch.randn(MEMBERS, ROWS, INPUTS)
    slope = torch.randn(MEMBERS * copies, ROWS, outputs)
    for kind in ("weights", "inputs"):
        (out, back), (out2, back2) = (q_net_backward.forward_and_back(each, flat, x) for each in (written, reference))
        assert torch.allclose(out, out2, atol=1e-6)
        assert torch.allclose(getattr(back, kind)(slope), getattr(back2, kind)(slope), atol=1e-5)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("activation", "outputs", "copies"), [("relu", 1, 2), ("tanh", 3, 1)])
def test_the_way_a_gpu_goes_there_and_back_is_autograds(
    narrow: bool, activation: str, outputs: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(q_net_backward, "_is_narrow", lambda weight: narrow and weight.shape[1] == INPUTS)
    torch.manual_seed(0)
    written, reference = (net(activation, outputs, copies, autograd=autograd) for autograd in (False, True))
    flat, x = weights(written), torch.randn(MEMBERS, ROWS, INPUTS)
    slope = torch.randn(MEMBERS * copies, ROWS, outputs)
    out, back = q_net_backward.forward_and_back(reference, flat, x)
    done = q_net_backward.forward(written, written.params(flat), x)
    assert torch.allclose(done.out, out, atol=1e-6)
    assert torch.allclose(q_net_backward.backward(written, done, slope).view_as(flat), back.weights(slope), atol=1e-5)
    by_inputs = q_net_backward.backward_inputs(written, done, slope).unflatten(0, (-1, copies)).sum(1)
    assert torch.allclose(by_inputs, q_net_backward.forward_and_back(reference, flat, x)[1].inputs(slope), atol=1e-5)


@pytest.mark.parametrize("settings", [{"layer_norm": True}, {"activation": "silu"}])
def test_other_layers_go_back_by_autograd(settings: dict[str, object]) -> None:
    made = net(**settings)  # type: ignore[arg-type]
    assert not made.written_out
    flat, x = weights(made), torch.randn(MEMBERS, ROWS, INPUTS)
    out, back = q_net_backward.forward_and_back(made, flat, x)
    assert not out.requires_grad
    assert back.weights(torch.ones_like(out)).shape == flat.shape


def test_twin_critics_are_two_networks() -> None:
    twin, single = net(outputs=1, copies=2), net(outputs=1)
    flat, x = weights(twin), torch.randn(MEMBERS, ROWS, INPUTS)
    first, second = flat.split(single.width, 1)
    with torch.no_grad():
        both = q_nets.outputs(twin, twin.params(flat), x).view(MEMBERS, 2, ROWS)
        for place, own in enumerate((first, second)):
            alone = q_nets.outputs(single, single.params(own), x).squeeze(-1)
            assert torch.equal(both[:, place], alone)
    assert not torch.allclose(first, second), "equal critics would stay equal for ever"


def test_a_members_first_weights_depend_on_its_seed_alone_and_are_as_torch_draws_them() -> None:
    made = net()
    assert torch.equal(q_nets.initialize(made, 7, 1), q_nets.initialize(made, 7, 1))
    assert not torch.equal(q_nets.initialize(made, 7, 1), q_nets.initialize(made, 7, 2))
    params = made.params(q_nets.initialize(q_nets.build(NetConfig(), 50, (400,), 30), 3, 0).new_zeros(1, made.width))
    assert set(params) == {f"{part}.{kind}" for part in ("trunk.0", "trunk.1", "head") for kind in ("weight", "bias")}
    wide = q_nets.build(NetConfig(), 50, (400,), 30)
    drawn = wide.params(q_nets.initialize(wide, 3, 0))
    for name, inputs in (("trunk.0", 50), ("head", 400)):
        for kind in ("weight", "bias"):
            values = drawn[f"{name}.{kind}"]
            bound = 1 / math.sqrt(inputs)
            assert float(values.abs().max()) <= bound
            assert float(values.abs().max()) > 0.8 * bound
        assert float(drawn[f"{name}.weight"].std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_dueling_takes_the_mean_advantage_out_and_its_way_back_is_autograds() -> None:
    out = torch.randn(2, 4, 1 + 3, requires_grad=True)
    q = q_nets.dueling(out)
    assert torch.allclose(q.mean(-1), out[..., 0], atol=1e-6)
    assert torch.allclose(q[..., 0] - q[..., 1], out[..., 1] - out[..., 2], atol=1e-6)
    slope = torch.randn_like(q)
    (grad,) = torch.autograd.grad(q, out, slope)
    assert torch.allclose(q_net_backward.dueling_back(slope), grad, atol=1e-6)
