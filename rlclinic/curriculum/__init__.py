"""Which version of the task an episode is played in: stages one after the other, or a choice among all. Free of torch.

A sampler is one run's: it hears of every episode that has ended, in `add`, and says in `chances` how likely each task is for the next ones.
Its state is a few arrays of fixed shapes, which checkpoints keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlclinic.curriculum.automatic import AlpGmm, Learnability, Replayed, Uniform
from rlclinic.curriculum.episodes import Ended, Sampler
from rlclinic.curriculum.stages import Staircase

if TYPE_CHECKING:
    from rlclinic.config import CurriculumConfig

__all__ = ["Ended", "Sampler", "make_sampler"]

_KINDS = {"uniform": Uniform, "learnability": Learnability, "plr": Replayed, "alp_gmm": AlpGmm}


def make_sampler(config: CurriculumConfig, n_envs: int, max_env_steps: int) -> Sampler:
    """The sampler of one run that has not begun."""
    return Staircase(config, n_envs, max_env_steps) if config.kind == "stages" else _KINDS[config.kind](config)
