"""A network that mixes members."""

from collections.abc import Mapping

from torch import Tensor

from rlclinic.training.envs.base import Picture
from tests.training.plugin import residual
from tests.training.plugin.networks import ResidualSettings


class Mixing(residual.Residual):
    def layers(self, params: Mapping[str, Tensor], obs: Tensor) -> list[Tensor]:
        return [layer - layer.mean(0) for layer in super().layers(params, obs)]


def build(settings: ResidualSettings, obs_size: int, picture: Picture | None) -> Mixing:
    return Mixing(settings, obs_size, picture)
