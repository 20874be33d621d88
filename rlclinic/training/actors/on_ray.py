"""Actors on the nodes of a Ray cluster: an order goes in as a call, a rollout comes out.

Ray places them and carries what they say. Their place takes no CPUs of its own account: with several cohorts on a full cluster, each
would hold some of its actors' places and wait for the others' forever. They end with the trainer that asked for them.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from rlclinic import ray_cluster, trust
from rlclinic.actions import Change
from rlclinic.errors import ConfigError, RlclinicError
from rlclinic.training.actors.actor import Actor, ActorDied, ActorPlan, Order

_PASSED_ON: Final = ("PYTHONPATH", trust.STATE, "RLCLINIC_CACHE")


class Player:
    """What Ray keeps on a node: an actor, whose own reasons come back as texts."""

    def __init__(self, plan: ActorPlan) -> None:
        self._plan = plan
        self._actor: Actor | None = None

    def where(self) -> Any:
        """Make its environments; where they stand, or what is wrong with them."""
        try:
            self._actor = Actor(self._plan)
        except RlclinicError as reason:
            return str(reason)
        return self._actor.where()

    def collect(self, order: Order) -> Any:
        """One rollout."""
        assert self._actor is not None
        return self._actor.collect(writable(order))


class RayActor:
    """An actor on a node, as the learner sees it."""

    def __init__(self, plan: ActorPlan) -> None:
        self._ray = _connect()
        names = trust.names_in(plan.config.env)
        trust.check(*names)
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | trust.pass_on(*names)
        options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        remote = self._ray.remote(**options, runtime_env={"env_vars": {**environment, "OMP_NUM_THREADS": "1"}})(Player)
        try:
            self._actor = remote.remote(plan)
        except TypeError as reason:
            raise ConfigError(
                f"algo.actors_on=ray: the environment cannot be sent to another machine ({ray_cluster.shorten(reason)}).\n"
                "  An actor makes it by itself, so it must be able to import it.\n"
                "  Try: define it at the top level of a module, or ",
                Change("algo.actors_on", "processes"),
            ) from reason
        self.said: Any = self._actor.where.remote()
        self._lost: Exception | None = None

    def ask(self, order: Order) -> None:
        try:
            self.said = self._actor.collect.remote(order)
        except ray_cluster.errors_of(self._ray) as error:  # heard of when it is listened to
            self.said, self._lost = None, error

    def hear(self) -> Any:
        try:
            if self._lost is not None:
                raise self._lost
            said = self._ray.get(self.said)
        except ray_cluster.errors_of(self._ray) as error:
            self.kill()
            raise ActorDied(ray_cluster.shorten(error)) from None
        if isinstance(said, str):
            raise ConfigError(said)
        return writable(said)

    def kill(self) -> None:
        with suppress(*ray_cluster.errors_of(self._ray), ValueError):  # the cluster is gone, or another one by now
            self._ray.kill(self._actor)

    def close(self) -> None:
        if self._ray.is_initialized():
            self.kill()


start = RayActor


def ready(actors: Sequence[RayActor]) -> list[int]:
    """Those that have something to say, in the order given; waits until there is one."""
    ray, asked = ray_cluster.load(), [each.said for each in actors if each.said is not None]
    try:
        if len(asked) == len(actors):
            ray.wait(asked, num_returns=1)
        heard = ray.wait(asked, num_returns=len(asked), timeout=0)[0] if asked else []
    except ray_cluster.errors_of(ray):
        heard = asked  # they will never be ready: each says so when it is listened to
    return [index for index, each in enumerate(actors) if each.said is None or each.said in heard]


def writable(said: Any) -> Any:
    """The same with arrays of its own: what Ray hands out lies in memory that all of a machine share, and nobody may write to."""
    if isinstance(said, np.ndarray):
        return said.copy()
    if isinstance(said, dict):
        return {name: writable(value) for name, value in said.items()}
    if isinstance(said, tuple):
        parts = [writable(value) for value in said]
        return type(said)(*parts) if hasattr(said, "_fields") else tuple(parts)
    return said


def _connect() -> Any:
    if ray_cluster.is_connected():
        return ray_cluster.load()
    if ray_cluster.ADDRESS not in os.environ:
        raise ConfigError(
            "algo.actors_on=ray, and this run trains on no Ray cluster.\n  There are no nodes for its actors.\n"
            "  Train it there (--on ray), name a cluster in RAY_ADDRESS, or ",
            Change("algo.actors_on", "processes"),
        )
    return ray_cluster.connect(None, 0)
