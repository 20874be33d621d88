"""Gradient steps on recorded data as one GPU program: an iteration's steps are captured once and launched with a single call.

What changes between iterations (weights, rows, noise, numbers) is copied to where the program reads it. As captured, the operations are
those of the loop, in its order, and so are the bits. Compiled, a gradient step is a few fused kernels around its matrix products: other
last bits, several times as fast. On a CPU the same program runs without a graph: the reference for its tests.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.replay import Batch
from rlclinic.training.engines import compiled_replay, cuda_graphs, eager
from rlclinic.training.engines.compiled import Named, Unit
from rlclinic.training.loops import off_policy, offline
from rlclinic.training.loops.off_policy import Learner, Plan

WARM_UPS: Final = 2
"""Iterations before capture, on copies: libraries choose their kernels, and take the memory they work in."""


class CapturedOffline:
    """The programs of one cohort's iteration: one for each phase of the delays that it can begin in.

    compiles: whether gradient steps are compiled first, which takes a minute.
    tf32: whether matrix products may keep 10 bits (see run.precision).
    """

    def __init__(self, *, compiles: bool = False, tf32: bool = False) -> None:
        self.compiles, self.tf32 = compiles, tf32
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]] = {}
        self._units: dict[Hashable, Unit] = {}
        self._in: dict[str, Tensor] = {}

    def learn(
        self, plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor, seed: Tensor
    ) -> tuple[Learner, dict[str, Tensor]]:
        """As `offline.learn`."""
        updates, period = plan.cycles, period_of(plan)
        given = {"rows": data.draw(seed, learner.updates, updates, plan.config.batch_size), "active": active}
        given |= eager.tensors("hp", vars(hp))
        if (noise := off_policy.update_noise(plan, seed, learner.updates, updates)) is not None:
            given["noise"] = noise
        if not self._in:
            self._in = {name: tensor.clone() for name, tensor in given.items()}
            self._learner = off_policy.copy_learner(learner)
        cuda_graphs.fill(self._in.values(), (given[name] for name in self._in))
        cuda_graphs.fill(_tensors(self._learner), _tensors(learner))
        start = replace(self._learner, updates=learner.updates % period)
        key = (start.updates, tuple(self._in), eager.static(hp))
        readings = self._launch(key, lambda: self._program(plan, start, data, compiled_replay.numbers_of(hp, self._in)))
        after = off_policy.copy_learner(self._learner)
        found = {name: reading.clone() for name, reading in readings.items()}
        return replace(after, updates=learner.updates + updates, reward_bound=learner.reward_bound), found

    def _launch(self, key: Hashable, program: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        if not self._in["rows"].is_cuda:
            return program()
        if key not in self._graphs:
            edited = _tensors(self._learner)
            kept = [tensor.clone() for tensor in edited]
            with cuda_graphs.products(tf32=self.tf32):
                self._graphs[key] = cuda_graphs.captured(program, lambda: [program() for _ in range(WARM_UPS)])
            torch._foreach_copy_(edited, kept)
        graph, readings = self._graphs[key]
        graph.replay()
        return readings

    @torch.no_grad()
    def _program(self, plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters) -> dict[str, Tensor]:
        """All gradient steps of an iteration, as a function of the tensors that stay in place."""
        given = self._in
        if not self.compiles:
            _, found = offline.take_steps(plan, learner, data, hp, given["active"], given["rows"], given.get("noise"))
            return found
        readings: dict[str, list[Tensor]] = {}
        size = plan.config.batch_size
        numbers = eager.tensors("hp", vars(hp)) | {"active": given["active"]}
        together = offline.batches_together(plan, plan.cycles)
        for step in range(plan.cycles):
            if step % together == 0:
                count = min(together, plan.cycles - step)
                rows = given["rows"][:, step * size : (step + count) * size]
                batches = offline.batch_of(plan, learner, data, rows, hp).split(size)
            named = numbers | compiled_replay.of_learner(learner) | eager.tensors("batch", batches[step % together]._replace(places=None))
            if "noise" in given:
                named["noise"] = given["noise"][:, step]
            found = self._update(plan, learner, hp)(named)
            learner = replace(compiled_replay.with_tensors(learner, found), updates=learner.updates + 1)
            for name, reading in compiled_replay.readings_of(found).items():
                readings.setdefault(name, []).append(reading)
        cuda_graphs.fill(_tensors(self._learner), _tensors(learner))
        return {name: torch.stack(each) for name, each in readings.items()}

    def _update(self, plan: Plan, learner: Learner, hp: Hyperparameters) -> Callable[[Named], Named]:
        """The gradient step that comes next: which of the delayed ones belong to it is part of the program."""
        then = replace(learner, updates=learner.updates % period_of(plan))
        key = eager.static(hp), then.updates

        def function(given: Named) -> Named:
            return update(plan, then, hp, given)

        return function if not self._in["rows"].is_cuda else self._units.setdefault(key, Unit("offline_update", function, repr(key)))


def update(plan: Plan, learner: Learner, static: Hyperparameters, given: Named) -> Named:
    """One gradient step on a batch, as a pure function: the learner after it, and its readings as `found.<name>`."""
    hp, own = compiled_replay.numbers_of(static, given), off_policy.copy_learner(compiled_replay.with_tensors(learner, given))
    batch = Batch(**{name: given.get(f"batch.{name}") for name in Batch._fields})  # type: ignore[arg-type]
    found = plan.updates.update(plan, own, batch, hp, given["active"], given.get("noise"))
    # Copies: what a program gives out must not lie inside what it was given.
    return compiled_replay.of_learner(own) | {f"found.{name}": reading.clone() for name, reading in found.items()}


def period_of(plan: Plan) -> int:
    """After how many gradient steps the pattern of delayed updates repeats."""
    return int(getattr(plan.config, "policy_delay", 1))


def _tensors(learner: Learner) -> list[Tensor]:
    """All that gradient steps edit, in one order."""
    states: list[Any] = [part for state in learner.optimizers.values() for part in state]
    return [*learner.nets.values(), *learner.targets.values(), *states]
