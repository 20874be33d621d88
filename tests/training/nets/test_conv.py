"""The encoders of images are the published ones, treat bytes as shares of 255, and give a member the same bits in any cohort."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlclinic.config import NetConfig
from rlclinic.errors import ConfigError
from rlclinic.training.envs.base import ActionSpec, Picture
from rlclinic.training.maths import distributions
from rlclinic.training.nets import conv, encoders, mlp

SIZES = {"nature": (40, 36), "impala": (13, 16)}
BYTES = torch.Generator().manual_seed(3)


def built(kind: str = "nature", channels: int = 2, vector: int = 0, hidden: tuple[int, ...] = (), **net: Any) -> mlp.ActorCritic:
    picture = Picture(*SIZES[kind], channels, vector)
    config = NetConfig(images=kind, hidden=hidden, image_features=16, **net)  # type: ignore[arg-type]
    return mlp.build(config, picture.size, distributions.of(ActionSpec("discrete", (3,))), picture)


def images(kind: str, members: int, rows: int = 5, channels: int = 2) -> Tensor:
    return torch.randint(0, 256, (members, rows, *SIZES[kind], channels), generator=BYTES, dtype=torch.uint8)


def weights(policy: mlp.ActorCritic, *seeds: int) -> Tensor:
    return torch.cat([mlp.initialize(policy, seed) for seed in seeds])


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.relu(self.first(torch.relu(x))))


def reference(kind: str, channels: int) -> nn.Sequential:
    """The networks as their papers draw them, of PyTorch's own modules."""
    if kind == "nature":
        parts = [nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU()]
        return nn.Sequential(*parts)
    stages: list[nn.Module] = []
    for filters in (16, 32, 32):
        stages += [nn.Conv2d(channels, filters, 3, padding=1), nn.MaxPool2d(3, 2, 1), Residual(filters), Residual(filters)]
        channels = filters
    return nn.Sequential(*stages, nn.ReLU())


