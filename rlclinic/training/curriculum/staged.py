"""Environments under a curriculum: tells every member's sampler which episodes have ended, and plays what it chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from rlclinic.actions import Change
from rlclinic.curriculum import Ended, make_sampler
from rlclinic.errors import ConfigError
from rlclinic.training import envs
from rlclinic.training.curriculum.assignment import Assignment
from rlclinic.training.data import info_columns
from rlclinic.training.envs import assembly
from rlclinic.training.envs.wrappers import Reweighted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlclinic.config import Config
    from rlclinic.curriculum import Sampler
    from rlclinic.training.envs.base import Step, VecEnv
    from rlclinic.training.evaluation import Evaluation

    Factory = Callable[..., Any]

PREFIX: Final = "curriculum."
"""Before the names of a sampler's state in checkpoints."""
SILENT_EPISODES: Final = 100
"""So many episodes without a word about success, in all of a cohort: the environment reports none."""
COLUMNS: Final = ("stage", "stage_env_steps", "success", "lower_bound", "promoted_at", "promotions", "demotions", "escapes", "target_share")
AUTOMATIC_COLUMNS: Final = ("stage", "spread", "target_share")


def columns(config: Config) -> list[str]:
    """The columns of a run with a curriculum."""
    curriculum = config.curriculum
    if curriculum is None:
        return []
    names = COLUMNS if curriculum.kind == "stages" else AUTOMATIC_COLUMNS
    found = [f"train/curriculum/{name}" for name in names]
    if curriculum.levels is None and (curriculum.kind == "stages" or curriculum.evaluates_tasks):
        numbers = range(1, len(curriculum.tasks) + 1)
        found += [f"train/stage/{number}/{what}" for what in ("success_rate", "episodes") for number in numbers]
    if curriculum.evaluates_tasks and config.run.eval_episodes:
        found += [f"val/stage/{number}/success_rate" for number in range(1, len(curriculum.tasks) + 1)]
    return found


def make(config: Config, seeds: list[int], device: str, factory: Factory | None = None, share: slice | None = None) -> VecEnv:
    """What a cohort trains in: the config's own environments, or those of its curriculum; share: of each member's, these alone."""
    settings = config.env.reading(info_columns.list_step_numbers(config))
    if config.curriculum is None:
        first, last = (0, config.env.n_envs) if share is None else (share.start, share.stop)
        env = envs.make(settings, seeds, last - first, device=device, factory=factory, first_env=first)
        return info_columns.check_told(env, settings)
    tasks = Assignment(settings, config.curriculum.tasks, len(seeds), config.env.n_envs, factory)
    samplers = [make_sampler(config.curriculum, config.env.n_envs, config.run.max_env_steps) for _ in seeds]
    tasks.give(np.stack([sampler.chances for sampler in samplers]))
    env = info_columns.check_told(assembly.assemble(settings, seeds, config.env.n_envs, device, False, factory, tasks), settings)
    if config.curriculum.success_return is None and not tasks.reports_success():
        raise _no_success(config.env.id)
    return Staged(env, tasks, samplers, config)


def make_for_evaluation(config: Config, seeds: list[int], device: str, factory: Factory | None = None) -> VecEnv | None:
    """Every task side by side, `curriculum.eval_episodes` copies of each; None where tasks are not evaluated one by one."""
    curriculum = config.curriculum
    if curriculum is None or not curriculum.evaluates_tasks or not config.run.eval_episodes:
        return None
    copies = curriculum.eval_episodes * len(curriculum.tasks)
    tasks = Assignment(config.env, curriculum.tasks, len(seeds), copies, factory, fixed=True)
    return assembly.assemble(config.env, seeds, copies, device, True, factory, tasks)


def rate_tasks(config: Config, evaluated: Evaluation, member: int) -> dict[str, float | None]:
    """The share of successes in each task of an evaluation of all of them, by column."""
    curriculum = config.curriculum
    assert curriculum is not None
    success = evaluated.success[member]
    if curriculum.success_return is not None:
        success = (evaluated.returns[member] >= curriculum.success_return).astype(float)
    by_task = np.nan_to_num(success).reshape(len(curriculum.tasks), -1).mean(1)
    return {f"val/stage/{number + 1}/success_rate": float(rate) for number, rate in enumerate(by_task)}


def _no_success(name: str) -> ConfigError:
    return ConfigError(
        f"curriculum: {name} does not say which episodes succeed (info['is_success']).\n"
        "  No task could be told to be mastered or learned.\n  Try: ",
        Change("curriculum.success_return", "RETURN"),
        ", the return that counts as a success",
    )


