"""What bonuses and the critic of costs see of observations: vectors as they are, images as a few grey pixels (as in arXiv:1901.10995).

Told apart pixel by pixel every image would be new; shrunk, those that look alike are alike.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.training.envs.base import Picture, VecEnv
from rlclinic.training.nets import conv

PIXELS = 12
"""Along each side of a shrunk image, at most."""


class Steps(Protocol):
    """Steps of a rollout or of a cycle with a replay, [M, T, N, ...]."""

    @property
    def obs(self) -> Tensor: ...
    @property
    def next_obs(self) -> Tensor: ...
    @property
    def following(self) -> Tensor: ...
    @property
    def action(self) -> Tensor: ...
    @property
    def reward(self) -> Tensor: ...
    @property
    def terminated(self) -> Tensor: ...
    @property
    def truncated(self) -> Tensor: ...
    @property
    def valid(self) -> Tensor | None: ...
    @property
    def success(self) -> Tensor | None: ...
    @property
    def over(self) -> Tensor: ...


@dataclass(frozen=True)
class Seen:
    """Steps with what is seen of their observations, [M, T, N, D]."""

    obs: Tensor
    next_obs: Tensor
    following: Tensor
    action: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor | None
    success: Tensor | None
    over: Tensor


@dataclass(frozen=True)
class Sight:
    """How observations become vectors of `size` numbers within `low` and `high` [D] (infinite where there is no bound)."""

    picture: Picture | None
    size: int
    low: np.ndarray
    high: np.ndarray

    def look(self, steps: Steps) -> Steps:
        """The same steps, with vectors for observations."""
        if self.picture is None:
            return steps
        # What follows a step is what the next one acted on: images are shrunk once.
        obs, last = self.shrink(steps.obs), self.shrink(steps.following[:, -1:])
        following, next_obs = torch.cat([obs[:, 1:], last], 1), self.shrink(steps.next_obs)
        rest = (steps.action, steps.reward, steps.terminated, steps.truncated, steps.valid, steps.success, steps.over)
        return Seen(obs, next_obs, following, *rest)

    def shrink(self, obs: Tensor) -> Tensor:
        """[M, T, N, ...] -> [M, T, N, D]: means over patches of all channels, and the numbers beside the image."""
        assert self.picture is not None
        height, width = _shrunk(self.picture)
        found = []
        for now in obs.unbind(1):  # step by step: as floats a whole rollout would take four times its room
            image, numbers = conv.split(self.picture, now)
            grey = image.float().mean(-1) / (255.0 if image.dtype == torch.uint8 else 1.0)
            small = functional.adaptive_avg_pool2d(grey, (height, width)).flatten(2)
            found.append(small if numbers is None else torch.cat([small, numbers], -1))
        return torch.stack(found, 1)


def find_sight(env: VecEnv) -> Sight:
    """How the observations of an environment are seen; it is started anew."""
    picture = env.picture
    if picture is None:
        size = env.obs_shape[0]
        low, high = (np.broadcast_to(bound, (size,)).astype(np.float32) for bound in (env.obs_low, env.obs_high))
        return Sight(None, size, low, high)
    pixels = int(np.prod(_shrunk(picture)))
    size = pixels + picture.vector
    low, high = np.full(size, -np.inf, np.float32), np.full(size, np.inf, np.float32)
    bytes_ = env.reset().dtype == torch.uint8
    low[:pixels] = 0.0 if bytes_ else env.obs_low.ravel()[: picture.size].min()
    high[:pixels] = 1.0 if bytes_ else env.obs_high.ravel()[: picture.size].max()
    return Sight(picture, size, low, high)


def _shrunk(picture: Picture) -> tuple[int, int]:
    return min(picture.height, PIXELS), min(picture.width, PIXELS)
