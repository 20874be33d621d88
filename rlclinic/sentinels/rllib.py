"""`SentinelCallback` for RLlib's new API stack: config.callbacks(SentinelCallback)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rlclinic.sentinels import readings
from rlclinic.sentinels.transitions import Transitions

if TYPE_CHECKING:
    RLlibCallback = object
else:
    try:
        from ray.rllib.callbacks.callbacks import RLlibCallback
    except ModuleNotFoundError:
        RLlibCallback = object

__all__ = ["SentinelCallback"]

KEY: Final = "sentinel"
"""Where the columns lie in RLlib's results: env_runners/sentinel/..."""


class SentinelCallback(RLlibCallback):
    """Logs our sentinel columns of every sample through RLlib's own metrics, into result.json, progress.csv and TensorBoard.

    It runs in every env runner, needs no arguments, and only looks. Off-policy algorithms sample a step at a time: a row is made of
    the last 1,000. Episodes of several agents are passed over.
    """

    _transitions: Transitions | None = None

    def on_sample_end(self, *, env_runner: Any = None, metrics_logger: Any = None, samples: Sequence[Any] = (), **_: Any) -> None:
        """After an env runner has sampled some episodes, whole ones or parts."""
        if metrics_logger is None:
            return
        if self._transitions is None:
            env = getattr(env_runner, "env", None)
            self._transitions = Transitions(
                action_space=getattr(env, "single_action_space", None),
                observation_space=getattr(env, "single_observation_space", None),
                in_time=True,
            )
        for episode in samples:
            if not hasattr(episode, "is_terminated") or not hasattr(episode, "get_observations"):
                continue
            rewards = np.asarray(episode.get_rewards(), dtype=np.float64)
            obs, actions = np.asarray(episode.get_observations()), np.asarray(episode.get_actions())
            if not len(rewards) or obs.dtype == object or actions.dtype == object:
                continue
            last = np.arange(len(rewards)) == len(rewards) - 1
            row = self._transitions.add(
                obs[: len(rewards)], actions, rewards, last & bool(episode.is_terminated), last & bool(episode.is_truncated)
            )
            for name, value in (row or {}).items():
                metrics_logger.log_value((KEY, name.removeprefix(readings.PREFIX)), value, window=1)
