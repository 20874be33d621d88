"""Faults of the outside looks, each planted as a user would write it: in a wrapper around the task, or in the settings of a script.

`TRUTH` says which of rlclinic's causes name each fault; `PLAIN` which faults a log without the callback's columns can tell, written
down before anything was diagnosed.
"""

from typing import Any, Final

import gymnasium as gym
import numpy as np

from benchmarks.diagnosis.outside.envs import ENVS

ENV_FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "obs-stale": ("observation-late",),
    "obs-frozen": ("observation-not-updated", "observation-constant", "observation-late"),
    "obs-feature-gone": ("observation-partial",),
    "obs-scale": ("observation-scale",),
    "obs-degrees": ("observation-scale",),
    "obs-noise": ("observation-noise", "observation-partial"),
    "obs-shuffled": ("observation-noise", "observation-partial"),
    "act-ignored": ("actions-without-effect",),
    "act-sometimes": ("actions-without-effect",),
    "act-late": ("observation-late",),
    "act-wide": ("action-bounds",),
    "act-narrow": ("action-bounds",),
    "rew-sign": ("reward-sign",),
    "rew-late": ("reward-delayed", "reward-sparse"),
    "rew-tiny": ("reward-scale-too-small",),
    "rew-huge": ("reward-scale-too-large",),
    "rew-clipped": ("reward-clipped",),
    "rew-shifted": ("reward-shifted",),
    "rew-lost": ("reward-never-seen", "reward-sparse"),
    "rew-noise": ("reward-noise",),
    "end-never": ("time-limit-missing",),
    "end-limit-short": ("episode-too-short",),
    "end-limit-terminal": ("time-limit-as-terminal",),
    "same-start": ("starts-identical",),
}

SETTING_FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "lr-high": ("learning-rate-too-high",),
    "lr-low": ("learning-rate-too-low",),
    "gamma-low": ("discount-too-low",),
    "entropy-high": ("entropy-bonus-too-high", "temperature-too-high"),
    "epochs-many": ("too-many-epochs",),
    "clip-tiny": ("clip-range-too-small",),
    "grad-clip": ("gradient-clip-too-tight",),
    "rollout-tiny": ("rollout-too-small",),
    "net-tiny": ("network-too-small",),
    "buffer-tiny": ("replay-too-small",),
    "starts-late": ("learning-starts-too-late",),
    "tau-one": ("target-follows-at-once",),
    "tau-tiny": ("target-not-updated",),
    "explore-always": ("exploration-never-ends",),
    "explore-never": ("exploration-ends-too-early",),
    "updates-few": ("too-few-updates",),
    "batch-tiny": ("batch-too-small",),
    "seeds-equal": ("seeds-identical",),
    "eval-raw": ("evaluation-without-normalizer", "evaluation-mismatch"),
    "eval-other": ("evaluation-environment-differs", "evaluation-mismatch"),
    "stopped-early": ("budget-too-small", "too-early"),
}
TRUTH: Final = ENV_FAULTS | SETTING_FAULTS

# What a plain progress.csv with monitor.csv holds: learning_rate, clip_range, n_updates, KL, clip fraction, entropy, losses, explained
# variance, std, exploration_rate, ent_coef of SAC, returns, lengths, and evaluations where there are any. No gamma, tau, batch or buffer.
PLAIN: Final = frozenset(
    {
        "lr-high",
        "lr-low",
        "epochs-many",
        "clip-tiny",
        "entropy-high",
        "starts-late",
        "explore-always",
        "explore-never",
        "seeds-equal",
        "eval-raw",
        "eval-other",
        "rew-huge",
        "rew-tiny",
        "rew-lost",
        "end-never",
        "updates-few",
    }
)


class Faulty(gym.Wrapper[np.ndarray, Any, np.ndarray, Any]):
    """A task with one fault; `info["sound_return"]` at an episode's end is what the sound reward would have summed to."""

    def __init__(self, name: str, fault: str | None = None, size: float = 1.0) -> None:
        env = ENVS[name]()
        limit = ENVS[name].limit
        if fault == "end-limit-short":
            limit = max(2, int(limit * 0.12 / size))
        if fault == "end-never":
            limit = 10**9
        super().__init__(gym.wrappers.TimeLimit(env, limit))
        self.name, self.fault, self.size, self.rng = name, fault, size, np.random.default_rng(7)
        self.n_obs = env.observation_space.shape[0]
        self.history: list[np.ndarray] = []
        self.kept = np.zeros(self.n_obs, np.float32)
        self.queue: list[Any] = []
        if isinstance(env.action_space, gym.spaces.Box) and fault in ("act-wide", "act-narrow"):
            bound = 40.0 * size if fault == "act-wide" else 0.03 / size
            self.action_space = gym.spaces.Box(-bound, bound, env.action_space.shape, np.float32)

    def _see(self, obs: np.ndarray, first: bool) -> np.ndarray:
        fault, lag = self.fault, max(1, round(4 * self.size))
        if first:
            self.history = [obs] * (lag + 1)
        self.history = [*self.history[-lag:], obs]
        if fault == "obs-stale":
            return self.history[0]
        if fault == "obs-frozen":
            self.kept = obs if first else self.kept
            return self.kept
        if fault == "obs-feature-gone":
            # What the task is about: the place of the goal, or what must be answered.
            obs = obs.copy()
            obs[list(ENVS[self.name].essential)] = 0.5
        elif fault == "obs-scale":
            obs = obs * np.float32(1e4 * self.size)
        elif fault == "obs-degrees":
            obs = (obs * np.float32(180 / np.pi) + np.float32(360 * self.size)).astype(np.float32)
        elif fault == "obs-noise":
            obs = (obs + self.rng.normal(0, 4 * self.size, obs.shape)).astype(np.float32)
        elif fault == "obs-shuffled":
            obs = self.rng.permutation(obs)
        return obs

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        if self.fault == "same-start":
            seed = 11
        obs, info = self.env.reset(seed=seed, options=options)
        self.sound, self.owed, self.steps, self.queue = 0.0, 0.0, 0, []
        return self._see(obs, first=True), info

    def _act(self, action: Any) -> Any:
        fault, space = self.fault, self.env.action_space
        if fault == "act-ignored" or (fault == "act-sometimes" and self.rng.random() < 1 - 0.15 / self.size):
            return int(self.rng.integers(space.n)) if isinstance(space, gym.spaces.Discrete) else self.rng.uniform(-1, 1, space.shape)
        if fault == "act-late":
            self.queue = [*self.queue, action]
            late = max(2, round(5 * self.size))
            return self.queue[-late - 1] if len(self.queue) > late else self.queue[0]
        return action

    def _pay(self, reward: float, over: bool) -> float:
        fault, size = self.fault, self.size
        self.owed += reward
        if fault == "rew-late":
            return self.owed if over else 0.0
        return {
            "rew-sign": -reward,
            "rew-tiny": reward * 1e-4 / size,
            "rew-huge": reward * 3e3 * size,
            "rew-clipped": float(np.clip(reward, -0.02 * size, 0.02 * size)),
            "rew-shifted": reward + 2.0 * size,
            "rew-lost": 0.0,
            "rew-noise": reward + float(self.rng.normal(0, 15 * size)),
        }.get(str(fault), reward)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(self._act(action))
        reward = float(reward)
        self.sound += reward
        if self.fault == "end-limit-terminal" and truncated:
            terminated, truncated = True, False
        over = terminated or truncated
        if over:
            info["sound_return"] = self.sound
        return self._see(obs, first=False), self._pay(reward, over), terminated, truncated, info
