"""Encoders of images: the Nature network and IMPALA's residual one, as names and shapes plus pure functions.

Images come as [M, B, H, W, C]. Bytes stay bytes up to here and are never copied as scaled floats: dividing the first layer's weights
by 255 gives the same as dividing the pixels. On a CPU members take turns (each with one convolution of its own, so that its bits do
not depend on the cohort); on CUDA their filters are the groups of one convolution.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.actions import Change
from rlclinic.config import NetConfig
from rlclinic.errors import ConfigError
from rlclinic.training.envs.base import Picture

Params = Mapping[str, Tensor]
NATURE: Final = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Filters, kernel and stride of each layer (Mnih et al. 2015)."""
NATURE_LEAST: Final = 36
"""The smallest side of which the three layers leave a pixel."""
IMPALA: Final = (16, 32, 32)
"""Filters of each stage (Espeholt et al. 2018, arXiv:1802.01561): a convolution, a pooling that halves the image, two residual blocks."""
PER_STAGE: Final = 5


@dataclass(frozen=True)
class Encoder:
    """The static half of an image encoder."""

    kind: Literal["nature", "impala"]
    picture: Picture
    width: int
    """Width of the layer that the filtered image goes into."""
    dtype: torch.dtype = torch.float32
    """What the convolutions and that layer compute in. Bytes are exact in bfloat16 too; sums are float32 in either."""

    @cached_property
    def convolutions(self) -> list[tuple[int, int, int]]:
        """Channels in, channels out and kernel of every convolution, in order."""
        found, channels = [], self.picture.channels
        if self.kind == "nature":
            for filters, kernel, _ in NATURE:
                found.append((channels, filters, kernel))
                channels = filters
            return found
        for filters in IMPALA:
            found += [(channels, filters, 3)] + [(filters, filters, 3)] * (PER_STAGE - 1)
            channels = filters
        return found

    @cached_property
    def left(self) -> int:
        """Values that the convolutions leave of an image."""
        height, width = self.picture.height, self.picture.width
        if self.kind == "nature":
            for _, kernel, stride in NATURE:
                height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            return height * width * NATURE[-1][0]
        for _ in IMPALA:
            height, width = (height + 1) // 2, (width + 1) // 2
        return height * width * IMPALA[-1]

    @property
    def out(self) -> int:
        """Width of what the layers above see: features, and the numbers beside the image."""
        return self.width + self.picture.vector

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes, filters as [out, in, kernel, kernel]; rows of the last matrix are in the order row, column, channel."""
        found: dict[str, tuple[int, ...]] = {}
        for index, (inside, outside, kernel) in enumerate(self.convolutions):
            found |= {f"conv{index}.weight": (outside, inside, kernel, kernel), f"conv{index}.bias": (outside,)}
        return found | {"features.weight": (self.left, self.width), "features.bias": (1, self.width)}

    def layers(self, params: Params, obs: Tensor) -> list[Tensor]:
        """Activations of every convolution, [M, B * places, filters], and of the last layer with the numbers, [M, B, width + numbers].

        A filter is a unit, which is seen at all places of all images.
        """
        image, numbers = split(self.picture, obs)
        maps = _maps(self, params, image)
        seen = [torch.stack([own[layer].permute(0, 2, 3, 1).flatten(0, 2).float() for own in maps]) for layer in range(len(maps[0]))]
        return [*seen, _dense(params, [own[-1] for own in maps], numbers)]

    def features(self, params: Params, obs: Tensor) -> Tensor:
        """What the layers above see of observations [M, B, ...]: [M, B, width + numbers]."""
        image, numbers = split(self.picture, obs)
        return _dense(params, [own[-1] for own in _maps(self, params, image)], numbers)


def choose(net: NetConfig, picture: Picture) -> Encoder:
    """The encoder that the config means for this image; ConfigError where the image is too small for it."""
    kind, least = net.images, min(picture.height, picture.width)
    if kind == "auto":
        kind = "nature" if least >= NATURE_LEAST else "impala"
    if kind == "nature" and least < NATURE_LEAST:
        raise ConfigError(
            f"net.images=nature needs images of at least {NATURE_LEAST} x {NATURE_LEAST}; these are {picture.height} x {picture.width}.\n"
            "  Its three convolutions shrink the image, and would leave nothing of it.\n  Try: ",
            Change("net.images", "impala"),
            ", which takes any size",
        )
    return Encoder(kind, picture, net.image_features, getattr(torch, net.image_precision))


def split(picture: Picture, obs: Tensor) -> tuple[Tensor, Tensor | None]:
    """The image [M, B, H, W, C] and the numbers beside it [M, B, V], out of observations as environments give them."""
    if not picture.vector:
        return obs, None
    image = obs[..., : picture.size].unflatten(-1, (picture.height, picture.width, picture.channels))
    # A copy: bytes can be read as floats only where they begin at a whole float.
    return image, obs[..., picture.size :].clone(memory_format=torch.contiguous_format).view(torch.float32)


def channels(picture: Picture, obs: Tensor) -> list[Tensor]:
    """What the network is shown, in its own units: each channel at all places of all images, and the numbers; [M, rows, columns]."""
    image, numbers = split(picture, obs)
    shown = image.flatten(1, 3).float()
    return [shown / 255 if image.dtype == torch.uint8 else shown] + ([] if numbers is None else [numbers])


def _maps(encoder: Encoder, params: Params, image: Tensor) -> list[list[Tensor]]:
    """By member, then by layer: activations [B, C, H, W]."""
    count = range(len(encoder.convolutions))
    weights, biases = ([params[f"conv{index}.{part}"] for index in count] for part in ("weight", "bias"))
    if image.dtype == torch.uint8:
        weights[0] = weights[0] * (1 / 255)
    weights, biases = ([each.to(encoder.dtype) for each in part] for part in (weights, biases))
    return (grouped if image.is_cuda else in_turn)(encoder, weights, biases, image)


def in_turn(encoder: Encoder, weights: list[Tensor], biases: list[Tensor], image: Tensor) -> list[list[Tensor]]:
    """One member after another. The channels lie last in memory: PyTorch's CPU kernels go back through such images in half the time."""
    # One unbind: its backward is one stack, where an index per member would be a fill of all members' weights each.
    own_weights = zip(*(weight.unbind(0) for weight in weights), strict=True)
    own_biases = zip(*(bias.unbind(0) for bias in biases), strict=True)
    rows = (each.permute(0, 3, 1, 2).to(encoder.dtype) for each in image.unbind(0))
    return [
        _filtered(encoder, [each.contiguous(memory_format=torch.channels_last) for each in weight], list(bias), x, 1)
        for weight, bias, x in zip(own_weights, own_biases, rows, strict=True)
    ]


