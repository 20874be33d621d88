"""Residual blocks: names and shapes of their parameters, and how they compute. Gradients, seeds and checkpoints are rlclinic's."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.errors import ConfigError
from rlclinic.training.envs.base import Picture
from rlclinic.training.nets import layout
from rlclinic_ppo_penalty.config import ResidualSettings


@dataclass(frozen=True)
class Residual:
    """Everything but the weights."""

    settings: ResidualSettings
    obs_size: int

    @property
    def out(self) -> int:
        """Width of what it puts out."""
        return self.settings.width

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One member's parameters; `scale` starts at 1, biases and `shift` at 0."""
        matrix, row = (self.out, self.out), (1, self.out)
        found = {"first.weight": (self.obs_size, self.out), "first.bias": row}
        for block in range(self.settings.blocks):
            found |= {f"block{block}.scale": row, f"block{block}.shift": row, f"block{block}.weight": matrix, f"block{block}.bias": row}
        return found

    def layers(self, params: Mapping[str, Tensor], obs: Tensor) -> list[Tensor]:
        """Activations after each block, [M, B, width]: x + W relu(norm(x))."""
        x, found = layout.linear(params, "first", obs), []
        for name in (f"block{block}" for block in range(self.settings.blocks)):
            normal = functional.layer_norm(x, x.shape[-1:]) * params[f"{name}.scale"] + params[f"{name}.shift"]
            x = x + layout.linear(params, name, torch.relu(normal))
            found.append(x)
        return found


def build(settings: ResidualSettings, obs_size: int, picture: Picture | None) -> Residual:
    """The network for vectors of `obs_size` numbers."""
    if picture is not None:
        raise ConfigError(
            "net.encoder=residual is for vectors, and observations are images.\n"
            "  Its first matrix would have a row for every pixel.\n  Try: --set net.encoder=auto"
        )
    return Residual(settings, obs_size)
