"""The returns at which Gymnasium's own environments count as solved, as its registry has them: logs name the environment, rarely this."""

import re
from dataclasses import replace
from typing import Final

from rlclinic.runs.history import History

REGISTERED: Final = {
    "CartPole-v0": 195.0, "CartPole-v1": 475.0, "MountainCar-v0": -110.0, "MountainCarContinuous-v0": 90.0, "Acrobot-v1": -100.0,
    "LunarLander": 200.0, "LunarLanderContinuous": 200.0, "BipedalWalker": 300.0, "BipedalWalkerHardcore": 300.0, "CarRacing": 900.0,
    "FrozenLake-v1": 0.7, "FrozenLake8x8-v1": 0.85, "Taxi": 8.0, "Pusher": 0.0, "Reacher": -3.75, "InvertedPendulum": 950.0,
    "InvertedDoublePendulum": 9100.0, "HalfCheetah": 4800.0, "Hopper": 3800.0, "Swimmer": 360.0, "Ant": 6000.0,
}  # fmt: skip
"""Without a version where all versions have the same."""


def add_registered_threshold(history: History) -> History:
    """A history with its environment's own threshold, where neither the log nor the user names one."""
    if history.threshold is not None or history.env_id is None or history.source == "rlclinic":
        return history
    known = REGISTERED.get(history.env_id, REGISTERED.get(re.sub(r"-v\d+$", "", history.env_id)))
    if known is None:
        return history
    note = f"threshold {known:g}: as Gymnasium registers {history.env_id}; another one can be given"
    return replace(history, threshold=known, settings={**history.settings, "spec.threshold": known}, notes=(*history.notes, note))
