"""Train on an environment of your own: pass the class, no registration needed.

python examples/own_environment.py [ENV_STEPS]
"""

import sys
from typing import Any

import gymnasium
import numpy as np

import rlclinic


class Thermostat(gymnasium.Env[Any, Any]):
    """Keep a room at 21 degrees: the observation is (inside, outside) in degrees from the target, the action heats or not."""

    observation_space = gymnasium.spaces.Box(-40.0, 40.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.inside, self.outside = self.np_random.uniform(-6, 6), self.np_random.uniform(-20, 0)
        self.steps = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.inside += 0.05 * (self.outside - self.inside) + 1.5 * int(action)
        self.steps += 1
        # A day is over after 96 quarter hours: a limit of the clock, not of the task, so it is a truncation.
        return self._obs(), -abs(self.inside) / 10, False, self.steps >= 96, {}

    def _obs(self) -> Any:
        return np.array([self.inside, self.outside], np.float32)


# The command line takes the class as it is: rlclinic train examples/own_environment.py:Thermostat. An id is needed only for gymnasium.make.
gymnasium.register("Thermostat-v0", entry_point=Thermostat, max_episode_steps=96)


if __name__ == "__main__":
    env_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    config = {
        "name": "Thermostat",
        "spec": {"threshold": -8.0},
        "env": {"id": "Thermostat", "n_envs": 8, "normalize_obs": True},
        "algo": {"name": "ppo", "n_steps": 96, "batch_size": 192, "n_epochs": 10, "gamma": 0.9, "learning_rate": 1e-3},
        "run": {"max_env_steps": env_steps, "eval_every_env_steps": env_steps // 5},
    }
    group = rlclinic.train(config, env=Thermostat, seeds=2)
    for run in group.runs:
        steps, returns, _ = run.evaluations
        print(run.id, "  ".join(f"{int(step)}: {value:.1f}" for step, value in zip(steps, returns, strict=True)))
