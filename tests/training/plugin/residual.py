"""Layer-normalized residual blocks, with a first matrix of its own; of images it sees the mean of each channel."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.training.envs.base import Picture
from rlclinic.training.nets import conv, layout
from tests.training.plugin.networks import ResidualSettings


@dataclass(frozen=True)
class Residual:
    settings: ResidualSettings
    n_in: int
    picture: Picture | None

    @property
    def out(self) -> int:
        return self.settings.width

    def shapes(self) -> dict[str, tuple[int, ...]]:
        width, found = self.settings.width, {"first.weight": (self.n_in, self.settings.width), "first.bias": (1, self.settings.width)}
        for block in range(self.settings.blocks):
            found |= {f"block{block}.scale": (1, width), f"block{block}.shift": (1, width)}
            found |= {f"block{block}.weight": (width, width), f"block{block}.bias": (1, width)}
        return found

    def initialize(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"first.weight": torch.randn(self.n_in, self.settings.width, generator=generator) * 0.3}

    def layers(self, params: Mapping[str, Tensor], obs: Tensor) -> list[Tensor]:
        if self.picture is not None:
            obs = conv.split(self.picture, obs)[0].float().mean((2, 3)) / 255
        x, found = layout.linear(params, "first", obs), []
        for name in (f"block{block}" for block in range(self.settings.blocks)):
            normal = functional.layer_norm(x, x.shape[-1:]) * params[f"{name}.scale"] + params[f"{name}.shift"]
            x = x + layout.linear(params, name, torch.relu(normal))
            found.append(x)
        return found


def build(settings: ResidualSettings, obs_size: int, picture: Picture | None) -> Residual:
    return Residual(settings, obs_size if picture is None else picture.channels, picture)