def grouped(encoder: Encoder, weights: list[Tensor], biases: list[Tensor], image: Tensor) -> list[list[Tensor]]:
    """All members in one convolution: a GPU is filled by many images at once, not by one member after another."""
    members = image.shape[0]
    wide = image.permute(1, 0, 4, 2, 3).flatten(1, 2).to(encoder.dtype)  # [B, M * C, H, W]
    found = _filtered(encoder, [weight.flatten(0, 1) for weight in weights], [bias.flatten() for bias in biases], wide, members)
    return [list(own) for own in zip(*(each.unflatten(1, (members, -1)).unbind(1) for each in found), strict=True)]


def _filtered(encoder: Encoder, weights: list[Tensor], biases: list[Tensor], x: Tensor, groups: int) -> list[Tensor]:
    """Activations [B, groups * C, H, W] after each rectifier."""
    seen = []
    if encoder.kind == "nature":
        for weight, bias, (_, _, stride) in zip(weights, biases, NATURE, strict=True):
            x = functional.relu(functional.conv2d(x, weight, bias, stride, groups=groups), inplace=True)
            seen.append(x)
        return seen

    def convolve(index: int, x: Tensor) -> Tensor:
        return functional.conv2d(x, weights[index], biases[index], padding=1, groups=groups)

    for first in range(0, len(weights), PER_STAGE):
        x = functional.max_pool2d(convolve(first, x), 3, stride=2, padding=1)
        for block in (first + 1, first + 3):
            below = functional.relu(x)
            between = functional.relu(convolve(block, below), inplace=True)
            x = x + convolve(block + 1, between)
            seen += [below, between]
    return [*seen, functional.relu(x)]


def _dense(params: Params, maps: list[Tensor], numbers: Tensor | None) -> Tensor:
    """The last layer [M, B, features] on each member's filtered images, and the numbers beside them."""
    weight, bias = (params[f"features.{part}"].to(maps[0].dtype) for part in ("weight", "bias"))
    flat = [each.permute(0, 2, 3, 1).flatten(1) for each in maps]  # free on a CPU, where the channels lie last
    found = [torch.addmm(b, x, w) for b, x, w in zip(bias.unbind(0), flat, weight.unbind(0), strict=True)]
    last = functional.relu(torch.stack(found)).float()
    return last if numbers is None else torch.cat([last, numbers], -1)
