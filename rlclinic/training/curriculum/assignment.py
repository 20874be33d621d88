"""Which tasks there are, which each env plays, and how environments that play them are made."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlclinic.config.gymnasium_registry import OWN_ENVIRONMENTS
from rlclinic.errors import ConfigError, nearest
from rlclinic.training.envs import atari, native
from rlclinic.training.envs.native.mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from rlclinic.config import EnvConfig, Task
    from rlclinic.training.envs.native.dynamics import Dynamics
    from rlclinic.training.envs.native.engine import NativeEnv

    Factory = Callable[..., Any]


class Assignment:
    """The tasks of M members x N envs. Either drawn for every episode by each member's chances, or fixed."""

    def __init__(
        self, config: EnvConfig, tasks: tuple[Task, ...], members: int, n_envs: int, factory: Factory | None, *, fixed: bool = False
    ) -> None:
        """fixed: the envs are divided among the tasks, in their order, for good."""
        self.tasks, self._factory = tasks, factory
        self._members, self._n_envs = members, n_envs
        by_kwargs: dict[str, int] = {}
        keys = [json.dumps(task.kwargs, sort_keys=True, default=str) for task in tasks]
        self._version_of = [by_kwargs.setdefault(key, len(by_kwargs)) for key in keys]
        firsts = [self._version_of.index(version) for version in range(len(by_kwargs))]
        self._names = [tasks[first].name for first in firsts]
        # env.kwargs are those of the last task, too: what it alone names is the environment's own default in the others.
        shared = {key: value for key, value in config.kwargs.items() if key not in tasks[-1].kwargs}
        self.versions = [config.model_copy(update={"kwargs": {**shared, **tasks[first].kwargs}}) for first in firsts]
        self._levels = None if tasks[0].level is None else [int(task.level or 0) for task in tasks]
        self._fixed = np.repeat(np.arange(len(tasks)), n_envs // len(tasks)) if fixed else None
        self._until = np.ones((members, len(tasks)))
        self._mixture: Mixture | None = None
        self._native: NativeEnv | None = None
        self._singles: list[Any] = []
        self._id = config.id
        if factory is None and atari.steps(config):
            self.refuse("an Atari game")
        for first, version in zip(firsts, self.versions, strict=True):
            _check_parameters(tasks[first], version, factory)

    def refuse(self, what: str) -> None:
        """For environments that are stepped as vectors of their own making."""
        raise ConfigError(
            f"curriculum: {self._id} is {what}, which makes and resets its copies by itself.\n"
            "  No copy could be given a task of its own.\n"
            "  Try: a single environment (gymnasium.Env), or no curriculum"
        )

    def objection(self) -> str | None:
        """Why the tasks cannot be stepped natively; None if they can."""
        return next((reason for version in self.versions if (reason := native.objection(version)) is not None), None)

    def build(self, device: str) -> Mixture:
        """All tasks as one native environment."""
        versions = [native.build_dynamics(version, device) for version in self.versions]
        for version, name in zip(versions, self._names, strict=True):
            self._check_shapes(name, (version.obs_shape, version.action.kind, version.action.sizes), _shapes_of(versions[-1]))
        self._mixture = Mixture(versions, self._version_of, self._levels, device)
        if self._fixed is not None:
            self._mixture.fixed = torch.tensor(self._fixed, device=device)
        self._hand_out()
        return self._mixture

    def attach(self, env: NativeEnv) -> None:
        """The env that steps what `build` has made."""
        self._native = env

    def make_single(self, index: int) -> gym.Env[Any, Any]:
        """The Gymnasium environment of one copy: its member and env are index // N and index % N."""
        # Imported here, with Gymnasium: native environments need not wait for it.
        from rlclinic.training.curriculum.switching import Switching
        from rlclinic.training.envs import making, spaces

        def make(version: int) -> gym.Env[Any, Any]:
            return making.make_single(self.versions[version], self._factory)

        first = make(self._version_of[-1])
        if not index:
            name = making.name_of(self.versions[-1], self._factory)

            def shapes(env: gym.Env[Any, Any]) -> tuple[Any, ...]:
                action = spaces.actions(env.action_space, name).spec
                return spaces.observations(env.observation_space, name).shape, action.kind, action.sizes

            for version, label in enumerate(self._names):
                other = make(version)
                self._check_shapes(label, shapes(other), shapes(first))
                making.close(other)
        member, env = divmod(index, self._n_envs)
        single = Switching(first, make, self._version_of, self._levels, lambda number: self._draw(member, env, number))
        self._singles.append(single)
        return single

    def _draw(self, member: int, env: int, number: float) -> int:
        if self._fixed is not None:
            return int(self._fixed[env])
        return int(np.searchsorted(self._until[member], number, side="right"))

    def give(self, chances: np.ndarray) -> None:
        """Each member's chances of the tasks for episodes that begin from now on, [M, K]."""
        until = np.cumsum(chances, 1)
        # Rounding must not leave anything for tasks of no chance: the last one that has any takes the rest.
        last = chances.shape[1] - 1 - (chances[:, ::-1] > 0).argmax(1)
        until[np.arange(chances.shape[1]) >= last[:, None]] = 2.0
        if not np.array_equal(until, self._until):
            self._until = until
            self._hand_out()

    def _hand_out(self) -> None:
        if self._mixture is not None:
            self._mixture.until = torch.tensor(self._until, dtype=torch.float32, device=self._mixture._version_of.device)
        if self._native is not None:
            self._native.forget_starts()

    def playing(self) -> np.ndarray:
        """The task that each env plays now, [M, N]."""
        if self._native is not None:
            return self._native.here().state[..., -1].long().cpu().numpy()
        return np.array([single.task for single in self._singles]).reshape(self._members, self._n_envs)

    def reports_success(self) -> bool:
        """Whether episodes can say that they succeeded; of Gymnasium's environments that is not known before they do."""
        if self._mixture is None or self._native is None:
            return True
        return self._mixture.success(self._native.here().state) is not None

    def _check_shapes(self, name: str, here: tuple[Any, ...], target: tuple[Any, ...]) -> None:
        for what, ours, theirs in zip(("observations of the shape", "actions that are", "actions of the sizes"), here, target, strict=True):
            if ours != theirs:
                raise ConfigError(
                    f"curriculum: {name} has {what} {ours}, but {self._names[-1]} has {theirs}.\n"
                    "  One network acts in all tasks: what it sees and does must have one shape.\n"
                    f"  Try: arguments of {self._id} that leave its spaces as they are, or observations padded to one size"
                )


def _shapes_of(dynamics: Dynamics) -> tuple[Any, ...]:
    return dynamics.obs_shape, dynamics.action.kind, dynamics.action.sizes


def _check_parameters(task: Task, version: EnvConfig, factory: Factory | None) -> None:
    """ConfigError if the environment takes no argument that the task sets."""
    entry = native.CATALOG.get(version.id) if factory is None else None
    taken = set(entry.kwargs) if entry is not None else set()
    if set(task.kwargs) <= taken:
        return
    from gymnasium.envs import registration

    from rlclinic.training.envs import making

    maker: Any = making.spec_for(version).entry_point if factory is None else factory
    try:
        parameters = inspect.signature(registration.load_env_creator(maker) if isinstance(maker, str) else maker).parameters
    except (TypeError, ValueError):  # a callable from C has no signature to read; making it says what is wrong
        return
    own = version.id in OWN_ENVIRONMENTS and factory is None  # they hand arguments on to what was looked at above
    if not own and any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    known = sorted(taken | ({key for key in parameters if key != "render_mode"} if not own else set()))
    for key in task.kwargs:
        if key not in known:
            near = nearest(key, known)
            offered = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"curriculum: {task.name} sets {key}, but {making.name_of(version, factory)} has no such parameter.\n"
                "  All stages would be the same task, or none could be made.\n"
                f"  Try: {offered}{'it takes ' + ', '.join(known) if known else 'it takes none: add one to its __init__'}"
            )
