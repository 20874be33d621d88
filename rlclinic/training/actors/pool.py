"""The learner's side of actors: whose rollout comes next, how old it is, what a resume needs, and who has died.

Each actor is always at work on one rollout. When it has been taken, the actor goes on at once with the weights as they are then, while
the learner learns: with n actors in turn, a rollout is n updates old when it is learned from.

The learner remembers where every rollout in the making began and with which weights. A checkpoint holds both, so that a resume collects
the same rollouts again, bit for bit where environments are native; and an actor that is killed is replaced by one that does the same.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.errors import EnvironmentFailed, UsageError
from rlclinic.training import envs
from rlclinic.training.actors import on_ray, processes
from rlclinic.training.actors.actor import ActorDied, ActorPlan, Collected, Order, Transport, Where, receive
from rlclinic.training.data import info_columns
from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.envs.base import Step, Stepping
from rlclinic.training.loops.on_policy import Learner, Plan
from rlclinic.training.maths.normalize import Moments

DEATHS: Final = 5
"""An actor that dies so often without having collected anything is not begun anew."""
STATS: Final = "stats."
ENV: Final = "env."


class Arrived(NamedTuple):
    """A rollout that can be learned from."""

    rollout: Rollout
    actor: Learner
    """The weights and normalizers that it was collected with."""
    lag: int
    """Updates that the weights have made since then."""
    first_env: int
    """The number of its first environment, of all actors' together."""


@dataclass
class _Place:
    """What is known of one actor."""

    actor: Transport
    where: Where
    """Where the rollout in the making began."""
    learner: Learner | None = None
    """What it is played with; None: nothing is in the making."""
    version: int = 0
    """The iteration that these weights are from."""
    count: int = 0
    lives: int = 0
    deaths: int = 0


@dataclass
class Lags:
    """How old rollouts were since the last row."""

    seen: list[int] = field(default_factory=list)

    def take(self) -> tuple[float, float]:
        """Mean and largest, and begin anew."""
        seen, self.seen = self.seen or [0], []
        return float(np.mean(seen)), float(max(seen))


