"""A trained policy to act with: loaded from a checkpoint, fed single observations or batches."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rlclinic.config import Config
from rlclinic.errors import UsageError
from rlclinic.runs.record import Run
from rlclinic.training import assembly, checkpoint, envs, snapshot
from rlclinic.training.envs import making, native, spaces
from rlclinic.training.evaluation import Evaluation
from rlclinic.training.evaluation import evaluate as evaluate_cohort
from rlclinic.training.loops import on_policy
from rlclinic.training.nets import mlp


class Policy:
    """What a checkpoint learned. `act` takes the environment's own observations and gives actions that it accepts."""

    def __init__(self, config: Config, path: Path, factory: Callable[..., Any] | None = None) -> None:
        self.config, self.path = config, path
        saved = checkpoint.read(path)
        self.env_steps = saved.env_steps
        # A factory of vector environments may know only the size that it was trained with.
        env = envs.make(config.env, [config.seed], 1 if factory is None else config.env.n_envs, factory=factory)
        self._plan = assembly.plan_for(config, env)
        env.close()
        self._factory = factory
        self._learner = snapshot.weights(self._plan.policy, [saved], assembly.fresh_learner(self._plan, [config.seed], 1), optimizer=False)
        self._draws = 0

    @torch.no_grad()
    def act(self, obs: Any, *, deterministic: bool = True, action_mask: NDArray[np.bool_] | None = None) -> Any:
        """The action for one observation, as `env.step` takes it.

        deterministic: the most likely action (the mean of a continuous one); else a sample. Continuous actions are
        clipped to the environment's bounds. Frame stacking and time in the observation need the past, so policies
        trained with them act only inside `evaluate` and `play`.
        """
        self._check_stateless()
        observations, actions = self._spaces
        row = np.zeros(observations.shape, dtype=np.float32)
        if observations.write is None:
            row[...] = obs
        else:
            observations.write(row, obs)
        vector = torch.from_numpy(row).view(1, 1, -1)
        mask = None if action_mask is None else torch.as_tensor(action_mask, dtype=torch.bool).view(1, 1, -1)
        shown = on_policy.see(self._plan, self._learner, vector)
        dist = mlp.actor(self._plan.policy, self._plan.policy.layout.views(self._learner.flat), shown, mask)
        distribution = self._plan.policy.distribution
        if deterministic:
            action = distribution.mode(dist)
        else:
            self._draws += 1
            action = distribution.sample(dist, distribution.noise(torch.tensor([[self.config.seed]]), self._draws, 0))
        return next(iter(actions.decode(action[0].numpy())))

    @cached_property
    def _spaces(self) -> tuple[spaces.Observations, spaces.Actions]:
        """How the environment's own observations and actions translate to the network's."""
        name = making.name_of(self.config.env, self._factory)
        if self._factory is None and self.config.env.id in native.PROBES:
            # Probes exist only as native environments: their observations are the vectors that the network saw.
            probe = envs.make(self.config.env, [self.config.seed], 1)
            box = gymnasium.spaces.Box(probe.obs_low, probe.obs_high)
            count, low, high = probe.action.sizes[0], probe.action.low, probe.action.high
            choice = gymnasium.spaces.Discrete(count) if low is None or high is None else gymnasium.spaces.Box(low, high)
            return spaces.observations(box, name), spaces.actions(choice, name)
        env = making.single(self.config.env) if self._factory is None else self._own(self._factory)
        env.close()
        if isinstance(env, VectorEnv):
            return spaces.observations(env.single_observation_space, name), spaces.actions(env.single_action_space, name)
        return spaces.observations(env.observation_space, name), spaces.actions(env.action_space, name)

    def _own(self, factory: Callable[..., Any]) -> Any:
        """What the user's factory makes: an environment with the config's wrappers, or a vector of them."""
        made = making.called(self.config.env, factory, self.config.env.n_envs)
        return made if isinstance(made, VectorEnv) else making.dressed(self.config.env, made, factory)

    def evaluate(self, episodes: int = 20, *, deterministic: bool = True) -> Evaluation:
        """Play whole episodes from the fixed evaluation starts."""
        env = envs.make(self.config.env, [self.config.seed], episodes, evaluation=True, factory=self._factory)
        try:
            seed = torch.tensor([[self.config.seed]])
            result = evaluate_cohort(self._plan, self._learner, env, deterministic=deterministic, seed=seed, wanted=[True])
            if env.failures:
                raise env.failures[0]
            return result
        finally:
            env.close()

    def _check_stateless(self) -> None:
        env = self.config.env
        if env.frame_stack > 1 or env.time_in_obs:
            what = "frame_stack" if env.frame_stack > 1 else "time_in_obs"
            raise UsageError(
                f"this policy was trained with env.{what}: one observation alone is not what it saw.\n"
                f"  Its actions would be wrong.\n"
                f"  Use: rlclinic evaluate {self.path.parent.parent.name}, or policy.evaluate(episodes)"
            )


def load(run: Run, which: str = "@best", factory: Callable[..., Any] | None = None) -> Policy:
    """The policy of a run's checkpoint: @best, @last or a step."""
    return Policy(run.config, run.checkpoint(which).path, factory)
