"""The captured engine for algorithms with a replay: an iteration of native environments as one CUDA graph.

A gradient step of SAC is about 150 small operations, which a GPU does faster than a host can ask for them. The graph holds all cycles
of an iteration: acting, stepping, remembering, drawing, learning (see `replay_units`). What changes between iterations lies in tensors
that it reads, and is worked out before it is launched: noise, rows to write and to draw, numbers, who is active. Weights, memory and
environments are edited in place. On a CPU the same program runs without a graph: the reference for its tests.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from rlclinic.training.engines import compiled, compiled_replay, cuda_graphs, eager
from rlclinic.training.engines.compiled import Named, Unit
from rlclinic.training.envs.native.engine import At, NativeEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan, Transitions
from rlclinic.training.loops.on_policy import Position
from rlclinic.training.maths import exploration

WARM_UPS: Final = 2
"""Iterations before capture, on copies: libraries take the memory they work in."""


class CapturedIteration(NamedTuple):
    """What an iteration leaves behind, in the graph's own memory until the next one."""

    transitions: Transitions
    readings: dict[str, Tensor]


def possible(plan: Plan) -> bool:
    """Whether the program below covers a plan: vectors as they are, uniform draws of batches, no drifting noise, no average."""
    memory, drifts = plan.memory, getattr(plan.config, "action_noise", None) == "ou" or getattr(plan.algo, "DRIFTS", False)
    averages = getattr(plan.config, "policy_average", 0) > 0
    scaled = plan.env.normalize_obs or plan.env.normalize_reward
    return bool(plan.config.batch_size) and not (
        memory.images or memory.once or memory.prioritized or memory.marks_valid or drifts or averages or scaled or plan.env.action_mask
    )


class CapturedReplay:
    """One graph for each phase of the delays that an iteration can begin in.

    compiles: whether acting and gradient steps are compiled first, which takes a minute and makes the graph several times as fast.
    tf32: whether matrix products may keep 10 bits (see run.precision).
    """

    def __init__(self, *, compiles: bool = False, tf32: bool = False) -> None:
        self.compiles, self.tf32 = compiles, tf32
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, CapturedIteration]] = {}
        self._units: dict[Hashable, Unit] = {}
        self._in: dict[str, Tensor] = {}

    def iterate(
        self,
        plan: Plan,
        learner: Learner,
        env: NativeEnv,
        position: Position,
        memory: Replay,
        hp: Hyperparameters,
        active: Tensor,
        seed: Tensor,
        env_steps: int,
    ) -> tuple[Learner, CapturedIteration]:
        """An iteration after learning has started. The learner that it returns lies in the graph's memory: the next one edits it."""
        given = _inputs(plan, learner, memory, hp, active, seed, env_steps)
        if not self._in:
            self._in = {name: tensor.clone() for name, tensor in given.items()}
            self._learner, self._at, self._obs = off_policy.copy_learner(learner), _copied(env.here()), position.obs.clone()
        cuda_graphs.fill(self._in.values(), (given[name] for name in self._in))
        cuda_graphs.fill([*_tensors(self._at), self._obs], [*_tensors(env.here()), position.obs])
        cuda_graphs.fill(_of(self._learner), _of(learner))
        numbers = compiled_replay.numbers_of(hp, self._in)
        key = (learner.updates % _period(plan), tuple(sorted(name for name in self._in)), hp.learns_temperature)
        start = replace(self._learner, updates=learner.updates % _period(plan))
        taken = self._launch(key, lambda: self._program(plan, start, env, memory, numbers, seed), memory)
        memory.stored += plan.cycles * plan.cycle_size
        env.go(_copied(self._at))
        position.obs, position.action_mask = self._obs.clone(), env.action_mask
        return replace(
            self._learner, updates=learner.updates + plan.cycles * plan.updates_per_cycle, reward_bound=learner.reward_bound
        ), taken

    def _launch(self, key: Hashable, program: Callable[[], CapturedIteration], memory: Replay) -> CapturedIteration:
        if not self._obs.is_cuda:
            return program()
        if key not in self._graphs:
            with cuda_graphs.products(tf32=self.tf32):
                self._graphs[key] = self._captured(program, memory)
        graph, taken = self._graphs[key]
        graph.replay()
        return taken

    def _captured(self, program: Callable[[], CapturedIteration], memory: Replay) -> tuple[torch.cuda.CUDAGraph, CapturedIteration]:
        """The graph of a program that edits its tensors: they are put back after the warm-up."""
        edited = [*_of(self._learner), *_tensors(self._at), self._obs, memory.table]
        kept = [tensor.clone() for tensor in edited]
        graph, taken = cuda_graphs.captured(program, lambda: [program() for _ in range(WARM_UPS)])
        torch._foreach_copy_(edited, kept)
        return graph, taken

    def _program(
        self, plan: Plan, learner: Learner, env: NativeEnv, memory: Replay, hp: Hyperparameters, seed: Tensor
    ) -> CapturedIteration:
        given, algo, every = self._in, plan.algo, plan.config.train_freq
        at, obs, active = self._at, self._obs, given["active"]
        cycles: list[Transitions] = []
        readings: dict[str, list[Tensor]] = {}
        for cycle in range(plan.cycles):
            noise = given["noise"][:, cycle * every : (cycle + 1) * every]
            with torch.no_grad():
                found = self._collect(plan, env, learner, hp)(
                    compiled_replay.collect_inputs(learner.nets[algo.ACTOR], at, obs, noise, seed, hp)
                )
            at, obs = eager.gather(At, "at", found), found["obs"]
            cycles.append(compiled_replay.transitions_of(found))
            memory.table.index_copy_(1, given["write"][cycle], found["rows"])
            if "share" in given:
                off_policy.follow(learner, algo.TARGETS, given["share"][cycle], active)
            learner = self._learn(plan, learner, memory, hp, cycle, readings)
        cuda_graphs.fill(_of(self._learner), _of(learner))
        for old, new in zip(_tensors(self._at), _tensors(at), strict=True):
            old.copy_(new)
        self._obs.copy_(obs)
        return CapturedIteration(off_policy.concatenate(cycles), {name: torch.stack(each) for name, each in readings.items()})

    def _learn(
        self, plan: Plan, learner: Learner, memory: Replay, hp: Hyperparameters, cycle: int, readings: dict[str, list[Tensor]]
    ) -> Learner:
        given, size, updates = self._in, plan.config.batch_size, plan.updates_per_cycle
        numbers, stored = eager.tensors("hp", vars(hp)), given["stored"] + (cycle + 1) * plan.cycle_size
        for update in range(updates):
            named = {"table": memory.table, "stored": stored, "draw": given["draw"][:, cycle, update * size : (update + 1) * size]}
            named |= {"active": given["active"]} | numbers | compiled_replay.of_learner(learner)
            if "update_noise" in given:
                named["noise"] = given["update_noise"][:, cycle * updates + update]
            found = self._update(plan, memory, learner, hp)(named)
            learner = replace(compiled_replay.with_tensors(learner, found), updates=learner.updates + 1)
            for name, reading in compiled_replay.readings_of(found).items():
                readings.setdefault(name, []).append(reading)
        return learner

    def _collect(self, plan: Plan, env: NativeEnv, learner: Learner, hp: Hyperparameters) -> Callable[[Named], Named]:
        return self._unit("replay_turn", eager.static(hp), lambda given: compiled_replay.collect(plan, env, learner, hp, given))

    def _update(self, plan: Plan, memory: Replay, learner: Learner, hp: Hyperparameters) -> Callable[[Named], Named]:
        """The gradient step that comes next: which of the delayed ones belong to it is part of the program."""
        then = replace(learner, updates=learner.updates % _period(plan))
        key = eager.static(hp), then.updates
        return self._unit("replay_update", key, lambda given: compiled_replay.update(plan, memory, then, hp, given))

    def _unit(self, name: str, key: Hashable, function: compiled.Function) -> Callable[[Named], Named]:
        if not (self.compiles and self._obs.is_cuda):
            return function
        return self._units.setdefault((name, key), Unit(name, function, repr(key)))


