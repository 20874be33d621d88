"""An environment whose import leaves a mark: if the mark is there, its code was run."""

from dataclasses import dataclass
from pathlib import Path

CODE = """
import pathlib
pathlib.Path({mark!r}).write_text("run")
import gymnasium as gym
import numpy as np

class Env(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), 1.0, self.t >= 5, False, {{}}

class Wrapper(gym.Wrapper):
    pass
"""


@dataclass(frozen=True)
class Planted:
    """A file, and the mark that it leaves."""

    file: Path
    mark: Path

    @property
    def env(self) -> str:
        return f"{self.file}:Env"

    @property
    def was_run(self) -> bool:
        return self.mark.exists()


def plant(folder: Path, name: str = "stranger") -> Planted:
    """Write such an environment into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file, mark = folder / f"{name}.py", folder / f"{name}.mark"
    file.write_text(CODE.format(mark=str(mark)))
    return Planted(file, mark)