class Staged:
    """A VecEnv whose episodes are of tasks that each member's own sampler chooses. Samplers learn between iterations."""

    def __init__(self, env: VecEnv, tasks: Assignment, samplers: list[Sampler], config: Config) -> None:
        curriculum = config.curriculum
        assert curriculum is not None
        self._env, self._tasks, self._samplers = env, tasks, samplers
        self._id, self._success_return = config.env.id, curriculum.success_return
        self._scores = curriculum.kind == "plr"
        self._silent = 0
        self._returns = np.zeros((env.members, env.n_envs))
        self._playing = np.zeros((env.members, env.n_envs), np.int64)
        self._ended: list[list[tuple[int, int, bool]]] = [[] for _ in samplers]
        """By member: env, task and success of episodes since `learn`."""
        self._trail: list[np.ndarray] = []
        """What was played at each step since `learn`, where advantages are asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self) -> Tensor:
        """All episodes anew."""
        return self._begin(self._env.reset())

    def _begin(self, obs: Tensor) -> Tensor:
        self._returns[:] = 0.0
        self._playing = self._tasks.playing()
        for ended in self._ended:
            ended.clear()
        self._trail.clear()
        return obs

    def step(self, action: Tensor) -> Step:
        """One step of all envs; episodes that end are kept for `learn`."""
        if self._scores:
            self._trail.append(self._playing)
        step = self._env.step(action)
        if self._success_return is not None:
            self._returns += step.reward.cpu().numpy()
        over = step.terminated | step.truncated
        if step.valid is not None:
            over = over & step.valid
        if over.any():
            self._note(over.cpu().numpy(), None if step.success is None else step.success.cpu().numpy())
        return step

    def _note(self, over: np.ndarray, success: np.ndarray | None) -> None:
        for member, env in zip(*np.nonzero(over), strict=True):
            if self._success_return is not None:
                reached = bool(self._returns[member, env] >= self._success_return)
            else:
                said = np.nan if success is None else success[member, env]
                self._silent = self._silent + 1 if np.isnan(said) and self._silent >= 0 else -1 if not np.isnan(said) else self._silent
                reached = bool(said == 1)
            self._ended[member].append((int(env), int(self._playing[member, env]), reached))
        if self._silent >= SILENT_EPISODES:
            raise _no_success(self._id)
        self._returns[over] = 0.0
        self._playing = self._tasks.playing()

    def score(self, advantage: Tensor) -> None:
        """Tell samplers that ask for it how wrong values were: advantages [M, T * N] of the steps since `learn`."""
        if self._scores:
            played, size = np.stack(self._trail, 1), advantage.abs().double().cpu().numpy()
            for sampler, tasks, sizes in zip(self._samplers, played, size, strict=True):
                sampler.score(tasks.ravel(), sizes)

    def learn(self, env_steps: int) -> list[tuple[int, str]]:
        """Tell samplers what has ended, and take over what they choose; (member, what has changed) for the log."""
        said = []
        self._trail.clear()
        for member, (sampler, ended) in enumerate(zip(self._samplers, self._ended, strict=True)):
            rows = np.array(ended, np.int64).reshape(-1, 3)
            said += [(member, text) for text in sampler.add(Ended(rows[:, 0], rows[:, 1], rows[:, 2].astype(bool)), env_steps)]
            ended.clear()
        self._tasks.give(np.stack([sampler.chances for sampler in self._samplers]))
        return said

    def cells(self) -> dict[str, list[float | None]]:
        """Every member's cells, by column."""
        rows = [sampler.cells() for sampler in self._samplers]
        return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}

    def state(self) -> dict[str, Tensor]:
        """The envs', and the samplers' beside it."""
        return self._env.state() | self._own_state()

    def _own_state(self) -> dict[str, Tensor]:
        states = [sampler.state() for sampler in self._samplers]
        own = {PREFIX + name: torch.from_numpy(np.stack([each[name] for each in states])) for name in states[0]}
        return own | {PREFIX + "returns": torch.from_numpy(self._returns.copy())}

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        """Go on from `state()`. What another curriculum knew is left behind: the samplers begin anew."""
        own = {name.removeprefix(PREFIX): each.cpu().numpy() for name, each in state.items() if name.startswith(PREFIX)}
        fresh = self._own_state()  # the envs have none before they begin
        fits = all(name in state and state[name].shape == each.shape for name, each in fresh.items())
        if fits:
            for member, sampler in enumerate(self._samplers):
                sampler.load({name: each[member] for name, each in own.items()})
        # Before the envs: those that begin new episodes draw them now.
        self._tasks.give(np.stack([sampler.chances for sampler in self._samplers]))
        obs = self._begin(self._env.load_state({name: each for name, each in state.items() if not name.startswith(PREFIX)}))
        if fits and self._env.exact:
            self._returns = own["returns"].copy()
        return obs


def find(env: Any) -> Staged | None:
    """The curriculum that a cohort's environments are under, also where they are wrapped once more (env.term_weights)."""
    return env if isinstance(env, Staged) else find(env.unweighted) if isinstance(env, Reweighted) else None
