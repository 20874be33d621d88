"""Actors as processes of this machine: an order goes in through a pipe, a rollout comes out."""

import multiprocessing
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from rlclinic.actions import Change
from rlclinic.errors import ConfigError, RlclinicError
from rlclinic.training.actors.actor import Actor, ActorDied, ActorPlan, Order

GONE = (EOFError, ConnectionResetError, BrokenPipeError, OSError)


class ActorProcess:
    """A process that plays."""

    def __init__(self, plan: ActorPlan) -> None:
        context = _context()
        self.pipe: Connection
        self.pipe, far = context.Pipe()
        self._process: BaseProcess = context.Process(target=main, args=(far, plan), daemon=True, name=f"rlclinic-actor-{plan.number}")
        try:
            self._process.start()
        except OSError:
            raise
        except Exception as reason:  # pickling fails in as many ways as there are types
            raise ConfigError(
                f"algo.n_actors={plan.config.algo.n_actors}: the environment cannot be sent to another process ({reason}).\n"  # type: ignore[union-attr]
                "  An actor makes it by itself, so it must be able to import it.\n"
                "  Try: define it at the top level of a module, or ",
                Change("algo.n_actors", 0),
            ) from reason
        far.close()

    def ask(self, order: Order) -> None:
        with suppress(*GONE):  # heard of when it is listened to
            self.pipe.send(order)

    def hear(self) -> Any:
        try:
            said = self.pipe.recv()
        except GONE:
            raise ActorDied(self._obituary()) from None
        if isinstance(said, str):
            raise ConfigError(said)
        return said

    def _obituary(self) -> str:
        self._process.join(timeout=5.0)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"process {self._process.pid} was killed by {signal.Signals(-code).name}"
        return f"process {self._process.pid} ended with exit code {code}"

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        with suppress(*GONE):
            self.pipe.send(None)
        self.pipe.close()
        self._process.join(timeout=1.0)
        if self._process.is_alive():  # in the middle of a rollout that nobody wants any more
            self._process.kill()
            self._process.join()


start = ActorProcess


def ready(actors: Sequence[ActorProcess]) -> list[int]:
    """Those that have something to say, in the order given; waits until there is one."""
    pipes: list[Any] = [each.pipe for each in actors]
    heard = connection.wait(pipes)
    return [index for index, pipe in enumerate(pipes) if pipe in heard]


def main(pipe: Connection, plan: ActorPlan) -> None:
    """The process: rollouts on order until the learner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the learner decides when to end
    try:
        actor = Actor(plan)
        pipe.send(actor.where())
    except RlclinicError as reason:
        pipe.send(str(reason))
        return
    with suppress(*GONE):
        while (order := pipe.recv()) is not None:
            pipe.send(actor.collect(order))
    actor.close()


def _context() -> Any:
    """A fork server where there is one: a plain fork would copy torch's threads and locks in whatever state they are."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload([__name__, "rlclinic.training.assembly"])
    return context
