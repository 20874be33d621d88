"""`SentinelHook` for TorchRL: SentinelHook(env).register(trainer), or its numbers in a loop of your own."""

from collections.abc import Iterable
from typing import Any

from rlclinic.sentinels.transitions import EVERY, Transitions, to_array

__all__ = ["SentinelHook"]


class SentinelHook:
    """Our sentinel columns of what the collector delivers: a row of every 1,000 frames, or of a batch where that is larger.

    action_space, observation_space: of one Gymnasium env, for the shares of actions and the bounds; parameters: the loss module's,
    for how far they move from batch to batch. In a loop of your own, log what `hook(data)` returns.
    """

    def __init__(
        self, *, action_space: Any = None, observation_space: Any = None, parameters: Iterable[Any] = (), every: int = EVERY
    ) -> None:
        self._transitions = Transitions(
            action_space=action_space, observation_space=observation_space, parameters=parameters, every=every, in_time=True
        )

    def __call__(self, batch: Any) -> dict[str, Any]:
        """Take a batch, with "observation", "action" and "next" in it as TorchRL's envs write them; {} until there are enough frames."""
        rows = batch.reshape(-1)
        step = rows["next"]
        ended = _get(step, "terminated")
        row = self._transitions.add(_get(rows, "observation"), _get(rows, "action"), _get(step, "reward"), ended, _get(step, "truncated"))
        return dict(row or {})

    def register(self, trainer: Any, name: str = "rlclinic_sentinels") -> None:
        """Have a TorchRL Trainer call it before it learns from a batch, and log what it returns."""
        trainer.register_op("pre_steps_log", self)
        trainer.register_module(name, self)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: it can start at any batch."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to load."""


def _get(rows: Any, key: str) -> Any:
    return to_array(rows[key])
