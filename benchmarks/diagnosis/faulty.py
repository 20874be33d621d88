"""Environments that users get wrong, for whole cohorts: each member may have another fault, or none.

A fault is data (`EnvFault`). `planted(faults)` puts a wrapper around whatever `rlclinic.training.envs.make` returns; the order of the
faults is the order of the runs. Evaluation environments have the fault too, as a user's would, unless it names one side.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rlclinic.training import assembly, envs
from rlclinic.training.envs.assembly import put_around
from rlclinic.training.envs.base import ActionSpec, Step
from rlclinic.training.sentinels import random_policy


@dataclass(frozen=True)
class EnvFault:
    """What is wrong with one member's environment; the defaults are a good one."""

    reward_scale: float = 1.0
    reward_offset: float = 0.0
    """Added to every reward."""
    reward_noise: float = 0.0
    """Standard deviation of Gaussian noise on every reward."""
    reward_clip: float = 0.0
    """Rewards are cut to +- this in training; 0: not."""
    reward_late: bool = False
    """Only one reward in twenty is paid, at random, at the same scale."""
    action_cost: float = 0.0
    """Price of the square of a continuous action, or of not choosing action 0."""
    obs_scale: tuple[float, ...] = ()
    """Factors of the observation's components, repeated as needed; 0 hides one."""
    obs_noise: float = 0.0
    """Noise on the observation, in units of its running spread over the envs."""
    obs_frozen: bool = False
    """The agent sees an episode's first observation for ever."""
    obs_late: bool = False
    """The observation is one step old."""
    obs_lag: int = 0
    """The observation is this many steps old; in an episode's first steps, its first one."""
    obs_shift: float = 0.0
    """Added to every component: a small signal on a large constant."""
    reward_every: int = 0
    """Rewards are kept back and paid together, every so many steps of an episode and at its end; 0: at once."""
    reward_at_end: bool = False
    """Only the reward of the step that ends the task is paid."""
    same_start: bool = False
    """Every episode of every environment begins in the same state."""
    action_ignored: bool = False
    """The same action is taken whatever the agent chose."""
    action_random: float = 0.0
    """Probability that the action is replaced by a random one."""
    action_flip_after: float = 0.0
    """From this env step of the run on, actions mean the opposite."""
    reward_flip_after: float = 0.0
    """From this env step of the run on, rewards are negated."""
    nan_after: float = 0.0
    """From this env step of the run on, observations are NaN."""
    action_scale: float = 1.0
    """Factor of a continuous action on its way to the environment."""
    limit_terminal: bool = False
    """The end of the time is reported as an end of the task."""
    train_only: bool = False
    """Evaluation environments are good: the fault lies in a wrapper of the training environments."""
    eval_only: bool = False
    """Training environments are good: evaluation differs."""
    bound: float = 0.0
    """The action box is [-bound, bound] and mapped to the true one; 0: untouched. Equal for all members of a cohort."""
    eval_limit: int = 0
    """The time limit of evaluation, where it is another than that of training; 0: the same. Equal for all members of a cohort."""

    def shape(self) -> tuple[float, int]:
        """What must be equal in a cohort."""
        return self.bound, self.eval_limit


class Clock:
    """Env steps that training has taken, shared with the evaluation environments."""

    def __init__(self) -> None:
        self.steps = 0


