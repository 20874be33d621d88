"""The sentinels of captured iterations, as CUDA graphs too.

A look is some two hundred small operations, and runs with few members leave a GPU waiting for the host that asks for them one by one.
There is one graph for every row and one for the rows with the costly sentinels. On a CPU the same program runs without a graph: the
reference for its tests.
"""

from collections.abc import Hashable
from typing import Final

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.engines import cuda_graphs, eager
from rlclinic.training.engines.compiled import Named
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops.on_policy import Estimates, LastMinibatch, Learner, Plan
from rlclinic.training.optim import OptimizerState
from rlclinic.training.sentinels import on_policy_sentinels
from rlclinic.training.sentinels.on_policy_sentinels import Seen

MOVES: Final = ("reading.", "hp.", "elapsed")
"""Names of what is made anew for every row. The rest lies in the iteration's graph, always in the same place, and is read there."""


class CapturedSentinels:
    """A cohort's graphs, by what they look at."""

    def __init__(self) -> None:
        self._programs: dict[Hashable, tuple[Named, torch.cuda.CUDAGraph, Named]] = {}

    def __call__(self, plan: Plan, env: VecEnv, seen: Seen, hp: Hyperparameters, *, costly: bool) -> dict[str, Tensor]:
        """The sentinels of a row. They lie in the graph's own memory until the next look."""
        given, unset = pack(seen, hp), eager.static(hp)
        if not seen.after.flat.is_cuda:
            return on_policy_sentinels.compute(plan, env, *unpack(given, unset), costly=costly)
        key = (costly, unset, tuple((name, value.shape) for name, value in given.items()))
        if key not in self._programs:
            own = {name: value.clone() if name.startswith(MOVES) else value for name, value in given.items()}

            def program() -> Named:
                return on_policy_sentinels.compute(plan, env, *unpack(own, unset), costly=costly)

            self._programs[key] = own, *cuda_graphs.captured(program, program)
        own, graph, found = self._programs[key]
        cuda_graphs.fill(own.values(), given.values())
        graph.replay()
        return found


def pack(seen: Seen, hp: Hyperparameters) -> Named:
    """Everything that a look reads, by name."""
    weights = {"before": seen.before.flat, "after": seen.after.flat, "elapsed": seen.elapsed}
    given = weights | eager.tensors("state", seen.after.optimizer) | eager.tensors("rollout", vars(seen.rollout))
    given |= eager.tensors("whole", seen.whole) | eager.tensors("raw", seen.raw) | eager.tensors("last_minibatch", seen.last_minibatch)
    return given | eager.tensors("reading", seen.readings) | eager.tensors("hp", vars(hp))


def unpack(given: Named, unset: eager.Unset) -> tuple[Seen, Hyperparameters]:
    """The inverse."""
    state = eager.gather(OptimizerState, "state", given)
    last_minibatch = eager.gather(LastMinibatch, "last_minibatch", given) if "last_minibatch.advantage" in given else None
    seen = Seen(
        Learner(given["before"], state),
        Learner(given["after"], state),
        Rollout(**_named("rollout", given)),  # type: ignore[arg-type]
        eager.gather(Batch, "whole", given),
        eager.gather(Estimates, "raw", given),
        _named("reading", given),
        last_minibatch,
        given["elapsed"],
    )
    return seen, eager.numbers_of(unset, given)


def _named(prefix: str, given: Named) -> Named:
    return {name.removeprefix(f"{prefix}."): value for name, value in given.items() if name.startswith(f"{prefix}.")}
