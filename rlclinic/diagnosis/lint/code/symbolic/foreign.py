"""Classes of libraries that hold what a script gives them, written as a script would write them, and followed like its own.

What they are worth to a reader is where values go: which argument comes out under which name, and in which shape. Nothing else of the
libraries is kept.
"""

import ast
from functools import cache
from typing import Final

_SOURCES: Final = {
    ("stable_baselines3.", "cleanrl_utils."): {
        "ReplayBuffer": """
class Batch:
    pass

class ReplayBuffer:
    def __init__(self, buffer_size, observation_space, action_space, device="auto", n_envs=1, optimize_memory_usage=False,
                 handle_timeout_termination=True):
        self.observations = np.zeros((buffer_size, *observation_space.shape))
        self.next_observations = np.zeros((buffer_size, *observation_space.shape))
        self.actions = np.zeros((buffer_size, *action_space.shape))
        self.rewards = np.zeros((buffer_size, 1))
        self.dones = np.zeros((buffer_size, 1))
        self.pos = 0
        if handle_timeout_termination:
            self.end = lambda done, infos: done and not infos[0].get("TimeLimit.truncated", False)
        else:
            self.end = lambda done, infos: done

    def add(self, obs, next_obs, action, reward, done, infos=None):
        self.observations[self.pos] = obs
        self.next_observations[self.pos] = next_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.dones[self.pos] = self.end(done, infos)
        self.pos += 1

    def sample(self, batch_size, env=None):
        rows = np.random.randint(0, self.pos, size=batch_size)
        batch = Batch()
        batch.observations = self.observations[rows]
        batch.next_observations = self.next_observations[rows]
        batch.actions = self.actions[rows]
        batch.rewards = self.rewards[rows]
        batch.dones = self.dones[rows]
        return batch
""",
    },
}


@cache
def source(path: str) -> ast.Module | None:
    """The classes that stand for one of a library; None for one that is not known."""
    name = path.rpartition(".")[2]
    found = next((held[name] for starts, held in _SOURCES.items() if path.startswith(starts) and name in held), None)
    return ast.parse("import numpy as np\n" + found) if found is not None else None