class Actors:
    """A VecEnv whose environments are with the actors: rollouts are asked for, steps cannot be taken."""

    def __init__(self, config: Config, seeds: list[int], device: str, factory: Callable[..., Any] | None = None) -> None:
        algo: Any = config.algo
        # One process does what workers would do; an actor steps its own environments.
        self._config = config.model_copy(update={"env": config.env.model_copy(update={"workers": 0})})
        self._seeds, self._device, self._factory = tuple(seeds), torch.device(device), factory
        self.actors, self._in_turn, self._max_lag = algo.n_actors, algo.actor_order == "fixed", algo.max_lag
        self._transport: Any = on_ray if algo.actors_on == "ray" else processes
        settings = self._config.env.reading(info_columns.list_step_numbers(config))
        one = info_columns.check_told(envs.make(settings, list(seeds[:1]), 1, factory=factory), settings)
        self.obs_shape, self.obs_low, self.obs_high, self.picture = one.obs_shape, one.obs_low, one.obs_high, one.picture
        self.action, self.max_episode_steps, self.skips = one.action, one.max_episode_steps, one.skips
        self.step_info, self.potentials = getattr(one, "step_info", ()), getattr(one, "potentials", None)
        tells = getattr(one, "info", None) is not None
        self.info = info_columns.Window(config.env, len(seeds)) if tells else None
        """What episodes said of themselves; None where nothing is logged of it."""
        self.exact = one.exact and self._in_turn
        one.close()
        self.members, self.n_envs = len(seeds), algo.n_actors * config.env.n_envs
        self.failures: dict[int, Exception] = {}
        self.corrections: tuple[str, ...] = ()
        """The run's own; set before the first reset."""
        self.lags = Lags()
        self._messages: list[str] = []
        self.replaced = 0
        """Actors that have died so far, and whose place another one has taken."""
        self.calls = 0
        """Odd while an actor is waited for."""
        self._resumes = torch.zeros(self.members, 1, dtype=torch.int64)
        self._retired: set[int] = set()
        self._places: list[_Place] = []
        self._waits_for: int | None = None

    # ── what an environment has ──

    @property
    def action_mask(self) -> Tensor | None:
        masks = [place.where.action_mask for place in self._places]
        return None if not masks or masks[0] is None else self._tensor(np.concatenate(masks, 1))  # type: ignore[arg-type]

    @property
    def stepping(self) -> Stepping:
        return Stepping(self, None)

    def reset(self) -> Tensor:
        self._start(lives=int(self._resumes.max()))
        return self.obs()

    def step(self, *args: Any, **kwargs: Any) -> Step:
        raise UsageError("Actors play by themselves.\n  Nobody else steps their environments.\n  Ask for a rollout instead")

    def retire(self, members: Iterable[int]) -> None:
        self._retired.update(members)

    def close(self) -> None:
        for place in self._places:
            place.actor.close()
        self._places = []

    # ── rollouts ──

    def collect(self, plan: Plan, learner: Learner, iteration: int) -> Arrived:
        """The next rollout; its actor goes on with the weights of `learner`, which are those of `iteration`."""
        for number, place in enumerate(self._places):
            if place.learner is None:
                self._ask(number, learner, iteration)
        self.calls += 1
        number = self._next(iteration)
        said = self._hear(number)
        self.calls += 1
        self._waits_for = None
        place = self._places[number]
        assert place.learner is not None
        arrived = Arrived(
            receive(plan, place.learner, said, self._device), place.learner, iteration - place.version, number * self._config.env.n_envs
        )
        self.lags.seen.append(arrived.lag)
        if self.info is not None:
            for member, values in said.episodes:
                self.info.append(member, values)
        for member, text in said.where.failures:
            self.failures.setdefault(member, EnvironmentFailed(text))
        place.where, place.count, place.deaths = said.where, place.count + 1, 0
        self._ask(number, learner, iteration)
        return arrived

    def _next(self, iteration: int) -> int:
        """Whose turn it is. By arrival whoever is ready, unless somebody's rollout would become too old."""
        if self._in_turn:
            return iteration % self.actors
        oldest = min(range(self.actors), key=lambda number: self._places[number].version)
        if iteration - self._places[oldest].version >= self._max_lag:
            return oldest
        # The oldest first, so that nobody who is ready is passed over for long.
        found = self._transport.ready([place.actor for place in self._places])
        return min(found, key=lambda number: self._places[number].version)

    def _ask(self, number: int, learner: Learner, version: int, *, again: bool = False) -> None:
        place = self._places[number]
        place.learner, place.version = learner, version
        stats = None if learner.obs_stats is None else tuple(each.cpu().numpy() for each in learner.obs_stats)
        start = place.where.state if again and place.where.state else None
        place.actor.ask(Order(place.count, learner.flat.detach().cpu().numpy(), stats, start, tuple(sorted(self._retired))))

    def _hear(self, number: int) -> Collected:
        while True:
            self._waits_for = number
            try:
                said: Collected = self._places[number].actor.hear()
                return said
            except ActorDied as death:
                self._replace(number, str(death))

    def _replace(self, number: int, how: str) -> None:
        """Another process in its place, which begins where the rollout in the making began; where that cannot be, anew."""
        place = self._places[number]
        began = None
        while began is None:
            place.deaths += 1
            if place.deaths > DEATHS:
                raise EnvironmentFailed(
                    f"actor {number} has died {place.deaths} times in one rollout, the last time so: {how}.\n"
                    "  Another one would end as they did. SIGKILL often means that memory ran out.\n"
                    "  Try: fewer algo.n_actors, or algo.n_actors=0 to see the environment's own error"
                )
            place.actor.close()
            place.lives += 0 if self.exact else 1
            place.actor = self._transport.start(self._plan(number, place.lives))
            try:
                began = place.actor.hear()
            except ActorDied as death:
                how = str(death)
        if not self.exact:
            place.where = began
        self._messages.append(f"actor {number}: {how}; another one has taken its place")
        self.replaced += 1
        if place.learner is not None:
            self._ask(number, place.learner, place.version, again=True)

    def take_messages(self) -> list[str]:
        """What has happened to actors since it was last asked, for the run's log."""
        messages, self._messages = self._messages, []
        return messages

    # ── starting, and going on ──

    def _plan(self, number: int, lives: int) -> ActorPlan:
        return ActorPlan(self._config, self._seeds, number, lives, self.corrections, self._factory)

    def _start(self, lives: int) -> None:
        self.close()
        started = [self._transport.start(self._plan(number, lives)) for number in range(self.actors)]  # side by side
        try:
            self._places = [_Place(each, each.hear(), lives=lives) for each in started]
        except BaseException as error:
            for each in started:
                each.close()
            if isinstance(error, ActorDied):
                raise EnvironmentFailed(
                    f"an actor ended before it had its environments: {error}.\n  Its own words, if it had any, are above.\n"
                    "  Often it could not import them: define them at the top level of a module, or see with algo.n_actors=0 what they say"
                ) from None
            raise
        for place in self._places:
            for member, text in place.where.failures:
                self.failures.setdefault(member, EnvironmentFailed(text))

    def state(self) -> dict[str, Tensor]:
        if not self.exact:
            said = {} if self.info is None else {"info": torch.from_numpy(self.info.recent.copy())}
            return {"resumes": self._resumes.clone(), **said}
        found = {name: self._stack([place.where.state[name] for place in self._places]) for name in self._places[0].where.state}
        found = {ENV + name: tensor for name, tensor in found.items()} | {"obs": self._stack([place.where.obs for place in self._places])}
        if self._places[0].where.action_mask is not None:
            found["action_mask"] = self._stack([place.where.action_mask for place in self._places])  # type: ignore[misc]
        numbers = torch.tensor([[place.count, place.version, place.lives] for place in self._places])
        found["counters"] = numbers.expand(self.members, -1, -1).clone()
        learners = [place.learner for place in self._places]
        if all(each is not None for each in learners):
            found["flat"] = torch.stack([each.flat for each in learners if each is not None], 1)
            stats = [each.obs_stats for each in learners if each is not None]
            for name in Moments._fields if stats[0] is not None else ():
                found[STATS + name] = torch.stack([getattr(each, name) for each in stats], 1)
        return found

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        if not self.exact:
            self._resumes = state["resumes"].cpu() + 1
            if self.info is not None and "info" in state and state["info"].shape == self.info.recent.shape:
                self.info.recent = state["info"].cpu().numpy().copy()
            return self.reset()
        counters = state["counters"][0].tolist()
        self._start(lives=counters[0][2])
        for number, (place, (count, version, lives)) in enumerate(zip(self._places, counters, strict=True)):
            here = {name: np.ascontiguousarray(each[:, number].cpu().numpy()) for name, each in state.items() if name not in ("counters",)}
            inside = {name.removeprefix(ENV): array for name, array in here.items() if name.startswith(ENV)}
            place.where = replace_where(place.where, here["obs"], here.get("action_mask"), inside)
            place.count, place.lives = count, lives
            if "flat" in here:
                stats = [here[STATS + name] for name in Moments._fields if STATS + name in here]
                moments = Moments(*(self._tensor(each) for each in stats)) if stats else None
                self._ask(number, Learner(self._tensor(here["flat"]), None, moments), version, again=True)  # type: ignore[arg-type]
        return self.obs()

    def obs(self) -> Tensor:
        """What all actors' rollouts in the making began with, [M, N, *obs_shape]."""
        return self._tensor(np.concatenate([place.where.obs for place in self._places], 1))

    def _stack(self, several: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(several, 1))

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self._device)

    # ── for whoever watches over environments that hang ──

    def progress(self) -> object:
        """Something that changes while actors play."""
        return tuple(place.count for place in self._places)

    def describe_wait(self) -> str:
        """Who has not come back, in words."""
        return "the actors" if self._waits_for is None else f"actor {self._waits_for}"

    def find_waiting_member(self) -> int | None:
        """Which member's environment it is: an actor plays those of all."""
        return None

    def interrupt(self, reason: str) -> bool:
        """End what has not come back: another actor takes its place."""
        if self._waits_for is None:
            return False
        self._places[self._waits_for].actor.kill()
        return True


def replace_where(where: Where, obs: np.ndarray, action_mask: np.ndarray | None, state: dict[str, np.ndarray]) -> Where:
    """Where a rollout in the making began, out of a checkpoint."""
    return where._replace(obs=obs, action_mask=action_mask, state=state)
