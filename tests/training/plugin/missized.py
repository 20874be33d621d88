"""A network that puts out another width than it says."""

from rlclinic.training.envs.base import Picture
from tests.training.plugin import residual
from tests.training.plugin.networks import ResidualSettings


class Missized(residual.Residual):
    @property
    def out(self) -> int:
        return self.settings.width + 1


def build(settings: ResidualSettings, obs_size: int, picture: Picture | None) -> Missized:
    return Missized(settings, obs_size, picture)
