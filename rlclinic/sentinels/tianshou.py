"""`SentinelHook` for Tianshou: Collector(algorithm, envs, buffer, on_step_hook=SentinelHook(writer, env=envs))."""

import json
from collections.abc import Mapping
from typing import Any

from rlclinic.sentinels.transitions import EVERY, Transitions, to_array

__all__ = ["SentinelHook"]


class SentinelHook:
    """Writes our sentinel columns beside Tianshou's own, from the training collector's steps.

    writer: the SummaryWriter of your TensorboardLogger. env: the training envs, for their spaces. policy: the algorithm or policy,
    for how far its weights move. settings: your script's arguments (vars(args)); Tianshou writes none down itself.
    It only looks, and another hook can be called before it: SentinelHook(writer, then=your_hook).
    """

    def __init__(
        self,
        writer: Any,
        *,
        env: Any = None,
        policy: Any = None,
        settings: Mapping[str, Any] | None = None,
        every: int = EVERY,
        then: Any = None,
    ) -> None:
        self._writer, self._then = writer, then
        parameters = list(policy.parameters()) if policy is not None else []
        self._transitions = Transitions(
            action_space=_find_space(env, "action_space"),
            observation_space=_find_space(env, "observation_space"),
            parameters=parameters,
            every=every,
        )
        if settings:
            plain = {key: value for key, value in settings.items() if isinstance(value, bool | int | float | str)}
            writer.add_text("config", json.dumps(plain))

    def __call__(self, action_batch: Any, rollout_batch: Any) -> None:
        """After each step of the collector."""
        if self._then is not None:
            self._then(action_batch, rollout_batch)
        seen = rollout_batch
        row = self._transitions.add(to_array(seen.obs), to_array(seen.act), seen.rew, seen.terminated, seen.truncated)
        for name, value in (row or {}).items():
            self._writer.add_scalar(name, value, self._transitions.env_steps)


def _find_space(env: Any, name: str) -> Any:
    """A vector env has one space for each env, or one for all."""
    space = getattr(env, name, None)
    return space[0] if isinstance(space, list) and space else space
