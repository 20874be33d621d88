"""What lies around all envs at once: the last frames and the share of the time limit that has passed are shown, rewards are scaled."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlclinic.actions import Change
from rlclinic.errors import ConfigError
from rlclinic.training.data.info_columns import COST, TERM
from rlclinic.training.envs.base import Picture, Step, Stepping, VecEnv


class Augmented:
    """A VecEnv whose observations are the last `frame_stack` ones, the newest last, and the share of the time limit elapsed.

    Frames are joined along the last axis: (d,) becomes (k * d,), channels of images likewise. At an episode's start all
    frames are its first observation.
    """

    def __init__(self, env: VecEnv, frame_stack: int = 1, time_in_obs: bool = False) -> None:
        if time_in_obs:
            _check_time(env)
        if env.picture is not None:
            _check_picture(env.picture)
        self._env, self._frames, self._timed = env, frame_stack, time_in_obs
        self.members, self.n_envs, self.exact, self.skips = env.members, env.n_envs, env.exact, env.skips
        self.action, self.max_episode_steps, self.failures = env.action, env.max_episode_steps, env.failures
        self.info = getattr(env, "info", None)
        self.step_info = getattr(env, "step_info", ())
        self.potentials = getattr(env, "potentials", None)
        *rest, last = env.obs_shape
        self.obs_shape = (*rest, last * frame_stack + time_in_obs)
        self.picture = env.picture and replace(env.picture, channels=last * frame_stack)
        self.obs_low = self._bound(env.obs_low, 0.0)
        self.obs_high = self._bound(env.obs_high, 1.0)

    def _bound(self, bound: np.ndarray, time: float) -> np.ndarray:
        parts = [bound] * self._frames + ([np.array([time], np.float32)] if self._timed else [])
        return np.concatenate(parts, -1)

    @property
    def action_mask(self) -> Tensor | None:
        return self._env.action_mask

    @property
    def stepping(self) -> Stepping:
        return self._env.stepping

    def reset(self) -> Tensor:
        return self._begin(self._env.reset())

    def _begin(self, obs: Tensor) -> Tensor:
        self._stack = self._repeated(obs)
        self._elapsed = torch.zeros(obs.shape[:2], dtype=torch.int64, device=obs.device)
        return self._shown(self._stack, self._elapsed)

    def step(self, action: Tensor) -> Step:
        step = self._env.step(action)
        stack = torch.cat((self._stack[..., 1:, :], step.next_obs.unsqueeze(-2)), -2)
        elapsed = self._elapsed + 1
        next_obs = self._shown(stack, elapsed)
        # A NEXT_STEP env starts the new episode in its invalid row, any other one in the step that ended the old.
        fresh = step.terminated | step.truncated if step.valid is None else ~step.valid
        self._elapsed = elapsed.masked_fill(fresh, 0)
        wide = fresh.view(fresh.shape + (1,) * (stack.dim() - 2))
        self._stack = torch.where(wide, self._repeated(step.obs), stack)
        return step._replace(next_obs=next_obs, obs=self._shown(self._stack, self._elapsed))

    def _repeated(self, obs: Tensor) -> Tensor:
        """[M, N, K, D], images [M, N, H, W, K, C]."""
        return torch.stack((obs,) * self._frames, -2)

    def _shown(self, stack: Tensor, elapsed: Tensor) -> Tensor:
        obs = stack.flatten(-2)
        if not self._timed:
            return obs
        assert self.max_episode_steps is not None
        return torch.cat((obs, (elapsed / self.max_episode_steps).unsqueeze(-1)), -1)

    def state(self) -> dict[str, Tensor]:
        return {**self._env.state(), "frames": self._stack.clone(), "frames_elapsed": self._elapsed.clone()}

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        inner = {key: value for key, value in state.items() if not key.startswith("frames")}
        obs = self._begin(self._env.load_state(inner))
        if self.exact:
            self._stack = state["frames"].to(obs.device, copy=True)
            self._elapsed = state["frames_elapsed"].to(obs.device, copy=True)
        return self._shown(self._stack, self._elapsed)

    def start_from(self, seed: int) -> None:
        """Other start states, where the wrapped env takes them."""
        self._env.start_from(seed)  # type: ignore[attr-defined]

    def render(self, member: int = 0, env: int = 0) -> Any:
        """A picture of one env, where the wrapped one can give it."""
        return self._env.render(member, env)  # type: ignore[attr-defined]

    def retire(self, members: Iterable[int]) -> None:
        self._env.retire(members)

    def close(self) -> None:
        self._env.close()


class Rescaled:
    """A VecEnv whose rewards are those of another, times a factor."""

    def __init__(self, env: VecEnv, factor: float) -> None:
        self._env, self._factor = env, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, action: Tensor) -> Step:
        step = self._env.step(action)
        said = step.said
        if said is not None:
            # Terms are parts of the reward; a cost is not.
            said = said * torch.tensor([1.0 if name == COST else self._factor for name in self._env.step_info], device=said.device)  # type: ignore[attr-defined]
        return step._replace(reward=step.reward * self._factor, said=said)


class Reweighted:
    """A VecEnv whose rewards have other weights of their terms, each member its own."""

    def __init__(self, env: Any, weights: list[dict[str, float]]) -> None:
        """Whose steps tell the terms (`step_info`); `weights` are factors by term, for every member."""
        self._env = self.unweighted = env
        more = [
            [weights[m].get(name.removeprefix(TERM), 1.0) - 1.0 if name.startswith(TERM) else 0.0 for name in env.step_info]
            for m in range(env.members)
        ]
        self._more = torch.tensor(more).view(env.members, 1, -1)
        if env.info is not None:
            env.info.weigh(weights)

    @property
    def term_factors(self) -> Tensor:
        """What each number that a step tells is learned times, [M, 1, K]."""
        return 1.0 + self._more

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, action: Tensor) -> Step:
        step: Step = self._env.step(action)
        assert step.said is not None
        return step._replace(reward=step.reward + (step.said * self._more.to(step.said.device)).sum(-1))


def _check_time(env: VecEnv) -> None:
    if env.max_episode_steps is None:
        raise ConfigError(
            "env.time_in_obs is on, but the environment has no time limit.\n  There is no share of a limit to show.\n  Try: ",
            Change("env.max_episode_steps", 1000),
            ", or ",
            Change("env.time_in_obs", False),
        )
    if len(env.obs_shape) != 1 or env.picture is not None:
        raise ConfigError(
            f"env.time_in_obs is on, but observations have the shape {env.obs_shape}.\n"
            "  The time can be appended to a vector only.\n  Try: ",
            Change("env.time_in_obs", False),
        )


def _check_picture(picture: Picture) -> None:
    if picture.vector:
        raise ConfigError(
            f"env.frame_stack is on, but observations are an image with {picture.vector} numbers beside it.\n"
            "  Frames are stacked as channels of an image, and there is no such axis for the numbers.\n  Try: ",
            Change("env.frame_stack", 1),
            ", or stack inside the environment",
        )