class Faulty:
    """A VecEnv around another: members with a fault see it, the others pass through untouched."""

    def __init__(self, env: Any, faults: Sequence[EnvFault], clock: Clock, evaluation: bool) -> None:
        self._env, self._clock, self._evaluation = env, clock, evaluation
        self.members, self.n_envs, self.exact, self.failures = env.members, env.n_envs, False, env.failures
        self.obs_shape, self.obs_low, self.obs_high = env.obs_shape, env.obs_low, env.obs_high
        self.action, self.max_episode_steps, self.picture = env.action, env.max_episode_steps, env.picture
        self.skips = env.skips
        idle = EnvFault()
        mine = [idle if (f.train_only if evaluation else f.eval_only) else f for f in faults]
        self._noise: torch.Generator | None = None
        self._numbers = {field.name: [getattr(f, field.name) for f in mine] for field in fields(EnvFault)}
        self._tensors: dict[str, Tensor] = {}
        self._factor = 1.0
        if bound := mine[0].bound:
            self._factor = float(np.max(env.action.high)) / bound
            self.action = ActionSpec("box", env.action.sizes, np.full_like(env.action.low, -bound), np.full_like(env.action.high, bound))
        if any(f.same_start for f in mine):
            env._starts = _SameStarts(env._starts, [f.same_start for f in mine])
        self._longest = max((f.obs_lag for f in mine), default=0)
        widest = max((len(f.obs_scale) for f in mine), default=0)
        self._any = {name: any(bool(v) for v in values) for name, values in self._numbers.items()} | {"obs_scale": widest > 0}
        if self._any["obs_scale"]:
            # Bounds declared by the user's environment no longer hold: it declares none.
            self.obs_low, self.obs_high = np.full_like(env.obs_low, -np.inf), np.full_like(env.obs_high, np.inf)

    @property
    def action_mask(self) -> Tensor | None:
        return self._env.action_mask

    @property
    def stepping(self) -> Any:
        return self._env.stepping

    def _number(self, name: str, like: Tensor) -> Tensor:
        """[M, 1] of one field."""
        if name not in self._tensors:
            self._tensors[name] = torch.tensor([float(v) for v in self._numbers[name]], device=like.device).unsqueeze(1)
        return self._tensors[name]

    def _normal(self, like: Tensor) -> Tensor:
        if self._noise is None:
            self._noise = torch.Generator(like.device).manual_seed(1234 + self._evaluation)
        return torch.randn(like.shape, generator=self._noise, device=like.device)

    def _scales(self, like: Tensor) -> Tensor:
        if "obs_scale" not in self._tensors:
            size = like.shape[-1]
            rows = [[(s or (1.0,))[i % len(s or (1.0,))] for i in range(size)] for s in self._numbers["obs_scale"]]
            self._tensors["obs_scale"] = torch.tensor(rows, device=like.device).unsqueeze(1)
        return self._tensors["obs_scale"]

    def reset(self) -> Tensor:
        obs = self._env.reset()
        self._first = self._old = obs
        self._past = [obs] * (self._longest + 1)
        self._owed, self._age = torch.zeros(obs.shape[:2], device=obs.device), torch.zeros(obs.shape[:2], device=obs.device)
        return self._seen(obs, obs)

    def _seen(self, obs: Tensor, fresh: Tensor) -> Tensor:
        """What the agent is shown for a true observation."""
        if self._any["obs_frozen"]:
            obs = torch.where(self._number("obs_frozen", obs).unsqueeze(-1) > 0, fresh, obs)
        if self._any["obs_scale"]:
            obs = obs * self._scales(obs)
        if self._any["obs_shift"]:
            obs = obs + self._number("obs_shift", obs).unsqueeze(-1)
        if self._any["obs_noise"]:
            obs = obs + self._number("obs_noise", obs).unsqueeze(-1) * obs.std(1, keepdim=True).clamp(min=1e-3) * self._normal(obs)
        if self._any["nan_after"]:
            after = self._number("nan_after", obs)
            obs = torch.where(((after > 0) & (self._clock.steps > after)).unsqueeze(-1), torch.nan, obs)
        return obs

    def step(self, action: Tensor) -> Step:
        if not self._evaluation:
            self._clock.steps += self.n_envs
        step = self._env.step(self._taken(action))
        fresh = (step.terminated | step.truncated).unsqueeze(-1)
        first, self._first = self._first, torch.where(fresh, step.obs, self._first)
        true_next, true_obs = step.next_obs, step.obs
        if self._any["obs_late"]:
            late = self._number("obs_late", true_obs).unsqueeze(-1)
            true_next, self._old = torch.where(late > 0, self._old, true_next), torch.where(fresh, step.obs, step.next_obs)
            true_obs = torch.where((late > 0) & ~fresh, true_next, true_obs)
        if self._longest:
            true_next, true_obs = self._lagging(step, fresh)
        terminated, truncated = step.terminated, step.truncated
        if self._any["limit_terminal"]:
            wrong = truncated & (self._number("limit_terminal", step.reward) > 0)
            terminated, truncated = terminated | wrong, truncated & ~wrong
        # Within an episode both are one reading: a sensor is read once, and an episode's end shows nothing of the next one.
        next_seen = self._seen(true_next, first)
        return step._replace(
            next_obs=next_seen,
            obs=torch.where(fresh, self._seen(true_obs, self._first), next_seen),
            reward=self._paid(self._timed(step), action),
            terminated=terminated,
            truncated=truncated,
        )

    def _lagging(self, step: Step, fresh: Tensor) -> tuple[Tensor, Tensor]:
        """What is shown instead of next_obs and obs where observations lag; new episodes begin with a past of first ones."""
        lags = self._number("obs_lag", step.obs).long().unsqueeze(-1)  # [M, 1, 1]
        past = [step.next_obs, *self._past[: self._longest]]
        late = torch.stack(past)
        shown = late.gather(0, lags.unsqueeze(0).expand(1, *step.obs.shape)).squeeze(0)
        self._past = [torch.where(fresh, step.obs, each) for each in past]
        return shown, torch.where(fresh, step.obs, shown)

    def _timed(self, step: Step) -> Tensor:
        """Rewards as they come, late, or only at the end."""
        reward, ended = step.reward, step.terminated | step.truncated
        if self._any["reward_at_end"]:
            reward = torch.where((self._number("reward_at_end", reward) > 0) & ~step.terminated, 0.0, reward)
        if self._any["reward_every"]:
            every = self._number("reward_every", reward)
            self._owed, self._age = self._owed + reward, self._age + 1
            due = (every == 0) | ended | (self._age >= every)
            reward = torch.where(due, self._owed, 0.0)
            self._owed, self._age = self._owed.masked_fill(due, 0.0), self._age.masked_fill(due, 0.0)
        return reward

    def _taken(self, action: Tensor) -> Tensor:
        box = self.action.kind == "box"
        wide = (1,) * (action.dim() - 2)
        if self._any["action_flip_after"]:
            after = self._number("action_flip_after", action)
            flip = ((after > 0) & (self._clock.steps > after)).view(-1, 1, *wide)
            action = torch.where(flip, -action if box else self.action.sizes[0] - 1 - action, action)
        if self._any["action_ignored"]:
            action = torch.where(self._number("action_ignored", action).view(-1, 1, *wide) > 0, torch.zeros_like(action), action)
        if self._any["action_random"]:
            drawn = self._normal(action.float())
            other = 1.5 * drawn if box else (drawn.abs() * 1e4).long() % self.action.sizes[0]
            shape = action.shape[:2]
            lost = torch.rand(shape, generator=self._noise, device=action.device) < self._number("action_random", action)
            action = torch.where(lost.view(*shape, *wide), other.to(action.dtype), action)
        if box and any(factor != 1.0 for factor in self._numbers["action_scale"]):
            action = action * self._number("action_scale", action).view(-1, 1, *wide)
        return action * self._factor if box and self._factor != 1.0 else action

    def _paid(self, reward: Tensor, action: Tensor) -> Tensor:
        if self._any["reward_late"]:
            paid = torch.rand(reward.shape, generator=self._generator(reward), device=reward.device) < 0.05
            reward = torch.where((self._number("reward_late", reward) == 0) | paid, reward, 0.0)
        if self._any["action_cost"]:
            effort = action.float().clamp(-1, 1).square().flatten(2).mean(2) if self.action.kind == "box" else (action != 0).float()
            reward = reward - self._number("action_cost", reward) * effort
        if self._any["reward_flip_after"]:
            after = self._number("reward_flip_after", reward)
            reward = torch.where((after > 0) & (self._clock.steps > after), -reward, reward)
        if any(s != 1.0 for s in self._numbers["reward_scale"]):
            reward = reward * self._number("reward_scale", reward)
        if self._any["reward_offset"]:
            reward = reward + self._number("reward_offset", reward)
        if self._any["reward_noise"]:
            reward = reward + self._number("reward_noise", reward) * self._normal(reward)
        if self._any["reward_clip"] and not self._evaluation:
            most = self._number("reward_clip", reward)
            reward = torch.where(most > 0, reward.clamp(-most, most), reward)
        return reward

    def _generator(self, like: Tensor) -> torch.Generator:
        self._normal(like[:1, :1])
        assert self._noise is not None
        return self._noise

    def state(self) -> dict[str, Tensor]:
        return dict(self._env.state())

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        self._env.load_state(state)
        return self.reset()

    def retire(self, gone: Any) -> None:
        """Members that need not be stepped any more."""
        self._env.retire(gone)

    def close(self) -> None:
        self._env.close()


