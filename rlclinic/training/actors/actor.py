"""An actor: environments of its own, played for one rollout at a time with the weights that it was given. The same wherever it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.training import envs, rng
from rlclinic.training.data import info_columns
from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Learner, Plan, Position
from rlclinic.training.maths.normalize import Moments

Arrays = dict[str, np.ndarray]
SENT: Final = (
    "obs", "next_obs", "action", "dist", "log_prob", "reward", "terminated", "truncated", "valid", "success", "action_mask", "goes_on",
    "said",
)  # fmt: skip
"""What travels of a rollout; the rest follows from it."""


@dataclass(frozen=True)
class ActorPlan:
    """What an actor is made from; it is sent once."""

    config: Config
    seeds: tuple[int, ...]
    """The members' seeds."""
    number: int
    """Which of the actors it is."""
    lives: int
    """How often its environments were begun anew, because a run was resumed or an actor had died: other episodes each time."""
    corrections: tuple[str, ...]
    factory: Callable[..., Any] | None = None

    def own_seeds(self) -> list[int]:
        """Seeds of this actor alone, one for each member: no two actors play the same episodes or draw the same actions."""
        bits = rng.bits(torch.tensor(self.seeds), rng.ACTOR, self.number, self.lives)
        return [int(each) for each in (bits & 0x7FFFFFFF).tolist()]


class Order(NamedTuple):
    """A rollout that an actor is asked for."""

    turn: int
    """Rollouts that it has collected before: what its random numbers are counted by."""
    flat: np.ndarray
    """The weights to play with, [M, P]."""
    stats: tuple[np.ndarray, ...] | None
    """The normalizer of observations that belongs to them."""
    start: Arrays | None
    """Where its environments shall stand; None: where they are."""
    retired: tuple[int, ...] = ()
    """Members that train no more."""


class Where(NamedTuple):
    """Where an actor's environments stand, and what it would act on next."""

    obs: np.ndarray
    action_mask: np.ndarray | None
    state: Arrays
    failures: tuple[tuple[int, str], ...] = ()
    """Members whose environment broke, and how."""


class Collected(NamedTuple):
    """A rollout, and where it has led."""

    steps: Arrays
    where: Where
    env_seconds: float
    seconds: float
    episodes: tuple[tuple[int, np.ndarray], ...] = ()
    """What episodes that ended have said of themselves, as (member, values); see `info_columns.Window`."""


class ActorDied(Exception):
    """It will not answer any more; the text says how it ended."""


class Transport(Protocol):
    """One actor as the learner sees it, wherever it is."""

    def ask(self, order: Order) -> None:
        """Have it collect a rollout; returns at once."""
        ...

    def hear(self) -> Any:
        """What it has to say (first where it stands, then a rollout for each order); waits for it. ActorDied if it never will."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def close(self) -> None:
        """End it; whatever it is doing is wanted by nobody."""
        ...


class Actor:
    """Plays on a CPU with one thread: what it waits for is its environments."""

    def __init__(self, given: ActorPlan) -> None:
        from rlclinic.training import assembly  # which makes pools of actors

        torch.set_num_threads(1)
        config, seeds = given.config, given.own_seeds()
        settings = config.env.reading(info_columns.list_step_numbers(config))
        self._env = envs.make(settings, seeds, config.env.n_envs, factory=given.factory)
        plan = assembly.plan_for(config, self._env, given.corrections)
        assert isinstance(plan, Plan)
        self._plan = plan
        self._seed = torch.tensor(seeds, dtype=torch.int64).view(-1, 1, 1)
        self._position = Position(self._env.reset(), self._env.action_mask)
        self._info: info_columns.Window | None = getattr(self._env, "info", None)

    def where(self) -> Where:
        """Where its environments stand."""
        mask = self._position.action_mask
        failures = tuple((member, str(error)) for member, error in self._env.failures.items())
        state = arrays(self._env.state()) if self._env.exact else {}
        return Where(self._position.obs.numpy(), None if mask is None else mask.numpy(), state, failures)

    def collect(self, order: Order) -> Collected:
        """One rollout of every member with the weights of the order."""
        began, clock = perf_counter(), {"env": 0.0}
        self._env.retire(order.retired)
        if order.start is not None:
            self._position = Position(self._env.load_state(tensors(order.start)), self._env.action_mask)
        stats = None if order.stats is None else Moments(*(torch.from_numpy(each) for each in order.stats))
        learner = Learner(torch.from_numpy(order.flat), None, stats)  # type: ignore[arg-type]  # nothing is learned here
        if self._info is not None:
            self._info.fresh = []
        rollout = on_policy.collect(self._plan, learner, self._env, self._position, self._seed, order.turn, clock)
        steps = arrays({name: each for name in SENT if (each := getattr(rollout, name)) is not None})
        episodes = () if self._info is None else tuple(self._info.fresh or ())
        return Collected(steps, self.where(), clock["env"], perf_counter() - began, episodes)

    def close(self) -> None:
        """Free its environments."""
        self._env.close()


def receive(plan: Plan, learner: Learner, sent: Collected, device: torch.device) -> Rollout:
    """The rollout as its actor saw it; `learner` has the weights and normalizers that it played with."""
    steps = {name: torch.from_numpy(each).to(device) for name, each in sent.steps.items()}
    obs, last = steps["obs"], torch.from_numpy(sent.where.obs).to(device)
    return Rollout(
        **steps,  # type: ignore[arg-type]  # what a bonus pays is none of an actor's
        following=torch.cat([obs[:, 1:], last.unsqueeze(1)], 1),
        net_obs=on_policy.normalize_obs(plan, learner, obs),
        net_next_obs=on_policy.normalize_obs(plan, learner, steps["next_obs"]),
    )


def arrays(several: dict[str, Tensor]) -> Arrays:
    """Tensors as arrays, for another process."""
    return {name: tensor.numpy() for name, tensor in several.items()}


def tensors(several: Arrays) -> dict[str, Tensor]:
    """The inverse; what came out of another process may be written to."""
    return {name: torch.from_numpy(np.array(array)) for name, array in several.items()}
