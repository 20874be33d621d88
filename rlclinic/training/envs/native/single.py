"""Our own environments one at a time, as Gymnasium's interface has them: for wrappers, films, `lint --env` and scripts of users."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from rlclinic.training.envs import native
from rlclinic.training.envs.native.tables import Table


class Single(gym.Env[Any, Any]):
    """One copy of a native environment. A table's observation is the number of its state; `P` and `initial_state_distrib` are its table."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 — Gymnasium's own attribute

    def __init__(self, env_id: str, render_mode: str | None = None, **kwargs: Any) -> None:
        self._dynamics = dynamics = native.CATALOG[env_id].build("cpu", **kwargs)
        self.render_mode = render_mode
        self.observation_space: gym.Space[Any]
        if isinstance(dynamics, Table):
            self.P, self.initial_state_distrib = dynamics.table, dynamics.initial
            self.observation_space = gym.spaces.Discrete(len(dynamics.table))
        else:
            self.observation_space = gym.spaces.Box(dynamics.obs_low, dynamics.obs_high, dtype=np.float32)
        self.action_space = gym.spaces.Discrete(dynamics.action.sizes[0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self._dynamics.start(torch.tensor(self.np_random.random(self._dynamics.noise), dtype=torch.float32))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        state, reward, terminated = self._dynamics.advance(self._state, torch.tensor(int(action)), None)
        self._state = state
        success = self._dynamics.success(state)
        info = {} if success is None else {"is_success": bool(success)}
        return self._observe(), float(reward), bool(terminated), False, info

    def _observe(self) -> Any:
        return int(self._state) if isinstance(self._dynamics, Table) else self._dynamics.observe(self._state).numpy()
