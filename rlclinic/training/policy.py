"""A trained policy to act with: loaded from a checkpoint, fed single observations or batches."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.actions import Action, Argument
from rlclinic.config import Config
from rlclinic.errors import NotFound, UsageError
from rlclinic.runs.record import Run
from rlclinic.training import assembly, envs, evaluation
from rlclinic.training.algos.offline import dt
from rlclinic.training.checkpoints import files, snapshot
from rlclinic.training.envs import atari, making, native, spaces
from rlclinic.training.evaluation import Evaluation
from rlclinic.training.loops.off_policy import Learner
from rlclinic.training.recording import films
from rlclinic.training.recording.films import Episode


class Policy:
    """What a checkpoint learned. `act` takes the environment's own observations and gives actions that it accepts."""

    def __init__(self, config: Config, path: Path, factory: Callable[..., Any] | None = None) -> None:
        self.config, self.path = config, path
        saved = files.read(path)
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
        row = np.zeros(observations.shape, dtype=observations.dtype)
        if observations.write is None:
            row[...] = obs
        else:
            observations.write(row, obs)
        vector = torch.from_numpy(row).view(1, 1, *observations.shape)
        mask = None if action_mask is None else torch.as_tensor(action_mask, dtype=torch.bool).view(1, 1, -1)
        seed = torch.tensor([[self.config.seed]])
        self._draws += not deterministic
        action = evaluation.actor(self._plan, self._learner, 1, deterministic=deterministic, seed=seed)(vector, mask, self._draws)
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
        env = making.make_single(self.config.env) if self._factory is None else self._own(self._factory)
        making.close(env)
        if isinstance(env, VectorEnv):
            return spaces.observations(env.single_observation_space, name), spaces.actions(env.single_action_space, name)
        return spaces.observations(env.observation_space, name), spaces.actions(env.action_space, name)

    def _own(self, factory: Callable[..., Any]) -> Any:
        """What the user's factory makes: an environment with the config's wrappers, or a vector of them."""
        made = making.call_factory(self.config.env, factory, self.config.env.n_envs)
        return made if isinstance(made, VectorEnv) else making.wrap(self.config.env, made, factory)

    def evaluate(self, episodes: int = 20, *, deterministic: bool = True, target_return: float | None = None) -> Evaluation:
        """Play whole episodes from the fixed evaluation starts.

        target_return: what a Decision Transformer is asked for instead of what it was saved with.
        """
        learner = self._learner if target_return is None else self._asked_for(target_return)
        env = envs.make(self.config.env, [self.config.seed], episodes, evaluation=True, factory=self._factory)
        try:
            seed = torch.tensor([[self.config.seed]])
            result = evaluation.evaluate(self._plan, learner, env, deterministic=deterministic, seed=seed, wanted=[True])
            if env.failures:
                raise env.failures[0]
            return result
        finally:
            env.close()

    def _asked_for(self, target_return: float) -> Learner:
        """The weights, asked for another return."""
        learner = self._learner
        if not isinstance(learner, Learner) or dt.CONDITION not in learner.nets:
            raise UsageError(
                f"{self.config.algo.name} is asked for no return: only dt takes one.\n  Nothing would change.\n  Leave out: ",
                Argument("target_return", target_return),
            )
        _, scale = learner.nets[dt.CONDITION].split(1, dim=1)
        asked = torch.cat([torch.full_like(scale, target_return), scale], 1)
        return replace(learner, nets={**learner.nets, dt.CONDITION: asked})

    @property
    def target_return(self) -> float | None:
        """What a Decision Transformer is asked for; None for others."""
        learner = self._learner
        return float(learner.nets[dt.CONDITION][0, 0]) if isinstance(learner, Learner) and dt.CONDITION in learner.nets else None

    def make_envs(self, seed: int, copies: int) -> envs.VecEnv:
        """Fresh copies of the environment it was trained in, as in training: one episode after another."""
        return envs.make(self.config.env, [seed], copies, factory=self._factory)

    def actor(self, copies: int, *, deterministic: bool, seed: int) -> evaluation.Actor:
        """What it does in that many copies, as they take it."""
        if evaluation.sees_episodes(self._plan):
            raise UsageError(
                f"{self.config.algo.name} acts by the steps of its episode and by what they paid, which is not known here.\n"
                "  Its actions would be wrong.\n  Use: ",
                Action("evaluate", self.path.parent.parent.name),
                ", or policy.evaluate(episodes)",
            )
        return evaluation.actor(self._plan, self._learner, copies, deterministic=deterministic, seed=torch.tensor([[seed]]))

    @torch.no_grad()
    def watch(
        self, starts: Sequence[int], show: Callable[[Any], None] | None, render_mode: str | None, *, deterministic: bool = True
    ) -> list[Evaluation]:
        """Play one episode from each of these seeds and show every picture; also for policies that need what came before."""
        settings = self.config.env
        kwargs = settings.kwargs if render_mode is None else {**settings.kwargs, "render_mode": render_mode}
        shown = {"kwargs": kwargs, "native": "never", "workers": 0}
        env: Any = envs.make(settings.model_copy(update=shown), [self.config.seed], 1, evaluation=True, factory=self._factory)
        act = evaluation.actor(self._plan, self._learner, 1, deterministic=deterministic, seed=torch.tensor([[self.config.seed]]))

        def look(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
            if show is not None:
                show(env.render())
            return act(obs, mask, t)

        played = []
        try:
            for start in starts:
                env.start_from(start)
                played.append(evaluation.play(env, look, [True], observe=getattr(act, "observe", None)))
                if env.failures:
                    raise env.failures[0]
            return played
        finally:
            env.close()

    def record(self, *, deterministic: bool = True) -> Episode:
        """One episode from the first evaluation start, in pictures (where the environment has any) and in numbers."""
        act = evaluation.actor(self._plan, self._learner, 1, deterministic=deterministic, seed=torch.tensor([[self.config.seed]]))
        return films.play(self.config.env, [self.config.seed], act, "cpu", self._factory)[0]

    @property
    def remembers(self) -> str | None:
        """Why one observation of the environment alone is not what the policy saw; None where it is."""
        env = self.config.env
        if env.frame_stack > 1:
            return "env.frame_stack"
        if env.time_in_obs:
            return "env.time_in_obs"
        if evaluation.sees_episodes(self._plan):
            return "algo.context"
        return "frames that ALE skips and scales by itself" if self._factory is None and atari.steps(env) else None

    def _check_stateless(self) -> None:
        if self.remembers is not None:
            raise UsageError(
                f"this policy was trained with {self.remembers}: one observation alone is not what it saw.\n"
                "  Its actions would be wrong.\n"
                "  Use: ",
                Action("evaluate", self.path.parent.parent.name),
                ", or policy.evaluate(episodes)",
            )


def load(run: Run, which: str = "@best", factory: Callable[..., Any] | None = None, config: Config | None = None) -> Policy:
    """The policy of a run's checkpoint: @best, @last or a step. config: the run's, with its environment under another name."""
    path = run.checkpoint(which).path
    try:
        return Policy(config or run.config, path, factory)
    except NotFound as error:
        if factory is not None:
            raise
        raise NotFound(f"{error}\n  If it was trained on an object of yours, pass that again: run.policy({which!r}, env=MyEnv)") from None
