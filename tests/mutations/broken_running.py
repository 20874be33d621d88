"""Broken versions of what surrounds learning: randomness, environments, evaluation, episodes, checkpoints.

Every function here takes the original and returns what a bug would make of it. Signatures are the originals'.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.envs.base import Step
from rlclinic.training.loops.on_policy import Learner, Position

# ── randomness ──


def negated(function: Any) -> Any:
    return lambda *arguments: -function(*arguments)


def seed_is_ignored(bits: Any) -> Any:
    return lambda seed, stream, *index: bits(seed * 0, stream, *index)


def same_draws_in_every_env(uniform: Any) -> Any:
    def broken(self: Any, stream: int, index: Tensor, count: int) -> Tensor:
        own, self._env = self._env, torch.zeros_like(self._env)
        try:
            return uniform(self, stream, index, count).expand(*self.shape, -1, -1).contiguous()
        finally:
            self._env = own

    return broken


def same_start_every_episode(uniform: Any) -> Any:
    return lambda self, stream, index, count: uniform(self, stream, index * 0 if stream == rng.RESET else index, count)


# ── environments ──


def no_time_limit(init: Any) -> Any:
    def broken(
        self: Any, dynamics: Any, seeds: list[int], n_envs: int, device: str = "cpu", _: Any = None, *more: Any, **named: Any
    ) -> None:
        init(self, dynamics, seeds, n_envs, device, None, *more, **named)

    return broken


def final_observation_overwritten(step: Any) -> Any:
    def broken(self: Any, action: Tensor) -> Step:
        taken: Step = step(self, action)
        return taken._replace(next_obs=taken.obs)

    return broken


def time_limit_reported_as_termination(step: Any) -> Any:
    def broken(self: Any, action: Tensor) -> Step:
        taken: Step = step(self, action)
        return taken._replace(terminated=taken.terminated | taken.truncated)

    return broken


def observation_one_step_late(step: Any) -> Any:
    def broken(self: Any, action: Tensor) -> Step:
        before = self._dynamics.observe(self._state)
        return step(self, action)._replace(obs=before)

    return broken


def never_reset(_: Any) -> Any:
    return lambda self, state, ended: state


def pole_may_fall_twice_as_far(advance: Any) -> Any:
    def broken(self: Any, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        state, reward, _ = advance(self, state, action, chance)
        return state, reward, (state.abs() > 2 * self._bounds).any(-1)

    return broken


# ── evaluation and statistics ──


def samples_where_the_mode_was_asked_for(evaluate: Any) -> Any:
    return lambda *arguments, deterministic, **rest: evaluate(*arguments, deterministic=False, **rest)


def mode_where_samples_were_asked_for(evaluate: Any) -> Any:
    return lambda *arguments, deterministic, **rest: evaluate(*arguments, deterministic=True, **rest)


def evaluation_without_normalizer(evaluate: Any) -> Any:
    return lambda plan, learner, *rest, **options: evaluate(plan, replace(learner, obs_stats=None), *rest, **options)


def returns_keep_adding_up(finish: Any) -> Any:
    def broken(self: Any, running: Any, ended: Any, success: Any) -> None:
        before = running[0].copy()
        finish(self, running, ended, success)
        running[0][...] = before

    return broken


# ── checkpoints and failures ──


def every_checkpoint_is_the_best(write: Any) -> Any:
    return lambda run, checkpoint, *, best, **more: write(run, checkpoint, best=True, **more)


def optimizer_state_lost(weights: Any) -> Any:
    return lambda *arguments, optimizer: weights(*arguments, optimizer=False)


def normalizer_lost(weights: Any) -> Any:
    def broken(policy: Any, found: Any, learner: Learner, *, optimizer: bool) -> Learner:
        return replace(weights(policy, found, learner, optimizer=optimizer), obs_stats=learner.obs_stats)

    return broken


def environments_start_anew(place: Any) -> Any:
    def broken(found: Any, learner: Learner, env: Any, episodes: Any) -> tuple[Learner, Position, bool]:
        learner, _, exact = place(found, learner, env, episodes)
        return learner, Position(env.reset(), env.action_mask), exact

    return broken


def broken_update_applied(_: Any) -> Any:
    return lambda cohort, before, after, *rest: after