def _inputs(
    plan: Plan, learner: Learner, memory: Replay, hp: Hyperparameters, active: Tensor, seed: Tensor, env_steps: int
) -> dict[str, Tensor]:
    """Everything that the graph reads and that changes: worked out by counters that the host knows."""
    device, shape, size = seed.device, memory.shape, plan.config.batch_size
    steps, updates = plan.cycles * plan.config.train_freq, plan.cycles * plan.updates_per_cycle
    time = torch.arange(steps, device=device).view(1, -1, 1) + env_steps // shape.n_envs
    envs = torch.arange(shape.n_envs, device=device).view(1, 1, -1)
    noise = off_policy.exploration_noise(plan, seed, time, envs)
    if noise is None:
        noise = exploration.uniform_noise(seed, time, envs, 2)
    written = torch.arange(memory.stored, memory.stored + plan.cycles * plan.cycle_size, device=device) % shape.rows
    filled = [min(memory.stored + (cycle + 1) * plan.cycle_size, shape.rows) for cycle in range(plan.cycles)]
    bits = replay.random_bits(seed, learner.updates, updates, size).view(len(seed), plan.cycles, -1)
    given = {
        "noise": noise,
        "write": written.view(plan.cycles, -1),
        "draw": bits % torch.tensor(filled, device=device).view(1, -1, 1),
        "stored": torch.tensor(memory.stored, device=device),
        "active": active,
        **{f"hp.{name}": value for name, value in vars(hp).items() if isinstance(value, Tensor)},
    }
    drawn = off_policy.update_noise(plan, seed, learner.updates, updates)
    if drawn is not None:
        given["update_noise"] = drawn
    if hasattr(plan.algo, "target_share"):
        still = torch.zeros_like(hp.tau)
        ends = [env_steps + cycle * plan.cycle_size for cycle in range(plan.cycles + 1)]
        shares = [plan.algo.target_share(plan, hp, before, now) for before, now in pairwise(ends)]
        given["share"] = torch.stack([still if share is None else share for share in shares])
    return given


def _period(plan: Plan) -> int:
    """After how many gradient steps the pattern of delayed updates repeats."""
    period = getattr(plan.fast, "update_period", None)
    return 1 if period is None else period(plan)


def _tensors(at: At) -> list[Tensor]:
    return [tensor for tensor in at if tensor is not None]


def _copied(at: At) -> At:
    return At(*(None if tensor is None else tensor.clone() for tensor in at))  # type: ignore[arg-type]


def _of(learner: Learner) -> list[Tensor]:
    states = [tensor for state in learner.optimizers.values() for tensor in state]
    return [*learner.nets.values(), *learner.targets.values(), *states]
