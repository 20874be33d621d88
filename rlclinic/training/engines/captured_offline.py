"""Gradient steps on recorded data as one GPU program: an iteration's steps are captured once and launched with a single call.

The operations are those of the loop, in its order and on its tensors, so the bits are the same. What changes between iterations (weights,
rows, noise, numbers) is copied to where the program reads it.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.loops import off_policy, offline
from rlclinic.training.loops.off_policy import Learner, Plan

WARM_UP = 2
"""Iterations that are run before one is captured: libraries choose their kernels in them."""


class CapturedOffline:
    """The program of one cohort's iteration."""

    def __init__(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None
        self._seen = 0
        self._given: dict[str, Tensor] = {}
        self._learner: Learner | None = None
        self._hp: Hyperparameters | None = None
        self._readings: dict[str, Tensor] = {}

    def learn(
        self, plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor, seed: Tensor
    ) -> tuple[Learner, dict[str, Tensor]]:
        """As `offline.learn`."""
        updates = plan.cycles
        rows = data.draw(seed, learner.updates, updates, plan.config.batch_size)
        noise = off_policy.update_noise(plan, seed, learner.updates, updates)
        self._seen += 1
        if self._seen <= WARM_UP:
            return offline.take_steps(plan, off_policy.copy_learner(learner), data, hp, active, rows, noise)
        if self._graph is None:
            self._capture(plan, learner, data, hp, active, rows, noise)
        assert self._graph is not None
        assert self._learner is not None
        assert self._hp is not None
        for name, tensor in (("rows", rows), ("noise", noise), ("active", active)):
            if tensor is not None:
                self._given[name].copy_(tensor)
        for name, number in vars(hp).items():
            if isinstance(number, Tensor):
                getattr(self._hp, name).copy_(number)
        for ours, theirs in zip(_tensors(self._learner), _tensors(learner), strict=True):
            ours.copy_(theirs)
        self._graph.replay()
        after = off_policy.copy_learner(self._learner)
        readings = {name: reading.clone() for name, reading in self._readings.items()}
        return replace(after, updates=learner.updates + updates), readings

    def _capture(
        self, plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor, rows: Tensor, noise: Tensor | None
    ) -> None:
        self._learner = off_policy.copy_learner(learner)
        self._hp = Hyperparameters(**{name: number.clone() if isinstance(number, Tensor) else number for name, number in vars(hp).items()})
        given: dict[str, Any] = {"rows": rows.clone(), "noise": None if noise is None else noise.clone(), "active": active.clone()}
        self._given = {name: tensor for name, tensor in given.items() if tensor is not None}
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            _, self._readings = offline.take_steps(plan, self._learner, data, self._hp, given["active"], given["rows"], given["noise"])


def _tensors(learner: Learner) -> list[Tensor]:
    """All that gradient steps edit, in one order."""
    states = [part for state in learner.optimizers.values() for part in state]
    return [*learner.nets.values(), *learner.targets.values(), *states]
