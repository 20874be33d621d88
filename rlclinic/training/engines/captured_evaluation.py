"""An evaluation of native environments as a CUDA graph of a few steps, launched until every episode has ended.

A step of evaluation is some forty small operations, and a trial of many seeds asks for tens of thousands of steps: asked for one by one,
they take longer than the training between them. On a CPU the same program runs without a graph: the reference for its tests.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeGuard
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from rlclinic.training.engines import cuda_graphs
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.envs.native.engine import At, NativeEnv
from rlclinic.training.loops import off_policy, on_policy
from rlclinic.training.loops.kinds import AnyLearner, AnyPlan
from rlclinic.training.maths.normalize import Moments

STEPS: Final = 32
"""Steps of a graph, after which the host looks whether all episodes have ended."""
Actor = Callable[[Tensor, Tensor | None, Any], Tensor]
Maker = Callable[[AnyLearner, Tensor], Actor]
"""Of a learner and a seed, what acts."""
Played = tuple[Tensor, Tensor, Tensor]
"""Returns, lengths, success, each [M, episodes]."""
_PROGRAMS: "WeakKeyDictionary[NativeEnv, Program]" = WeakKeyDictionary()
"""By the environment that they step, for as long as that lives."""


def covers(env: VecEnv) -> TypeGuard[NativeEnv]:
    """Whether this module plays in an environment: one that a GPU steps, without a look from the host."""
    return isinstance(env, NativeEnv) and env.device.type == "cuda"


def play(plan: AnyPlan, learner: AnyLearner, env: NativeEnv, actor: Maker, seed: Tensor, wanted: Tensor, longest: int) -> Played:
    """One episode in each of the env's copies; always with the same plan and manner of acting for an env."""
    if env not in _PROGRAMS:
        _PROGRAMS[env] = Program(plan, learner, env, actor, seed)
    return _PROGRAMS[env].play(learner, seed, wanted, longest)


class Program:
    """Tensors that a graph reads and edits, and the graph."""

    def __init__(self, plan: AnyPlan, learner: AnyLearner, env: NativeEnv, actor: Maker, seed: Tensor) -> None:
        self._plan, self._env, self._seed = plan, env, seed.clone()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._learner = _copied(plan, learner)
        self._act = actor(self._learner, self._seed)
        self._obs = env.reset().clone()
        self._mask = None if env.action_mask is None else env.action_mask.clone()
        self._at = At(*(None if each is None else each.clone() for each in env.here()))  # type: ignore[arg-type]
        self._time = torch.zeros((), dtype=torch.int64, device=seed.device)
        shape = (env.members, env.n_envs)
        self._returns, self._lengths, self._success = (torch.zeros(shape, dtype=torch.float64, device=seed.device) for _ in range(3))
        self._alive = torch.zeros(shape, dtype=torch.bool, device=seed.device)

    def play(self, learner: AnyLearner, seed: Tensor, wanted: Tensor, longest: int) -> Played:
        """One episode in each copy with this learner's policies."""
        if self._graph is None and seed.is_cuda:
            self._graph, _ = cuda_graphs.captured(lambda: self._steps(STEPS), lambda: self._steps(1))
        self._begin(learner, seed, wanted)
        for first in range(0, longest, STEPS):
            if not bool(self._alive.any()):
                break
            if self._graph is None or first + STEPS > longest:
                self._steps(min(STEPS, longest - first))
            else:
                self._graph.replay()
        return self._returns, self._lengths, self._success

    def _begin(self, learner: AnyLearner, seed: Tensor, wanted: Tensor) -> None:
        for own, given in zip(_tensors(self._plan, self._learner), _tensors(self._plan, learner), strict=True):
            own.copy_(given)
        self._seed.copy_(seed)
        self._obs.copy_(self._env.reset())
        self._stand(self._env.here(), self._env.action_mask)
        self._time.zero_()
        self._returns.zero_()
        self._lengths.zero_()
        self._success.fill_(torch.nan)
        self._alive.copy_(wanted.unsqueeze(1).expand_as(self._alive))

    def _stand(self, at: At, mask: Tensor | None) -> None:
        for own, new in zip((*self._at, self._mask), (*at, mask), strict=True):
            if own is not None and new is not None:
                own.copy_(new)

    @torch.no_grad()
    def _steps(self, count: int) -> None:
        at, obs, mask = self._at, self._obs, self._mask
        for number in range(count):
            at, step = self._env.advance(at, self._act(obs, mask, self._time + number))
            self._returns += step.reward.double() * self._alive
            self._lengths += self._alive
            end = step.terminated | step.truncated
            if step.success is not None:
                self._success.copy_(torch.where(self._alive & end, step.success.double(), self._success))
            self._alive &= ~end
            obs, mask = step.obs, step.action_mask
        self._obs.copy_(obs)
        self._stand(at, mask)
        self._time += count


def _tensors(plan: AnyPlan, learner: AnyLearner) -> list[Tensor]:
    """All that acting reads of a learner."""
    if isinstance(learner, on_policy.Learner):
        return [learner.flat, *(learner.obs_stats or ())]
    assert isinstance(plan, off_policy.Plan)
    return [off_policy.deployed_weights(plan, learner), *(learner.obs_stats or ())]


def _copied(plan: AnyPlan, learner: AnyLearner) -> AnyLearner:
    weights, *stats = (tensor.clone() for tensor in _tensors(plan, learner))
    seen = Moments(*stats) if stats else None
    if isinstance(learner, on_policy.Learner):
        return replace(learner, flat=weights, obs_stats=seen)
    assert isinstance(plan, off_policy.Plan)
    return replace(learner, nets={plan.algo.ACTOR: weights}, targets={}, obs_stats=seen)