@pytest.mark.parametrize("kind", SIZES)
def test_an_encoder_is_the_published_network(kind: str) -> None:
    policy = built(kind)
    params = policy.layout.views(weights(policy, 0))
    peer = reference(kind, 2)
    convolutions = [module for module in peer.modules() if isinstance(module, nn.Conv2d)]
    assert isinstance(policy.encoder, conv.Encoder)
    assert len(convolutions) == len(policy.encoder.convolutions)
    for index, module in enumerate(convolutions):
        module.weight.data = params[f"trunk.conv{index}.weight"][0]
        module.bias.data = params[f"trunk.conv{index}.bias"][0].fill_(0.1 * index)  # type: ignore[union-attr]
    obs = images(kind, 1)
    maps = peer(obs[0].permute(0, 3, 1, 2).float() / 255).permute(0, 2, 3, 1).flatten(1)
    assert maps.shape[1] == policy.encoder.left
    expected = torch.relu(maps @ params["trunk.features.weight"][0])
    torch.testing.assert_close(encoders.features(policy.encoder, params, "trunk", obs)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", SIZES)
def test_a_member_sees_and_learns_the_same_bits_in_any_cohort(kind: str) -> None:
    policy, obs = built(kind, hidden=(8,)), images(kind, 3, rows=32)
    flat = weights(policy, 0, 1, 2)

    def seen(rows: slice) -> list[Tensor]:
        leaf = flat[rows].clone().requires_grad_()
        dist, value = mlp.actor_critic(policy, policy.layout.views(leaf), obs[rows])
        (grad,) = torch.autograd.grad((dist.square().sum(-1) + value).sum(), leaf)
        return [dist.detach(), value.detach(), grad]

    for one, among in zip(seen(slice(1, 2)), seen(slice(0, 3)), strict=True):
        assert torch.equal(one[0], among[1])


@pytest.mark.parametrize("kind", SIZES)
def test_grouped_convolutions_are_the_members_own(kind: str) -> None:
    policy, obs = built(kind), images(kind, 3)
    encoder, params = policy.encoder, policy.layout.views(weights(policy, 0, 1, 2))
    assert isinstance(encoder, conv.Encoder)
    filters = [params[f"trunk.conv{index}.weight"] for index in range(len(encoder.convolutions))]
    biases = [params[f"trunk.conv{index}.bias"] for index in range(len(encoder.convolutions))]
    together, apart = (each(encoder, filters, biases, obs) for each in (conv.grouped, conv.in_turn))
    for one, other in zip(together, apart, strict=True):
        for layer, peer in zip(one, other, strict=True):
            torch.testing.assert_close(layer, peer, rtol=1e-4, atol=1e-2)


def test_bytes_are_shares_of_255_and_floats_are_taken_as_they_are() -> None:
    policy, obs = built(), images("nature", 1)
    params = policy.layout.views(weights(policy, 0))
    torch.testing.assert_close(mlp.critic(policy, params, obs), mlp.critic(policy, params, obs.float() / 255), rtol=1e-4, atol=1e-5)


def test_the_numbers_beside_an_image_come_through_unchanged() -> None:
    policy, obs = built(vector=3), images("nature", 2)
    assert isinstance(policy.encoder, conv.Encoder)
    numbers = torch.randn(2, 5, 3, generator=BYTES)
    packed = torch.cat([obs.flatten(2), numbers.view(torch.uint8)], -1)
    image, beside = conv.split(policy.encoder.picture, packed)
    assert torch.equal(image, obs)
    assert beside is not None
    assert torch.equal(beside, numbers)
    seen = encoders.features(policy.encoder, policy.layout.views(weights(policy, 0, 1)), "trunk", packed)
    assert seen.shape == (2, 5, 16 + 3)
    assert torch.equal(seen[..., 16:], numbers)


def test_policy_and_value_share_the_trunk_of_images_and_its_parts_add_up() -> None:
    policy = built(hidden=(8,), shared=False)
    assert policy.actor_trunk == policy.critic_trunk == "trunk"
    assert sum(policy.parts) == policy.layout.width
    assert policy.layout.shapes["trunk.0.weight"] == (16, 8)
    obs = images("nature", 2)
    params = policy.layout.views(weights(policy, 0, 1))
    dist, value = mlp.actor_critic(policy, params, obs)
    assert torch.equal(dist, mlp.actor(policy, params, obs))
    assert torch.equal(value, mlp.critic(policy, params, obs))


def test_every_filter_is_a_unit_of_its_layer() -> None:
    policy, obs = built(hidden=(8,)), images("nature", 2)
    layers = mlp.hidden(policy, policy.layout.views(weights(policy, 0, 1)), "trunk", obs)
    assert [layer.shape[-1] for layer in layers] == [32, 64, 64, 16, 8]
    assert all(layer.shape[0] == 2 for layer in layers)
    assert layers[0].shape[1] == 5 * 9 * 8, "all places of all images"


@pytest.mark.parametrize("kind", SIZES)
def test_half_the_digits_give_nearly_the_same_and_gradients_that_point_the_same_way(kind: str) -> None:
    whole, half = built(kind), built(kind, image_precision="bfloat16")
    obs, found = images(kind, 2, rows=16), []
    for policy in (whole, half):
        leaf = weights(policy, 0, 1).requires_grad_()
        value = mlp.critic(policy, policy.layout.views(leaf), obs)
        (grad,) = torch.autograd.grad(value.square().sum(), leaf)
        assert value.dtype == grad.dtype == torch.float32
        found.append((value.detach(), grad))
    (value, grad), (other, pull) = found
    torch.testing.assert_close(other, value, rtol=0.05, atol=0.03)
    assert bool((torch.cosine_similarity(grad, pull) > 0.99).all())


def test_filters_start_orthogonal() -> None:
    policy = built()
    filters = policy.layout.views(weights(policy, 0))["trunk.conv1.weight"][0].flatten(1)
    torch.testing.assert_close(filters @ filters.T, 2 * torch.eye(64), rtol=1e-4, atol=1e-4)


def test_an_image_that_is_too_small_is_refused_with_what_to_use() -> None:
    with pytest.raises(ConfigError, match=r"(?s)at least 36 x 36; these are 35 x 84.*--set net.images=impala"):
        conv.choose(NetConfig(images="nature"), Picture(35, 84, 1))


@pytest.mark.parametrize(("size", "kind"), [((36, 36), "nature"), ((84, 35), "impala"), ((3, 3), "impala"), ((1, 1), "impala")])
def test_the_network_is_chosen_by_the_size_of_the_image(size: tuple[int, int], kind: str) -> None:
    encoder = conv.choose(NetConfig(), Picture(*size, 3))
    assert encoder.kind == kind
    assert encoder.left > 0


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("ten_bits", "numbers", "off"),
    [(False, "float32", 2.5e-4), (True, "float32", 1.25e-3), (False, "bfloat16", 1e-2)],
    ids=["float32", "tf32", "bfloat16"],
)
@pytest.mark.parametrize("kind", SIZES)
def test_a_gpu_is_off_by_no_more_than_the_digits_of_its_numbers(
    kind: str, ten_bits: bool, numbers: str, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layer by layer, and of the length of what is computed: single values near zero are rounded by more than themselves."""
    obs, found = images(kind, 3, rows=16), []
    for device, short, precision in (("cpu", False, "float32"), ("cuda", ten_bits, numbers)):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", short)
        policy = built(kind, hidden=(8,), image_precision=precision)
        leaf = weights(policy, 0, 1, 2).to(device).requires_grad_()
        dist, value = mlp.actor_critic(policy, policy.layout.views(leaf), obs.to(device))
        (grad,) = torch.autograd.grad((dist.square().sum(-1) + value.square()).sum(), leaf)
        found.append([each.detach().cpu() for each in (dist, value, grad)])
    assert isinstance(policy.encoder, conv.Encoder)
    layers = len(policy.encoder.convolutions) + 1
    for host, card in zip(*found, strict=True):
        assert float((card - host).norm()) <= off * layers * float(host.norm())
        assert not torch.equal(card, host)