class _SameStarts:
    """Start states of a native environment; members with the fault have one for all."""

    def __init__(self, starts: Any, same: Sequence[bool]) -> None:
        self._starts, self._same = starts, torch.tensor(same)

    def forget(self) -> None:
        self._starts.forget()

    def at(self, episode: Tensor) -> Tensor:
        found: Tensor = self._starts.at(episode)
        if not hasattr(self, "_only"):
            self._only = found[:, :1].clone()
        same = self._same.to(found.device).view(-1, *(1,) * (found.dim() - 1))
        return torch.where(same, self._only, found)


class RescaledActions:
    """Gymnasium's RescaleAction around all copies at once."""

    def __init__(self, env: Any, min_action: float, max_action: float) -> None:
        self._env, inner = env, env.action
        self._low, self._factor = min_action, (inner.high - inner.low) / (max_action - min_action)
        self.action = ActionSpec("box", inner.sizes, np.full_like(inner.low, min_action), np.full_like(inner.high, max_action))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, action: Tensor) -> Step:
        low, factor = (torch.as_tensor(each, dtype=action.dtype, device=action.device) for each in (self._env.action.low, self._factor))
        return cast("Step", self._env.step(low + (action - self._low) * factor))


@contextmanager
def planted(faults: Sequence[EnvFault]) -> Iterator[None]:
    """Training environments with these faults, one for each run, inside the block."""
    if all(fault == EnvFault() for fault in faults):
        yield
        return
    make_good, clock, measured = envs.make, Clock(), list(faults)

    def make(
        config: Any, seeds: list[int], n_envs: int, device: str = "cpu", evaluation: bool = False, factory: Any = None, first_env: int = 0
    ) -> Any:
        # The fault lies in the environment: frames are stacked, rewards and actions rescaled around it.
        inner = config.model_copy(update={"frame_stack": 1, "time_in_obs": False, "reward_scale": 1.0, "wrappers": ()})
        if evaluation and faults[0].eval_limit:
            inner = inner.model_copy(update={"max_episode_steps": faults[0].eval_limit})
        made: Any = Faulty(
            make_good(inner, seeds, n_envs, device, evaluation, factory, first_env), measured[: len(seeds)], clock, evaluation
        )
        for wrapper in config.wrappers:
            made = RescaledActions(made, **wrapper.kwargs)
        return put_around(made, config)

    def compare_with_random(cohort: Any, factory: Any) -> None:
        """What a random policy gets differs by fault, and is measured for one run at a time."""
        known: dict[EnvFault, dict[str, float]] = {}
        for member, fault in zip(cohort.members, faults, strict=True):
            if fault not in known:
                measured[0] = fault
                known[fault] = random_policy.measure(cohort.config, native=True, factory=factory)
            member.baseline = known[fault]
        measured[0] = faults[0]

    compare_all, envs.make, assembly._compare_with_random = assembly._compare_with_random, make, compare_with_random
    try:
        yield
    finally:
        envs.make, assembly._compare_with_random = make_good, compare_all
