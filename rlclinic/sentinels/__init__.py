"""Sentinels for other people's training loops, so that diagnosis knows as much about their runs as about ours.

`rlclinic.sentinels.sb3.SentinelCallback` for Stable-Baselines3, `rlclinic.sentinels.torch_loop.Sentinels` for a loop written by
hand (CleanRL's). Both only look: the weights come out the same, bit for bit, with them and without. Columns have the names of the
metric dictionary, so that any log which holds them can be read back. `rllib`, `tianshou`, `skrl` and `torchrl` have less, made of the
transitions alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlclinic.sentinels.sb3 import SentinelCallback
    from rlclinic.sentinels.torch_loop import Sentinels

__all__ = ["SentinelCallback", "Sentinels"]

_HOMES = {"SentinelCallback": "rlclinic.sentinels.sb3", "Sentinels": "rlclinic.sentinels.torch_loop"}


def __getattr__(name: str) -> Any:
    # Each needs a framework that the other's users may not have.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
