"""The captured engine: one iteration of native environments as one CUDA graph, launched by one call.

Small networks leave a GPU waiting for the host, which takes longer to ask for an operation than the GPU to do it. A graph is asked for
once. Everything that changes between iterations lies in tensors that the graph reads: weights, environments, numbers, the mask of
active members, the iteration's number (from which all randomness follows). Nothing is read back but at rows, so that the host
can be many iterations ahead.
"""

from dataclasses import replace
from functools import partial
from typing import Final

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.engines import cuda_graphs, eager
from rlclinic.training.engines.captured_sentinels import CapturedSentinels
from rlclinic.training.engines.compiled import Named
from rlclinic.training.engines.eager import Compiled
from rlclinic.training.envs.native.engine import At, NativeEnv
from rlclinic.training.loops.on_policy import Iteration, IterationInputs, Learner, Plan, Position
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.optim import OptimizerState

WARM_UPS: Final = 2
"""Iterations before capture, on copies: units are compiled, and libraries take the memory they work in."""


class Captured(Compiled):
    """Compiled units inside a CUDA graph. On a CPU the same program runs without a graph: the reference for its tests."""

    def __init__(self) -> None:
        super().__init__()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._program: tuple[eager.Unset, tuple[str, ...]] | None = None
        """What the graph was made for; other unset numbers need another graph."""
        self.sentinels = CapturedSentinels()

    def iterate(self, inputs: IterationInputs) -> Iteration:
        """One iteration of every member. What is returned lies in the graph's own memory until the next one, but for the readings."""
        plan, learner, env, position, hp, active, seed, iteration, _ = inputs
        assert isinstance(env, NativeEnv)
        everyone = torch.ones(learner.flat.shape[0], 1, dtype=torch.bool, device=learner.flat.device)
        given = _pack(learner, env.here(), position, hp, everyone if active is None else active)
        program = (eager.static(hp), tuple(given))
        if self._program != program:
            self._prepare(plan, env, seed, given, eager.static(hp))
            self._program = program
        cuda_graphs.fill(self._in.values(), given.values())
        self._iteration.fill_(iteration)
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run(plan, env, seed, eager.static(hp))
        env.go(self._at)
        position.obs, position.action_mask = self._position.obs, self._position.action_mask
        readings = dict(zip(self._iterated.readings, self._table.clone().unbind(0), strict=True))
        return self._iterated._replace(readings=readings)

    def _prepare(self, plan: Plan, env: NativeEnv, seed: Tensor, given: Named, static: eager.Unset) -> None:
        """Static tensors of the right shapes, compiled units, and the graph."""
        before = env.here()
        self._in = {name: value.clone() for name, value in given.items()}
        self._iteration = torch.zeros((), dtype=torch.int64, device=seed.device)
        self._alive = torch.ones(seed.shape[0], 1, dtype=torch.bool, device=seed.device)
        self._graph = None
        if seed.is_cuda:
            run = partial(self._run, plan, env, seed, static)
            self._graph, _ = cuda_graphs.captured(run, lambda: [run() for _ in range(WARM_UPS)])
            self._alive.fill_(True)
        env.go(before)

    def _run(self, plan: Plan, env: NativeEnv, seed: Tensor, static: eager.Unset) -> None:
        """The iteration as a function of the static tensors; leaves its results where `iterate` finds them."""
        learner, at, position, hp = _unpack(self._in, static)
        env.go(at)
        active = self._in["active"] & self._alive
        clock = dict.fromkeys(("env", "act", "learn"), 0.0)
        found = super().iterate(IterationInputs(plan, learner, env, position, hp, active, seed, self._iteration, clock))
        after, good = _finite(found)
        self._alive.logical_and_(good | ~self._in["active"])
        self._iterated, self._at, self._position = found._replace(after=after, alive=self._alive), env.here(), position
        self._table = torch.stack(list(found.readings.values()))


def _finite(found: Iteration) -> tuple[Learner, Tensor]:
    """`failures.keep_finite` without a look at the flag: a bad update is taken back, and the mask says whose it was."""
    before, after = found.before, found.after
    good = torch.isfinite(after.flat).all(1, keepdim=True) & torch.isfinite(found.readings["total"][:1]).T
    kept = (torch.where(good, new, old) for new, old in zip(after.optimizer, before.optimizer, strict=True))
    return replace(after, flat=torch.where(good, after.flat, before.flat), optimizer=OptimizerState(*kept)), good


def _pack(learner: Learner, at: At, position: Position, hp: Hyperparameters, active: Tensor) -> Named:
    """Everything that an iteration depends on and that changes, by name."""
    given = {"flat": learner.flat, **eager.tensors("state", learner.optimizer), **eager.tensors("hp", vars(hp)), "active": active}
    given |= eager.tensors("obs_stats", learner.obs_stats) | eager.tensors("reward_stats", learner.reward_stats)
    carry = {"carry": learner.reward_carry, "obs": position.obs, "mask": position.action_mask}
    return given | eager.tensors("", carry) | eager.tensors("at", at)


def _unpack(given: Named, static: eager.Unset) -> tuple[Learner, At, Position, Hyperparameters]:
    stats = {name: eager.gather(Moments, name, given) if f"{name}.mean" in given else None for name in ("obs_stats", "reward_stats")}
    learner = Learner(given["flat"], eager.gather(OptimizerState, "state", given), **stats, reward_carry=given.get("carry"))  # type: ignore[arg-type]
    return learner, eager.gather(At, "at", given), Position(given["obs"], given.get("mask")), eager.numbers_of(static, given)
